//! A request to `/v1/chat/completions`: what it says about memory, what the user says in it, and the
//! request that goes upstream. That is the caller's, byte for byte, but for the `memory_*` fields and the
//! user's last text.

use crate::splice::{self, Array, Edit, Object};
use axum::http::{HeaderMap, HeaderName};
use memory_agent_core::augment::original_message;
use serde_json::{Value, json};
use std::ops::Range;

/// Fields of the body that begin like this are for the gateway, and go no further.
const FIELDS: &str = "memory_";
/// The session of a request that names none.
const DEFAULT_SESSION: &str = "default";
/// Messages before the user's last one that go to the database with it: it tells from them what pronouns
/// stand for, where that is switched on.
const EARLIER_MESSAGES: usize = 8;
/// The longest key of a request, in bytes.
const MAX_KEY_BYTES: usize = 512;

/// What the client asked about memory, in fields of the body or in headers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extras {
    /// The conversation.
    pub session_id: String,
    /// Most memories; 0 for none.
    pub top_k: Option<i32>,
    /// 0 to 1: how much newer memories come first.
    pub recency_weight: Option<f32>,
    /// The least score of a memory.
    pub score_threshold: Option<f32>,
}

/// What the user said last.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// As the user typed it, without memories that a client put before it.
    pub message: String,
    /// Who said it, where the message has a name.
    pub name: Option<String>,
    /// The last messages, as texts, for `memory_augment`. The last one is the user's.
    pub messages: Value,
    /// The text of the last one.
    text: String,
    place: Place,
}

/// Where in the body the user's text stands.
#[derive(Clone, Debug, PartialEq)]
enum Place {
    /// A string.
    Text(Range<usize>),
    /// Texts among the parts of a message: the string of the first one, and what takes the others out.
    Parts { first: Range<usize>, without_others: Vec<Edit> },
}

/// A request that was read.
#[derive(Clone, Debug)]
pub struct ChatRequest {
    body: String,
    edits: Vec<Edit>,
    /// What is asked about memory.
    pub extras: Extras,
    /// `None` when there is no text of the user in it.
    pub asked: Option<Asked>,
    /// Whether it goes on after a tool was called: then the user said nothing new.
    pub continues: bool,
    /// The key that the client repeats when it repeats the request.
    pub key: Option<String>,
}

impl ChatRequest {
    /// Reads a body and the headers it came with.
    ///
    /// # Errors
    /// What is wrong with it, for the client. Only what matters here is looked at: the rest is for the
    /// upstream to judge.
    pub fn read(body: &[u8], headers: &HeaderMap) -> Result<Self, String> {
        let body = std::str::from_utf8(body).map_err(|_| "the body is not UTF-8".to_owned())?;
        let object = Object::read(body, body).ok_or("the body is not a JSON object")?;
        let extras = Extras::read(&object, headers)?;
        let edits = object.without(|name| name.starts_with(FIELDS));
        let messages = object.get("messages").and_then(|member| Array::read(member.value));
        let messages = messages.ok_or("messages is not a list")?;
        let key = header(headers, "idempotency-key")?;
        if key.as_ref().is_some_and(|key| key.is_empty() || key.len() > MAX_KEY_BYTES) {
            return Err(format!("Idempotency-Key must have 1 to {MAX_KEY_BYTES} bytes"));
        }
        Ok(Self {
            edits,
            extras,
            asked: asked(body, &messages),
            continues: messages.0.last().is_some_and(|last| {
                let role = Object::read(body, last).and_then(|message| message.text("role"));
                role.is_some_and(|role| role == "tool" || role == "function")
            }),
            key,
            body: body.to_owned(),
        })
    }

    /// The body for the upstream without memories.
    pub fn plain(&self) -> String {
        splice::edited(&self.body, self.edits.clone())
    }

    /// The body for the upstream with this text in the place of the user's last one.
    pub fn with_memories(&self, text: &str) -> String {
        let mut edits = self.edits.clone();
        if let Some(asked) = &self.asked {
            edits.extend(asked.replaced_by(text));
        }
        splice::edited(&self.body, edits)
    }
}

impl Asked {
    /// What puts the text into the body. Where memories come before the message, they are inserted, and
    /// the message stays as it was written.
    fn replaced_by(&self, text: &str) -> Vec<Edit> {
        let (string, mut others) = match &self.place {
            Place::Text(string) => (string, Vec::new()),
            Place::Parts { first, without_others } => (first, without_others.clone()),
        };
        match text.strip_suffix(self.text.as_str()) {
            Some("") => Vec::new(),
            Some(before) => {
                let quoted = splice::quoted(before);
                let inner = quoted.trim_start_matches('"');
                let inner = inner.strip_suffix('"').unwrap_or(inner);
                let start = string.start + 1;
                vec![Edit { at: start..start, text: inner.to_owned() }]
            }
            None => {
                others.push(Edit { at: string.clone(), text: splice::quoted(text) });
                others
            }
        }
    }
}

impl Extras {
    fn read(body: &Object<'_>, headers: &HeaderMap) -> Result<Self, String> {
        let field = |name: &str| -> Result<Option<Value>, String> {
            if let Some(member) = body.get(&format!("{FIELDS}{name}")) {
                let value: Value = serde_json::from_str(member.value).unwrap_or_default();
                if !value.is_null() {
                    return Ok(Some(value));
                }
            }
            let header = header(headers, &format!("x-memory-{}", name.replace('_', "-")))?;
            Ok(header.map(|text| match serde_json::from_str::<Value>(&text) {
                Ok(number) if number.is_number() && name != "id" => number,
                _ => Value::from(text),
            }))
        };
        let number = |name: &str| -> Result<Option<f32>, String> {
            field(name)?
                .map(|value| value.as_f64().map(|number| number as f32))
                .map(|number| number.ok_or(format!("{FIELDS}{name} is not a number")))
                .transpose()
        };
        let session_id = match field("id")? {
            None => DEFAULT_SESSION.to_owned(),
            Some(Value::String(id)) if !id.trim().is_empty() => id,
            Some(_) => return Err("memory_id is not a text, or blank".to_owned()),
        };
        let top_k = match field("top_k")? {
            None => None,
            Some(value) => {
                let number = value.as_i64().and_then(|number| i32::try_from(number).ok());
                Some(number.ok_or("memory_top_k is not a whole number")?)
            }
        };
        Ok(Self {
            session_id,
            top_k,
            recency_weight: number("recency_weight")?,
            score_threshold: number("score_threshold")?,
        })
    }
}

fn header(headers: &HeaderMap, name: &str) -> Result<Option<String>, String> {
    let name: HeaderName = name.parse().map_err(|_| format!("{name} is no header"))?;
    headers
        .get(&name)
        .map(|value| value.to_str().map(|text| text.trim().to_owned()))
        .transpose()
        .map_err(|_| format!("the header {name} has bytes that are no text"))
}

/// The user's last message and those before it; `None` when it has no text.
fn asked(body: &str, messages: &Array<'_>) -> Option<Asked> {
    let mut earlier = Vec::new();
    let mut asked = None;
    for text in messages.0.iter().rev() {
        let Some(message) = Object::read(body, text) else { continue };
        let role = message.text("role").unwrap_or_default();
        if asked.is_none() {
            if role == "user" {
                asked = Some(last_of_user(body, &message)?);
            }
        } else if role == "user" || role == "assistant" {
            if let Some((content, _)) = content(body, &message) {
                earlier.push(json!({"role": role, "content": content}));
            }
            if earlier.len() == EARLIER_MESSAGES {
                break;
            }
        }
    }
    let mut asked = asked?;
    earlier.reverse();
    earlier.push(json!({"role": "user", "content": asked.text}));
    asked.messages = Value::from(earlier);
    Some(asked)
}

fn last_of_user(body: &str, message: &Object<'_>) -> Option<Asked> {
    let (text, place) = content(body, message)?;
    let typed = original_message(&text).to_owned();
    let name = message.text("name").filter(|name| !name.trim().is_empty());
    (!typed.trim().is_empty()).then(|| Asked {
        message: typed,
        name,
        messages: Value::Null,
        text,
        place,
    })
}

/// The text of a message, several parts as several paragraphs, and where it stands; `None` without text.
fn content(body: &str, message: &Object<'_>) -> Option<(String, Place)> {
    let member = message.get("content")?;
    if let Ok(text) = serde_json::from_str::<String>(member.value) {
        return Some((text, Place::Text(member.at.clone())));
    }
    let parts = Array::read(member.value)?;
    let texts: Vec<(usize, String, Range<usize>)> = parts
        .0
        .iter()
        .enumerate()
        .filter_map(|(number, part)| {
            let part = Object::read(body, part)?;
            let is_text = part.text("type").is_some_and(|kind| kind == "text");
            let text = part.text("text").filter(|_| is_text)?;
            Some((number, text, part.get("text")?.at.clone()))
        })
        .collect();
    let (kept, _, first) = texts.first()?.clone();
    let is_other = |number| number != kept && texts.iter().any(|text| text.0 == number);
    let without_others = parts.without(body, is_other);
    let text: Vec<String> = texts.iter().map(|text| text.1.clone()).collect();
    Some((text.join("\n\n"), Place::Parts { first, without_others }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> ChatRequest {
        ChatRequest::read(body.as_bytes(), &HeaderMap::new()).unwrap()
    }

    fn refused(body: &str, headers: &[(&'static str, &str)]) -> String {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        ChatRequest::read(body.as_bytes(), &map).unwrap_err()
    }

    #[test]
    fn memories_are_inserted_and_nothing_else_changes() {
        let body = r#"{ "seed": 12345678901234567890123, "temperature": 1.0,
  "messages": [ {"role":"system","content":"Be\u0020brief."},
                {"content": "Wo\u0068in?", "role": "user", "x": {"b":1,"a":2}} ],
  "memory_id": "s1", "unknown": [1e400, "é"], "memory_top_k": 3}"#;
        let request = read(body);
        assert_eq!(request.extras.session_id, "s1");
        assert_eq!(request.extras.top_k, Some(3));
        let asked = request.asked.clone().unwrap();
        assert_eq!(asked.message, "Wohin?");
        let expected = r#"{ "seed": 12345678901234567890123, "temperature": 1.0,
  "messages": [ {"role":"system","content":"Be\u0020brief."},
                {"content": "\"M\"\n\nCurrent message: Wo\u0068in?", "role": "user", "x": {"b":1,"a":2}} ],
  "unknown": [1e400, "é"]}"#;
        assert_eq!(request.with_memories("\"M\"\n\nCurrent message: Wohin?"), expected);
        assert_eq!(request.with_memories("Wohin?"), request.plain());
    }

    #[test]
    fn a_body_without_fields_for_memory_stays_as_it_is() {
        for body in [
            r#"{"messages":[]}"#,
            r#" {"messages" : [{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}] } "#,
            r#"{"messages":[{"role":"assistant","content":null,"tool_calls":[]}],"n":2}"#,
        ] {
            let request = read(body);
            assert!(request.asked.is_none(), "{body}");
            assert_eq!(request.plain(), body);
            assert_eq!(request.with_memories("x"), body);
        }
    }

    #[test]
    fn parts_keep_their_images() {
        let body = r#"{"messages":[{"role":"user","content":[{"type":"text","text":"What"},{"type":"image_url","image_url":{"url":"data:x"}},{"type":"text","text":"is it?"}]}]}"#;
        let request = read(body);
        let asked = request.asked.clone().unwrap();
        assert_eq!(asked.message, "What\n\nis it?");
        assert_eq!(request.with_memories("M: What\n\nis it?"), body.replacen("What", "M: What", 1));
    }

    #[test]
    fn what_a_client_augmented_is_augmented_anew() {
        let old = "Long-term memory (most relevant first):\\n[memory] old\\n\\nCurrent message: Hi";
        let body = format!(
            r#"{{"messages":[{{"role":"user","content":[{{"type":"text","text":"{old}"}},{{"type":"text","text":"there"}}]}}]}}"#
        );
        let request = read(&body);
        assert_eq!(request.asked.as_ref().unwrap().message, "Hi\n\nthere");
        assert_eq!(
            request.with_memories("new: Hi\n\nthere"),
            r#"{"messages":[{"role":"user","content":[{"type":"text","text":"new: Hi\n\nthere"}]}]}"#
        );
    }

    #[test]
    fn the_messages_before_go_along_as_texts() {
        let body = r#"{"messages":[{"role":"system","content":"s"},{"role":"user","content":"a"},
            {"role":"assistant","content":[{"type":"text","text":"b"}]},{"role":"user","name":"Ann","content":"c"},
            {"role":"assistant","content":null,"tool_calls":[{}]},{"role":"tool","content":"42"}]}"#;
        let request = read(body);
        assert!(request.continues);
        let asked = request.asked.unwrap();
        assert_eq!(asked.name.as_deref(), Some("Ann"));
        assert_eq!(
            asked.messages,
            json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
                   {"role": "user", "content": "c"}])
        );
    }

    #[test]
    fn headers_say_what_the_body_does_not() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-memory-id", "42"),
            ("x-memory-top-k", "7"),
            ("x-memory-recency-weight", "0.25"),
            ("x-memory-score-threshold", "1"),
            ("idempotency-key", "k1"),
        ] {
            headers.insert(name, value.parse().unwrap());
        }
        let body = r#"{"messages":[],"memory_top_k":2,"memory_recency_weight":null}"#;
        let request = ChatRequest::read(body.as_bytes(), &headers).unwrap();
        let expected = Extras {
            session_id: "42".to_owned(),
            top_k: Some(2),
            recency_weight: Some(0.25),
            score_threshold: Some(1.0),
        };
        assert_eq!(request.extras, expected);
        assert_eq!(request.key.as_deref(), Some("k1"));
        assert_eq!(request.plain(), r#"{"messages":[]}"#);
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        assert_eq!(refused("[]", &[]), "the body is not a JSON object");
        assert_eq!(refused("{}", &[]), "messages is not a list");
        for (field, problem) in [
            (r#""memory_id":7"#, "memory_id is not a text, or blank"),
            (r#""memory_top_k":1.5"#, "memory_top_k is not a whole number"),
            (r#""memory_score_threshold":"x""#, "memory_score_threshold is not a number"),
        ] {
            assert_eq!(refused(&format!(r#"{{"messages":[],{field}}}"#), &[]), problem);
        }
        let many = "k".repeat(MAX_KEY_BYTES + 1);
        let problem = refused(r#"{"messages":[]}"#, &[("idempotency-key", &many)]);
        assert!(problem.starts_with("Idempotency-Key"), "{problem}");
    }
}
