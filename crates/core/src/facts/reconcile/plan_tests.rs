//! Tests of what decisions come to. Memories are written as texts, choices as in an answer.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::facts::reconcile::parse;

const SINCE: &str = "2024-05-03";

/// The plan of one choice for each fact; "" leaves it out, and what follows a colon is the text. The model is trusted.
fn plan_of(existing: &[&str], new: &[&str], choices: &[&str]) -> Plan {
    plan_of_a_model(existing, new, choices, true)
}

fn plan_of_a_model(existing: &[&str], new: &[&str], choices: &[&str], trusted: bool) -> Plan {
    let decisions = (1..).zip(choices).filter(|(_, choice)| !choice.is_empty());
    let answer = decisions.map(|(fact, choice)| {
        let (choice, text) = choice.split_once(": ").unwrap_or((choice, ""));
        json!({"fact": fact, "choice": choice, "text": text})
    });
    let answer = json!({"decisions": answer.collect::<Vec<_>>()}).to_string();
    let count = |texts: &[&str]| u32::try_from(texts.len()).unwrap();
    let decisions = parse(&answer, count(existing), count(new)).unwrap();
    let existing: Vec<_> =
        existing.iter().map(|content| DatedFact { content, since: SINCE }).collect();
    let new: Vec<_> = new.iter().map(|content| DatedFact { content, since: SINCE }).collect();
    plan(&decisions, &existing, &new, trusted)
}

fn update(existing: usize, text: &str, from: &[usize]) -> Update {
    Update { existing, text: text.to_owned(), from: from.to_vec() }
}

fn added(facts: &[usize]) -> Plan {
    Plan { add: facts.to_vec(), ..Plan::default() }
}

#[test]
fn a_replacement_has_the_words_of_the_fact() {
    let plan = plan_of(
        &["The user lives in Rome", "The user has a dog"],
        &["The user lives in Paris now", "The user plays chess"],
        &["replaces 1", "new"],
    );
    let update = vec![update(0, "The user lives in Paris now", &[0])];
    assert_eq!(plan, Plan { add: vec![1], update, ..Plan::default() });
}

#[test]
fn a_replacement_may_keep_what_still_holds() {
    let text = "The user lives in Paris with Jonas";
    let plan = plan_of(
        &["The user lives in Rome with Jonas"],
        &["The user moved to Paris"],
        &[&format!("replaces 1: {text}")],
    );
    assert_eq!(plan, Plan { update: vec![update(0, text, &[0])], ..Plan::default() });
}

#[test]
fn what_ends_a_memory_is_kept() {
    let plan = plan_of(&["The user loves pizza"], &["The user hates pizza"], &["ends 1"]);
    let delete = vec![Deletion { existing: 0, because_of: vec![0] }];
    assert_eq!(plan, Plan { add: vec![0], delete, ..Plan::default() });
}

#[test]
fn a_repetition_of_a_memory_that_stays_is_the_same() {
    let plan =
        plan_of(&["The user lives in Rome"], &["Rome is where the user lives"], &["same as 1"]);
    assert_eq!(plan, Plan { same: vec![(0, 0)], ..Plan::default() });
}

/// What a memory does not say would be lost with the fact.
#[test]
fn a_fact_with_more_than_the_memory_is_not_the_same() {
    for (known, new) in [
        ("The user's rent is 900 euros", "The user's rent is 950 euros"),
        ("The user lives in Rome", "The user lives in Paris"),
        ("The user has a dog", "The user has a dog named Rex"),
        ("The user eats meat", "The user does not eat meat"),
        ("The user does not eat meat", "The user eats meat"),
        ("The user's exam is on 2024-05-03", "The user's exam is on 2024-06-03"),
        ("The user is a nurse", "The user's wife is a nurse"),
        (
            "The user has an eye exam on 2024-05-03",
            "The user has a dentist appointment on 2024-05-03",
        ),
    ] {
        assert_eq!(plan_of(&[known], &[new], &["same as 1"]), added(&[0]), "{new}");
    }
}

/// The rule for what an answer leaves out, and for answers that cannot be used.
#[test]
fn without_a_decision_only_a_repetition_is_the_same() {
    let known = ["Bob works at Acme", "The user lives in Rome."];
    assert_eq!(plan_of(&known, &["The user lives in Rome"], &[]).same, [(0, 1)]);
    for lost in ["The user lives in Paris", "The user lives in Rome with a cat", "Anna is ill"] {
        assert_eq!(plan_of(&known, &[lost], &[]), added(&[0]), "{lost}");
    }
}

#[test]
fn a_replacement_that_changes_nothing_is_the_same() {
    for choice in ["replaces 1", "ends 1", "replaces 1: The user has a dog."] {
        let plan = plan_of(&["The user has a dog."], &["The user has a dog"], &[choice]);
        assert_eq!(plan, Plan { same: vec![(0, 0)], ..Plan::default() }, "{choice}");
    }
    // The old text does not say what the fact says: both stay.
    let choice = "replaces 1: The user has a dog";
    assert_eq!(plan_of(&["The user has a dog"], &["The user has a cat"], &[choice]), added(&[0]));
}

/// Small models choose a memory although none is meant.
#[test]
fn what_a_model_chooses_that_is_not_trusted_is_a_doubt() {
    let (known, new) = ("The user lives in Rome", "The user lives in Paris");
    let doubted = Plan { add: vec![0], doubted: vec![(0, 0)], ..Plan::default() };
    for choice in ["replaces 1", "ends 1", "replaces 1: The user lives in Paris now"] {
        assert_eq!(plan_of_a_model(&[known], &[new], &[choice], false), doubted, "{choice}");
    }
    let same = plan_of_a_model(&[known], &["The user lives in Rome."], &["ends 1"], false);
    assert_eq!(same, Plan { same: vec![(0, 0)], ..Plan::default() });
}

#[test]
fn an_update_to_what_nobody_said_is_none() {
    let known = ["The user's dog Rex is 3 years old"];
    let new = ["The user's dog Rex is 4 years old"];
    for (text, is_invented) in [
        ("The user's dog Rex is 4 years old", false),
        ("The user's dog Rex is 4 years old, no longer 3", false),
        ("The user's dog Max is 4 years old", true),
        ("The user's dog Rex is 5 years old", true),
        ("The user's dog Rex is 4 years old since 2019-01-01", true),
    ] {
        let expected = if is_invented {
            added(&[0])
        } else {
            Plan { update: vec![update(0, text, &[0])], ..Plan::default() }
        };
        assert_eq!(plan_of(&known, &new, &[&format!("replaces 1: {text}")]), expected, "{text}");
    }
}

/// What replaces a memory is not what the new fact denies, nor the other way round.
#[test]
fn of_an_update_to_the_contrary_the_fact_takes_the_place() {
    for (known, new, text) in [
        (
            "The user lives in Hamburg",
            "The user lives in Lisbon",
            "The user does not live in Lisbon",
        ),
        ("The user eats meat daily", "The user does not eat meat", "The user eats meat"),
        ("The user drives to work", "The user no longer drives to work", "The user cycles to work"),
    ] {
        let plan = plan_of(&[known], &[new], &[&format!("replaces 1: {text}")]);
        let expected = Plan { update: vec![update(0, new, &[0])], ..Plan::default() };
        assert_eq!(plan, expected, "{text}");
    }
    let text = "The user lives in Lisbon and no longer in Hamburg";
    let (known, new) = ("The user lives in Hamburg", "The user lives in Lisbon");
    let plan = plan_of(&[known], &[new], &[&format!("replaces 1: {text}")]);
    assert_eq!(plan, Plan { update: vec![update(0, text, &[0])], ..Plan::default() });
}

#[test]
fn a_memory_is_replaced_once() {
    let known = ["The user lives in Rome"];
    let new = ["The user lives in Paris", "The user moved to a flat in Paris"];
    let first = vec![update(0, new[0], &[0])];
    for second in ["replaces 1", "ends 1"] {
        let plan = plan_of(&known, &new, &["replaces 1", second]);
        assert_eq!(plan, Plan { add: vec![1], update: first.clone(), ..Plan::default() });
    }
    let plan = plan_of(&known, &new, &["ends 1", "replaces 1"]);
    let delete = vec![Deletion { existing: 0, because_of: vec![0] }];
    assert_eq!(plan, Plan { add: vec![0, 1], delete, ..Plan::default() });
    // The same new text takes up both.
    let text = "replaces 1: The user lives in a flat in Paris";
    let plan = plan_of(&known, &new, &[text, text]);
    let both = vec![update(0, "The user lives in a flat in Paris", &[0, 1])];
    assert_eq!(plan, Plan { update: both, ..Plan::default() });
}

#[test]
fn a_repetition_shares_what_happens_to_its_memory() {
    let new = ["The user lives in Rome", "The user lives in Paris"];
    let plan = plan_of(&new[..1], &new, &["same as 1", "replaces 1"]);
    assert_eq!(plan, Plan { update: vec![update(0, new[1], &[0, 1])], ..Plan::default() });
    // Of a memory that ends nothing is left that the fact could be the same as.
    let plan = plan_of(&new[..1], &new, &["same as 1", "ends 1"]);
    let delete = vec![Deletion { existing: 0, because_of: vec![1] }];
    assert_eq!(plan, Plan { add: vec![0, 1], delete, ..Plan::default() });
}

fn choice() -> impl Strategy<Value = Choice> {
    let id = || 0..8_u32;
    prop_oneof![
        Just(Choice::New),
        id().prop_map(Choice::Same),
        id().prop_map(Choice::Ends),
        (id(), prop::option::of("(Anna|Bob) (likes|has) (tea|a dog)"))
            .prop_map(|(memory, text)| Choice::Replaces { memory, text }),
    ]
}

proptest! {
    #[test]
    fn whatever_is_decided_no_fact_is_lost(
        decisions in prop::collection::vec((0..8_u32, choice()), 0..12),
        known in prop::collection::vec("(Anna|Bob) (likes|has) (tea|a dog)", 0..5),
        facts in prop::collection::vec("(Anna|Bob) (likes|has) (tea|a dog)", 0..5),
        trusted: bool,
    ) {
        let decisions: Vec<_> =
            decisions.into_iter().map(|(fact, choice)| Decision { fact, choice }).collect();
        let existing: Vec<_> = known.iter().map(|content| DatedFact { content, since: SINCE }).collect();
        let new: Vec<_> = facts.iter().map(|content| DatedFact { content, since: SINCE }).collect();
        let plan = plan(&decisions, &existing, &new, trusted);
        prop_assert!(trusted || plan.update.is_empty() && plan.delete.is_empty());
        prop_assert!(!trusted || plan.doubted.is_empty());

        for index in 0..new.len() {
            let is_updated = plan.update.iter().any(|update| update.from.contains(&index));
            let same = plan.same.iter().filter(|(new, _)| *new == index).count();
            let added = plan.add.iter().filter(|new| **new == index).count();
            prop_assert_eq!(usize::from(is_updated) + same + added, 1, "{}: {:?}", index, plan);
        }
        let mut touched: Vec<_> = plan.update.iter().map(|update| update.existing)
            .chain(plan.delete.iter().map(|deletion| deletion.existing))
            .collect();
        let all = touched.len();
        touched.sort_unstable();
        touched.dedup();
        prop_assert_eq!(touched.len(), all);
        prop_assert!(touched.iter().all(|index| *index < existing.len()));
        // A memory that a fact is the same as stays.
        for (_, index) in &plan.same {
            prop_assert!(*index < existing.len() && !touched.contains(index));
        }
        // There is a reason for each change.
        prop_assert!(plan.delete.iter().all(|deletion| !deletion.because_of.is_empty()));
        prop_assert!(plan.update.iter().all(|update| !update.from.is_empty()));
        for deletion in &plan.delete {
            for reason in &deletion.because_of {
                prop_assert!(plan.same.iter().all(|(new, _)| new != reason));
            }
        }
    }
}
