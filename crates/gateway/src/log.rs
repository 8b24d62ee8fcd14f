//! Log lines, one JSON object each, on standard error. What is written here never holds a text of a
//! conversation, a key, a token or the name of a user: callers pass numbers, codes and fixed words.

use serde_json::{Map, Value, json};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

static IS_SILENT: AtomicBool = AtomicBool::new(false);

/// From now on nothing is written: where a person reads standard error.
pub fn silence() {
    IS_SILENT.store(true, Ordering::Relaxed);
}

/// Writes what happened, with the milliseconds since 1970.
pub fn write(event: &'static str, fields: Value) {
    if IS_SILENT.load(Ordering::Relaxed) {
        return;
    }
    let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let mut line = Map::new();
    line.insert("at".to_owned(), json!(u64::try_from(at).unwrap_or(u64::MAX)));
    line.insert("event".to_owned(), json!(event));
    if let Value::Object(fields) = fields {
        line.extend(fields);
    }
    // One write, so that lines do not mix. If standard error is gone, there is no place to say so.
    let line = format!("{}\n", Value::Object(line));
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}
