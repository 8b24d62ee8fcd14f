//! `memory_agent.episodes` while they run: which one is open, how it grows, and how it ends. When it
//! ends is decided by the core crate's `episodes` module; here it is only stored. What becomes of
//! episodes that are over is in `reflections`.

use crate::store::prelude::*;
use crate::store::rows::sessions;
use memory_agent_core::facts::episodes::CloseReason;

/// An open episode while turns are added to it.
#[derive(Clone)]
pub struct Running {
    pub id: Uuid,
    pub turn_count: i32,
    pub started_at: TimestampWithTimeZone,
    pub ended_at: TimestampWithTimeZone,
    /// Whether facts are to be made of it when it is over.
    pub wants_reflection: bool,
}

record!(Running: id turn_count started_at ended_at wants_reflection);

/// Reads an episode that is still open.
pub fn open(spi: &Spi, user_id: &str, id: Uuid) -> PgResult<Option<Running>> {
    spi.row(
        "SELECT e.id, e.turn_count, e.started_at, e.ended_at, e.wants_reflection FROM memory_agent.episodes e \
          WHERE e.user_id = $1 AND e.id = $2 AND e.status = 'open'",
        &mut params![user_id, id],
    )
}

/// Starts an episode.
pub fn start(
    spi: &Spi,
    key: &SessionKey,
    id: Uuid,
    at: TimestampWithTimeZone,
) -> PgResult<Running> {
    spi.execute(
        "INSERT INTO memory_agent.episodes (id, user_id, agent_id, session_id, started_at, ended_at) \
         VALUES ($4, $1, $2, $3, $5, $5)",
        &mut params![&key.user_id, &key.agent_id, &key.session_id, id, at],
    )?;
    Ok(Running { id, turn_count: 0, started_at: at, ended_at: at, wants_reflection: false })
}

/// Stores the running counts and, with a reason, closes the episode.
pub fn save(
    spi: &Spi,
    user_id: &str,
    episode: &Running,
    closed: Option<CloseReason>,
) -> PgResult<()> {
    spi.run(
        "UPDATE memory_agent.episodes e \
            SET turn_count = $3, ended_at = greatest(e.ended_at, $4), \
                started_at = least(e.started_at, $6), wants_reflection = $7, \
                status = CASE WHEN $5::text IS NULL THEN e.status ELSE 'closed' END, \
                close_reason = $5 \
          WHERE e.user_id = $1 AND e.id = $2 AND e.status = 'open'",
        &mut params![
            user_id,
            episode.id,
            episode.turn_count,
            episode.ended_at,
            closed.map(|reason| reason.as_str().to_owned()),
            episode.started_at,
            episode.wants_reflection
        ],
    )
}

/// Closes the open episode of a session that the caller has locked, and returns whether facts are to be made
/// of it; `None` when it was not open.
pub fn close(spi: &Spi, key: &SessionKey, id: Uuid, reason: &str) -> PgResult<Option<bool>> {
    let ended = spi.row(
        "UPDATE memory_agent.episodes e SET status = 'closed', close_reason = $3 \
          WHERE e.user_id = $1 AND e.id = $2 AND e.status = 'open' RETURNING e.wants_reflection",
        &mut params![&key.user_id, id, reason],
    )?;
    sessions::clear_open_episode(spi, key)?;
    Ok(ended)
}

/// `p` is an open episode that nothing was added to for `gap` seconds: neither in event time nor,
/// so that an import of old turns does not end between two of them, in ours.
fn is_idle(gap: &str) -> String {
    format!(
        "p.status = 'open' AND p.ended_at < now() - make_interval(secs => {gap}) \
         AND NOT EXISTS (SELECT FROM memory_agent.entries e \
                          WHERE e.user_id = p.user_id AND e.episode_id = p.id \
                            AND e.recorded_at >= now() - make_interval(secs => {gap}))"
    )
}

/// The place of an open episode among those that are idle.
#[derive(Clone)]
pub struct IdlePlace {
    ended_at: TimestampWithTimeZone,
    id: Uuid,
}

record!(IdlePlace: ended_at id);

/// Sessions whose open episode is idle for longer than `gap`, those that are the longest first, after
/// a place.
pub fn idle(
    spi: &Spi,
    gap: Duration,
    after: Option<&IdlePlace>,
    most: i64,
) -> PgResult<Vec<(SessionKey, IdlePlace)>> {
    let mut params = params![gap.as_secs_f64(), most];
    let mut condition = is_idle("$1");
    if let Some(after) = after {
        params = params.with(after.ended_at).with(after.id);
        condition.push_str(" AND (p.ended_at, p.id) > ($3, $4)");
    }
    spi.rows(
        &format!(
            "SELECT p.user_id, p.agent_id, p.session_id, p.ended_at, p.id FROM memory_agent.episodes p \
               JOIN memory_agent.sessions s \
                 ON s.user_id = p.user_id AND s.agent_id = p.agent_id \
                    AND s.session_id = p.session_id AND s.open_episode_id = p.id \
              WHERE {condition} ORDER BY p.ended_at, p.id LIMIT $2"
        ),
        &mut params,
    )
}

/// Whether an episode is idle, for a caller that holds the lock of its session.
pub fn is_still_idle(spi: &Spi, user_id: &str, id: Uuid, gap: Duration) -> PgResult<bool> {
    spi.exists(
        &format!(
            "SELECT true FROM memory_agent.episodes p \
              WHERE p.user_id = $2 AND p.id = $3 AND {}",
            is_idle("$1")
        ),
        &mut params![gap.as_secs_f64(), user_id, id],
    )
}
