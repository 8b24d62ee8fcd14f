//! What a chat request asks for, and the data in it.
//!
//! The extension's prompts are told apart by the first line of the system prompt, which no other
//! prompt has.

use super::Call;
use serde_json::{Value, json};

/// What a chat request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Extract,
    /// Whether facts were stated.
    Check,
    Reconcile,
    /// A question of a probe, which is one of reconciliation or extraction whose answer is known.
    Probe,
    Summary(Summary),
    Rewrite,
    Contradiction,
    /// A chat of an application: its prompt is none of ours.
    Chat,
    /// No chat at all.
    Other,
}

/// Which summary is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    pub kind: SummaryKind,
    /// Most tokens of the summary.
    pub target_tokens: u32,
    /// Whether topics, entities, decisions and questions are asked for too, as compression does.
    pub with_sections: bool,
}

/// Of what a summary is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SummaryKind {
    Brief,
    Standard,
    /// One part of a long text.
    Chunk,
    /// Summaries of parts.
    Meta,
    /// The last summary and what came after it.
    Rolling,
}

/// Beginnings of first lines.
const SUMMARIES: [(&str, SummaryKind); 5] = [
    ("You condense a short text into one sentence", SummaryKind::Brief),
    ("You condense a text into one paragraph", SummaryKind::Standard),
    ("You condense one part of a long text", SummaryKind::Chunk),
    ("You join summaries of consecutive parts", SummaryKind::Meta),
    ("You bring a summary up to date", SummaryKind::Rolling),
];

/// Beginnings of first lines.
const OTHERS: [(&str, Purpose); 5] = [
    ("You check notes that were made of a message", Purpose::Check),
    ("You keep the long-term memory of an assistant free of", Purpose::Reconcile),
    ("You extract from messages that users sent", Purpose::Extract),
    ("You turn what a user says to an assistant into queries", Purpose::Rewrite),
    ("You check memories that were recalled", Purpose::Contradiction),
];

/// What the questions of probes begin with. No test remembers or says these.
const OF_PROBES: [&str; 3] = [
    "The user lives in Porto",
    "The user works at Brandt as an accountant",
    "My grandfather Anselm keeps bees.",
];
/// The facts that one of them states.
const STATED: [(&str, &str); 2] = [
    ("My grandfather Anselm", "The user's grandfather Anselm keeps bees"),
    ("We have moved the workshop", "The user's workshop is on the second floor"),
];

/// Beginnings of the probe's facts, with the memory that each one changes or repeats; the others are new.
const RIGHT: [(&str, &str); 8] = [
    ("The user has moved to Braga", "replaces 1"),
    ("The weekly team meeting now", "replaces 5"),
    ("The user owns a pair of cats", "same as 3"),
    ("The user has given up coffee", "ends 7"),
    ("Ines has swapped the violin", "replaces 2"),
    ("The user has a peanut allergy", "same as 4"),
    ("The user and Jonas have broken off", "ends 6"),
    ("The user's dentist appointment was moved", "replaces 8"),
];
impl Call {
    /// What is asked for.
    pub fn purpose(&self) -> Purpose {
        if !self.is_chat() || self.messages("user").is_empty() {
            return Purpose::Other;
        }
        let system = self.system();
        if let Some((_, purpose)) = OTHERS.iter().find(|(line, _)| system.starts_with(line)) {
            let data = self.data();
            let first = [&data["memories"]["1"], &data["turns"][0]["text"]];
            let is_probe = matches!(purpose, Purpose::Reconcile | Purpose::Extract)
                && first
                    .iter()
                    .any(|first| first.as_str().is_some_and(|first| OF_PROBES.contains(&first)));
            return if is_probe { Purpose::Probe } else { *purpose };
        }
        match SUMMARIES.iter().find(|(line, _)| system.starts_with(line)) {
            Some((_, kind)) => Purpose::Summary(Summary {
                kind: *kind,
                target_tokens: number_after(&system, "Write at most ").unwrap_or(u32::MAX),
                with_sections: system.lines().any(|line| line.trim() == "## TOPICS"),
            }),
            None => Purpose::Chat,
        }
    }

    /// What the last message of a role says, "" if there is none.
    pub fn last_message(&self, role: &str) -> &str {
        self.messages(role).last().copied().unwrap_or_default()
    }
}

/// The number that follows the first occurrence of `words`.
pub(super) fn number_after(text: &str, words: &str) -> Option<u32> {
    let (_, rest) = text.split_once(words)?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().ok()
}

/// The data of an extract or reconcile request, as the extension's prompts wrap it:
/// numbered texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    pub turns: Vec<(u64, String)>,
    pub existing: Vec<(u64, String)>,
    pub new: Vec<(u64, String)>,
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
        if data.get("memories").is_none() {
            let (turns, existing) = (texts("turns", "turn"), texts("existing_memories", "id"));
            return Self { turns, existing, new: Vec::new() };
        }
        let numbered = |list: &Value| -> Vec<(u64, String)> {
            let items = list.as_object().into_iter().flatten();
            let text =
                |(id, text): (&String, &Value)| Some((id.parse().ok()?, text.as_str()?.to_owned()));
            items.filter_map(text).collect()
        };
        let only = data["fact"].as_str().map(|text| (1, text.to_owned()));
        let new = only.map_or_else(|| numbered(&data["facts"]), |only| vec![only]);
        Self { turns: Vec::new(), existing: numbered(&data["memories"]), new }
    }

    /// The answer to a reconcile request that has this choice for each new fact, which is given with the
    /// memories.
    pub fn decide(&self, choice: impl Fn(&str, &[(u64, String)]) -> String) -> Value {
        let choice = |fact: &str| choice(fact, &self.existing);
        match &self.new[..] {
            [(_, only)] => json!({"choice": choice(only)}),
            several => {
                let decisions = several.iter();
                let decisions: Vec<Value> = decisions
                    .map(|(fact, text)| json!({"fact": fact, "choice": choice(text)}))
                    .collect();
                json!({"decisions": decisions})
            }
        }
    }

    /// The right answer to a question of a probe.
    pub fn pass(&self) -> Value {
        if !self.turns.is_empty() {
            let stated = self.turns.iter().filter_map(|(turn, text)| {
                let (_, fact) = STATED.iter().find(|(begin, _)| text.starts_with(begin))?;
                Some(json!({"turn": turn, "text": fact}))
            });
            return json!({"facts": stated.collect::<Vec<_>>()});
        }
        self.decide(|fact, _| {
            let right = RIGHT.iter().find(|(begin, _)| fact.starts_with(begin));
            right.map_or("new", |(_, choice)| choice).to_owned()
        })
    }

    /// The answer by which everything new is added.
    pub fn unrelated(&self) -> Value {
        self.decide(|_, _| "new".to_owned())
    }
}
