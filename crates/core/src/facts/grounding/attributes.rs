//! Whether a statement can take the place of another one, because both are about the same attribute of the
//! same person or thing and exclude each other: "moved to Lisbon" and "lives in Hamburg" do, "plays the
//! piano" and "lives in Hamburg" do not.
//!
//! The LLM makes the choice; small models choose a memory although none is meant. So there has to be a
//! sign of what was chosen, by a rule that can be named: see [`Sign`]. Without one, both statements stay.

use std::collections::HashSet;

use super::properties::{
    classes, gives_another_value, is_another_rate, is_calling, is_same, is_same_event, says_of_both,
};
use super::tagged_statement::{Kind, TaggedStatement, lines};
use super::topics::{Role, is_about_another};
use super::words::{List, Word, stem};
use crate::limits::GROUNDED_BYTES;

/// Why a statement can take the place of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// Both are about something that there is one of at a time: where somebody lives.
    Single,
    /// The new one says that something is over, and the other speaks of it.
    End,
    /// The new one says that something changed, and the other speaks of it.
    Change,
    /// They differ in a number, a date or a day, and in little else.
    Value,
    /// They say when or where the same event is.
    Event,
    /// They give the same attribute another value: "favourite colour is".
    Attribute,
    /// They are the same but for one place: "the order service uses ... as its database".
    Frame,
    /// The new one speaks of all that the known one does.
    Covered,
    /// They name another person for the same role.
    Role,
    /// One of them denies what the other says.
    Denial,
    /// They are in a language that the rules do not know.
    Foreign,
}

/// How far from a word that something is over or changed stands what it is.
const BEFORE: usize = 1;
const AFTER: usize = 3;
/// Most words of the place in which two statements differ.
const FRAME: usize = 4;

/// Whether `new` can take the place of `known`, or end it: they are not plainly about different people or
/// things, and there is a [`Sign`] of it. Of very long texts only the begin is compared.
#[must_use]
pub fn can_replace(new: &str, known: &str) -> bool {
    let [new, known] = [new, known].map(|text| &text[..text.floor_char_boundary(GROUNDED_BYTES)]);
    !is_about_another(new, known) && sign(new, known).is_some()
}

/// The sign that `new` can take the place of `known`, if there is one.
fn sign(new: &str, known: &str) -> Option<Sign> {
    let (new, known) = (TaggedStatement::of(new), TaggedStatement::of(known));
    let pair = Pair { new: &new, known: &known };
    if new.is_unknown || known.is_unknown || (new.is_foreign && pair.has_one_word()) {
        return Some(Sign::Foreign);
    }
    let signs = [
        (Sign::Single, pair.is_single()),
        (Sign::End, pair.is_end() || pair.is_resumed()),
        (Sign::Change, pair.is_change()),
        (Sign::Value, pair.is_value()),
        (Sign::Event, pair.has_one_subject() && is_same_event(&new, &known)),
        (Sign::Attribute, pair.is_attribute()),
        (Sign::Frame, pair.is_frame()),
        (Sign::Covered, pair.is_covered()),
        (Sign::Role, pair.is_role()),
        (Sign::Denial, pair.is_denial()),
    ];
    signs.iter().find(|(_, holds)| *holds).map(|(sign, _)| *sign)
}

/// Two statements that are compared.
struct Pair<'a> {
    new: &'a TaggedStatement<'a>,
    known: &'a TaggedStatement<'a>,
}

impl Pair<'_> {
    /// Whether both are about the same person or thing.
    fn has_one_subject(&self) -> bool {
        let (new, known) = (self.new.subject(), self.known.subject());
        match (new.is_empty(), known.is_empty()) {
            (true, true) => true,
            (false, false) => {
                let shared = new.intersection(&known).count();
                shared > 0 && (shared == new.len() || shared == known.len())
            }
            _ => false,
        }
    }

    /// Whether they have a word of content in common behind their subjects.
    fn has_one_word(&self) -> bool {
        let known = self.known.stems(&[Kind::Content]);
        let is_shared = |at: usize| known.contains(stem(&self.new.words[at].folded));
        let mut content = self.new.places(&[Kind::Content]);
        self.has_one_subject() && content.any(|at| at > self.new.predicate && is_shared(at))
    }

    fn changes(&self) -> bool {
        let kinds = [Kind::End, Kind::Change, Kind::Moved];
        // "The Volvo needs new tyres" does not say that there is another Volvo.
        self.new.places(&kinds).any(|at| self.new.words[at].folded != "new")
    }

    fn is_single(&self) -> bool {
        let strong = self.new.lines("single");
        let (new, known) = (classes(self.new), classes(self.known));
        let is_meant = |line: &&usize| {
            let is_said = strong.contains(line) || self.changes();
            is_said && (self.has_one_subject() || self.is_of_topic(**line))
        };
        let several = self.new.lines("several");
        let has_several =
            self.changes() && self.known.lines("several").iter().any(|line| several.contains(line));
        new.intersection(&known).any(|line| is_meant(&line))
            || (self.has_one_subject() && (has_several || is_calling(self.new, self.known)))
    }

    /// Whether the subject of the one is the attribute of the other's: "the user's address".
    fn is_of_topic(&self, line: usize) -> bool {
        let is_topic = |told: &TaggedStatement<'_>| {
            let names = (0..told.predicate).filter(|at| told.kinds[*at] == Kind::Content);
            let mut names = names.peekable();
            names.peek().is_some()
                && names.all(|at| {
                    let word = told.words[at].folded.as_str();
                    lines("single", word).contains(&line) || lines("weak", word).contains(&line)
                })
        };
        (self.known.is_of_user() && is_topic(self.new))
            || (self.new.is_of_user() && is_topic(self.known))
    }

    /// Whether what stands beside a word of the new statement is spoken of in the known one.
    fn is_beside(&self, at: usize) -> bool {
        let known = self.known.stems(&[Kind::Content]);
        let is_content = |place: &usize| self.new.kinds[*place] == Kind::Content;
        // "a new phone"
        let is_new = self.new.words[at].folded == "new";
        let reach = match self.new.kinds[at] {
            _ if is_new => 0,
            // "the electricity bill rose"
            Kind::Moved => BEFORE + 1,
            _ => BEFORE,
        };
        // "Ana moved to Madrid": of Ana only the home has changed.
        let next = self.new.words.get(at + 1).map_or("", |word| word.folded.as_str());
        let is_home = self.new.words[at].folded == "moved" && next != "out";
        let is_person = |place: &usize| {
            let word = &self.new.words[*place];
            word.is_capitalised() || word.is_in(List::Relation)
        };
        let before = (0..at).rev().filter(is_content).take(reach);
        let before = before.filter(|place| !(is_home && is_person(place)));
        let after = (at + 1..self.new.words.len()).filter(is_content);
        let mut beside = before.chain(after.take(if is_new { 1 } else { AFTER }));
        beside.any(|place| known.contains(stem(&self.new.words[place].folded)))
    }

    /// Whether an activity ended: "gave up running".
    fn is_end_of_doing(&self, at: usize) -> bool {
        let doing = (at + 1..self.new.words.len()).find(|place| {
            let word = self.new.words[*place].folded.as_str();
            matches!(self.new.kinds[*place], Kind::Verb | Kind::Content) && word.ends_with("ing")
        });
        let verbs = self.known.stems(&[Kind::Verb, Kind::Content]);
        doing.is_some_and(|place| {
            let root = stem(&self.new.words[place].folded);
            let mut letters = root.chars().rev();
            let is_doubled = letters.next() == letters.next();
            verbs.contains(root) || (is_doubled && verbs.contains(&root[..root.len() - 1]))
        })
    }

    fn is_end(&self) -> bool {
        // What somebody advises stays their advice, whatever the user stops doing.
        let is_advice = self.known.has("advice") && !self.known.is_of_user();
        if is_advice && !self.has_one_subject() {
            return false;
        }
        self.new.places(&[Kind::End]).any(|at| self.is_beside(at) || self.is_end_of_doing(at))
    }

    /// Whether an activity that had ended goes on: "stopped running", "runs".
    fn is_resumed(&self) -> bool {
        let before = Pair { new: self.known, known: self.new };
        self.new.places(&[Kind::End]).next().is_none()
            && self.has_one_subject()
            && before.new.places(&[Kind::End]).any(|at| before.is_end_of_doing(at))
    }

    fn is_change(&self) -> bool {
        let has_value = self.known.places(&[Kind::Value]).next().is_some();
        let verbs = self.known.stems(&[Kind::Verb]);
        let has_verb = || {
            self.has_one_subject()
                && self.new.stems(&[Kind::Verb]).iter().any(|verb| verbs.contains(verb))
        };
        let (subject, known_subject) = (self.new.subject(), self.known.subject());
        let known = self.known.stems(&[Kind::Content]);
        let has_thing = || {
            let mut things = self.new.stems(&[Kind::Content]).into_iter();
            things.any(|thing| {
                known.contains(thing) && !(subject.contains(thing) && known_subject.contains(thing))
            })
        };
        let is_new = |at: usize| self.new.words[at].folded == "new";
        let is_turn = |at: usize| {
            let is_whole = matches!(self.new.words[at].folded.as_str(), "now" | "instead");
            self.is_beside(at) || (is_whole && (has_verb() || has_thing()))
        };
        let changes = || self.new.places(&[Kind::Change]).filter(|at| is_turn(*at));
        // What is new is the thing itself: "a new oven".
        changes().any(is_new)
            || (changes().next().is_some() && is_same(self.new, self.known))
            || (has_value && self.new.places(&[Kind::Moved]).any(|at| self.is_beside(at)))
    }

    fn is_value(&self) -> bool {
        let differs = self.new.values().iter().any(|kind| self.known.values().contains(kind))
            && !gives_another_value(self.new, self.known);
        let kinds = [Kind::Content, Kind::Verb];
        let (new, known) = (self.new.stems(&kinds), self.known.stems(&kinds));
        let content = self.known.stems(&[Kind::Content]);
        let shared = new.intersection(&known).count();
        let things = new.intersection(&content).count();
        let is_rewording = new.is_subset(&known) || known.is_subset(&new);
        // "The user is 58", "turned 59"
        let is_age = |told: &TaggedStatement<'_>| {
            let is_last = |word: &Word<'_>| word.has_digit();
            told.is_of_user() && told.words.len() <= 4 && told.words.last().is_some_and(is_last)
        };
        let is_older = is_age(self.known) && self.new.words.iter().any(|w| w.folded == "turned");
        let is_same = things > 0 || (shared > 0 && self.has_one_subject());
        (differs && ((is_same && is_rewording) || things > 1 || is_older))
            || (self.has_one_subject() && is_another_rate(self.new, self.known))
    }

    /// Whether they differ in one place, and speak of the same things around it.
    fn is_frame(&self) -> bool {
        let (new, known) = (&self.new.words, &self.known.words);
        let is_equal = |(l, r): &(&Word<'_>, &Word<'_>)| l.folded == r.folded;
        let begin = new.iter().zip(known).take_while(is_equal).count();
        let end = new.iter().rev().zip(known.iter().rev()).take_while(is_equal).count();
        let shortest = new.len().min(known.len());
        let end = end.min(shortest.saturating_sub(begin));
        let is_small = [new, known].iter().all(|words| words.len() - begin - end <= FRAME);
        // "The user has a friend called Ana": there can be others.
        let has = |told: &TaggedStatement<'_>| {
            told.words.iter().any(|word| word.folded == "has" || word.is_in(List::Relation))
        };
        let ends_with_name = |words: &[Word<'_>]| words[begin..].iter().all(Word::is_capitalised);
        let are_names = end == 0 && ends_with_name(new) && ends_with_name(known) && !has(self.new);
        // The subject alone has more than one attribute.
        let of_things = if self.new.is_of_user() && !are_names { 2 } else { 1 };
        let is_thing = |at: &usize| {
            self.new.kinds[*at] == Kind::Content && (*at < begin || *at >= new.len() - end)
        };
        let things = (self.new.predicate + 1..new.len()).filter(is_thing).count();
        begin > 0 && is_small && begin >= self.new.predicate && things >= of_things
    }

    /// Whether the new one speaks of all that the known one speaks of.
    fn is_covered(&self) -> bool {
        let is_part = |kinds: &[Kind]| self.known.stems(kinds).is_subset(&self.new.stems(kinds));
        let things = self.known.stems(&[Kind::Content]).len();
        is_part(&[Kind::Content])
            && (things > 1 || (things == 1 && is_part(&[Kind::Verb]) && is_part(&[Kind::Value])))
            && self.has_one_subject()
    }

    fn is_attribute(&self) -> bool {
        let copula = |told: &TaggedStatement<'_>| {
            told.words.iter().position(|word| matches!(word.folded.as_str(), "is" | "are" | "was"))
        };
        let (Some(new), Some(known)) = (copula(self.new), copula(self.known)) else { return false };
        let left = |told: &TaggedStatement<'_>, end: usize| -> Vec<String> {
            let is_told = |word: &&Word<'_>| word.folded != "new" && word.folded != "current";
            told.words[..end].iter().filter(is_told).map(|word| word.folded.clone()).collect()
        };
        let (left_new, left_known) = (left(self.new, new), left(self.known, known));
        // "is Karen", "is with Karen"
        let is_name = |told: &TaggedStatement<'_>, at: usize| {
            told.words[at + 1..].iter().take(2).any(|word| word.is_capitalised())
        };
        let is_attribute = left_new.iter().any(|word| !lines("attribute", word).is_empty());
        let are_names = is_name(self.new, new) && is_name(self.known, known);
        // "The roof is green now"
        let is_now = self.new.words.last().is_some_and(|word| word.folded == "now");
        left_new == left_known && (is_now || (left_new.len() > 1 && (is_attribute || are_names)))
    }

    fn is_role(&self) -> bool {
        let roles = self.new.lines("role");
        let names = |told: &TaggedStatement<'_>| -> HashSet<String> {
            let is_name = |word: &&Word<'_>| word.is_capitalised() && word.folded != "user";
            told.words.iter().filter(is_name).map(|word| word.folded.clone()).collect()
        };
        // "The coach of the user's sister", beside "the user's coach"
        if let (Some(new), Some(known)) = (Role::of(&self.new.words), Role::of(&self.known.words))
            && new.is_own != known.is_own
        {
            return false;
        }
        let (new, known) = (names(self.new), names(self.known));
        self.known.lines("role").iter().any(|line| roles.contains(line))
            && new.difference(&known).next().is_some()
            && known.difference(&new).next().is_some()
    }

    fn is_denial(&self) -> bool {
        let content = self.known.stems(&[Kind::Content]);
        let things = self.new.stems(&[Kind::Content]);
        let shared = things.intersection(&content).count();
        let turns = |yes: &str, no: &str| {
            (self.new.has(yes) && self.known.has(no)) || (self.new.has(no) && self.known.has(yes))
        };
        let is_allowed = turns("allow", "forbid");
        let is_denied =
            self.new.is_negated() != self.known.is_negated() || turns("like", "dislike");
        // "The campsite forbids fires", "fires are allowed at the campsite"
        let is_one = self.has_one_subject() && says_of_both(self.new, self.known);
        (is_one && shared > 0 && (is_denied || is_allowed)) || (shared > 1 && is_allowed)
    }
}

#[cfg(test)]
#[path = "attributes_tests.rs"]
mod tests;
