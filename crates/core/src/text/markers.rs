//! Markers: what makes a turn worth remembering (a decision, a constraint, a
//! failure, a goal, or the user's own `custom:` kinds).
//!
//! Detection looks for the cue phrases of a [`Language`](crate::text::language::Language). Its lists prefer
//! precision: a wrong marker lifts a row in every later recall, a missed one
//! only leaves it where relevance puts it.

use std::collections::HashSet;

/// The built-in markers, in the order in which they are reported.
pub const BUILT_IN: [&str; 4] = ["decision", "constraint", "failure", "goal"];

/// Prefix of the markers that users name themselves.
pub const CUSTOM_PREFIX: &str = "custom:";

/// Longest name of a custom marker, in characters, without the prefix.
pub const MAX_CUSTOM_LENGTH: usize = 64;

/// A marker that cannot be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MarkerError {
    #[error("unknown marker {0:?}: expected decision, constraint, failure, goal, or custom:name")]
    Unknown(String),
    #[error(
        "invalid custom marker {0:?}: expected custom: and 1 to {MAX_CUSTOM_LENGTH} characters \
         out of letters A-Z a-z, digits, underscore, dot and hyphen"
    )]
    CustomName(String),
}

/// Checks the spelling of one marker.
pub fn validate(marker: &str) -> Result<(), MarkerError> {
    let Some(name) = marker.strip_prefix(CUSTOM_PREFIX) else {
        return if BUILT_IN.contains(&marker) {
            Ok(())
        } else {
            Err(MarkerError::Unknown(shortened(marker)))
        };
    };
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    if (1..=MAX_CUSTOM_LENGTH).contains(&name.len()) && name.bytes().all(allowed) {
        Ok(())
    } else {
        Err(MarkerError::CustomName(shortened(marker)))
    }
}

/// The markers to store: exactly the `explicit` ones if there are any given,
/// even an empty list, else the `detected` ones. Each once, first place kept.
pub fn merge(explicit: Option<&[String]>, detected: &[&str]) -> Vec<String> {
    let mut known = HashSet::new();
    match explicit {
        Some(explicit) => explicit.iter().filter(|marker| known.insert(*marker)).cloned().collect(),
        None => detected.iter().map(|marker| (*marker).to_owned()).collect(),
    }
}

/// An error message must not repeat a megabyte of input.
fn shortened(marker: &str) -> String {
    const SHOWN: usize = MAX_CUSTOM_LENGTH + CUSTOM_PREFIX.len() + 8;
    match marker.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &marker[..end]),
        None => marker.to_owned(),
    }
}

#[cfg(test)]
#[path = "markers_tests.rs"]
mod tests;
