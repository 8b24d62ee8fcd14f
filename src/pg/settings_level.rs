//! A level of settings: what is set on it holds until it is left, on every way out.
#![allow(unsafe_code)]

use pgrx::pg_sys;
use std::ffi::CStr;

/// What PostgreSQL does with a value that a setting does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Raises PostgreSQL's ERROR (22023).
    Error,
    /// Warns, and leaves the setting as it is.
    Warning,
}

impl Refused {
    fn level(self) -> i32 {
        match self {
            Self::Error => pg_sys::elog::PgLogLevel::ERROR as i32,
            Self::Warning => pg_sys::elog::PgLogLevel::WARNING as i32,
        }
    }
}

/// Who may set what is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// Every user.
    User,
    /// postgresql.conf.
    Server,
}

impl Writer {
    fn context(self) -> pg_sys::GucContext::Type {
        match self {
            Self::User => pg_sys::GucContext::PGC_USERSET,
            Self::Server => pg_sys::GucContext::PGC_SIGHUP,
        }
    }
}

/// A level over the session's settings, as a function with SET clauses has one. It is left when dropped.
pub struct SettingsLevel {
    number: i32,
}

impl SettingsLevel {
    pub fn enter() -> Self {
        // SAFETY: opens a level that Drop, or transaction abort, closes.
        Self { number: unsafe { pg_sys::NewGUCNestLevel() } }
    }

    /// Sets what every user may set.
    pub fn set(&self, name: &CStr, value: &CStr, refused: Refused) {
        self.set_as(name, value, Writer::User, refused);
    }

    /// Sets what the writer may set.
    pub fn set_as(&self, name: &CStr, value: &CStr, writer: Writer, refused: Refused) {
        set(name, value, writer, true, refused);
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
    level.set(c"search_path", OUR_PATH, Refused::Error);
    Some(level)
}

/// Whether a setting takes a value: raises what SET would raise if not (22023).
pub fn check(name: &CStr, value: &CStr, writer: Writer) {
    set(name, value, writer, false, Refused::Error);
}

fn set(name: &CStr, value: &CStr, writer: Writer, change: bool, refused: Refused) {
    // SAFETY: C strings that live through the call, which copies them. PostgreSQL checks no privilege for
    // these contexts; who may store what is memory_configure's to check.
    unsafe {
        pg_sys::set_config_option(
            name.as_ptr(),
            value.as_ptr(),
            writer.context(),
            pg_sys::GucSource::PGC_S_SESSION,
            pg_sys::GucAction::GUC_ACTION_SAVE,
            change,
            refused.level(),
            false,
        );
    }
}
