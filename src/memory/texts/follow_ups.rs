//! The jobs that follow from a change of memory, queued in its transaction with what the settings say of them.

use crate::memory::prelude::*;
use crate::memory::scope::endpoints;
use crate::settings::Effective;
use crate::store::queue::jobs::{self, JobKind};
use crate::store::rows::sessions::Fill;
use crate::store::summaries;
use memory_agent_core::condense::compression::Due;
use memory_agent_core::jobs::payloads::{self, Payload};

/// Queues work for a session, or for global memory, as [`jobs::enqueue`] does.
pub fn enqueue(
    spi: &Spi,
    kind: JobKind,
    scope: &FactScope<'_>,
    payload: &impl Payload,
    settings: &Effective,
) -> PgResult<Uuid> {
    jobs::enqueue(spi, kind, scope, payload, settings.llm_limits.max_attempts)
}

/// Queues work for a session.
pub fn enqueue_for_session(
    spi: &Spi,
    kind: JobKind,
    key: &SessionKey,
    payload: &impl Payload,
    settings: &Effective,
) -> PgResult<()> {
    enqueue(spi, kind, &FactScope::of_session(key), payload, settings).map(drop)
}

/// Queues what a session needs after turns were added to it, or whenever it is looked at: a summary,
/// or the compression of its window. Without an LLM nothing is queued. The caller holds the
/// session's lock.
pub fn queue_summary(
    spi: &Spi,
    key: &SessionKey,
    fill: &Fill,
    settings: &Effective,
) -> PgResult<()> {
    let natural = |tokens: i64| tokens.max(0).unsigned_abs();
    let kind = match settings.summary.limits().due(natural(fill.tokens), natural(fill.unsummarized))
    {
        None => return Ok(()),
        Some(Due::Summary) => JobKind::Summarize,
        Some(Due::Compression) => JobKind::Compress,
    };
    if endpoints::missing(spi, &key.agent_id)?.is_some() || summaries::is_held_back(spi, key)? {
        return Ok(());
    }
    let payload = payloads::Summary::with(&settings.summary, false);
    enqueue_for_session(spi, kind, key, &payload, settings)
}

/// Queues the reflection on a session's episodes that are over. Without an LLM they wait until there
/// is one: a sweep finds them then.
pub fn queue_reflection(spi: &Spi, key: &SessionKey, settings: &Effective) -> PgResult<()> {
    if endpoints::missing(spi, &key.agent_id)?.is_some() {
        return Ok(());
    }
    let payload = payloads::Reflect::with(&settings.reflection);
    enqueue_for_session(spi, JobKind::Reflect, key, &payload, settings)
}

/// Queues the embedding of what a scope lacks.
pub fn queue_embedding(spi: &Spi, scope: &FactScope<'_>, settings: &Effective) -> PgResult<()> {
    enqueue(spi, JobKind::Embed, scope, &payloads::Embed::default(), settings).map(drop)
}

/// Queues the extraction of facts from the turns of a scope that wait for it.
pub fn queue_extraction(spi: &Spi, scope: &FactScope<'_>, settings: &Effective) -> PgResult<()> {
    let payload = payloads::Extract::with(&settings.extraction);
    enqueue(spi, JobKind::Extract, scope, &payload, settings).map(drop)
}

/// Queues the eviction of a session's oldest entries when its window holds too many.
pub fn queue_eviction(
    spi: &Spi,
    key: &SessionKey,
    active_entries: i64,
    settings: &Effective,
) -> PgResult<()> {
    let limit = settings.sessions.max_entries;
    if limit > 0 && active_entries > limit {
        enqueue_for_session(spi, JobKind::Evict, key, &payloads::Evict::default(), settings)?;
    }
    Ok(())
}
