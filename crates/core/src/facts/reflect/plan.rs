//! What the actions of the model come to: which facts an episode adds, and which known ones it
//! replaces, ends or leaves alone.

use std::collections::BTreeSet;

use super::{Action, EpisodeTurn, PriorFact, Statement};
use crate::facts::same::{repeats, words};
use crate::text::markers;

/// What is to be done. Prior facts and turns are named by their index.
///
/// Every prior fact is in exactly one of `keep`, `update` and `remove`. `add` and `update` together
/// hold at most as many facts as were allowed. `keep`, `update` and `remove` are in ascending order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Prior facts that stay, also because the answer did not name them.
    pub keep: Vec<usize>,
    pub update: Vec<Update>,
    pub remove: Vec<Removal>,
    /// Prior facts of `keep` that were to be removed by a model that is not trusted, or for what only a tool said.
    pub doubted: Vec<Removal>,
    /// New facts, in the order of the answer.
    pub add: Vec<Fact>,
    /// Prior facts of `keep` that the answer states again, with what it states.
    pub again: Vec<Update>,
    /// How many new or changed facts the answer held beyond the allowed number.
    pub dropped: usize,
}

/// A fact to be stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    pub text: String,
    /// Built-in markers as the model set them, and custom ones of its turns and of the fact that it
    /// replaces.
    pub markers: Vec<String>,
    /// 0 to 1.
    pub confidence: Option<f32>,
    /// The turns that it rests on, in ascending order: those that the model named, else those that
    /// share most words with it, else all.
    pub turns: Vec<usize>,
    /// Turns that say what it takes the place of, in ascending order: each is earlier than one of
    /// `turns` and not among them.
    pub replaces: Vec<usize>,
    /// The prior fact that it was to update and that stays, for the model is not trusted.
    pub beside: Option<usize>,
}

/// A prior fact is replaced by `fact`.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    pub existing: usize,
    pub fact: Fact,
}

/// A prior fact is no longer true, and nothing takes its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Removal {
    pub existing: usize,
    /// The turns that say so, found like those of a [`Fact`].
    pub turns: Vec<usize>,
}

/// Turns actions into a plan that loses no prior fact the answer does not name.
///
/// - A prior fact about which nothing is said stays.
/// - An update to the same text changes nothing.
/// - A prior fact stays if what is added says the same as the one that is removed. What a tool returned ends
///   failures only.
/// - An addition that repeats a prior fact that stays, the text of an update or another addition is
///   none, see [`repeats`].
/// - Of more than `max_facts` updates and additions the updates of the first prior facts count, then
///   the first additions: an outdated fact that stays does more harm than a new one that is missing.
/// - The example of our own prompt is no fact unless the input speaks of it.
///
/// Only what a model updates or removes that is `trusted` is updated and removed. Of another one an update is an
/// addition, and the prior fact stays.
///
/// Actions with numbers that do not exist are ignored, as are second ones about a prior fact;
/// [`parse`](super::parse) returns none of these.
#[must_use]
pub fn plan(
    actions: &[Action],
    prior: &[PriorFact],
    turns: &[EpisodeTurn],
    max_facts: u32,
    trusted: bool,
) -> Plan {
    let mut planner = Planner { prior, turns, trusted, fates: vec![Fate::Kept; prior.len()] };
    let additions = planner.read(actions);
    planner.place(additions, max_facts as usize)
}

/// What happens to a prior fact.
#[derive(Clone, Copy, PartialEq)]
enum Fate<'a> {
    Kept,
    /// Kept because an action says so.
    Confirmed,
    Updated(&'a Statement),
    Removed(&'a [u32]),
}

struct Planner<'a> {
    prior: &'a [PriorFact<'a>],
    turns: &'a [EpisodeTurn<'a>],
    trusted: bool,
    fates: Vec<Fate<'a>>,
}

/// A new fact, and the prior one that it was to update.
type Addition<'a> = (&'a Statement, Option<usize>);

impl<'a> Planner<'a> {
    /// Notes what happens to prior facts, and returns what is added.
    fn read(&mut self, actions: &'a [Action]) -> Vec<Addition<'a>> {
        let mut additions = Vec::new();
        for action in actions {
            let fate = match action {
                Action::Keep { .. } => Fate::Confirmed,
                Action::Update { statement, .. } if self.is_example(&statement.text) => {
                    Fate::Confirmed
                }
                Action::Update { statement, .. } => Fate::Updated(statement),
                Action::Remove { turns, .. } => Fate::Removed(turns),
                Action::Add { statement } => {
                    if !self.is_example(&statement.text) {
                        additions.push((statement, None));
                    }
                    continue;
                }
            };
            let Some(existing) = action.id().and_then(|id| index(id, self.prior.len())) else {
                continue;
            };
            if self.fates[existing] != Fate::Kept {
                continue;
            }
            let known = self.prior[existing].content;
            self.fates[existing] = match fate {
                Fate::Updated(new) if new.text.trim() == known.trim() => Fate::Confirmed,
                Fate::Updated(new) if !self.trusted && !repeats(&new.text, known) => {
                    additions.push((new, Some(existing)));
                    Fate::Confirmed
                }
                fate => fate,
            };
        }
        additions
    }

    fn place(mut self, additions: Vec<Addition<'a>>, max_facts: usize) -> Plan {
        // Removed and added again: nothing happened.
        for (existing, fate) in self.fates.iter_mut().enumerate() {
            let content = self.prior[existing].content;
            let is_back = || additions.iter().any(|(new, _)| repeats(&new.text, content));
            if matches!(fate, Fate::Removed(_)) && is_back() {
                *fate = Fate::Confirmed;
            }
        }
        let mut plan = Plan::default();
        for (existing, fate) in self.fates.iter().enumerate() {
            match fate {
                Fate::Updated(_) if plan.update.len() == max_facts => {
                    plan.dropped += 1;
                    plan.keep.push(existing);
                }
                Fate::Updated(statement) => {
                    let fact = self.fact(statement, Some(&self.prior[existing]), None);
                    plan.update.push(Update { existing, fact });
                }
                Fate::Removed(turns) => {
                    let turns = self.sources(turns, self.prior[existing].content);
                    let is_meant = self.end(&turns, &self.prior[existing]);
                    let removal = Removal { existing, turns };
                    if is_meant {
                        plan.remove.push(removal);
                    } else {
                        plan.keep.push(existing);
                        plan.doubted.push(removal);
                    }
                }
                Fate::Kept | Fate::Confirmed => plan.keep.push(existing),
            }
        }
        for (addition, beside) in additions {
            let repeats = |known: &str| repeats(&addition.text, known);
            if let Some(existing) =
                plan.keep.iter().copied().find(|kept| repeats(self.prior[*kept].content))
            {
                plan.again.push(Update { existing, fact: self.fact(addition, None, None) });
                continue;
            }
            let updated = plan.update.iter().map(|update| &update.fact);
            if updated.chain(&plan.add).any(|fact| repeats(&fact.text)) {
                continue;
            }
            if plan.update.len() + plan.add.len() < max_facts {
                plan.add.push(self.fact(addition, None, beside));
            } else {
                plan.dropped += 1;
            }
        }
        plan
    }

    /// Whether one of the turns ends a prior fact.
    fn end(&self, turns: &[usize], known: &PriorFact) -> bool {
        let is_failure = known.markers.iter().any(|marker| marker == "failure");
        let counts = |role| is_failure || matches!(role, "user" | "assistant");
        self.trusted && turns.iter().any(|&at| counts(self.turns[at].role))
    }

    fn fact(
        &self,
        statement: &Statement,
        replaced: Option<&PriorFact>,
        beside: Option<usize>,
    ) -> Fact {
        let mut turns = self.sources(&statement.turns, &statement.text);
        let replaces = self.replaced(&statement.replaces, &turns);
        turns.retain(|turn| !replaces.contains(turn));
        let inherited: Vec<&String> = turns
            .iter()
            .flat_map(|turn| self.turns[*turn].markers)
            .chain(replaced.into_iter().flat_map(|fact| fact.markers))
            .filter(|marker| is_custom(marker))
            .collect();
        let mut markers: Vec<String> = match (&statement.markers, replaced) {
            (Some(said), _) => said.clone(),
            (None, Some(replaced)) => replaced.markers.to_vec(),
            (None, None) => Vec::new(),
        };
        // The names of custom markers are the application's; the model cannot make new ones.
        markers.retain(|marker| !is_custom(marker) || inherited.contains(&marker));
        for marker in inherited {
            if !markers.contains(marker) {
                markers.push(marker.clone());
            }
        }
        let (text, confidence) = (statement.text.clone(), statement.confidence);
        Fact { text, markers, confidence, turns, replaces, beside }
    }

    /// The turns behind a text: the named ones, else those with most of its words, else all.
    fn sources(&self, named: &[u32], text: &str) -> Vec<usize> {
        let named: BTreeSet<usize> =
            named.iter().filter_map(|turn| index(*turn, self.turns.len())).collect();
        if !named.is_empty() {
            return named.into_iter().collect();
        }
        let wanted = words(text);
        let shared = |turn: &usize| words(self.turns[*turn].content).intersection(&wanted).count();
        let most = (0..self.turns.len()).map(|turn| shared(&turn)).max().unwrap_or(0);
        (0..self.turns.len()).filter(|turn| shared(turn) == most).collect()
    }

    /// Of the turns that a statement is said to replace, those that came before one that it rests on.
    fn replaced(&self, named: &[u32], sources: &[usize]) -> Vec<usize> {
        let named: BTreeSet<usize> =
            named.iter().filter_map(|turn| index(*turn, self.turns.len())).collect();
        let newest = sources.iter().copied().filter(|turn| !named.contains(turn)).max();
        named.into_iter().filter(|turn| Some(*turn) < newest).collect()
    }

    /// Small models like to repeat the example of the prompt.
    fn is_example(&self, text: &str) -> bool {
        const NAME: &str = "quillfeather";
        let speaks_of_it = |text: &str| text.to_lowercase().contains(NAME);
        speaks_of_it(text)
            && !self.turns.iter().any(|turn| speaks_of_it(turn.content))
            && !self.prior.iter().any(|fact| speaks_of_it(fact.content))
    }
}

/// The index behind a number of the chat.
fn index(number: u32, length: usize) -> Option<usize> {
    usize::try_from(number).ok()?.checked_sub(1).filter(|index| *index < length)
}

fn is_custom(marker: &str) -> bool {
    marker.starts_with(markers::CUSTOM_PREFIX)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
