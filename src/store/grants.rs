//! `memory_agent.grants`: which role has which level. Written by `memory_grant` and
//! `memory_revoke` (sql/schema/70_security.sql) only.

use crate::error::{Error, PgResult};
use crate::store::spi::{Params, Session};

/// What a role may do, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    None,
    /// Recall and look.
    Reader,
    /// Also store.
    User,
    /// Also name any user, write shared memory, register models.
    Admin,
}

impl Level {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Reader => "reader",
            Self::User => "user",
            Self::Admin => "admin",
        }
    }

    fn parse(level: &str) -> PgResult<Self> {
        match level {
            "reader" => Ok(Self::Reader),
            "user" => Ok(Self::User),
            "admin" => Ok(Self::Admin),
            other => Err(Error::internal(format!("unknown level \"{other}\"")).into()),
        }
    }
}

/// All grants, as (role name, level).
pub fn all() -> PgResult<Vec<(String, Level)>> {
    let session = Session::read_only()?;
    session.all(
        "SELECT role_name::text, level FROM memory_agent.grants",
        &mut Params::new(),
        |row| Ok((row.required(1)?, Level::parse(&row.required::<String>(2)?)?)),
    )
}
