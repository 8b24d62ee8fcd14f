//! Tests of what decisions come to. Memories are written as texts, decisions as in an answer.

use proptest::prelude::*;

use super::*;
use crate::reconcile::parse;

const SINCE: &str = "2024-05-03";

fn plan_of(existing: &[&str], new: &[&str], answer: &str) -> Plan {
    let count = |texts: &[&str]| u32::try_from(texts.len()).unwrap();
    let decisions = parse(answer, count(existing), count(new)).unwrap();
    let existing: Vec<_> =
        existing.iter().map(|content| Existing { content, since: SINCE }).collect();
    let new: Vec<_> = new.iter().map(|content| New { content, since: SINCE }).collect();
    plan(&decisions, &existing, &new)
}

fn update(existing: usize, text: &str, from: &[usize]) -> Update {
    Update { existing, text: text.to_owned(), from: from.to_vec() }
}

#[test]
fn an_update_replaces_the_memory_and_takes_up_the_fact() {
    let plan = plan_of(
        &["The user lives in Rome", "The user has a dog"],
        &["The user lives in Paris now", "The user plays chess"],
        r#"[{"id":1,"event":"UPDATE","text":"The user lives in Paris","from":[3]},
            {"id":2,"event":"NONE"},{"id":3,"event":"NONE"},{"id":4,"event":"ADD"}]"#,
    );
    let update = vec![update(0, "The user lives in Paris", &[0])];
    assert_eq!(plan, Plan { add: vec![1], update, ..Plan::default() });
}

#[test]
fn a_deletion_keeps_the_fact_that_contradicts() {
    for event in [
        r#"{"id":2,"event":"ADD"}"#,
        r#"{"id":2,"event":"NONE"}"#,
        r#"{"id":2,"event":"NONE","same_as":1}"#,
        r#"{"id":1,"event":"DELETE","from":[2]}"#,
    ] {
        let answer = format!(r#"[{{"id":1,"event":"DELETE","from":[2]}},{event}]"#);
        let plan = plan_of(&["The user loves pizza"], &["The user hates pizza"], &answer);
        let delete = vec![Deletion { existing: 0, because_of: vec![0] }];
        assert_eq!(plan, Plan { add: vec![0], delete, ..Plan::default() }, "{event}");
    }
}

#[test]
fn a_deletion_that_names_no_fact_is_attributed_to_the_one_with_its_words() {
    let known = ["The user loves pizza"];
    let answer = r#"[{"id":1,"event":"DELETE"}]"#;
    let because_of = |new: &[&str]| {
        let plan = plan_of(&known, new, answer);
        assert_eq!(plan.add.len(), new.len());
        plan.delete[0].because_of.clone()
    };
    assert_eq!(because_of(&["The user has a cat", "The user hates pizza"]), [1]);
    assert_eq!(because_of(&["Pineapple makes him sick"]), [0]);
    assert!(because_of(&["He hates cheese", "Bob is 40"]).is_empty());
}

#[test]
fn a_fact_may_replace_one_memory_and_contradict_another() {
    let plan = plan_of(
        &["The user lives in Rome", "Rome is the user's home"],
        &["The user lives in Paris"],
        r#"[{"id":1,"event":"UPDATE","text":"The user lives in Paris","from":[3]},
            {"id":2,"event":"DELETE","from":[3]}]"#,
    );
    let update = vec![update(0, "The user lives in Paris", &[0])];
    let delete = vec![Deletion { existing: 1, because_of: vec![0] }];
    assert_eq!(plan, Plan { update, delete, ..Plan::default() });
}

#[test]
fn a_repetition_of_a_memory_that_stays_is_the_same() {
    let answer = r#"[{"id":1,"event":"NONE"},{"id":2,"event":"NONE","same_as":1}]"#;
    let plan = plan_of(&["The user lives in Rome"], &["Rome is the user's home"], answer);
    assert_eq!(plan, Plan { same: vec![(0, 0)], ..Plan::default() });
}

#[test]
fn none_without_a_named_memory_is_believed_only_of_repetitions() {
    let answer = r#"[{"id":1,"event":"NONE"},{"id":2,"event":"NONE"},{"id":3,"event":"NONE"}]"#;
    let known = ["Bob works at Acme", "The user lives in Rome."];
    assert_eq!(plan_of(&known, &["The user lives in Rome"], answer).same, [(0, 1)]);
    for lost in ["The user lives in Paris", "The user lives in Rome with a cat", "Anna is ill"] {
        assert_eq!(plan_of(&known, &[lost], answer).add, [0], "{lost}");
    }
}

#[test]
fn facts_that_the_answer_forgets_are_added() {
    let plan = plan_of(
        &["The user has a dog"],
        &["The user has a dog", "b"],
        r#"[{"id":1,"event":"NONE"}]"#,
    );
    assert_eq!(plan.add, [0, 1]);
}

#[test]
fn an_update_that_names_no_fact_takes_up_the_one_with_its_words() {
    let known = ["The user lives in Rome"];
    let answer = |events: &str| {
        format!(r#"[{{"id":1,"event":"UPDATE","text":"The user lives in Paris"}}{events}]"#)
    };
    let new = ["The user plays chess", "The user moved to Paris"];
    let plan = plan_of(&known, &new, &answer(""));
    assert_eq!(plan.update, [update(0, "The user lives in Paris", &[1])]);
    assert_eq!(plan.add, [0]);
    // The words that the old memory has too do not count.
    let known_too = ["The user lives in Rome or Paris"];
    let plan = plan_of(&known_too, &new[..1], &answer(""));
    assert_eq!(plan.update, [update(0, "The user lives in Paris", &[])]);
    assert_eq!(plan.add, [0]);
    // A fact that is added by name stays a fact of its own.
    let plan = plan_of(&known, &new, &answer(r#",{"id":3,"event":"ADD"}"#));
    assert_eq!(plan.update, [update(0, "The user lives in Paris", &[])]);
    assert_eq!(plan.add, [0, 1]);
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
        let answer = format!(r#"[{{"id":1,"event":"UPDATE","text":"{text}","from":[2]}}]"#);
        let expected = if is_invented {
            Plan { add: vec![0], ..Plan::default() }
        } else {
            Plan { update: vec![update(0, text, &[0])], ..Plan::default() }
        };
        assert_eq!(plan_of(&known, &new, &answer), expected, "{text}");
    }
}

#[test]
fn one_fact_may_be_part_of_several_updates() {
    let plan = plan_of(
        &["The user lives in Rome", "The user works in Rome"],
        &["The user lives and works in Paris"],
        r#"[{"id":1,"event":"UPDATE","text":"The user lives in Paris","from":[3]},
            {"id":2,"event":"UPDATE","text":"The user works in Paris","from":[3]},
            {"id":3,"event":"ADD"}]"#,
    );
    let update = vec![
        update(0, "The user lives in Paris", &[0]),
        update(1, "The user works in Paris", &[0]),
    ];
    assert_eq!(plan, Plan { update, ..Plan::default() });
}

#[test]
fn an_update_to_the_same_text_is_none() {
    let answer = r#"[{"id":1,"event":"UPDATE","text":" The user has a dog","from":[2,3]}]"#;
    let new = ["The user has a dog.", "The user has a cat"];
    let plan = plan_of(&["The user has a dog"], &new, answer);
    assert_eq!(plan, Plan { add: vec![1], same: vec![(0, 0)], ..Plan::default() });
}

#[test]
fn a_repetition_shares_what_happens_to_its_memory() {
    let new = ["The user lives in Rome", "The user lives in Paris"];
    let same = r#"{"id":2,"event":"NONE","same_as":1}"#;
    let updated = format!(r#"[{{"id":1,"event":"UPDATE","text":"{}","from":[3]}},{same}]"#, new[1]);
    let plan = plan_of(&new[..1], &new, &updated);
    assert_eq!(plan, Plan { update: vec![update(0, new[1], &[0, 1])], ..Plan::default() });
    // Of a deleted memory nothing is left that the fact could be the same as.
    let plan =
        plan_of(&new[..1], &new, &format!(r#"[{{"id":1,"event":"DELETE","from":[3]}},{same}]"#));
    let delete = vec![Deletion { existing: 0, because_of: vec![1] }];
    assert_eq!(plan, Plan { add: vec![0, 1], delete, ..Plan::default() });
}

#[test]
fn a_repetition_of_another_new_fact_follows_it() {
    let known = ["The user has a dog"];
    let new = ["The dog is ill", "The user's dog is ill"];
    let repeats = r#"{"id":3,"event":"NONE","same_as":2}"#;
    for (first, expected) in [
        (
            r#"{"id":1,"event":"UPDATE","text":"The user has an ill dog","from":[2]}"#,
            Plan { update: vec![update(0, "The user has an ill dog", &[0, 1])], ..Plan::default() },
        ),
        (
            r#"{"id":1,"event":"NONE"},{"id":2,"event":"NONE","same_as":1}"#,
            Plan { same: vec![(0, 0), (1, 0)], ..Plan::default() },
        ),
        (
            r#"{"id":1,"event":"NONE"},{"id":2,"event":"ADD"}"#,
            Plan { add: vec![0, 1], ..Plan::default() },
        ),
        (
            r#"{"id":1,"event":"NONE"},{"id":2,"event":"NONE","same_as":3}"#,
            Plan { add: vec![0, 1], ..Plan::default() },
        ),
    ] {
        assert_eq!(plan_of(&known, &new, &format!("[{first},{repeats}]")), expected, "{first}");
    }
}

fn event() -> impl Strategy<Value = Event> {
    let ids = || prop::collection::vec(0..10_u32, 0..3);
    prop_oneof![
        Just(Event::Add),
        ("(Anna|Bob) (likes|has) (tea|a dog)", ids())
            .prop_map(|(text, from)| Event::Update { text, from }),
        ids().prop_map(|because_of| Event::Delete { because_of }),
        prop::option::of(0..10_u32).prop_map(|same_as| Event::None { same_as }),
    ]
}

proptest! {
    #[test]
    fn whatever_is_decided_no_fact_is_lost(
        decisions in prop::collection::vec((0..10_u32, event()), 0..12),
        known in prop::collection::vec("(Anna|Bob) (likes|has) (tea|a dog)", 0..5),
        facts in prop::collection::vec("(Anna|Bob) (likes|has) (tea|a dog)", 0..5),
    ) {
        let decisions: Vec<_> =
            decisions.into_iter().map(|(id, event)| Decision { id, event }).collect();
        let existing: Vec<_> = known.iter().map(|content| Existing { content, since: SINCE }).collect();
        let new: Vec<_> = facts.iter().map(|content| New { content, since: SINCE }).collect();
        let plan = plan(&decisions, &existing, &new);

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
        for deletion in &plan.delete {
            for reason in &deletion.because_of {
                prop_assert!(plan.same.iter().all(|(new, _)| new != reason));
            }
        }
    }
}
