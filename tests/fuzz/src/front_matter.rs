//! The block between two `---` lines. What was read and is written is read again as the same.

use std::collections::HashSet;

use memory_agent_core::files::front_matter::{parse, split, write};
use serde_json::Value;
use serde_json::value::RawValue;

pub fn check(data: &[u8]) {
    let text = crate::text(data);
    crate::linear(text.len(), || {
        let (front, body) = match split(&text) {
            Ok(parts) => parts,
            Err(error) => return crate::short(error),
        };
        assert!(front.len() + body.len() <= text.len());
        let fields = match parse(front) {
            Ok(fields) => fields,
            Err(error) => return crate::short(error),
        };
        let keys: HashSet<&str> = fields.iter().map(|field| field.key.as_str()).collect();
        assert_eq!(keys.len(), fields.len(), "each key is there once");
        let json: Vec<String> = fields.iter().map(|field| field.value.to_json()).collect();
        // Six bytes of an escape for one of the input, and what is around it.
        assert!(json.iter().map(String::len).sum::<usize>() <= 6 * front.len() + 4 * json.len());
        for value in &json {
            serde_json::from_str::<&RawValue>(value).expect("a value is JSON");
        }

        let written = write(
            fields.iter().zip(&json).map(|(field, json)| (field.key.as_str(), json.as_str())),
        );
        let (front, body) = split(&written).expect("what was written has two fences");
        assert_eq!(body, "");
        let again = parse(front).expect("what was written can be read");
        assert_eq!(again.len(), fields.len());
        for ((field, json), again) in fields.iter().zip(&json).zip(&again) {
            assert_eq!(field.key, again.key);
            assert_eq!(value(json), value(&again.value.to_json()), "{:?}", field);
        }
    });
}

/// A number beyond a double has no value here.
fn value(json: &str) -> Option<Value> {
    serde_json::from_str(json).ok()
}
