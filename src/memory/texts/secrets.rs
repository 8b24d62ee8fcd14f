//! Secrets in what is about to be stored, by `memory_agent.secrets`: taken out and counted in the row's metadata, refused,
//! or kept. Every way into memory comes through here, except for the import of an own export.

use crate::memory::prelude::*;
use crate::settings::Secrets;
use memory_agent_core::text::secrets::{Counts, REDACTED, redacted, redacted_json, uncounted};
use serde_json::Map;
use std::borrow::Cow;

/// A text, and the strings of its metadata, without their secrets; the metadata says how many there were. `None` if
/// both are stored as they are.
///
/// # Errors
/// 23514 if there are secrets, and they are to be refused.
pub fn clean(
    content: &str,
    metadata: &JsonbText,
    settings: &Content,
) -> PgResult<Option<(String, JsonbText)>> {
    let mut counts = Counts::default();
    let text = read(content, settings, &mut counts);
    let values = match settings.secrets {
        Secrets::Keep => Cow::Borrowed(metadata.0.as_str()),
        _ => redacted_json(&metadata.0, settings.secret_phrases, &mut counts),
    };
    check(&counts, settings)?;
    let cleaned = || (text.into_owned(), JsonbText(values.into_owned()).with_keys(noted(&counts)));
    Ok((!counts.is_empty()).then(cleaned))
}

/// Another text for a row with this metadata, which counted the secrets of the text before.
///
/// # Errors
/// As in [`clean`].
pub fn revised(
    content: &str,
    metadata: &JsonbText,
    settings: &Content,
) -> PgResult<(String, JsonbText)> {
    let mut counts = Counts::default();
    let text = read(content, settings, &mut counts).into_owned();
    check(&counts, settings)?;
    let metadata = JsonbText(uncounted(&metadata.0).into_owned());
    Ok(match counts.is_empty() {
        true => (text, metadata),
        false => (text, metadata.with_keys(noted(&counts))),
    })
}

/// A text without its secrets, as it is compared with what is stored.
///
/// # Errors
/// As in [`clean`].
pub fn cleaned<'a>(text: &'a str, settings: &Content) -> PgResult<Cow<'a, str>> {
    let mut counts = Counts::default();
    let text = read(text, settings, &mut counts);
    check(&counts, settings)?;
    Ok(text)
}

/// A text that an LLM made of what is stored: there is no caller to be told that it is refused.
pub fn taken_out<'a>(text: &'a str, settings: &Content, counts: &mut Counts) -> Cow<'a, str> {
    read(text, settings, counts)
}

/// Why a row is not taken, if it has secrets and they are to be refused.
pub fn refusal(text: &str, metadata: &JsonbText, settings: &Content) -> Option<String> {
    if settings.secrets != Secrets::Refuse {
        return None;
    }
    let mut counts = Counts::default();
    redacted(text, settings.secret_phrases, &mut counts);
    redacted_json(&metadata.0, settings.secret_phrases, &mut counts);
    (!counts.is_empty()).then(|| problem(&counts))
}

/// What metadata says of the secrets that were taken out.
pub fn noted(counts: &Counts) -> Map<String, Value> {
    Map::from_iter([(REDACTED.to_owned(), counts.to_json())])
}

fn read<'a>(text: &'a str, settings: &Content, counts: &mut Counts) -> Cow<'a, str> {
    match settings.secrets {
        Secrets::Keep => Cow::Borrowed(text),
        Secrets::Redact | Secrets::Refuse => redacted(text, settings.secret_phrases, counts),
    }
}

fn check(counts: &Counts, settings: &Content) -> PgResult<()> {
    if counts.is_empty() || settings.secrets != Secrets::Refuse {
        return Ok(());
    }
    Err(Error::secret(
        problem(counts),
        "Take it out of the text, or set memory_agent.secrets to redact (in postgresql.conf, or with \
         memory_configure).",
    ))
}

fn problem(counts: &Counts) -> String {
    format!("there is a secret in it ({}), and memory_agent.secrets is 'refuse'", counts.names())
}
