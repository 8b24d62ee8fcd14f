//! The neighbourhood of a new fact: the few active facts that could say the same or the opposite, and
//! what can be decided from them without asking an LLM.

use crate::memory::facts::extracted_facts::Fact;
use crate::memory::facts::fact_writer::FactWriter;
use crate::memory::prelude::*;
use crate::models;
use crate::store::facts::{self as store, NearFact};
use crate::store::rows::fact_scope::Among;
use crate::store::rows::forms::{content_hash, says};
use memory_agent_core::facts::gate::{self, Gate, GateThresholds, Neighbor};
use memory_agent_core::facts::reconcile::concerns_both;
use memory_agent_core::rank::mmr;

/// Facts that a new fact is compared with.
const NEIGHBORS: i32 = 5;

/// Below this cosine two statements have nothing to do with each other, for models without calibrated
/// values: low enough for any model, so that the LLM judges rather too often.
const UNCALIBRATED_RELATED: f64 = 0.3;

/// The cosines from which facts are `related` and may be a `duplicate`, as a job's settings say; a
/// negative one means the model's.
pub fn thresholds(model: Option<&ModelRef>) -> GateThresholds {
    let calibrated = model.and_then(models::thresholds);
    GateThresholds {
        related: calibrated.map_or(UNCALIBRATED_RELATED, |thresholds| thresholds.unrelated_p95),
        duplicate: calibrated.map(|thresholds| thresholds.duplicate),
    }
}

/// Splits facts, given in the order of their turns, into those that can be stored together and those
/// that have to wait: a fact that may say something else about the same as one of an earlier turn is
/// compared with that one, so that one has to be stored first. A repetition goes into what it repeats.
pub fn independent(facts: Vec<Fact>, thresholds: &GateThresholds) -> (Vec<Fact>, Vec<Fact>) {
    let (mut now, mut later): (Vec<Fact>, Vec<Fact>) = (Vec::new(), Vec::new());
    for fact in facts {
        let gate_with = |earlier: &Fact| {
            if earlier.source_ids == fact.source_ids {
                Gate::Add
            } else {
                pairwise(earlier, &fact, thresholds)
            }
        };
        // What was said last about the same decides.
        let last_of = |facts: &[Fact]| {
            facts.iter().enumerate().rev().find_map(|(index, earlier)| {
                let gate = gate_with(earlier);
                (gate != Gate::Add).then_some((index, gate, earlier.stored_as.is_none()))
            })
        };
        match (last_of(&later), last_of(&now)) {
            (Some((index, Gate::Same(_), _)), _) => later[index].absorb(fact),
            (None, Some((index, Gate::Same(_), true))) => now[index].absorb(fact),
            (None, None) => now.push(fact),
            // A repetition of one that is stored already finds it there in the next round.
            _ => later.push(fact),
        }
    }
    (now, later)
}

fn pairwise(earlier: &Fact, fact: &Fact, thresholds: &GateThresholds) -> Gate {
    let similarity = match (earlier.embedding(), fact.embedding()) {
        (Some(left), Some(right)) => mmr::cosine(left, right),
        _ => thresholds.related.max(0.0),
    };
    let earlier = Neighbor {
        content: &earlier.text,
        similarity,
        same_hash: content_hash(&earlier.text) == content_hash(&fact.text),
    };
    gate::gate(&fact.text, &[earlier], thresholds)
}

/// What a fact is compared by.
pub struct Comparison<'a> {
    pub spi: &'a Spi,
    pub scope: FactScope<'a>,
    /// Whether it is compared with what other sessions know too.
    pub with_others: bool,
    pub model: Option<&'a ModelRef>,
    pub thresholds: GateThresholds,
    /// By which words are looked for.
    pub configuration: &'a str,
}

impl Comparison<'_> {
    /// The fact's neighbours, nearest first, and what they decide. Rows in `ignored` (those that the
    /// same job stored a moment ago) can make it a duplicate, but are no reason to ask.
    pub fn look(&self, fact: &Fact, ignored: &[Uuid]) -> PgResult<(Decision, Vec<NearFact>)> {
        self.look_at(self.neighbors(fact)?, fact, ignored)
    }

    /// The same, of neighbours that are at home where this transaction holds the locks.
    pub fn look_within(
        &self,
        writer: &FactWriter<'_>,
        fact: &Fact,
        ignored: &[Uuid],
    ) -> PgResult<Decision> {
        let mut neighbors = self.neighbors(fact)?;
        neighbors.retain(|near| writer.may_change(near));
        Ok(self.look_at(neighbors, fact, ignored)?.0)
    }

    fn look_at(
        &self,
        neighbors: Vec<NearFact>,
        fact: &Fact,
        ignored: &[Uuid],
    ) -> PgResult<(Decision, Vec<NearFact>)> {
        let as_gate: Vec<Neighbor<'_>> = neighbors
            .iter()
            .map(|near| Neighbor {
                content: &near.content,
                similarity: near.similarity,
                same_hash: says(near.content_hash.as_deref(), &fact.text),
            })
            .collect();
        let decision = match gate::gate(&fact.text, &as_gate, &self.thresholds) {
            Gate::Add => Decision::Add,
            Gate::Same(index) => Decision::Same(neighbors[index].id),
            Gate::Ask => {
                let others = neighbors.iter().any(|near| {
                    near.similarity >= self.thresholds.related && !ignored.contains(&near.id)
                });
                if others { Decision::Ask } else { Decision::Add }
            }
        };
        Ok((decision, neighbors))
    }

    fn neighbors(&self, fact: &Fact) -> PgResult<Vec<NearFact>> {
        let mut found = self.among(Among::Own, fact)?;
        // The user's global memory is one, whichever agent learned it.
        if self.scope.session_id.is_none() && self.scope.recalls_others() {
            found.extend(self.among(Among::OtherAgents, fact)?);
        }
        if self.with_others {
            let others = self.among(Among::Others, fact)?.into_iter();
            let others = others.map(|near| near.found(Among::Others));
            found.extend(others.filter(|near| concerns_both(&fact.text, &near.content)));
        }
        if found.iter().any(|near| near.is_others) {
            found.sort_by(|left, right| right.similarity.total_cmp(&left.similarity));
        }
        found.retain(|near| Some(near.id) != fact.stored_as);
        Ok(found)
    }

    fn among(&self, among: Among, fact: &Fact) -> PgResult<Vec<NearFact>> {
        let (spi, scope) = (self.spi, &self.scope);
        let mut found = Vec::new();
        let model = self.model.map(|model| model.name.as_str());
        if let (Some(model), Some(embedding)) = (model, fact.embedding()) {
            let embedding = Vector(embedding.to_vec());
            found = store::neighbors(spi, scope, among, model, &embedding, NEIGHBORS)?;
            found.retain(|near| near.similarity >= self.thresholds.related);
        }
        // Facts without an embedding of this model can only be found by their words; what is found
        // so is near enough to be asked about.
        let comparable = model.filter(|_| fact.embedding().is_some());
        let words = (self.configuration, fact.text.as_str());
        let by_words = store::neighbors_by_words(spi, scope, among, words, comparable, NEIGHBORS)?;
        found.extend(
            by_words
                .into_iter()
                .map(|near| NearFact { similarity: self.thresholds.related.max(0.0), ..near }),
        );
        if let Some(same) = store::same_text(spi, scope, among, &fact.text)?
            && !found.iter().any(|near| near.id == same.id)
        {
            found.push(same);
        }
        Ok(found)
    }
}

/// What is to be done with a fact, which may repeat the one with this id.
pub type Decision = Gate<Uuid>;
