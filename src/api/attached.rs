//! The trigger function of attached tables: its arguments, and which statement it was called for.

use crate::api::prelude::*;
use crate::memory::ingest::attached_statement::Statement;
use crate::pg::trigger_rows::{self, TriggerRows};
use crate::settings::Effective;
use crate::store::attach::attached_tables::Place;
use crate::store::queue;
use pgrx::heap_tuple::PgHeapTuple;
use pgrx::pgbox::AllocatedByPostgres;

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

fn follow(trigger: &PgTrigger<'_>) -> PgResult<()> {
    let arguments = trigger.extra_args().map_err(misused)?;
    let (Some(id), Some(place)) = (arguments.first(), arguments.get(1)) else {
        return Err(by_hand());
    };
    // ALTER TABLE ENABLE TRIGGER ALL makes it a trigger like any other, beside those on statements.
    if matches!(trigger.level(), PgTriggerLevel::Row) && !trigger_rows::is_replica() {
        return Ok(());
    }
    let settings = Effective::current();
    let relation = trigger.relation().map_err(misused)?;
    let statement = Statement {
        told: TriggerRows::of(trigger),
        operation: trigger.op().map_err(misused)?,
        table: relation.oid(),
        table_name: relation.name(),
        is_partitioned: relation.is_partitioned_table(),
        is_whole: place == Place::Whole.as_str(),
        settings: &settings,
    };
    statement.follow(queue::uuid(id).ok_or_else(by_hand)?)
}

fn by_hand() -> ErrorReport {
    Error::unsupported(
        "a trigger of memory_agent.attached_rows() was not made by memory_attach",
        "Drop it, and attach the table with memory_attach.",
    )
}

fn misused(error: PgTriggerError) -> ErrorReport {
    Error::internal(format!("the trigger cannot be read: {error}"))
}
