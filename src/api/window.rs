//! The window of a session: `memory_load` reads it, `memory_clear` empties it, and forgets the
//! session's facts with it.

use crate::api::arguments::WithinLimits;
use crate::identity::grants::Level;
use crate::identity::{self, Caller};
use crate::pg::error::{Error, PgResult};
use crate::pg::roles;
use crate::pg::spi::Session as Spi;
use crate::store::clearing;
use crate::store::sessions::{self, SessionKey};
use crate::store::window;
use memory_agent_core::text;
use pgrx::datum::Uuid;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

/// The caller, and the session that is meant.
pub fn session(
    session_id: Option<String>,
    user_id: Option<&str>,
    agent_id: Option<&str>,
    needed: Level,
) -> PgResult<(Caller, SessionKey)> {
    let caller = identity::resolve(user_id, agent_id, needed)?;
    let session_id = session_id.unwrap_or_default();
    text::validate_session_id(&session_id).map_err(Error::from)?;
    let key = SessionKey::of(&caller, session_id);
    Ok((caller, key))
}

#[pg_extern(sql = false)]
#[allow(clippy::type_complexity)]
fn memory_load(
    _limits: WithinLimits,
    session_id: Option<String>,
    user_id: Option<String>,
    agent_id: Option<String>,
) -> Result<
    TableIterator<
        'static,
        (
            name!(role, String),
            name!(content, String),
            name!(created_at, TimestampWithTimeZone),
            name!(id, Uuid),
            name!(token_count, i32),
        ),
    >,
    ErrorReport,
> {
    let (_, key) = session(session_id, user_id.as_deref(), agent_id.as_deref(), Level::Reader)?;
    let messages = roles::as_owner(|| window::load(&Spi::read_only()?, &key))?;
    Ok(TableIterator::new(messages))
}

#[pg_extern(sql = false)]
fn memory_clear(
    _limits: WithinLimits,
    session_id: Option<String>,
    user_id: Option<String>,
    agent_id: Option<String>,
) -> PgResult<i32> {
    let (_, key) = session(session_id, user_id.as_deref(), agent_id.as_deref(), Level::User)?;
    let cleared = roles::as_owner(|| {
        let spi = Spi::read_write()?;
        match sessions::lock_existing(&spi, &key)? {
            Some(_) => clearing::clear(&spi, &key),
            None => Ok(clearing::Cleared::default()),
        }
    })?;
    debug1!(
        "memory_agent: clear user={} turns={} facts={} summaries={} jobs={}",
        key.user_id,
        cleared.turns,
        cleared.facts,
        cleared.summaries,
        cleared.jobs
    );
    Ok(i32::try_from(cleared.turns).unwrap_or(i32::MAX))
}
