//! Models for tests that do not care what facts say.

use memory_agent_e2e::llm::{Call, Document, Purpose};
use memory_agent_e2e::{Json, json};

/// A model that finds one fact in each turn: its text, with "Noted: " before it.
pub fn echo(call: &Call) -> Json {
    let document = Document::of(call);
    match call.purpose() {
        Purpose::Extract => {
            let facts = document.turns.iter().map(|(turn, text)| noted(*turn, text));
            json!({"facts": facts.collect::<Vec<_>>()})
        }
        _ => document.unrelated(),
    }
}

fn noted(turn: u64, text: &str) -> Json {
    json!({"turn": turn, "text": format!("Noted: {text}"), "confidence": 1})
}
