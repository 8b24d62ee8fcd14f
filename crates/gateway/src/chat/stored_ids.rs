//! Ids of what an upstream stores: responses, their items, conversations, prompts, files, vector stores,
//! containers. With the gateway's key all callers share one account there, so a request may name only what an
//! answer gave to the same caller. Nothing of it is written down: what an earlier process gave is unknown.

use crate::people::fair_table::{FairTable, Hash};
use crate::refusal::Refusal;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

/// Ids that are remembered.
const MANY: usize = 100_000;
/// No client sends deeper bodies.
const MAX_DEPTH: usize = 1_000;
/// Fields whose texts are ids, alone, in a list, or as the `id` of an object.
const NAMING: [&str; 9] = [
    "container",
    "container_id",
    "conversation",
    "conversation_id",
    "file_id",
    "file_ids",
    "previous_response_id",
    "vector_store_id",
    "vector_store_ids",
];
/// Fields with an object whose `id` is one.
const HOLDING: [&str; 3] = ["audio", "prompt", "voice"];
/// Fields whose objects are the client's own, whatever their members are called.
const OPAQUE: [&str; 6] =
    ["arguments", "input_examples", "input_schema", "metadata", "parameters", "schema"];

/// Which user was given what.
pub struct StoredIds(Mutex<FairTable<()>>);

impl Default for StoredIds {
    fn default() -> Self {
        Self(Mutex::new(FairTable::new(MANY)))
    }
}

impl StoredIds {
    /// An answer gave these to the caller.
    pub fn give(&self, caller: &Hash, ids: &[String]) {
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for id in ids {
            given.insert(*caller, hash(caller, id), ());
        }
    }

    /// Whether the body of a request names nothing but what was given to the caller.
    ///
    /// # Errors
    /// That it does, for the client.
    pub fn check(&self, caller: &Hash, body: &str) -> Result<(), Refusal> {
        let named = named(body).ok_or_else(|| Refusal::invalid("the body is nested too deeply"))?;
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if named.iter().all(|id| given.get(&hash(caller, id)).is_some()) {
            return Ok(());
        }
        Err(Refusal::invalid(
            "the body names something stored (a response, item, conversation, prompt, file, vector \
             store or container) that no answer of this gateway gave to this caller: with the gateway's key, \
             send the content itself",
        ))
    }
}

/// The name under which it is remembered that a caller was given an id.
fn hash(caller: &Hash, id: &str) -> Hash {
    Sha256::new().chain_update(caller).chain_update(id).finalize().into()
}

/// What a value is for, by where it stands.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// The request itself.
    Body,
    Other,
    /// Its texts are ids, and so is the `id` of an object.
    Naming,
    /// The `id` of an object is one.
    Holding,
    /// The conversation of a response.
    Input,
    /// The conversation of a response if it is a list; an object is what a tool is called with.
    InnerInput,
    /// An item of such a conversation.
    Item,
    /// The client's own.
    Opaque,
}

/// An object or a list that is being read.
struct Open {
    place: Place,
    is_object: bool,
    /// Of the member that is being read, in lower case: there are servers that read any. `None` before its colon.
    key: Option<String>,
    /// The key, before the colon.
    next_key: String,
    ids: Vec<String>,
    skills: Vec<String>,
    /// Each of its types: which of two counts is up to the server.
    kinds: Vec<String>,
    /// The members that have content; a list's element has no name.
    filled: Vec<String>,
}

impl Open {
    fn new(place: Place, is_object: bool) -> Self {
        let place = match place {
            Place::Input if is_object => Place::Item,
            Place::InnerInput if is_object => Place::Opaque,
            place => place,
        };
        let (key, next_key, ids, skills, kinds, filled) = Default::default();
        Self { place, is_object, key, next_key, ids, skills, kinds, filled }
    }

    /// What the value that comes next is for.
    fn inner(&self) -> Place {
        let is = |name: &&str| self.key.as_deref() == Some(*name);
        match (self.place, self.is_object) {
            (Place::Opaque, _) => Place::Opaque,
            (Place::Input | Place::InnerInput, false) => Place::Item,
            (Place::Naming, false) => Place::Naming,
            (_, false) => Place::Other,
            (Place::Naming | Place::Holding, true) if is(&"id") => Place::Naming,
            _ if NAMING.iter().any(is) => Place::Naming,
            _ if HOLDING.iter().any(is) => Place::Holding,
            _ if OPAQUE.iter().any(is) => Place::Opaque,
            (Place::Body, true) if is(&"input") => Place::Input,
            _ if is(&"input") => Place::InnerInput,
            _ => Place::Other,
        }
    }

    /// The member that is being read has content.
    fn fill(&mut self) {
        self.filled.push(self.key.clone().unwrap_or_default());
    }

    /// Takes a text that is a member, or an element.
    fn take(&mut self, text: Cow<'_, str>, named: &mut Vec<String>) {
        if !text.is_empty() {
            self.fill();
        }
        if self.inner() == Place::Naming {
            named.push(text.into_owned());
            return;
        }
        match self.key.as_deref() {
            Some("id") => self.ids.push(text.into_owned()),
            Some("skill_id") => self.skills.push(text.into_owned()),
            Some("type") => self.kinds.push(text.into_owned()),
            _ => {}
        }
    }

    /// Whether an item of this type brings all that a server would else look up by its id.
    fn is_whole_as(&self, kind: &str) -> bool {
        let content = match kind {
            "" | "message" => "content",
            "function_call" | "mcp_call" | "mcp_approval_request" => "arguments",
            "custom_tool_call" => "input",
            "reasoning" | "compaction" => "encrypted_content",
            "web_search_call" | "computer_call" | "local_shell_call" | "shell_call" => "action",
            "apply_patch_call" => "operation",
            kind if kind.ends_with("_output") => "output",
            _ => return false,
        };
        self.filled.iter().any(|key| key == content)
    }

    /// What it names, now that it ends.
    fn references(self) -> Vec<String> {
        let mut references = Vec::new();
        if self.place == Place::Opaque {
            return references;
        }
        let is_whole = match self.kinds.as_slice() {
            [] => self.is_whole_as(""),
            kinds => kinds.iter().all(|kind| self.is_whole_as(kind)),
        };
        if self.kinds.iter().any(|kind| kind == "item_reference")
            || (self.place == Place::Item && !is_whole)
        {
            references.extend(self.ids);
        }
        // Those of the vendor belong to no user.
        if self.kinds.is_empty() || self.kinds.iter().any(|kind| kind != "anthropic") {
            references.extend(self.skills);
        }
        references
    }
}

/// The ids that a document in JSON names; `None` if it is nested too deeply. It is read in one pass, and nothing is
/// kept of it: numbers and texts of any kind go through.
fn named(document: &str) -> Option<Vec<String>> {
    let mut named = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    let bytes = document.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' => {
                let place = open.last().map_or(Place::Body, Open::inner);
                open.push(Open::new(place, *byte == b'{'));
                if open.len() > MAX_DEPTH {
                    return None;
                }
            }
            b'}' | b']' => {
                if let Some(closed) = open.pop() {
                    if let (false, Some(outer)) = (closed.filled.is_empty(), open.last_mut()) {
                        outer.fill();
                    }
                    named.extend(closed.references());
                }
            }
            b',' => {
                if let Some(open) = open.last_mut() {
                    open.key = None;
                }
            }
            b':' => {
                if let Some(open) = open.last_mut() {
                    open.key = Some(std::mem::take(&mut open.next_key));
                }
            }
            b'"' => {
                let start = at;
                at = end_of_text(bytes, at);
                let text = unescaped(document.get(start..at).unwrap_or_default());
                at += 1;
                match open.last_mut() {
                    Some(open) if open.is_object && open.key.is_none() => {
                        open.next_key = text.to_ascii_lowercase();
                    }
                    Some(open) => open.take(text, &mut named),
                    None => {}
                }
            }
            _ => {}
        }
    }
    Some(named)
}

/// Where the quote is that ends a text.
fn end_of_text(bytes: &[u8], mut at: usize) -> usize {
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => break,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    at.min(bytes.len())
}

/// A text without its escapes; as it is, where those make no text.
fn unescaped(inner: &str) -> Cow<'_, str> {
    if !inner.contains('\\') {
        return Cow::Borrowed(inner);
    }
    let text = serde_json::from_str::<String>(&format!("\"{inner}\""));
    text.map_or(Cow::Borrowed(inner), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn names(document: &serde_json::Value) -> Vec<String> {
        named(&document.to_string()).unwrap()
    }

    #[test]
    fn whatever_is_stored_is_named_somewhere() {
        for document in [
            json!({"previous_response_id": "x"}),
            json!({"conversation": "x"}),
            json!({"conversation": {"id": "x"}}),
            json!({"prompt": {"id": "x", "variables": {"city": "Rome"}}}),
            json!({"container": "x"}),
            json!({"container": {"id": "x", "skills": [{"type": "anthropic", "skill_id": "pptx"}]}}),
            json!({"tools": [{"type": "file_search", "vector_store_ids": ["x"]}]}),
            json!({"tools": [{"type": "code_interpreter", "container": "x"}]}),
            json!({"tools": [{"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["x"]}}]}),
            json!({"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "x"}]}]}),
            json!({"input": [{"type": "item_reference", "id": "x"}]}),
            json!({"input": [{"id": "x"}]}),
            json!({"input": [{"id": "x", "type": null}]}),
            json!({"input": [{"type": "reasoning", "id": "x", "summary": [], "encrypted_content": null}]}),
            json!({"input": [{"type": "code_interpreter_call", "container_id": "x"}]}),
            json!({"input": [{"type": "image_generation_call", "id": "x", "status": "completed"}]}),
            json!({"input": [{"type": "file_search_call", "id": "x", "queries": ["salary"]}]}),
            json!({"input": [{"type": "message", "id": "x", "role": "assistant"}]}),
            json!({"input": [{"type": "message", "id": "x", "role": "assistant", "content": []}]}),
            json!({"input": [{"type": "reasoning", "id": "x", "summary": [], "encrypted_content": ""}]}),
            json!({"input": {"id": "x"}}),
            json!({"input": {"type": "item_reference", "id": "x"}}),
            json!({"container": {"skills": [{"type": "custom", "skill_id": "x"}]}}),
            json!({"tools": [{"type": "shell", "environment": {"skills": [{"skill_id": "x"}]}}]}),
            json!({"audio": {"voice": {"id": "x"}, "format": "wav"}}),
            json!({"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "x"}}]}]}),
            json!({"messages": [{"role": "assistant", "audio": {"id": "x"}}]}),
            json!({"messages": [{"role": "user", "content": [
                {"type": "document", "source": {"type": "file", "file_id": "x"}}]}]}),
            json!({"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [
                {"type": "image", "source": {"type": "file", "file_id": "x"}}]}]}]}),
        ] {
            assert_eq!(names(&document), ["x"], "{document}");
        }
        assert_eq!(named(r#"{"File_\u0069d" : "\u0078", "n": 1e400}"#).unwrap(), ["x"]);
        for twice in [
            r#"{"input": [{"ID": "x", "Type": "item_reference"}]}"#,
            r#"{"input": [{"type": "item_reference", "type": "message", "id": "x", "content": "Hello."}]}"#,
            r#"{"INPUT": [{"type": "message", "type": "item_reference", "id": "x", "content": "Hello."}]}"#,
        ] {
            assert_eq!(named(twice).unwrap(), ["x"], "{twice}");
        }
        let ids = r#"{"input": [{"id": "x", "id": "y", "type": "item_reference"}]}"#;
        assert_eq!(named(ids).unwrap(), ["x", "y"]);
        let surrogate = named(r#"{"a": "\ud800", "file_id": "\ud800"}"#).unwrap();
        assert_eq!(surrogate, ["\\ud800"], "what is no text belongs to no user");
    }

    #[test]
    fn what_a_client_calls_its_own_is_no_name() {
        let schema = json!({"type": "object", "properties": {"file_id": {"type": "string"},
            "container": {"type": "string", "id": "y"}}, "required": ["file_id"], "default": {"file_id": "y"}});
        for document in [
            json!({"model": "m", "input": "file_id", "instructions": "\"file_id\": \"y\"", "store": true}),
            json!({"previous_response_id": null, "conversation": null, "audio": {"voice": "alloy", "format": "wav"}}),
            json!({"tools": [{"type": "function", "name": "f", "parameters": schema}]}),
            json!({"tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}]}),
            json!({"tools": [{"name": "f", "input_schema": schema, "input_examples": [{"file_id": "y"}]}]}),
            json!({"text": {"format": {"type": "json_schema", "schema": schema}}}),
            json!({"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]}),
            json!({"metadata": {"file_id": "y", "conversation": "y"}}),
            json!({"messages": [{"role": "assistant", "content": [
                {"type": "tool_use", "id": "t", "name": "f", "input": {"file_id": "y", "id": "z"}}]}]}),
            json!({"messages": [{"role": "assistant", "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"file_id\": \"y\"}"}}]}]}),
            json!({"input": [
                {"id": "m", "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]},
                {"id": "f", "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                {"id": "r", "type": "reasoning", "summary": [], "encrypted_content": "e"},
                {"id": "w", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "q"}},
                {"id": "o", "type": "function_call_output", "call_id": "c", "output": "12"},
                {"role": "user", "content": "Hello."}]}),
        ] {
            assert_eq!(names(&document), [""; 0], "{document}");
        }
        assert_eq!(named(&"[".repeat(MAX_DEPTH + 1)), None);
    }

    #[test]
    fn what_was_given_is_the_callers() {
        let (ids, ann, bob) = (StoredIds::default(), [1; 32], [2; 32]);
        ids.give(&ann, &["resp_1".to_owned()]);
        let body = r#"{"previous_response_id": "resp_1"}"#;
        assert!(ids.check(&ann, body).is_ok() && ids.check(&bob, body).is_err());
        assert!(ids.check(&ann, r#"{"previous_response_id": "resp_2"}"#).is_err());
        assert!(ids.check(&bob, r#"{"input": "Hello."}"#).is_ok());
    }
}
