//! A turn of a conversation: as it was given, and with everything about it that is known before the
//! database is touched.

use crate::memory::prelude::*;
use crate::memory::texts::language::Phrases;
use crate::memory::texts::secrets;
use crate::store::rows::entries;
use memory_agent_core::limits::MAX_MARKERS;
use memory_agent_core::text::{entry, markers};

/// One message as it was given.
pub struct Turn {
    pub session_id: String,
    pub role: String,
    pub content: String,
    pub metadata: JsonbText,
    pub markers: Option<Vec<String>>,
    pub created_at: Option<TimestampWithTimeZone>,
    /// How long it is remembered; `None` means `memory_agent.default_ttl`.
    pub ttl: Option<Interval>,
}

/// Everything about a turn that is known before the database is touched.
pub struct Checked {
    pub turn: Turn,
    /// The text that is embedded and indexed.
    pub indexed_text: String,
    pub markers: Vec<String>,
    pub created_at: TimestampWithTimeZone,
    pub expires_at: Option<TimestampWithTimeZone>,
}

/// Checks a turn, and finds out what its text and the settings say of it.
pub fn check(mut turn: Turn, now: TimestampWithTimeZone, settings: &Content) -> PgResult<Checked> {
    // A batch may have gigabytes of work for its texts, where max_content_bytes allows that.
    pgrx::check_for_interrupts!();
    entry::validate_role(&turn.role).map_err(Error::refused)?;
    entry::validate_content(&turn.content, settings.max_content_bytes).map_err(Error::refused)?;
    check_metadata(&turn.metadata, settings)?;
    if let Some(clean) = secrets::clean(&turn.content, &turn.metadata, settings)? {
        (turn.content, turn.metadata) = clean;
    }
    let markers = markers_of(turn.markers.as_deref(), &turn.content, settings)?;
    let created_at = turn.created_at.map_or(Ok(now), |at| entries::said_at(at, now))?;
    let expires_at = expiry(now, turn.ttl, settings)?;
    let indexed_text = indexed_text(&turn.content, &turn.metadata);
    Ok(Checked { turn, indexed_text, markers, created_at, expires_at })
}

/// Refuses metadata that is not an object, or larger than content may be.
pub fn check_metadata(metadata: &JsonbText, settings: &Content) -> PgResult<()> {
    if !metadata.0.starts_with('{') {
        return Err(Error::invalid(
            "metadata must be a JSON object",
            "Example: {\"project\": \"x\"}.",
        ));
    }
    let limit = settings.max_content_bytes;
    if metadata.0.len() > limit {
        return Err(Error::invalid(
            format!("metadata has {} bytes, the limit is {limit}", metadata.0.len()),
            "Store large data in a table of your own and keep its key here.",
        ));
    }
    Ok(())
}

/// The markers of an entry: the explicit ones, or those its text shows.
pub fn markers_of(
    explicit: Option<&[String]>,
    content: &str,
    settings: &Content,
) -> PgResult<Vec<String>> {
    let given = explicit.unwrap_or_default();
    if given.len() > MAX_MARKERS {
        let problem = format!("there are {} markers, expected at most {MAX_MARKERS}", given.len());
        return Err(Error::invalid(problem, "Use metadata for long lists."));
    }
    for marker in given {
        markers::validate(marker).map_err(Error::refused)?;
    }
    let phrases = Phrases::for_markers(settings.auto_detect_markers, &settings.text_search_config);
    let detected = phrases.map_or_else(Vec::new, |phrases| phrases.markers(content));
    Ok(markers::merge(explicit, &detected))
}

/// The text that is embedded and indexed. Metadata that only PostgreSQL can read (a number beyond
/// a double) has no speaker's name.
pub fn indexed_text(content: &str, metadata: &JsonbText) -> String {
    let metadata = serde_json::from_str(&metadata.0).unwrap_or_default();
    entry::indexed_text(content, &metadata).into_owned()
}

/// When an entry expires: `ttl` after now, or after the default.
pub fn expiry(
    now: TimestampWithTimeZone,
    ttl: Option<Interval>,
    settings: &Content,
) -> PgResult<Option<TimestampWithTimeZone>> {
    if let Some(ttl) = ttl {
        let expires_at = now + ttl;
        if expires_at <= now {
            return Err(Error::invalid("ttl must be positive", "Example: interval '7 days'."));
        }
        return Ok(Some(expires_at));
    }
    let seconds = settings.default_ttl_seconds;
    Ok((seconds > 0).then(|| now + Interval::from_seconds(f64::from(seconds))))
}
