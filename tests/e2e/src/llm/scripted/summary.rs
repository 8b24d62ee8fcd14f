//! Summaries: the facts of the material, each topic with what was said last, as long as they fit.

use super::{Reading, ScriptedModel};
use crate::llm::{Call, Statement, Summary, number_after, tokens};
use memory_agent_core::condense::summarize::Sections;
use memory_agent_core::text::language::Language;
use serde_json::Value;

/// Most items of a section.
const MAX_ITEMS: usize = 8;

impl ScriptedModel {
    /// What does not fit is left out, the oldest first. Without a known fact the beginning is left.
    pub(super) fn summary(&self, call: &Call, asked: Summary) -> String {
        let texts = texts_of(&call.data());
        let readings: Vec<Reading> = texts.iter().flat_map(|text| self.read(text)).collect();
        let facts = newest(&readings);
        // The text of a conversation may hold the same words.
        let shorter = call.is_repair().then(|| call.last_message("user"));
        let shorter = shorter.and_then(|request| number_after(request, "the limit is "));
        let target = shorter.unwrap_or(asked.target_tokens) as usize;
        let mut summary =
            if facts.is_empty() { beginning(&readings, target) } else { end(&facts, target) };
        if call.messages("assistant").len() < self.excess {
            while tokens(&summary) <= 2 * target {
                summary.push_str(" More was said, and all of it is told here at great length.");
            }
        }
        if !asked.with_sections {
            return summary;
        }
        let said = |is_it: &dyn Fn(&Reading) -> bool| {
            distinct(readings.iter().filter(|r| is_it(r)).map(|r| r.text.clone()))
        };
        let known = || readings.iter().flat_map(|r| &r.statements);
        let sections = Sections {
            summary,
            topics: distinct(known().map(|s| s.topic.clone())),
            entities: distinct(known().filter(|s| is_name(&s.value)).map(|s| s.value.clone())),
            decisions: said(&|r| Language::english().markers(&r.text).contains(&"decision")),
            questions: said(&|r| r.statements.is_empty() && r.text.ends_with('?')),
        };
        sections.to_string()
    }
}

/// All texts of the request, oldest first.
fn texts_of(data: &Value) -> Vec<String> {
    let list = |name: &str| data[name].as_array().cloned().unwrap_or_default();
    let mut values = vec![data["previous_summary"].clone()];
    values.extend(list("turns").into_iter().map(|turn| turn["text"].clone()));
    values.extend(list("facts").into_iter().map(|fact| fact["text"].clone()));
    values.extend(list("summaries"));
    values.push(data["text"].clone());
    values.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The facts that hold at the end, in the order in which they were last said.
fn newest(readings: &[Reading]) -> Vec<String> {
    let mut facts: Vec<&Statement> = Vec::new();
    for statement in readings.iter().flat_map(|reading| &reading.statements) {
        let earlier = facts.iter().position(|fact| fact.topic == statement.topic);
        let repeats = |at: &usize| facts[*at].value == statement.value;
        match earlier {
            Some(at) if repeats(&at) => {
                let fact = facts.remove(at);
                facts.push(fact);
            }
            Some(at) => {
                facts.remove(at);
                facts.push(statement);
            }
            None => facts.push(statement),
        }
    }
    facts.iter().map(|statement| as_sentence(&statement.fact)).collect()
}

fn as_sentence(text: &str) -> String {
    if text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

/// The last sentences that fit; one in any case.
fn end(sentences: &[String], target: usize) -> String {
    let fits = |start: &usize| tokens(&sentences[*start..].join(" ")) <= target;
    let start = (0..sentences.len()).find(fits).unwrap_or(sentences.len() - 1);
    sentences[start..].join(" ")
}

/// The first sentences that fit; one in any case.
fn beginning(readings: &[Reading], target: usize) -> String {
    let sentences: Vec<&str> = readings.iter().map(|reading| reading.text.as_str()).collect();
    let fits = |end: &usize| tokens(&sentences[..*end].join(" ")) <= target;
    match (1..=sentences.len()).rev().find(fits) {
        Some(end) => sentences[..end].join(" "),
        None => sentences.first().copied().unwrap_or("Nothing was said.").to_owned(),
    }
}

fn is_name(value: &str) -> bool {
    value.starts_with(|c: char| c.is_uppercase())
}

/// The first items, each once.
fn distinct(items: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = Vec::new();
    for item in items {
        if seen.len() < MAX_ITEMS && !seen.contains(&item) {
            seen.push(item);
        }
    }
    seen
}
