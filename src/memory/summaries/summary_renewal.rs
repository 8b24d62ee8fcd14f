//! Storing what a summarize or compress job came to, in one transaction: the new L3 and its parts, the
//! turns that leave the window, the counters. If what was condensed is not there any more, or another
//! transaction renewed the summary, nothing is stored and the caller begins anew.

use crate::memory::prelude::*;
use crate::memory::summaries::archived_conversation::{Archived, archive_conversation};
use crate::memory::summaries::chunks::Chunks;
use crate::memory::summaries::summary_tree::{Material, Tree};
use crate::memory::texts::follow_ups;
use crate::settings::Effective;
use crate::store::queue::jobs::JobKind;
use crate::store::queue::{self, Applied, Job};
use crate::store::summaries::compression;
use crate::store::summaries::{self, NewSummary, Source};
use memory_agent_core::condense::compression::Due;
use memory_agent_core::jobs::payloads;
use memory_agent_core::jobs::session_settings::SummarySettings;
use std::collections::BTreeSet;

/// What is to be stored.
pub struct Renewal<'a> {
    pub job: &'a Job,
    pub key: &'a SessionKey,
    pub settings: &'a SummarySettings,
    /// For what is queued.
    pub server: &'a Effective,
    /// What was condensed and what came of it; `None` when the summary holds already.
    pub condensed: Option<(&'a Material, &'a Tree)>,
    /// What is archived of the session, with its chunks.
    pub archive: Option<(&'a Archived, &'a Chunks)>,
    /// Whether the session has more turns that no summary covers.
    pub has_more: bool,
}

/// Stores the renewal and finishes the job; says how many turns left the window. Locks in the order of all writers: session, job, turns,
/// summaries.
pub fn store(spi: &Spi, renewal: &Renewal<'_>) -> PgResult<Applied<u64>> {
    let (key, job) = (renewal.key, renewal.job);
    if sessions::lock_existing(spi, key)?.is_none() {
        return Ok(Applied::NoSession);
    }
    if !queue::lock(spi, job)? {
        return Ok(Applied::NotOurs);
    }
    let unsummarized = match renewal.condensed {
        None => summaries::recount(spi, key)?,
        Some((material, tree)) => {
            match renew(spi, key, material, tree, material.level().method())? {
                Some(unsummarized) => unsummarized,
                None => return Ok(Applied::Changed(())),
            }
        }
    };
    let archived = if job.kind == JobKind::Compress {
        compression::archive(spi, key, renewal.settings.keep)?
    } else {
        0
    };
    if let Some((archived, chunks)) = renewal.archive {
        archive_conversation(spi, key, archived, chunks, renewal.server)?;
    }
    if renewal.has_more {
        queue_rest(spi, renewal, unsummarized)?;
    }
    queue::finish(spi, job)?;
    Ok(Applied::Stored(archived))
}

/// Stores what condensing came to, made by `method`, and returns the tokens of turns that no summary covers
/// now; `None` when the session changed since it was looked at. The caller holds the session's lock.
pub fn renew(
    spi: &Spi,
    key: &SessionKey,
    material: &Material,
    tree: &Tree,
    method: &'static str,
) -> PgResult<Option<i64>> {
    let current = material.current.as_ref().map(|current| current.id);
    if summaries::current_id(spi, key)? != current {
        return Ok(None);
    }
    let before = sessions::fill(spi, key)?.map_or(0, |fill| fill.unsummarized);
    let ids = ids(&material.sources);
    let Some(covered) = summaries::lock_sources(spi, &key.user_id, &ids)? else { return Ok(None) };
    // Parts may be of turns that the summary so far covers.
    let chunked = tree.chunks.iter().flat_map(|part| &part.source_ids).copied();
    let chunked: Vec<Uuid> = chunked.collect::<BTreeSet<_>>().into_iter().collect();
    let grouped: Vec<Uuid> = tree.groups.iter().flat_map(|part| part.made_of.clone()).collect();
    if summaries::lock_sources(spi, &key.user_id, &chunked)?.is_none()
        || !summaries::are_there(spi, &key.user_id, &grouped)?
    {
        return Ok(None);
    }
    match (current, &tree.whole.sections) {
        (Some(current), Some(sections)) if ids.is_empty() => {
            summaries::add_sections(spi, &key.user_id, current, sections)?;
        }
        _ => write(spi, key, material, tree, ids, method)?,
    }
    summaries::recount_after(spi, key, before, covered).map(Some)
}

fn write(
    spi: &Spi,
    key: &SessionKey,
    material: &Material,
    tree: &Tree,
    source_ids: Vec<Uuid>,
    method: &'static str,
) -> PgResult<()> {
    // Without one, the session must not lose the summary that it has.
    let coverage =
        material.coverage().ok_or_else(|| Error::internal("a summary would stand for nothing"))?;
    for (level, parts) in [("L1", &tree.chunks), ("L2", &tree.groups)] {
        for part in parts {
            let new = NewSummary {
                level,
                condensed: &part.condensed,
                source_ids: part.source_ids.clone(),
                previous: None,
                method,
                coverage: &part.coverage,
                input_tokens: part.input_tokens,
            };
            summaries::insert(spi, key, &new)?;
        }
    }
    if let Some(current) = &material.current {
        summaries::deactivate(spi, &key.user_id, current.id)?;
    }
    let new = NewSummary {
        level: "L3",
        condensed: &tree.whole,
        source_ids,
        previous: material.current.as_ref().map(|current| current.id),
        method,
        coverage: &coverage,
        input_tokens: coverage.tokens,
    };
    summaries::insert(spi, key, &new)
}

/// Queues what is left of a session that has more turns than one job takes.
fn queue_rest(spi: &Spi, renewal: &Renewal<'_>, unsummarized: i64) -> PgResult<()> {
    let is_forced = renewal.job.payload::<payloads::Summary>().forced;
    let window = summaries::subject(spi, renewal.key)?.map_or(0, |subject| subject.window_tokens);
    let due = renewal.settings.limits().due(window, unsummarized.max(0).unsigned_abs());
    let kind = match due {
        _ if is_forced => JobKind::Compress,
        Some(Due::Compression) => JobKind::Compress,
        Some(Due::Summary) => JobKind::Summarize,
        None => return Ok(()),
    };
    let payload = payloads::Summary::with(renewal.settings, is_forced);
    follow_ups::enqueue_for_session(spi, kind, renewal.key, &payload, renewal.server)
}

fn ids(sources: &[Source]) -> Vec<Uuid> {
    sources.iter().map(|source| source.id).collect()
}
