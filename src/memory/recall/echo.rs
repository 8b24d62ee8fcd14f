//! What a prompt has no use for: what stands in the request that it is made for, and turns that say the same as a
//! newer one. It is left out before rows are chosen for reranking, so that others take its places.

use crate::memory::recall::pool::{fuse_pool, union_of_best};
use crate::memory::recall::request::Request;
use crate::memory::recall::stale::Treatment;
use crate::pg::prelude::*;
use crate::store::rows::scope::Layer;
use crate::store::search::Found;
use crate::store::{facts::stale, rows::entries};
use memory_agent_core::prompt::echo::normalized;
use memory_agent_core::rank::pipeline::RankSettings;
use memory_agent_core::words;
use std::collections::{HashMap, HashSet};

words! {
    /// Why a memory is not told.
    pub enum Why {
        /// It stands in the request.
        Echo = "echo",
        /// Another memory, or a turn of the window, says the same.
        Repeated = "repeated",
        /// It has no room.
        Budget = "budget",
        /// It has next to nothing to do with the message.
        Gate = "gate",
    }
}

/// A memory that is not told.
#[derive(Clone, Copy)]
pub struct Untold {
    pub id: Uuid,
    pub layer: Layer,
    pub why: Why,
}

/// What was left out.
#[derive(Default)]
pub struct Echoes {
    /// Of the rows that would have been reranked.
    pub untold: Vec<Untold>,
    /// Turns that stay, hidden, for what replaced them.
    pub hidden: HashSet<Uuid>,
    /// The texts that were read.
    texts: HashMap<Uuid, String>,
}

impl Echoes {
    /// How many of these rows say the same as another one of them.
    pub fn repeated(&self, ids: &[Uuid]) -> usize {
        let texts: Vec<&String> = ids.iter().filter_map(|id| self.texts.get(id)).collect();
        texts.len() - texts.iter().collect::<HashSet<_>>().len()
    }
}

/// Takes such rows out of what was found: among the best rows of each arm and layer there are none afterwards.
pub fn leave_out(
    spi: &Spi,
    request: &Request,
    found: &mut Found,
    settings: &RankSettings,
) -> PgResult<Echoes> {
    let mut echoes = Echoes::default();
    let Some(said) = &request.said else { return Ok(echoes) };
    let users = request.scope.caller.visible();
    let per_arm = request.candidates_per_arm;
    let chosen = fuse_pool(found, per_arm, &[], settings).members;
    let mut left_out: HashMap<Uuid, Why> = HashMap::new();
    let mut newest: HashMap<String, (TimestampWithTimeZone, Uuid)> = HashMap::new();
    let mut depth = per_arm;
    loop {
        let rows = union_of_best(found, depth, &HashSet::new());
        let is_new = |id: &Uuid| !echoes.texts.contains_key(id);
        let ids: Vec<Uuid> = rows.iter().map(|row| row.id).filter(is_new).collect();
        let mut out = Vec::new();
        for text in entries::texts(spi, &users, &ids)? {
            let content = normalized(&text.content);
            if said.holds(&text.kind, &content) {
                out.push((text.id, Why::Echo));
            } else if text.kind == "turn" {
                let this = (text.created_at, text.id);
                let known = newest.entry(content.clone()).or_insert(this);
                let older = if known.0 < this.0 { std::mem::replace(known, this) } else { this };
                if older.1 != known.1 {
                    out.push((older.1, Why::Repeated));
                }
            }
            echoes.texts.insert(text.id, content);
        }
        if out.is_empty() {
            break;
        }
        if request.stale != Treatment::Show {
            let turns: Vec<Uuid> = out.iter().map(|(id, _)| *id).collect();
            let replaced = stale::replaced(spi, &request.scope, &turns)?;
            let known = replaced.into_iter().filter(|(_, by)| by.is_some());
            echoes.hidden.extend(known.map(|(turn, _)| turn));
        }
        left_out.extend(out);
        let (hidden, left_out) = (&echoes.hidden, &left_out);
        found.rows.retain(|row| hidden.contains(&row.id) || !left_out.contains_key(&row.id));
        // Rows of a long conversation are mostly echoes.
        depth = depth.saturating_mul(2);
    }
    echoes.untold = chosen
        .iter()
        .filter_map(|row| {
            Some(Untold { id: row.id, layer: row.layer?, why: *left_out.get(&row.id)? })
        })
        .collect();
    Ok(echoes)
}
