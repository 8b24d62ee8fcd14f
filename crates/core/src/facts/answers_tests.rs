//! Tests of the formats: what is accepted, and the schemas.

use proptest::prelude::*;

use super::*;

const FACTS: AnswerFormat = AnswerFormat::Facts { turns: 2, max_per_turn: 3 };
const DECISIONS: AnswerFormat = AnswerFormat::Decisions { existing: 2, new: 2 };
const CHOICE: AnswerFormat = AnswerFormat::Decisions { existing: 2, new: 1 };
const REWRITES: AnswerFormat = AnswerFormat::Rewrites { max: 2 };
const VERDICTS: AnswerFormat = AnswerFormat::Verdicts { rows: 2 };
const CHECKS: AnswerFormat = AnswerFormat::Checks { facts: 2 };
const LISTS: [AnswerFormat; 5] = [FACTS, CHECKS, DECISIONS, REWRITES, VERDICTS];

#[test]
fn a_checked_answer_is_clean_and_can_be_parsed() {
    let facts = FACTS.check("Sure!\n```json\n{\"facts\": [{\"turn\": 2, \"text\": \"a\",}],}\n```");
    assert_eq!(facts.as_deref(), Ok(r#"{"facts":[{"turn":2,"text":"a"}]}"#));
    assert_eq!(extract::parse(&facts.unwrap(), 2, 3).unwrap().len(), 1);

    let checks = CHECKS.check("```json\n{\"checks\": [\"stated\", \"joke\"]}\n```").unwrap();
    assert_eq!(statement_check::parse(&checks, 2).unwrap(), ["stated", "joke"]);

    let decisions = DECISIONS.check(
        "<think>1, 2</think>[{\"fact\":1,\"choice\":\"new\"}, {\"fact\":2,\"choice\":\"ends 1\"}]",
    );
    assert_eq!(reconcile::parse(&decisions.unwrap(), 2, 2).unwrap().len(), 2);
    let choice = CHOICE.check("```json\n{\"choice\": \"same as 2\"}\n```").unwrap();
    assert_eq!(reconcile::parse(&choice, 2, 1).unwrap()[0].choice, reconcile::Choice::Same(2));

    let rewrites = REWRITES.check("```\n[\"the user's dog\"]\n```").unwrap();
    assert_eq!(rewrite::parse(&rewrites, "My dog?", 2).unwrap(), ["the user's dog"]);

    let verdicts = VERDICTS.check(r#"Ok. {"verdicts": [{"id": 2, "verdict": "DELETE"}]}"#).unwrap();
    let verdicts = contradictions::parse(&verdicts, 2).unwrap();
    assert_eq!(contradictions::kept(&verdicts), [0]);

    let text = AnswerFormat::Text.check("<think>Hm.</think>\n\n A summary.\n");
    assert_eq!(text.as_deref(), Ok("A summary."));
}

#[test]
fn an_answer_of_another_format_is_refused_with_the_reason() {
    for (format, answer, reason) in [
        (FACTS, r#"{"facts":[{"turn":3,"text":"a"}]}"#, "there is no turn 3"),
        (FACTS, r#"{"memories":[]}"#, "the list \"facts\""),
        (FACTS, "There are none.", "there is no JSON"),
        (FACTS, "", "the answer is empty"),
        (CHECKS, r#"{"checks":["stated"]}"#, "for each of the 2 notes, not 1"),
        (CHECKS, r#"["stated", "true"]"#, "expected one of"),
        (DECISIONS, r#"{"decisions":[{"fact":3,"choice":"new"}]}"#, "there is no fact 3"),
        (DECISIONS, r#"{"choice":"new"}"#, "the list \"decisions\""),
        (CHOICE, r#"{"choice":"ends 9"}"#, "there is no memory \"9\""),
        (CHOICE, r#"{"choice":"NONE"}"#, "\"choice\" must be"),
        (REWRITES, r#"{"rewrites":[5]}"#, "each rewrite must be a string"),
        (REWRITES, "Where does Anna live?", "there is no JSON"),
        (VERDICTS, r#"[{"id":0,"verdict":"KEEP"}]"#, "there is no memory 0"),
        (VERDICTS, r#"[{"id":1,"verdict":"ADD"}]"#, "\"verdict\" must be"),
        (AnswerFormat::Text, " \n", "the answer is empty"),
        (AnswerFormat::Text, "<think>a</think> ", "the answer is empty"),
    ] {
        let error = format.check(answer).unwrap_err().to_string();
        assert!(error.contains(reason), "{answer}: {error}");
    }
}

/// All schemas within a schema, itself included.
fn schemas_in(schema: &Value) -> Vec<&Value> {
    let properties = schema["properties"].as_object().into_iter().flat_map(|o| o.values());
    let inner = properties.chain(schema.get("items")).flat_map(schemas_in);
    std::iter::once(schema).chain(inner).collect()
}

#[test]
fn the_schemas_are_strict() {
    assert_eq!(AnswerFormat::Text.json_schema(), None);
    for format in LISTS {
        let schema = format.json_schema().unwrap();
        assert_eq!(schema["type"], "object");
        for inner in schemas_in(&schema) {
            let Some(properties) = inner["properties"].as_object() else { continue };
            assert_eq!(inner["type"], "object");
            assert_eq!(inner["additionalProperties"], false);
            let properties: Vec<_> = properties.keys().collect();
            assert_eq!(inner["required"], json!(properties), "all are required");
        }
    }
}

#[test]
fn the_schemas_ask_for_the_number_first() {
    let first = |format: AnswerFormat, list: &str| {
        let schema = format.json_schema().unwrap();
        let properties = &schema["properties"][list]["items"]["properties"];
        serde_json::to_string(properties).unwrap()
    };
    assert!(first(FACTS, "facts").starts_with(r#"{"turn""#));
    assert!(
        first(DECISIONS, "decisions")
            .starts_with(r#"{"fact":{"type":"integer","enum":[1,2]},"choice""#)
    );
    assert!(
        first(VERDICTS, "verdicts")
            .starts_with(r#"{"id":{"type":"integer","enum":[1,2]},"verdict""#)
    );
}

#[test]
fn the_schemas_bound_the_lists() {
    let longest = |format: AnswerFormat, list: &str| {
        format.json_schema().unwrap()["properties"][list]["maxItems"].clone()
    };
    assert_eq!(longest(AnswerFormat::Facts { turns: 2, max_per_turn: 3 }, "facts"), 6);
    assert_eq!(longest(AnswerFormat::Decisions { existing: 5, new: 3 }, "decisions"), 3);
    assert_eq!(longest(CHECKS, "checks"), 2);
    assert_eq!(CHECKS.json_schema().unwrap()["properties"]["checks"]["minItems"], 2);
    assert_eq!(longest(REWRITES, "rewrites"), 2);
    assert_eq!(longest(VERDICTS, "verdicts"), 2);
}

#[test]
fn the_schemas_list_the_numbers_unless_there_are_too_many() {
    let turn = |turns| {
        let schema = AnswerFormat::Facts { turns, max_per_turn: 3 }.json_schema().unwrap();
        schema["properties"]["facts"]["items"]["properties"]["turn"].clone()
    };
    assert_eq!(turn(2), json!({"type": "integer", "enum": [1, 2]}));
    assert_eq!(turn(200)["enum"].as_array().unwrap().len(), 200);
    assert_eq!(turn(201), json!({"type": "integer"}));
    assert_eq!(turn(0), json!({"type": "integer"}), "an empty list of values is no schema");

    let largest = AnswerFormat::Decisions { existing: u32::MAX, new: u32::MAX };
    assert!(largest.json_schema().is_some());
}

#[test]
fn a_choice_is_one_of_a_short_list() {
    let schema = CHOICE.json_schema().unwrap();
    let choices = ["new", "same as 1", "replaces 1", "ends 1", "same as 2", "replaces 2", "ends 2"];
    assert_eq!(schema["properties"], json!({"choice": {"type": "string", "enum": choices}}));
    let many = AnswerFormat::Decisions { existing: 51, new: 1 }.json_schema().unwrap();
    assert_eq!(many["properties"], json!({"choice": {"type": "string"}}));
}

#[test]
fn names_are_fit_for_json_schema_name() {
    assert_eq!(AnswerFormat::Text.name(), "text");
    let names = LISTS.map(|format| format.name());
    assert_eq!(names, ["facts", "checks", "decisions", "rewrites", "verdicts"]);
}

proptest! {
    #[test]
    fn a_checked_answer_stays_as_it_is(answer in "[a-z{}\\[\\]\",: 0-9]{0,40}") {
        for format in LISTS.into_iter().chain([AnswerFormat::Text]) {
            if let Ok(checked) = format.check(&answer) {
                prop_assert_eq!(format.check(&checked), Ok(checked.clone()));
            }
        }
    }

    #[test]
    fn an_error_repeats_at_most_200_characters(
        noise in "\\PC{0,30}",
        piece in "(\"text\"|\"turn\"|\"id\"|\"event\"|x|ü|[{}\\[\\],:\"]){1,10}",
        list in "(facts|memories|actions|rewrites|verdicts)",
        field in "(turn|id|action|event|verdict|markers|text)",
    ) {
        // The part that is repeated is the same character everywhere.
        let long = "¤".repeat(500);
        let answer = format!("{{\"{list}\":[{{\"{field}\":\"{long}\",{piece}{noise}");
        for format in LISTS {
            let error = format.check(&answer).unwrap_err().to_string();
            prop_assert!(error.chars().filter(|c| *c == '¤').count() <= 200);
        }
    }
}

/// What was accepted is read again, from a job that keeps it: numbers are read to the nearest one.
#[test]
fn a_long_number_stays_the_same_the_second_time() {
    let format = AnswerFormat::Facts { turns: 1, max_per_turn: 1 };
    let answer = r#"{"facts":[{"turn":1,"text":"x","confidence":0.92222222222222222222222222222222222222222222222222}]}"#;
    let checked = format.check(answer).unwrap();
    assert_eq!(format.check(&checked).as_ref(), Ok(&checked));
}
