//! A model that makes no mistakes about what it was told: turns mean the facts of a table, and facts
//! replace, contradict or repeat each other by their topics and values.

use super::{Call, Change, Conversation, Model, Reply, Statement};
use serde_json::{Value, json};
use std::collections::HashMap;

/// The confidence of every extracted fact.
pub const CONFIDENCE: f32 = 0.75;

/// Answers extract and reconcile requests from a table. Turns that are not in it mean nothing; facts
/// that are not in it are on a topic of their own.
#[derive(Clone, Debug, Default)]
pub struct ScriptedModel {
    turns: HashMap<String, Vec<Statement>>,
    facts: HashMap<String, Statement>,
}

impl ScriptedModel {
    /// Knows nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Understands all turns of a conversation.
    pub fn of(conversation: &Conversation) -> Self {
        let turns = conversation.turns.iter();
        turns.fold(Self::new(), |model, turn| model.understands(&turn.text, &turn.statements))
    }

    /// A turn that means one fact, which replaces what has another value on the same topic.
    #[must_use]
    pub fn knows(self, turn: &str, topic: &str, value: &str, fact: &str) -> Self {
        self.understands(turn, &[statement(topic, value, fact, Change::Update)])
    }

    /// A turn that means one fact, which ends what has another value on the same topic.
    #[must_use]
    pub fn knows_the_end(self, turn: &str, topic: &str, value: &str, fact: &str) -> Self {
        self.understands(turn, &[statement(topic, value, fact, Change::Contradiction)])
    }

    /// A turn and all that it means.
    #[must_use]
    pub fn understands(mut self, turn: &str, statements: &[Statement]) -> Self {
        for statement in statements {
            // What only repeats a fact does not say how the fact came about.
            let known =
                self.facts.entry(statement.fact.clone()).or_insert_with(|| statement.clone());
            if known.change == Change::Repetition {
                known.change = statement.change;
            }
        }
        self.turns.entry(turn.to_owned()).or_default().extend_from_slice(statements);
        self
    }

    fn extract(&self, document: &Document) -> Value {
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

    /// Every memory is listed. Of several new facts on a topic, the last counts.
    fn reconcile(&self, document: &Document) -> Value {
        let meaning = |text: &String| {
            self.facts
                .get(text)
                .cloned()
                .unwrap_or_else(|| statement(text, text, text, Change::New))
        };
        let new: Vec<(u64, Statement)> =
            document.new.iter().map(|(id, text)| (*id, meaning(text))).collect();
        let existing: Vec<(u64, Statement)> =
            document.existing.iter().map(|(id, text)| (*id, meaning(text))).collect();
        let mut decisions = Vec::new();
        let mut taken_up = Vec::new();
        for (id, memory) in &existing {
            let others: Vec<&(u64, Statement)> = new
                .iter()
                .filter(|(_, fact)| fact.topic == memory.topic && fact.value != memory.value)
                .collect();
            let ids: Vec<u64> = others.iter().map(|(id, _)| *id).collect();
            decisions.push(match others.last() {
                None => json!({"id": id, "event": "NONE"}),
                Some((_, fact)) if fact.change == Change::Contradiction => {
                    json!({"id": id, "event": "DELETE", "from": ids})
                }
                Some((_, last)) => {
                    taken_up.extend_from_slice(&ids);
                    // Whatever repeats a value in other words adds nothing to it.
                    let first = others.iter().find(|(_, fact)| fact.value == last.value);
                    let text = first.map_or(&last.fact, |(_, fact)| &fact.fact);
                    json!({"id": id, "event": "UPDATE", "text": text, "from": ids})
                }
            });
        }
        for (id, fact) in new.iter().filter(|(id, _)| !taken_up.contains(id)) {
            let same = existing
                .iter()
                .find(|(_, memory)| memory.topic == fact.topic && memory.value == fact.value);
            decisions.push(match same {
                Some((same, _)) => json!({"id": id, "event": "NONE", "same_as": same}),
                None => json!({"id": id, "event": "ADD"}),
            });
        }
        json!({"memories": decisions})
    }
}

impl Model for ScriptedModel {
    fn answer(&self, call: &Call) -> Reply {
        let document = Document::of(call);
        match call.purpose() {
            Purpose::Extract => self.extract(&document).into(),
            Purpose::Reconcile => self.reconcile(&document).into(),
            Purpose::Other => Reply::error(400, "the script knows extract and reconcile only"),
        }
    }
}

fn statement(topic: &str, value: &str, fact: &str, change: Change) -> Statement {
    Statement { topic: topic.to_owned(), value: value.to_owned(), fact: fact.to_owned(), change }
}

/// What a chat request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Extract,
    Reconcile,
    Other,
}

/// The data of a request, as the extension's prompts wrap it: numbered texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    pub turns: Vec<(u64, String)>,
    pub existing: Vec<(u64, String)>,
    pub new: Vec<(u64, String)>,
}

impl Call {
    /// What is asked for, by the data that the request holds.
    pub fn purpose(&self) -> Purpose {
        let document = Document::of(self);
        if !document.turns.is_empty() {
            Purpose::Extract
        } else if !document.new.is_empty() {
            Purpose::Reconcile
        } else {
            Purpose::Other
        }
    }
}

impl Document {
    /// The document that is the first message of the user; empty if there is none.
    pub fn of(call: &Call) -> Self {
        let data = call.data();
        let texts = |list: &str, id: &str| -> Vec<(u64, String)> {
            let items = data[list].as_array().map_or(&[][..], Vec::as_slice);
            let text = |item: &Value| Some((item[id].as_u64()?, item["text"].as_str()?.to_owned()));
            items.iter().filter_map(text).collect()
        };
        Self {
            turns: texts("turns", "turn"),
            existing: texts("existing_memories", "id"),
            new: texts("new_facts", "id"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::Fault;
    use memory_agent_core::answers::{AnswerFormat, ChatMessage, ChatRole};
    use memory_agent_core::extract::{self, PendingTurn};
    use memory_agent_core::reconcile::{self, Existing, New, Plan};

    const DAY: &str = "2024-05-03";

    fn model() -> ScriptedModel {
        ScriptedModel::new()
            .knows("I live in Rome.", "home", "Rome", "User lives in Rome.")
            .knows("I live in Oslo.", "home", "Oslo", "User lives in Oslo.")
            .knows("I eat meat.", "meat", "yes", "User eats meat.")
            .knows_the_end("I eat no meat.", "meat", "no", "User eats no meat.")
    }

    /// The request that the extension would send.
    fn call(messages: &[ChatMessage]) -> Call {
        let role = |role| match role {
            ChatRole::System => "system",
            ChatRole::User => "user",
            ChatRole::Assistant => "assistant",
        };
        let messages: Vec<Value> = messages
            .iter()
            .map(|message| json!({"role": role(message.role), "content": message.content}))
            .collect();
        Call::with_body(json!({"model": "m", "messages": messages}))
    }

    fn answer(call: &Call) -> String {
        match model().answer(call) {
            Reply::Content(content) => content,
            other => panic!("{other:?}"),
        }
    }

    fn extraction(turns: &[&str]) -> Call {
        let pending = |content| PendingTurn { content, speaker: None, said_at: DAY };
        let turns: Vec<PendingTurn<'_>> = turns.iter().map(|text| pending(text)).collect();
        call(&extract::messages(&turns, 3))
    }

    fn reconciled(existing: &[&str], new: &[&str]) -> Plan {
        let existing: Vec<Existing<'_>> =
            existing.iter().map(|content| Existing { content, since: DAY }).collect();
        let new: Vec<New<'_>> = new.iter().map(|content| New { content, since: DAY }).collect();
        let call = call(&reconcile::messages(&existing, &new));
        assert_eq!(call.purpose(), Purpose::Reconcile);
        let (count, count_new) = (existing.len() as u32, new.len() as u32);
        let format = AnswerFormat::Decisions { existing: count, new: count_new };
        let checked = format.check(&answer(&call)).expect("an acceptable answer");
        let decisions = reconcile::parse(&checked, count, count_new).expect("decisions");
        reconcile::plan(&decisions, &existing, &new)
    }

    #[test]
    fn facts_belong_to_their_turns() {
        let call = extraction(&["Hello!", "I live in Rome.", "I eat \"meat\"."]);
        assert_eq!(call.purpose(), Purpose::Extract);
        let format = AnswerFormat::Facts { turns: 3, max_per_turn: 3 };
        let checked = format.check(&answer(&call)).expect("an acceptable answer");
        let facts = extract::parse(&checked, 3, 3).expect("facts");
        let found: Vec<_> = facts.iter().map(|fact| (fact.turn, fact.text.as_str())).collect();
        assert_eq!(found, [(1, "User lives in Rome.")]);
        assert_eq!(facts[0].confidence, Some(CONFIDENCE));
    }

    #[test]
    fn another_value_replaces() {
        let plan =
            reconciled(&["User has a dog.", "User lives in Rome."], &["User lives in Oslo."]);
        let update = reconcile::Update {
            existing: 1,
            text: "User lives in Oslo.".to_owned(),
            from: vec![0],
        };
        assert_eq!(plan, Plan { update: vec![update], ..Plan::default() });
    }

    #[test]
    fn a_contradiction_deletes_and_stays() {
        let plan = reconciled(&["User eats meat."], &["User eats no meat.", "User has a cat."]);
        let deletion = reconcile::Deletion { existing: 0, because_of: vec![0] };
        assert_eq!(plan, Plan { add: vec![0, 1], delete: vec![deletion], ..Plan::default() });
    }

    #[test]
    fn the_same_value_is_the_same() {
        let plan = reconciled(&["User lives in Rome."], &["User lives in Rome."]);
        assert_eq!(plan, Plan { same: vec![(0, 0)], ..Plan::default() });
    }

    /// A fault that core would not notice would spoil facts, and tests of faults would blame others.
    #[test]
    fn spoiled_content_is_mended_or_refused() {
        let requests = [
            (
                extraction(&["I live in Rome.", "I eat meat."]),
                AnswerFormat::Facts { turns: 2, max_per_turn: 3 },
            ),
            (
                call(&reconcile::messages(
                    &[Existing { content: "User lives in Rome.", since: DAY }],
                    &[New { content: "User lives in Oslo.", since: DAY }],
                )),
                AnswerFormat::Decisions { existing: 1, new: 1 },
            ),
        ];
        for (request, format) in requests {
            let good = answer(&request);
            let expected = format.check(&good).expect("an acceptable answer");
            for mendable in [Fault::Prose, Fault::Fenced] {
                assert_eq!(format.check(&mendable.spoil(good.clone())), Ok(expected.clone()));
            }
            for hopeless in [
                Fault::HalfContent,
                Fault::GarbageContent,
                Fault::WrongSchema,
                Fault::InventedIds,
                Fault::EmptyContent,
            ] {
                let spoiled = hopeless.spoil(good.clone());
                assert!(format.check(&spoiled).is_err(), "{hopeless:?}: {spoiled}");
            }
        }
    }
}
