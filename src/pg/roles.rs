//! The roles that statements run as: the caller's, and the section in which our own SQL runs as the
//! extension's owner or as the owner of a table.
//!
//! SQL text that comes from a caller is never run inside [`as_owner`].
#![allow(unsafe_code)]

use crate::pg::catalog;
use crate::pg::error::PgResult;
use crate::pg::pinned_settings::canonical;
use crate::pg::settings_level::{self, SettingsLevel};
use crate::pg::spi::Session;
use pgrx::pg_sys;

/// Runs `body` as the extension's owner with a pinned search_path. The caller's identity and
/// search_path are restored on every way out; an ERROR that unwinds through here restores them too.
pub fn as_owner<T>(body: impl FnOnce() -> PgResult<T>) -> PgResult<T> {
    let owner = catalog::owner()?;
    let section = OwnerSection::enter(owner, 0);
    // A generic plan is made without the values: if few users have rows, a share of the table, which would be read
    // as a whole. All our statements are about rows that an index finds, so others' rows cost nothing. What still
    // reads a small table seems so expensive then that compiling it would seem worthwhile.
    for (name, value) in [(c"enable_seqscan", c"off"), (c"jit", c"off")] {
        section.settings.set(name, value);
    }
    body()
}

/// Runs `body` as the extension's owner, with a connection on which every statement sees the snapshot of the
/// calling query.
pub fn read_as_owner<T>(body: impl FnOnce(&Session) -> PgResult<T>) -> PgResult<T> {
    as_owner(|| body(&Session::read_only()?))
}

/// Runs `body` as the extension's owner, with a connection that may write.
pub fn write_as_owner<T>(body: impl FnOnce(&Session) -> PgResult<T>) -> PgResult<T> {
    as_owner(|| body(&Session::read_write()?))
}

/// Runs `body`, which reads a table that is not ours, as the owner of that table: what reading it runs (a
/// cast, a view's function) is code that the owner answers for, and gets no other role's rights. As in a VACUUM of
/// the table, it cannot leave anything behind. Rows that a policy would hide are an ERROR, not missing.
pub fn as_table_owner<T>(owner: pg_sys::Oid, body: impl FnOnce() -> PgResult<T>) -> PgResult<T> {
    let section = OwnerSection::enter(owner, pg_sys::SECURITY_RESTRICTED_OPERATION);
    section.settings.set(c"row_security", c"off");
    canonical(body)
}

/// Fields are dropped in this order: settings are put back before the identity.
struct OwnerSection {
    settings: SettingsLevel,
    _identity: AssumedIdentity,
}

impl OwnerSection {
    fn enter(owner: pg_sys::Oid, further_restrictions: u32) -> Self {
        let identity = AssumedIdentity::assume(owner, further_restrictions);
        let settings = SettingsLevel::enter();
        settings.set(c"search_path", settings_level::OUR_PATH);
        Self { settings, _identity: identity }
    }
}

/// The identity that was left for the owner's, taken up again when dropped, while an ERROR unwinds too.
struct AssumedIdentity {
    user: pg_sys::Oid,
    security_context: i32,
}

impl AssumedIdentity {
    fn assume(owner: pg_sys::Oid, further_restrictions: u32) -> Self {
        let mut user = pg_sys::InvalidOid;
        let mut security_context = 0;
        // SAFETY: plain getters and setters of backend state; what they change is put back in
        // Drop. SECURITY_LOCAL_USERID_CHANGE forbids SET ROLE inside the section.
        unsafe {
            pg_sys::GetUserIdAndSecContext(&mut user, &mut security_context);
            pg_sys::SetUserIdAndSecContext(
                owner,
                security_context
                    | (pg_sys::SECURITY_LOCAL_USERID_CHANGE | further_restrictions) as i32,
            );
        }
        Self { user, security_context }
    }
}

impl Drop for AssumedIdentity {
    fn drop(&mut self) {
        // SAFETY: puts back what `assume` saved.
        unsafe { pg_sys::SetUserIdAndSecContext(self.user, self.security_context) };
    }
}

/// The role the calling query runs as.
pub fn current_role() -> pg_sys::Oid {
    // SAFETY: reads backend state.
    unsafe { pg_sys::GetUserId() }
}

/// Whether the role the calling query runs as has all rights of another.
pub fn has_rights_of(role: pg_sys::Oid) -> bool {
    // SAFETY: a membership look-up by OIDs.
    unsafe { pg_sys::has_privs_of_role(current_role(), role) }
}

/// The name of the role the calling query runs as.
pub fn current_role_name() -> String {
    catalog::role_name(current_role())
}
