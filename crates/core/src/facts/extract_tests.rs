use proptest::prelude::*;
use serde_json::json;

use super::*;

fn fact(text: &str, turn: usize, confidence: Option<f32>) -> ExtractedFact {
    ExtractedFact { text: text.to_owned(), turn, confidence }
}

fn earlier(role: &str, text: &str) -> EarlierMessage {
    EarlierMessage::new(role.to_owned(), "2024-05-02".to_owned(), text)
}

fn error(answer: &str, turns: u32) -> String {
    parse(answer, turns, 3).unwrap_err().to_string()
}

#[test]
fn a_turn_says_what_it_is() {
    let turn = PendingTurn { content: "x", speaker: None, said_at: "2024-05-03" };
    let markers = ["decision".to_owned(), "custom:legal".to_owned()];
    let marked = Marks { markers: &markers, ..Marks::default() };
    let asked = |marks: &[Marks<'_>]| {
        let chat = marked_messages(&[turn, turn], marks, 3);
        let document: Value = serde_json::from_str(&chat[1].content).unwrap();
        (chat[0].content.clone(), document["turns"].clone())
    };
    let plain = messages(&[turn, turn], 3)[0].content.clone();
    let bare = json!({"turn": 1, "said_at": "2024-05-03", "text": "x"});
    let second = json!({"turn": 2, "said_at": "2024-05-03", "text": "x"});
    assert_eq!(asked(&[]), (plain.clone(), json!([bare, second])));
    let (system, turns) = asked(&[marked]);
    assert_eq!(system, format!("{plain}\n\n{}", MARKED.trim_end()));
    assert_eq!(turns[0]["markers"], json!(["decision", "custom:legal"]));
    assert_eq!(turns[1], second);
    let (system, turns) = asked(&[Marks { is_assistants: true, ..marked }, Marks::default()]);
    let both = format!("{plain}\n\n{}\n\n{}", MARKED.trim_end(), DECISIONS.trim_end());
    assert_eq!(system, both);
    assert_eq!(turns[0]["role"], "assistant");
    assert!(turns[1].get("role").is_none());
    let before = [earlier("assistant", "Where do you live?")];
    let (system, turns) = asked(&[Marks { before: &before, ..Marks::default() }]);
    assert_eq!(system, format!("{plain}\n\n{}", BEFORE.trim_end()));
    let shown =
        json!([{"role": "assistant", "said_at": "2024-05-02", "text": "Where do you live?"}]);
    assert_eq!((&turns[0]["before"], &turns[1]), (&shown, &second));
}

#[test]
fn an_answer_is_worth_asking_about() {
    let asked = [earlier("assistant", "Do you have a dog? ")];
    assert!(is_worth_asking("Yes", &asked) && !is_worth_asking("Yes", &[]));
    assert!(!is_worth_asking("Yes", &[earlier("user", "Do you have a dog?")]));
    assert!(!is_worth_asking("Thanks!", &[earlier("assistant", "Here you are.")]));
    assert!(is_worth_asking("In Lisbon.", &[]));
}

#[test]
fn facts_are_read_with_their_turn_and_confidence() {
    let facts = parse(
        r#"{"facts":[{"turn":2,"text":" The user has a dog ","confidence":0.5},
                     {"turn":1,"text":"The user likes tea"}]}"#,
        2,
        3,
    );
    let expected = [fact("The user has a dog", 1, Some(0.5)), fact("The user likes tea", 0, None)];
    assert_eq!(facts.unwrap(), expected);
    assert_eq!(parse(r#"{"facts":[]}"#, 2, 3).unwrap(), []);
}

#[test]
fn a_bare_list_is_accepted() {
    let facts = parse(r#"[{"turn":2,"text":"a"},{"turn":"1","text":"b"}]"#, 2, 3);
    assert_eq!(facts.unwrap(), [fact("a", 1, None), fact("b", 0, None)]);
}

#[test]
fn with_one_turn_its_number_may_be_left_out() {
    let expected = [fact("a", 0, None), fact("b", 0, None)];
    assert_eq!(parse(r#"["a", "b"]"#, 1, 3).unwrap(), expected);
    assert_eq!(
        parse(r#"{"facts":[{"text":"a"}, {"turn":null,"text":"b"}]}"#, 1, 3).unwrap(),
        expected
    );
    assert_eq!(error(r#"[{"text":"a"}]"#, 2), "each fact needs the \"turn\" it is from");
    assert!(error(r#"["a"]"#, 2).starts_with("each fact must be an object"));
}

#[test]
fn confidence_is_kept_between_0_and_1() {
    for (given, kept) in [
        (json!(0.25), Some(0.25)),
        (json!(-1), Some(0.0)),
        (json!(95), Some(1.0)),
        (json!(1e300), Some(1.0)),
        (json!(null), None),
        (json!("high"), None),
    ] {
        let answer = json!([{"text": "a", "confidence": given}]).to_string();
        assert_eq!(parse(&answer, 1, 3).unwrap(), [fact("a", 0, kept)], "{given}");
    }
}

#[test]
fn blank_and_repeated_facts_are_dropped() {
    let answer = r#"["", " \n", "a", "a ", "b"]"#;
    assert_eq!(parse(answer, 1, 2).unwrap(), [fact("a", 0, None), fact("b", 0, None)]);
}

#[test]
fn a_fact_is_one_statement_and_says_what_holds() {
    let answer = json!([
        "The user changed suppliers",
        "Priya is vegetarian and her son Arun is allergic to peanuts",
    ]);
    let texts = |answer: &Value| -> Vec<String> {
        parse(&answer.to_string(), 1, 4).unwrap().into_iter().map(|fact| fact.text).collect()
    };
    let parts = ["Priya is vegetarian", "Priya's son Arun is allergic to peanuts"];
    assert_eq!(texts(&answer), parts);
    assert_eq!(texts(&json!([answer[0]])), ["The user changed suppliers"], "nothing else is known");
}

#[test]
fn more_facts_than_allowed_are_dropped_turn_by_turn() {
    let answer = json!([
        {"turn": 1, "text": "a"}, {"turn": 1, "text": "b"}, {"turn": 2, "text": "c"},
        {"turn": 1, "text": "d"}, {"turn": 2, "text": "e"},
    ]);
    let facts = parse(&answer.to_string(), 2, 2).unwrap();
    let texts: Vec<_> = facts.iter().map(|fact| fact.text.as_str()).collect();
    assert_eq!(texts, ["a", "b", "c", "e"]);
    assert_eq!(parse(&answer.to_string(), 2, 0).unwrap(), []);
}

#[test]
fn turns_that_were_not_sent_are_an_error() {
    for turn in ["0", "3", "-1", "1.5", "\"two\"", "[1]", "1e99", "true"] {
        let answer = format!(r#"{{"facts":[{{"turn":{turn},"text":"a"}}]}}"#);
        assert!(error(&answer, 2).starts_with("there is no turn "), "{turn}");
    }
    assert_eq!(error(r#"[{"turn":3,"text":"a"}]"#, 2), "there is no turn 3: the turns are 1 to 2");
}

#[test]
fn other_shapes_are_an_error() {
    for answer in ["5", "null", "\"a\"", "{}", r#"{"facts":{}}"#, r#"{"fact":["a"]}"#] {
        assert!(error(answer, 1).contains("the list \"facts\""), "{answer}");
    }
    for answer in [r#"[{"turn":1}]"#, r#"[{"text":5}]"#, r#"[{"text":["a"]}]"#] {
        assert!(error(answer, 1).contains("needs a \"text\""), "{answer}");
    }
    assert!(error("[5]", 1).contains("must be an object"));
    assert!(error("{", 1).starts_with("the answer is not JSON"));
}

#[test]
fn texts_that_cannot_be_facts_are_an_error() {
    let longest = "ü".repeat(MAX_FACT_CHARS);
    assert_eq!(parse(&json!([longest]).to_string(), 1, 3).unwrap(), [fact(&longest, 0, None)]);
    let message = error(&json!([longest + "ü"]).to_string(), 1);
    assert!(message.starts_with("a text is longer than 1000 characters"), "{message}");
    assert!(message.chars().count() < 300, "{message}");
    assert!(error(r#"["a\u0000b"]"#, 1).contains("U+0000"));
}

proptest! {
    #[test]
    fn facts_come_back_as_they_were(
        facts in prop::collection::vec(("\\PC{1,40}", 1..4_u32, prop::option::of(0.0..=1.0)), 0..6),
    ) {
        let answer = facts.iter().map(|(text, turn, confidence)| {
            json!({"turn": turn, "text": text, "confidence": confidence})
        });
        let answer = json!({"facts": answer.collect::<Vec<_>>()}).to_string();
        let parsed = parse(&answer, 3, 100).unwrap();
        for (text, turn, _) in &facts {
            let is_kept = parsed.iter().any(|fact| {
                fact.text == text.trim() && fact.turn + 1 == *turn as usize
            });
            prop_assert!(is_kept || text.trim().is_empty());
        }
        prop_assert!(parsed.len() <= facts.len());
    }

    #[test]
    fn no_answer_makes_it_panic(answer in r#"[\[\]{}",:0-9a-z \\]{0,60}"#, turns in 0..3_u32) {
        for fact in parse(&answer, turns, 3).unwrap_or_default() {
            prop_assert!(fact.turn < turns as usize && !fact.text.is_empty());
        }
    }
}
