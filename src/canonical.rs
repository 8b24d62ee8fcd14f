//! Settings that hold while a piece of our work runs, whatever the session says: values are printed the
//! same for everybody, and rows of a few keys are found by an index.
#![allow(unsafe_code)]

use crate::error::PgResult;
use pgrx::pg_sys;
use std::ffi::CStr;

/// The keys of rows are compared as text between sessions, which may differ in how they print times,
/// bytes and numbers. Times without a zone are read as UTC.
const CANONICAL: [(&CStr, &CStr); 5] = [
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

/// Runs `body` so that values are printed the same for everybody.
pub fn canonical<T>(body: impl FnOnce() -> PgResult<T>) -> PgResult<T> {
    under(&CANONICAL, body)
}

/// Runs `body`, whose statements are about rows of given keys, so that an index finds them.
pub fn by_index<T>(body: impl FnOnce() -> PgResult<T>) -> PgResult<T> {
    under(&BY_INDEX, body)
}

/// Runs `body` under settings. They are put back on every way out.
fn under<T>(settings: &[(&CStr, &CStr)], body: impl FnOnce() -> PgResult<T>) -> PgResult<T> {
    // SAFETY: opens a level that Drop, or transaction abort, closes.
    let _section = Section { guc_level: unsafe { pg_sys::NewGUCNestLevel() } };
    for (name, value) in settings {
        set_locally(name, value);
    }
    body()
}

/// Sets a setting until the current level of settings is left.
pub fn set_locally(name: &CStr, value: &CStr) {
    // SAFETY: C strings that live forever; anybody may set what is set here.
    unsafe {
        pg_sys::set_config_option(
            name.as_ptr(),
            value.as_ptr(),
            pg_sys::GucContext::PGC_USERSET,
            pg_sys::GucSource::PGC_S_SESSION,
            pg_sys::GucAction::GUC_ACTION_SAVE,
            true,
            0,
            false,
        );
    }
}

struct Section {
    guc_level: i32,
}

impl Drop for Section {
    fn drop(&mut self) {
        // While an ERROR unwinds, transaction abort puts the settings back itself.
        if !std::thread::panicking() {
            // SAFETY: closes the level opened in `under`.
            unsafe { pg_sys::AtEOXact_GUC(false, self.guc_level) };
        }
    }
}
