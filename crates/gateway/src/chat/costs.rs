//! What a request says of its costs, as servers read it: some take `1` and `"true"` where a boolean is meant, and
//! `2.0` or `"2"` where a number is. And how much an answer said, from which its cost is guessed where the upstream
//! does not tell.

use crate::chat::splice::{self, Edit, Object};
use serde_json::Value;

/// Most tokens that are guessed of a request, and of each choice of its answer: an image is many bytes and few tokens.
pub const MOST_GUESSED: u64 = 128_000;
/// Where an event, or a whole answer, has what was said: in all choices, calls of tools and thoughts included.
const SAID: [&str; 5] = ["choices", "content", "content_block", "delta", "output"];
/// What is beside it, and is no part of the answer.
const BESIDE: [&str; 6] = ["finish_reason", "id", "logprobs", "object", "role", "type"];

/// Whether a stream ends with what it took.
#[derive(Clone, Debug, PartialEq)]
pub enum Usage {
    /// It does: the client wants that, or the answer does not stream.
    Told,
    /// Only if this is changed.
    Untold(Edit),
}

impl Usage {
    /// Of a stream that says so only if `stream_options` ask for it.
    pub fn asked(body: &str, object: &Object<'_>) -> Self {
        const WANTED: &str = r#"{"include_usage":true}"#;
        if !object.get("stream").is_some_and(|stream| is_true(stream.value)) {
            return Self::Told;
        }
        let edit = match object.get("stream_options") {
            None => splice::added_member(body, "stream_options", WANTED),
            Some(options) => match Object::read(body, options.value) {
                None => Some(Edit { at: options.at.clone(), text: WANTED.to_owned() }),
                Some(inner) => match inner.get("include_usage") {
                    Some(wanted) if wanted.value == "true" => None,
                    Some(wanted) => Some(Edit { at: wanted.at.clone(), text: "true".to_owned() }),
                    None => {
                        splice::added_member(options.value, "include_usage", "true").map(|edit| {
                            let at = edit.at.start + options.at.start;
                            Edit { at: at..at, ..edit }
                        })
                    }
                },
            },
        };
        edit.map_or(Self::Told, Self::Untold)
    }
}

/// Whether a server may take this as true.
pub fn is_true(json: &str) -> bool {
    let text = serde_json::from_str::<String>(json).unwrap_or_else(|_| json.to_owned());
    let word = text.trim().to_ascii_lowercase();
    let is_false = matches!(&*word, "" | "f" | "false" | "n" | "no" | "null" | "off");
    !is_false && word.parse::<f64>().ok() != Some(0.0)
}

/// A number, as a server may read it.
pub fn number(json: &str) -> Option<u64> {
    let number = match serde_json::from_str(json).ok()? {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    // What is below 0, or no number, is 0.
    number.map(|number| number as u64)
}

/// How many bytes were said in the data of an event, or in a whole answer. What cannot be read counts as it is.
pub fn bytes_said(data: &str) -> usize {
    match serde_json::from_str::<Value>(data) {
        Ok(Value::Object(event)) => {
            SAID.iter().filter_map(|name| event.get(*name)).map(bytes_in).sum()
        }
        _ => data.len(),
    }
}

fn bytes_in(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(bytes_in).sum(),
        Value::Object(fields) => {
            let said = fields.iter().filter(|(name, _)| !BESIDE.contains(&name.as_str()));
            said.map(|(_, value)| bytes_in(value)).sum()
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_generously_as_servers_do() {
        for json in ["true", "1", "1.0", "\"true\"", "\"Yes\"", "\"on\"", "[]", "\"1\""] {
            assert!(is_true(json), "{json}");
        }
        for json in ["false", "null", "0", "0.0", "\"false\"", "\"off\"", "\"\"", "\"0\""] {
            assert!(!is_true(json), "{json}");
        }
        for (json, expected) in [
            ("2", Some(2)),
            ("2.0", Some(2)),
            ("\" 2 \"", Some(2)),
            ("-1", Some(0)),
            ("1e30", Some(u64::MAX)),
            ("null", None),
            ("[2]", None),
            ("\"many\"", None),
        ] {
            assert_eq!(number(json), expected, "{json}");
        }
    }

    #[test]
    fn everything_that_was_said_counts() {
        for (data, expected) in [
            (
                r#"{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"role":"assistant","content":"ab"}}]}"#,
                2,
            ),
            (
                r#"{"choices":[{"index":1,"delta":{"content":"cde"}},{"delta":{"reasoning_content":"f"}}]}"#,
                4,
            ),
            (
                r#"{"choices":[{"delta":{"tool_calls":[{"id":"call_1","type":"function","function":{"name":"go","arguments":"{\"a\""}}]}}]}"#,
                6,
            ),
            (
                r#"{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"hm"}}"#,
                2,
            ),
            (
                r#"{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{}"}}"#,
                2,
            ),
            (r#"{"type":"content_block_start","content_block":{"type":"text","text":"a"}}"#, 1),
            (
                r#"{"type":"message","role":"assistant","content":[{"type":"text","text":"abc"}]}"#,
                3,
            ),
            (
                r#"{"type":"response.function_call_arguments.delta","delta":"{}","item_id":"fc_1"}"#,
                2,
            ),
            (r#"{"type":"response.output_text.done","text":"said before"}"#, 0),
            (
                r#"{"output":[{"type":"message","content":[{"type":"output_text","text":"ab"}]}]}"#,
                2,
            ),
            (r#"{"choices":[],"usage":{"prompt_tokens":9}}"#, 0),
            ("{\"choices\":[{\"del", 17),
        ] {
            assert_eq!(bytes_said(data), expected, "{data}");
        }
    }
}
