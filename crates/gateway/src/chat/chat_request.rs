//! The request of a chat: what it says about memory, what the user says in it, and the
//! request that goes upstream. That is the caller's, byte for byte, but for the `memory_*` fields and the
//! user's last text.

use crate::chat::chat_form::Form;
use crate::chat::costs::{MOST_GUESSED, Usage, is_true, number};
use crate::chat::extras::{Extras, FIELDS, header};
use crate::chat::seen::seen;
use crate::chat::splice::{self, Array, Edit, Object};
use crate::chat::users_words::{Asked, Text, UsersWords};
use axum::http::HeaderMap;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The session of a request that does not tell to which conversation it belongs.
const DEFAULT_SESSION: &str = "default";
/// How the names begin of sessions that no client named.
const OWN_SESSIONS: &str = "chat-";
/// Choices that are counted: more than servers make.
const MOST_CHOICES: u64 = 1_000;
/// The longest key of a request, in bytes.
const MAX_KEY_BYTES: usize = 512;

/// A request that was read.
#[derive(Clone, Debug)]
pub struct ChatRequest {
    /// What the client sent.
    pub body: String,
    edits: Vec<Edit>,
    /// What is asked about memory.
    pub extras: Extras,
    /// Which of its users a service says that it acts for.
    pub user: Option<String>,
    /// `None` when there is no text of the user in it.
    pub asked: Option<Asked>,
    /// Whether the client asks something of its own, such as for a title: neither that nor the answer is remembered.
    pub is_task: bool,
    /// A hash of what the conversation began with, or is called upstream.
    pub began: Option<[u8; 32]>,
    /// What else the model reads, for `memory_augment`.
    pub seen: Value,
    /// What was said before the user's message, where that is new and the client sends all that there is.
    pub history: Option<Value>,
    /// Whether tools or the client spoke last: then the user said nothing new.
    pub continues: bool,
    /// What is the same when the client repeats the request, and no other is sent with: a hash of its key and
    /// of the messages. The key alone may be one that the client never changes.
    pub key: Option<String>,
    /// Whether it is answered later, to a client that fetches the answer: the gateway does not see what it took.
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
        let text = conversation.filter(|_| form.takes_text).and_then(Text::of);
        let said = match text {
            Some(text) => UsersWords::alone(text),
            None => UsersWords::among(form, body, &messages),
        };
        let seen = match said.asked {
            Some(_) => seen(form, &object, &messages, said.at),
            None => Value::Null,
        };
        let UsersWords { asked, is_task, continues, mut began, .. } = said;
        let kept = |name| object.get(name).filter(|member| member.value != "null");
        let is_upstream =
            ["conversation", "previous_response_id"].into_iter().any(|name| kept(name).is_some());
        let is_new = |asked: &&Asked| !continues && !asked.is_followed && !is_upstream;
        let history = asked.as_ref().filter(is_new).map(|asked| asked.history.clone());
        let history = history.filter(|history| !history.is_null());
        if let Some(conversation) = kept("conversation") {
            began = Some(Sha256::digest(conversation.value).into());
        } else if kept("previous_response_id").is_some() {
            // What was said first is upstream.
            began = None;
        }
        let key = header(headers, "idempotency-key")?.filter(|key| !key.is_empty());
        if key.as_ref().is_some_and(|key| key.len() > MAX_KEY_BYTES) {
            return Err(format!("Idempotency-Key must have at most {MAX_KEY_BYTES} bytes"));
        }
        let key = key.map(|key| {
            let parts = Sha256::new().chain_update(Sha256::digest(key));
            let parts = parts.chain_update(conversation.map_or("", |member| member.value));
            hex(&parts.finalize())
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
            user: form.user.and_then(|name| object.text(name)),
            asked,
            is_task,
            began,
            seen,
            history,
            continues,
            key,
            late,
            max_tokens,
            usage,
            body: document,
        })
    }

    /// Names the session, where the client has named none: by its own header, or so that every request of a
    /// conversation of this user's has the same name, and other conversations have other ones.
    pub fn settle_session(&mut self, user_id: &str, named: Option<String>) {
        if !self.extras.session_id.is_empty() {
            return;
        }
        let own = self.began.map(|began| {
            let hash = Sha256::new().chain_update(Sha256::digest(user_id)).chain_update(began);
            format!("{OWN_SESSIONS}{}", &hex(&hash.finalize())[..16])
        });
        self.extras.session_id = named.or(own).unwrap_or_else(|| DEFAULT_SESSION.to_owned());
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

    /// The body for the upstream with this before the user's last text.
    pub fn with_memories(&self, block: &str) -> String {
        let mut edits = self.edits.clone();
        if let Some(asked) = &self.asked {
            edits.extend(asked.preceded_by(block));
        }
        splice::edited(&self.body, edits)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::chat_form::COMPLETIONS;
    use serde_json::json;

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
        assert_eq!(request.with_memories("\"M\"\n\nCurrent message: "), expected);
        assert_eq!(request.with_memories(""), request.plain());
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
        assert_eq!(request.with_memories("M: "), body.replacen("What", "M: What", 1));
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
            request.with_memories("new: "),
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
    fn what_was_said_before_goes_along_where_the_client_sends_all_of_it() {
        let said = |role: &str, text: &str| json!({"role": role, "content": text});
        let mut messages = vec![said("system", "Be brief.")];
        for number in 0..20 {
            messages.extend([said("user", &format!("{number}?")), said("assistant", "Yes.")]);
        }
        let before = Value::from(messages[1..].to_vec());
        messages.push(said("user", "Last?"));
        let request = read(&json!({"messages": messages}).to_string());
        assert_eq!(request.history, Some(before));
        assert_eq!(request.asked.unwrap().messages.as_array().map(Vec::len), Some(9));
        assert_eq!(
            read(r#"{"messages":[{"role":"user","content":"a"}]}"#).history,
            Some(json!([]))
        );
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [{}]}));
        messages.push(json!({"role": "tool", "content": "42"}));
        assert_eq!(read(&json!({"messages": messages}).to_string()).history, None);
        for upstream in [r#""conversation":"c""#, r#""previous_response_id":"r""#] {
            let body = format!(r#"{{"input":"a",{upstream}}}"#);
            let request = ChatRequest::read(
                &crate::chat::chat_form::RESPONSES,
                body.into_bytes(),
                &HeaderMap::new(),
            );
            assert_eq!(request.unwrap().history, None, "{upstream}");
        }
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
    fn a_conversation_without_a_name_gets_one() {
        let session = |body: &str, user: &str, named: Option<&str>| {
            let mut request = ChatRequest::read(
                &crate::chat::chat_form::RESPONSES,
                body.as_bytes().to_vec(),
                &HeaderMap::new(),
            )
            .unwrap();
            request.settle_session(user, named.map(str::to_owned));
            request.extras.session_id
        };
        let (first, second) = (r#"{"input":"Hi."}"#, r#"{"input":"Bye."}"#);
        let own = session(first, "ann", None);
        assert!(own.len() == 21 && own.starts_with("chat-"), "{own}");
        let later = r#"{"instructions":"Be brief.","input":[{"role":"user","content":"Hi."},{"role":"assistant","content":"Hi."},{"role":"user","content":"Bye."}]}"#;
        assert_eq!(session(later, "ann", None), own);
        for other in [session(second, "ann", None), session(first, "bob", None)] {
            assert_ne!(other, own);
        }
        assert_eq!(session(first, "ann", Some("c")), "c");
        assert_eq!(session(r#"{"input":"Hi.","memory_id":"s"}"#, "ann", Some("c")), "s");
        for unknown in [r#"{"input":"Hi.","previous_response_id":"r"}"#, r#"{"input":" "}"#] {
            assert_eq!(session(unknown, "ann", None), "default");
        }
        let of = |id: &str, text: &str| {
            session(&format!(r#"{{"conversation":"{id}","input":"{text}"}}"#), "ann", None)
        };
        assert_eq!(of("conv_1", "Hi."), of("conv_1", "Bye."));
        assert_ne!(of("conv_1", "Hi."), of("conv_2", "Hi."));
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
        let old = "Long-term memory (most relevant first):\\n[memory] old\\nCurrent message: x";
        let body = format!(
            r#"{{"messages":[{{"role":"user","content":[{parts},{{"type":"text","text":"{old}"}}]}}]}}"#
        );
        let request = read(&body);
        assert_eq!(request.asked.as_ref().map(|asked| asked.message.as_str()), Some("x"));
        // What takes the other texts out is one edit for each.
        assert!(request.with_memories("M: ").ends_with(r#"[{"type":"text","text":"M: x"}]}]}"#));
    }

    #[test]
    fn what_the_database_cannot_store_is_stored_without_it() {
        let body = r#"{"messages":[{"role":"user","content":"a\u0000b"}]}"#;
        let request = read(body);
        let asked = request.asked.clone().unwrap();
        assert_eq!(asked.message, "a\u{fffd}b");
        let expected = r#"{"messages":[{"role":"user","content":"M: a\u0000b"}]}"#;
        assert_eq!(request.with_memories("M: "), expected);
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
