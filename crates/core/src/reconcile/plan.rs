//! What the decisions of the model come to: which new facts are added, which memories they
//! replace or delete, and which of them were known before.

use std::collections::{BTreeMap, BTreeSet};

use super::{Decision, Event, Existing, New};
use crate::facts::{repeats, words};
use crate::grounding::{Grounds, Sources, Ungrounded};

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
    /// another memory. Empty if the model did not say and nothing tells.
    pub because_of: Vec<usize>,
}

/// Turns decisions into a plan that loses no new fact.
///
/// - A new fact is part of each update that names it, whatever else is decided about it.
/// - An update that names no fact takes up those that share most of the words it brings in, of
///   the facts about which nothing else is decided.
/// - A deletion that names no fact is attributed to those that share most words with the memory,
///   of the facts that do not repeat another memory; if there is only one, to that.
/// - An update to the same text is none, and the facts it names count as NONE.
/// - An update whose text has a name, a number or a date that neither the memory nor the facts have
///   is none: the memory stays, and the facts are added as they are.
/// - A new fact that contradicts a memory is added.
/// - A new fact that is decided as NONE is a repetition only of a memory that stays: the one it
///   names, or, if it names none, one of which [`says_the_same`](crate::facts::says_the_same) holds and that has all its
///   words. The repetition of a memory that is replaced goes into its update, the repetition of
///   a deleted one is added. If it names another new fact, it follows that one.
/// - Every other new fact is added.
///
/// Decisions with numbers that do not exist are ignored, as are second ones about an existing
/// memory; [`parse`](super::parse) returns none of these.
#[must_use]
pub fn plan(decisions: &[Decision], existing: &[Existing], new: &[New]) -> Plan {
    let mut planner = Planner {
        existing,
        new,
        kept: BTreeSet::new(),
        updates: BTreeMap::new(),
        deletions: BTreeMap::new(),
        verdicts: vec![Verdict::default(); new.len()],
    };
    planner.read(decisions);
    planner.attribute_updates();
    planner.refuse_invented_updates();
    planner.attribute_deletions();
    planner.place_new_facts()
}

/// Everything that was decided about one new fact.
#[derive(Clone, Copy, Default)]
struct Verdict {
    is_added: bool,
    is_none: bool,
    /// The memory that it repeats, according to the model.
    same_as: Option<Memory>,
}

#[derive(Clone, Copy)]
enum Memory {
    Existing(usize),
    New(usize),
}

/// Where a new fact went.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Added,
    InUpdate,
    SameAs(usize),
}

struct Planner<'a> {
    existing: &'a [Existing<'a>],
    new: &'a [New<'a>],
    /// Existing memories about which a decision says that they stay.
    kept: BTreeSet<usize>,
    updates: BTreeMap<usize, (String, BTreeSet<usize>)>,
    deletions: BTreeMap<usize, BTreeSet<usize>>,
    verdicts: Vec<Verdict>,
}

impl Planner<'_> {
    fn read(&mut self, decisions: &[Decision]) {
        for decision in decisions {
            match self.memory(decision.id) {
                Some(Memory::Existing(existing)) => self.read_existing(existing, &decision.event),
                Some(Memory::New(new)) => self.read_new(new, &decision.event),
                None => {}
            }
        }
    }

    fn read_existing(&mut self, existing: usize, event: &Event) {
        let is_decided = self.kept.contains(&existing)
            || self.updates.contains_key(&existing)
            || self.deletions.contains_key(&existing);
        match event {
            _ if is_decided => {}
            Event::Add | Event::None { .. } => {
                self.kept.insert(existing);
            }
            Event::Update { text, from }
                if text.trim() == self.existing[existing].content.trim() =>
            {
                self.kept.insert(existing);
                for new in self.new_facts(from) {
                    self.verdicts[new].is_none = true;
                }
            }
            Event::Update { text, from } => {
                let from = self.new_facts(from);
                self.updates.insert(existing, (text.clone(), from));
            }
            Event::Delete { because_of } => {
                let because_of = self.new_facts(because_of);
                for new in &because_of {
                    self.verdicts[*new].is_added = true;
                }
                self.deletions.insert(existing, because_of);
            }
        }
    }

    fn read_new(&mut self, new: usize, event: &Event) {
        let same_as = match event {
            Event::None { same_as } => same_as.and_then(|id| self.memory(id)),
            _ => None,
        };
        let verdict = &mut self.verdicts[new];
        match event {
            Event::None { .. } => {
                verdict.is_none = true;
                verdict.same_as = verdict.same_as.or(same_as);
            }
            _ => verdict.is_added = true,
        }
    }

    /// The index behind a number of the chat.
    fn memory(&self, id: u32) -> Option<Memory> {
        let index = usize::try_from(id).ok()?.checked_sub(1)?;
        match index.checked_sub(self.existing.len()) {
            None => Some(Memory::Existing(index)),
            Some(new) if new < self.new.len() => Some(Memory::New(new)),
            Some(_) => None,
        }
    }

    fn new_facts(&self, ids: &[u32]) -> BTreeSet<usize> {
        let new_fact = |id: &u32| match self.memory(*id) {
            Some(Memory::New(new)) => Some(new),
            _ => None,
        };
        ids.iter().filter_map(new_fact).collect()
    }

    /// Finds the facts behind updates that name none.
    fn attribute_updates(&mut self) {
        let named: BTreeSet<usize> =
            self.updates.values().flat_map(|(_, from)| from).copied().collect();
        let free: Vec<usize> = (0..self.new.len())
            .filter(|new| {
                let verdict = self.verdicts[*new];
                !named.contains(new) && !verdict.is_added && verdict.same_as.is_none()
            })
            .collect();
        for (existing, (text, from)) in &mut self.updates {
            if !from.is_empty() {
                continue;
            }
            let known = words(self.existing[*existing].content);
            let brought: BTreeSet<String> = words(text).difference(&known).cloned().collect();
            from.extend(sharing_most(&brought, &free, self.new));
        }
    }

    /// Drops updates to texts that the model made up.
    fn refuse_invented_updates(&mut self) {
        let (existing, new) = (self.existing, self.new);
        let is_invented = |memory: usize, text: &str, from: &BTreeSet<usize>| {
            // Of an update that names no fact, any may be the reason.
            let is_part = |fact: &usize| from.is_empty() || from.contains(fact);
            let facts: Vec<&New<'_>> =
                (0..new.len()).filter(is_part).map(|fact| &new[fact]).collect();
            let said: Vec<&str> = std::iter::once(existing[memory].content)
                .chain(facts.iter().map(|fact| fact.content))
                .collect();
            let said_at = facts.iter().map(|fact| fact.since).max().unwrap_or_default();
            let sources = Sources { said: &said, said_at, ..Sources::default() };
            match Grounds::of(&sources).check(text) {
                // What is replaced may be told as what is not true any more.
                Ok(()) | Err(Ungrounded::Negation | Ungrounded::Denied | Ungrounded::Person) => {
                    false
                }
                Err(_) => true,
            }
        };
        let invented: Vec<usize> = (self.updates.iter())
            .filter(|(memory, (text, from))| is_invented(**memory, text, from))
            .map(|(memory, _)| *memory)
            .collect();
        for memory in invented {
            let Some((_, from)) = self.updates.remove(&memory) else { continue };
            self.kept.insert(memory);
            for fact in from {
                self.verdicts[fact].is_added = true;
            }
        }
    }

    /// Finds the facts behind deletions that name none. They are kept like those that are named.
    fn attribute_deletions(&mut self) {
        let possible: Vec<usize> =
            (0..self.new.len()).filter(|new| self.verdicts[*new].same_as.is_none()).collect();
        for (existing, because_of) in &mut self.deletions {
            if !because_of.is_empty() {
                continue;
            }
            match possible[..] {
                [only] => _ = because_of.insert(only),
                _ => {
                    let known = words(self.existing[*existing].content);
                    because_of.extend(sharing_most(&known, &possible, self.new));
                }
            }
            for new in because_of.iter() {
                self.verdicts[*new].is_added = true;
            }
        }
    }

    fn place_new_facts(mut self) -> Plan {
        let mut places: Vec<_> = (0..self.new.len()).map(|new| self.place(new)).collect();
        // Those that repeat another new fact, as far as its place is known by now.
        for new in 0..self.new.len() {
            if let (None, Some(Memory::New(other))) = (places[new], self.verdicts[new].same_as) {
                places[new] = places[other];
                for (_, from) in self.updates.values_mut().filter(|(_, from)| from.contains(&other))
                {
                    from.insert(new);
                }
            }
        }
        let mut plan = Plan::default();
        for (new, place) in places.into_iter().enumerate() {
            match place {
                Some(Place::SameAs(existing)) => plan.same.push((new, existing)),
                Some(Place::InUpdate) => {}
                Some(Place::Added) | None => plan.add.push(new),
            }
        }
        plan.update = (self.updates.into_iter())
            .map(|(existing, (text, from))| Update {
                existing,
                text,
                from: from.into_iter().collect(),
            })
            .collect();
        plan.delete = (self.deletions.into_iter())
            .map(|(existing, because_of)| Deletion {
                existing,
                because_of: because_of.into_iter().collect(),
            })
            .collect();
        plan
    }

    /// The place of a new fact, `None` if it depends on that of another one.
    fn place(&mut self, new: usize) -> Option<Place> {
        let verdict = self.verdicts[new];
        if self.updates.values().any(|(_, from)| from.contains(&new)) {
            return Some(Place::InUpdate);
        }
        if verdict.is_added || !verdict.is_none {
            return Some(Place::Added);
        }
        let repeated = match verdict.same_as {
            Some(Memory::New(_)) => return None,
            Some(Memory::Existing(existing)) => Some(existing),
            None => (0..self.existing.len())
                .find(|existing| repeats(self.new[new].content, self.existing[*existing].content)),
        };
        Some(match repeated {
            Some(existing) if self.deletions.contains_key(&existing) => Place::Added,
            Some(existing) => match self.updates.get_mut(&existing) {
                Some((_, from)) => {
                    from.insert(new);
                    Place::InUpdate
                }
                None => Place::SameAs(existing),
            },
            None => Place::Added,
        })
    }
}

/// Those of `facts` that have most of the words, if any has one.
fn sharing_most(wanted: &BTreeSet<String>, facts: &[usize], new: &[New]) -> Vec<usize> {
    let shared = |fact: &usize| words(new[*fact].content).intersection(wanted).count();
    let most = facts.iter().map(shared).max().unwrap_or(0);
    facts.iter().copied().filter(|fact| most > 0 && shared(fact) == most).collect()
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
