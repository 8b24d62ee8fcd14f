//! What the decisions of the model come to: which new facts are added, which memories they
//! replace or end, and which of them were known before. Where nothing was decided, a rule decides.

use std::collections::{BTreeMap, BTreeSet};

use super::{Choice, DatedFact, Decision};
use crate::facts::grounding::{Grounds, Sources, Ungrounded};
use crate::facts::same::{is_mostly_in, repeats};

/// What is to be done. Memories and facts are named by their index.
///
/// Every new fact is either in `add`, in `from` of at least one update, or in `same` once; an
/// existing memory is updated or deleted at most once. All lists are in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// New facts that become memories.
    pub add: Vec<usize>,
    pub update: Vec<Update>,
    pub delete: Vec<Deletion>,
    /// New facts and the existing memory that says the same, which stays.
    pub same: Vec<(usize, usize)>,
    /// New facts that were to replace or end a memory, and that memory: the model is not trusted, so both stay, and
    /// the memory is doubted.
    pub doubted: Vec<(usize, usize)>,
}

/// An existing memory is replaced by `text`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    pub existing: usize,
    pub text: String,
    /// New facts that are part of the text, or repeat the memory that it replaces.
    pub from: Vec<usize>,
}

/// An existing memory is contradicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    pub existing: usize,
    /// New facts that contradict it. They are kept, in [`Plan::add`] or as part of the update of
    /// another memory.
    pub because_of: Vec<usize>,
}

/// Turns decisions into a plan that loses no new fact. Without any decision, it is the rule for
/// answers that cannot be used.
///
/// - A fact about which nothing is decided is the same as a memory that has all its words and of
///   which [`says_the_same`](crate::facts::same::says_the_same) holds; otherwise it is added. So it goes
///   with one that is to replace or end a memory that says the same.
/// - A fact is believed to be the same as a memory if that has most of its words, and bears out its
///   names, numbers, dates and negations; otherwise it is added. The repetition of a memory that is replaced goes into its
///   update, the repetition of one that ends is added.
/// - A replacement with a text of its own is rejected if that has a name, a number or a date that neither
///   the memory nor the fact has: the memory stays, and the fact is added. Of a text that denies what the
///   fact says, the fact takes the place.
/// - The first fact that replaces a memory takes its place; others are added beside it, unless they
///   bring the same text.
///
/// Only what a model chooses that is `trusted` is replaced and ended. Of another one the memory stays and is doubted.
///
/// Decisions with numbers that do not exist are ignored; [`parse`](super::parse) returns none of
/// these.
#[must_use]
pub fn plan(
    decisions: &[Decision],
    existing: &[DatedFact],
    new: &[DatedFact],
    trusted: bool,
) -> Plan {
    let mut planner = Planner {
        existing,
        new,
        trusted,
        updates: BTreeMap::new(),
        deletions: BTreeMap::new(),
        same: BTreeMap::new(),
        added: BTreeSet::new(),
        doubted: BTreeSet::new(),
    };
    for decision in decisions {
        planner.read(decision);
    }
    planner.place_new_facts()
}

struct Planner<'a> {
    existing: &'a [DatedFact<'a>],
    new: &'a [DatedFact<'a>],
    trusted: bool,
    /// By memory.
    updates: BTreeMap<usize, (String, BTreeSet<usize>)>,
    deletions: BTreeMap<usize, BTreeSet<usize>>,
    /// By fact, the memory that it repeats.
    same: BTreeMap<usize, usize>,
    /// Facts that are memories of their own, unless they are part of an update.
    added: BTreeSet<usize>,
    doubted: BTreeSet<(usize, usize)>,
}

impl Planner<'_> {
    fn read(&mut self, decision: &Decision) {
        let index = |number: u32, count: usize| {
            usize::try_from(number).ok()?.checked_sub(1).filter(|index| *index < count)
        };
        let Some(fact) = index(decision.fact, self.new.len()) else { return };
        let memory = |number: u32| index(number, self.existing.len());
        match &decision.choice {
            Choice::New => _ = self.added.insert(fact),
            Choice::Same(number) => {
                let Some(memory) = memory(*number) else { return };
                if self.bears_out(memory, fact) {
                    self.same.entry(fact).or_insert(memory);
                }
            }
            Choice::Replaces { memory: number, text } => {
                let Some(memory) = memory(*number) else { return };
                self.replace(memory, fact, text.as_deref());
            }
            Choice::Ends(number) => {
                let Some(memory) = memory(*number) else { return };
                if self.may_change(memory, fact) && !self.updates.contains_key(&memory) {
                    self.added.insert(fact);
                    self.deletions.entry(memory).or_default().insert(fact);
                }
            }
        }
    }

    fn replace(&mut self, memory: usize, fact: usize, text: Option<&str>) {
        let said = self.new[fact].content.trim();
        let text = text.map(str::trim).filter(|text| !self.is_inverted(fact, text)).unwrap_or(said);
        let changes_nothing = text == self.existing[memory].content.trim();
        let has_ended = self.deletions.contains_key(&memory);
        if changes_nothing || has_ended || !self.may_change(memory, fact) {
            return;
        }
        if self.is_invented(memory, fact, text) {
            self.added.insert(fact);
            return;
        }
        let (known, from) =
            self.updates.entry(memory).or_insert_with(|| (text.to_owned(), BTreeSet::new()));
        if *known == text {
            from.insert(fact);
        }
    }

    fn may_change(&mut self, memory: usize, fact: usize) -> bool {
        let (known, new) = (self.existing[memory].content, self.new[fact].content);
        if repeats(new, known) {
            return false;
        }
        if !self.trusted {
            self.doubted.insert((fact, memory));
        }
        self.trusted
    }

    fn is_repeated(&self, memory: usize, fact: usize) -> bool {
        repeats(self.new[fact].content, self.existing[memory].content)
    }

    /// Whether nothing is lost if a fact is taken for the repetition of a memory.
    fn bears_out(&self, memory: usize, fact: usize) -> bool {
        let said = [self.existing[memory].content];
        let said_at = self.existing[memory].since;
        let sources = Sources { said: &said, said_at, ..Sources::default() };
        let new = self.new[fact].content;
        is_mostly_in(new, said[0]) && Grounds::of(&sources).check(new).is_ok()
    }

    /// Whether the text that a memory is replaced by was made up.
    fn is_invented(&self, memory: usize, fact: usize, text: &str) -> bool {
        let said = [self.existing[memory].content, self.new[fact].content];
        let said_at = self.new[fact].since;
        let sources = Sources { said: &said, said_at, ..Sources::default() };
        // What is replaced may be told as what is not true any more.
        !matches!(
            Grounds::of(&sources).check(text),
            Ok(())
                | Err(Ungrounded::Negation
                    | Ungrounded::Denied
                    | Ungrounded::Person
                    | Ungrounded::Unstated(_))
        )
    }

    /// Whether a text that is to hold a fact denies it.
    fn is_inverted(&self, fact: usize, text: &str) -> bool {
        let DatedFact { content, since } = self.new[fact];
        let sources = Sources { said: &[text], said_at: since, ..Sources::default() };
        let checked = Grounds::of(&sources).check(content);
        matches!(checked, Err(Ungrounded::Negation | Ungrounded::Denied))
    }

    fn place_new_facts(mut self) -> Plan {
        let mut plan = Plan::default();
        for fact in 0..self.new.len() {
            let undecided = || (0..self.existing.len()).find(|at| self.is_repeated(*at, fact));
            let repeated = match self.same.get(&fact) {
                _ if self.added.contains(&fact) => None,
                Some(memory) => Some(*memory),
                None => undecided(),
            };
            if self.updates.values().any(|(_, from)| from.contains(&fact)) {
                continue;
            }
            match repeated {
                Some(memory) if !self.deletions.contains_key(&memory) => {
                    match self.updates.get_mut(&memory) {
                        Some((_, from)) => _ = from.insert(fact),
                        None => plan.same.push((fact, memory)),
                    }
                }
                _ => plan.add.push(fact),
            }
        }
        plan.doubted = self.doubted.into_iter().collect();
        let listed = |facts: BTreeSet<usize>| facts.into_iter().collect();
        plan.update = (self.updates.into_iter())
            .map(|(existing, (text, from))| Update { existing, text, from: listed(from) })
            .collect();
        plan.delete = (self.deletions.into_iter())
            .map(|(existing, because_of)| Deletion { existing, because_of: listed(because_of) })
            .collect();
        plan
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
