//! Settings that hold while a piece of our work runs, whatever the session says: values are printed the
//! same in all sessions, and rows of a few keys are found by an index.

use crate::pg::error::PgResult;
use crate::pg::settings_level::SettingsLevel;
use std::ffi::CStr;

/// The keys of rows are compared as text between sessions, which may differ in how they print times,
/// bytes and numbers. Times without a zone are read as UTC, and texts of conditions as they were printed.
const CANONICAL: [(&CStr, &CStr); 6] = [
    (c"standard_conforming_strings", c"on"),
    (c"TimeZone", c"UTC"),
    (c"DateStyle", c"ISO, YMD"),
    (c"IntervalStyle", c"postgres"),
    (c"bytea_output", c"hex"),
    (c"extra_float_digits", c"1"),
];

/// Plans are kept. One that was made while a table was nearly empty reads all of it, and would go on
/// doing so while a session fills it: a load would cost its square.
const BY_INDEX: [(&CStr, &CStr); 6] = [
    (c"enable_seqscan", c"off"),
    (c"enable_bitmapscan", c"off"),
    (c"enable_hashjoin", c"off"),
    (c"enable_mergejoin", c"off"),
    (c"enable_material", c"off"),
    (c"jit", c"off"),
];

/// How rows that an index finds by a list of ids are joined with other values of that list. A nested loop would
/// compare each row with each value.
const BY_LIST: [(&CStr, &CStr); 6] = [
    (c"enable_seqscan", c"off"),
    (c"enable_bitmapscan", c"off"),
    (c"enable_hashjoin", c"on"),
    (c"enable_nestloop", c"off"),
    (c"enable_mergejoin", c"off"),
    (c"jit", c"off"),
];

/// Runs `body` so that values are printed the same in all sessions.
pub fn canonical<T>(body: impl FnOnce() -> PgResult<T>) -> PgResult<T> {
    under(&CANONICAL, body)
}

/// Runs `body`, whose statements are about rows of given keys, so that an index finds them.
pub fn by_index<T>(body: impl FnOnce() -> PgResult<T>) -> PgResult<T> {
    under(&BY_INDEX, body)
}

/// Runs `body`, whose statement joins rows of given ids with a list of values for them, by a hash of the ids.
pub fn by_list<T>(body: impl FnOnce() -> PgResult<T>) -> PgResult<T> {
    under(&BY_LIST, body)
}

/// Runs `body` under settings. They are put back on every way out.
fn under<T>(settings: &[(&CStr, &CStr)], body: impl FnOnce() -> PgResult<T>) -> PgResult<T> {
    let level = SettingsLevel::enter();
    for (name, value) in settings {
        level.set(name, value);
    }
    body()
}
