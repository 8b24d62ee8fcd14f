//! Answers that stream through the gateway: nothing is lost, however the bytes come.

use crate::chat::splice::Object;
use crate::chat::sse::{Event, Splitter};
use crate::linear;

/// The first byte says how the rest is cut.
pub fn check(data: &[u8]) {
    let Some((cut, rest)) = data.split_first() else { return };
    let text = crate::text(rest);
    let bytes = text.as_bytes();
    let mut splitter = Splitter::default();
    let mut events = Vec::new();
    linear(bytes.len(), || {
        for chunk in bytes.chunks(usize::from(*cut) + 1) {
            splitter.feed(chunk);
            while let Some(event) = splitter.next_event() {
                events.push(event);
            }
        }
    });
    let last = splitter.rest();
    let passed: Vec<u8> =
        events.iter().flat_map(|event| event.0.iter()).chain(&last).copied().collect();
    assert_eq!(passed, bytes);
    for Event(bytes) in &events {
        let event = Event(bytes.clone());
        match event.clone().with_member(None, "added at the end", "[1]") {
            Ok(with) => {
                // Not read as values: a number that no f64 holds, or deep nesting, is handed on all the same.
                let data = with.data().expect("data");
                let object = Object::read(&data, &data).expect("JSON");
                assert_eq!(object.get("added at the end").expect("the member").value, "[1]");
            }
            Err(same) => assert_eq!(same, event),
        }
    }
}
