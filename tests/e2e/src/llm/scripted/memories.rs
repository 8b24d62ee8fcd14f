//! Requests about facts: which a turn holds, and how they relate to known ones.

use super::{CONFIDENCE, ScriptedModel, statement};
use crate::llm::{Call, Change, Document, Statement};
use serde_json::{Value, json};

impl ScriptedModel {
    pub(super) fn extract(&self, document: &Document) -> Value {
        let facts: Vec<Value> = document
            .turns
            .iter()
            .flat_map(|(id, text)| {
                let statements = self.turns.get(text).map_or(&[][..], Vec::as_slice);
                statements
                    .iter()
                    .map(move |s| json!({"turn": id, "text": s.fact, "confidence": CONFIDENCE}))
            })
            .collect();
        json!({"facts": facts})
    }

    /// A fact that is not known is on a topic of its own.
    fn fact(&self, text: &str) -> Statement {
        let unknown = || statement(text, text, text, Change::New);
        self.facts.get(text).cloned().unwrap_or_else(unknown)
    }

    /// A memory on the topic of a fact is the same or has another value.
    pub(super) fn reconcile(&self, document: &Document) -> Value {
        document.decide(|new, existing| {
            let fact = self.fact(new);
            let related = |memory: &Statement| {
                (memory.topic == fact.topic).then_some(memory.value == fact.value)
            };
            let known: Vec<(u64, bool)> = (existing.iter())
                .filter_map(|(id, text)| Some((*id, related(&self.fact(text))?)))
                .collect();
            match (known.iter().find(|(_, same)| !same), known.first()) {
                (Some((id, _)), _) if fact.change == Change::Contradiction => format!("ends {id}"),
                (Some((id, _)), _) => format!("replaces {id}"),
                (None, Some((id, _))) => format!("same as {id}"),
                (None, None) => "new".to_owned(),
            }
        })
    }

    /// Of memories on a topic the newest replaces those with other values.
    pub(super) fn contradictions(&self, call: &Call) -> Value {
        let data = call.data();
        let memories: Vec<(u64, &str, Vec<Statement>)> = (data["memories"].as_array())
            .into_iter()
            .flatten()
            .filter_map(|memory| {
                let text = memory["text"].as_str()?;
                Some((memory["id"].as_u64()?, memory["since"].as_str()?, self.meaning(text)))
            })
            .collect();
        // By day; on the same day what became known later is newer.
        let age = |since: &str, said: &Statement| {
            (since.to_owned(), self.order.iter().position(|fact| *fact == said.fact))
        };
        let newest = |topic: &str| {
            let all = memories.iter().flat_map(|(_, since, said)| said.iter().map(|s| (*since, s)));
            all.filter(|(_, said)| said.topic == topic).max_by_key(|(since, said)| age(since, said))
        };
        let verdicts = memories.iter().map(|(id, _, said)| {
            let is_old = |said: &Statement| {
                newest(&said.topic).is_some_and(|(_, newest)| newest.value != said.value)
            };
            let has_rival = |said: &Statement| {
                let others = memories.iter().flat_map(|(_, _, others)| others);
                others.into_iter().any(|o| o.topic == said.topic && o.value != said.value)
            };
            let verdict = if !said.is_empty() && said.iter().all(is_old) {
                "DELETE"
            } else if said.iter().any(has_rival) {
                "UPDATE"
            } else {
                "KEEP"
            };
            json!({"id": id, "verdict": verdict})
        });
        json!({"verdicts": verdicts.collect::<Vec<_>>()})
    }
}
