//! A language that memory knows phrases of: those that mark what is worth remembering, and those by which a
//! query asks for something fresh. English is built in; other languages are read from files of the same form,
//! which `phrases.rs` describes.

use std::ops::Range;
use std::sync::LazyLock;

use chrono::{DateTime, Utc};

use crate::text::calendar::Distance;
use crate::text::freshness;
use crate::text::markers;
use crate::text::phrases::PhraseList;
use crate::text::time_phrases::{Span, Times};

/// The phrases of one language.
#[derive(Debug, Default)]
pub struct Language {
    markers: PhraseList,
    freshness: PhraseList,
    times: Times,
}

/// A file of phrases that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LanguageError(String);

const BUILT_IN: [&str; 3] = [
    include_str!("markers_en.txt"),
    include_str!("freshness_en.txt"),
    include_str!("times_en.txt"),
];

// A unit test proves that the built-in lists can be read.
static ENGLISH: LazyLock<Language> =
    LazyLock::new(|| Language::parse(BUILT_IN[0], BUILT_IN[1], BUILT_IN[2]).unwrap_or_default());

impl Language {
    /// What is built in.
    pub fn english() -> &'static Self {
        &ENGLISH
    }

    /// Reads the lists of a language. The sections of the first are markers, `[question]` and `[filler]`; the
    /// phrases of the second are in the section `[fresh]`; `time_phrases.rs` describes those of the third.
    pub fn parse(markers: &str, freshness: &str, times: &str) -> Result<Self, LanguageError> {
        Ok(Self {
            markers: list(markers, &markers::BUILT_IN)?,
            freshness: list(freshness, &["fresh"])?,
            times: Times::parse(times).map_err(|error| LanguageError(error.to_string()))?,
        })
    }

    /// The built-in markers that the text gives cause for, each once, in the order of [`markers::BUILT_IN`].
    pub fn markers(&self, text: &str) -> Vec<&'static str> {
        let found: Vec<&str> = self.markers.find(text).collect();
        markers::BUILT_IN.into_iter().filter(|marker| found.contains(marker)).collect()
    }

    /// The times that a question names, asked at a moment. At most one for each word of it.
    pub fn times(&self, question: &str, asked_at: DateTime<Utc>) -> Vec<Span> {
        self.times.spans(question, asked_at)
    }

    /// The times relative to a day that words of a statement mean, and which words those are.
    pub(crate) fn distances(&self, words: &[&str]) -> Vec<(Range<usize>, Distance)> {
        self.times.distances(words)
    }

    /// How the language writes months and days.
    pub(crate) fn calendar(&self) -> &Times {
        &self.times
    }

    /// Whether words name a date, with the name of a month.
    pub(crate) fn names_a_date(&self, words: &[&str]) -> bool {
        self.times.name_a_date(words)
    }

    /// Whether the query has a phrase that asks for something fresh, or an ISO date (`YYYY-MM-DD`), as whole
    /// words and in any letter case.
    pub fn asks_for_fresh(&self, query: &str) -> bool {
        self.freshness.find(query).next().is_some() || freshness::has_iso_date(query)
    }
}

fn list(source: &str, sections: &[&str]) -> Result<PhraseList, LanguageError> {
    let list = PhraseList::parse(source).map_err(|error| LanguageError(error.to_string()))?;
    match list.sections().iter().find(|name| !sections.contains(&name.as_str())) {
        Some(unknown) => {
            let expected = sections.join(", ");
            Err(LanguageError(format!("unknown section [{unknown}], expected {expected}")))
        }
        None => Ok(list),
    }
}

#[cfg(test)]
#[path = "language_tests.rs"]
mod installed;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_lists_can_be_read() {
        let english = Language::parse(BUILT_IN[0], BUILT_IN[1], BUILT_IN[2]).unwrap();
        assert_eq!(english.markers.sections(), markers::BUILT_IN);
        assert_eq!(english.freshness.sections(), ["fresh"]);
    }

    #[test]
    fn a_language_of_ones_own_has_its_phrases_and_no_others() {
        let own = Language::parse("[goal]\nmi volas", "[fresh]\nhodiaŭ", "").unwrap();
        assert_eq!(own.markers("Mi volas lerni"), ["goal"]);
        assert!(own.markers("We decided to go").is_empty());
        assert!(own.asks_for_fresh("Kio okazis hodiaŭ?") && own.asks_for_fresh("2024-03-05"));
        assert!(!own.asks_for_fresh("What happened today?"));
    }

    #[test]
    fn files_that_cannot_be_used_say_why() {
        let error =
            |markers, freshness| Language::parse(markers, freshness, "").unwrap_err().to_string();
        let expected = "unknown section [gaol], expected decision, constraint, failure, goal";
        assert_eq!(error("[gaol]\nmi volas", ""), expected);
        assert_eq!(error("", "[old]\nhieraŭ"), "unknown section [old], expected fresh");
        assert_eq!(error("", "hodiaŭ"), "word list line 1: a phrase needs a section");
    }
}
