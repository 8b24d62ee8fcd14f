//! `attach` jobs: the rows that an attached table has are taken into memory, a stretch of its primary key
//! a turn of the loop, and entries of rows that it does not have any more end. What triggers did meanwhile
//! is found and left as it is, so the job can be run at any time, also for rows that were written while
//! the triggers were off. A job with `keys` looks at these rows only: they were refused before, or a
//! transaction with an old snapshot took them away.

use crate::jobs::pace::Pace;
use crate::jobs::prelude::*;
use crate::jobs::run::deadline::Deadline;
use crate::jobs::step::{Step, StepTask};
use crate::memory::ingest::intake::{Intake, Via, settings_of};
use crate::settings::Content;
use crate::store::attach::attached_entries as entries;
use crate::store::attach::attached_tables::{self as tables, KeyColumn};
use crate::store::attach::attachments::{self, Listed, Source};
use crate::store::attach::source_rows::{self, BATCH};
use memory_agent_core::jobs::payloads::Phase;
use std::cell::RefCell;

/// How long reading a stretch may take: casts, functions and views of the table's owner are part of it.
const STRETCH_TIME: Duration = Duration::from_secs(5);
/// A stretch that takes longer, or ends the worker, is tried again with this part of its rows.
const SHORTER: usize = 16;

/// An attach job on its way. How far it has come is kept in its payload, so that another worker goes on
/// from there.
pub struct AttachTask {
    job: Job,
    done: i64,
    /// Whether a worker ended while it read the stretch that comes now.
    has_ended_worker: bool,
}

impl StepTask for AttachTask {
    fn asks_models(&self) -> bool {
        false
    }

    fn job(&self) -> &Job {
        &self.job
    }

    /// Takes in the next stretch of the table.
    fn step(&mut self, _pace: &mut Pace) -> Result<Step, Aborted> {
        if std::mem::take(&mut self.has_ended_worker) {
            return self.shorten();
        }
        let mut job = self.job.clone();
        let mut done = self.done;
        let deadline = Deadline::begin(STRETCH_TIME);
        let step = transaction(|spi| {
            if !queue::lock(spi, &job)? {
                return Ok(Step::Finished);
            }
            stretch(spi, &mut job, &mut done)
        });
        let is_late = deadline.is_over();
        drop(deadline);
        match step {
            Err(_) if is_late => self.shorten(),
            Err(aborted) => Err(aborted.without_values("reading an attached table")),
            Ok(step) => {
                self.job = job;
                self.done = done;
                Ok(step)
            }
        }
    }
}

impl AttachTask {
    /// Takes up a claimed job.
    pub fn start(job: Job) -> Self {
        let payloads::Attach { done, interrupted, .. } = job.payload();
        let has_ended_worker = i64::from(job.interrupted) > interrupted;
        Self { job, done, has_ended_worker }
    }

    /// The stretch takes too long: fewer rows are tried next, and a single one is a failure.
    fn shorten(&mut self) -> Result<Step, Aborted> {
        let rows = rows(&self.job);
        let interrupted = i64::from(self.job.interrupted);
        self.job.keep(|payload: &mut payloads::Attach| {
            payload.rows = Some((rows / SHORTER).max(1) as u64);
            payload.interrupted = interrupted;
        });
        transaction(|spi| {
            queue::save(spi, &self.job)?;
            if rows > 1 {
                return Ok(Step::Continue);
            }
            let label = attachment(spi, &self.job)?.map_or_else(String::new, |found| found.label);
            Ok(Step::Failed(format!(
                "reading a row of {label} takes longer than {} s, or ends the worker: see what the casts, \
                 functions and views behind its columns do",
                STRETCH_TIME.as_secs()
            )))
        })
    }
}

/// Rows of the next stretch.
fn rows(job: &Job) -> usize {
    let rows = job.payload::<payloads::Attach>().rows;
    rows.map_or(BATCH, |rows| (rows as usize).clamp(1, BATCH))
}

/// The attachment that a job is about; `None` when it was detached meanwhile.
fn attachment(spi: &Spi, job: &Job) -> PgResult<Option<Listed>> {
    let id = job.payload::<payloads::Attach>().attachment.as_deref().and_then(queue::uuid);
    match id {
        Some(id) => Ok(attachments::all(spi)?.into_iter().find(|listed| listed.id == id)),
        None => Ok(None),
    }
}

/// Does one stretch in the transaction that is open.
fn stretch(spi: &Spi, job: &mut Job, done: &mut i64) -> PgResult<Step> {
    let Some(attachment) = attachment(spi, job)? else {
        queue::finish(spi, job)?;
        return Ok(Step::Finished);
    };
    let source = match attachment.table {
        Some(table) => attachments::source(spi, attachment.id, table)?,
        None => None,
    };
    let Some(source) = source else {
        return Ok(Step::Failed(format!("the table {} is gone", attachment.label)));
    };
    if let Some(problem) = source.problem() {
        return Ok(Step::Failed(format!("{} cannot be read: {problem}", source.table_name)));
    }
    let key = tables::key(spi, source.table)?;
    let payload: payloads::Attach = job.payload();
    if let Some(keys) = payload.keys {
        let keys: Vec<JsonbText> = keys.into_iter().map(JsonbText).collect();
        return look_again(spi, job, &source, &key, keys, done);
    }
    let before = *done;
    let is_over = if payload.phase == Some(Phase::Gone) {
        end_vanished(spi, job, &source, &key)?
    } else {
        take_in(spi, job, &source, &key, done)?
    };
    if is_over {
        queue::progress(spi, job, *done, Some(*done))?;
        queue::finish(spi, job)?;
        return Ok(Step::Finished);
    }
    go_on(spi, job, before, *done)
}

/// A stretch was read: the next one may be longer. As [progress](queue::progress) does in the row, what ended
/// workers before is forgotten.
fn go_on(spi: &Spi, job: &mut Job, before: i64, done: i64) -> PgResult<Step> {
    if done > before {
        job.interrupted = job.interrupted.min(1);
    }
    let (rows, interrupted) = (rows(job) * 2, i64::from(job.interrupted));
    job.keep(|payload: &mut payloads::Attach| {
        payload.done = done;
        payload.rows = Some(rows as u64);
        payload.interrupted = interrupted;
    });
    queue::save(spi, job)?;
    queue::progress(spi, job, done, None)?;
    Ok(Step::Continue)
}

fn intake<'a>(source: &'a Source, job: &Job) -> PgResult<Intake<'a>> {
    let payload: payloads::Attach = job.payload();
    let user_id = (!payload.of_nobody).then_some(job.user_id.as_str());
    Ok(Intake {
        source,
        default_user: if payload.of_nobody {
            Err("it is not known whose memory it is: set memory_agent.user_id and update the row"
                .into())
        } else {
            Ok(job.user_id.clone())
        },
        writer: job.user_id.clone(),
        via: Via::Worker,
        is_new: payload.is_new,
        settings: settings_of(source, user_id)?,
        to_embed: RefCell::default(),
    })
}

/// Takes in the next rows; then comes the second phase.
fn take_in(
    spi: &Spi,
    job: &mut Job,
    source: &Source,
    key: &[KeyColumn],
    done: &mut i64,
) -> PgResult<bool> {
    let after = job.payload::<payloads::Attach>().after;
    if after.is_none() {
        let of = tables::estimated_rows(spi, source.table)?;
        queue::progress(spi, job, 0, of)?;
    }
    let (most, max_bytes) = (rows(job), Content::current().max_content_bytes as i32);
    let stretch = roles::as_table_owner(source.table_owner, || {
        source_rows::after(&Spi::read_write()?, source, key, after.as_deref(), most, max_bytes)
    })?;
    let intake = intake(source, job)?;
    intake.take(&stretch.rows)?;
    intake.finish()?;
    *done += stretch.rows.len() as i64;
    job.keep(|payload: &mut payloads::Attach| match stretch.last {
        Some(last) => payload.after = Some(last),
        None => payload.phase = Some(Phase::Gone),
    });
    Ok(false)
}

/// Ends the next entries whose rows are gone; true when there are no more entries. The entries are
/// locked before the table is looked at: a row that is written meanwhile waits for them.
fn end_vanished(spi: &Spi, job: &mut Job, source: &Source, key: &[KeyColumn]) -> PgResult<bool> {
    let after = job.payload::<payloads::Attach>().behind.map(JsonbText);
    let mut keys = entries::keys_after(spi, &source.label, after.as_ref())?;
    if keys.is_empty() {
        return Ok(true);
    }
    let is_end = keys.len() < BATCH && keys.len() <= rows(job);
    keys.truncate(rows(job));
    entries::lock_keys(spi, &source.label, &keys)?;
    let vanished = roles::as_table_owner(source.table_owner, || {
        source_rows::vanished(&Spi::read_write()?, source, key, &keys)
    })?;
    if !vanished.is_empty() {
        entries::end_keys(spi, &source.label, &vanished, "its row was found deleted")?;
    }
    if let Some(last) = keys.last() {
        let last = last.0.clone();
        job.keep(|payload: &mut payloads::Attach| payload.behind = Some(last));
    }
    Ok(is_end)
}

/// Reads rows once more that were refused, or that a transaction wrote or took away which could not see
/// their entries. Those that are refused again get a new dead job. The entries are locked before the table is
/// looked at, as above.
fn look_again(
    spi: &Spi,
    job: &mut Job,
    source: &Source,
    key: &[KeyColumn],
    mut keys: Vec<JsonbText>,
    done: &mut i64,
) -> PgResult<Step> {
    let later = keys.split_off(rows(job).min(keys.len()));
    let before = *done;
    *done += keys.len() as i64;
    let keys = keys.as_slice();
    let max_bytes = Content::current().max_content_bytes as i32;
    entries::lock_keys(spi, &source.label, keys)?;
    let (rows, vanished) = roles::as_table_owner(source.table_owner, || {
        let spi = Spi::read_write()?;
        let rows = source_rows::with_keys(&spi, source, key, keys, max_bytes)?;
        Ok((rows, source_rows::vanished(&spi, source, key, keys)?))
    })?;
    if !job.payload::<payloads::Attach>().only_gone {
        let intake = intake(source, job)?;
        intake.take(&rows)?;
        intake.finish()?;
    }
    entries::end_keys(spi, &source.label, &vanished, "its row was found deleted")?;
    if later.is_empty() {
        queue::finish(spi, job)?;
        return Ok(Step::Finished);
    }
    let later = later.into_iter().map(|key| key.0).collect();
    job.keep(|payload: &mut payloads::Attach| payload.keys = Some(later));
    go_on(spi, job, before, *done)
}
