//! Tests of reading the model's decisions.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn error(answer: &str, existing: u32, new: u32) -> String {
    parse(answer, existing, new).unwrap_err().to_string()
}

fn choice(answer: &str, existing: u32) -> Choice {
    let [Decision { fact: 1, choice }] = &parse(answer, existing, 1).unwrap()[..] else {
        panic!("{answer}");
    };
    choice.clone()
}

fn replaces(memory: u32, text: Option<&str>) -> Choice {
    Choice::Replaces { memory, text: text.map(str::to_owned) }
}

#[test]
fn one_fact_needs_one_choice() {
    for (answer, expected) in [
        (r#"{"choice":"new"}"#, Choice::New),
        (r#"{"choice":"same as 2"}"#, Choice::Same(2)),
        (r#"{"choice":"replaces 1"}"#, replaces(1, None)),
        (r#"{"choice":"ends 3"}"#, Choice::Ends(3)),
    ] {
        assert_eq!(choice(answer, 3), expected, "{answer}");
    }
}

#[test]
fn several_facts_are_named_by_their_numbers() {
    let answer = r#"{"decisions":[
        {"fact":3,"choice":"replaces 2","text":" The user lives in Paris "},
        {"fact":1,"choice":"new","text":null}]}"#;
    assert_eq!(
        parse(answer, 2, 3).unwrap(),
        [
            Decision { fact: 3, choice: replaces(2, Some("The user lives in Paris")) },
            Decision { fact: 1, choice: Choice::New },
        ]
    );
    assert_eq!(parse("[]", 2, 3).unwrap(), [], "a fact may be left out");
}

/// Where an answer can mean one thing only, its form does not matter.
#[test]
fn other_forms_of_the_same_are_accepted() {
    for (answer, expected) in [
        (r#"{"choice":" Replaces memory 2. "}"#, replaces(2, None)),
        (r#"{"choice":"UPDATE 2","text":""}"#, replaces(2, None)),
        (r#"{"choice":"same_as 2"}"#, Choice::Same(2)),
        (r#"{"choice":"duplicate of 2"}"#, Choice::Same(2)),
        (r#"{"choice":"DELETE 2"}"#, Choice::Ends(2)),
        (r#"{"choice":"add","text":"ignored"}"#, Choice::New),
        (r#"{"decisions":[{"choice":"ends 2"}]}"#, Choice::Ends(2)),
        (r#"[{"fact":"1","choice":"ends 2"}]"#, Choice::Ends(2)),
    ] {
        assert_eq!(choice(answer, 2), expected, "{answer}");
    }
    assert_eq!(choice(r#"{"choice":"replaces"}"#, 1), replaces(1, None), "there is but one");
}

#[test]
fn what_is_left_open_is_an_error() {
    for (answer, message) in [
        (r#"{"choice":"replaces"}"#, "\"replaces\" needs a memory's number"),
        (r#"{"choice":"replaces 3"}"#, "there is no memory \"3\": there are 1 to 2"),
        (r#"{"choice":"ends 0"}"#, "there is no memory"),
        (r#"{"choice":"same as 4294967297"}"#, "there is no memory"),
        (r#"{"choice":"none"}"#, "\"choice\" must be \"new\""),
        (r#"{"choice":5}"#, "\"choice\" must be"),
        (r#"[{"fact":2,"choice":"new"}]"#, "there is no fact 2: there are 1 to 1"),
        (r#"["a"]"#, "\"choice\" must be"),
        ("{}", "the answer must be a JSON object with the list \"decisions\""),
    ] {
        assert!(error(answer, 2, 1).starts_with(message), "{answer}: {}", error(answer, 2, 1));
    }
    let unnamed = r#"[{"choice":"new"}]"#;
    assert_eq!(error(unnamed, 1, 2), "a decision needs the number of its \"fact\"");
    assert!(error(r#"{"choice":"new"}"#, 1, 2).contains("the list \"decisions\""));
    assert!(error(r#"{"choice":"same as"}"#, 0, 1).contains("needs a memory's number"));
    // Of one memory as well: what is said to be none, or not to be, is not guessed.
    for choice in ["replaces none", "ends nothing", "same as 1, not 2", "replaces 1 or 2"] {
        let answer = json!({ "choice": choice }).to_string();
        for existing in [1, 2] {
            assert!(error(&answer, existing, 1).contains("needs a memory's number"), "{choice}");
        }
    }
    let long = json!({"choice": "replaces 1", "text": "a".repeat(1_001)}).to_string();
    assert!(error(&long, 1, 1).starts_with("a text is longer than 1000 characters"));
}

proptest! {
    #[test]
    fn what_is_accepted_names_only_what_was_sent(
        items in prop::collection::vec(
            (0..6_u32, "new|same as|replaces|ends|none|x", prop::option::of("a|b| "), 0..6_u32),
            0..6,
        ),
    ) {
        let (existing, new) = (2, 2);
        let answer = items.iter().map(|(fact, choice, text, memory)| {
            json!({"fact": fact, "choice": format!("{choice} {memory}"), "text": text})
        });
        let answer = json!({"decisions": answer.collect::<Vec<_>>()}).to_string();
        for decision in parse(&answer, existing, new).unwrap_or_default() {
            prop_assert!((1..=new).contains(&decision.fact));
            if let Choice::Same(memory) | Choice::Replaces { memory, .. } | Choice::Ends(memory) =
                decision.choice
            {
                prop_assert!((1..=existing).contains(&memory));
            }
        }
    }

    #[test]
    fn no_answer_makes_it_panic(answer in r#"[\[\]{}",:0-9a-z \\]{0,60}"#) {
        let _ = parse(&answer, 2, 2);
    }
}
