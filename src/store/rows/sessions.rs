//! `memory_agent.sessions`: one row per conversation, locked by every transaction that adds turns to it.

use crate::identity::Caller;
use crate::pg::locks::keep_erasures_out;
use crate::pg::prelude::*;
use crate::store::schema;

/// Which conversation: the primary key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionKey {
    pub user_id: String,
    pub agent_id: String,
    pub session_id: String,
}

record!(SessionKey: user_id agent_id session_id);

impl SessionKey {
    /// A session of a caller's agent.
    pub fn of(caller: &Caller, session_id: impl Into<String>) -> Self {
        Self::new(&caller.user_id, caller.agent(), session_id)
    }

    pub fn new(user_id: &str, agent_id: &str, session_id: impl Into<String>) -> Self {
        Self {
            user_id: user_id.to_owned(),
            agent_id: agent_id.to_owned(),
            session_id: session_id.into(),
        }
    }

    /// Whether it is called as the user's global memory.
    pub fn is_global(&self) -> bool {
        Some(self.session_id.as_str()) == schema::global_name()
    }

    /// What its rows' session may be called; the empty string stands for none.
    pub fn names(&self) -> Vec<String> {
        let none = self.is_global().then(String::new);
        std::iter::once(self.session_id.clone()).chain(none).collect()
    }

    /// User, agent and session as the first three parameters.
    pub fn params(&self) -> Params {
        params![&self.user_id, &self.agent_id, &self.session_id]
    }
}

/// Creates the session if it is new, locks its row until the end of the transaction, and returns
/// the open episode. `at` is the event time of what is about to be added.
pub fn lock(spi: &Spi, key: &SessionKey, at: TimestampWithTimeZone) -> PgResult<Option<Uuid>> {
    keep_erasures_out(&key.user_id);
    spi.one(
        "INSERT INTO memory_agent.sessions AS s (user_id, agent_id, session_id, created_at, last_turn_at) \
         VALUES ($1, $2, $3, $4, $4) \
         ON CONFLICT (user_id, agent_id, session_id) DO UPDATE \
            SET created_at = least(s.created_at, excluded.created_at) \
         RETURNING s.open_episode_id",
        &mut params![key; at],
    )
}

/// Locks an existing session; `None` when there is none. The inner value is its open episode.
pub fn lock_existing(spi: &Spi, key: &SessionKey) -> PgResult<Option<Option<Uuid>>> {
    keep_erasures_out(&key.user_id);
    spi.row(
        "SELECT s.open_episode_id FROM memory_agent.sessions s \
          WHERE s.user_id = $1 AND s.agent_id = $2 AND s.session_id = $3 FOR UPDATE",
        &mut key.params(),
    )
}

/// How full a session is, or what entries change about that.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fill {
    /// Turns and facts in the window.
    pub entries: i64,
    /// Tokens of the turns in the window.
    pub tokens: i64,
    /// Tokens of turns that no summary covers.
    pub unsummarized: i64,
}

record!(Fill: entries tokens unsummarized);

/// Which session `s` is, and how full.
pub const KEY_AND_FILL: &str = "s.user_id, s.agent_id, s.session_id, \
    s.active_entries, s.active_tokens, s.unsummarized_tokens";

/// How full a session is; `None` when there is none.
pub fn fill(spi: &Spi, key: &SessionKey) -> PgResult<Option<Fill>> {
    spi.row(
        "SELECT s.active_entries, s.active_tokens, s.unsummarized_tokens FROM memory_agent.sessions s \
          WHERE s.user_id = $1 AND s.agent_id = $2 AND s.session_id = $3",
        &mut key.params(),
    )
}

/// Adds turns to a session's window and returns how full it is now. `last_turn_at` is the event time of the
/// newest of them.
pub fn grow(
    spi: &Spi,
    key: &SessionKey,
    (turns, tokens): (i64, i64),
    last_turn_at: TimestampWithTimeZone,
    open_episode: Option<Uuid>,
) -> PgResult<Fill> {
    spi.one(
        "UPDATE memory_agent.sessions s \
            SET turn_count = s.turn_count + $4, active_tokens = s.active_tokens + $5, \
                unsummarized_tokens = s.unsummarized_tokens + $5, \
                active_entries = s.active_entries + $4, open_episode_id = $6, \
                last_turn_at = greatest(s.last_turn_at, $7) \
          WHERE s.user_id = $1 AND s.agent_id = $2 AND s.session_id = $3 \
         RETURNING s.active_entries, s.active_tokens, s.unsummarized_tokens",
        &mut params![key; turns, tokens, open_episode, last_turn_at],
    )
}

/// Adds what entries change to a session's counters, and returns how full it is now; `None` when there is no
/// such session. The caller holds its lock.
pub fn adjust(spi: &Spi, key: &SessionKey, change: Fill) -> PgResult<Option<Fill>> {
    spi.row(
        "UPDATE memory_agent.sessions s \
            SET active_entries = greatest(0, s.active_entries + $4), \
                active_tokens = greatest(0, s.active_tokens + $5), \
                unsummarized_tokens = greatest(0, s.unsummarized_tokens + $6) \
          WHERE s.user_id = $1 AND s.agent_id = $2 AND s.session_id = $3 \
         RETURNING s.active_entries, s.active_tokens, s.unsummarized_tokens",
        &mut params![key; change.entries, change.tokens, change.unsummarized],
    )
}

/// Counts anew what is in a session's window. The caller holds the session's lock.
pub fn recount(spi: &Spi, key: &SessionKey) -> PgResult<()> {
    spi.run(
        "UPDATE memory_agent.sessions s \
            SET active_entries = w.entries, active_tokens = w.tokens \
           FROM (SELECT count(*) AS entries, \
                        coalesce(sum(e.token_count) FILTER (WHERE e.kind = 'turn'), 0) AS tokens \
                   FROM memory_agent.entries e \
                  WHERE e.user_id = $1 AND e.agent_id = $2 AND e.session_id = $3 AND e.state = 'active' \
                    AND e.kind IN ('turn', 'fact') AND e.source_relation IS NULL) w \
          WHERE s.user_id = $1 AND s.agent_id = $2 AND s.session_id = $3",
        &mut key.params(),
    )
}

/// Notes that a session has no open episode any more.
pub fn clear_open_episode(spi: &Spi, key: &SessionKey) -> PgResult<()> {
    spi.run(
        "UPDATE memory_agent.sessions s SET open_episode_id = NULL \
          WHERE s.user_id = $1 AND s.agent_id = $2 AND s.session_id = $3",
        &mut key.params(),
    )
}

/// The open episode of a session, without locking.
pub fn open_episode(spi: &Spi, key: &SessionKey) -> PgResult<Option<Uuid>> {
    let open: Option<Option<Uuid>> = spi.row(
        "SELECT s.open_episode_id FROM memory_agent.sessions s \
          WHERE s.user_id = $1 AND s.agent_id = $2 AND s.session_id = $3",
        &mut key.params(),
    )?;
    Ok(open.flatten())
}

/// The summary of a session: its active L3.
pub fn summary(spi: &Spi, key: &SessionKey) -> PgResult<Option<String>> {
    spi.row(
        "SELECT s.content FROM memory_agent.session_summaries s \
          WHERE s.user_id = $1 AND s.agent_id = $2 AND s.session_id = $3 \
            AND s.level = 'L3' AND s.is_active",
        &mut key.params(),
    )
}
