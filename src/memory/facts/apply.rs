//! Storing what an extraction came to, in one transaction: new facts, ended ones, the turns they came
//! from, and history. The holder of the job and of the locks of the facts' scope applies;
//! if the facts changed since they were compared, nothing is stored and the caller compares again.

use crate::memory::facts::extracted_facts::{Fact, Measured};
use crate::memory::facts::neighborhood::Decision;
use crate::memory::facts::reconciler::{Reconciler, Target};
use crate::memory::facts::unverified::Unverified;
use crate::pg::prelude::*;
use crate::store::facts::NearFact;
use crate::store::facts::extraction::{self, WaitingTurn};
use crate::store::queue::traces::Effects;
use crate::store::queue::{self, Applied};
use memory_agent_core::facts::reconcile::Plan;

/// What is to be stored.
pub struct Work<'a> {
    pub target: Target<'a>,
    pub turns: &'a [WaitingTurn],
    pub facts: &'a [Fact],
    /// One per fact, taken before the locks.
    pub decisions: &'a [Decision],
    /// Facts that are kept without becoming memory.
    pub unverified: &'a [Unverified],
}

/// An LLM's judgement over the facts whose decision was to ask.
pub struct Judged {
    pub plan: Plan,
    /// The facts it judged, as indexes into the work's facts.
    pub new: Vec<usize>,
    /// The known facts it compared them with.
    pub existing: Vec<NearFact>,
    /// Of each update of the plan, what is known of its text.
    pub measured: Vec<Measured>,
}

/// What happens to facts that an LLM was to compare.
#[derive(Clone, Copy)]
pub enum Judgement<'a> {
    /// As it judged; `None` when there was nothing to ask.
    Decided { judged: Option<&'a Judged>, may_compare_again: bool },
    /// It failed to: they are added, and marked for the next job.
    Unreconciled,
}

/// The known facts that may be changed.
fn known(work: &Work<'_>, judgement: Judgement<'_>) -> Vec<Uuid> {
    let same = work.decisions.iter().filter_map(|decision| match decision {
        Decision::Same(known) => Some(*known),
        _ => None,
    });
    let judged = match judgement {
        Judgement::Decided { judged: Some(judged), .. } => judged.existing.as_slice(),
        _ => &[],
    };
    same.chain(judged.iter().map(|near| near.id)).collect()
}

/// Stores the work; the job itself is the caller's to finish, in the same transaction. Locks in the
/// order of all writers of facts: session or lock of the global facts, job, turns, facts.
pub fn apply(spi: &Spi, work: &Work<'_>, judgement: Judgement<'_>) -> PgResult<Applied<Effects>> {
    let job = work.target.job;
    let Some(mut writer) = Reconciler::lock(spi, &work.target, &known(work, judgement))? else {
        return Ok(Applied::NoSession);
    };
    if !queue::lock(spi, job)? {
        return Ok(Applied::NotOurs);
    }
    let ids: Vec<Uuid> = work.turns.iter().map(|turn| turn.id).collect();
    let waiting = extraction::still_waiting(spi, &job.user_id, &ids, true)?;
    // A fact whose turn was erased or forgotten meanwhile is dropped with it.
    let is_wanted = |fact: &Fact| match fact.stored_as {
        Some(_) => true,
        None => fact.source_ids.iter().any(|source| waiting.iter().any(|turn| turn.id == *source)),
    };
    if let Judgement::Decided { judged, may_compare_again: true } = judgement
        && writer.has_changed(work, judged)?
    {
        return Ok(Applied::Changed(()));
    }
    for (index, fact) in work.facts.iter().enumerate().filter(|(_, fact)| is_wanted(fact)) {
        match work.decisions.get(index) {
            Some(Decision::Ask) => {}
            _ => writer.add_or_join(fact, false)?,
        }
    }
    match judgement {
        Judgement::Decided { judged: Some(judged), .. } => {
            writer.follow(work.facts, judged, &is_wanted)?
        }
        Judgement::Decided { judged: None, .. } => {}
        Judgement::Unreconciled => {
            for (index, fact) in work.facts.iter().enumerate().filter(|(_, fact)| is_wanted(fact)) {
                if work.decisions.get(index) == Some(&Decision::Ask) && fact.stored_as.is_none() {
                    writer.add_or_join(fact, true)?;
                }
            }
        }
    }
    for unverified in work.unverified.iter().filter(|unverified| is_wanted(&unverified.fact)) {
        writer.keep_unverified(unverified)?;
    }
    writer.finish()?;
    let (saved, ended) = (writer.facts.stored().to_vec(), writer.facts.ended().to_vec());
    Ok(Applied::Stored(Effects { saved, ended }))
}
