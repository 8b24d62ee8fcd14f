//! The rows of `memory_status()` about attached tables: which of them are followed, and what keeps
//! changes of the others from being noticed.

use crate::identity::grants::Level;
use crate::memory::prelude::*;
use crate::memory::status::{StatusRow, row};
use crate::store::attach::attached_tables as tables;
use crate::store::attach::attachments::{self, Listed};

/// Tables without triggers that are named.
const NAMED: usize = 5;

/// One row for each attached table. Only administrators are told names of tables.
pub fn rows(spi: &Spi, level: Level) -> PgResult<Vec<StatusRow>> {
    let mut rows = Vec::new();
    for listed in attachments::all(spi)? {
        let (state, detail, hint) = describe(spi, &listed)?;
        let detail = match level {
            Level::Admin if detail.is_empty() => listed.label.clone(),
            Level::Admin => format!("{}: {detail}", listed.label),
            _ => String::new(),
        };
        rows.push(row("attached table", state, detail, hint));
    }
    Ok(rows)
}

fn describe(spi: &Spi, listed: &Listed) -> PgResult<(&'static str, String, Option<&'static str>)> {
    let source = match listed.table {
        Some(table) => attachments::source(spi, listed.id, table)?,
        None => None,
    };
    let Some(source) = source else {
        let detail =
            "no table has its triggers; the entries of its rows are still there".to_owned();
        let hint =
            "memory_detach with its name ends the attachment; forget => true ends the entries too.";
        return Ok(("gone", detail, Some(hint)));
    };
    if let Some(problem) = source.problem() {
        let hint =
            "Changes are not taken in. Run memory_attach again with the columns that there are.";
        return Ok(("broken", problem, Some(hint)));
    }
    let without = tables::without_triggers(spi, source.table, listed.id)?;
    if !without.is_empty() {
        let more = without.len().saturating_sub(NAMED);
        let named = without.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let detail = format!("statements on {named}{more} are not noticed");
        let hint =
            "Run memory_attach again: it makes missing triggers and takes in what was missed.";
        return Ok(("incomplete", detail, Some(hint)));
    }
    let renamed = if source.table_name == listed.label {
        String::new()
    } else {
        format!("its name is {} now", source.table_name)
    };
    Ok(("attached", renamed, None))
}
