//! Whether two statements about one thing speak of the same property of it: who has eight goats now says
//! nothing of how much milk they give, and who was promoted may still be somebody's niece.
//!
//! A property is known by what is counted or measured, by the words that a line of `attributes.txt` has for
//! it, or by the words that both statements have in common behind their subjects.

use std::collections::HashSet;

use super::dates::WEEKDAYS;
use super::numbers::numbers;
use super::tagged_statement::{Kind, TaggedStatement, lines};
use super::words::{List, Word, is_currency, stem};

/// What stands before a time of the day that has no colon.
const BEFORE_TIME: [&str; 5] = ["at", "since", "until", "from", "before"];

/// What follows an amount that is given for each of these.
const SPANS: [&str; 5] = ["hour", "day", "week", "month", "year"];

/// What a statement gives a value of.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Slot<'a> {
    Time,
    Date,
    /// The line of a unit, and that of the unit of time that it is counted in: pounds an hour.
    Amount(usize, Option<usize>),
    /// How many there are of what.
    Count(&'a str),
}

fn slots<'a>(told: &'a TaggedStatement<'_>) -> HashSet<Slot<'a>> {
    let values = told.values();
    let mut slots = HashSet::new();
    if values.contains("date") {
        slots.insert(Slot::Date);
    }
    let is_value = |at: usize| told.kinds.get(at) == Some(&Kind::Value);
    for number in numbers(&told.words, false) {
        let (at, end) = (number.at, number.at + number.words);
        let unit_at = |at: usize| {
            told.words.get(at).and_then(|word| List::Unit.lines(&word.folded).first().copied())
        };
        let is_span = |at: usize| {
            told.words.get(at).is_some_and(|word| SPANS.contains(&word.folded.as_str()))
        };
        let before = at.checked_sub(1).map_or("", |at| told.words[at].folded.as_str());
        // "£15.20" is no time.
        let currency = told.words[at].raw.chars().find(|c| is_currency(*c));
        let line = |sign: char| List::Unit.lines(&sign.to_string()).first().copied();
        let slot = match currency.and_then(line).or(number.unit) {
            None if number.is_time => Slot::Time,
            // "900 a month"
            Some(_) if currency.is_none() && number.value > 1.0 && is_span(end) => continue,
            Some(unit) => {
                slots.insert(Slot::Amount(unit, None));
                let own = usize::from(unit_at(end) == Some(unit));
                Slot::Amount(unit, unit_at(end + own))
            }
            // "the 12th", "18 June"
            None if values.contains("date") && (is_value(end) || at > 0 && is_value(at - 1)) => {
                Slot::Date
            }
            None if told.words[at].folded.ends_with("th") => Slot::Date,
            None if BEFORE_TIME.contains(&before) => Slot::Time,
            None => match told.words.get(end) {
                Some(word) if told.kinds[end] == Kind::Content => Slot::Count(stem(&word.folded)),
                _ => continue,
            },
        };
        slots.insert(slot);
    }
    slots
}

/// The lines of what there is one of at a time that a statement has a word of.
pub(super) fn classes(told: &TaggedStatement<'_>) -> HashSet<usize> {
    &told.lines("single") | &told.lines("weak")
}

/// Whether they say what somebody is and becomes: "Lorna is a cashier", "was promoted to store manager".
pub(super) fn is_calling(new: &TaggedStatement<'_>, known: &TaggedStatement<'_>) -> bool {
    // "He became a father"
    let mut said = new.words[new.predicate..].iter();
    (known.has("trade") || (known.is_calling && classes(known).is_empty()))
        && new.has("calling")
        && !said.any(|word| word.is_in(List::Relation) && lines("single", &word.folded).is_empty())
}

/// Whether a statement says what somebody or something has.
fn possesses(told: &TaggedStatement<'_>) -> bool {
    let is = |list: &str, at: usize| {
        told.words.get(at).is_some_and(|word| !lines(list, &word.folded).is_empty())
    };
    // "has become", "has been promoted"
    let is_auxiliary = |at: usize| {
        let is_turn = matches!(told.kinds.get(at), Some(Kind::Change | Kind::End | Kind::Moved))
            && told.words[at].folded != "new";
        is_turn || is("copula", at) || is("verb", at)
    };
    (0..told.words.len()).any(|at| is("possession", at) && !is_auxiliary(at + 1))
}

/// What is said of the subject: the stems of its words, without verbs that say nothing.
fn said<'a>(told: &'a TaggedStatement<'_>) -> HashSet<&'a str> {
    let is_light = |word: &Word<'_>| {
        ["copula", "possession"].iter().any(|list| !lines(list, &word.folded).is_empty())
    };
    let begin = if told.is_of_user() { 1 } else { told.predicate };
    told.places(&[Kind::Content, Kind::Verb])
        .filter(|at| *at >= begin && !is_light(&told.words[*at]))
        .map(|at| stem(&told.words[at].folded))
        .collect()
}

/// Whether both give values, of which none are of the same thing: "feeds the horses at six", "has four horses".
pub(super) fn gives_another_value(new: &TaggedStatement<'_>, known: &TaggedStatement<'_>) -> bool {
    let (new, known) = (slots(new), slots(known));
    !new.is_empty() && !known.is_empty() && new.is_disjoint(&known)
}

/// Whether a statement says in a word or two what somebody or something is: "is brown", "is now a florist".
fn is_state(told: &TaggedStatement<'_>) -> bool {
    let is_copula = |word: &Word<'_>| !lines("copula", &word.folded).is_empty();
    let Some(copula) = told.words.iter().position(is_copula) else { return false };
    let mut said = (copula + 1..told.words.len()).filter(|at| told.words[*at].folded != "now");
    let is_plain =
        |at: usize| told.kinds[at] == Kind::Content && !told.words[at].is_in(List::Relation);
    let length = said.clone().count();
    matches!(length, 1 | 2) && said.all(is_plain)
}

/// Whether what both say of their subjects has a word in common that is not their subject itself.
pub(super) fn says_of_both(new: &TaggedStatement<'_>, known: &TaggedStatement<'_>) -> bool {
    let subject = &new.subject() & &known.subject();
    (&said(new) & &said(known)).iter().any(|word| !subject.contains(word))
}

/// Whether `new`, which tells of a change, can speak of the same property as `known`.
pub(super) fn is_same(new: &TaggedStatement<'_>, known: &TaggedStatement<'_>) -> bool {
    let (values, known_values) = (slots(new), slots(known));
    let several = new.lines("several");
    if !values.is_disjoint(&known_values)
        || !classes(new).is_disjoint(&classes(known))
        || is_calling(new, known)
        || !several.is_disjoint(&known.lines("several"))
    {
        return true;
    }
    if gives_another_value(new, known) {
        return false;
    }
    if possesses(new) && !possesses(known) && !known.has("plan") {
        return false;
    }
    if says_of_both(new, known) {
        return true;
    }
    let (subject, known_subject) = (new.subject(), known.subject());
    let (said, known_said) = (said(new), said(known));
    // "The workshop has become a stall", "Grafana was replaced by Datadog"
    let is_person = (0..new.predicate)
        .any(|at| new.words[at].is_capitalised() || new.words[at].is_in(List::Relation));
    let is_of_person = is_person && !new.lines("single").is_empty();
    (is_state(new) && is_state(known) && new.is_calling == known.is_calling)
        || (!subject.is_disjoint(&(&known_said - &known_subject)) && !is_of_person)
        || !known_subject.is_disjoint(&(&said - &subject))
        // "The office moved to the harbour"
        || (new.has("exchange") && !is_person && known.has("copula"))
        || (new.has("place") && !is_person && (!known_values.is_empty() || known.has("where")))
}

/// Whether both say when or where the same event is: "will be held on March 3", "is scheduled for March 10".
pub(super) fn is_same_event(new: &TaggedStatement<'_>, known: &TaggedStatement<'_>) -> bool {
    let is_planned = |told: &TaggedStatement<'_>| told.has("schedule");
    let is_told = |told: &TaggedStatement<'_>| is_planned(told) || told.has("copula");
    let is_where = |told: &TaggedStatement<'_>| {
        let mut places = (told.predicate..told.words.len())
            .filter(|at| matches!(told.words[*at].folded.as_str(), "in" | "at"));
        places.any(|at| matches!(told.kinds.get(at + 1), Some(Kind::Content | Kind::Change)))
    };
    // "On Mondays" says nothing of the day on which it begins.
    let is_weekly = |told: &TaggedStatement<'_>| {
        told.words
            .iter()
            .any(|word| word.folded.strip_suffix('s').is_some_and(|day| WEEKDAYS.contains(&day)))
    };
    let shared = &slots(new) & &slots(known);
    let is_when = shared.contains(&Slot::Time)
        || (shared.contains(&Slot::Date) && is_weekly(new) == is_weekly(known));
    (is_planned(new) || is_planned(known))
        && is_told(new)
        && is_told(known)
        && !new.subject().is_empty()
        && (is_when || (is_where(new) && is_where(known)))
}

/// Whether the new one is only another rate of pay: "gets 14.50 pounds an hour".
pub(super) fn is_another_rate(new: &TaggedStatement<'_>, known: &TaggedStatement<'_>) -> bool {
    let rates = |told| -> HashSet<Slot<'_>> {
        let is_rate = |slot: &Slot<'_>| matches!(slot, Slot::Amount(_, Some(_)));
        slots(told).into_iter().filter(is_rate).collect()
    };
    let is_bare = new.places(&[Kind::Content]).all(|at| at < new.predicate);
    is_bare && !rates(new).is_disjoint(&rates(known))
}
