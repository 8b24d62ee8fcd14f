//! Which databases there are, read from the shared catalog by a process that is in none of them.
#![allow(unsafe_code)]

use crate::pg::background_transaction;
use pgrx::pg_sys;

/// A row of pg_database.
#[derive(Clone, Copy, Debug)]
pub struct Database {
    pub oid: pg_sys::Oid,
    /// Whether a worker may run there: it takes connections, is no template and was not left half
    /// dropped.
    pub is_usable: bool,
}

/// pg_database.datconnlimit of a database whose DROP was interrupted (DATCONNLIMIT_INVALID_DB).
const INVALID: i32 = -2;

/// All databases of the cluster.
pub fn all() -> Result<Vec<Database>, String> {
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
                databases.push(Database {
                    oid: row.oid,
                    is_usable: row.datallowconn
                        && !row.datistemplate
                        && row.datconnlimit != INVALID,
                });
            }
            pg_sys::systable_endscan(scan);
            pg_sys::table_close(relation, lock);
        }
        Ok(databases)
    })
    .map_err(|aborted| aborted.message)
}
