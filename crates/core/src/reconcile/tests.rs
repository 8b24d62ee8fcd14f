//! Tests of reading the model's decisions.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn error(answer: &str, existing: u32, new: u32) -> String {
    parse(answer, existing, new).unwrap_err().to_string()
}

fn none(id: u32) -> Decision {
    Decision { id, event: Event::None { same_as: None } }
}

#[test]
fn all_events_are_read() {
    let answer = r#"{"memories":[
        {"id":1,"event":"NONE"},
        {"id":2,"event":"UPDATE","text":" The user lives in Paris ","from":[4]},
        {"id":3,"event":"DELETE","from":[5,5]},
        {"id":4,"event":"NONE","same_as":1},
        {"id":5,"event":"ADD"}]}"#;
    let update = Event::Update { text: "The user lives in Paris".to_owned(), from: vec![4] };
    assert_eq!(
        parse(answer, 3, 2).unwrap(),
        [
            none(1),
            Decision { id: 2, event: update },
            Decision { id: 3, event: Event::Delete { because_of: vec![5] } },
            Decision { id: 4, event: Event::None { same_as: Some(1) } },
            Decision { id: 5, event: Event::Add },
        ]
    );
}

#[test]
fn a_bare_list_and_sloppy_values_are_accepted() {
    let answer = r#"[{"id":"1","event":"delete","from":2,"text":null,"same_as":null},
                     {"id":2.0,"event":" add ","text":"ignored"}]"#;
    assert_eq!(
        parse(answer, 1, 1).unwrap(),
        [
            Decision { id: 1, event: Event::Delete { because_of: vec![2] } },
            Decision { id: 2, event: Event::Add },
        ]
    );
}

#[test]
fn invented_ids_are_an_error() {
    for id in ["0", "4", "-1", "\"x\"", "1.5", "4294967297", "[1]"] {
        let answer = format!(r#"[{{"id":1,"event":"NONE"}},{{"id":{id},"event":"NONE"}}]"#);
        assert_eq!(error(&answer, 1, 2), format!("there is no memory {id}: the ids are 1 to 3"));
        for reference in [format!(r#""from":[{id}]"#), format!(r#""same_as":{id}"#)] {
            let answer = format!(r#"[{{"id":1,"event":"DELETE",{reference}}}]"#);
            assert!(error(&answer, 1, 2).starts_with("there is no memory"), "{answer}");
        }
    }
    assert!(error(r#"[{"event":"NONE"}]"#, 1, 1).starts_with("a decision needs an \"id\""));
}

#[test]
fn every_existing_memory_must_be_listed() {
    let answer = r#"[{"id":2,"event":"NONE"},{"id":5,"event":"ADD"}]"#;
    assert_eq!(error(answer, 4, 1), "every existing memory needs a decision, missing: 1, 3, 4");
    assert!(error("[]", 400, 1).chars().count() < 200);
    assert_eq!(parse("[]", 0, 2).unwrap(), [], "new facts need not be listed");
}

#[test]
fn different_decisions_about_one_memory_are_an_error() {
    let update = r#"{"id":1,"event":"UPDATE","text":"a"}"#;
    for second in [
        r#"{"id":1,"event":"DELETE"}"#,
        r#"{"id":1,"event":"NONE"}"#,
        r#"{"id":1,"event":"UPDATE","text":"b"}"#,
    ] {
        let message = error(&format!("[{update},{second}]"), 1, 1);
        assert_eq!(message, "memory 1 is listed with different decisions: make one");
    }
    assert_eq!(parse(&format!("[{update},{update}]"), 1, 1).unwrap().len(), 1);
}

#[test]
fn events_must_fit() {
    for (answer, message) in [
        (r#"[{"id":1,"event":"ADD"}]"#, "ADD is for new facts"),
        (r#"[{"id":2,"event":"UPDATE","text":"a"}]"#, "UPDATE and DELETE are for existing"),
        (r#"[{"id":2,"event":"DELETE"}]"#, "UPDATE and DELETE are for existing"),
        (r#"[{"id":1,"event":"KEEP"}]"#, "\"event\" must be ADD, UPDATE, DELETE or NONE"),
        (r#"[{"id":1}]"#, "\"event\" must be"),
        (r#"[{"id":1,"event":"UPDATE"}]"#, "UPDATE needs the new \"text\""),
        (r#"[{"id":1,"event":"UPDATE","text":" "}]"#, "UPDATE needs the new \"text\""),
        (r#"[{"id":1,"event":"UPDATE","text":5}]"#, "UPDATE needs the new \"text\""),
        (r#"[{"id":1,"event":"DELETE","from":[1]}]"#, "\"from\" lists new facts, 1 is an existing"),
        (r#"[{"id":2,"event":"NONE","same_as":2}]"#, "\"same_as\" names the memory itself"),
        (r#"["a"]"#, "a decision needs an \"id\""),
        ("{}", "the answer must be a JSON object with the list \"memories\""),
    ] {
        assert!(error(answer, 1, 1).starts_with(message), "{answer}: {}", error(answer, 1, 1));
    }
    let long = json!([{"id": 1, "event": "UPDATE", "text": "a".repeat(1_001)}]).to_string();
    assert!(error(&long, 1, 1).starts_with("a text is longer than 1000 characters"));
}

proptest! {
    #[test]
    fn what_is_accepted_names_only_what_was_sent(
        items in prop::collection::vec(
            (0..6_u32, "ADD|UPDATE|DELETE|NONE|none|x", prop::option::of("a|b| "), 0..6_u32),
            0..6,
        ),
    ) {
        let (existing, new) = (2, 2);
        let answer = items.iter().map(|(id, event, text, reference)| {
            json!({"id": id, "event": event, "text": text, "from": [reference]})
        });
        let answer = json!({"memories": answer.collect::<Vec<_>>()}).to_string();
        if let Ok(decisions) = parse(&answer, existing, new) {
            for decision in &decisions {
                prop_assert!((1..=4).contains(&decision.id));
                if let Event::Update { from, .. } | Event::Delete { because_of: from } = &decision.event {
                    prop_assert!(from.iter().all(|id| (3..=4).contains(id)));
                }
            }
            for id in 1..=existing {
                prop_assert_eq!(decisions.iter().filter(|decision| decision.id == id).count(), 1);
            }
        }
    }

    #[test]
    fn no_answer_makes_it_panic(answer in r#"[\[\]{}",:0-9a-zADNO \\]{0,60}"#) {
        let _ = parse(&answer, 2, 2);
    }
}
