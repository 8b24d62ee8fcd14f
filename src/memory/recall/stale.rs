//! Stale sources in recall: a turn whose fact was replaced still finds what was asked, only its answer
//! is old. It never ranks before the fact that replaced it, and its metadata names that fact. A fact that is doubted, and
//! its turns, rank below what was said later.

use crate::memory::recall::pool::Pool;
use crate::memory::recall::request::Request;
use crate::pg::prelude::*;
use crate::settings::{PromptStaleSources, StaleSources};
use crate::store::facts::doubts;
use crate::store::facts::stale::{self, Replaced};
use std::collections::HashSet;

/// What becomes of stale turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// They rank below what replaced them.
    Demote,
    /// The same, but those of which nothing holds any more are left out.
    DemoteOrHide,
    Hide,
    Show,
}

impl From<StaleSources> for Treatment {
    fn from(setting: StaleSources) -> Self {
        match setting {
            StaleSources::Demote => Self::Demote,
            StaleSources::Hide => Self::Hide,
            StaleSources::Show => Self::Show,
        }
    }
}

impl From<PromptStaleSources> for Treatment {
    fn from(setting: PromptStaleSources) -> Self {
        match setting {
            PromptStaleSources::Mark => Self::DemoteOrHide,
            PromptStaleSources::Hide => Self::Hide,
            PromptStaleSources::Show => Self::Show,
        }
    }
}

/// Treats the turns in the pool that say what no longer holds. `echoes` are there for what replaced them alone.
pub fn settle(
    spi: &Spi,
    request: &Request,
    pool: &mut Pool,
    echoes: &HashSet<Uuid>,
) -> PgResult<()> {
    if request.stale == Treatment::Show {
        return Ok(());
    }
    let (mut hidden, mut demoted) = hidden_and_demoted(spi, request, &pool.ids(), echoes)?;
    if !hidden.is_empty() {
        // They leave their places to others, which may be stale as well.
        let others: Vec<Uuid> = pool.left_out.iter().map(|row| row.id).collect();
        let of_others = hidden_and_demoted(spi, request, &others, echoes)?;
        hidden.extend(of_others.0);
        demoted.extend(of_others.1);
        pool.hide(&hidden);
    }
    pool.demote(&demoted);
    let mut doubted = doubts::doubted(spi, &request.scope, &pool.ids())?;
    // What is known for certain counts.
    doubted.retain(|(row, _)| !demoted.iter().any(|(stale, _)| stale == row));
    pool.doubt(&doubted);
    Ok(())
}

/// The stale ones of these turns: those that are left out, and the others.
fn hidden_and_demoted(
    spi: &Spi,
    request: &Request,
    turns: &[Uuid],
    echoes: &HashSet<Uuid>,
) -> PgResult<(Vec<Replaced>, Vec<Replaced>)> {
    let pairs = stale::replaced(spi, &request.scope, turns)?;
    Ok(match request.stale {
        Treatment::Hide => (pairs, Vec::new()),
        Treatment::DemoteOrHide if !pairs.is_empty() => {
            let turns: Vec<Uuid> = pairs.iter().map(|(turn, _)| *turn).collect();
            let users = request.scope.caller.visible();
            let partly: HashSet<Uuid> =
                stale::still_true(spi, &users, &turns)?.into_iter().collect();
            let is_hidden = |turn: &Uuid| echoes.contains(turn) || !partly.contains(turn);
            pairs.into_iter().partition(|(turn, _)| is_hidden(turn))
        }
        _ => {
            // Below which row would these be? Who forgets a correction does not mean that what it corrected holds again.
            let alone: Vec<Uuid> =
                pairs.iter().filter(|(_, by)| by.is_none()).map(|(turn, _)| *turn).collect();
            let mut ended = stale::without_successor(spi, &request.scope, &alone)?;
            if !ended.is_empty() {
                let turns: Vec<Uuid> = ended.iter().copied().collect();
                let users = request.scope.caller.visible();
                for turn in stale::still_true(spi, &users, &turns)? {
                    ended.remove(&turn);
                }
            }
            let is_hidden = |turn: &Uuid| echoes.contains(turn) || ended.contains(turn);
            pairs.into_iter().partition(|(turn, _)| is_hidden(turn))
        }
    })
}

/// What the metadata of a row names that replaced what it says.
pub const SUPERSEDED_BY: &str = "superseded_by";
/// What it names that was said later, and perhaps instead of it.
pub const DOUBTED_BY: &str = "doubted_by";

/// What a row has in one of these pairs, if it is in one.
pub fn of_row(row: Uuid, pairs: &[Replaced]) -> Option<Option<Uuid>> {
    let mut found = pairs.iter().filter(|(stale, _)| *stale == row).peekable();
    found.peek().is_some().then(|| found.find_map(|(_, by)| *by))
}

/// The metadata of a row that also names, under this key, what the row has in one of these pairs; null for what the
/// recall may not tell.
pub fn labelled(metadata: JsonbText, key: &str, row: Uuid, pairs: &[Replaced]) -> JsonbText {
    let Some(by) = of_row(row, pairs) else { return metadata };
    let rest = metadata.0.trim_start().strip_prefix('{').unwrap_or("}");
    let comma = if rest.trim_start().starts_with('}') { "" } else { ", " };
    let by = by.map_or_else(|| "null".to_owned(), |by| format!("\"{by}\""));
    JsonbText(format!("{{\"{key}\": {by}{comma}{rest}"))
}
