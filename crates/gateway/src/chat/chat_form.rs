//! How the request of a chat looks in each protocol: where the conversation is, what in it was said, and what only
//! goes on with it.

/// The form of one protocol.
#[derive(Debug)]
pub struct Form {
    /// The field that holds the conversation.
    pub conversation: &'static str,
    /// The field in which the application tells the model what it is to do, if not in the conversation.
    pub instructions: Option<&'static str>,
    /// The field in which a service says which of its users this is about.
    pub user: Option<&'static str>,
    /// Whether the conversation may be missing, or one text of the user instead of a list.
    pub takes_text: bool,
    /// Whether a part of a message, of this kind, is a text that user or assistant said.
    pub is_text: fn(kind: &str) -> bool,
    /// The fields that limit the tokens of the answer.
    pub limits: &'static [&'static str],
    /// Whether a stream says what it took only if `stream_options` ask for it.
    pub counts_when_asked: bool,
}

/// `/v1/chat/completions` of OpenAI.
pub static COMPLETIONS: Form = Form {
    conversation: "messages",
    instructions: None,
    user: Some("user"),
    takes_text: false,
    is_text: |kind| kind == "text",
    limits: &["max_completion_tokens", "max_tokens"],
    counts_when_asked: true,
};

/// `/v1/responses` of OpenAI.
pub static RESPONSES: Form = Form {
    conversation: "input",
    instructions: Some("instructions"),
    user: Some("user"),
    takes_text: true,
    is_text: |kind| kind == "input_text" || kind == "output_text",
    limits: &["max_output_tokens"],
    counts_when_asked: false,
};

/// `/v1/messages` of Anthropic.
pub static MESSAGES: Form = Form {
    conversation: "messages",
    instructions: Some("system"),
    user: None,
    takes_text: false,
    is_text: |kind| kind == "text",
    limits: &["max_tokens"],
    counts_when_asked: false,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::chat_request::ChatRequest;
    use axum::http::HeaderMap;
    use serde_json::json;

    fn read(form: &Form, body: &str) -> ChatRequest {
        ChatRequest::read(form, body.as_bytes().to_vec(), &HeaderMap::new()).unwrap()
    }

    #[test]
    fn the_input_is_a_text_or_a_list_of_items() {
        let body = r#"{"instructions":"Be 1.0","input": "Wo\u0068in?", "memory_id":"s", "z":1.0}"#;
        let request = read(&RESPONSES, body);
        assert_eq!(request.asked.as_ref().unwrap().message, "Wohin?");
        assert_eq!(
            request.with_memories("M: "),
            r#"{"instructions":"Be 1.0","input": "M: Wo\u0068in?", "z":1.0}"#
        );
        let body = r#"{"input":[{"role":"developer","content":"d"},
            {"role":"user","content":[{"type":"input_text","text":"a"}]},
            {"type":"reasoning","summary":[],"encrypted_content":"x"},
            {"type":"message","role":"assistant","content":[{"type":"output_text","text":"b"}]},
            {"type":"message","role":"user","content":[{"type":"input_image","image_url":"u"},{"type":"input_text","text":"c"}]}]}"#;
        let request = read(&RESPONSES, body);
        let asked = request.asked.clone().unwrap();
        assert_eq!(
            asked.messages,
            json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
                   {"role": "user", "content": "c"}])
        );
        assert!(!request.continues);
        let expected = body.replace(r#""text":"c""#, r#""text":"M: c""#);
        assert_eq!(request.with_memories("M: "), expected);
    }

    #[test]
    fn the_result_of_a_tool_goes_on_with_the_users_turn() {
        let body = r#"{"input":[{"role":"user","content":"a"},{"type":"function_call","call_id":"1"},
            {"type":"function_call_output","call_id":"1","output":"42"}]}"#;
        let request = read(&RESPONSES, body);
        assert!(request.continues);
        assert_eq!(request.asked.unwrap().message, "a");
        for body in [
            r#"{"previous_response_id":"r","input":[{"type":"function_call_output","output":"42"}]}"#,
            r#"{"prompt":{"id":"p"}}"#,
            r#"{"input":" "}"#,
        ] {
            let request = read(&RESPONSES, body);
            assert!(request.asked.is_none(), "{body}");
            assert_eq!(request.with_memories("x"), body);
        }
    }

    #[test]
    fn system_texts_and_reminders_stay_as_they_are() {
        let body = r#"{"system":[{"type":"text","text":"You are\u0020Claude Code.","cache_control":{"type":"ephemeral"}}],
            "max_tokens": 1.0, "memory_id":"s", "messages":[{"role":"user","content":[
            {"type":"text","text":"<system-reminder>\nCLAUDE.md says\n</system-reminder>"},
            {"type":"text","text":"Wo\u0068in?","cache_control":{"type":"ephemeral"}}]}]}"#;
        let request = read(&MESSAGES, body);
        assert_eq!(request.asked.as_ref().unwrap().message, "Wohin?");
        let expected = body.replace("Wo", "M: Wo").replace(r#" "memory_id":"s","#, "");
        assert_eq!(request.with_memories("M: "), expected);
    }

    #[test]
    fn the_result_of_a_tool_is_no_turn_of_the_user() {
        let result =
            r#"{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"42"}]}"#;
        let body = |last: &str| {
            format!(
                r#"{{"messages":[{{"role":"user","content":"a"}},{{"role":"assistant","content":[{{"type":"tool_use","id":"1"}}]}},{{"role":"user","content":[{last}]}}]}}"#
            )
        };
        let reminder =
            r#"{"type":"text","text":"<system-reminder>Mind the list.</system-reminder>"}"#;
        let other = r#"{"type":"text","text":"The hook ran."}"#;
        let image = r#"{"type":"image","source":{"type":"url","url":"x"}}"#;
        for last in [
            result.to_owned(),
            format!("{result},{reminder}"),
            format!("{reminder},{result}"),
            format!("{result},{other}"),
            format!("{other},{result},{reminder}"),
            reminder.to_owned(),
            image.to_owned(),
        ] {
            let request = read(&MESSAGES, &body(&last));
            assert!(request.continues, "{last}");
            let asked = request.asked.unwrap();
            assert_eq!((asked.message.as_str(), asked.is_followed), ("a", true), "{last}");
        }
        let stop = r#"{"type":"text","text":"[Request interrupted by user for tool use]"},{"type":"text","text":"Stop!"}"#;
        let request = read(&MESSAGES, &body(&format!("{result},{stop}")));
        assert!(!request.continues);
        let asked = request.asked.as_ref().unwrap();
        assert_eq!((asked.message.as_str(), asked.is_followed), ("Stop!", false));
        let expected = body(&format!("{result},{stop}")).replace("Stop!", "M: Stop!");
        assert_eq!(request.with_memories("M: "), expected);
    }
}
