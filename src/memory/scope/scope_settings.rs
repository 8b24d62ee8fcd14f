//! Whose stored settings a call runs with: the session's win over its agent's, these over those of the
//! agent for all users, these over what the SQL session and postgresql.conf say.

use crate::memory::prelude::*;
use crate::settings::Effective;
use crate::settings::overrides::Settings;
use crate::store::agents;

/// What is stored for an agent and, with `session_id`, for a session.
pub fn stored(user_id: &str, agent_id: &str, session_id: Option<&str>) -> PgResult<Settings> {
    roles::read_as_owner(|spi| {
        let scope = FactScope { user_id, agent_id, session_id };
        Ok(Settings::of(&agents::settings(spi, &scope)?))
    })
}

/// Runs `body` with the settings of the caller's agent and, with `session_id`, of that session.
pub fn scoped<T>(
    caller: &Caller,
    session_id: Option<&str>,
    body: impl FnOnce(&Effective) -> PgResult<T>,
) -> PgResult<T> {
    scoped_to(&caller.user_id, caller.agent(), session_id, body)
}

/// The same for a scope that is not a caller's.
pub fn scoped_to<T>(
    user_id: &str,
    agent_id: &str,
    session_id: Option<&str>,
    body: impl FnOnce(&Effective) -> PgResult<T>,
) -> PgResult<T> {
    stored(user_id, agent_id, session_id)?.during(body)
}

/// The same for a session.
pub fn of_session<T>(
    key: &SessionKey,
    body: impl FnOnce(&Effective) -> PgResult<T>,
) -> PgResult<T> {
    scoped_to(&key.user_id, &key.agent_id, Some(&key.session_id), body)
}

/// The settings of a scope, for a job that writes its facts.
pub fn of_facts(scope: &FactScope<'_>) -> PgResult<Effective> {
    let copied = |settings: &Effective| Ok(settings.clone());
    scoped_to(scope.user_id, scope.agent_id, scope.session_id, copied)
}
