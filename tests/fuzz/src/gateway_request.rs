//! Requests that the gateway sends on: nothing changes in them but what is said.

use crate::chat::chat_form::{COMPLETIONS, Form, MESSAGES, RESPONSES};
use crate::chat::chat_request::ChatRequest;
use crate::linear;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

/// The body is the input; what goes upstream is the same document without the gateway's own fields, and with
/// memories before the user's text.
pub fn check(data: &[u8]) {
    let body = crate::text(data);
    for form in [&COMPLETIONS, &RESPONSES, &MESSAGES] {
        check_in(form, &body);
    }
}

fn check_in(form: &Form, body: &str) {
    let key = HeaderValue::from_static("k");
    let headers: HeaderMap =
        [(HeaderName::from_static("idempotency-key"), key)].into_iter().collect();
    let read = linear(body.len(), || ChatRequest::read(form, body.as_bytes().to_vec(), &headers));
    let Ok(mut request) = read else { return };
    assert!(request.key.as_ref().is_some_and(|key| key.len() == 64));
    let plain = linear(body.len(), || request.plain());
    // What nests deeper than this reader goes is sent on all the same.
    let Ok(mut expected) = serde_json::from_str::<Value>(body) else { return };
    let members = expected.as_object_mut().expect("what was read is an object");
    members.retain(|name, _| !name.starts_with("memory_"));
    assert_eq!(serde_json::from_str::<Value>(&plain).expect("plain"), expected);
    if let Some(asked) = request.asked.clone() {
        assert!(!asked.message.contains('\0'));
        let messages = asked.messages.as_array().expect("messages");
        let said = messages.last().and_then(|last| last["content"].as_str()).expect("a text");
        if asked.message == said {
            assert_eq!(request.with_memories(""), plain);
        }
        let with = linear(body.len(), || request.with_memories("memory\n\n"));
        let with: Value = serde_json::from_str(&with).expect("with memories");
        let count = |value: &Value| value[form.conversation].as_array().map(Vec::len);
        assert_eq!(count(&with), count(&expected));
    }
    if request.tell_usage() {
        let told: Value = serde_json::from_str(&request.plain()).expect("with usage");
        assert_eq!(told["stream_options"]["include_usage"], true);
    }
}
