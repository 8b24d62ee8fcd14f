//! `reindex` jobs: after an update, the rows that an older version stored are hashed and indexed in the forms in which
//! texts are compared and looked up now. Most rows have the same in both, and are only read. A batch of rows a turn of
//! the loop, in a transaction that waits for no lock; the payload says how far it has come. Until it has come to a row,
//! `store::rows::forms` finds it.

use crate::jobs::pace::Pace;
use crate::jobs::prelude::*;
use crate::jobs::step::{Step, StepTask};
use crate::memory::texts::turn::indexed_text;
use crate::store::changes::reindex::{self as store, Place, Row, Table};
use crate::store::rows::forms::content_hash;
use crate::store::rows::lexemes::Lexemes;
use memory_agent_core::text::unicode;
use std::borrow::Cow;

/// Rows that are read for one step, and of those with characters beyond ASCII rows and bytes of text that are hashed
/// and indexed: so much may be locked at once.
const PAGE: i64 = 500;
const BATCH: usize = 100;
const BATCH_BYTES: i64 = 256 * 1024;
/// When it goes on after another transaction kept it from going on.
const BUSY_DELAY: Duration = Duration::from_secs(5);
/// Why rows are left.
const IN_USE: &str = "its rows are in use by another transaction";

/// A job on its way. How far it has come is kept in its payload, so that another worker goes on from there.
pub struct ReindexTask {
    job: Job,
}

impl StepTask for ReindexTask {
    fn asks_models(&self) -> bool {
        false
    }

    fn makes_room(&self) -> bool {
        false
    }

    fn job(&self) -> &Job {
        &self.job
    }

    fn step(&mut self, _pace: &mut Pace) -> Result<Step, Aborted> {
        let mut job = self.job.clone();
        let step = transaction(|spi| match queue::lock(spi, &job)? {
            true => batch(spi, &mut job),
            false => Ok(Step::Finished),
        });
        // All users see this job.
        let step = step.map_err(|aborted| aborted.without_values("indexing rows anew"))?;
        self.job = job;
        Ok(step)
    }
}

impl ReindexTask {
    /// Takes up a claimed job.
    pub fn start(job: Job) -> Self {
        Self { job }
    }
}

/// Does the next rows in the transaction that is open.
fn batch(spi: &Spi, job: &mut Job) -> PgResult<Step> {
    let mut place: payloads::Reindex = job.payload();
    let table = if place.archives { Table::Archives } else { Table::Entries };
    let id_of = |id: &Option<String>| id.as_deref().and_then(queue::uuid);
    // Rows that come meanwhile have the forms of today.
    let until = match id_of(&place.until) {
        Some(until) => Some(until),
        None => store::last_id(spi, table)?,
    };
    let after = id_of(&place.after).unwrap_or(Uuid::from_bytes([0; 16]));
    let page = match until {
        Some(until) => store::page(spi, table, (after, until), PAGE)?,
        None => None,
    };
    let Some((end, rows)) = page else {
        if place.archives {
            queue::progress(spi, job, place.done, Some(place.done))?;
            queue::finish(spi, job)?;
            return Ok(Step::Finished);
        }
        place = payloads::Reindex { archives: true, until: None, after: None, ..place };
        job.keep(|payload: &mut payloads::Reindex| *payload = place);
        queue::save(spi, job)?;
        return Ok(Step::Continue);
    };
    let mut wanted = store::beyond_ascii(spi, table, after, end)?;
    let is_whole = cut(&mut wanted);
    if !renew(spi, table, &wanted)? {
        return Ok(Step::Busy(BUSY_DELAY, IN_USE.to_owned()));
    }
    let (reached, looked_at) = match wanted.last() {
        Some((_, last, _)) if !is_whole => {
            store::page(spi, table, (after, *last), PAGE)?.unwrap_or((*last, 0))
        }
        _ => (end, rows),
    };
    place.done += looked_at;
    place.after = Some(reached.to_string());
    place.until = until.map(|until| until.to_string());
    let of = store::estimated_rows(spi, Table::Entries)?
        .saturating_add(store::estimated_rows(spi, Table::Archives)?);
    queue::progress(spi, job, place.done, Some(of.max(place.done)))?;
    job.keep(|payload: &mut payloads::Reindex| *payload = place);
    queue::save(spi, job)?;
    Ok(Step::Continue)
}

/// Leaves as many rows as one step does; true when that is all of them. Rows with one id stay together: the next step
/// begins after it.
fn cut(wanted: &mut Vec<Place>) -> bool {
    let mut bytes = 0;
    let fitting = wanted
        .iter()
        .take(BATCH)
        .take_while(|(_, _, size)| {
            bytes += size;
            bytes <= BATCH_BYTES
        })
        .count()
        .max(1);
    let last = wanted.get(fitting - 1).map(|(_, id, _)| *id);
    let more = wanted.iter().skip(fitting).take_while(|(_, id, _)| Some(*id) == last).count();
    let is_whole = fitting + more >= wanted.len();
    wanted.truncate(fitting + more);
    is_whole
}

/// Gives these rows the hash and the words of today; false when another transaction has some of them, which are left.
fn renew(spi: &Spi, table: Table, wanted: &[Place]) -> PgResult<bool> {
    let rows = store::locked(spi, table, wanted)?;
    for row in &rows {
        let hash = content_hash(&row.content);
        match table {
            Table::Entries => {
                let words = words(spi, row)?;
                if words.is_some() || row.content_hash.as_ref() != Some(&hash) {
                    store::renew_entry(spi, row, &hash, words)?;
                }
            }
            Table::Archives => {
                store::renew_archive(spi, row, &hash)?;
            }
        }
    }
    let left: Vec<(String, Uuid)> = wanted
        .iter()
        .filter(|(user_id, id, _)| !rows.iter().any(|row| row.id == *id && row.user_id == *user_id))
        .map(|(user_id, id, _)| (user_id.clone(), *id))
        .collect();
    Ok(left.is_empty() || !store::is_any_there(spi, table, &left)?)
}

/// The words of an entry whose text is indexed in another form than the one in which it is written.
fn words(spi: &Spi, row: &Row) -> PgResult<Option<Lexemes>> {
    let text = indexed_text(&row.content, &row.metadata);
    match &row.configuration {
        Some(configuration) if matches!(unicode::indexed(&text), Cow::Owned(_)) => {
            Lexemes::index(spi, configuration, &text).map(Some)
        }
        _ => Ok(None),
    }
}
