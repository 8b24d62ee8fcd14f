//! The worst LLM: it repeats all it was sent, takes every text for a fact, ends every memory that it
//! is shown, and names ids that it was never shown.

use memory_agent_e2e::json;
use memory_agent_e2e::llm::{Call, Document, Model, Purpose, Reply, ScriptedModel};

/// Most facts of an answer.
const MOST_FACTS: usize = 3;

pub struct Gossip(ScriptedModel);

impl Gossip {
    pub fn new() -> Self {
        Self(ScriptedModel::new())
    }
}

impl Model for Gossip {
    fn answer(&self, call: &Call) -> Reply {
        match call.purpose() {
            Purpose::Extract => extract(&Document::of(call)),
            Purpose::Reconcile | Purpose::Probe => reconcile(call.number, &Document::of(call)),
            Purpose::Chat => call.body["messages"].to_string().into(),
            _ => self.0.answer(call),
        }
    }
}

fn extract(document: &Document) -> Reply {
    let turns = document.turns.iter().take(MOST_FACTS);
    let facts = turns.map(|(id, text)| json!({"turn": id, "text": text, "confidence": 0.9}));
    json!({"facts": facts.collect::<Vec<_>>()}).into()
}

/// Ends or rewrites the first memory that it is shown; every fifth answer names a memory of nobody.
fn reconcile(number: usize, document: &Document) -> Reply {
    let choice = match number {
        _ if number.is_multiple_of(5) => "ends 900",
        _ if number.is_multiple_of(2) => "ends 1",
        _ => "replaces 1",
    };
    document.decide(|_, _| choice.to_owned()).into()
}
