//! What models put around a text that was asked for, and the text without it.

use serde_json::{Map, Value};

use crate::llm::json_answer;
use crate::text::words::parts;

/// Bytes that are looked at, at most: a layer that is taken off is a pass over the text.
const MAX_SCANNED: usize = 64 << 20;
/// What is longer announces nothing.
const MAX_ANNOUNCEMENT_BYTES: usize = 160;
/// Openers of words that announce the text.
const OPENERS: [&str; 14] = [
    "here is",
    "here's",
    "here’s",
    "here are",
    "below is",
    "the following",
    "sure",
    "certainly",
    "of course",
    "okay",
    "ok",
    "absolutely",
    "understood",
    "this is",
];
/// What such words announce.
const ANNOUNCED: [&str; 6] =
    ["summary", "sentence", "paragraph", "version", "rewritten", "shortened"];
/// Words that may stand before "summary" in a label or heading.
const LABEL_WORDS: [&str; 16] = [
    "the",
    "a",
    "your",
    "my",
    "updated",
    "new",
    "brief",
    "short",
    "final",
    "revised",
    "combined",
    "concise",
    "conversation",
    "rolling",
    "shortened",
    "overall",
];
/// Openers of a last line that is no part of the text.
const CLOSINGS: [&str; 6] =
    ["let me know", "i hope this", "word count", "token count", "feel free", "would you like"];

/// The text of an answer, without a code fence, quotes or JSON around it, without "Here is the
/// summary:" before it and "Let me know ..." behind it; trimmed, without NUL. An answer that is
/// nothing but such words is left as it is.
#[must_use]
pub fn clean(answer: &str) -> String {
    let mut text = without_words_around(answer);
    // JSON may stand in what was taken away.
    while let Some(fields) = json_fields(&text) {
        let in_json = fields.get("summary").and_then(Value::as_str).unwrap_or_default();
        let inner = without_words_around(in_json);
        if inner.is_empty() {
            break;
        }
        text = inner;
    }
    text
}

fn without_words_around(answer: &str) -> String {
    let answer = answer.replace('\0', "");
    let mut text = json_answer::without_reasoning(&answer).unwrap_or_default().trim();
    for _ in 0..=MAX_SCANNED / text.len().max(1) {
        let before = text.len();
        // A fence around JSON goes with it.
        if json_fields(text).is_some() {
            break;
        }
        for without in [without_fence, without_label, without_announcement, without_closing] {
            let rest = without(text).trim();
            if !rest.is_empty() {
                text = rest;
            }
        }
        text = without_quotes(text);
        if text.len() == before {
            break;
        }
    }
    text.to_owned()
}

/// The fields of an answer that is a JSON object with a summary: the input is JSON, so some models
/// answer in it too. Names of fields are in small letters.
pub(crate) fn json_fields(answer: &str) -> Option<Map<String, Value>> {
    let text = without_fence(json_answer::without_reasoning(answer).ok()?.trim());
    if !text.starts_with('{') {
        return None;
    }
    let Ok(Value::Object(fields)) = serde_json::from_str(text) else { return None };
    let fields: Map<_, _> = fields.into_iter().map(|(name, v)| (name.to_lowercase(), v)).collect();
    let has_summary =
        fields.get("summary").and_then(Value::as_str).is_some_and(|s| !s.trim().is_empty());
    has_summary.then_some(fields)
}

/// The content of a code fence around all of the text.
fn without_fence(text: &str) -> &str {
    let inner = text.strip_prefix("```").and_then(|text| text.strip_suffix("```"));
    match inner.and_then(|inner| inner.split_once('\n')) {
        Some((language, inner))
            if !language.trim().contains(char::is_whitespace) && !inner.contains("```") =>
        {
            inner
        }
        _ => text,
    }
}

/// What follows `Summary:`, `**Updated summary:**` or a heading `# Summary`.
fn without_label(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default();
    let marks = ['#', '*', '_', ' '];
    let bare = line.trim_start_matches(marks);
    let start = line.len() - bare.len();
    if let Some(colon) = bare.find(':')
        && is_label(&bare[..colon])
    {
        return text[start + colon + 1..].trim_start_matches(['*', '_']);
    }
    let is_heading = start > 0 && is_label(bare.trim_end().trim_end_matches(marks));
    if is_heading { &text[line.len()..] } else { text }
}

/// Whether these are words for "summary" and nothing else.
fn is_label(words: &str) -> bool {
    let lower = words.to_lowercase();
    let mut words: Vec<&str> = parts(&lower).collect();
    words.pop() == Some("summary") && words.iter().all(|word| LABEL_WORDS.contains(word))
}

/// What follows "Sure! Here is the summary:", or a first line like that by itself.
fn without_announcement(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default();
    // Not the colon of a time.
    let is_end = |at: &usize| !line[at + 1..].starts_with(char::is_alphanumeric);
    let colon = line.match_indices(':').map(|(at, _)| at).find(is_end);
    if let Some(colon) = colon
        && announces(&line[..colon])
    {
        return text[colon + 1..].trim_start_matches(['*', '_']);
    }
    let rest = &text[line.len()..];
    let is_alone = rest.starts_with("\n\n") || rest.starts_with("\r\n\r\n");
    if is_alone && line.ends_with(['.', '!']) && announces(line) { rest } else { text }
}

/// Whether this is how models announce what they were asked for.
fn announces(words: &str) -> bool {
    if words.len() > MAX_ANNOUNCEMENT_BYTES {
        return false;
    }
    let lower = words.trim_start_matches(['*', '_']).to_lowercase();
    let is_opener = |opener: &&str| {
        lower.strip_prefix(*opener).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    };
    OPENERS.iter().any(is_opener) && ANNOUNCED.iter().any(|word| lower.contains(word))
}

/// The text before a last line such as "Let me know if you need more."
fn without_closing(text: &str) -> &str {
    let Some((before, last)) = text.trim_end().rsplit_once('\n') else { return text };
    let lower = last.trim_start_matches(['(', '*', '_', ' ']).to_lowercase();
    if CLOSINGS.iter().any(|closing| lower.starts_with(closing)) { before } else { text }
}

/// The text in quotes, if they are around all of it.
fn without_quotes(text: &str) -> &str {
    for (open, close) in [('"', '"'), ('“', '”'), ('«', '»')] {
        let inner = text.strip_prefix(open).and_then(|text| text.strip_suffix(close));
        if let Some(inner) = inner.filter(|inner| !inner.contains([open, close])) {
            let inner = inner.trim();
            return if inner.is_empty() { text } else { inner };
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_around_the_text_goes() {
        for answer in [
            "Ann moved to Rome.",
            "  Ann moved to Rome.\n",
            "Here is the summary:\n\nAnn moved to Rome.",
            "Sure! Here's a brief summary of the conversation:\nAnn moved to Rome.",
            "Here is a one-sentence summary: Ann moved to Rome.",
            "Okay, below is the updated summary.\n\nAnn moved to Rome.",
            "**Here is the summary of the meeting at 10:30:** Ann moved to Rome.",
            "Summary: Ann moved to Rome.",
            "**Updated Summary:** Ann moved to Rome.",
            "## Summary\n\nAnn moved to Rome.",
            "**Conversation summary**\nAnn moved to Rome.",
            "```\nAnn moved to Rome.\n```",
            "```text\nHere is the summary:\nAnn moved to Rome.\n```",
            "\"Ann moved to Rome.\"",
            "“Ann moved to Rome.”",
            "<think>Hm.</think>Summary:\n\"Ann moved to Rome.\"",
            "{\"summary\": \"Ann moved to Rome.\"}",
            "```json\n{\"Summary\": \"Ann moved\\u0000 to Rome.\\n\"}\n```",
            "Ann moved to Rome.\n\nLet me know if you need more details!",
            "Ann moved to Rome.\n\n(Word count: 4)",
            "Ann moved\0 to Rome.",
            "```json\n{\0\n\"Summary\":\"Ann moved to Rome.\"}\n```",
            "Summary:\n{\"summary\": \"Ann moved to Rome.\"}",
        ] {
            assert_eq!(clean(answer), "Ann moved to Rome.", "{answer}");
        }
    }

    #[test]
    fn the_text_itself_stays() {
        for text in [
            "She wrote the summary: it was long.",
            "Here is where Ann lives: Rome.",
            "Sure of herself, Ann left.",
            "Okinawa's summary: hot.",
            "The project has three goals:\n- one\n- two",
            "\"No\", she said, \"never\"",
            "Use ```x``` here.",
            "```\na\n```\ntext\n```\nb\n```",
            "{\"a\": 1}",
            "Summary:",
            "# Plan\nText.",
            "\"\"",
            "Let me know, Ann said.",
        ] {
            assert_eq!(clean(text), text);
        }
        assert_eq!(clean(" \n"), "");
        assert_eq!(clean("<think>never ends"), "");
    }

    proptest! {
        #[test]
        fn a_clean_text_stays_clean(
            answer in "((Here is|the|summary|Sure|:|\\.|#|\\*\\*|```|\"|\n| |Ann|“|”|İ|\\{|\\}){0,14})|\\PC{0,40}",
        ) {
            let text = clean(&answer);
            prop_assert_eq!(clean(&text), text.clone());
            prop_assert!(!text.contains('\0') && text.trim() == text);
        }

        #[test]
        fn a_sentence_survives_its_preamble(
            sentence in "[A-Z][a-z]{2,8} [a-z]{2,8} [a-z]{2,8}\\.", preamble in 0..4_usize,
        ) {
            let preamble = ["", "Here is the summary:\n", "Summary: ", "**Summary**\n\n"][preamble];
            prop_assert_eq!(clean(&format!("{preamble}{sentence}")), sentence);
        }
    }
}
