//! Secrets in what is about to be stored: keys and tokens that their prefix gives away, payment cards by prefix and
//! check digit, and on request what is said to be a password. What is only long and random stays: it may be an id.

mod cards;
mod scanner;

use crate::text::raw_json::{Json, Object};
use crate::text::secrets::scanner::Scanner;
use crate::words;
use regex_lite::Regex;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

/// The key in a row's metadata under which it is counted what was taken out of it.
pub const REDACTED: &str = "redacted";

words! {
    /// What a secret is, by its form.
    #[derive(PartialOrd, Ord)]
    pub enum Form {
        /// `sk-...`, of OpenAI, Anthropic and others.
        ApiKey = "api key",
        /// `AKIA...`
        AwsKey = "aws key",
        /// `ghp_...`, `github_pat_...`
        GithubToken = "github token",
        /// `xoxb-...`
        SlackToken = "slack token",
        /// A PEM block.
        PrivateKey = "private key",
        /// JSON Web Token.
        Jwt = "jwt",
        /// The number of a payment card.
        Card = "card",
        /// What the text says is a password.
        Password = "password",
    }
}

/// How often each form was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<Form, u64>);

impl Counts {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As it stands in metadata: `{"api key": 1}`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let counts = self.0.iter().map(|(form, count)| (form.as_str().to_owned(), (*count).into()));
        Value::Object(counts.collect::<Map<_, _>>())
    }

    /// The forms, for a person.
    #[must_use]
    pub fn names(&self) -> String {
        self.0.keys().map(|form| form.as_str()).collect::<Vec<_>>().join(", ")
    }
}

/// `text` with `[redacted: FORM]` in place of every secret, counted. `phrases`: also what is said to be a password.
/// What was redacted once stays as it is.
pub fn redacted<'a>(text: &'a str, phrases: bool, counts: &mut Counts) -> Cow<'a, str> {
    let found = find(text, phrases);
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut redacted = String::with_capacity(text.len());
    let mut done = 0;
    for (range, form) in found {
        redacted.push_str(&text[done..range.start]);
        redacted.push_str("[redacted: ");
        redacted.push_str(form.as_str());
        redacted.push(']');
        done = range.end;
        *counts.0.entry(form).or_default() += 1;
    }
    redacted.push_str(&text[done..]);
    Cow::Owned(redacted)
}

/// The same in the strings of a JSON text, which else stays as it is written.
pub fn redacted_json<'a>(json: &'a str, phrases: bool, counts: &mut Counts) -> Cow<'a, str> {
    let mut redacted_json = String::new();
    let (mut done, mut at) = (0, 0);
    while let Some(start) = json[at..].find('"').map(|offset| at + offset) {
        let end = end_of_string(json.as_bytes(), start);
        at = end;
        let Ok(text) = serde_json::from_str::<String>(&json[start..end]) else { continue };
        if let Cow::Owned(clean) = redacted(&text, phrases, counts) {
            redacted_json.push_str(&json[done..start]);
            redacted_json.push_str(&Value::from(clean).to_string());
            done = end;
        }
    }
    if done == 0 {
        return Cow::Borrowed(json);
    }
    redacted_json.push_str(&json[done..]);
    Cow::Owned(redacted_json)
}

/// Metadata without the counts of the text before: an object with names of forms, and nothing else.
#[must_use]
pub fn uncounted(metadata: &str) -> Cow<'_, str> {
    let is_count = |(key, value): &(String, Json)| {
        let forms = serde_json::from_str::<Map<String, Value>>(&value.0);
        key == REDACTED
            && forms.is_ok_and(|forms| forms.keys().all(|form| Form::of(form).is_some()))
    };
    let Ok(Object(mut members)) = serde_json::from_str::<Object>(metadata) else {
        return Cow::Borrowed(metadata);
    };
    let before = members.len();
    members.retain(|member| !is_count(member));
    if members.len() == before {
        return Cow::Borrowed(metadata);
    }
    let members: Vec<String> = members
        .into_iter()
        .map(|(key, value)| format!("{}: {}", Value::from(key), value.0))
        .collect();
    Cow::Owned(format!("{{{}}}", members.join(", ")))
}

/// What a text may look like where it is stored, whatever the settings said then: as it is, and without its secrets.
#[must_use]
pub fn stored_forms(text: &str) -> Vec<Cow<'_, str>> {
    let mut forms = vec![Cow::Borrowed(text)];
    for phrases in [false, true] {
        let form = redacted(text, phrases, &mut Counts::default());
        if !forms.contains(&form) {
            forms.push(form);
        }
    }
    forms
}

/// Behind the quotation mark that ends the string which begins at `start`.
fn end_of_string(json: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(&byte) = json.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    json.len()
}

/// The secrets of a text, in its order.
fn find(text: &str, phrases: bool) -> Vec<(Range<usize>, Form)> {
    let mut scanner = Scanner::new(text);
    let mut found = Vec::new();
    let mut at = 0;
    while at < scanner.bytes.len() {
        match scanner.secret_at(at) {
            Some((end, form)) => {
                found.push((at..end, form));
                (at, scanner.done) = (end, end);
            }
            None => at += scanner.skip(at),
        }
    }
    if phrases {
        // Between the others, which are going to be other texts.
        let ends = found.iter().map(|(range, _)| range.end);
        let starts = found.iter().map(|(range, _)| range.start);
        let between = std::iter::once(0).chain(ends).zip(starts.chain([text.len()]));
        let said: Vec<_> = between
            .flat_map(|(start, end)| passwords(text, start..end))
            .map(|range| (range, Form::Password))
            .collect();
        found.extend(said);
        found.sort_by_key(|(range, _)| range.start);
    }
    found
}

// Group 1 is what is said. A unit test proves that the expression can be read.
static SAID: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let names = "passwords?|passwort|kennwort|passphrase|passcode|pwd|pin(?:[ -]?code)?|mot de passe|contraseña|senha";
    let link = r#"["']?[ \t]*(?:is|was|ist|lautet|war|est|es|é|=|:)[ \t:="'“]+"#;
    Regex::new(&format!(r#"(?i)\b(?:{names})\b{link}([^\s"'”]+)"#)).ok()
});

/// What follows "the password is" without being one.
const NO_PASSWORD: [&str; 30] = [
    "a",
    "an",
    "in",
    "it",
    "my",
    "no",
    "not",
    "now",
    "on",
    "our",
    "the",
    "too",
    "very",
    "weak",
    "your",
    "also",
    "wrong",
    "invalid",
    "incorrect",
    "expired",
    "required",
    "needed",
    "missing",
    "stored",
    "secret",
    "safe",
    "changed",
    "set",
    "nicht",
    "falsch",
];

fn passwords(text: &str, within: Range<usize>) -> Vec<Range<usize>> {
    let Some(said) = &*SAID else { return Vec::new() };
    // Nearly every text has none of the names, and the expression is slow.
    let (text, from) = (&text[within.clone()], within.start);
    let small = text.to_ascii_lowercase();
    if !["pass", "kennwort", "pwd", "pin", "contra", "senha"]
        .iter()
        .any(|name| small.contains(name))
    {
        return Vec::new();
    }
    let of = |found: regex_lite::Match<'_>| {
        let word = found.as_str().trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']']);
        let is_secret = !word.is_empty()
            && !word.contains("[redacted")
            && !NO_PASSWORD.contains(&word.to_lowercase().as_str());
        let start = from + found.start();
        is_secret.then(|| start..start + word.len())
    };
    said.captures_iter(text).filter_map(|captures| of(captures.get(1)?)).collect()
}

#[cfg(test)]
#[path = "secrets_tests.rs"]
mod tests;
