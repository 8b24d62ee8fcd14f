//! What `memory_configure` stored: `memory_agent.agents` for all sessions of an agent, of one user or
//! of all (`*`), and the columns of `memory_agent.sessions` that say the same for one session.

use crate::identity::SHARED_USER;
use crate::pg::locks::keep_erasures_out;
use crate::store::prelude::*;
use crate::store::rows::fact_scope::FactScope;
use serde_json::Value;

/// Where the settings of a session are looked for: `own` the agent's, `shared` the agent's for all
/// users, `s` the session's. One row, whatever is there.
const SOURCES: &str = "(SELECT) one \
    LEFT JOIN memory_agent.agents own ON own.user_id = $1 AND own.agent_id = $2 \
    LEFT JOIN memory_agent.agents shared ON shared.user_id = $4 AND shared.agent_id = $2 \
    LEFT JOIN memory_agent.sessions s ON s.user_id = $1 AND s.agent_id = $2 AND s.session_id = $3";

/// What is stored for an agent and a session, each by itself.
pub struct Stored {
    pub shared: Value,
    pub agent: Value,
    pub session: Value,
    /// What its summaries are written as: `conversation`, `journal` or `document`.
    pub content_type: String,
}

record!(Stored: shared agent session content_type);

/// The settings of an agent and a session as one object, the nearest ones winning.
pub fn settings(spi: &Spi, scope: &FactScope<'_>) -> PgResult<Value> {
    spi.one(
        &format!(
            "SELECT coalesce(shared.settings, '{{}}') || coalesce(own.settings, '{{}}') \
                    || coalesce(s.settings, '{{}}') FROM {SOURCES}"
        ),
        &mut params![scope; SHARED_USER],
    )
}

/// The settings of an agent and a session, each by itself.
pub fn stored(spi: &Spi, scope: &FactScope<'_>) -> PgResult<Stored> {
    spi.one(
        &format!(
            "SELECT coalesce(shared.settings, '{{}}'), coalesce(own.settings, '{{}}'), \
                    coalesce(s.settings, '{{}}'), \
                    coalesce(s.content_type, own.content_type, shared.content_type, 'conversation') \
               FROM {SOURCES}"
        ),
        &mut params![scope; SHARED_USER],
    )
}

/// Agents that keep the sessions of all users apart, a few of them.
pub fn isolating_sessions(spi: &Spi) -> PgResult<Vec<String>> {
    spi.rows(
        "SELECT a.agent_id FROM memory_agent.agents a \
          WHERE a.user_id = $1 AND a.settings ->> 'session_recall' = 'session' ORDER BY 1 LIMIT 20",
        &mut params![SHARED_USER],
    )
}

/// Changes what is stored for an agent: `settings` are joined to those that are there, NULL takes one
/// away; without a content type it stays.
pub fn configure_agent(
    spi: &Spi,
    user_id: &str,
    agent_id: &str,
    settings: JsonbText,
    content_type: Option<&str>,
) -> PgResult<()> {
    keep_erasures_out(user_id);
    spi.run(
        "INSERT INTO memory_agent.agents AS a (user_id, agent_id, settings, content_type) \
         VALUES ($1, $2, jsonb_strip_nulls($3), $4) \
         ON CONFLICT (user_id, agent_id) DO UPDATE \
            SET settings = jsonb_strip_nulls(a.settings || $3), \
                content_type = coalesce($4, a.content_type), updated_at = now()",
        &mut params![user_id, agent_id, settings, content_type],
    )
}

/// Changes what is stored for a session, which is there and locked.
pub fn configure_session(
    spi: &Spi,
    key: &SessionKey,
    settings: JsonbText,
    content_type: Option<&str>,
) -> PgResult<()> {
    spi.run(
        "UPDATE memory_agent.sessions s \
            SET settings = jsonb_strip_nulls(s.settings || $4), \
                content_type = coalesce($5, s.content_type) \
          WHERE s.user_id = $1 AND s.agent_id = $2 AND s.session_id = $3",
        &mut params![&key.user_id, &key.agent_id, &key.session_id, settings, content_type],
    )
}
