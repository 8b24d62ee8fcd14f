//! The jobs that follow from a change of memory, queued in its transaction.

use crate::memory::endpoints;
use crate::memory::scope_settings;
use crate::pg::error::PgResult;
use crate::pg::spi::Session as Spi;
use crate::settings::guc;
use crate::settings::job_settings;
use crate::store::facts::FactScope;
use crate::store::jobs::{self, JobKind};
use crate::store::sessions::{Fill, SessionKey};
use crate::store::summaries;
use memory_agent_core::compression::Due;
use memory_agent_core::jobs::payloads;

/// Queues what a session needs after turns were added to it, or whenever it is looked at: a summary,
/// or the compression of its window. Without an LLM nothing is queued. The caller holds the
/// session's lock.
pub fn queue_summary(spi: &Spi, key: &SessionKey, fill: &Fill) -> PgResult<()> {
    let settings = job_settings::summary();
    let natural = |tokens: i64| tokens.max(0).unsigned_abs();
    let kind = match settings.limits().due(natural(fill.tokens), natural(fill.unsummarized)) {
        None => return Ok(()),
        Some(Due::Summary) => JobKind::Summarize,
        Some(Due::Compression) => JobKind::Compress,
    };
    if endpoints::missing(spi, &key.agent_id)?.is_some() || summaries::is_held_back(spi, key)? {
        return Ok(());
    }
    jobs::enqueue_for_session(spi, kind, key, &payloads::Summary::with(&settings, false))
}

/// Queues the reflection on a session's episodes that are over. Without an LLM they wait until there
/// is one: a sweep finds them then.
pub fn queue_reflection(spi: &Spi, key: &SessionKey) -> PgResult<()> {
    if endpoints::missing(spi, &key.agent_id)?.is_some() {
        return Ok(());
    }
    let payload =
        scope_settings::scoped_to(&key.user_id, &key.agent_id, Some(&key.session_id), || {
            Ok(payloads::Reflect::with(&job_settings::reflection()))
        })?;
    jobs::enqueue_for_session(spi, JobKind::Reflect, key, &payload)
}

/// Queues the embedding of what a scope lacks.
pub fn queue_embedding(spi: &Spi, scope: &FactScope<'_>) -> PgResult<()> {
    let (user, agent) = (scope.user_id, scope.agent_id);
    jobs::enqueue(spi, JobKind::Embed, user, agent, scope.session_id, &payloads::Embed::default())
}

/// Queues the eviction of a session's oldest entries when its window holds too many.
pub fn queue_eviction(spi: &Spi, key: &SessionKey, active_entries: i64) -> PgResult<()> {
    let limit = i64::from(guc::max_entries());
    if limit > 0 && active_entries > limit {
        jobs::enqueue_for_session(spi, JobKind::Evict, key, &payloads::Evict::default())?;
    }
    Ok(())
}
