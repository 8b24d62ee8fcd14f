//! Stale sources in recall: a turn whose fact was replaced still finds what was asked, only its answer
//! is old. It never ranks before the fact that replaced it, and its metadata names that fact.

use crate::memory::recall::pool::Pool;
use crate::memory::recall::request::Request;
use crate::pg::error::PgResult;
use crate::pg::spi::Session as Spi;
use crate::pg::sql_types::JsonbText;
use crate::settings::guc::{self, StaleSources};
use crate::store::stale;
use pgrx::datum::Uuid;

/// What becomes of turns in the pool that say what no longer holds.
pub fn settle(spi: &Spi, request: &Request, pool: &mut Pool) -> PgResult<()> {
    let mode = guc::stale_sources();
    if mode == StaleSources::Show {
        return Ok(());
    }
    let pairs = stale::replaced(spi, &request.scope, &pool.ids)?;
    match mode {
        StaleSources::Hide => pool.hide(&pairs),
        _ => pool.demote(&pairs),
    }
    Ok(())
}

/// Metadata that also says which fact replaced what a stale turn says.
pub fn with_superseded_by(metadata: JsonbText, by: Uuid) -> JsonbText {
    let rest = metadata.0.trim_start().strip_prefix('{').unwrap_or("}");
    let comma = if rest.trim_start().starts_with('}') { "" } else { ", " };
    JsonbText(format!("{{\"superseded_by\": \"{by}\"{comma}{rest}"))
}
