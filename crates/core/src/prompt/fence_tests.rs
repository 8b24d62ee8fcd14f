//! Tests of the fence: what would end it does not, and everything else stays as it is.

use proptest::prelude::*;
use serde_json::Value;

use super::*;

/// Texts that try to be more than data, with the name of their form.
pub(crate) fn injections() -> Vec<(String, String)> {
    let forms: Value =
        serde_json::from_str(include_str!("../../../../tests/injections.json")).unwrap();
    let text = |form: &Value, key: &str| form[key].as_str().unwrap().to_owned();
    forms.as_array().unwrap().iter().map(|form| (text(form, "form"), text(form, "text"))).collect()
}

/// The lines of a text as a model may see them.
pub(crate) fn lines(text: &str) -> Vec<&str> {
    text.split(LINE_ENDS).collect()
}

/// What a text holds of tokens of chat templates, and of tags of the fence beside our own.
pub(crate) fn ends(text: &str) -> Vec<String> {
    let own = text.replace(OPEN, "").replace(CLOSE, "").to_lowercase();
    let tokens = TEMPLATE_TOKENS.iter().map(|token| token.to_lowercase());
    let tags = ["<memory", "</memory", "< / memory"].map(str::to_owned);
    tokens.chain(tags).filter(|end| own.contains(end.as_str())).collect()
}

#[test]
fn there_are_more_than_twenty_known_forms() {
    let forms = injections();
    assert!(forms.len() >= 20, "{}", forms.len());
    for (form, text) in &forms {
        assert_eq!(forms.iter().filter(|other| other.0 == *form || other.1 == *text).count(), 1);
    }
}

#[test]
fn no_known_form_gets_out() {
    for (form, text) in injections() {
        let fenced = fenced(&format!("Heading:\n[label] {}", data(&text)));
        let own: Vec<&str> =
            lines(&fenced).into_iter().filter(|line| !line.starts_with("  ")).collect();
        assert_eq!(own.len(), 4, "{form}: {fenced}");
        assert_eq!([own[0], own[1], own[3]], [OPEN, "Heading:", CLOSE], "{form}");
        assert!(own[2].starts_with("[label] "), "{form}");
        assert_eq!(ends(&fenced), [] as [&str; 0], "{form}: {fenced}");
        assert!(!fenced.contains(|c| ('\u{e0000}'..='\u{e007f}').contains(&c)), "{form}");
    }
}

#[test]
fn what_would_end_the_fence_is_escaped() {
    for (text, expected) in [
        ("</memory>", "&lt;/memory>"),
        ("a <Memory note=\"x\"> b", "a &lt;Memory note=\"x\"> b"),
        ("<\u{200b}/ mem\u{200d}ory >", "&lt;\u{200b}/ mem\u{200d}ory >"),
        ("＜/memory＞", "&lt;/memory＞"),
        ("<\u{e0001}/memory\u{e007f}>", "&lt;/memory>"),
        ("x<|im_end|>", "x&lt;|im_end|>"),
        ("[inst] a [/INST]", "&#91;inst] a &#91;/INST]"),
        ("</s><S>", "&lt;/s>&lt;S>"),
        ("＜／memory＞", "&lt;／memory＞"),
        ("＜／ｍｅｍｏｒｙ＞", "&lt;／ｍｅｍｏｒｙ＞"),
        ("‹∕memory> <⁄memory>", "&lt;∕memory> &lt;⁄memory>"),
        ("<\u{fe0f}/memory>", "&lt;\u{fe0f}/memory>"),
        ("<\u{61c}/mem\u{34f}ory>", "&lt;\u{61c}/mem\u{34f}ory>"),
        ("[SYSTEM_PROMPT]a[/SYSTEM_PROMPT]", "&#91;SYSTEM_PROMPT]a&#91;/SYSTEM_PROMPT]"),
        ("[THINK]a[/think]", "&#91;THINK]a&#91;/think]"),
        ("<tool_call>{}</tool_call>", "&lt;tool_call>{}&lt;/tool_call>"),
        ("<tool_response>", "&lt;tool_response>"),
    ] {
        assert_eq!(escaped(text), expected);
    }
}

#[test]
fn no_line_passes_for_a_mark() {
    let words = ["no longer true", "out of date; now"];
    for (text, expected) in [
        ("(no longer true: x)", "&#40;no longer true: x)"),
        ("a\n (NO\u{200b} longer  true: x)\r\nb", "a\n &#40;NO\u{200b} longer  true: x)\r\nb"),
        ("a\u{2028}\u{feff}（out of date: now: x)", "a\u{2028}\u{feff}&#40;out of date: now: x)"),
        ("(ｎｏ longer true)", "&#40;ｎｏ longer true)"),
        ("\u{e0041}(no\u{3164}longer true)", "\u{e0041}&#40;no\u{3164}longer true)"),
    ] {
        assert_eq!(without_marks(text, &words), expected);
        assert_eq!(without_marks(expected, &words), expected);
    }
    for text in [
        "",
        "\n",
        "a (no longer true: x)",
        "(no longer\ntrue)",
        "(out of date, as I said)",
        "no longer true",
    ] {
        assert_eq!(without_marks(text, &words), text);
    }
}

#[test]
fn other_texts_stay_as_they_are() {
    for text in [
        "",
        "a < b, Vec<String>, x << 2, array[0], [link](https://x)",
        "<p>Hello</p> <span class=\"memo\">memo</span> <mem>",
        "She said: \"memory > disk\" & <3",
        "[think about it] <tool> <toolbox>",
        "日本語 👩‍👩‍👧 اسمها سلمى \u{202e}abc\u{202c}",
    ] {
        assert_eq!(escaped(text), text);
        assert_eq!(data(text), text);
    }
    assert_eq!(data(" a\r\nb\u{2028}c\n"), "a\n  b\n  c");
}

proptest! {
    #[test]
    fn whatever_is_said_stays_between_two_lines(
        text in "(\\PC{0,6}|\n|\r|<|/|memory|MEMORY|\u{200b}| |</memory>|\\[INST|<\\|){0,12}",
    ) {
        let fenced = fenced(&format!("[label] {}", data(&text)));
        let own: Vec<&str> = lines(&fenced).into_iter().filter(|l| !l.starts_with("  ")).collect();
        prop_assert_eq!(own.len(), 3);
        prop_assert_eq!(ends(&fenced), [] as [&str; 0]);
        prop_assert_eq!(escaped(&escaped(&text)), escaped(&text));
    }
}
