//! A model that does what the turns tell it to, and what the tests look at.

use crate::scene::Scene;
use memory_agent_e2e::llm::{Call, Document, Model, Purpose};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, Json, Uuid, json};

/// The confidence of every fact of [`obedient`].
pub const CONFIDENCE: f32 = 0.75;

/// A scene whose facts are made of episodes.
pub fn start(model: impl Model) -> Scene {
    start_with(model, &[])
}

pub fn start_with(model: impl Model, settings: &[(&str, &str)]) -> Scene {
    let mut all = vec![("memory_agent.extraction", "episode")];
    all.extend_from_slice(settings);
    Scene::with_settings(model, &all)
}

/// The numbered texts of a list in a request.
fn texts(call: &Call, list: &str, id: &str) -> Vec<(u64, String)> {
    let data = call.data();
    let items = data[list].as_array().map_or(&[][..], Vec::as_slice);
    let text = |item: &Json| Some((item[id].as_u64()?, item["text"].as_str()?.to_owned()));
    items.iter().filter_map(text).collect()
}

/// The turns that a request is about.
pub fn turns_of(call: &Call) -> Vec<String> {
    texts(call, "turns", "turn").into_iter().map(|(_, text)| text).collect()
}

/// The known facts that a request shows.
pub fn facts_of(call: &Call) -> Vec<String> {
    texts(call, "existing_memories", "id").into_iter().map(|(_, text)| text).collect()
}

pub fn is_reflection(call: &Call) -> bool {
    call.system().starts_with("You look back on an episode")
}

/// Knows four phrases: `Note: FACT` adds, `Rather: FACT` adds in place of what the turn before said,
/// `Change: FACT => FACT` updates, `Forget: FACT` removes. A
/// marker may stand before the fact, as in `Note: [goal] FACT`. What is to be changed and was not shown
/// is added. Facts that are not named get no action. It passes the probe.
pub fn obedient(call: &Call) -> Json {
    if call.purpose() == Purpose::Probe {
        return Document::of(call).pass();
    }
    let known = texts(call, "existing_memories", "id");
    let id_of = |fact: &str| known.iter().find(|(_, text)| text == fact).map(|(id, _)| *id);
    let mut actions = Vec::new();
    for (turn, text) in texts(call, "turns", "turn") {
        let statement = |action: &str, id: Option<u64>, text: &str| {
            let (markers, text) =
                match text.strip_prefix('[').and_then(|text| text.split_once("] ")) {
                    Some((marker, text)) => (vec![marker.to_owned()], text),
                    None => (Vec::new(), text),
                };
            json!({
                "action": action, "id": id, "text": text, "markers": markers,
                "confidence": CONFIDENCE, "turns": [turn],
            })
        };
        if let Some(fact) = text.strip_prefix("Note: ") {
            actions.push(statement("add", None, fact));
        } else if let Some(fact) = text.strip_prefix("Rather: ") {
            let mut action = statement("add", None, fact);
            action["turns"] = json!([turn - 1, turn]);
            action["replaces"] = json!([turn - 1]);
            actions.push(action);
        } else if let Some((old, new)) =
            text.strip_prefix("Change: ").and_then(|change| change.split_once(" => "))
        {
            actions.push(match id_of(old) {
                Some(id) => statement("update", Some(id), new),
                None => statement("add", None, new),
            });
        } else if let Some(id) = text.strip_prefix("Forget: ").and_then(&id_of) {
            actions.push(json!({"action": "remove", "id": id, "turns": [turn]}));
        }
    }
    json!({ "actions": actions })
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

    /// What was sent with each request for a reflection.
    pub fn reflections(&self) -> Vec<Call> {
        self.stub.calls().into_iter().filter(is_reflection).collect()
    }

    /// The turns in each request for a reflection.
    pub fn reflected_turns(&self) -> Vec<Vec<String>> {
        self.reflections().iter().map(turns_of).collect()
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

    /// How many user turns still wait for the reflection on their episode.
    pub fn waiting_turns(&mut self) -> i64 {
        value(
            &mut self.client,
            "SELECT count(*) FROM memory_agent.entries WHERE extracted_at = 'infinity'",
            &[],
        )
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
