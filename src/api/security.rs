//! What views and row-level security ask: whose rows a direct SELECT may show. And levels, given again
//! after an update.
#![allow(unsafe_code)]

use crate::api::prelude::*;
use crate::identity::{SHARED_USER, grants};

/// The caller's identity and the shared memory. The views, and the policies of every table that holds
/// content, call this: a direct SELECT shows nothing while the library cannot be loaded, and nothing to a
/// role that has privileges by hand but no level. Errors: 42501.
#[pg_extern(sql = false)]
fn visible_users() -> PgResult<Vec<String>> {
    identity::require(Level::Reader)?;
    Ok(vec![identity::visible_identity()?, SHARED_USER.to_owned()])
}

/// Gives every role the privileges of its level again: update scripts end with it, so that levels reach
/// functions and tables that are new. Errors: 42501 unless the caller may do what the extension's owner may.
#[pg_extern(sql = false)]
fn renew_levels() -> PgResult<()> {
    grants::require_owner()?;
    roles::as_owner(|| {
        let _outside = OutsideOfExtensionScript::enter();
        grants::renew_all()
    })
}

/// While an extension's script runs, PostgreSQL takes every GRANT for a part of the extension: it
/// remembers it in pg_init_privs, and pg_dump leaves it out. What roles of this installation get is no
/// part of the extension, and has to be in the dump.
struct OutsideOfExtensionScript {
    was_inside: bool,
}

impl OutsideOfExtensionScript {
    fn enter() -> Self {
        // SAFETY: a flag of this backend. It is put back in Drop; after an ERROR that ends the script,
        // PostgreSQL clears it itself.
        unsafe {
            let was_inside = pg_sys::creating_extension;
            pg_sys::creating_extension = false;
            Self { was_inside }
        }
    }
}

impl Drop for OutsideOfExtensionScript {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { pg_sys::creating_extension = self.was_inside };
    }
}
