//! Settings under which values are printed the same for everybody: the keys of rows are compared as
//! text between sessions, which may differ in how they print times, bytes and numbers.
#![allow(unsafe_code)]

use crate::error::PgResult;
use pgrx::pg_sys;
use std::ffi::CStr;

/// Times without a zone are read as UTC.
const SETTINGS: [(&CStr, &CStr); 5] = [
    (c"TimeZone", c"UTC"),
    (c"DateStyle", c"ISO, YMD"),
    (c"IntervalStyle", c"postgres"),
    (c"bytea_output", c"hex"),
    (c"extra_float_digits", c"1"),
];

/// Runs `body` under these settings. They are put back on every way out.
pub fn canonical<T>(body: impl FnOnce() -> PgResult<T>) -> PgResult<T> {
    // SAFETY: opens a level that Drop, or transaction abort, closes.
    let _section = Section { guc_level: unsafe { pg_sys::NewGUCNestLevel() } };
    for (name, value) in SETTINGS {
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
            // SAFETY: closes the level opened in `canonical`.
            unsafe { pg_sys::AtEOXact_GUC(false, self.guc_level) };
        }
    }
}
