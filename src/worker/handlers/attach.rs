//! `attach` jobs: the rows that an attached table has are taken into memory, a stretch of its primary key
//! a turn of the loop, and entries of rows that it does not have any more end. What triggers did meanwhile
//! is found and left as it is, so the job can be run at any time, also for rows that were written while
//! the triggers were off. A job with `keys` looks at these rows only: they were refused before, or a
//! transaction with an old snapshot took them away.

use crate::api::intake::{Intake, Via};
use crate::error::PgResult;
use crate::guc;
use crate::identity;
use crate::sql_types::JsonbText;
use crate::store::attached_entries as entries;
use crate::store::attached_tables::{self as tables, KeyColumn};
use crate::store::attachments::{self, Source};
use crate::store::queue::{self, Job};
use crate::store::source_rows::{self, BATCH};
use crate::store::spi::Session as Spi;
use crate::worker::transaction::{Aborted, transaction};
use serde_json::{Value, json};
use std::cell::RefCell;

/// An attach job on its way. How far it has come is kept in its payload, so that another worker goes on
/// from there.
pub struct AttachTask {
    pub job: Job,
    done: i64,
}

/// What became of one stretch.
pub enum Step {
    /// There may be more.
    Continue,
    Finished,
    /// The table cannot be read, for this reason.
    Failed(String),
}

impl AttachTask {
    pub fn new(job: Job) -> Self {
        let done = job.payload.get("done").and_then(Value::as_i64).unwrap_or(0);
        Self { job, done }
    }

    /// Takes in the next stretch of the table.
    ///
    /// # Errors
    /// Why its transaction was aborted.
    pub fn step(&mut self) -> Result<Step, Aborted> {
        let mut job = self.job.clone();
        let mut done = self.done;
        let step = transaction(|| {
            let spi = Spi::read_write()?;
            if !queue::lock(&spi, &job)? {
                return Ok(Step::Finished);
            }
            stretch(&spi, &mut job, &mut done)
        })
        .map_err(|aborted| aborted.without_values("reading an attached table"))?;
        self.job = job;
        self.done = done;
        Ok(step)
    }
}

/// Does one stretch in the transaction that is open.
fn stretch(spi: &Spi, job: &mut Job, done: &mut i64) -> PgResult<Step> {
    let id = job.payload.get("attachment").and_then(Value::as_str).and_then(queue::uuid);
    let attachment = match id {
        Some(id) => attachments::all(spi)?.into_iter().find(|listed| listed.id == id),
        None => None,
    };
    // Detached meanwhile.
    let Some(attachment) = attachment else {
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
    if let Some(keys) = job.payload.get("keys").and_then(Value::as_array) {
        let texts = keys.iter().filter_map(Value::as_str);
        let keys: Vec<JsonbText> = texts.map(|key| JsonbText(key.to_owned())).collect();
        return look_again(spi, job, &source, &key, &keys);
    }
    let is_over = if job.payload.get("phase").and_then(Value::as_str) == Some("gone") {
        end_vanished(spi, job, &source, &key)?
    } else {
        take_in(spi, job, &source, &key, done)?
    };
    if is_over {
        queue::progress(spi, job, *done, Some(*done))?;
        queue::finish(spi, job)?;
        return Ok(Step::Finished);
    }
    job.payload["done"] = json!(*done);
    queue::save(spi, job)?;
    queue::progress(spi, job, *done, None)?;
    Ok(Step::Continue)
}

fn is_said(job: &Job, what: &str) -> bool {
    job.payload.get(what).and_then(Value::as_bool).unwrap_or(false)
}

fn intake<'a>(source: &'a Source, job: &Job) -> Intake<'a> {
    Intake {
        source,
        default_user: if is_said(job, "of_nobody") {
            Err("it is not known whose memory it is: set memory_agent.user_id and update the row"
                .into())
        } else {
            Ok(job.user_id.clone())
        },
        writer: job.user_id.clone(),
        via: Via::Worker,
        is_new: is_said(job, "is_new"),
        to_embed: RefCell::default(),
    }
}

/// Takes in the next rows; then comes the second phase.
fn take_in(
    spi: &Spi,
    job: &mut Job,
    source: &Source,
    key: &[KeyColumn],
    done: &mut i64,
) -> PgResult<bool> {
    let after: Option<Vec<String>> =
        job.payload.get("after").and_then(|after| serde_json::from_value(after.clone()).ok());
    if after.is_none() {
        let of = tables::estimated_rows(spi, source.table)?;
        queue::progress(spi, job, 0, of)?;
    }
    let max_bytes = guc::max_content_bytes();
    let stretch = identity::as_table_owner(source.table_owner, || {
        source_rows::after(&Spi::read_write()?, source, key, after.as_deref(), max_bytes)
    })?;
    let intake = intake(source, job);
    intake.take(&stretch.rows)?;
    intake.finish()?;
    *done += stretch.rows.len() as i64;
    match stretch.last {
        Some(last) => job.payload["after"] = json!(last),
        None => job.payload["phase"] = json!("gone"),
    }
    Ok(false)
}

/// Ends the next entries whose rows are gone; true when there are no more entries. The entries are
/// locked before the table is looked at: a row that is written meanwhile waits for them.
fn end_vanished(spi: &Spi, job: &mut Job, source: &Source, key: &[KeyColumn]) -> PgResult<bool> {
    let behind = job.payload.get("behind").and_then(Value::as_str);
    let after = behind.map(|key| JsonbText(key.to_owned()));
    let keys = entries::keys_after(spi, &source.label, after.as_ref())?;
    if keys.is_empty() {
        return Ok(true);
    }
    entries::lock_keys(spi, &source.label, &keys)?;
    let vanished = identity::as_table_owner(source.table_owner, || {
        source_rows::vanished(&Spi::read_write()?, source, key, &keys)
    })?;
    if !vanished.is_empty() {
        entries::end_keys(spi, &source.label, &vanished, "its row was found deleted")?;
    }
    if let Some(last) = keys.last() {
        job.payload["behind"] = json!(last.0);
    }
    Ok(keys.len() < BATCH)
}

/// Reads rows once more that were refused, or that a transaction wrote or took away which could not see
/// their entries. Those that are refused again get a new dead job. The entries are locked before the table is
/// looked at, as above.
fn look_again(
    spi: &Spi,
    job: &Job,
    source: &Source,
    key: &[KeyColumn],
    keys: &[JsonbText],
) -> PgResult<Step> {
    let max_bytes = guc::max_content_bytes();
    entries::lock_keys(spi, &source.label, keys)?;
    let (rows, vanished) = identity::as_table_owner(source.table_owner, || {
        let spi = Spi::read_write()?;
        let rows = source_rows::with_keys(&spi, source, key, keys, max_bytes)?;
        Ok((rows, source_rows::vanished(&spi, source, key, keys)?))
    })?;
    if !is_said(job, "only_gone") {
        let intake = intake(source, job);
        intake.take(&rows)?;
        intake.finish()?;
    }
    entries::end_keys(spi, &source.label, &vanished, "its row was found deleted")?;
    queue::finish(spi, job)?;
    Ok(Step::Finished)
}
