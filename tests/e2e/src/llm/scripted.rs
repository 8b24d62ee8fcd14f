//! A model that makes no mistakes about what it was told: turns mean the facts of a table, and facts
//! replace, contradict or repeat each other by their topics and values. How it answers is in
//! `scripted/`, one file for each kind of request.

mod chat;
mod memories;
mod summary;
#[cfg(test)]
mod tests;

use super::{Call, Change, Conversation, Document, Model, Purpose, Reply, Statement};
use serde_json::{Value, json};
use std::collections::HashMap;

/// The confidence of every fact.
pub const CONFIDENCE: f32 = 0.75;

/// Most sentences of one turn or fact.
const MAX_SENTENCES: usize = 6;

/// Answers from a table. Turns that are not in it mean nothing; facts that are not in it are on a
/// topic of their own.
#[derive(Clone, Debug, Default)]
pub struct ScriptedModel {
    turns: HashMap<String, Vec<Statement>>,
    facts: HashMap<String, Statement>,
    /// The topic of the answer to a question.
    questions: HashMap<String, String>,
    /// The order in which facts became known.
    order: Vec<String>,
    /// How many answers to one request for a summary are too long.
    excess: usize,
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

    /// A question, and the topic of the fact that answers it. For chats and rewrites.
    #[must_use]
    pub fn knows_question(mut self, question: &str, topic: &str) -> Self {
        self.questions.insert(question.to_owned(), topic.to_owned());
        self
    }

    /// The first `answers` answers to each request for a summary are twice as long as allowed.
    #[must_use]
    pub fn writes_too_much(mut self, answers: usize) -> Self {
        self.excess = answers;
        self
    }

    /// A turn and all that it means.
    #[must_use]
    pub fn understands(mut self, turn: &str, statements: &[Statement]) -> Self {
        for statement in statements {
            if !self.facts.contains_key(&statement.fact) {
                self.order.push(statement.fact.clone());
            }
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

    /// What a turn or a fact says; nothing if it is neither.
    fn meaning(&self, text: &str) -> Vec<Statement> {
        let text = text.trim();
        for text in [text, text.trim_end_matches('.')] {
            if let Some(fact) = self.facts.get(text) {
                return vec![fact.clone()];
            }
            if let Some(statements) = self.turns.get(text) {
                return statements.clone();
            }
        }
        Vec::new()
    }

    /// What a text of any length says, sentence by sentence.
    fn read(&self, text: &str) -> Vec<Reading> {
        let sentences = sentences(text);
        let mut readings = Vec::new();
        let mut at = 0;
        while at < sentences.len() {
            // A turn or a fact may have several sentences.
            let longest = (sentences.len() - at).min(MAX_SENTENCES);
            let known = (1..=longest).rev().find_map(|count| {
                let meaning = self.meaning(&sentences[at..at + count].join(" "));
                (!meaning.is_empty()).then_some((count, meaning))
            });
            let (count, statements) = known.unwrap_or((1, Vec::new()));
            let text = sentences[at..at + count].join(" ");
            readings.push(Reading { text, statements });
            at += count;
        }
        readings
    }
}

/// A piece of a text, and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reading {
    text: String,
    /// Empty if the model does not know.
    statements: Vec<Statement>,
}

impl Model for ScriptedModel {
    fn answer(&self, call: &Call) -> Reply {
        match call.purpose() {
            Purpose::Extract => self.extract(&Document::of(call)).into(),
            Purpose::Check => all_stated(call).into(),
            Purpose::Reconcile => self.reconcile(&Document::of(call)).into(),
            Purpose::Probe => Document::of(call).pass().into(),
            Purpose::Contradiction => self.contradictions(call).into(),
            Purpose::Summary(asked) => self.summary(call, asked).into(),
            Purpose::Rewrite => self.rewrites(call).into(),
            Purpose::Chat => self.chat(call).into(),
            Purpose::Other => Reply::error(400, "the script knows nothing of this"),
        }
    }
}

/// What the script extracts, somebody said.
fn all_stated(call: &Call) -> Value {
    let notes = call.data()["notes"].as_array().map_or(0, Vec::len);
    json!({"checks": vec!["stated"; notes]})
}

fn statement(topic: &str, value: &str, fact: &str, change: Change) -> Statement {
    Statement { topic: topic.to_owned(), value: value.to_owned(), fact: fact.to_owned(), change }
}

/// The sentences of a text. They end after a mark that blank space follows, and with their line.
fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    for line in text.lines() {
        let mut start = 0;
        for (at, mark) in line.match_indices(['.', '!', '?']) {
            let end = at + mark.len();
            if line[end..].starts_with(char::is_whitespace) {
                sentences.push(&line[start..end]);
                start = end;
            }
        }
        sentences.push(&line[start..]);
    }
    sentences.into_iter().map(str::trim).filter(|sentence| !sentence.is_empty()).collect()
}
