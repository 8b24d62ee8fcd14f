//! Which databases there are, read from the shared catalog by a process that is in none of them.
#![allow(unsafe_code)]

use crate::pg::background_transaction;
use pgrx::pg_sys;

/// pg_database.datconnlimit of a database whose DROP was interrupted (DATCONNLIMIT_INVALID_DB).
const INVALID: i32 = -2;

/// The databases of the cluster in which a worker may run: they take connections, are no templates and are not
/// being dropped, or left half dropped.
pub fn usable() -> Result<Vec<pg_sys::Oid>, String> {
    background_transaction::try_transaction(|| {
        let mut databases = Vec::new();
        // SAFETY: a heap scan of a shared catalog, which needs no database; each tuple is copied
        // from before the next is read. The fields read have a fixed place in the row.
        unsafe {
            let lock = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
            let relation = pg_sys::table_open(pg_sys::DatabaseRelationId, lock);
            let scan = pg_sys::systable_beginscan(
                relation,
                pg_sys::InvalidOid,
                false,
                std::ptr::null_mut(),
                0,
                std::ptr::null_mut(),
            );
            loop {
                let tuple = pg_sys::systable_getnext(scan);
                if tuple.is_null() {
                    break;
                }
                let row = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_database>();
                if row.datallowconn && !row.datistemplate && row.datconnlimit != INVALID {
                    databases.push(row.oid);
                }
            }
            pg_sys::systable_endscan(scan);
            pg_sys::table_close(relation, lock);
        }
        Ok(databases)
    })
    .map_err(|aborted| aborted.message)
}
