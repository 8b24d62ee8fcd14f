//! What a session needs of a `summarize` or `compress` job: a renewed summary, only a smaller window, or
//! nothing any more.

use crate::jobs::prelude::*;
use crate::memory::summaries::summary_tree::{Behind, Material};
use crate::store::rows::sessions::SessionKey;
use crate::store::summaries::compression::{self, Older};
use crate::store::summaries::{self, Current, Source, Uncovered};
use memory_agent_core::condense::levels::SummaryLevel;
use memory_agent_core::condense::material::GROUP_SIZE;
use memory_agent_core::condense::summarize::ContentType;
use memory_agent_core::jobs::session_settings::SummarySettings;
use std::collections::BTreeSet;

/// Most chunks of turns in one job; what is left is the next job's. It bounds what a job costs, and
/// what its payload keeps.
const CHUNKS: u64 = 30;
/// Most facts in one job, where the turns are gone.
const FACTS: i64 = 200;
/// What a session needs of a job.
pub enum Demand {
    /// There is no such session.
    NoSession,
    Nothing,
    /// Its older turns are covered by this summary and can leave the window.
    Compression(Box<Current>),
    Summary {
        material: Box<Material>,
        has_more: bool,
    },
}

impl Demand {
    /// Looks at the session of a job, without locking it.
    pub fn of(
        spi: &Spi,
        job: &Job,
        key: &SessionKey,
        settings: &SummarySettings,
    ) -> PgResult<Self> {
        let Some(subject) = summaries::subject(spi, key)? else { return Ok(Self::NoSession) };
        let limits = settings.limits();
        let payload: payloads::Summary = job.payload();
        let is_forced = payload.forced;
        let is_compress_job = job.kind == JobKind::Compress;
        let older = if is_compress_job {
            compression::older(spi, key, settings.keep)?
        } else {
            Older::default()
        };
        let is_full = is_forced || limits.is_full(subject.window_tokens);
        // The turns that stay may fill the window alone: nothing can leave it then, but they are
        // summarised as in any other window.
        let is_compression = is_compress_job && older.turns > 0;
        if is_compress_job && (!is_full || !(is_compression || limits.summarization)) {
            return Ok(Self::Nothing);
        }
        let most = CHUNKS * u64::from(settings.chunk_tokens);
        let mut uncovered = summaries::uncovered(spi, key, most)?;
        resume(payload.sources.as_deref(), &mut uncovered);
        let are_facts = uncovered.turns.is_empty();
        let mut sources =
            if are_facts { summaries::orphaned_facts(spi, key, FACTS)? } else { uncovered.turns };
        let current = summaries::current(spi, key)?;
        let tokens = sources.iter().fold(0, |sum: u32, source| sum.saturating_add(source.tokens));
        let is_worth_it = |tokens: i64| is_forced || tokens >= i64::from(settings.min_tokens);
        if is_compression {
            // A few tokens that no summary covers can stay in the window until there are more.
            let is_needed = older.covered < older.turns && is_worth_it(older.uncovered_tokens);
            if !is_needed || sources.is_empty() {
                match current {
                    Some(current) if older.covered > 0 && current.sections.has_lists() => {
                        return Ok(Self::Compression(Box::new(current)));
                    }
                    Some(_) if older.covered > 0 => sources.clear(),
                    _ => return Ok(Self::Nothing),
                }
            }
        } else {
            let is_too_short = current.is_none() && SummaryLevel::of(tokens) == SummaryLevel::None;
            if !is_worth_it(i64::from(tokens)) || is_too_short {
                return Ok(Self::Nothing);
            }
        }
        let with_sections = is_compression || limits.is_nearly_full(subject.window_tokens);
        let last_sections = if with_sections { summaries::last_sections(spi, key)? } else { None };
        let behind = behind(spi, key, settings, current.as_ref(), tokens)?;
        let material = Material {
            content_type: ContentType::of(&subject.content_type).unwrap_or_default(),
            current,
            sources,
            are_facts,
            with_sections,
            last_sections,
            behind,
        };
        Ok(Self::Summary { material: Box::new(material), has_more: uncovered.has_more })
    }
}

/// What has no part yet of a session of which the summary covers enough, with `new` tokens more. Only then the
/// turns behind it are read: in a long session, that takes a while.
fn behind(
    spi: &Spi,
    key: &SessionKey,
    settings: &SummarySettings,
    current: Option<&Current>,
    new: u32,
) -> PgResult<Behind> {
    let covered = current.and_then(|current| current.coverage.as_ref());
    let Some(covered) = covered.filter(|_| new > 0) else { return Ok(Behind::default()) };
    let tokens = covered.tokens.saturating_add(new);
    let chunk = u64::from(settings.chunks().max_tokens);
    if SummaryLevel::of(tokens) < SummaryLevel::Detailed
        || u64::from(tokens) < summaries::chunked_tokens(spi, key)?.saturating_add(chunk)
    {
        return Ok(Behind::default());
    }
    Ok(Behind {
        turns: summaries::unchunked(spi, key, chunk)?,
        chunks: summaries::ungrouped(spi, key, GROUP_SIZE)?,
    })
}

/// An attempt after the first leaves out the turns that came meanwhile: others in a chunk would
/// make other questions of it, whose answers are not known.
fn resume(begun: Option<&[String]>, uncovered: &mut Uncovered) {
    let Some(begun) = begun else { return };
    let begun: BTreeSet<&str> = begun.iter().map(String::as_str).collect();
    let has_begun = |turn: &Source| begun.contains(turn.id.to_string().as_str());
    if uncovered.turns.iter().filter(|turn| has_begun(turn)).count() == begun.len() {
        uncovered.has_more |= begun.len() < uncovered.turns.len();
        uncovered.turns.retain(has_begun);
    }
}
