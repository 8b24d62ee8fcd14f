//! The settings as documented, one row each, and the test that shows what each does.

mod reading;
mod running;
mod writing;

/// What values a setting takes.
pub enum Values {
    Bool,
    /// Smallest, largest, unit.
    Int(i64, i64, &'static str),
    Real(f64, f64),
    Choice(&'static [&'static str]),
    Text,
    /// A URL, or nothing.
    Address,
}

/// Name without `memory_agent.`, default, who may set it (`user`: anyone with SET, `sighup`: the
/// server's owner), values, and `suite::test` that fails if the setting does nothing.
pub type Setting = (&'static str, &'static str, &'static str, Values, &'static str);

const MAX_INT: i64 = i32::MAX as i64;

/// All settings.
pub fn settings() -> impl Iterator<Item = &'static Setting> {
    [reading::SETTINGS, writing::SETTINGS, running::SETTINGS].into_iter().flatten()
}
