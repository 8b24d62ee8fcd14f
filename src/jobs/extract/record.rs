//! What the trace of an extraction from turns of episodes tells.

use crate::jobs::prelude::*;
use crate::store::facts::NearFact;
use crate::store::facts::extraction::WaitingTurn;
use crate::store::queue::traces::{self, Effects};
use crate::store::rows::fact_scope::FactScope;
use serde_json::{Value, json};

/// Known facts that a trace lists.
const PRIOR_FACTS: i32 = 100;

/// What this attempt of a job has seen so far.
pub struct Record {
    prior: (i64, Value),
    /// The LLM's answers that could be used.
    answers: Vec<String>,
    /// The known facts that new ones were compared with, each once.
    compared: Vec<(Uuid, Value)>,
    started: Instant,
}

impl Record {
    pub fn start(spi: &Spi, scope: &FactScope<'_>) -> PgResult<Self> {
        let prior = traces::prior_facts(spi, scope, PRIOR_FACTS)?;
        Ok(Self { prior, answers: Vec::new(), compared: Vec::new(), started: Instant::now() })
    }

    pub fn answered(&mut self, answer: &str) {
        self.answers.push(answer.to_owned());
    }

    pub fn compared_with(&mut self, facts: &[NearFact]) {
        for near in facts {
            if !self.compared.iter().any(|(id, _)| *id == near.id) {
                let similarity = (near.similarity * 1e4).round() / 1e4;
                let fact = json!({
                    "id": near.id.to_string(), "content": near.content, "similarity": similarity,
                });
                self.compared.push((near.id, fact));
            }
        }
    }

    /// Stores the trace of a job that ends. Turns are named, not repeated: they are never changed.
    pub fn store(
        &self,
        spi: &Spi,
        job: &Job,
        turns: &[WaitingTurn],
        stored: &payloads::Effects,
    ) -> PgResult<()> {
        let mut episodes: Vec<Uuid> = turns.iter().filter_map(|turn| turn.episode_id).collect();
        episodes.dedup();
        let input: Vec<Value> = (turns.iter())
            .map(|turn| {
                let role = if turn.is_assistants { "assistant" } else { "user" };
                json!({ "id": turn.id.to_string(), "role": role, "markers": turn.markers })
            })
            .collect();
        let shown: Vec<&Value> = self.compared.iter().map(|(_, fact)| fact).collect();
        let (count, newest) = &self.prior;
        let body = json!({
            "mode": if shown.is_empty() { "reflect" } else { "consolidate" },
            "episodes": episodes.iter().map(Uuid::to_string).collect::<Vec<_>>(),
            "input_turn_count": input.len(),
            "input_turns": input,
            "prior_fact_count": count,
            "prior_facts": newest,
            "scoped_facts": shown,
            "raw_output": self.answers.join("\n"),
            "rounds": self.answers.len(),
            "elapsed_ms": u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
        let (saved, ended) = (queue::uuids(&stored.saved), queue::uuids(&stored.ended));
        let episode = episodes.last().copied();
        traces::insert(spi, job, episode, &body, &Effects { saved, ended })
    }
}
