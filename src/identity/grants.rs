//! `memory_agent.grants`: which role has which level. Written by `memory_grant` and
//! `memory_revoke` (sql/schema/70_security.sql) only.

use crate::pg::prelude::*;
use crate::pg::spi::Session;
use memory_agent_core::words;

words! {
    /// What a role may do, lowest first.
    #[derive(PartialOrd, Ord)]
    pub enum Level {
        None = "none",
        /// Recall and look.
        Reader = "reader",
        /// Also store.
        User = "user",
        /// Also look up tokens and count what is spent, as the gateway does.
        Gateway = "gateway",
        /// Also name any user, write shared memory, register models.
        Admin = "admin",
    }
}

/// Errors (42501) unless the caller may do what the extension's owner may.
pub fn require_owner() -> PgResult<()> {
    let session = Session::read_only()?;
    session.run("SELECT memory_agent.require_owner()", &mut params![])
}

/// Gives every role the privileges of its level once more, by `memory_grant`, and takes from PUBLIC what
/// PostgreSQL gives to it with a new table.
pub fn renew_all() -> PgResult<()> {
    let levels = all()?;
    let session = Session::read_write()?;
    close_row_types(&session)?;
    let public: Option<String> =
        session.row("SELECT quote_ident(memory_agent.public_schema())", &mut params![])?;
    let public = public.ok_or_else(|| Error::internal("the extension memory_agent is gone"))?;
    let grant = format!("SELECT {public}.memory_grant(quote_ident($1)::regrole, $2)");
    // This also writes the names of renamed roles.
    for (role, level) in levels {
        session.execute(&grant, &mut params![role, level.as_str()])?;
    }
    Ok(())
}

/// Leaves the row types of our tables and views to their owner. PostgreSQL lets every role use that of a new
/// table, and a role that makes a column of it keeps the table from getting one: ALTER EXTENSION UPDATE fails.
fn close_row_types(session: &Session) -> PgResult<()> {
    let revoke: Vec<String> = session.rows(
        "SELECT DISTINCT format('REVOKE ALL ON TYPE %s FROM %s CASCADE', t.oid::regtype, \
                    CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END) \
           FROM pg_extension x \
           JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = x.oid \
                           AND d.deptype = 'e' AND d.classid = 'pg_class'::regclass \
           JOIN pg_class c ON c.oid = d.objid \
           JOIN pg_type t ON t.oid = c.reltype \
          CROSS JOIN LATERAL aclexplode(coalesce(t.typacl, acldefault('T', t.typowner))) a \
          WHERE x.extname = 'memory_agent' AND a.grantee <> t.typowner",
        &mut params![],
    )?;
    for statement in &revoke {
        session.execute(statement, &mut params![])?;
    }
    Ok(())
}

/// How many roles with a level read the tables themselves, as levels of 0.2.0 did. A restored dump of that
/// version brings such privileges along.
pub fn readers_of_tables(spi: &Session) -> PgResult<i64> {
    spi.one(
        &format!(
            "SELECT count(*) FROM {} \
              WHERE EXISTS (SELECT FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a \
                             WHERE c.oid = 'memory_agent.entries'::regclass AND a.grantee = r.oid \
                               AND a.privilege_type = 'SELECT' AND a.grantee <> c.relowner)",
            roles()
        ),
        &mut params![],
    )
}

/// The levels that no role has, as (name, level): the role was dropped, is not there yet, or has lost its
/// privileges, as in a restore without them.
pub fn without_role(spi: &Session) -> PgResult<Vec<(String, String)>> {
    spi.rows(
        &format!(
            "SELECT w.role_name::text, w.level FROM memory_agent.grants w \
              WHERE NOT EXISTS (SELECT FROM {} AND g.role_name = w.role_name) ORDER BY 1",
            granted()
        ),
        &mut params![],
    )
}

/// The roles that have another name than the table says, as (name there, name now).
pub fn renamed(spi: &Session) -> PgResult<Vec<(String, String)>> {
    spi.rows(
        &format!(
            "SELECT g.role_name::text, r.rolname::text FROM {} AND r.rolname <> g.role_name ORDER BY 1",
            granted()
        ),
        &mut params![],
    )
}

/// Rows of the table with their roles. A role that was granted a level here is known by its OID, under whatever
/// name. The OID of another cluster, which a restore brought along, may be any role here: there the name counts,
/// and in rows of older versions.
fn roles() -> String {
    // The column came with 0.3.0.
    if !catalog::has_column(c"grants", c"role_oid") {
        return "memory_agent.grants g JOIN pg_roles r ON r.rolname = g.role_name".to_owned();
    }
    let cluster = catalog::cluster().cast_signed();
    format!(
        "memory_agent.grants g \
           JOIN pg_roles r ON r.oid = CASE WHEN g.cluster_id = {cluster} THEN g.role_oid \
                     ELSE (SELECT n.oid FROM pg_roles n WHERE n.rolname = g.role_name) END"
    )
}

/// The grants that count.
///
/// A role that merely has an old role's name, or one day its OID, must not inherit its level. So a level counts
/// only while the role itself has the privilege that `memory_grant` gave with it, which PostgreSQL takes from a
/// role before that can be dropped, and which a dump restores by name.
///
/// These functions were never replaced by an update, which takes their privileges away.
///
/// Each function is looked up by its name: to go through all functions of the extension took a third of a
/// millisecond of every call. OFFSET keeps the planner from that.
fn granted() -> String {
    format!("{} WHERE {HAS_PRIVILEGE}", roles())
}

const HAS_PRIVILEGE: &str = "EXISTS (SELECT FROM pg_proc p CROSS JOIN LATERAL aclexplode(p.proacl) a \
                     WHERE p.proname = CASE g.level WHEN 'admin' THEN 'memory_register_model' \
                                                    WHEN 'gateway' THEN 'memory_spend' \
                                                    WHEN 'user' THEN 'memory_ingest' \
                                                    ELSE 'memory_status' END \
                       AND a.grantee = r.oid AND a.privilege_type = 'EXECUTE' \
                       AND EXISTS (SELECT FROM pg_depend d JOIN pg_extension x ON x.oid = d.refobjid \
                                    WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid \
                                      AND d.refclassid = 'pg_extension'::regclass \
                                      AND d.deptype = 'e' AND x.extname = 'memory_agent' OFFSET 0) \
                    OFFSET 0)";

/// All grants, as (role name, level).
fn all() -> PgResult<Vec<(String, Level)>> {
    let session = Session::read_only()?;
    let granted: Vec<(String, String)> = session
        .rows(&format!("SELECT r.rolname::text, g.level FROM {}", granted()), &mut params![])?;
    granted.into_iter().map(|(role, level)| Ok((role, known(&level)?))).collect()
}

/// The highest level of a role, by itself or by the roles whose rights it has.
pub fn of(role: pg_sys::Oid) -> PgResult<Level> {
    let session = Session::read_only()?;
    let levels: Vec<String> = session.rows(
        &format!("SELECT g.level FROM {} AND pg_has_role($1, r.oid, 'USAGE')", granted()),
        &mut params![role],
    )?;
    levels.iter().try_fold(Level::None, |highest, level| Ok(highest.max(known(level)?)))
}

fn known(level: &str) -> PgResult<Level> {
    Level::of(level).ok_or_else(|| Error::internal(format!("unknown level \"{level}\"")))
}
