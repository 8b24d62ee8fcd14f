//! Where an entry is in the order of time: what a list of `memory_list()` goes on from, in cursors of MCP, in addresses
//! of the page, and between the pages of mem0.

use crate::db::memory::{MemoryError, column};
use std::fmt;
use tokio_postgres::Row;
use uuid::Uuid;

/// The time of an entry as a [`Place`] has it.
pub const AT: &str = "to_jsonb(created_at AT TIME ZONE 'UTC') #>> '{}'";

/// The time and the id of an entry. The database reads the time as a `timestamp` in UTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub at: String,
    pub id: Uuid,
}

impl Place {
    /// The place in two columns; `None` where there is none.
    ///
    /// # Errors
    /// [`MemoryError::Unexpected`].
    pub fn of(row: &Row, first: usize) -> Result<Option<Self>, MemoryError> {
        let (at, id): (Option<String>, Option<Uuid>) =
            (column(row, first)?, column(row, first + 1)?);
        Ok(at.zip(id).map(|(at, id)| Self { at, id }))
    }

    /// Reads what was written of one; `None` for anything else.
    pub fn read(text: &str) -> Option<Self> {
        let (at, id) = text.rsplit_once('_')?;
        Some(Self { at: moment(at)?.to_owned(), id: Uuid::parse_str(id).ok()? })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&written(&self.at, self.id))
    }
}

/// A place as clients and addresses have it.
pub fn written(at: &str, id: impl fmt::Display) -> String {
    format!("{at}_{id}")
}

/// A time as PostgreSQL and a field of a form write it; `None` for anything else.
pub fn moment(text: &str) -> Option<&str> {
    let is_time = |byte: u8| byte.is_ascii_digit() || b"-:T.".contains(&byte);
    ((10..=30).contains(&text.len()) && text.bytes().all(is_time)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_were_written() {
        let id = "0199c3a5-0000-7000-8000-000000000001";
        let text = written("2026-01-09T08:07:06.123456", id);
        let place = Place::read(&text).unwrap();
        assert_eq!((place.at.as_str(), place.to_string()), ("2026-01-09T08:07:06.123456", text));
        let quoted = format!("'; DROP_{id}");
        let zoned = format!("2026-11-23T07:00:00Z_{id}");
        for wrong in ["", "_", "2026-01-09_x", "2026-01-09", &quoted, &zoned, &written("now", id)] {
            assert_eq!(Place::read(wrong), None, "{wrong}");
        }
    }
}
