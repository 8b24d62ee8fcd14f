//! Settings of an agent, or of one of its sessions. What is stored of them wins over what a SQL session sets.

use crate::identity::{check_level, grants::Level};
use crate::memory::prelude::*;
use crate::memory::scope::checks::check_session;
use crate::settings::overrides::{self, Settings};
use crate::store::agents::{self, Stored};
use crate::store::rows::text_search;
use memory_agent_core::condense::summarize::ContentType;
use memory_agent_core::files::record::Configured;
use memory_agent_core::limits::SETTING_BYTES;
use serde_json::Map;

/// Checks and stores what is given for an agent, or for one of its sessions; returns what is stored then.
pub fn configure(
    caller: &Caller,
    session: Option<&str>,
    settings: Option<&JsonbText>,
    content_type: Option<&str>,
) -> PgResult<Stored> {
    if let Some(content_type) = content_type {
        check_content_type(content_type)?;
    }
    let changes = settings.map(changes).transpose()?;
    if session.is_some()
        && changes.as_ref().is_some_and(|changes| changes.contains_key(overrides::PURGE_AFTER))
    {
        return Err(Error::invalid(
            "purge_after is not a setting of sessions",
            "Leave session_id out, to store it for the agent.",
        ));
    }
    let is_for_admins =
        |changes: &Map<String, Value>| changes.keys().any(|name| overrides::is_for_admins(name));
    if changes.as_ref().is_some_and(is_for_admins) {
        check_level(caller.level, Level::Admin)?;
    }
    let agent = caller.agent();
    roles::write_as_owner(|spi| {
        if changes.is_some() || content_type.is_some() {
            let mut changes = changes.unwrap_or_default();
            if let Some(Value::String(name)) = changes.get_mut(overrides::TEXT_SEARCH_CONFIG) {
                *name = text_search::name(spi, name)?;
            }
            let changes = JsonbText(Value::Object(changes).to_string());
            match session {
                Some(session) => {
                    let key = SessionKey::of(caller, session.to_owned());
                    sessions::lock(spi, &key, pgrx::datum::datetime_support::now())?;
                    agents::configure_session(spi, &key, changes, content_type)?;
                }
                None => {
                    agents::configure_agent(spi, &caller.user_id, agent, changes, content_type)?;
                }
            }
            debug1!("memory_agent: configure user={} agent={agent}", caller.user_id);
        }
        agents::stored(spi, &FactScope::of(caller, session))
    })
}

/// Stores what a record of memory_export_json says. What admins alone may store stays out for others: an admin
/// stored it, and the rest is to come back.
pub fn import(caller: &Caller, configured: &Configured) -> PgResult<()> {
    let session = configured.session_id.as_deref();
    check_session(session)?;
    let mut settings = configured.settings.as_ref().map(|settings| JsonbText(settings.0.clone()));
    if let Some(settings) = settings.as_mut().filter(|_| caller.level < Level::Admin) {
        let left_out = leave_out_those_for_admins(settings);
        if !left_out.is_empty() {
            notice!("settings that only admins may store are left out: {}", left_out.join(", "));
        }
    }
    let content_type = configured.content_type.as_deref();
    configure(caller, session, settings.as_ref(), content_type).map(drop)
}

/// Takes from settings those that admins alone may store, and returns their names. What is no JSON object stays
/// for [`configure`] to refuse.
fn leave_out_those_for_admins(settings: &mut JsonbText) -> Vec<String> {
    let Ok(mut given) = serde_json::from_str::<Map<String, Value>>(&settings.0) else {
        return Vec::new();
    };
    let is_for_admins = |name: &String| {
        overrides::is_for_admins(name.strip_prefix(overrides::PREFIX).unwrap_or(name))
    };
    let names: Vec<String> = given.keys().filter(|name| is_for_admins(name)).cloned().collect();
    if !names.is_empty() {
        given.retain(|name, _| !is_for_admins(name));
        settings.0 = Value::Object(given).to_string();
    }
    names
}

/// Refuses a content type that there are no prompts for.
pub fn check_content_type(content_type: &str) -> PgResult<()> {
    if ContentType::NAMES.contains(&content_type) {
        return Ok(());
    }
    Err(Error::invalid(
        format!("unknown content_type \"{content_type}\""),
        format!("Content types are {}.", ContentType::NAMES.join(", ")),
    ))
}

/// What is to be stored, by names without the prefix; `null` takes a setting away. PostgreSQL checks
/// the values.
fn changes(settings: &JsonbText) -> PgResult<Map<String, Value>> {
    const HINT: &str = "Example: {\"recent_messages_to_keep\": 20, \"archive_conversations\": true}; null takes a setting away.";
    let Ok(Value::Object(given)) = serde_json::from_str(&settings.0) else {
        return Err(Error::invalid("settings must be a JSON object", HINT));
    };
    let mut changes = Map::new();
    for (given, value) in given {
        let name = given.strip_prefix(overrides::PREFIX).unwrap_or(&given);
        if overrides::is_retired(name) {
            // A value that an earlier version stored goes with it.
            if !value.is_null() {
                notice!("{given} has no effect any more, and is not stored");
            }
            changes.insert(name.to_owned(), Value::Null);
            continue;
        }
        if !overrides::is_configurable(name) {
            return Err(Error::invalid(
                format!("\"{given}\" is not a setting of agents and sessions"),
                "memory_configure stores the settings with context user (docs/settings.md), except user_id, agent_id and memory_message; for admins also default_ttl, max_content_bytes, max_entries, purge_after, secrets, secret_phrases and text_search_config.",
            ));
        }
        match overrides::text(name, &value) {
            Some(text) if text.len() > SETTING_BYTES => {
                let bytes = text.len();
                let problem = format!(
                    "the value of \"{given}\" is too long: {bytes} bytes, expected at most {SETTING_BYTES}"
                );
                return Err(Error::invalid(problem, HINT));
            }
            Some(text) => overrides::check(name, &text),
            None if value.is_null() => {}
            None => {
                let list = match overrides::is_list(name) {
                    true => ", and no array of strings without commas",
                    false => "",
                };
                let problem =
                    format!("the value of \"{given}\" is no string, number or boolean{list}");
                return Err(Error::invalid(problem, HINT));
            }
        }
        changes.insert(name.to_owned(), value);
    }
    Ok(changes)
}

/// What is stored, and what it comes to.
pub fn document(agent: &str, session: Option<&str>, stored: &Stored) -> PgResult<Value> {
    let mut merged = Map::new();
    for level in [&stored.shared, &stored.agent, &stored.session] {
        merged.extend(level.as_object().cloned().unwrap_or_default());
    }
    let effective = Settings::of(&Value::Object(merged)).during(|_| Ok(overrides::in_effect()))?;
    Ok(json!({
        "agent_id": agent,
        "session_id": session,
        "content_type": stored.content_type,
        "settings": effective,
        "stored": {
            "session": stored.session,
            "agent": stored.agent,
            "shared": stored.shared,
        },
    }))
}
