//! What talks hold, and that a model of them is possible: their statements are told apart.

use super::*;
use memory_agent_core::facts::same::says_the_same;

fn talks() -> impl Iterator<Item = Talk> {
    (0..200).map(|seed| Talk::generate(&mut Dice::of(seed), "r1"))
}

#[test]
fn a_seed_decides_everything() {
    let talk = |seed| format!("{:?}", Talk::generate(&mut Dice::of(seed), "r1"));
    assert_eq!(talk(7), talk(7));
    assert_ne!(talk(7), talk(8));
}

/// Else the gate for duplicates would swallow what the script calls a change.
#[test]
fn only_repetitions_say_the_same() {
    for talk in talks() {
        let acts = talk.speakers.iter().flat_map(|speaker| &speaker.acts);
        let statements: Vec<&Statement> = (acts.filter(|act| act.manner != Manner::RolledBack))
            .flat_map(|act| &act.sayings)
            .flat_map(|saying| &saying.statements)
            .collect();
        for left in &statements {
            for right in statements.iter().filter(|right| right.topic == left.topic) {
                let same = left.value == right.value;
                assert_eq!(says_the_same(&left.fact, &right.fact), same, "{left:?} {right:?}");
            }
        }
    }
}

#[test]
fn every_statement_is_of_one_version() {
    for talk in talks() {
        let mut said: Vec<usize> = (talk.speakers.iter().flat_map(Talk::committed))
            .flat_map(|saying| vec![saying.number; saying.statements.len()])
            .collect();
        let mut taken_up: Vec<usize> =
            talk.versions().iter().flat_map(|version| version.said.clone()).collect();
        said.sort_unstable();
        taken_up.sort_unstable();
        assert_eq!(said, taken_up);
    }
}

#[test]
fn talks_have_everything() {
    let versions: Vec<Version> = talks().flat_map(|talk| talk.versions()).collect();
    let count = |what: fn(&Version) -> bool| versions.iter().filter(|one| what(one)).count();
    assert!(count(|version| version.said.len() > 1) > 100, "repetitions");
    assert!(count(|version| version.session.is_none()) > 500, "facts of all sessions");
    assert!(count(|version| matches!(version.ended, Some((_, true)))) > 100, "contradictions");
    assert!(count(|version| matches!(version.ended, Some((_, false)))) > 100, "updates");
    let shared = talks().filter(|talk| talk.shared.is_some()).count();
    assert!(shared > 50, "only {shared} talks on a topic of several");
    let rolled_back = talks().flat_map(|talk| talk.speakers).flat_map(|speaker| speaker.acts);
    assert!(rolled_back.filter(|act| act.manner == Manner::RolledBack).count() > 200);
}

#[test]
fn what_is_said_decides_the_facts() {
    for talk in talks() {
        let mut meanings: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let acts = talk.speakers.iter().flat_map(|speaker| &speaker.acts);
        for saying in acts.flat_map(|act| &act.sayings) {
            let facts: Vec<String> = saying.statements.iter().map(|s| s.fact.clone()).collect();
            let known = meanings.entry(saying.text.clone()).or_insert_with(|| facts.clone());
            assert_eq!(*known, facts, "{}", saying.text);
        }
    }
}
