//! Facts on their way from an LLM's answer into the table: what is known of each, with its embedding.

use crate::memory::texts::language::Phrases;
use crate::memory::texts::secrets;
use crate::models::{self, Failure};
use crate::pg::prelude::*;
use crate::settings::Content;
use crate::store::facts::Unreconciled;
use crate::store::facts::extraction::WaitingTurn;
use memory_agent_core::facts::extract::{self, ExtractedFact};
use memory_agent_core::facts::grounding;
use memory_agent_core::facts::statement_check::STATED;
use memory_agent_core::jobs::payloads::SavedFact;
use memory_agent_core::text::markers;
use memory_agent_core::text::secrets::Counts;
use memory_agent_model_server::protocol::{ModelRef, Purpose};

/// A text's embedding, by windows, and its token count. Without a model there are no windows; a negative count is
/// none.
pub type Measured = (Vec<Vec<f32>>, i32);

/// What is known of a text that is left to a job.
pub const UNMEASURED: Measured = (Vec::new(), -1);

/// A fact that is to be stored.
#[derive(Clone)]
pub struct Fact {
    pub text: String,
    pub source_ids: Vec<Uuid>,
    pub created_at: TimestampWithTimeZone,
    /// The day it was said, as ISO 8601 date in UTC.
    pub said_at: String,
    pub expires_at: Option<TimestampWithTimeZone>,
    pub markers: Vec<String>,
    pub confidence: Option<f32>,
    /// The embedding's windows; empty without a model.
    pub windows: Vec<Vec<f32>>,
    pub token_count: i32,
    /// The row that holds it already, added without being compared with the others.
    pub stored_as: Option<Uuid>,
    /// Secrets that were taken out of it.
    pub secrets: Counts,
}

impl Fact {
    /// The embedding that facts are compared by.
    pub fn embedding(&self) -> Option<&[f32]> {
        self.windows.first().map(Vec::as_slice)
    }

    /// Takes up a repetition: the fact was said in its turns too, and is remembered as long as the
    /// longer of both.
    pub fn absorb(&mut self, repetition: Self) {
        for source in repetition.source_ids {
            if !self.source_ids.contains(&source) {
                self.source_ids.push(source);
            }
        }
        self.expires_at = later(self.expires_at, repetition.expires_at);
        self.confidence = match (self.confidence, repetition.confidence) {
            (Some(own), Some(other)) => Some(own.max(other)),
            (own, other) => own.or(other),
        };
    }
}

/// The later of two times of expiry; `None` is never.
pub fn later(
    left: Option<TimestampWithTimeZone>,
    right: Option<TimestampWithTimeZone>,
) -> Option<TimestampWithTimeZone> {
    let (left, right) = (left?, right?);
    Some(if left < right { right } else { left })
}

/// An LLM's facts in the form that is kept. Its phrases for times are those of English and of a language.
pub fn save(
    facts: Vec<ExtractedFact>,
    turns: &[WaitingTurn],
    language: &Phrases,
) -> Vec<SavedFact> {
    facts
        .into_iter()
        .filter_map(|fact| {
            let turn = turns.get(fact.turn)?;
            if extract::is_example(&fact.text, &turn.content) {
                return None;
            }
            Some(SavedFact {
                text: grounding::dated(
                    &grounding::completed(&fact.text, &turn.content),
                    &turn.said_at,
                    language.of_another_language(),
                ),
                turn: turn.id.to_string(),
                repeated: Vec::new(),
                confidence: fact.confidence,
                checked: None,
            })
        })
        .collect()
}

/// Facts of turns that need no further check, in the form that is kept.
pub fn to_saved(facts: &[Fact]) -> Vec<SavedFact> {
    facts
        .iter()
        .filter_map(|fact| {
            Some(SavedFact {
                text: fact.text.clone(),
                turn: fact.source_ids.first()?.to_string(),
                repeated: fact.source_ids.iter().skip(1).map(Uuid::to_string).collect(),
                confidence: fact.confidence,
                checked: Some(STATED.to_owned()),
            })
        })
        .collect()
}

/// Facts of turns that are still there, without embeddings. A fact lives as long as its turn, and
/// says when its turn said it. A turn's own markers are its fact's when it has only one.
pub fn of_turns(
    saved: &[SavedFact],
    turns: &[WaitingTurn],
    language: &Phrases,
    detect_markers: bool,
) -> Vec<Fact> {
    let phrases = detect_markers.then_some(language);
    let mut facts: Vec<Fact> = saved
        .iter()
        .filter_map(|fact| {
            let turn = turns.iter().find(|turn| turn.id.to_string() == fact.turn)?;
            let siblings = saved.iter().filter(|other| other.turn == fact.turn).count();
            let inherited = (siblings == 1).then_some(turn.markers.as_slice());
            Some(Fact {
                text: fact.text.clone(),
                source_ids: turns
                    .iter()
                    .map(|other| other.id)
                    .filter(|id| *id == turn.id || fact.repeated.contains(&id.to_string()))
                    .collect(),
                created_at: turn.created_at,
                said_at: turn.said_at.clone(),
                expires_at: turn.expires_at,
                markers: markers_of(inherited.unwrap_or_default(), &fact.text, phrases),
                confidence: fact.confidence,
                windows: Vec::new(),
                token_count: 0,
                stored_as: None,
                secrets: Counts::default(),
            })
        })
        .collect();
    // In the order in which they were said, whatever the order of the answer.
    facts.sort_by_key(|fact| turns.iter().position(|turn| fact.source_ids.contains(&turn.id)));
    facts
}

/// Markers that were given, and those that a text shows, if they are to be looked for.
fn markers_of(given: &[String], text: &str, phrases: Option<&Phrases>) -> Vec<String> {
    let shown = phrases.map_or_else(Vec::new, |phrases| phrases.markers(text));
    let shown = shown.into_iter().map(str::to_owned);
    markers::merge(Some(&given.iter().cloned().chain(shown).collect::<Vec<_>>()), &[])
}

/// A stored fact that still has to be compared with the others.
pub fn of_unreconciled(row: Unreconciled) -> Fact {
    Fact {
        text: row.content,
        source_ids: row.source_ids,
        created_at: row.created_at,
        said_at: row.said_at,
        expires_at: row.expires_at,
        markers: Vec::new(),
        confidence: None,
        windows: row.embedding.into_iter().map(|vector| vector.0).collect(),
        token_count: 0,
        stored_as: Some(row.id),
        secrets: Counts::default(),
    }
}

/// Takes out secrets, before the facts are embedded and compared: what a turn says that an older version stored.
pub fn take_secrets_out(facts: &mut [Fact], settings: &Content) {
    for fact in facts {
        fact.text = secrets::taken_out(&fact.text, settings, &mut fact.secrets).into_owned();
    }
}

/// Embeds facts and counts their tokens.
///
/// # Errors
/// The models', when they are unavailable.
pub fn embed(facts: &mut [Fact], model: Option<&ModelRef>) -> Result<(), Failure> {
    let texts = facts.iter().map(|fact| fact.text.clone()).collect();
    for (fact, measured) in facts.iter_mut().zip(measure(texts, model)?) {
        (fact.windows, fact.token_count) = measured;
    }
    Ok(())
}

/// Embeds texts and counts their tokens.
///
/// # Errors
/// The models', when they are unavailable.
pub fn measure(texts: Vec<String>, model: Option<&ModelRef>) -> Result<Vec<Measured>, Failure> {
    if texts.is_empty() {
        return Ok(Vec::new());
    }
    let embedded = if model.is_some() { texts.clone() } else { Vec::new() };
    let prepared = models::current().prepare(model, Purpose::Document, embedded, texts)?;
    let windows = prepared.embeddings.into_iter().chain(std::iter::repeat(Vec::new()));
    let counts = prepared.token_counts.into_iter();
    Ok(windows.zip(counts.map(|count| i32::try_from(count).unwrap_or(i32::MAX))).collect())
}
