//! Tests of finding JSON in what models write.

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// What is found if every list or object will do.
fn any(answer: &str) -> Result<Value, String> {
    find(answer, |_| Ok(())).map_err(|error| error.to_string())
}

/// What is found if only an object with "facts" will do.
fn facts(answer: &str) -> Result<Value, String> {
    find(answer, |value| match value.get("facts") {
        Some(_) => Ok(()),
        None => Err(AnswerError::new("no facts")),
    })
    .map_err(|error| error.to_string())
}

#[test]
fn one_object_is_found_in_whatever_is_around_it() {
    let value = json!({"facts": [{"turn": 1, "text": "a } ] \" ` b"}]});
    let bare = value.to_string();
    for answer in [
        bare.clone(),
        format!("\u{feff}\n {bare} \n"),
        format!("```json\n{bare}\n```"),
        format!("```\n{bare}\n```\nI hope this helps."),
        format!("Here is what I found: {bare}. Anything else?"),
        format!("The user's \"note\" [1] and {{braces}} say:\n{bare}"),
        format!("{bare}\n\n{bare}"),
        format!("<think>\nPerhaps {{\"facts\": [1]}}? Or [\n</think>\n\n{bare}"),
        format!("<THINK>a</THINK><think>b</think>{bare}"),
        format!("<reasoning>{{\"facts\": </reasoning>{bare}"),
        format!("Perhaps {{\"facts\": [1]}}?\n</think>\n{bare}"),
        format!("a < b {bare} </p>"),
    ] {
        assert_eq!(facts(&answer).as_ref(), Ok(&value), "{answer}");
    }
}

#[test]
fn small_faults_are_mended() {
    for (answer, value) in [
        ("{\"a\": [1, 2,], }", json!({"a": [1, 2]})),
        ("[\n  {\"a\": \"x,]\",\n  },\n]", json!([{"a": "x,]"}])),
        ("{\"a\": \"two\nlines\tand more\"}", json!({"a": "two\nlines\tand more"})),
        ("[ 1 , 2 ,\t]", json!([1, 2])),
        ("[\"ü,\", \"\\\"]\",]", json!(["ü,", "\"]"])),
    ] {
        assert_eq!(any(answer), Ok(value), "{answer}");
    }
}

#[test]
fn nothing_is_guessed() {
    for (answer, message) in [
        ("", "the answer is empty"),
        ("\u{feff} \n", "the answer is empty"),
        ("I found no facts.", "there is no JSON in the answer: I found no facts."),
        ("{'a': 1}", "there is no JSON"),
        ("{\"a\": [1, 2", "the JSON in the answer is not complete"),
        ("{\"a\": [{\"b\": 1}], \"c", "the JSON in the answer is not complete"),
        ("{\"a\": [1, 2}", "the brackets of the JSON in the answer do not match"),
        ("{\"a\": [1 2]}", "the JSON is not valid"),
        ("[1,,]", "the JSON is not valid"),
        ("[\"a\",,\"b\"]", "the JSON is not valid"),
        ("{\"a\":,}", "the JSON is not valid"),
        ("{\"a\": [,]}", "the JSON is not valid"),
        ("{\"a\": 1 /* one */}", "the JSON is not valid"),
        ("{\"a\": NaN}", "the JSON is not valid"),
        ("{\"a\": \"\\ud800\"}", "the JSON is not valid"),
        ("{\"a\": 1} or {\"a\": 2}", "the answer holds several JSON values that differ"),
        ("<think>{\"a\": 1}", "the answer ends before the reasoning does"),
        ("<think>x</think>", "there is no JSON"),
        ("{\"a\": 1}</think>", "there is no JSON"),
    ] {
        let error = any(answer).unwrap_err();
        assert!(error.starts_with(message), "{answer}: {error}");
    }
    assert!(any("[,]").is_err());
}

#[test]
fn a_part_of_broken_json_is_never_taken() {
    // The list inside would be acceptable by itself.
    for answer in
        ["{\"note\": oops, \"list\": [\"a\"]}", "x {\"list\": [\"a\"]", "[[\"a\"], [\"b\""]
    {
        assert!(any(answer).is_err(), "{answer}");
    }
}

#[test]
fn an_empty_list_counts_only_by_itself() {
    for answer in ["[]", "```json\n[]\n```", "Nothing to remember:\n\n  [ ]\t\nDone."] {
        assert_eq!(any(answer), Ok(json!([])), "{answer}");
    }
    for answer in ["- [ ] buy milk", "I found [] here", "f(x) {}"] {
        assert!(any(answer).unwrap_err().starts_with("there is no JSON"), "{answer}");
    }
}

#[test]
fn the_reason_of_a_refusal_is_reported() {
    assert_eq!(facts("[1]"), Err("no facts".to_owned()));
    assert_eq!(facts("As [1] says: {\"a\": 1}."), Err("no facts".to_owned()));
}

#[test]
fn an_error_repeats_little_of_the_answer() {
    for answer in [
        "x".repeat(5_000),
        format!("{{\"{}", "ü".repeat(5_000)),
        format!("[{}", "\"a\" ".repeat(5_000)),
    ] {
        let error = any(&answer).unwrap_err();
        assert!(error.chars().count() <= 200, "{error}");
    }
}

#[test]
fn hostile_answers_need_neither_stack_nor_patience() {
    let many = |piece: &str, bytes: usize| piece.repeat(bytes / piece.len());
    for piece in ["[", "{\"a\":", "[\""] {
        assert!(any(&many(piece, 1_000_000)).is_err(), "{piece}");
    }
    let pieces = ["{", "[1,", "<think>", "</think>", "<", "[ ", "[]", "{a", "[1]\n", "\"[\\"];
    for piece in pieces {
        let answer = many(piece, 200_000);
        let _ = any(&answer);
        let _ = any(&format!("x {answer}"));
        let _ = without_reasoning(&answer);
    }
    let commas = format!("[{}]", many("[1,],", 200_000));
    assert_eq!(any(&commas).unwrap().as_array().unwrap().len(), 40_000);
}

#[test]
fn reasoning_is_put_aside() {
    for (answer, rest) in [
        ("The summary.", "The summary."),
        ("<think>Hm.</think>\nThe summary.", "The summary."),
        (" <think>a</think> <thinking>b</thinking>The <think> tag", "The <think> tag"),
    ] {
        assert_eq!(without_reasoning(answer), Ok(rest));
    }
    assert!(without_reasoning("<think>Hm.").is_err());
}

#[test]
fn whole_numbers_are_read_as_models_write_them() {
    for (value, number) in [
        (json!(3), Some(3)),
        (json!(3.0), Some(3)),
        (json!(" 3 "), Some(3)),
        (json!(3.5), None),
        (json!(-3), None),
        (json!(1e30), None),
        (json!("three"), None),
        (json!(true), None),
        (json!(null), None),
    ] {
        assert_eq!(whole_number(&value), number, "{value}");
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any_bool(),
        proptest::num::i64::ANY.prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(".{0,5}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_bool() -> impl Strategy<Value = Value> {
    proptest::bool::ANY.prop_map(Value::from)
}

/// An object or a list that holds something.
fn container() -> impl Strategy<Value = Value> {
    value().prop_map(|value| json!({"value": value}))
}

proptest! {
    #[test]
    fn valid_json_comes_back_equal(value in value()) {
        prop_assert_eq!(any(&value.to_string()), Ok(value.clone()));
        prop_assert_eq!(any(&serde_json::to_string_pretty(&value).unwrap()), Ok(value));
    }

    #[test]
    fn json_among_text_comes_back_equal(
        value in container(),
        before in "[^<{\\[]{0,20}",
        after in "[^<{\\[]{0,20}",
    ) {
        prop_assert_eq!(any(&format!("{before}{value}{after}")), Ok(value.clone()));
        prop_assert_eq!(any(&format!("{before}\n```json\n{value:#}\n```{after}")), Ok(value));
    }

    #[test]
    fn mending_changes_nothing_that_is_valid(value in container()) {
        let mended: Value = serde_json::from_str(&mend(&format!("{value:#}"))).unwrap();
        prop_assert_eq!(mended, value);
    }

    #[test]
    fn json_that_is_cut_off_is_never_taken(value in container(), share in 0.0..1.0) {
        let text = value.to_string();
        let cut: String =
            text.chars().take((text.chars().count() as f64 * share) as usize).collect();
        prop_assert!(any(&cut).is_err(), "{}", cut);
    }

    #[test]
    fn no_answer_makes_it_panic(answer in "([\\[\\]{}\",:<>/ \\\\]|think|1|ü|\\PC){0,60}") {
        let _ = any(&answer);
        let _ = without_reasoning(&answer);
    }
}

#[test]
fn reasoning_is_not_said() {
    let thought = "<think>\nThey hate pineapple.\n</think>\n\nTake the night train.";
    for (answer, expected) in [
        (thought, "Take the night train."),
        ("\n<THINK>a</think><think>b</think> c\n", "c\n"),
        ("<think>still", ""),
        (" as it is\n", " as it is\n"),
        ("The tag <think> opens </think> it.", "The tag <think> opens </think> it."),
    ] {
        assert_eq!(super::said(answer), expected, "{answer}");
    }
}
