//! What a statement did to an attached table, followed in memory. What changed is read as the role that ran it,
//! for a column's type may bring code of its own along, and written as the extension's owner. No LLM is asked:
//! neither the models (unless the attachment says `embed => 'sync'`) nor the worker have to run.

use crate::memory::changes::followed_rows;
use crate::memory::ingest::intake::{Intake, Via, row_jobs};
use crate::memory::prelude::*;
use crate::pg::attempt::attempt;
use crate::pg::error::warn;
use crate::pg::pinned_settings::{by_index, canonical};
use crate::pg::spi::sees_one_snapshot;
use crate::pg::trigger_rows::TriggerRows;
use crate::settings::Effective;
use crate::store::attach::attached_jobs::{self as jobs, Extent};
use crate::store::attach::attached_tables::{self as tables, KeyColumn};
use crate::store::attach::attachments::{self, Source};
use crate::store::attach::source_rows::{self, Gone, SourceRow};
use crate::store::{attach::attached_entries as entries, transfer::restores};

/// What history says of an entry whose row was deleted.
const DELETED: &str = "its row was deleted";
/// And of one whose row has another key now.
const REKEYED: &str = "the key of its row was changed";

/// Where one MERGE first inserts a row into a partitioned table and then updates others, PostgreSQL 16 to 18 show the
/// row that was inserted in the place of their new versions. Those whose keys stay are found by their old versions;
/// those that were moved to other keys, by reading the table.
const TELLS_INSERTED_ROWS: bool = cfg!(not(feature = "pg15"));

/// A statement that changed an attached table, as its trigger sees it.
pub struct Statement<'a> {
    /// The rows that it wrote.
    pub told: TriggerRows<'a>,
    pub operation: PgTriggerOperation,
    pub table: pg_sys::Oid,
    pub table_name: &'a str,
    pub is_partitioned: bool,
    /// Whether the trigger is that of the table as a whole, not of one of its partitions.
    pub is_whole: bool,
    /// Those of the SQL session.
    pub settings: &'a Effective,
}

impl Statement<'_> {
    /// Brings memory in line with what the statement did to the table of this attachment.
    pub fn follow(&self, attachment: Uuid) -> PgResult<()> {
        // Who waited for memory_attach to commit, or began before, has an older snapshot.
        let source =
            roles::as_owner(|| attachments::source(&Spi::read_latest()?, attachment, self.table))?;
        let Some(source) = source else {
            warn(
                format!(
                    "changes of \"{}\" are not taken into memory: it is not attached",
                    self.table_name
                ),
                "Attach it again with memory_attach, or drop its triggers memory_agent_*.",
            );
            return Ok(());
        };
        if let Some(problem) = source.problem() {
            warn(
                format!("changes of {} are not taken into memory: {problem}", source.table_name),
                "Attach it again with memory_attach, which also takes in what was missed.",
            );
            return Ok(());
        }
        match &self.operation {
            PgTriggerOperation::Truncate => {
                if self.is_whole {
                    forget_table(&source, self.settings)?;
                } else {
                    forget_partition(&source, self.settings)?;
                }
                // Rows that came since the snapshot go too, and are not seen here.
                if sees_one_snapshot() {
                    queue_comparison(&source, self.settings, Extent::Entries)
                } else {
                    Ok(())
                }
            }
            // The job reads the whole table.
            PgTriggerOperation::Insert
                if restores::is_this_session(&source.application_name, source.table_owner) =>
            {
                // Entries of these rows may be part of what is restored.
                let intake = Intake::of_writer(&source, Via::Insert)?;
                let restored =
                    |spi: &Spi| row_jobs(spi, &source, &intake.settings).restored(&intake.whose());
                roles::write_as_owner(restored)
            }
            _ => canonical(|| match source.definition.reading.condition {
                // It may fail, which is no reason for the statement to fail.
                Some(_) => attempt(&source.being_read(), || self.follow_rows(&source))
                    .or_else(|_| self.follow_in_table(&source)),
                None => self.follow_rows(&source),
            }),
        }
    }

    /// Follows what a statement wrote, by its transition tables, which are read as the role that ran it.
    fn follow_rows(&self, source: &Source) -> PgResult<()> {
        let spi = Spi::read_only()?;
        spi.see_rows(&self.told)?;
        let is_looked_up = self.may_differ_from_table(&spi, source)?;
        let mut rows =
            self.rows(source, if is_looked_up { key_of_readable(source)? } else { None })?;
        let max_bytes = self.settings.content.max_content_bytes as i32;
        match self.operation {
            PgTriggerOperation::Insert => {
                // The update of the same MERGE may have told these rows in the place of those that it moved.
                if TELLS_INSERTED_ROWS
                    && self.is_partitioned
                    && followed_rows::has_moved_rows(source.id)
                {
                    queue_comparison(source, self.settings, Extent::All)?;
                }
                source_rows::added(&spi, source, max_bytes, |batch| rows.written(batch))?;
            }
            PgTriggerOperation::Update => {
                let untold =
                    if TELLS_INSERTED_ROWS && self.is_partitioned && rows.table_key.is_none() {
                        self.untold(source, max_bytes)?
                    } else {
                        Vec::new()
                    };
                source_rows::gone(&spi, source, Gone::Rekeyed, |mut keys| {
                    keys.retain(|key| untold.iter().all(|row| row.key != *key));
                    rows.has_moved |= !keys.is_empty();
                    rows.gone(keys, REKEYED)
                })?;
                source_rows::changed(&spi, source, max_bytes, |batch| rows.written(batch))?;
                if !untold.is_empty() {
                    rows.written(untold)?;
                }
            }
            _ => source_rows::gone(&spi, source, Gone::Deleted, |keys| rows.gone(keys, DELETED))?,
        }
        rows.finish()
    }

    /// Follows what a statement wrote, by the keys alone: each row is looked up in the table.
    fn follow_in_table(&self, source: &Source) -> PgResult<()> {
        let Some(key) = key_of_readable(source)? else {
            return queue_comparison(source, self.settings, Extent::All);
        };
        let spi = Spi::read_only()?;
        spi.see_rows(&self.told)?;
        let mut rows = self.rows(source, Some(key))?;
        match self.operation {
            PgTriggerOperation::Delete => {
                source_rows::gone(&spi, source, Gone::Deleted, |keys| rows.gone(keys, DELETED))?;
            }
            PgTriggerOperation::Update => {
                source_rows::gone(&spi, source, Gone::Rekeyed, |keys| rows.gone(keys, REKEYED))?;
                source_rows::written_keys(&spi, source, |keys| rows.gone(keys, DELETED))?;
            }
            _ => source_rows::written_keys(&spi, source, |keys| rows.gone(keys, DELETED))?,
        }
        rows.finish()
    }

    fn rows<'a>(
        &'a self,
        source: &'a Source,
        table_key: Option<Vec<KeyColumn>>,
    ) -> PgResult<Rows<'a>> {
        let via = match self.operation {
            PgTriggerOperation::Insert => Via::Insert,
            _ => Via::Update,
        };
        Ok(Rows {
            source,
            intake: Intake::of_writer(source, via)?,
            table_key,
            settings: self.settings,
            is_any: false,
            has_moved: false,
        })
    }

    /// Whether the transition tables may tell another end than the table itself.
    fn may_differ_from_table(&self, spi: &Spi, source: &Source) -> PgResult<bool> {
        Ok(source.has_deferrable_key
            || followed_rows::is_overtaken(source.id)
            || source.is_cascaded
                && matches!(self.operation, PgTriggerOperation::Update)
                && source_rows::has_several_versions(spi, source)?)
    }

    /// The rows that an update of a partitioned table [changed](TELLS_INSERTED_ROWS) without telling their new
    /// versions, so that their keys seem to be gone.
    fn untold(&self, source: &Source, max_bytes: i32) -> PgResult<Vec<SourceRow>> {
        let Some(key) = key_of_readable(source)? else { return Ok(Vec::new()) };
        roles::as_table_owner(source.table_owner, || {
            by_index(|| {
                let spi = Spi::read_write()?;
                spi.see_rows(&self.told)?;
                source_rows::untold(&spi, source, &key, max_bytes)
            })
        })
    }
}

/// The key by which rows are looked up; `None` where the table's owner may not read them all.
fn key_of_readable(source: &Source) -> PgResult<Option<Vec<KeyColumn>>> {
    let is_readable = roles::as_table_owner(source.table_owner, || {
        source_rows::can_be_read(&Spi::read_only()?, source)
    })?;
    if !is_readable {
        return Ok(None);
    }
    roles::read_as_owner(|spi| tables::key(spi, source.table)).map(Some)
}

/// The rows that a statement touched, on their way to memory.
struct Rows<'a> {
    source: &'a Source,
    intake: Intake<'a>,
    /// The key by which rows are looked up in the table, where its transition tables may be out of date.
    table_key: Option<Vec<KeyColumn>>,
    settings: &'a Effective,
    is_any: bool,
    /// Whether an update took rows from their keys.
    has_moved: bool,
}

impl Rows<'_> {
    /// Rows that were inserted or changed.
    fn written(&mut self, rows: Vec<SourceRow>) -> PgResult<()> {
        self.is_any = true;
        match &self.table_key {
            None => self.intake.take(&rows),
            Some(key) => self.look_up(key, rows.into_iter().map(|row| row.key).collect(), DELETED),
        }
    }

    /// Keys that the statement took away; `reason` is told in history.
    fn gone(&mut self, keys: Vec<JsonbText>, reason: &str) -> PgResult<()> {
        self.is_any = true;
        match &self.table_key {
            None => end(self.source, keys, reason, self.settings),
            Some(key) => self.look_up(key, keys, reason),
        }
    }

    /// Brings memory in line with what the table has under these keys by now. The entry of one that is
    /// double is left as it is: whichever statement makes the key single touches it again.
    fn look_up(&self, key: &[KeyColumn], mut keys: Vec<JsonbText>, reason: &str) -> PgResult<()> {
        keys.sort_by(|one, other| one.0.cmp(&other.0));
        keys.dedup();
        let max_bytes = self.settings.content.max_content_bytes as i32;
        let found = roles::as_table_owner(self.source.table_owner, || {
            by_index(|| {
                source_rows::of_each(&Spi::read_write()?, self.source, key, &keys, max_bytes)
            })
        })?;
        let (mut gone, mut rows, mut double) = (Vec::new(), Vec::new(), Vec::new());
        for (key, of_key) in keys.into_iter().zip(found) {
            let mut of_key = of_key.into_iter();
            match (of_key.next(), of_key.next()) {
                (None, _) => gone.push(key),
                (Some(row), None) => rows.push(row),
                (Some(_), Some(_)) => double.push(key),
            }
        }
        end(self.source, gone, reason, self.settings)?;
        self.intake.take(&rows)?;
        let whose = self.intake.whose();
        // A row without a user is not remembered.
        if whose.of_nobody {
            return Ok(());
        }
        roles::write_as_owner(|spi| {
            row_jobs(spi, self.source, self.settings).written(&whose, false, &double)
        })
    }

    /// Queues what is left to do, once all rows are there.
    fn finish(self) -> PgResult<()> {
        if self.is_any {
            followed_rows::note_followed(self.source.id, self.has_moved);
        }
        self.intake.finish()
    }
}

/// A table that is emptied with all its partitions.
fn forget_table(source: &Source, settings: &Effective) -> PgResult<()> {
    roles::write_as_owner(|spi| {
        entries::for_all_keys(spi, &source.label, |keys| {
            end(source, keys, "its table was truncated", settings)
        })
    })
}

/// A partition that is emptied by itself: its rows are still there, and say which entries end.
fn forget_partition(source: &Source, settings: &Effective) -> PgResult<()> {
    let is_read = roles::as_table_owner(source.table_owner, || {
        // A snapshot of after the wait for the lock: it sees rows that came meanwhile.
        let spi = Spi::read_write()?;
        let is_readable = source_rows::can_be_read(&spi, source)?;
        if is_readable {
            source_rows::all_keys(&spi, source, |keys| {
                end(source, keys, "its partition was truncated", settings)
            })?;
        }
        Ok(is_readable)
    })?;
    if is_read { Ok(()) } else { queue_comparison(source, settings, Extent::Entries) }
}

/// Queues a job that brings the entries of the table in line with its rows.
fn queue_comparison(source: &Source, settings: &Effective, extent: Extent) -> PgResult<()> {
    let writer = roles::current_role_name();
    let agent = &source.definition.agent_id;
    roles::write_as_owner(|spi| {
        let attempts = settings.llm_limits.max_attempts;
        jobs::queue_intake(spi, source.id, &writer, agent, extent, attempts).map(drop)
    })
}

/// Ends the entries with these keys. Those that others touched since the snapshot of the transaction are
/// left to a job.
fn end(source: &Source, keys: Vec<JsonbText>, reason: &str, settings: &Effective) -> PgResult<()> {
    if keys.is_empty() {
        return Ok(());
    }
    let writer = roles::current_role_name();
    roles::write_as_owner(|spi| {
        let (keys, out_of_sight) = entries::in_sight(&source.label, keys, |key| key)?;
        entries::end_keys(spi, &source.label, &keys, reason)?;
        row_jobs(spi, source, settings).gone(&writer, &out_of_sight)
    })
}
