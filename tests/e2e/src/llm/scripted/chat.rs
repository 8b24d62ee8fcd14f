//! Chats of applications, which are answered from what is shown in them, and rewrites of what users
//! ask.

use super::{Reading, ScriptedModel};
use crate::llm::Call;
use memory_agent_core::prompt::augment::{MEMORY_HEADER, original_message};
use memory_agent_core::prompt::fence;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Words that do not tell what a text is about.
const COMMON: [&str; 24] = [
    "the", "and", "you", "your", "user", "users", "what", "which", "who", "where", "when", "how",
    "why", "does", "did", "was", "are", "has", "have", "for", "with", "that", "this", "about",
];

impl ScriptedModel {
    /// The first fact on the topic of a known question; to another message the first memory that
    /// shares most words with it.
    ///
    /// Memories come first, in the order of the block of memories, then the text before it, which
    /// is the summary, then system messages and what was said before, the latest first.
    pub(super) fn chat(&self, call: &Call) -> String {
        let last = call.last_message("user");
        let message = original_message(last);
        if self.turns.contains_key(message) {
            return "I will remember that.".to_owned();
        }
        let shown = self.shown(call, message);
        let answer = match self.questions.get(message) {
            Some(topic) => shown
                .iter()
                .flat_map(|reading| &reading.statements)
                .find(|statement| statement.topic == *topic)
                .map(|statement| statement.fact.as_str()),
            None => most_alike(&shown, message),
        };
        match answer {
            Some(answer) => format!("From memory: {answer}"),
            None => "I do not know.".to_owned(),
        }
    }

    /// What the chat shows beside the current message, the most relevant first.
    fn shown(&self, call: &Call, message: &str) -> Vec<Reading> {
        let users = call.messages("user");
        let (last, earlier) = users.split_last().map_or(("", &[][..]), |(l, rest)| (*l, rest));
        let before = last[..last.rfind(message).unwrap_or(0)].replace(fence::OPEN, "");
        let before = before.replace(fence::CLOSE, "");
        let (summary, memories) = before.split_once(MEMORY_HEADER).unwrap_or((before.as_str(), ""));
        // A line of the block is "[role, day] content"; what no longer holds stands below it.
        memories
            .lines()
            .filter(|line| !line.starts_with("  (no longer true: "))
            .map(|line| line.split_once("] ").map_or(line, |(_, content)| content))
            .chain([summary])
            .chain(call.messages("system"))
            .chain(earlier.iter().rev().copied())
            .flat_map(|text| self.read(text))
            .collect()
    }

    /// The topic of a known question, in words of our own.
    pub(super) fn rewrites(&self, call: &Call) -> Value {
        let data = call.data();
        let topic = data["message"].as_str().and_then(|message| self.questions.get(message));
        let rewrites: Vec<String> =
            topic.into_iter().map(|topic| format!("the user's {topic}")).collect();
        json!({"rewrites": rewrites})
    }
}

fn most_alike<'a>(shown: &'a [Reading], message: &str) -> Option<&'a str> {
    let wanted = words(message);
    let shared = |reading: &Reading| words(&reading.text).intersection(&wanted).count();
    let most = shown.iter().map(shared).max().filter(|most| *most > 0)?;
    shown.iter().find(|reading| shared(reading) == most).map(|reading| reading.text.as_str())
}

fn words(text: &str) -> BTreeSet<String> {
    text.to_lowercase()
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.len() > 2 && !COMMON.contains(word))
        .map(str::to_owned)
        .collect()
}
