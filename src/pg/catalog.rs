//! What the system catalogs know about us: whether the extension is there, its owner, and where
//! pgvector lives. Everything is looked up on each call through PostgreSQL's own caches, so that
//! DROP EXTENSION, ALTER EXTENSION vector SET SCHEMA and renames need no attention.
#![allow(unsafe_code)]

use crate::pg::error::{Error, PgResult};
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::ffi::{CStr, c_char};

/// pgvector's type `vector` as it is in this database.
pub struct VectorType {
    pub oid: pg_sys::Oid,
    /// The schema that holds type and operators, quoted where needed.
    pub schema: String,
}

impl VectorType {
    /// The cosine distance operator, schema-qualified.
    pub fn cosine_distance(&self) -> String {
        format!("OPERATOR({}.<=>)", self.schema)
    }

    /// The type's name, schema-qualified.
    pub fn name(&self) -> String {
        format!("{}.vector", self.schema)
    }
}

/// This installation of the extension, as no copy of it is called: neither a restored dump, be it in its old
/// place, nor a database that was made from it. A standby that took over still is the same.
pub fn this_installation() -> PgResult<String> {
    // SAFETY: reads what the process has known since its start.
    let database = unsafe { pg_sys::MyDatabaseId };
    let entries = entries_relation()?;
    Ok(format!("{}/{}/{}", cluster(), database.to_u32(), entries.to_u32()))
}

/// The system identifier of the cluster: what OIDs mean differs from one to another.
pub fn cluster() -> u64 {
    // SAFETY: reads what the process has known since its start.
    unsafe { pg_sys::GetSystemIdentifier() }
}

/// The OID of `memory_agent.entries`, which stands for the extension being installed here.
pub fn entries_relation() -> PgResult<pg_sys::Oid> {
    relation(c"entries").ok_or_else(|| {
        Error::undefined(
            "the extension memory_agent is not installed in this database",
            "Run CREATE EXTENSION memory_agent CASCADE.",
        )
    })
}

/// The OID of the schema `memory_agent`, if there is one.
pub fn namespace() -> Option<pg_sys::Oid> {
    // SAFETY: a syscache look-up with a C string; InvalidOid when nothing is found.
    let oid = unsafe { pg_sys::get_namespace_oid(c"memory_agent".as_ptr(), true) };
    (oid != pg_sys::InvalidOid).then_some(oid)
}

/// Whether the table `memory_agent.relation` has a column.
pub fn has_column(name: &CStr, column: &CStr) -> bool {
    // SAFETY: a syscache look-up with a C string; InvalidAttrNumber (0) when nothing is found.
    relation(name).is_some_and(|oid| unsafe { pg_sys::get_attnum(oid, column.as_ptr()) } != 0)
}

fn relation(name: &CStr) -> Option<pg_sys::Oid> {
    let namespace = namespace()?;
    // SAFETY: a syscache look-up with a C string; InvalidOid when nothing is found.
    let oid = unsafe { pg_sys::get_relname_relid(name.as_ptr(), namespace) };
    (oid != pg_sys::InvalidOid).then_some(oid)
}

/// The role that owns the extension's tables.
pub fn owner() -> PgResult<pg_sys::Oid> {
    let relation = entries_relation()?;
    // SAFETY: the syscache entry is released after its owner was copied.
    unsafe {
        let tuple = pg_sys::SearchSysCache1(
            pg_sys::SysCacheIdentifier::RELOID as i32,
            pg_sys::Datum::from(relation),
        );
        if tuple.is_null() {
            return Err(Error::internal("memory_agent.entries vanished"));
        }
        let owner = (*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_class>()).relowner;
        pg_sys::ReleaseSysCache(tuple);
        Ok(owner)
    }
}

/// pgvector's type, found through the column that uses it.
pub fn vector_type() -> PgResult<VectorType> {
    let relation = entries_relation()?;
    // SAFETY: syscache look-ups; the tuple is released after its namespace was copied.
    let (oid, namespace) = unsafe {
        let column = pg_sys::get_attnum(relation, c"embedding".as_ptr());
        let oid = pg_sys::get_atttype(relation, column);
        let tuple = pg_sys::SearchSysCache1(
            pg_sys::SysCacheIdentifier::TYPEOID as i32,
            pg_sys::Datum::from(oid),
        );
        if tuple.is_null() {
            return Err(Error::internal("the type of memory_agent.entries.embedding is gone"));
        }
        let namespace = (*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_type>()).typnamespace;
        pg_sys::ReleaseSysCache(tuple);
        (oid, namespace)
    };
    // SAFETY: get_namespace_name returns a palloc'ed C string, or NULL.
    let schema = unsafe { text_of(pg_sys::get_namespace_name(namespace)) }
        .ok_or_else(|| Error::internal("pgvector's schema is gone"))?;
    Ok(VectorType { oid, schema: pgrx::spi::quote_identifier(&schema) })
}

/// The relation of a name as the session's search_path finds it; `None` when there is none.
pub fn relation_named(name: &str) -> Option<pg_sys::Oid> {
    // SAFETY: a function of PostgreSQL with the argument that it declares.
    unsafe { pgrx::direct_function_call(pg_sys::to_regclass, &[name.into_datum()]) }
}

pub fn role_name(role: pg_sys::Oid) -> String {
    // SAFETY: GetUserNameFromId returns a palloc'ed C string; with noerr it may be NULL.
    unsafe { text_of(pg_sys::GetUserNameFromId(role, true)) }.unwrap_or_else(|| role.to_string())
}

/// A text that PostgreSQL returns, copied; `None` for NULL.
///
/// # Safety
/// `text` must be NULL or a C string.
pub unsafe fn text_of(text: *const c_char) -> Option<String> {
    // SAFETY: the caller vouches for it.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}
