//! A model that does what the turns tell it to, and what the tests look at.

use crate::scene::{PATIENCE, Scene};
use memory_agent_e2e::llm::{Call, Document, Model, Purpose};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, Json, Uuid, json, retry_until};
use std::sync::Mutex;

/// The confidence of every fact of [`obedient`].
pub const CONFIDENCE: f32 = 0.75;

/// What [`obedient`] was told of two facts: the old one, what becomes of it, the new one.
static TOLD: Mutex<Vec<(String, &'static str, String)>> = Mutex::new(Vec::new());

/// A scene whose facts are extracted from episodes.
pub fn start(model: impl Model) -> Scene {
    start_with(model, &[])
}

pub fn start_with(model: impl Model, settings: &[(&str, &str)]) -> Scene {
    let mut all = vec![("memory_agent.extraction", "episode")];
    all.extend_from_slice(settings);
    Scene::with_settings(model, &all)
}

/// The turns that a request is about.
pub fn turns_of(call: &Call) -> Vec<String> {
    Document::of(call).turns.into_iter().map(|(_, text)| text).collect()
}

/// Knows three phrases: `Note: FACT` states a fact, `Change: OLD => FACT` one that replaces another, and
/// `End: OLD => FACT` one that ends another. It passes the probe.
pub fn obedient(call: &Call) -> Json {
    let document = Document::of(call);
    let mut told = TOLD.lock().expect("no test panics with it");
    match call.purpose() {
        Purpose::Probe => document.pass(),
        Purpose::Extract => {
            let mut facts = Vec::new();
            for (turn, text) in document.turns {
                let pair = |begin| text.strip_prefix(begin).and_then(|it| it.split_once(" => "));
                let fact = if let Some(fact) = text.strip_prefix("Note: ") {
                    fact
                } else if let Some((old, new)) = pair("Change: ") {
                    told.push((old.to_owned(), "replaces", new.to_owned()));
                    new
                } else if let Some((old, new)) = pair("End: ") {
                    told.push((old.to_owned(), "ends", new.to_owned()));
                    new
                } else {
                    continue;
                };
                facts.push(json!({"turn": turn, "text": fact, "confidence": CONFIDENCE}));
            }
            json!({ "facts": facts })
        }
        _ => document.decide(|new, known| {
            let of = |text: &str| told.iter().find(|(old, _, fact)| old == text && fact == new);
            let choice = known.iter().find_map(|(id, text)| {
                let (_, word, _) = of(text)?;
                Some(format!("{word} {id}"))
            });
            choice.unwrap_or_else(|| "new".to_owned())
        }),
    }
}

impl Scene {
    /// Says things in the session `s`, ends the episode and waits for what becomes of it.
    #[track_caller]
    pub fn episode(&mut self, said: &[&str]) -> Vec<Uuid> {
        let turns = self.say_all(said);
        self.end_episode();
        self.drain();
        turns
    }

    /// Ends the running episode of the session `s`.
    #[track_caller]
    pub fn end_episode(&mut self) {
        run(&mut self.client, "SELECT memory_close_episode('s')");
    }

    /// The turns in each request for an extraction.
    pub fn extracted_turns(&self) -> Vec<Vec<String>> {
        self.extractions().iter().map(turns_of).collect()
    }

    /// What was sent with each request for an extraction.
    pub fn extractions(&self) -> Vec<Call> {
        let calls = self.stub.calls().into_iter();
        calls.filter(|call| call.purpose() == Purpose::Extract).collect()
    }

    /// `turns status reason` of all episodes, oldest first.
    pub fn episodes(&mut self) -> Vec<String> {
        values(
            &mut self.client,
            "SELECT concat_ws(' ', turn_count, status, close_reason) FROM memory_agent.episodes \
              ORDER BY id",
            &[],
        )
    }

    /// The documents of all traces, oldest first.
    pub fn traces(&mut self) -> Vec<Json> {
        values(&mut self.client, "SELECT body FROM memory_traces ORDER BY id", &[])
    }

    /// How many turns wait for the end of their episode.
    pub fn waiting_turns(&mut self) -> i64 {
        value(
            &mut self.client,
            "SELECT count(*) FROM memory_agent.entries WHERE extracted_at = 'infinity'",
            &[],
        )
    }

    /// How many user turns wait for extraction.
    pub fn unextracted_turns(&mut self) -> i64 {
        let count = "SELECT count(*) FROM memory_agent.entries \
                      WHERE kind = 'turn' AND role = 'user' AND extracted_at IS NULL";
        value(&mut self.client, count, &[])
    }

    /// Waits for a dead job of a kind.
    #[track_caller]
    pub fn dead_job(&mut self, kind: &str) -> Uuid {
        retry_until(PATIENCE, "a dead job", || {
            let is_dead = |job: &crate::scene::Job| job.kind == kind && job.status == "dead";
            self.jobs().into_iter().find(is_dead).map(|job| job.id)
        })
    }

    #[track_caller]
    pub fn retry(&mut self, job: Uuid) {
        assert!(value::<bool>(&mut self.client, "SELECT memory_retry($1)", &[&job]));
        self.drain();
    }

    /// `session: fact` of the active facts, sorted.
    pub fn facts_by_session(&mut self) -> Vec<String> {
        values(
            &mut self.client,
            "SELECT concat(session_id, ': ', content) FROM memory_agent.entries \
              WHERE kind = 'fact' AND state = 'active' ORDER BY 1",
            &[],
        )
    }
}

/// The one value of a query without parameters, as text.
#[track_caller]
pub fn shown(client: &mut Client, sql: &str) -> String {
    value(client, &format!("SELECT ({sql})::text"), &[])
}
