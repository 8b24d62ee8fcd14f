//! What happened to one memory: the history of an entry, of the versions before it and of those that
//! took its place.

use crate::pg::prelude::*;
use crate::store::rows::history::{self, IMPORTED};

/// An event: time, operation, who, why, the content then, the entry then, job, number in the chain.
pub type Event = (
    TimestampWithTimeZone,
    String,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<JsonbText>,
    Option<Uuid>,
    Option<i64>,
);

/// The events about an entry, a summary or a document of a user and all its versions, oldest first. That
/// a turn came is no event of its own: its row says when.
pub fn events(spi: &Spi, user_id: &str, id: Uuid) -> PgResult<Vec<Event>> {
    let sql = format!(
        include_str!("../sql/history_of_versions.sql"),
        op = history::op("h"),
        at = history::at("h"),
        // Who did it in another database is only what an import says.
        actor = format!(
            "CASE h.op WHEN '{IMPORTED}' \
                  THEN concat_ws(' ', {}, format('(imported by %s)', h.actor)) ELSE h.actor END",
            history::told("h", "actor")
        ),
        reason = history::told("h", "reason"),
        body = history::body("h"),
    );
    spi.rows(&sql, &mut params![user_id, id])
}
