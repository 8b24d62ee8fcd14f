//! The summary that `memory_reserve_tokens` waits for when it was asked to: of the turns that are to
//! leave the window with nothing that stands for them. Nothing is locked while the LLM is asked.

use crate::memory::llm::Llm;
use crate::memory::prelude::*;
use crate::memory::summaries::awaited_summary::Condenser;
use crate::memory::summaries::summary_renewal;
use crate::memory::summaries::summary_tree::{
    self, Answers, Behind, Division, Material, Next, Question,
};
use crate::memory::summaries::window_plan::{ExactCounts, plan_for};
use crate::pg::error::warn;
use crate::settings::Effective;
use crate::store::changes::erasures::Erasures;
use crate::store::summaries;
use crate::store::summaries::window::CountedTurn;
use memory_agent_core::condense::chunk::Limits;
use memory_agent_core::condense::levels;
use memory_agent_core::condense::summarize::ContentType;

/// The summary has at most this part of the budget, as in `memory_context`.
const SUMMARY_SHARE: u32 = 4;
/// What `session_summaries.method` says of a summary that was made for a window.
const METHOD: &str = "window";

/// Summarises the turns that have to leave the window for the budget and that no summary covers, if
/// there are any. When the LLM fails, a WARNING says so, and nothing is changed.
pub fn summarize(
    caller: &Caller,
    key: &SessionKey,
    budget: u32,
    counts: &ExactCounts,
    settings: &Effective,
) -> PgResult<()> {
    let erasures = roles::as_owner(|| Erasures::known(&caller.user_id))?;
    let llm = Llm::configured(&erasures, &key.agent_id, &settings.llm_limits)?.of_summaries();
    let room = budget / SUMMARY_SHARE;
    let read = || material(key, budget, room, counts);
    let Some(material) = roles::as_owner(read)? else { return Ok(()) };
    let condenser = Condenser { llm: &llm, user_id: &caller.user_id, purpose: "summarize" };
    let tree = match condense(&condenser, &material, room, settings.summary.chunks())? {
        Ok(tree) => tree,
        Err(error) => {
            warn(
                format!("the turns leave the window without a summary: {}", error.message()),
                "They stay in recall, and are summarised in the background when the LLM is back.",
            );
            return Ok(());
        }
    };
    roles::write_as_owner(|spi| {
        // A transaction that changed the session meanwhile may have summarised it too.
        if sessions::lock_existing(spi, key)?.is_some() {
            summary_renewal::renew(spi, key, &material, &tree, METHOD)?;
        }
        Ok(())
    })
}

/// The turns to be summarised with the summary so far; `None` when there are none, or no room for a
/// summary.
fn material(
    key: &SessionKey,
    budget: u32,
    room: u32,
    counts: &ExactCounts,
) -> PgResult<Option<Material>> {
    let spi = Spi::read_write()?;
    let Some(subject) = summaries::subject(&spi, key)? else { return Ok(None) };
    let current = summaries::current(&spi, key)?;
    let turns = counts.turns(&spi, key)?;
    let now = plan_for(&turns, current.as_ref().map(|current| current.tokens), budget);
    if now.dropped == 0 || room < levels::MIN_TARGET {
        return Ok(None);
    }
    let leaving: Vec<&CountedTurn> =
        turns.iter().take(plan_for(&turns, Some(room), budget).leaving()).collect();
    let mut sources = summaries::uncovered(&spi, key, u64::MAX)?.turns;
    // Older ones that left before belong to it too.
    let is_leaving = |id| leaving.iter().any(|turn| turn.id == id);
    let Some(last) = sources.iter().rposition(|source| is_leaving(source.id)) else {
        return Ok(None);
    };
    sources.truncate(last + 1);
    Ok(Some(Material {
        content_type: ContentType::of(&subject.content_type).unwrap_or_default(),
        current,
        sources,
        are_facts: false,
        with_sections: false,
        last_sections: None,
        behind: Behind::default(),
    }))
}

/// Asks one question after the other; the whole gets at most `room` tokens.
fn condense(
    condenser: &Condenser<'_>,
    material: &Material,
    room: u32,
    chunks: Limits,
) -> PgResult<Result<summary_tree::Tree, ErrorReport>> {
    let division = match Division::of(material, chunks) {
        Ok(division) => division,
        Err(failure) => return Ok(Err(failure.into())),
    };
    let mut answers = Answers::new();
    loop {
        let question: Question = match material.next(&division, &answers) {
            Next::Done(tree) => return Ok(Ok(*tree)),
            Next::Ask(question) => *question,
        };
        let target = if question.is_part {
            question.target_tokens
        } else {
            question.target_tokens.min(room)
        };
        // A part may be a fifth longer, as in the background.
        let most = if question.is_part { target.saturating_mul(6) / 5 } else { room };
        match condenser.answer(question.messages, target, most)? {
            Ok(condensed) => drop(answers.insert(question.digest, condensed)),
            Err(error) => return Ok(Err(error)),
        }
    }
}
