//! `memory_ingest`, `memory_ingest_batch`, `memory_close_episode`: turns of a conversation become
//! rows in the caller's transaction. Embedding and token counting come first, before any lock.

use crate::api::batch;
use crate::api::prepare::{Prepare, prepare};
use crate::api::session_writer::SessionWriter;
use crate::arguments::WithinLimits;
use crate::configured::{self, Settings};
use crate::error::{Error, PgResult};
use crate::guc;
use crate::identity::{self, Caller};
use crate::sql_types::JsonbText;
use crate::store::entries;
use crate::store::episodes;
use crate::store::facts::FactScope;
use crate::store::grants::Level;
use crate::store::jobs::{self, JobKind};
use crate::store::sessions::{self, SessionKey};
use crate::store::spi::Session as Spi;
use crate::worker::endpoint;
use crate::worker::settings;
use memory_agent_core::episodes::CloseReason;
use memory_agent_core::limits::MAX_MARKERS;
use memory_agent_core::{markers, text};
use pgrx::datum::Uuid;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use std::collections::BTreeMap;
use std::time::Instant;

/// One message as it was given.
pub struct Turn {
    pub session_id: String,
    pub role: String,
    pub content: String,
    pub metadata: JsonbText,
    pub markers: Option<Vec<String>>,
    pub created_at: Option<TimestampWithTimeZone>,
    /// How long it is remembered; `None` means `memory_agent.default_ttl`.
    pub ttl: Option<Interval>,
}

#[pg_extern(sql = false)]
#[allow(clippy::too_many_arguments)]
fn memory_ingest(
    _limits: WithinLimits,
    session_id: Option<String>,
    role: Option<String>,
    content: Option<String>,
    user_id: Option<String>,
    agent_id: Option<String>,
    metadata: Option<JsonbText>,
    markers: Option<Vec<Option<String>>>,
    created_at: Option<TimestampWithTimeZone>,
    ttl: Option<Interval>,
) -> PgResult<Uuid> {
    let caller = identity::resolve(user_id.as_deref(), agent_id.as_deref(), Level::User)?;
    let turn = Turn {
        session_id: session_id.unwrap_or_default(),
        role: role.unwrap_or_default(),
        content: content.unwrap_or_default(),
        metadata: metadata.unwrap_or_else(|| JsonbText("{}".into())),
        markers: markers.map(without_nulls).transpose()?,
        created_at,
        ttl,
    };
    ingest(&caller, vec![turn])?
        .first()
        .copied()
        .ok_or_else(|| Error::internal("a turn was stored without an id").into())
}

#[pg_extern(sql = false)]
fn memory_ingest_batch(
    _limits: WithinLimits,
    turns: Option<JsonbText>,
    session_id: Option<String>,
    user_id: Option<String>,
    agent_id: Option<String>,
) -> Result<SetOfIterator<'static, Uuid>, ErrorReport> {
    let caller = identity::resolve(user_id.as_deref(), agent_id.as_deref(), Level::User)?;
    let turns = batch::parse(turns.unwrap_or_else(|| JsonbText("null".into())), session_id)?;
    Ok(SetOfIterator::new(ingest(&caller, turns)?))
}

#[pg_extern(sql = false)]
fn memory_close_episode(
    _limits: WithinLimits,
    session_id: Option<String>,
    reason: Option<String>,
    user_id: Option<String>,
    agent_id: Option<String>,
) -> PgResult<Option<Uuid>> {
    let caller = identity::resolve(user_id.as_deref(), agent_id.as_deref(), Level::User)?;
    let session_id = session_id.unwrap_or_default();
    text::validate_session_id(&session_id).map_err(Error::from)?;
    let reason = reason.unwrap_or_else(|| CloseReason::Manual.as_str().to_owned());
    if reason.trim().is_empty() {
        return Err(Error::invalid("reason is blank", "Leave it out for 'manual'.").into());
    }
    let key = SessionKey {
        user_id: caller.user_id.clone(),
        agent_id: caller.agent().to_owned(),
        session_id,
    };
    identity::as_owner(|| {
        let spi = Spi::read_write()?;
        let Some(Some(episode)) = sessions::lock_existing(&spi, &key)? else { return Ok(None) };
        let closed = episodes::close(&spi, &key, episode, &reason)?;
        if closed.as_ref().is_some_and(|closed| closed.wants_reflection) {
            queue_reflection(&spi, &key)?;
        }
        Ok(closed.map(|_| episode))
    })
}

/// Refuses NULL elements of a text array.
pub fn without_nulls(values: Vec<Option<String>>) -> PgResult<Vec<String>> {
    values
        .into_iter()
        .map(|value| {
            value.ok_or_else(|| Error::invalid("an array element is NULL", "Leave it out.").into())
        })
        .collect()
}

/// Everything about a turn that is known before the database is touched.
pub struct Checked {
    pub turn: Turn,
    /// The text that is embedded and indexed.
    pub indexed_text: String,
    pub markers: Vec<String>,
    pub created_at: TimestampWithTimeZone,
    pub expires_at: Option<TimestampWithTimeZone>,
}

fn check(turn: Turn, now: TimestampWithTimeZone) -> PgResult<Checked> {
    // A batch may have gigabytes of work for its texts, where max_content_bytes allows that.
    pgrx::check_for_interrupts!();
    text::validate_session_id(&turn.session_id).map_err(Error::from)?;
    text::validate_role(&turn.role).map_err(Error::from)?;
    text::validate_content(&turn.content, guc::max_content_bytes().max(0) as usize)
        .map_err(Error::from)?;
    check_metadata(&turn.metadata)?;
    let markers = markers_of(turn.markers.as_deref(), &turn.content)?;
    let created_at = entries::finite("created_at", turn.created_at.unwrap_or(now))?;
    let expires_at = expiry(now, turn.ttl)?;
    let indexed_text = indexed_text(&turn.content, &turn.metadata);
    Ok(Checked { turn, indexed_text, markers, created_at, expires_at })
}

/// Refuses metadata that is not an object, or larger than content may be.
pub fn check_metadata(metadata: &JsonbText) -> PgResult<()> {
    if !metadata.0.starts_with('{') {
        return Err(Error::invalid(
            "metadata must be a JSON object",
            "Example: {\"project\": \"x\"}.",
        )
        .into());
    }
    let limit = guc::max_content_bytes().max(0) as usize;
    if metadata.0.len() > limit {
        return Err(Error::invalid(
            format!("metadata has {} bytes, the limit is {limit}", metadata.0.len()),
            "Store large data in a table of your own and keep its key here.",
        )
        .into());
    }
    Ok(())
}

/// The markers of an entry: the explicit ones, or those its text shows.
pub fn markers_of(explicit: Option<&[String]>, content: &str) -> PgResult<Vec<String>> {
    let given = explicit.unwrap_or_default();
    if given.len() > MAX_MARKERS {
        let problem = format!("there are {} markers, expected at most {MAX_MARKERS}", given.len());
        return Err(Error::invalid(problem, "Use metadata for long lists.").into());
    }
    for marker in given {
        markers::validate(marker).map_err(Error::from)?;
    }
    let detected = if guc::auto_detect_markers() { markers::detect(content) } else { Vec::new() };
    Ok(markers::merge(explicit, &detected))
}

/// The text that is embedded and indexed. Metadata that only PostgreSQL can read (a number beyond
/// a double) has no speaker's name.
pub fn indexed_text(content: &str, metadata: &JsonbText) -> String {
    let metadata = serde_json::from_str(&metadata.0).unwrap_or_default();
    text::indexed_text(content, &metadata).into_owned()
}

/// When an entry expires: `ttl` after now, or after the default.
pub fn expiry(
    now: TimestampWithTimeZone,
    ttl: Option<Interval>,
) -> PgResult<Option<TimestampWithTimeZone>> {
    if let Some(ttl) = ttl {
        let expires_at = now + ttl;
        if expires_at <= now {
            return Err(
                Error::invalid("ttl must be positive", "Example: interval '7 days'.").into()
            );
        }
        return Ok(Some(expires_at));
    }
    let seconds = guc::default_ttl();
    if seconds == 0 {
        return Ok(None);
    }
    let ttl = Interval::from_seconds(f64::from(seconds));
    Ok(Some(now + ttl))
}

/// Stores turns and returns their ids in the order given, each session's with its own settings.
pub fn ingest(caller: &Caller, turns: Vec<Turn>) -> PgResult<Vec<Uuid>> {
    if turns.is_empty() {
        return Ok(Vec::new());
    }
    let started = Instant::now();
    let batches = batches(caller, turns)?;
    let prepare_ms = started.elapsed().as_secs_f64() * 1000.0;
    identity::as_owner(|| store(caller, &batches))?;
    let mut ids: Vec<(usize, Uuid)> = batches
        .iter()
        .flat_map(|batch| batch.positions.iter().copied().zip(batch.ids.iter().copied()))
        .collect();
    ids.sort_by_key(|(position, _)| *position);
    debug1!(
        "memory_agent: ingest user={} rows={} embedded={} prepare={prepare_ms:.1}ms store={:.1}ms",
        caller.user_id,
        ids.len(),
        batches.iter().map(|batch| batch.prepared.embeddings.len()).sum::<usize>(),
        started.elapsed().as_secs_f64() * 1000.0 - prepare_ms
    );
    Ok(ids.into_iter().map(|(_, id)| id).collect())
}

/// Turns of sessions that have the same settings, ready to be stored.
struct Batch {
    settings: Settings,
    /// Where they stood among the turns given.
    positions: Vec<usize>,
    ids: Vec<Uuid>,
    turns: Vec<Checked>,
    prepared: Prepare,
}

/// Checks turns and asks the models about them, with the settings of their sessions.
fn batches(caller: &Caller, turns: Vec<Turn>) -> PgResult<Vec<Batch>> {
    let now = now();
    let mut of_session: BTreeMap<String, Settings> = BTreeMap::new();
    let mut groups: BTreeMap<Settings, (Vec<usize>, Vec<Turn>)> = BTreeMap::new();
    for (position, turn) in turns.into_iter().enumerate() {
        let session_id = &turn.session_id;
        text::validate_session_id(session_id).map_err(Error::from)?;
        if !of_session.contains_key(session_id) {
            let stored = Settings::stored(&caller.user_id, caller.agent(), Some(session_id))?;
            of_session.insert(session_id.clone(), stored);
        }
        let settings = of_session.get(session_id).cloned().unwrap_or_default();
        let (positions, group) = groups.entry(settings).or_default();
        positions.push(position);
        group.push(turn);
    }
    let mut batches = Vec::with_capacity(groups.len());
    for (settings, (positions, turns)) in groups {
        let (turns, prepared) = settings.during(|| {
            let turns =
                turns.into_iter().map(|turn| check(turn, now)).collect::<PgResult<Vec<_>>>()?;
            let prepared = prepare(
                turns.iter().map(|turn| turn.indexed_text.clone()).collect(),
                turns.iter().map(|turn| turn.turn.content.clone()).collect(),
            )?;
            Ok((turns, prepared))
        })?;
        let ids = turns.iter().map(|_| entries::new_id()).collect();
        batches.push(Batch { settings, positions, ids, turns, prepared });
    }
    Ok(batches)
}

fn now() -> TimestampWithTimeZone {
    pgrx::datum::datetime_support::now()
}

fn store(caller: &Caller, batches: &[Batch]) -> PgResult<()> {
    let spi = Spi::read_write()?;
    // Sessions are locked in the order of their keys, so that two batches cannot deadlock.
    let mut by_session: BTreeMap<SessionKey, (&Batch, Vec<usize>)> = BTreeMap::new();
    for batch in batches {
        for (index, turn) in batch.turns.iter().enumerate() {
            let key = SessionKey {
                user_id: caller.user_id.clone(),
                agent_id: caller.agent().to_owned(),
                session_id: turn.turn.session_id.clone(),
            };
            by_session.entry(key).or_insert_with(|| (batch, Vec::new())).1.push(index);
        }
    }
    for (key, (batch, indexes)) in &by_session {
        batch.settings.during(|| {
            let first_at = batch.turns[indexes[0]].created_at;
            SessionWriter::open(&spi, key, first_at, &batch.prepared)?.add(
                &batch.turns,
                indexes,
                &batch.ids,
            )
        })?;
        pgrx::check_for_interrupts!();
    }
    Ok(())
}

/// Queues the reflection on a session's episodes that are over. Without an LLM they wait until there
/// is one: a sweep finds them then.
pub fn queue_reflection(spi: &Spi, key: &SessionKey) -> PgResult<()> {
    if endpoint::missing_llm().is_some() {
        return Ok(());
    }
    let payload =
        configured::scoped_to(&key.user_id, &key.agent_id, Some(&key.session_id), || {
            Ok(settings::reflection_payload())
        })?;
    jobs::enqueue_for_session(spi, JobKind::Reflect, key, payload)
}

/// Queues the embedding of what a scope lacks.
pub fn queue_embedding(spi: &Spi, scope: &FactScope<'_>) -> PgResult<()> {
    let (user, agent) = (scope.user_id, scope.agent_id);
    jobs::enqueue(spi, JobKind::Embed, user, agent, scope.session_id, "{}".into())
}

/// Queues the eviction of a session's oldest entries when its window holds too many.
pub fn queue_eviction(spi: &Spi, key: &SessionKey, active_entries: i64) -> PgResult<()> {
    let limit = i64::from(guc::max_entries());
    if limit > 0 && active_entries > limit {
        jobs::enqueue_for_session(spi, JobKind::Evict, key, "{}".into())?;
    }
    Ok(())
}
