//! Tests of what actions come to. Facts and turns are written as texts, actions as in an answer.

use proptest::prelude::*;

use super::*;
use crate::facts::reflect::parse;

const DAY: &str = "2024-05-03";

fn known<'a>(texts: &[&'a str]) -> Vec<PriorFact<'a>> {
    texts.iter().map(|content| PriorFact { content, since: DAY, markers: &[] }).collect()
}

fn said<'a>(texts: &[&'a str]) -> Vec<EpisodeTurn<'a>> {
    let turn = |content: &&'a str| EpisodeTurn {
        role: "user",
        content,
        speaker: None,
        said_at: DAY,
        markers: &[],
    };
    texts.iter().map(turn).collect()
}

/// The plan of a model that is trusted.
fn plan_of(prior: &[PriorFact], turns: &[EpisodeTurn], max_facts: u32, answer: &str) -> Plan {
    let count = |length: usize| u32::try_from(length).unwrap();
    let actions = parse(answer, count(prior.len()), count(turns.len())).unwrap();
    plan(&actions, prior, turns, max_facts, true)
}

fn doubting_plan_of(prior: &[PriorFact], turns: &[EpisodeTurn], answer: &str) -> Plan {
    plan(&parse(answer, 9, 9).unwrap(), prior, turns, 5, false)
}

fn fact(text: &str, turns: &[usize]) -> Fact {
    Fact {
        text: text.to_owned(),
        markers: Vec::new(),
        confidence: None,
        turns: turns.to_vec(),
        replaces: Vec::new(),
        beside: None,
    }
}

#[test]
fn every_action_is_carried_out() {
    let prior = known(&["The user lives in Rome", "The user has a dog", "The user plans a trip"]);
    let turns = said(&["I moved to Oslo", "The trip is off", "I play chess"]);
    let plan = plan_of(
        &prior,
        &turns,
        5,
        r#"[{"action":"update","id":1,"text":"The user lives in Oslo","confidence":0.5,"turns":[1]},
            {"action":"keep","id":2},{"action":"remove","id":3,"turns":[2]},
            {"action":"add","text":"The user plays chess","turns":[3]}]"#,
    );
    let oslo = Fact { confidence: Some(0.5), ..fact("The user lives in Oslo", &[0]) };
    let expected = Plan {
        keep: vec![1],
        update: vec![Update { existing: 0, fact: oslo }],
        remove: vec![Removal { existing: 2, turns: vec![1] }],
        doubted: Vec::new(),
        add: vec![fact("The user plays chess", &[2])],
        again: vec![],
        dropped: 0,
    };
    assert_eq!(plan, expected);
}

#[test]
fn what_the_answer_does_not_name_is_kept() {
    let prior = known(&["The user lives in Rome", "The user has a dog"]);
    assert_eq!(plan_of(&prior, &said(&["Hello"]), 5, "[]").keep, [0, 1]);
}

#[test]
fn an_update_to_the_same_text_is_none() {
    let prior = known(&["The user has a dog"]);
    let answer = r#"[{"action":"update","id":1,"text":" The user has a dog "}]"#;
    let plan = plan_of(&prior, &said(&["My dog"]), 5, answer);
    assert_eq!(plan, Plan { keep: vec![0], ..Plan::default() });
}

#[test]
fn a_fact_that_is_removed_and_added_again_stays() {
    let prior = known(&["The user lives in Rome."]);
    let answer = r#"[{"action":"remove","id":1},{"action":"add","text":"The user lives in Rome"}]"#;
    let mut plan = plan_of(&prior, &said(&["I still live in Rome"]), 5, answer);
    let again: Vec<_> = plan.again.drain(..).map(|one| (one.existing, one.fact.turns)).collect();
    assert_eq!(again, [(0, vec![0])], "said again");
    assert_eq!(plan, Plan { keep: vec![0], ..Plan::default() });
}

#[test]
fn repetitions_are_not_added() {
    let prior = known(&["The user lives in Rome", "The user has a dog"]);
    let turns = said(&["I live in Oslo and have a dog and a cat"]);
    let plan = plan_of(
        &prior,
        &turns,
        5,
        r#"[{"action":"update","id":1,"text":"The user lives in Oslo"},
            {"action":"add","text":"The user lives in Oslo."},
            {"action":"add","text":"The user has a dog."},
            {"action":"add","text":"The user has a cat"},
            {"action":"add","text":"the user has a cat"},
            {"action":"add","text":"The user lives in Rome"}]"#,
    );
    let added: Vec<_> = plan.add.iter().map(|fact| fact.text.as_str()).collect();
    // What was replaced is no longer known, so it is no repetition.
    assert_eq!(added, ["The user has a cat", "The user lives in Rome"]);
    assert_eq!(plan.dropped, 0, "repetitions do not count");
    let again: Vec<_> = plan.again.iter().map(|one| one.existing).collect();
    assert_eq!(again, [1], "a fact that stays is said again");
}

/// Small models update a fact although none is meant.
#[test]
fn an_update_of_a_model_that_is_not_trusted_is_an_addition() {
    let prior = known(&["The user lives in Rome"]);
    let answer = r#"[{"action":"update","id":1,"text":"The user plays chess"}]"#;
    let plan = doubting_plan_of(&prior, &said(&["I play chess"]), answer);
    assert_eq!((plan.keep, plan.update.len()), (vec![0], 0));
    assert_eq!(plan.add, [Fact { beside: Some(0), ..fact("The user plays chess", &[0]) }]);
    let trusted = plan_of(&prior, &said(&["I play chess"]), 5, answer);
    assert_eq!((trusted.update.len(), trusted.add), (1, vec![]));
    // The same in other words.
    let answer = r#"[{"action":"update","id":1,"text":"The user lives in Rome."}]"#;
    assert_eq!(doubting_plan_of(&prior, &said(&["I live in Rome"]), answer).update.len(), 1);
}

#[test]
fn what_is_removed_is_doubted_where_the_model_is_not_trusted() {
    let prior = known(&["The user lives in Rome", "The user has a dog"]);
    let answer = |turn: &str| format!(r#"[{{"action":"remove","id":2,"turns":{turn}}}]"#);
    let turns = said(&["I play chess", "The dog died"]);
    for named in ["[2]", "null"] {
        let doubted = doubting_plan_of(&prior, &turns, &answer(named));
        assert_eq!((doubted.keep, doubted.remove), (vec![0, 1], vec![]), "{named}");
        assert_eq!(doubted.doubted, [Removal { existing: 1, turns: vec![1] }], "{named}");
        let removed = plan_of(&prior, &turns, 5, &answer(named));
        assert_eq!(removed.remove, [Removal { existing: 1, turns: vec![1] }], "{named}");
        assert_eq!(removed.doubted, [], "{named}");
    }
    // What a tool says ends failures only.
    let tool = [EpisodeTurn { role: "tool", ..turns[1] }];
    let by_tool = |markers: &[String]| {
        let prior = [prior[0], PriorFact { markers, ..prior[1] }];
        plan_of(&prior, &tool, 5, &answer("[1]")).remove.len()
    };
    assert_eq!((by_tool(&[]), by_tool(&["failure".to_owned()])), (0, 1));
}

#[test]
fn updates_come_first_where_not_all_facts_are_allowed() {
    let prior = known(&["The user lives in Rome", "The user has a dog"]);
    let answer = r#"[{"action":"add","text":"Anna plays chess"},
        {"action":"add","text":"Bob plays chess"},
        {"action":"update","id":2,"text":"The user's dog died"},
        {"action":"update","id":1,"text":"The user lives in Oslo"}]"#;
    let plan_with = |max_facts| plan_of(&prior, &said(&["a"]), max_facts, answer);
    let plan = plan_with(3);
    assert_eq!((plan.update.len(), plan.add.len(), plan.dropped), (2, 1, 1));
    assert_eq!(plan.add[0].text, "Anna plays chess");
    let plan = plan_with(1);
    assert_eq!((plan.update.len(), plan.add.len(), plan.dropped), (1, 0, 3));
    assert_eq!(plan.keep, [1], "an update that is not carried out keeps the fact");
    assert_eq!(plan_with(0), Plan { keep: vec![0, 1], dropped: 4, ..Plan::default() });
}

#[test]
fn a_fact_rests_on_the_turns_with_its_words_unless_they_are_named() {
    let turns = said(&["Hello", "I moved to Oslo last week", "Oslo is cold"]);
    let sources = |turns: &[EpisodeTurn], text: &str| {
        let answer = format!(r#"[{{"action":"add","text":"{text}"}}]"#);
        plan_of(&[], turns, 5, &answer).add[0].turns.clone()
    };
    assert_eq!(sources(&turns, "The user moved to Oslo"), [1]);
    assert_eq!(sources(&turns, "Oslo"), [1, 2]);
    assert_eq!(sources(&turns, "Der Nutzer ist umgezogen"), [0, 1, 2]);
    assert_eq!(sources(&[], "Oslo"), [0; 0]);
    let prior = known(&["The user lives in Oslo"]);
    let removed = plan_of(&prior, &turns[..2], 5, r#"[{"action":"remove","id":1}]"#);
    assert_eq!(removed.remove, [Removal { existing: 0, turns: vec![1] }]);
}

#[test]
fn an_earlier_turn_is_replaced_and_no_source() {
    let turns = said(&["We use MySQL", "Ok, MySQL", "No, PostgreSQL", "PostgreSQL has more types"]);
    let of = |named: &str, replaces: &str| {
        let action = format!(
            r#"[{{"action":"add","text":"They use PostgreSQL","turns":{named},"replaces":{replaces}}}]"#
        );
        let plan = plan_of(&[], &turns, 5, &action);
        (plan.add[0].turns.clone(), plan.add[0].replaces.clone())
    };
    assert_eq!(of("[3]", "[]"), (vec![2], vec![]));
    assert_eq!(of("[3]", "[2, 1]"), (vec![2], vec![0, 1]));
    // A turn says either what holds or what does not.
    assert_eq!(of("[1, 3]", "[1]"), (vec![2], vec![0]));
    // What was said last holds; a fact rests on something.
    assert_eq!(of("[3]", "[1, 4]"), (vec![2], vec![0]));
    assert_eq!(of("[1]", "[1]"), (vec![0], vec![]));
    assert_eq!(of("[1, 2]", "[2]"), (vec![0, 1], vec![]));
    assert_eq!(of("null", "[1]"), (vec![2, 3], vec![0]), "the turns with most of its words");
}

#[test]
fn markers_are_the_models_and_custom_ones_are_inherited() {
    let of_turn = ["custom:project".to_owned(), "failure".to_owned()];
    let of_fact = ["goal".to_owned(), "custom:old".to_owned()];
    let prior = [PriorFact { markers: &of_fact, ..known(&["The user lives in Rome"])[0] }];
    let turns = [EpisodeTurn { markers: &of_turn, ..said(&["Oslo"])[0] }, said(&["Hello"])[0]];
    let markers = |action: &str| {
        let plan = plan_of(&prior, &turns, 5, &format!("[{action}]"));
        match (&plan.update[..], &plan.add[..]) {
            ([update], []) => update.fact.markers.clone(),
            ([], [fact]) => fact.markers.clone(),
            _ => panic!("{plan:?}"),
        }
    };
    let added = r#"{"action":"add","text":"a","markers":["decision","custom:new"],"turns":[1]}"#;
    assert_eq!(markers(added), ["decision", "custom:project"]);
    let elsewhere = r#"{"action":"add","text":"a","markers":["custom:project"],"turns":[2]}"#;
    assert_eq!(markers(elsewhere), [""; 0]);
    // What the model does not say stays as it was.
    let update = r#"{"action":"update","id":1,"text":"The user lives in Oslo","turns":[2]}"#;
    assert_eq!(markers(update), ["goal", "custom:old"]);
    let update =
        r#"{"action":"update","id":1,"text":"The user lives in Oslo","markers":[],"turns":[1]}"#;
    assert_eq!(markers(update), ["custom:project", "custom:old"]);
}

#[test]
fn the_example_is_a_fact_only_if_the_input_speaks_of_it() {
    let example = "The database of the Quillfeather project is MySQL";
    let prompt = crate::facts::reflect::messages(&[], &[], 5, false)[0].content.clone();
    assert!(prompt.contains(example), "the plan knows the example");
    let add = format!(r#"[{{"action":"add","text":"{example}"}}]"#);
    assert_eq!(plan_of(&[], &said(&["Which database?"]), 5, &add).add, []);
    assert_eq!(plan_of(&[], &said(&["Quillfeather uses MySQL"]), 5, &add).add.len(), 1);
    let update = format!(r#"[{{"action":"update","id":1,"text":"{example}"}}]"#);
    let prior = known(&["The user has a dog"]);
    assert_eq!(plan_of(&prior, &said(&["Which database?"]), 5, &update).keep, [0]);
}

fn statement() -> impl Strategy<Value = Statement> {
    let markers = prop::option::of(prop::collection::vec("goal|custom:a", 0..2));
    let numbers = || prop::collection::vec(0..6_u32, 0..3);
    ("(Anna|Bob) (likes|has) (tea|a dog)", markers, numbers(), numbers()).prop_map(
        |(text, markers, turns, replaces)| Statement {
            text,
            markers: markers
                .map(|markers| markers.into_iter().collect::<BTreeSet<_>>().into_iter().collect()),
            confidence: None,
            turns,
            replaces,
        },
    )
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        (0..8_u32).prop_map(|id| Action::Keep { id }),
        (0..8_u32, statement()).prop_map(|(id, statement)| Action::Update { id, statement }),
        statement().prop_map(|statement| Action::Add { statement }),
        (0..8_u32, prop::collection::vec(0..6_u32, 0..3))
            .prop_map(|(id, turns)| Action::Remove { id, turns }),
    ]
}

proptest! {
    #[test]
    fn whatever_is_done_no_fact_is_lost(
        actions in prop::collection::vec(action(), 0..12),
        prior in prop::collection::vec("(Anna|Bob) (likes|has) (tea|a dog)", 0..5),
        turns in prop::collection::vec("(Anna|Bob) (likes|has) (tea|a dog)", 1..4),
        max_facts in 0..6_u32,
        trusted: bool,
    ) {
        let prior: Vec<&str> = prior.iter().map(String::as_str).collect();
        let turns: Vec<&str> = turns.iter().map(String::as_str).collect();
        let plan = plan(&actions, &known(&prior), &said(&turns), max_facts, trusted);

        let mut touched: Vec<usize> = plan.keep.iter().copied()
            .chain(plan.update.iter().map(|update| update.existing))
            .chain(plan.remove.iter().map(|removal| removal.existing))
            .collect();
        touched.sort_unstable();
        prop_assert_eq!(touched, (0..prior.len()).collect::<Vec<_>>());

        let named = |existing: usize| {
            actions.iter().any(|action| action.id() == u32::try_from(existing + 1).ok())
        };
        prop_assert!((0..prior.len()).all(|existing| named(existing) || plan.keep.contains(&existing)));
        prop_assert!(plan.doubted.iter().all(|doubted| plan.keep.contains(&doubted.existing)));

        let facts: Vec<&Fact> =
            plan.update.iter().map(|update| &update.fact).chain(&plan.add).collect();
        prop_assert!(facts.len() <= max_facts as usize);
        prop_assert!(plan.dropped == 0 || facts.len() == max_facts as usize);
        let sources = facts.iter().map(|fact| &fact.turns)
            .chain(plan.remove.iter().map(|removal| &removal.turns));
        for sources in sources {
            prop_assert!(!sources.is_empty() && sources.is_sorted());
            prop_assert!(sources.iter().all(|turn| *turn < turns.len()));
        }
        for fact in facts {
            let newest = fact.turns.last();
            prop_assert!(fact.replaces.is_sorted());
            prop_assert!(fact.replaces.iter().all(|turn| Some(turn) < newest && !fact.turns.contains(turn)));
            prop_assert!(fact.markers.iter().all(|marker| marker == "goal"), "no turn has custom ones");
        }
        // Everything that the answer adds is known afterwards, or was dropped.
        for action in &actions {
            if let Action::Add { statement } = action {
                let mut known = plan.keep.iter().map(|existing| prior[*existing])
                    .chain(plan.update.iter().map(|update| update.fact.text.as_str()))
                    .chain(plan.add.iter().map(|fact| fact.text.as_str()));
                prop_assert!(plan.dropped > 0 || known.any(|known| repeats(&statement.text, known)));
            }
        }
    }
}
