//! A level of settings: what is set on it holds until it is left, on every way out.
#![allow(unsafe_code)]

use pgrx::pg_sys::{self, GucContext};
use pgrx::prelude::PgLogLevel;
use std::ffi::CStr;

/// A level over the session's settings, as a function with SET clauses has one. It is left when dropped.
pub struct SettingsLevel {
    number: i32,
}

impl SettingsLevel {
    pub fn enter() -> Self {
        // SAFETY: opens a level that Drop, or transaction abort, closes.
        Self { number: unsafe { pg_sys::NewGUCNestLevel() } }
    }

    /// Sets what every user may set; a value that it does not take is PostgreSQL's ERROR (22023).
    pub fn set(&self, name: &CStr, value: &CStr) {
        set(name, value, GucContext::PGC_USERSET, true, PgLogLevel::ERROR);
    }

    /// Sets what may be set in a context; a value that it does not take is a WARNING, and is not set.
    pub fn try_set(&self, name: &CStr, value: &CStr, context: GucContext::Type) {
        set(name, value, context, true, PgLogLevel::WARNING);
    }
}

impl Drop for SettingsLevel {
    fn drop(&mut self) {
        // While an ERROR unwinds, transaction abort puts the settings back itself.
        if !std::thread::panicking() {
            // SAFETY: closes the level opened in `enter`.
            unsafe { pg_sys::AtEOXact_GUC(false, self.number) };
        }
    }
}

/// Where names in our statements are looked up: operators and types too, which are rarely qualified.
pub const OUR_PATH: &CStr = c"pg_catalog, pg_temp";

/// A level on which names are looked up where ours are; `None` where they are already.
pub fn our_search_path() -> Option<SettingsLevel> {
    // SAFETY: PostgreSQL's copy of the setting's value, which is there from the start of a process on.
    let path = unsafe { CStr::from_ptr(pg_sys::namespace_search_path) };
    if path == OUR_PATH {
        return None;
    }
    let level = SettingsLevel::enter();
    level.set(c"search_path", OUR_PATH);
    Some(level)
}

/// Whether a setting takes a value: raises what SET would raise if not (22023).
pub fn check(name: &CStr, value: &CStr, context: GucContext::Type) {
    set(name, value, context, false, PgLogLevel::ERROR);
}

fn set(name: &CStr, value: &CStr, context: GucContext::Type, change: bool, refused: PgLogLevel) {
    // SAFETY: C strings that live through the call, which copies them. PostgreSQL checks no privilege for
    // these contexts; who may store what is memory_configure's to check.
    unsafe {
        pg_sys::set_config_option(
            name.as_ptr(),
            value.as_ptr(),
            context,
            pg_sys::GucSource::PGC_S_SESSION,
            pg_sys::GucAction::GUC_ACTION_SAVE,
            change,
            refused as i32,
            false,
        );
    }
}
