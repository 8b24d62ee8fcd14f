//! Storing what a reflection came to, in one transaction: facts that are new, replaced or ended, the
//! episodes and turns they came from, history, and the trace. The holder of the job and of the locks of
//! the facts' scope applies; if the answer concerns facts that the LLM was not shown, or facts that
//! changed meanwhile, nothing is stored and the caller asks again.

use crate::jobs::prelude::*;
use crate::jobs::reflect::texts;
use crate::memory::facts::apply::Judged;
use crate::memory::facts::extracted_facts::{self, Fact};
use crate::memory::facts::neighborhood::Decision;
use crate::memory::facts::reconciler::{Reconciler, Target};
use crate::memory::facts::unverified::{self, Unverified};
use crate::memory::texts::language::Phrases;
use crate::store::facts::reflections::{self, EpisodeTurn, WaitingEpisode};
use crate::store::facts::{self as fact_store, Ending, NearFact};
use crate::store::queue::traces::{self, Effects};
use memory_agent_core::facts::reconcile;
use memory_agent_core::facts::reflect::{self, Plan};
use memory_agent_core::jobs::session_settings::ReflectionSettings;
use serde_json::{Value, json};

/// An answer and what follows from it. Known facts and turns are named by their index among those that
/// were sent.
pub struct Decided {
    /// The answer as the LLM gave it.
    pub answer: String,
    pub plan: Plan,
    /// The facts of the plan: first those of its updates, then those that it adds.
    pub facts: Vec<Fact>,
    /// Known facts that it states again.
    pub again: Vec<(usize, Fact)>,
    /// Facts that are kept without becoming memory, as the episode does not bear them out.
    pub unverified: Vec<Unverified>,
}

impl Decided {
    /// What follows from an answer about turns and known facts. A statement that they do not bear out
    /// replaces nothing.
    pub fn new(
        answer: String,
        mut plan: Plan,
        turns: &[EpisodeTurn],
        shown: &[NearFact],
        settings: &ReflectionSettings,
    ) -> Self {
        // Each names turns that were sent, so each becomes a fact.
        let language = Phrases::of(&settings.text_search_config);
        let of_episode = |fact: &reflect::Fact| {
            extracted_facts::of_episode(fact, turns, &language, settings.detect_markers)
        };
        let take_unverified = |facts: &mut Vec<Fact>| {
            unverified::of_episodes(facts, shown, turns, settings, &language)
        };
        let mut again = Vec::new();
        for repeated in &plan.again {
            let mut fact: Vec<Fact> = of_episode(&repeated.fact).into_iter().collect();
            take_unverified(&mut fact);
            again.extend(fact.pop().map(|fact| (repeated.existing, fact)));
        }
        let mut unverified = Vec::new();
        let mut facts = Vec::new();
        for update in std::mem::take(&mut plan.update) {
            let mut fact: Vec<Fact> = of_episode(&update.fact).into_iter().collect();
            unverified.extend(take_unverified(&mut fact));
            match fact.pop() {
                Some(fact) => {
                    facts.push(fact);
                    plan.update.push(update);
                }
                None => plan.keep.push(update.existing),
            }
        }
        let beside = |existing: usize| shown[existing].id;
        let added = |fact: &reflect::Fact| {
            Some(Fact { beside: fact.beside.map(beside), ..of_episode(fact)? })
        };
        let mut added: Vec<Fact> = plan.add.iter().filter_map(added).collect();
        unverified.extend(take_unverified(&mut added));
        facts.extend(added);
        Self { answer, plan, facts, again, unverified }
    }

    fn updates(&self) -> impl Iterator<Item = (usize, &Fact)> {
        self.plan.update.iter().map(|update| update.existing).zip(&self.facts)
    }

    fn additions(&self) -> &[Fact] {
        self.facts.get(self.plan.update.len()..).unwrap_or_default()
    }
}

/// What is being reflected on.
pub struct Reflection<'a> {
    pub target: &'a Target<'a>,
    pub episodes: &'a [WaitingEpisode],
    pub turns: &'a [EpisodeTurn],
    /// Whether the episodes have more turns than these.
    pub has_more: bool,
    /// The facts that the LLM was shown.
    pub shown: &'a [NearFact],
    /// How many facts the scope had, and the newest of them.
    pub known: &'a (i64, Value),
    /// How often the LLM was asked.
    pub rounds: u32,
    pub may_ask_again: bool,
    pub elapsed: Duration,
}

/// Stores the result, unless the LLM has to be asked again, with the facts in `Changed` among those that it is
/// shown; the job itself is the caller's to finish, in the same transaction. Locks in the
/// order of all writers of facts: session or lock of the global facts, job, episodes, turns, facts.
pub fn apply(
    spi: &Spi,
    work: &Reflection<'_>,
    decided: &Decided,
) -> PgResult<Applied<(), Vec<Uuid>>> {
    let job = work.target.job;
    let Some(mut writer) = Reconciler::lock(spi, work.target, &known(spi, work, decided)?)? else {
        return Ok(Applied::NoSession);
    };
    if !queue::lock(spi, job)? {
        return Ok(Applied::NotOurs);
    }
    let episodes: Vec<Uuid> = work.episodes.iter().map(|episode| episode.id).collect();
    let waiting = reflections::still_waiting(spi, &job.user_id, &episodes, true)?;
    let Some(last) = waiting.last() else {
        // They were erased, and what was said in them with them.
        return Ok(Applied::Stored(()));
    };
    let ids: Vec<Uuid> = work.turns.iter().map(|turn| turn.id).collect();
    let present = reflections::lock_turns(spi, &job.user_id, &ids)?;
    if work.may_ask_again
        && let Some(unseen) = changed(spi, &writer, work, decided)?
    {
        return Ok(Applied::Changed(unseen));
    }
    store(&mut writer, work, decided, &present)?;
    if work.has_more {
        reflections::mark_turns(spi, &job.user_id, &ids)?;
    } else {
        let reflected: Vec<Uuid> = waiting.iter().map(|episode| episode.id).collect();
        reflections::mark_reflected(spi, &job.user_id, &reflected)?;
    }
    let effects = Effects { saved: writer.facts.stored(), ended: writer.facts.ended() };
    traces::insert(spi, job, last.id, &trace(work, decided), &effects)?;
    writer.finish()?;
    Ok(Applied::Stored(()))
}

/// The facts that the LLM should have been shown, `None` if it saw all that matter and they still
/// hold. What was said is compared with facts before it is asked, but what it makes of that may be
/// nearer to others.
fn changed(
    spi: &Spi,
    writer: &Reconciler<'_>,
    work: &Reflection<'_>,
    decided: &Decided,
) -> PgResult<Option<Vec<Uuid>>> {
    let mut is_changed = false;
    let touched: Vec<Uuid> = touched(work, decided);
    if fact_store::count_holding(spi, &work.target.job.user_id, &touched)? != touched.len() as u64 {
        is_changed = true;
    }
    let mut unseen = Vec::new();
    for fact in &decided.facts {
        let (decision, neighbors) = writer.look(fact)?;
        if decision != Decision::Ask {
            continue;
        }
        for near in neighbors {
            let is_near = near.similarity >= work.target.thresholds.related && !near.unreconciled;
            let is_shown = work.shown.iter().any(|shown| near.is_as(shown));
            if is_near && !is_shown && !unseen.contains(&near.id) {
                unseen.push(near.id);
            }
        }
    }
    Ok((is_changed || !unseen.is_empty()).then_some(unseen))
}

/// The known facts that may be changed: those that the plan names, and those that its facts repeat.
fn known(spi: &Spi, work: &Reflection<'_>, decided: &Decided) -> PgResult<Vec<Uuid>> {
    let doubted = decided.plan.doubted.iter().map(|doubted| work.shown[doubted.existing].id);
    let again = decided.again.iter().map(|(existing, _)| work.shown[*existing].id);
    let mut known: Vec<Uuid> =
        touched(work, decided).into_iter().chain(doubted).chain(again).collect();
    if work.target.with_others {
        let comparison = work.target.comparison(spi);
        for fact in &decided.facts {
            if let (Decision::Same(same), _) = comparison.look(fact, &[])? {
                known.push(same);
            }
        }
    }
    Ok(known)
}

/// The known facts that the plan replaces or ends.
fn touched(work: &Reflection<'_>, decided: &Decided) -> Vec<Uuid> {
    let updated = decided.plan.update.iter().map(|update| update.existing);
    let removed = decided.plan.remove.iter().map(|removal| removal.existing);
    updated.chain(removed).map(|existing| work.shown[existing].id).collect()
}

/// Carries out the plan. What rests only on turns that were deleted meanwhile is dropped with them.
fn store(
    writer: &mut Reconciler<'_>,
    work: &Reflection<'_>,
    decided: &Decided,
    present: &[Uuid],
) -> PgResult<()> {
    let is_wanted = |fact: &Fact| fact.source_ids.iter().any(|source| present.contains(source));
    let touched = touched(work, decided);
    let mut plan = reconcile::Plan::default();
    for (index, (existing, fact)) in decided.updates().enumerate() {
        let known = &work.shown[existing];
        match writer.look_within(fact)? {
            // Another fact says it already.
            Decision::Same(other) if !touched.contains(&other) && is_wanted(fact) => {
                writer.said_again(other, fact)?;
                if fact.created_at >= known.said_last_at {
                    writer.replace(known, other, fact.created_at, Ending::Superseded, "updated")?;
                }
            }
            _ => plan.update.push(reconcile::Update {
                existing,
                text: fact.text.clone(),
                from: vec![index],
            }),
        }
    }
    let judged = Judged {
        measured: vec![extracted_facts::UNMEASURED; plan.update.len()],
        plan,
        new: (0..decided.facts.len()).collect(),
        existing: work.shown.to_vec(),
    };
    writer.follow(&decided.facts, &judged, &is_wanted)?;
    for removal in &decided.plan.remove {
        let against = said_against(work, removal, present).into_iter();
        if let Some(turn) = against.max_by_key(|turn| turn.created_at.into_inner()) {
            writer.remove(work.shown[removal.existing].id, turn.id, turn.created_at)?;
        }
    }
    for doubted in &decided.plan.doubted {
        let against = said_against(work, doubted, present).into_iter();
        if let Some(turn) = against.max_by_key(|turn| turn.created_at.into_inner()) {
            writer.facts.doubt(work.shown[doubted.existing].id, turn.id)?;
        }
    }
    for (existing, fact) in decided.again.iter().filter(|(_, fact)| is_wanted(fact)) {
        writer.said_again(work.shown[*existing].id, fact)?;
    }
    for fact in decided.additions().iter().filter(|fact| is_wanted(fact)) {
        writer.add_or_join(fact, false)?;
    }
    for unverified in decided.unverified.iter().filter(|unverified| is_wanted(&unverified.fact)) {
        writer.keep_unverified(unverified)?;
    }
    Ok(())
}

/// The turns for which a fact is to end. What was said before it does not speak against it.
fn said_against<'a>(
    work: &Reflection<'a>,
    removal: &reflect::Removal,
    present: &[Uuid],
) -> Vec<&'a EpisodeTurn> {
    let since = work.shown[removal.existing].said_last_at;
    let turns = removal.turns.iter().filter_map(|&turn| work.turns.get(turn));
    turns.filter(|turn| present.contains(&turn.id) && turn.created_at >= since).collect()
}

/// What the trace says beside the facts that were stored and ended. Turns are named, not repeated:
/// they are never changed.
fn trace(work: &Reflection<'_>, decided: &Decided) -> Value {
    let turns: Vec<Value> = (work.turns.iter())
        .map(
            |turn| json!({ "id": turn.id.to_string(), "role": turn.role, "markers": turn.markers }),
        )
        .collect();
    let shown: Vec<Value> = (work.shown.iter())
        .map(|near| {
            json!({
                "id": near.id.to_string(), "content": near.content,
                "similarity": (near.similarity * 1e4).round() / 1e4,
            })
        })
        .collect();
    let (count, newest) = work.known;
    json!({
        "mode": if shown.is_empty() { "reflect" } else { "consolidate" },
        "episodes": texts(work.episodes.iter().map(|episode| episode.id)),
        "input_turn_count": turns.len(),
        "input_turns": turns,
        "prior_fact_count": count,
        "prior_facts": newest,
        "scoped_facts": shown,
        "raw_output": decided.answer,
        "actions": actions(work, decided),
        "dropped": decided.plan.dropped,
        "rounds": work.rounds,
        "elapsed_ms": u64::try_from(work.elapsed.as_millis()).unwrap_or(u64::MAX),
    })
}

/// The plan as a list of actions, with the facts' ids.
fn actions(work: &Reflection<'_>, decided: &Decided) -> Vec<Value> {
    let id = |existing: usize| work.shown[existing].id.to_string();
    let turns = |turns: &[usize]| {
        texts(turns.iter().filter_map(|&turn| work.turns.get(turn)).map(|turn| turn.id))
    };
    let mut actions = Vec::new();
    for &existing in &decided.plan.keep {
        let doubted = decided.plan.doubted.iter().find(|doubted| doubted.existing == existing);
        actions.push(match doubted {
            Some(doubted) => json!({
                "action": "keep", "id": id(existing), "doubted": "remove",
                "turns": turns(&doubted.turns),
            }),
            None => json!({ "action": "keep", "id": id(existing) }),
        });
    }
    for (existing, fact) in decided.updates() {
        actions.push(with_fact(json!({ "action": "update", "id": id(existing) }), fact));
    }
    for removal in &decided.plan.remove {
        let (id, turns) = (id(removal.existing), turns(&removal.turns));
        actions.push(json!({ "action": "remove", "id": id, "turns": turns }));
    }
    for fact in decided.additions() {
        actions.push(with_fact(json!({ "action": "add" }), fact));
    }
    for Unverified { fact, reason } in &decided.unverified {
        actions.push(with_fact(json!({ "action": "unverified", "reason": reason }), fact));
    }
    actions
}

fn with_fact(mut action: Value, fact: &Fact) -> Value {
    action["text"] = json!(fact.text);
    action["markers"] = json!(fact.markers);
    action["confidence"] = json!(fact.confidence);
    action["turns"] = json!(texts(fact.source_ids.iter().copied()));
    if let Some(known) = fact.beside {
        action["doubts"] = json!(known.to_string());
    }
    if !fact.replaces.is_empty() {
        action["replaces"] = json!(texts(fact.replaces.iter().copied()));
    }
    action
}
