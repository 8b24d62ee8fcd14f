//! How the window of a session comes to fit into a budget.

use crate::memory::context::tokens::TokenCounter;
use crate::memory::prelude::*;
use crate::settings::Prompts;
use crate::store::summaries::window::{self, CountedTurn};
use memory_agent_core::prompt::MESSAGE_OVERHEAD_TOKENS;
use memory_agent_core::prompt::window::{Plan, Turn, plan};
use std::collections::HashMap;

/// Tokens of the turns that were stored while they could not be counted: a window may not be over budget by
/// an estimate. They are counted before anything is locked.
pub struct ExactCounts(HashMap<Uuid, u32>);

impl ExactCounts {
    /// Counts what is only estimated.
    pub fn of(key: &SessionKey, settings: &Prompts) -> PgResult<Self> {
        let estimated = roles::read_as_owner(|spi| window::estimated(spi, key))?;
        let (ids, texts): (Vec<Uuid>, Vec<String>) = estimated.into_iter().unzip();
        let counts = TokenCounter::new(settings).count(texts);
        let natural = |count: i64| u32::try_from(count).unwrap_or(u32::MAX);
        Ok(Self(ids.into_iter().zip(counts.into_iter().map(natural)).collect()))
    }

    /// The turns of the window as they count.
    pub fn turns(&self, spi: &Spi, key: &SessionKey) -> PgResult<Vec<CountedTurn>> {
        let mut turns = window::turns(spi, key)?;
        for turn in &mut turns {
            turn.tokens = self.0.get(&turn.id).copied().unwrap_or(turn.tokens);
        }
        Ok(turns)
    }
}

/// How the window comes to fit.
pub fn plan_for(turns: &[CountedTurn], summary_tokens: Option<u32>, budget: u32) -> Plan {
    let turns: Vec<Turn> =
        turns.iter().map(|turn| Turn { tokens: turn.tokens, covered: turn.covered }).collect();
    plan(&turns, summary_tokens, MESSAGE_OVERHEAD_TOKENS, budget)
}
