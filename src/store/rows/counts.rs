//! Counts for `memory_status()` and `memory_stats()`: never content.

use crate::pg::prelude::*;
use crate::store::{rows::scope, schema};
use std::fmt;

/// Rows that a count reads at most: the answer takes the same time in a table of any size.
const MOST_READ: i64 = 10_000;

/// How many rows there are, or how many there are at least, if not all were read.
#[derive(Clone, Copy, Default)]
pub struct Count {
    counted: i64,
    is_complete: bool,
}

impl Count {
    /// Counts the rows for which `counted` holds. `rows` is a FROM and WHERE clause whose rows an index finds.
    fn of(spi: &Spi, rows: &str, counted: &str) -> PgResult<Self> {
        let (counted, read): (i64, i64) = spi.one(
            &format!(
                "SELECT count(*) FILTER (WHERE {counted}), count(*) \
                   FROM (SELECT * FROM {rows} LIMIT {MOST_READ} + 1) r"
            ),
            &mut params![],
        )?;
        Ok(Self { counted: counted.min(MOST_READ), is_complete: read <= MOST_READ })
    }

    /// Whether there is certainly one.
    pub fn is_some(self) -> bool {
        self.counted > 0
    }

    /// Whether there is certainly none.
    pub fn is_none(self) -> bool {
        self.counted == 0 && self.is_complete
    }

    pub fn plus(self, other: Self) -> Self {
        Self {
            counted: self.counted + other.counted,
            is_complete: self.is_complete && other.is_complete,
        }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at_least = if self.is_complete { "" } else { "at least " };
        write!(f, "{at_least}{}", self.counted)
    }
}

/// Jobs by state, and the age of the oldest that waits.
pub struct Queue {
    pub pending: Count,
    pub running: Count,
    pub dead: Count,
    pub oldest_seconds: Option<f64>,
}

pub fn queue(spi: &Spi) -> PgResult<Queue> {
    let of_status = |status: &str| {
        Count::of(spi, &format!("memory_agent.jobs j WHERE j.status = '{status}'"), "true")
    };
    Ok(Queue {
        pending: of_status("pending")?,
        running: of_status("running")?,
        dead: of_status("dead")?,
        // Of those that are due first.
        oldest_seconds: spi.one(
            &format!(
                "SELECT greatest(extract(epoch FROM now() - min(r.created_at)), 0)::float8 \
               FROM (SELECT j.created_at FROM memory_agent.jobs j WHERE j.status = 'pending' \
                      ORDER BY j.run_after LIMIT {MOST_READ}) r"
            ),
            &mut params![],
        )?,
    })
}

/// The users' turns that no facts were extracted from.
pub struct Unextracted {
    /// A job has them, or the next sweep queues one.
    pub waiting: Count,
    /// Stored while extraction was off or no LLM was configured.
    pub skipped: Count,
    /// Episodes of turns that are extracted from when the episode is over.
    pub episodes: Count,
}

pub fn unextracted(spi: &Spi) -> PgResult<Unextracted> {
    let turns = |extracted_at: &str, counted: &str| {
        let rows = format!(
            "memory_agent.entries e WHERE e.kind = 'turn' AND e.role = 'user' AND e.extracted_at {extracted_at}"
        );
        Count::of(spi, &rows, counted)
    };
    let episodes = |status: &str| {
        let rows = format!("memory_agent.episodes p WHERE p.status = '{status}'");
        Count::of(spi, &rows, "r.wants_reflection")
    };
    Ok(Unextracted {
        waiting: turns(
            "IS NULL",
            "(r.state <> 'inactive' OR r.state_reason IS NULL) \
             AND (r.expires_at IS NULL OR r.expires_at > now())",
        )?,
        skipped: turns("= '-infinity'", "r.state <> 'inactive'")?,
        episodes: episodes("open")?.plus(Count::of(
            spi,
            "memory_agent.episodes p WHERE p.status = 'closed' AND p.wants_reflection",
            "true",
        )?),
    })
}

/// Facts that perhaps no longer hold, and how many of these nothing has replaced or ended since.
pub fn doubted(spi: &Spi) -> PgResult<(Count, Count)> {
    if !schema::has_0_3() {
        return Ok((Count::default(), Count::default()));
    }
    let rows = "memory_agent.entries e WHERE e.doubted_by IS NOT NULL";
    Ok((Count::of(spi, rows, "true")?, Count::of(spi, rows, "r.state <> 'inactive'")?))
}

/// Entries that recall finds only by their words.
pub fn without_embedding(spi: &Spi) -> PgResult<Count> {
    Count::of(
        spi,
        "memory_agent.entries e \
          WHERE e.state <> 'inactive' AND (e.embedding IS NULL OR NOT e.token_count_exact)",
        "r.embedding_model IS NULL",
    )
}

/// Rows of history that are not sealed yet, and for how many seconds the oldest of those that were counted is not.
pub fn unsealed(spi: &Spi) -> PgResult<(Count, f64)> {
    let rows = "memory_agent.history h WHERE h.seq IS NULL";
    let oldest = spi.one(
        &format!(
            "SELECT coalesce(extract(epoch FROM clock_timestamp() - min(r.at)), 0)::float8 \
               FROM (SELECT h.at FROM {rows} LIMIT {MOST_READ}) r"
        ),
        &mut params![],
    )?;
    Ok((Count::of(spi, rows, "true")?, oldest))
}

/// Entries as the planner counts them; negative while the table was never analysed.
pub fn estimated_entries(spi: &Spi) -> PgResult<i64> {
    spi.one(
        "SELECT c.reltuples::int8 FROM pg_class c WHERE c.oid = 'memory_agent.entries'::regclass",
        &mut params![],
    )
}

/// The counts of one session, or of all sessions of a user, as one document.
pub fn stats(
    spi: &Spi,
    user_id: &str,
    agent_id: Option<&str>,
    session_id: Option<&str>,
) -> PgResult<JsonbText> {
    // With the name of global memory, what belongs to no session too.
    let in_session = |row: &str| match session_id {
        Some(name) if Some(name) == schema::global_name() => scope::is_global(row),
        _ => format!("{row}.session_id = $3"),
    };
    let statement =
        format!(include_str!("../sql/statistics.sql"), me = in_session("me"), e = in_session("e"),);
    spi.one(&statement, &mut params![user_id, agent_id, session_id])
}
