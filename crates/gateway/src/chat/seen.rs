//! What the model reads in the request of a chat beside the messages that recall is told as such: instructions, the
//! whole conversation, what tools said. Memory leaves out what stands there.

use crate::chat::chat_form::Form;
use crate::chat::splice::{Array, Object};
use crate::chat::users_words::storable;
use memory_agent_core::text::half_characters::mended;
use serde_json::{Value, json};

/// Bytes of texts that go to the database, the instructions and then the newest first.
const MOST_BYTES: usize = 512 * 1024;
/// Where the texts of a message, of its parts and of what tools said stand.
const TEXTS: [&str; 3] = ["content", "text", "output"];

/// All that as messages with one text each, for `memory_augment`. Of the user's last message, the one `asked`, only
/// what tools said, and nothing of what came after it: while tools answer, the memories of the request stay as they are.
pub fn seen(form: &Form, object: &Object<'_>, messages: &Array<'_>, asked: usize) -> Value {
    let mut seen = Seen { messages: Vec::new(), left: MOST_BYTES };
    if let Some(member) = form.instructions.and_then(|name| object.get(name)) {
        let value: Value = serde_json::from_str(&mended(member.value)).unwrap_or_default();
        seen.add("system", &value);
    }
    let before = messages.0.get(..=asked).unwrap_or_default();
    for (at, text) in before.iter().enumerate().rev() {
        // What cannot be read is for the upstream to judge.
        let Ok(value) = serde_json::from_str::<Value>(&mended(text)) else { continue };
        let role = value["role"].as_str().unwrap_or("tool");
        if at == asked {
            let parts = value["content"].as_array().into_iter().flatten();
            parts.for_each(|part| seen.add("tool", &part["content"]));
        } else {
            seen.add(role, &value);
        }
    }
    Value::from(seen.messages)
}

struct Seen {
    messages: Vec<Value>,
    left: usize,
}

impl Seen {
    /// Adds the texts of a value, and what they say together: that is how a message of several parts is stored.
    fn add(&mut self, role: &str, value: &Value) {
        let mut texts = Vec::new();
        collect(value, &mut texts);
        if texts.len() > 1 {
            texts.push(texts.join("\n\n"));
        }
        for text in texts {
            match self.left.checked_sub(text.len()) {
                Some(left) => self.left = left,
                None => break,
            }
            self.messages.push(json!({"role": role, "content": storable(text)}));
        }
    }
}

fn collect(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(parts) => parts.iter().for_each(|part| collect(part, texts)),
        Value::Object(members) => {
            TEXTS.iter().filter_map(|name| members.get(*name)).for_each(|of| collect(of, texts));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::chat_form::{COMPLETIONS, MESSAGES, RESPONSES};
    use crate::chat::chat_request::ChatRequest;
    use axum::http::HeaderMap;

    fn read(form: &Form, body: &Value) -> Vec<String> {
        let body = body.to_string().into_bytes();
        let request = ChatRequest::read(form, body, &HeaderMap::new()).unwrap();
        let seen = request.seen.as_array().unwrap().iter();
        seen.map(|seen| {
            format!("{}: {}", seen["role"].as_str().unwrap(), seen["content"].as_str().unwrap())
        })
        .collect()
    }

    #[test]
    fn everything_but_the_message_itself_is_seen() {
        let said = json!({"role": "assistant", "content": "c", "tool_calls": [{"id": "1"}]});
        let completions = json!({"messages": [
            {"role": "system", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b\0"}]},
            said, {"role": "tool", "tool_call_id": "1", "content": "d"}, {"role": "user", "content": "e"},
            {"role": "tool", "tool_call_id": "2", "content": "f"}]});
        let seen =
            ["tool: d", "assistant: c", "system: a", "system: b\u{fffd}", "system: a\n\nb\u{fffd}"];
        assert_eq!(read(&COMPLETIONS, &completions), seen);
        let responses = json!({"instructions": "a", "input": [said, {"role": "user", "content": "e"},
            {"type": "function_call", "arguments": "{}"}, {"type": "function_call_output", "output": "f"}]});
        assert_eq!(read(&RESPONSES, &responses), ["system: a", "assistant: c"]);
        assert_eq!(read(&RESPONSES, &json!({"instructions": null, "input": "e"})), [""; 0]);
        let result = json!({"type": "tool_result", "content": [{"type": "text", "text": "f"}]});
        let marker = json!({"type": "text", "text": "[Request interrupted by user]"});
        let messages = json!({"system": [{"type": "text", "text": "a"}], "messages": [
            {"role": "user", "content": [result]}, {"role": "user", "content": [result, marker, {"type": "text", "text": "e"}]}]});
        assert_eq!(read(&MESSAGES, &messages), ["system: a", "tool: f", "user: f"]);
    }

    #[test]
    fn of_a_long_request_the_newest_is_seen() {
        let long = "x".repeat(MOST_BYTES / 2);
        let said: Vec<Value> = ["old", "new", "last"]
            .iter()
            .map(|text| json!({"role": "user", "content": format!("{text}{long}")}))
            .collect();
        let seen = read(&COMPLETIONS, &json!({"messages": said}));
        assert_eq!(seen.len(), 1);
        assert!(seen[0].starts_with("user: new"));
    }
}
