//! Settings of agents and sessions, as `memory_configure` stored them, in effect while a call for
//! them runs. Nothing is written, so it works on standbys.

use crate::pg::error::PgResult;
use crate::pg::settings_level::{self, SettingsLevel};
use crate::settings::{Effective, guc};
use pgrx::pg_sys::GucContext;
use serde_json::{Map, Value};
use std::ffi::CString;

/// What every setting's name begins with.
pub const PREFIX: &str = "memory_agent.";

/// User-settable names that decide whose settings apply, and so cannot be among them, or what a document looks
/// like, which the caller has to know.
const OF_THE_CALLER: [&str; 3] = ["user_id", "agent_id", "memory_message"];

/// Settings that are lists, with commas between their items.
const LISTS: [&str; 1] = ["cross_session_triggers"];

/// The text search configuration, which is stored under the name that PostgreSQL shows of it.
pub const TEXT_SEARCH_CONFIG: &str = "text_search_config";

/// How long what is inactive is kept. It is stored for agents alone: entries that are in no session have it too.
pub const PURGE_AFTER: &str = "purge_after";

/// Settings of the server that administrators may also store: how much an agent may keep, how long, in which
/// language, and what becomes of secrets.
const FOR_ADMINS: [&str; 7] = [
    "default_ttl",
    "max_content_bytes",
    "max_entries",
    PURGE_AFTER,
    "secret_phrases",
    "secrets",
    TEXT_SEARCH_CONFIG,
];

/// Whether a setting, named without the prefix, is stored by administrators alone.
pub fn is_for_admins(name: &str) -> bool {
    FOR_ADMINS.contains(&name)
}

/// Whether a setting, named without the prefix, can be given as a JSON array.
pub fn is_list(name: &str) -> bool {
    LISTS.contains(&name)
}

/// Whether a setting, named without the prefix, can be stored for agents and sessions.
pub fn is_configurable(name: &str) -> bool {
    !OF_THE_CALLER.contains(&name) && (guc::is_user_setting(name) || is_for_admins(name))
}

/// Whether a setting, named without the prefix, is one of an earlier version that has no effect any more.
pub fn is_retired(name: &str) -> bool {
    guc::retired::NAMES.contains(&name)
}

/// The settings that can be stored, with the values in effect.
pub fn in_effect() -> Map<String, Value> {
    let for_admins: [(&str, Value); 7] = [
        ("default_ttl", guc::default_ttl().into()),
        ("max_content_bytes", guc::content_limit().into()),
        ("max_entries", guc::max_entries().into()),
        (PURGE_AFTER, guc::purge_after().into()),
        ("secret_phrases", guc::secret_phrases().into()),
        ("secrets", guc::secrets_shown().into()),
        (TEXT_SEARCH_CONFIG, guc::text_search_config().into()),
    ];
    guc::user_settings()
        .into_iter()
        .filter(|(name, _)| !OF_THE_CALLER.contains(name))
        .chain(for_admins)
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// Stored settings: names without the prefix, and values as PostgreSQL reads them, sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Settings(Vec<(String, String)>);

impl Settings {
    /// The settings in a stored object. What is no setting any more is passed over.
    pub fn of(stored: &Value) -> Self {
        let entries = stored.as_object().into_iter().flatten();
        let known = entries.filter(|(name, _)| is_configurable(name));
        let mut settings: Vec<(String, String)> =
            known.filter_map(|(name, value)| Some((name.clone(), text(name, value)?))).collect();
        settings.sort();
        Self(settings)
    }

    /// Runs `body` with these settings in effect, and gives it all as values. They are put back on every way out.
    pub fn during<T>(&self, body: impl FnOnce(&Effective) -> PgResult<T>) -> PgResult<T> {
        let _level = (!self.0.is_empty()).then(|| level_with(self));
        body(&Effective::current())
    }
}

/// The text in which PostgreSQL reads the JSON value of a setting, named without the prefix; `None` for what
/// it cannot be.
pub fn text(name: &str, value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(on) => Some(if *on { "on" } else { "off" }.to_owned()),
        Value::Array(items) if is_list(name) => {
            let item =
                |item: &Value| Some(item.as_str().filter(|item| !item.contains(','))?.to_owned());
            Some(items.iter().map(item).collect::<Option<Vec<String>>>()?.join(", "))
        }
        _ => None,
    }
}

/// Checks a value of a setting, named without the prefix, as SET would: a wrong one is PostgreSQL's
/// ERROR (22023).
pub fn check(name: &str, value: &str) {
    if let Some((full_name, value)) = c_strings(name, value) {
        settings_level::check(&full_name, &value, context(name));
    }
}

/// A level with stored settings over the session's own.
fn level_with(settings: &Settings) -> SettingsLevel {
    let level = SettingsLevel::enter();
    for (name, value) in &settings.0 {
        if let Some((full_name, value)) = c_strings(name, value) {
            // A value that was allowed when it was stored and no longer is does not end the call.
            level.try_set(&full_name, &value, context(name));
        }
    }
    level
}

/// Where a stored setting is set as if it were.
fn context(name: &str) -> GucContext::Type {
    if is_for_admins(name) { GucContext::PGC_SIGHUP } else { GucContext::PGC_USERSET }
}

/// A stored name and value as PostgreSQL's settings take them. A NUL is in none: jsonb refuses it.
fn c_strings(name: &str, value: &str) -> Option<(CString, CString)> {
    Some((CString::new(format!("{PREFIX}{name}")).ok()?, CString::new(value).ok()?))
}
