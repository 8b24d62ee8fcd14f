//! Tests of OpenAI's shapes with answers as servers really send them.

use super::*;

fn text_of(body: &str) -> String {
    completion(body.as_bytes()).unwrap().text
}

#[test]
fn answers_of_different_servers_are_read() {
    // OpenAI, shortened
    let full = completion(
        br#"{"id":"chatcmpl-1","object":"chat.completion","model":"gpt-4o-mini-2024-07-18",
             "choices":[{"index":0,"message":{"role":"assistant","content":"hi","refusal":null,
             "annotations":[]},"logprobs":null,"finish_reason":"stop"}],
             "usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29,
             "prompt_tokens_details":{"cached_tokens":0}}}"#,
    )
    .unwrap();
    assert_eq!(full.document["usage"]["total_tokens"], 29);
    assert_eq!(
        Completion { document: Value::Null, ..full },
        Completion {
            text: "hi".to_owned(),
            calls_tools: false,
            finish: Finish::Stop,
            refusal: None,
            model: Some("gpt-4o-mini-2024-07-18".to_owned()),
            prompt_tokens: Some(19),
            completion_tokens: Some(10),
            document: Value::Null,
        }
    );
    assert_eq!(text_of(r#"{"choices":[{"message":{"content":"a"}}]}"#), "a");
    assert_eq!(
        text_of(
            r#"{"choices":[{"message":{"content":[{"type":"text","text":"a"},{"text":"b"}]}}]}"#
        ),
        "ab"
    );
    assert_eq!(text_of(r#"{"choices":[{"message":{"content":null,"tool_calls":[]}}]}"#), "");
    assert_eq!(text_of(r#"{"choices":[]}"#), "");
}

#[test]
fn tool_calls_beside_text_do_no_harm() {
    let body =
        br#"{"choices":[{"message":{"content":"a","tool_calls":[{}]},"finish_reason":"stop"}]}"#;
    let both = completion(body).unwrap();
    assert_eq!((both.finish, both.calls_tools), (Finish::Stop, true));
}

#[test]
fn calls_are_seen_without_text_and_in_the_older_form() {
    for message in [
        r#"{"content":"\n\n","tool_calls":[{}]}"#,
        r#"{"tool_calls":[{}],"function_call":null}"#,
        r#"{"content":null,"function_call":{"name":"f","arguments":"{}"}}"#,
    ] {
        let body = format!(r#"{{"choices":[{{"message":{message}}}]}}"#);
        let found = completion(body.as_bytes()).unwrap();
        assert_eq!((found.finish, found.calls_tools), (Finish::ToolCalls, true), "{message}");
    }
}

#[test]
fn what_is_no_answer_is_not_repeated() {
    let list = r#"[[{"message":{"content":"geheim"}}],null,null]"#;
    for body in ["geheim", "{\"geheim\": 1}", "[\"geheim\"]", "{\"choices\": \"geheim\"}", "", list]
    {
        let message = completion(body.as_bytes()).unwrap_err();
        assert!(!message.contains("geheim"), "{message}");
    }
}

#[test]
fn embeddings_are_sorted_and_numbered_once() {
    let rows = |body: &str, texts| vectors(body.as_bytes(), texts);
    let two = r#"{"data":[{"index":1,"embedding":[2]},{"index":0,"embedding":[1]}]}"#;
    assert_eq!(rows(two, 2), Ok(vec![vec![1.0], vec![2.0]]));
    let unnumbered = r#"{"data":[{"embedding":[1]},{"embedding":[2]}]}"#;
    assert_eq!(rows(unnumbered, 2), Ok(vec![vec![1.0], vec![2.0]]));
    let twice = r#"{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[2]}]}"#;
    assert!(rows(twice, 2).is_err());
    assert!(rows(two, 3).is_err());
    assert!(rows(r#"{"data":[{"embedding":"AAA="}]}"#, 1).is_err());
}
