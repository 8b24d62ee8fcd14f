//! What archived conversations contribute to a prompt: when the current message asks for an earlier
//! conversation, the archives of the user's other sessions are searched, and what has to do with it is
//! told.

use crate::memory::context::prompt_memory::{self, Held, PromptMemory};
use crate::memory::context::tokens::TokenCounter;
use crate::memory::prelude::*;
use crate::memory::recall::request::Arguments;
use crate::memory::recall::{self, Recalled};
use crate::memory::scope::active_model;
use crate::models::{related_logit, thresholds};
use crate::settings::{CrossSessionAgents, Effective, PromptStaleSources};
use crate::store::facts::stale;
use crate::store::models::Kind;
use crate::store::rows::scope::Archives;
use memory_agent_core::prompt::augment::Outdated;
use memory_agent_core::text::triggers;

/// Chunks that are searched for; of each conversation only the best is told.
const CANDIDATES: i32 = 10;
/// The least similarity where the model has no calibrated value.
const UNCALIBRATED: f64 = 0.7;

/// Whether what was said stands in one of these parts of conversations.
pub fn covers(parts: &[PromptMemory], memory: &PromptMemory) -> bool {
    !memory.is_fact && parts.iter().any(|part| part.text().contains(memory.content.trim()))
}

/// What is told of other conversations than `session_id`: of each the part that answers the message best, the
/// best first. Nothing unless the message has one of the phrases that ask for it.
pub fn find(
    message: &str,
    session_id: &str,
    caller: &Caller,
    settings: &Effective,
    tokens: &TokenCounter,
) -> PgResult<Vec<PromptMemory>> {
    let prompts = &settings.prompts;
    let phrases = triggers::parse(&prompts.cross_session_triggers);
    if !prompts.cross_session || triggers::find(message, &phrases).is_none() {
        return Ok(Vec::new());
    }
    let mut asking = caller.clone();
    if prompts.cross_session_agents == CrossSessionAgents::All {
        asking.agent_id = None;
    }
    let request = Arguments {
        query: Some(message.to_owned()),
        top_k: Some(CANDIDATES),
        archives: Archives::Only,
        except_session: Some((caller.agent().to_owned(), session_id.to_owned())),
        ..Arguments::default()
    }
    .check(asking, settings)?;
    let Some(mut recalled) = recall::run(&request)? else { return Ok(Vec::new()) };
    let threshold = Threshold::of(prompts.relevance_threshold)?;
    let Recalled { ranking, members, shown, .. } = &mut recalled;
    shown.retain(|&position| {
        let scored = &ranking.scored[position];
        threshold.admits(members[scored.index].arms.similarity, scored.logit)
    });
    let mut told: Vec<PromptMemory> = Vec::new();
    for row in recall::rows(&request, recalled)? {
        let held = Held { session_id: row.session_id.clone(), agent_id: agent_of(&row.metadata) };
        if told.iter().any(|known| known.held.as_ref() == Some(&held)) {
            continue;
        }
        let mut outdated = match settings.recall.prompt_stale_sources {
            PromptStaleSources::Show => Vec::new(),
            _ => outdated(caller, &held, row.created_at, &row.content)?,
        };
        prompt_memory::shorten_marks(&mut outdated, tokens);
        told.push(PromptMemory::of_conversation(row, held, outdated));
    }
    prompt_memory::shorten(&mut told, &request, tokens);
    told.sort_by(|left, right| right.score.total_cmp(&left.score));
    Ok(told)
}

/// What no longer holds of a conversation that ended then, of which `part` is told.
fn outdated(
    caller: &Caller,
    held: &Held,
    ended_at: TimestampWithTimeZone,
    part: &str,
) -> PgResult<Vec<Outdated>> {
    let Some(session_id) = &held.session_id else { return Ok(Vec::new()) };
    let agent_id = held.agent_id.as_deref().unwrap_or(caller.agent());
    let key = SessionKey::new(&caller.user_id, agent_id, session_id);
    roles::read_as_owner(|spi| stale::no_longer_archived(spi, &key, ended_at, part))
}

/// From when on a chunk has to do with the message.
struct Threshold {
    /// Least cosine similarity.
    similarity: f64,
    /// Least logit, which decides instead where the chunk was reranked: it tells more (models/README.md).
    logit: Option<f64>,
}

impl Threshold {
    /// What the setting says, else the active models.
    fn of(setting: Option<f64>) -> PgResult<Self> {
        if let Some(similarity) = setting {
            return Ok(Self { similarity, logit: None });
        }
        let (embedder, reranker) = roles::read_as_owner(|spi| {
            Ok((
                active_model::active(spi, Kind::Embedder)?,
                active_model::active(spi, Kind::Reranker)?,
            ))
        })?;
        let calibrated = embedder.as_ref().and_then(thresholds);
        Ok(Self {
            similarity: calibrated.map_or(UNCALIBRATED, |known| known.unrelated_p95),
            logit: reranker.as_ref().and_then(related_logit),
        })
    }

    /// Whether a chunk may be told. One without embedding and logit may not: nothing says what it has
    /// to do with the message.
    fn admits(&self, similarity: Option<f64>, logit: Option<f32>) -> bool {
        match (self.logit, logit) {
            (Some(least), Some(logit)) => f64::from(logit) >= least,
            _ => similarity.is_some_and(|similarity| similarity >= self.similarity),
        }
    }
}

/// The agent that an archived conversation was held with.
fn agent_of(metadata: &JsonbText) -> Option<String> {
    let metadata: Value = serde_json::from_str(&metadata.0).ok()?;
    metadata["agent_id"].as_str().map(str::to_owned)
}
