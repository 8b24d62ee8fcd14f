//! The request of a chat: what it says about memory, what the user says in it, and the
//! request that goes upstream. That is the caller's, byte for byte, but for the `memory_*` fields and the
//! user's last text.

use crate::chat_form::Form;
use crate::costs::{MOST_GUESSED, Usage, is_true, number};
use crate::extras::{Extras, FIELDS, header};
use crate::seen::seen;
use crate::splice::{self, Array, Edit, Member, Object};
use axum::http::HeaderMap;
use memory_agent_core::augment::original_message;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::ops::Range;

/// Messages before the user's last one that go to the database with it: it tells from them what pronouns
/// stand for, where that is switched on.
const EARLIER_MESSAGES: usize = 8;
/// Choices that are counted: more than servers make.
const MOST_CHOICES: u64 = 1_000;
/// The longest key of a request, in bytes.
const MAX_KEY_BYTES: usize = 512;

/// What the user said last.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// As the user typed it, without memories that a client put before it.
    pub message: String,
    /// Who said it, where the message has a name.
    pub name: Option<String>,
    /// The last messages, as texts, for `memory_augment`. The last one is the user's.
    pub messages: Value,
    /// Whether anything comes after it, such as what tools answered.
    pub is_followed: bool,
    /// The text of the last one, as the database takes it.
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
    /// What the client sent.
    pub body: String,
    edits: Vec<Edit>,
    /// What is asked about memory.
    pub extras: Extras,
    /// `None` when there is no text of the user in it.
    pub asked: Option<Asked>,
    /// What else the model reads, for `memory_augment`.
    pub seen: Value,
    /// Whether it goes on after a tool was called: then the user said nothing new.
    pub continues: bool,
    /// What is the same when the client repeats the request, and no other is sent with: a hash of its key and
    /// of the messages. The key alone may be one that the client never changes.
    pub key: Option<String>,
    /// Whether it is answered later, to who fetches the answer: what it took, nobody sees here.
    pub late: bool,
    /// Most tokens of the answer, of all choices together, where the client says so.
    pub max_tokens: Option<u64>,
    usage: Usage,
}

impl ChatRequest {
    /// Reads a body and the headers it came with.
    ///
    /// # Errors
    /// What is wrong with it, for the client. Only what matters here is looked at: the rest is for the
    /// upstream to judge.
    pub fn read(form: &Form, body: Vec<u8>, headers: &HeaderMap) -> Result<Self, String> {
        let document = String::from_utf8(body).map_err(|_| "the body is not UTF-8".to_owned())?;
        let body = document.as_str();
        let object = Object::read(body, body).ok_or("the body is not a JSON object")?;
        let extras = Extras::read(&object, headers)?;
        let edits = object.without(|name| name.starts_with(FIELDS));
        let conversation = object.get(form.conversation);
        let messages = match conversation.and_then(|member| Array::read(member.value)) {
            Some(messages) => messages,
            None if form.takes_text => Array(Vec::new()),
            None => return Err(format!("{} is not a list", form.conversation)),
        };
        let text = conversation.filter(|_| form.takes_text).and_then(text_of);
        let asked = match text {
            Some((text, place)) => typed(text, place, None).map(|asked| asked.after(Vec::new())),
            None => asked(form, body, &messages),
        };
        let seen = match asked {
            Some(_) => seen(form, body, &object, &messages),
            None => Value::Null,
        };
        let continues = messages.0.last().is_some_and(|last| {
            Object::read(body, last).is_some_and(|message| (form.is_result)(body, &message))
        });
        let key = header(headers, "idempotency-key")?.filter(|key| !key.is_empty());
        if key.as_ref().is_some_and(|key| key.len() > MAX_KEY_BYTES) {
            return Err(format!("Idempotency-Key must have at most {MAX_KEY_BYTES} bytes"));
        }
        let key = key.map(|key| {
            let parts = Sha256::new().chain_update(Sha256::digest(key));
            let hash =
                parts.chain_update(conversation.map_or("", |member| member.value)).finalize();
            hash.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
        });
        let number = |name: &str| number(object.get(name)?.value);
        let each = form.limits.iter().copied().filter_map(number).max();
        let choices = number("n").unwrap_or(1).clamp(1, MOST_CHOICES);
        let max_tokens = each.map(|each| each.min(MOST_GUESSED) * choices);
        let late =
            object.0.iter().any(|member| member.name == "background" && is_true(member.value));
        let usage = match form.counts_when_asked {
            true => Usage::asked(body, &object),
            false => Usage::Told,
        };
        Ok(Self {
            edits,
            extras,
            asked,
            seen,
            continues,
            key,
            late,
            max_tokens,
            usage,
            body: document,
        })
    }

    /// Has a stream end with what it took, and returns whether the client did not ask for that.
    pub fn tell_usage(&mut self) -> bool {
        match std::mem::replace(&mut self.usage, Usage::Told) {
            Usage::Told => false,
            Usage::Untold(edit) => {
                self.edits.push(edit);
                true
            }
        }
    }

    /// How many bytes the client sent.
    pub fn bytes(&self) -> usize {
        self.body.len()
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
    /// The same with the messages before it.
    fn after(mut self, mut messages: Vec<Value>) -> Self {
        messages.push(json!({"role": "user", "content": self.text}));
        self.messages = Value::from(messages);
        self
    }

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

/// The user's last message and those before it; `None` when it has no text.
fn asked(form: &Form, body: &str, messages: &Array<'_>) -> Option<Asked> {
    let mut earlier = Vec::new();
    let mut asked = None;
    for (followers, text) in messages.0.iter().rev().enumerate() {
        let Some(message) = Object::read(body, text) else { continue };
        let role = message.text("role").unwrap_or_default();
        if asked.is_none() {
            if role == "user" && !(form.is_result)(body, &message) {
                let (text, place) = content(form, body, &message)?;
                let name = message.text("name").filter(|name| !name.trim().is_empty());
                let said = typed(text, place, name.map(storable))?;
                asked = Some(Asked { is_followed: followers > 0, ..said });
            }
        } else if role == "user" || role == "assistant" {
            if let Some((content, _)) = content(form, body, &message) {
                earlier.push(json!({"role": role, "content": content}));
            }
            if earlier.len() == EARLIER_MESSAGES {
                break;
            }
        }
    }
    earlier.reverse();
    asked.map(|asked| asked.after(earlier))
}

/// What the user typed; `None` when that is nothing.
fn typed(text: String, place: Place, name: Option<String>) -> Option<Asked> {
    let message = original_message(&text).to_owned();
    let is_blank = message.trim().is_empty();
    let (messages, is_followed) = (Value::Null, false);
    (!is_blank).then(|| Asked { message, name, messages, is_followed, text, place })
}

/// A text that is the whole value.
fn text_of(member: &Member<'_>) -> Option<(String, Place)> {
    let text = serde_json::from_str::<String>(member.value).ok()?;
    Some((storable(text), Place::Text(member.at.clone())))
}

/// The text of a message, several parts as several paragraphs, and where it stands; `None` without text.
fn content(form: &Form, body: &str, message: &Object<'_>) -> Option<(String, Place)> {
    let member = message.get("content")?;
    if let Some(text) = text_of(member) {
        return Some(text);
    }
    let parts = Array::read(member.value)?;
    let texts: Vec<(usize, String, Range<usize>)> = parts
        .0
        .iter()
        .enumerate()
        .filter_map(|(number, part)| {
            let part = Object::read(body, part)?;
            let kind = part.text("type")?;
            let text = part.text("text").filter(|text| (form.is_text)(&kind, text))?;
            Some((number, text, part.get("text")?.at.clone()))
        })
        .collect();
    let (kept, _, first) = texts.first()?.clone();
    let numbers: HashSet<usize> = texts.iter().map(|text| text.0).collect();
    let without_others = parts.without(body, |number| number != kept && numbers.contains(&number));
    let text: Vec<&str> = texts.iter().map(|text| text.1.as_str()).collect();
    Some((storable(text.join("\n\n")), Place::Parts { first, without_others }))
}

/// A text as PostgreSQL can store it, which has no character 0.
pub fn storable(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat_form::COMPLETIONS;

    fn read(body: &str) -> ChatRequest {
        ChatRequest::read(&COMPLETIONS, body.as_bytes().to_vec(), &HeaderMap::new()).unwrap()
    }

    fn refused(body: &str, headers: &[(&'static str, &str)]) -> String {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        ChatRequest::read(&COMPLETIONS, body.as_bytes().to_vec(), &map).unwrap_err()
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
    fn a_key_counts_with_the_messages_it_came_with() {
        let key = |body: &str, key: &str| {
            let headers = HeaderMap::from_iter([(
                axum::http::HeaderName::from_static("idempotency-key"),
                key.parse().unwrap(),
            )]);
            ChatRequest::read(&COMPLETIONS, body.as_bytes().to_vec(), &headers).unwrap().key
        };
        let first = key(r#"{"messages":[]}"#, "k1");
        assert!(first.is_some());
        assert_eq!(key(r#"{"messages":[],"temperature":1}"#, "k1"), first);
        assert_ne!(key(r#"{"messages":[{}]}"#, "k1"), first);
        assert_ne!(key(r#"{"messages":[]}"#, "k2"), first);
        assert_eq!(key(r#"{"messages":[]}"#, " "), None);
        assert_eq!(read(r#"{"messages":[]}"#).key, None);
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        assert_eq!(refused("[]", &[]), "the body is not a JSON object");
        assert_eq!(refused("{}", &[]), "messages is not a list");
        let many = "k".repeat(MAX_KEY_BYTES + 1);
        let problem = refused(r#"{"messages":[]}"#, &[("idempotency-key", &many)]);
        assert!(problem.starts_with("Idempotency-Key"), "{problem}");
    }

    #[test]
    fn a_message_of_many_parts() {
        let part = r#"{"type":"text","text":""}"#;
        let parts = vec![part; 90_000].join(",");
        let body = format!(
            r#"{{"messages":[{{"role":"user","content":[{parts},{{"type":"text","text":"x"}}]}}]}}"#
        );
        let request = read(&body);
        assert_eq!(request.asked.as_ref().map(|asked| asked.message.trim()), Some("x"));
        // What takes the other texts out is one edit for each.
        assert!(request.with_memories("other").ends_with(r#"[{"type":"text","text":"other"}]}]}"#));
    }

    #[test]
    fn what_the_database_cannot_store_is_stored_without_it() {
        let body = r#"{"messages":[{"role":"user","content":"a\u0000b"}]}"#;
        let request = read(body);
        let asked = request.asked.clone().unwrap();
        assert_eq!(asked.message, "a\u{fffd}b");
        let expected = r#"{"messages":[{"role":"user","content":"M: a\u0000b"}]}"#;
        assert_eq!(request.with_memories("M: a\u{fffd}b"), expected);
    }

    #[test]
    fn a_stream_is_made_to_tell_what_it_took() {
        for (body, expected) in [
            (r#"{"messages":[]}"#, None),
            (r#"{"messages":[],"stream":false}"#, None),
            (r#"{"stream_options":{"include_usage":true},"messages":[],"stream":true}"#, None),
            (
                r#"{"messages":[],"stream":true,"memory_id":"s"}"#,
                Some(r#"{"messages":[],"stream":true,"stream_options":{"include_usage":true}}"#),
            ),
            (
                r#"{"messages":[],"stream":true,"stream_options":null}"#,
                Some(r#"{"messages":[],"stream":true,"stream_options":{"include_usage":true}}"#),
            ),
            (
                r#"{"stream_options":{ "x":1 },"messages":[],"stream":true}"#,
                Some(
                    r#"{"stream_options":{ "x":1 ,"include_usage":true},"messages":[],"stream":true}"#,
                ),
            ),
            (
                r#"{"stream_options":{"include_usage":false},"messages":[],"stream":true}"#,
                Some(r#"{"stream_options":{"include_usage":true},"messages":[],"stream":true}"#),
            ),
        ] {
            let mut request = read(body);
            assert_eq!(request.tell_usage(), expected.is_some(), "{body}");
            assert_eq!(request.plain(), expected.unwrap_or(body));
            assert!(!request.tell_usage());
        }
    }
}
