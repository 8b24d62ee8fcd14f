//! Does to the facts of one scope what a comparison with the known ones decided, while it is locked.

use crate::memory::facts::apply::{Judged, Work};
use crate::memory::facts::extracted_facts::{Fact, later};
use crate::memory::facts::fact_writer::{Actor, FactWriter};
use crate::memory::facts::neighborhood::{Comparison, Decision};
use crate::memory::facts::unverified::Unverified;
use crate::memory::prelude::*;
use crate::memory::texts::secrets;
use crate::settings::Effective;
use crate::store::facts::{self as store, Ending, NearFact};
use crate::store::queue::Job;
use crate::store::rows::entries::{self, NewEntry, Standing};
use crate::store::rows::lexemes::Lexemes;
use memory_agent_core::facts::gate::GateThresholds;
use memory_agent_core::text::secrets::{Counts, REDACTED};
use std::borrow::Cow;

/// Whose facts are written, for which job, and what they are compared by.
pub struct Target<'a> {
    pub job: &'a Job,
    pub scope: FactScope<'a>,
    /// Whether its facts are compared with what other sessions know too.
    pub with_others: bool,
    pub model: Option<&'a ModelRef>,
    pub thresholds: GateThresholds,
    /// By which words are indexed and looked for.
    pub configuration: String,
    /// Those of the scope, for what is queued.
    pub settings: Effective,
}

impl Target<'_> {
    /// What its facts are compared by.
    pub fn comparison<'a>(&'a self, spi: &'a Spi) -> Comparison<'a> {
        Comparison {
            spi,
            scope: self.scope,
            with_others: self.with_others,
            model: self.model,
            thresholds: self.thresholds,
            configuration: &self.configuration,
        }
    }
}

/// Compares and writes facts of one scope while it is locked.
pub struct Reconciler<'a> {
    spi: &'a Spi,
    target: &'a Target<'a>,
    comparison: Comparison<'a>,
    pub facts: FactWriter<'a>,
}

impl<'a> Reconciler<'a> {
    /// Locks the scope, and what else is concerned by known facts that may be changed; `None` when the scope's
    /// session is not there.
    pub fn lock(spi: &'a Spi, target: &'a Target<'a>, known: &[Uuid]) -> PgResult<Option<Self>> {
        let Target { job, scope, settings, .. } = target;
        let actor = Actor { job: Some(job.id), duplicate: target.thresholds.duplicate };
        let others = target.with_others.then_some(known);
        let Some(facts) = FactWriter::lock_existing(spi, *scope, others, actor, settings)? else {
            return Ok(None);
        };
        Ok(Some(Self { spi, target, comparison: target.comparison(spi), facts }))
    }

    fn user(&self) -> &'a str {
        self.target.scope.user_id
    }

    /// What they decide, of those that may be changed.
    fn look_within(&self, fact: &Fact) -> PgResult<Decision> {
        self.comparison.look_within(&self.facts, fact, self.facts.stored())
    }

    /// Whether a fact has a neighbour now that was not there when it was decided, or a fact that was
    /// judged is gone, or was said again since.
    pub fn has_changed(&self, work: &Work<'_>, judged: Option<&Judged>) -> PgResult<bool> {
        let judged = judged.map_or(&[][..], |judged| judged.existing.as_slice());
        let seen: Vec<Uuid> = judged.iter().map(|near| near.id).collect();
        if seen.len() as u64 != store::count_holding(self.spi, self.user(), &seen)? {
            return Ok(true);
        }
        for (fact, decision) in work.facts.iter().zip(work.decisions) {
            let (now, neighbors) = self.comparison.look(fact, &[])?;
            let is_new =
                |near: &NearFact| !near.unreconciled && !judged.iter().any(|seen| near.is_as(seen));
            let changed = match (decision, now) {
                (Decision::Ask, Decision::Ask) => neighbors.iter().any(is_new),
                (before, now) => *before != now,
            };
            if changed {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Adds a fact, unless one that says the same is there by now: then it gets this one's sources.
    pub fn add_or_join(&mut self, fact: &Fact, unreconciled: bool) -> PgResult<()> {
        // What was not there before the locks is left to the next comparison.
        let decision = self.look_within(fact)?;
        match (decision, fact.stored_as) {
            (Decision::Same(id), None) => self.said_again(id, fact),
            (Decision::Same(id), Some(own)) => self.join(fact, own, id),
            (_, Some(own)) => store::mark_reconciled(self.spi, self.user(), own),
            (_, None) => self.insert(fact, &fact.text, Standing::Active, unreconciled).map(drop),
        }
    }

    /// Keeps a fact that what was said does not bear out, unless it is kept already.
    pub fn keep_unverified(&mut self, unverified: &Unverified) -> PgResult<()> {
        let (fact, reason) = (&unverified.fact, unverified.reason.as_str());
        let content = &self.target.settings.content;
        let text = secrets::taken_out(&fact.text, content, &mut Counts::default());
        if store::is_unverified(self.spi, &self.target.scope, &text)? {
            return Ok(());
        }
        let metadata = json!({ "unverified": reason });
        self.insert_as(fact, &fact.text, Standing::Unverified, metadata, Some(reason)).map(drop)
    }

    /// A stored fact turned out to repeat another one.
    fn join(&mut self, fact: &Fact, own: Uuid, other: Uuid) -> PgResult<()> {
        self.facts.said_again(other, &fact.source_ids, fact.expires_at, fact.created_at)?;
        // A turn that repeats the one says the other as well, so no turn is out of date.
        let (at, reason) = (fact.created_at, Some("duplicate"));
        self.facts.supersede(own, other, at, Ending::Superseded, reason).map(drop)
    }

    /// Does what the LLM decided. A fact that was said before what it would replace does not replace
    /// it: it is kept as what was true until then.
    pub fn follow(
        &mut self,
        facts: &[Fact],
        judged: &Judged,
        is_wanted: &impl Fn(&Fact) -> bool,
    ) -> PgResult<()> {
        let fact = |index: usize| &facts[judged.new[index]];
        let plan = &judged.plan;
        for &(index, existing) in plan.same.iter().filter(|(index, _)| is_wanted(fact(*index))) {
            let (new, known) = (fact(index), judged.existing[existing].id);
            match new.stored_as {
                Some(own) => self.join(new, own, known)?,
                None => self.said_again(known, new)?,
            }
        }
        // Where each new fact has come to, for what it contradicts.
        let mut landed: Vec<(usize, Uuid)> = Vec::new();
        for &index in plan.add.iter().filter(|&&index| is_wanted(fact(index))) {
            let new = fact(index);
            if let Some(newer) = newer_contradicted(judged, facts, index) {
                self.keep_as_history(new, newer.id, newer.said_last_at)?;
                continue;
            }
            let id = match new.stored_as {
                Some(own) => {
                    store::mark_reconciled(self.spi, self.user(), own)?;
                    own
                }
                None => self.insert(new, &new.text, Standing::Active, false)?,
            };
            landed.push((index, id));
        }
        let mut written: Vec<(&str, Uuid)> = Vec::new();
        for (update, measured) in plan.update.iter().zip(&judged.measured) {
            let from: Vec<usize> =
                update.from.iter().copied().filter(|&index| is_wanted(fact(index))).collect();
            let known = &judged.existing[update.existing];
            let newest =
                from.iter().map(|&index| fact(index)).max_by_key(|new| new.created_at.into_inner());
            let Some(newest) = newest else { continue };
            let is_late = newest.created_at < known.said_last_at;
            if is_late && from.iter().any(|&index| fact(index).text.trim() == update.text.trim()) {
                // The old words of a late statement do not replace the newer ones.
                for &index in &from {
                    self.keep_as_history(fact(index), known.id, known.said_last_at)?;
                }
                continue;
            }
            let at = if is_late { known.said_last_at } else { newest.created_at };
            // The row that holds the text already: one new fact replaces several old ones, or it was
            // stored before it could be compared.
            let own = from.iter().find_map(|&index| {
                fact(index).stored_as.filter(|_| fact(index).text == update.text)
            });
            let id = match (written.iter().find(|(text, _)| *text == update.text), own) {
                (Some(&(_, id)), _) => id,
                (None, Some(own)) => {
                    store::mark_reconciled(self.spi, self.user(), own)?;
                    own
                }
                (None, None) => {
                    let mut merged = newest.clone();
                    merged.created_at = at;
                    merged.expires_at = later(known.expires_at, newest.expires_at);
                    merged.source_ids =
                        from.iter().flat_map(|&index| fact(index).source_ids.clone()).collect();
                    if newest.text != update.text {
                        (merged.windows, merged.token_count) = measured.clone();
                    }
                    self.insert(&merged, &update.text, Standing::Active, false)?
                }
            };
            written.push((&update.text, id));
            self.replace(known, id, at, Ending::Superseded, "updated")?;
            for &index in &from {
                let part = fact(index);
                landed.push((index, id));
                match part.stored_as {
                    Some(own) if own == id => {}
                    Some(own) => self.facts.end(
                        own,
                        id,
                        part.created_at,
                        Ending::Superseded,
                        Some("updated"),
                    )?,
                    None if part.created_at < known.said_last_at => {
                        self.keep_as_history(part, id, known.said_last_at)?;
                    }
                    None => {}
                }
            }
        }
        for deletion in &plan.delete {
            let known = &judged.existing[deletion.existing];
            // Without a fact that contradicts it there is no reason to end it.
            let because = landed.iter().find(|(index, _)| deletion.because_of.contains(index));
            if let Some(&(index, by)) = because {
                let at = fact(index).created_at;
                self.replace(known, by, at, Ending::Contradicted, "contradicted")?;
            }
        }
        for &(doubting, existing) in &plan.doubted {
            let known = &judged.existing[existing];
            let is_later = fact(doubting).created_at >= known.said_last_at;
            if let Some(&(_, by)) = landed.iter().find(|(index, _)| *index == doubting && is_later)
            {
                self.facts.doubt(known.id, by)?;
            }
        }
        Ok(())
    }

    /// Stores a fact that was replaced before it was learned of.
    fn keep_as_history(
        &mut self,
        fact: &Fact,
        by: Uuid,
        since: TimestampWithTimeZone,
    ) -> PgResult<()> {
        match fact.stored_as {
            Some(own) => self.facts.end(own, by, since, Ending::Superseded, Some("older")),
            None => {
                let standing = Standing::Superseded { by, since };
                let id = self.insert(fact, &fact.text, standing, false)?;
                self.facts.note_repetitions(id)
            }
        }
    }

    /// Notes that a known fact was said again in a fact's turns.
    fn said_again(&mut self, known: Uuid, fact: &Fact) -> PgResult<()> {
        self.facts.said_again(known, &fact.source_ids, fact.expires_at, fact.created_at)
    }

    /// Ends a known fact; what replaces it holds its key from now on.
    fn replace(
        &mut self,
        known: &NearFact,
        new: Uuid,
        at: TimestampWithTimeZone,
        ending: Ending,
        reason: &str,
    ) -> PgResult<()> {
        self.facts.end(known.id, new, at, ending, Some(reason))?;
        match &known.fact_key {
            // A key is one of its session, or of its agent's global memory.
            Some(key) if !known.is_others && known.home.agent_id == self.target.scope.agent_id => {
                store::inherit_key(self.spi, self.user(), new, key)
            }
            _ => Ok(()),
        }
    }

    fn insert(
        &mut self,
        fact: &Fact,
        text: &str,
        standing: Standing<'_>,
        unreconciled: bool,
    ) -> PgResult<Uuid> {
        let metadata = if unreconciled { json!({ "unreconciled": true }) } else { json!({}) };
        self.insert_as(fact, text, standing, metadata, None)
    }

    fn insert_as(
        &mut self,
        fact: &Fact,
        text: &str,
        standing: Standing<'_>,
        mut metadata: Value,
        reason: Option<&str>,
    ) -> PgResult<Uuid> {
        let id = entries::new_id();
        let configuration = self.target.configuration.as_str();
        let mut taken = fact.secrets.clone();
        let text = secrets::taken_out(text, &self.target.settings.content, &mut taken);
        if !taken.is_empty() {
            metadata[REDACTED] = taken.to_json();
        }
        // What was measured is the text with its secrets.
        let (windows, token_count) = match &text {
            Cow::Owned(_) => (&[][..], -1),
            Cow::Borrowed(_) => (fact.windows.as_slice(), fact.token_count),
        };
        let text = &*text;
        metadata["job_id"] = json!(self.target.job.id.to_string());
        let needs_job = windows.is_empty() && self.target.model.is_some();
        let is_counted = token_count >= 0;
        let estimate = || memory_agent_core::text::tokens::estimate_tokens(text) as i32;
        let words = (Lexemes::index(self.spi, configuration, text)?, configuration);
        let scope = &self.target.scope;
        let entry = NewEntry::new(id, scope, "fact", "memory", text, words, fact.created_at);
        let entry = NewEntry {
            token_count: if is_counted { token_count } else { estimate() },
            token_count_exact: is_counted,
            markers: fact.markers.clone(),
            metadata: JsonbText(metadata.to_string()),
            embedding: (!windows.is_empty()).then_some(windows),
            embedding_model: self.target.model.map(|model| model.name.as_str()),
            expires_at: fact.expires_at,
            source_ids: fact.source_ids.clone(),
            confidence: fact.confidence,
            standing,
            ..entry
        };
        self.facts.insert(entry, needs_job || !is_counted, reason)?;
        Ok(id)
    }

    /// Brings the session's counters up to date.
    pub fn finish(&self) -> PgResult<()> {
        self.facts.finish()?;
        debug1!(
            "memory_agent: {} user={} job={} added={} ended={}",
            self.target.job.kind.as_str(),
            self.user(),
            self.target.job.id,
            self.facts.stored().len(),
            self.facts.ended().len()
        );
        Ok(())
    }
}

/// The known fact that a new one contradicts although it was said before it.
fn newer_contradicted<'a>(
    judged: &'a Judged,
    facts: &[Fact],
    index: usize,
) -> Option<&'a NearFact> {
    judged
        .plan
        .delete
        .iter()
        .filter(|deletion| deletion.because_of.contains(&index))
        .map(|deletion| &judged.existing[deletion.existing])
        .find(|known| facts[judged.new[index]].created_at < known.said_last_at)
}
