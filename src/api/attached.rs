//! The trigger function of attached tables. It reads what a statement changed as whoever ran it, for a
//! column's type may bring code of its own along, and writes as the extension's owner. It asks nobody:
//! neither the models (unless the attachment says `embed => 'sync'`) nor the worker have to run.

use crate::api::intake::{Intake, Via, warn};
use crate::canonical::canonical;
use crate::error::{Error, PgResult};
use crate::guc;
use crate::identity;
use crate::sql_types::JsonbText;
use crate::store::attached_entries::{self as entries, Extent};
use crate::store::attached_tables::Place;
use crate::store::attachments::{self, Source};
use crate::store::queue;
use crate::store::source_rows::{self, Gone};
use crate::store::spi::{Session as Spi, sees_one_snapshot};
use pgrx::heap_tuple::PgHeapTuple;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::pgbox::AllocatedByPostgres;
use pgrx::prelude::*;

#[pg_trigger(sql = false)]
fn attached_rows<'a>(
    trigger: &'a PgTrigger<'a>,
) -> Result<Option<PgHeapTuple<'a, AllocatedByPostgres>>, ErrorReport> {
    if let Err(error) = follow(trigger) {
        // Raised here, for the macro would make an internal error of it.
        error.report(PgLogLevel::ERROR);
    }
    Ok(None)
}

/// Brings memory in line with what a statement did.
fn follow(trigger: &PgTrigger<'_>) -> PgResult<()> {
    let arguments = trigger.extra_args().map_err(misused)?;
    let (Some(id), Some(place)) = (arguments.first(), arguments.get(1)) else {
        return Err(by_hand().into());
    };
    let id = queue::uuid(id).ok_or_else(by_hand)?;
    let is_whole = place == Place::Whole.as_str();
    let relation = trigger.relation().map_err(misused)?;
    let source =
        identity::as_owner(|| attachments::source(&Spi::read_only()?, id, relation.oid()))?;
    let Some(source) = source else {
        warn(
            format!(
                "changes of \"{}\" are not taken into memory: it is not attached",
                relation.name()
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
    match trigger.op().map_err(misused)? {
        PgTriggerOperation::Truncate => {
            let writer = identity::current_role_name();
            if is_whole {
                forget_table(&source)?;
            } else {
                forget_partition(&source)?;
            }
            if sees_one_snapshot() {
                // Rows that came since the snapshot go too, and are not seen here.
                let agent = &source.definition.agent_id;
                identity::as_owner(|| {
                    let spi = Spi::read_write()?;
                    entries::queue_intake(&spi, source.id, &writer, agent, Extent::Entries)
                })?;
            }
            Ok(())
        }
        operation => canonical(|| follow_rows(trigger, &source, operation)),
    }
}

/// Reads the transition tables of a statement, as whoever ran it.
fn follow_rows(
    trigger: &PgTrigger<'_>,
    source: &Source,
    operation: PgTriggerOperation,
) -> PgResult<()> {
    let spi = Spi::read_only()?;
    spi.see_transition_tables(trigger)?;
    let max_bytes = guc::max_content_bytes();
    match operation {
        PgTriggerOperation::Insert => {
            let intake = Intake::of_writer(source, Via::Insert);
            source_rows::added(&spi, source, max_bytes, |rows| intake.take(&rows))?;
            intake.finish()
        }
        PgTriggerOperation::Update => {
            source_rows::gone(&spi, source, Gone::Rekeyed, |keys| {
                end(source, &keys, "the key of its row was changed")
            })?;
            let intake = Intake::of_writer(source, Via::Update);
            source_rows::changed(&spi, source, max_bytes, |rows| intake.take(&rows))?;
            intake.finish()
        }
        _ => source_rows::gone(&spi, source, Gone::Deleted, |keys| {
            end(source, &keys, "its row was deleted")
        }),
    }
}

/// A table that is emptied with all its partitions.
fn forget_table(source: &Source) -> PgResult<()> {
    identity::as_owner(|| {
        entries::end_all(&Spi::read_write()?, &source.label, "its table was truncated")?;
        Ok(())
    })
}

/// A partition that is emptied by itself: its rows are still there, and say which entries end.
fn forget_partition(source: &Source) -> PgResult<()> {
    identity::as_table_owner(source.table_owner, || {
        // A snapshot of after the wait for the lock: it sees rows that came meanwhile.
        source_rows::all_keys(&Spi::read_write()?, source, |keys| {
            end(source, &keys, "its partition was truncated")
        })
    })
}

fn end(source: &Source, keys: &[JsonbText], reason: &str) -> PgResult<()> {
    let writer = identity::current_role_name();
    identity::as_owner(|| {
        let spi = Spi::read_write()?;
        let ended = entries::end_keys(&spi, &source.label, keys, reason)?;
        if sees_one_snapshot() && ended < keys.len() as u64 {
            // The worker may have stored an entry since the snapshot.
            entries::queue_keys(&spi, source, &writer, &keys.iter().collect::<Vec<_>>())?;
        }
        Ok(())
    })
}

fn by_hand() -> Error {
    Error::unsupported(
        "a trigger of memory_agent.attached_rows() was not made by memory_attach",
        "Drop it, and attach the table with memory_attach.",
    )
}

fn misused(error: PgTriggerError) -> ErrorReport {
    Error::internal(format!("the trigger cannot be read: {error}")).into()
}
