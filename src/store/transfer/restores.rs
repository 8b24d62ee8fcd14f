//! pg_restore at work: whose session is believed to be one, and who is at it in this database. Any role can
//! give its session any name, so the name alone says nothing: only who has the rights of an owner is believed,
//! for they could do the same without the name.

use crate::pg::prelude::*;

/// The name by which pg_restore's sessions are known.
pub const APPLICATION_NAME: &str = "pg_restore";

/// How a session's role has to be related to the owner: it has the owner's rights, or can take them by
/// SET ROLE, as `pg_restore --role` does.
#[cfg(feature = "pg15")]
const RELATION: &str = "MEMBER";
#[cfg(not(feature = "pg15"))]
const RELATION: &str = "USAGE, SET";

/// Whether the session that runs this is believed to restore what a role owns.
pub fn is_this_session(application_name: &str, owner: pg_sys::Oid) -> bool {
    application_name == APPLICATION_NAME && roles::has_rights_of(owner)
}

/// A session that restores this database.
#[derive(Clone, Debug)]
pub struct Restore {
    pub pid: i32,
    pub role: String,
    /// When it connected, in UTC.
    pub since: String,
}

record!(Restore: pid role since);

/// The session that has been restoring this database for longest. To be asked by who sees the names of all
/// sessions: a superuser, or a member of pg_read_all_stats.
pub fn running(spi: &Spi) -> PgResult<Option<Restore>> {
    spi.row(
        "SELECT a.pid, a.usename::text, \
                to_char(a.backend_start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') \
           FROM pg_catalog.pg_stat_activity a \
          WHERE a.datname = current_database() AND a.application_name = $1 \
            AND a.usesysid IS NOT NULL AND pg_catalog.pg_has_role(a.usesysid, $2, $3) \
          ORDER BY a.backend_start LIMIT 1",
        &mut params![APPLICATION_NAME, catalog::owner()?, RELATION],
    )
}
