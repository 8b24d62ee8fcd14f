//! What PyYAML and people write is read; what is written here is read again.

use proptest::prelude::*;

use super::*;

fn texts(front: &str) -> Vec<(String, String)> {
    let fields = parse(front).unwrap();
    fields.into_iter().map(|field| (field.key, field.value.to_json())).collect()
}

/// The value of the key `k`, as JSON.
fn value_of(written: &str) -> String {
    match texts(&format!("k: {written}\nnext: 1\n")).as_slice() {
        [(key, json), (next, _)] if key == "k" && next == "next" => json.clone(),
        other => panic!("{other:?}"),
    }
}

fn problem(front: &str) -> (usize, &'static str) {
    match parse(front) {
        Err(FrontMatterError::Line { line, problem }) => (line, problem),
        other => panic!("{front:?} gives {other:?}"),
    }
}

#[test]
fn scalars_are_read_in_every_spelling() {
    for (written, json) in [
        ("plain text", r#""plain text""#),
        ("plain: not a key", r#""plain: not a key""#),
        ("text # comment", r#""text""#),
        ("a#b", r#""a#b""#),
        ("12", "12"),
        ("-1.50", "-1.50"),
        ("007", r#""007""#),
        ("true", "true"),
        ("~", "null"),
        ("null", "null"),
        ("", "null"),
        ("2025-01-31T10:00:00+00:00", r#""2025-01-31T10:00:00+00:00""#),
        ("'2025-01-31T10:00:00+00:00'", r#""2025-01-31T10:00:00+00:00""#),
        ("'it''s'  # yes", r#""it's""#),
        (r#""a\tb\u00e9\x41\U0001F600\"\\""#, r#""a\tbéA😀\"\\""#),
        (r#""\ud83d\ude00""#, r#""😀""#),
        (r#""\N\_\L\P\e""#, "\"\\u0085\u{a0}\\u2028\\u2029\\u001b\""),
        (r#"{"a": [1, 2.50]}"#, r#"{"a": [1, 2.50]}"#),
        ("[]", "[]"),
    ] {
        assert_eq!(value_of(written), json, "{written}");
    }
}

/// As PyYAML 6 wraps at 80 columns, with and without allow_unicode.
#[test]
fn scalars_over_several_lines_are_folded() {
    assert_eq!(value_of("one two\n  three # no\n  four"), r#""one two three four""#);
    assert_eq!(value_of("'one two\n  three\n\n  four'"), r#""one two three\nfour""#);
    assert_eq!(value_of("\"one \\\n  \\ two\\\n  three\""), r#""one  twothree""#);
    assert_eq!(value_of("\"one  \n  two\""), r#""one two""#);
    assert_eq!(value_of("\n- a\n- 'b: c'\n- 3"), r#"["a","b: c","3"]"#);
    assert_eq!(value_of("\n  - a\n  - \"b\n    c\""), r#"["a","b c"]"#);
    assert_eq!(value_of("[1,\n  2]"), "[1,   2]");
}

#[test]
fn comments_blank_lines_and_carriage_returns_are_passed_over() {
    let fields = texts("# a comment\r\n\r\nid: x\r\nrole: user\r\n");
    assert_eq!(fields, [("id".into(), r#""x""#.into()), ("role".into(), r#""user""#.into())]);
}

#[test]
fn what_cannot_be_read_is_refused_with_its_line() {
    for (front, line) in [
        ("no key\n", 2),
        ("id: 1\n  \"x\": y\n\nwrong\n", 5),
        ("id: \"open\n", 2),
        ("id: 'a' b\n", 2),
        ("id: \"\\q\"\n", 2),
        ("id: \"\\ud83d\"\n", 2),
        ("a: 1\nb: |\n  text\n", 3),
        ("b: &anchor x\n", 2),
        ("b: {a: 1}\n", 2),
        ("b:\n  c: 1\n", 2),
        ("a: 1\na: 2\n", 3),
        ("- item\n", 2),
    ] {
        assert_eq!(problem(front).0, line, "{front:?}");
    }
}

#[test]
fn a_file_is_split_at_its_fences() {
    assert_eq!(split("---\nid: 1\n---\nbody\n---\n"), Ok(("id: 1\n", "body\n---\n")));
    assert_eq!(split("\u{feff}---\r\nid: 1\r\n---\r\nbody"), Ok(("id: 1\r\n", "body")));
    assert_eq!(split("---\n---"), Ok(("", "")));
    assert_eq!(split("----\n---\n"), Err(FrontMatterError::NoBegin));
    assert_eq!(split("id: 1\n---\n"), Err(FrontMatterError::NoBegin));
    assert_eq!(split(""), Err(FrontMatterError::NoBegin));
    assert_eq!(split("---\nid: 1\n"), Err(FrontMatterError::NoEnd));
}

proptest! {
    #[test]
    fn a_quoted_text_is_one_line_and_read_again(text in any::<String>()) {
        let quoted = quote(&text);
        let is_one_line = !quoted.contains(['\n', '\r', '\u{85}', '\u{2028}']);
        prop_assert!(is_one_line);
        let written = write([("k", quoted.as_str())]);
        let (front, body) = split(&written).unwrap();
        prop_assert_eq!(body, "");
        prop_assert_eq!(&parse(front).unwrap()[0].value, &Value::Quoted(text));
    }

    #[test]
    fn any_text_is_read_without_panic(text in "(?s)[-a-c:\"' \\\\\n#\\[{|é]{0,60}") {
        let _ = (split(&text).is_ok(), parse(&text).is_ok());
    }
}
