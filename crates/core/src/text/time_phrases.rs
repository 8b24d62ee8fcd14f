//! The times that a question names: "in May", "on 7 May 2023", "last week", as spans of time; and the times relative
//! to a day that a statement names: "morgen", "la semaine dernière".
//!
//! The words are data, a list for each language: months with or without a day and a year, and times relative to
//! the moment of the question. Years and ISO dates are read in every language. A month without a year is the
//! latest one that has begun, "last May" the latest one that has ended. Days are those of UTC.
//!
//! A list has the form of `phrases.rs` with these sections:
//!
//! - `[month]`: twelve lines with the names of a month each, January first;
//! - `[ambiguous]`: names of months that are other words as well, which count alone only after a word of `[lead]`;
//! - `[last]`: words beside the name of a month by which the present month is not meant;
//! - `[of]`: words between day, month and year; `[ordinal]`: what follows the digits of a day;
//! - `[number]`: lines of words and the number they mean;
//! - the names of [`SECTIONS`]: phrases, in which `N` is a number. Questions have only the times that are
//!   [`ASKED`] for. In a statement, a phrase that begins with `!` is no time: the words mean something else.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use chrono::{DateTime, Datelike, Days, Months, NaiveDate, TimeDelta, Utc};

use crate::text::calendar::Distance;
use crate::text::phrases::{self, PhraseListError};
use crate::text::words::parts;

/// The name of a section of phrases for a time relative to a day, and that time, of the number in the phrase.
type Section = (&'static str, fn(i64) -> Distance);

const SECTIONS: [Section; 26] = [
    ("day before yesterday", |_| Distance::Day(-2)),
    ("last night", |_| Distance::Day(-1)),
    ("yesterday", |_| Distance::Day(-1)),
    ("today", |_| Distance::Day(0)),
    ("tomorrow", |_| Distance::Day(1)),
    ("day after tomorrow", |_| Distance::Day(2)),
    ("last week", |_| Distance::Week(-1)),
    ("this week", |_| Distance::Week(0)),
    ("next week", |_| Distance::Week(1)),
    ("last weekend", |_| Distance::Weekend(-1)),
    ("this weekend", |_| Distance::Weekend(0)),
    ("next weekend", |_| Distance::Weekend(1)),
    ("last month", |_| Distance::Month(-1)),
    ("this month", |_| Distance::Month(0)),
    ("next month", |_| Distance::Month(1)),
    ("last year", |_| Distance::Year(-1)),
    ("this year", |_| Distance::Year(0)),
    ("next year", |_| Distance::Year(1)),
    ("days ago", |number| Distance::Day(-number)),
    ("weeks ago", |number| Distance::AboutWeek(-number)),
    ("months ago", |number| Distance::AboutMonth(-number)),
    ("years ago", |number| Distance::AboutYear(-number)),
    ("days ahead", Distance::Day),
    ("weeks ahead", Distance::AboutWeek),
    ("months ahead", Distance::AboutMonth),
    ("years ahead", Distance::AboutYear),
];
/// Those of a question's times. A question asks for what has been.
const ASKED: [&str; 8] = [
    "today",
    "yesterday",
    "this week",
    "last week",
    "last month",
    "days ago",
    "weeks ago",
    "months ago",
];
/// Stands for a number in a phrase.
const NUMBER: &str = "N";
/// The largest number in a phrase of a statement.
const MOST: f64 = 1000.0;
/// Years that are read as such.
const YEARS: std::ops::RangeInclusive<i32> = 1900..=2199;

/// The words for times of one language, in lower case.
#[derive(Debug, Default)]
pub(crate) struct Times {
    months: HashMap<String, u32>,
    ambiguous: HashSet<String>,
    lead: HashSet<String>,
    last: HashSet<String>,
    of: HashSet<String>,
    ordinals: Vec<String>,
    numbers: HashMap<String, f64>,
    /// By their first word, the longest first.
    relative: HashMap<String, Vec<Phrase>>,
}

/// A phrase of one of the [`SECTIONS`].
#[derive(Debug)]
struct Phrase {
    section: &'static str,
    distance: fn(i64) -> Distance,
    words: Vec<String>,
    /// Whether it is no time in a statement.
    is_false_friend: bool,
}

impl Phrase {
    /// Of several, the longest one counts; of two that are equally long, the one that is no time.
    fn order(&self) -> (usize, bool) {
        (self.words.len(), self.is_false_friend)
    }
}

impl Times {
    pub(crate) fn parse(source: &str) -> Result<Self, PhraseListError> {
        let mut times = Self::default();
        let mut month = 0;
        for line in phrases::lines(source) {
            let phrases::Line { number, section, text } = line?;
            let words = text.split_whitespace().map(phrases::folded);
            match section {
                "month" => {
                    month += 1;
                    times.months.extend(words.map(|name| (name, month)));
                }
                "ambiguous" => times.ambiguous.extend(words),
                "lead" => times.lead.extend(words),
                "last" => times.last.extend(words),
                "of" => times.of.extend(words),
                "ordinal" => times.ordinals.extend(words),
                "number" => {
                    for (word, meant) in phrases::numbered(text) {
                        let meant =
                            meant.ok_or(phrases::error(number, "a number has to end the line"))?;
                        times.numbers.insert(phrases::folded(word), meant);
                    }
                }
                _ => {
                    let known = SECTIONS.into_iter().find(|(name, _)| *name == section);
                    let (section, distance) =
                        known.ok_or(phrases::error(number, "an unknown section of times"))?;
                    let is_false_friend = text.starts_with('!');
                    let text = text.trim_start_matches('!');
                    let needs_number = counts(section) && !is_false_friend;
                    if needs_number && !text.split(' ').any(|word| word == NUMBER) {
                        return Err(phrases::error(number, "a phrase of this section needs N"));
                    }
                    for phrase in phrases::expand(text) {
                        // Words end at an apostrophe here, as those of the texts do.
                        let words = phrase.iter().flat_map(|word| parts(word));
                        let folded = words.map(|word| match word {
                            NUMBER => word.to_owned(),
                            _ => phrases::folded(word),
                        });
                        let words: Vec<String> = folded.collect();
                        let first = words.first();
                        let first =
                            first.ok_or(phrases::error(number, "all words are optional"))?.clone();
                        let phrase = Phrase { section, distance, words, is_false_friend };
                        times.relative.entry(first).or_default().push(phrase);
                    }
                }
            }
        }
        if ![0, 12].contains(&month) {
            return Err(phrases::error(source.lines().count(), "a year has twelve months"));
        }
        for phrases in times.relative.values_mut() {
            phrases.sort_by_key(|phrase| std::cmp::Reverse(phrase.order()));
        }
        Ok(times)
    }

    /// The month of a name or of its first three or four letters, and whether all of the name is there.
    pub(crate) fn month(&self, name: &str) -> Option<(u32, bool)> {
        let is_begin = |month: &str| matches!(name.len(), 3 | 4) && month.starts_with(name);
        let whole = self.months.get(name).map(|month| (*month, true));
        let begun = || self.months.iter().find(|(month, _)| is_begin(month));
        whole.or_else(|| begun().map(|(_, month)| (*month, false)))
    }

    /// The times that a question names, asked at a moment. At most one for each word of it.
    pub(crate) fn spans(&self, question: &str, asked_at: DateTime<Utc>) -> Vec<Span> {
        let folded = question.to_lowercase();
        let words: Vec<&str> = parts(&folded).collect();
        let mut found = Vec::new();
        let mut at = 0;
        while at < words.len() {
            let read =
                self.dated(&words, at, asked_at).or_else(|| self.relative(&words[at..], asked_at));
            let (span, length) = read.unwrap_or((None, 1));
            found.extend(span);
            at += length;
        }
        if found.is_empty() {
            found.extend(words.iter().filter_map(|word| year(word)).filter_map(Span::year));
        }
        found
    }

    /// A date with the name of a month, or an ISO date.
    fn dated(&self, words: &[&str], at: usize, asked_at: DateTime<Utc>) -> Reading {
        let mut rest = Words { times: self, words: &words[at..], read: 0 };
        if let (Some(of_year), Some(of_month), Some(day)) =
            (year(rest.word(0)), two_digits(rest.word(1)), day_of_stamp(rest.word(2)))
        {
            return Some((NaiveDate::from_ymd_opt(of_year, of_month, day).and_then(Span::day), 3));
        }
        // "7 May 2023", "7th of May", "7 de mayo de 2023".
        if let Some(day) = self.day_of_month(rest.word(0)) {
            rest.read = 1;
            let month = rest.after_of(|word| self.months.get(word).copied())?;
            let year = rest.after_of(year);
            return Some((date(year, month, day, asked_at), rest.read));
        }
        let name = rest.word(0);
        let month = self.months.get(name).copied()?;
        // "May 7, 2023"; "May 2023".
        if let Some(day) = self.day_of_month(rest.word(1)) {
            rest.read = 2;
            let year = rest.after_of(year);
            return Some((date(year, month, day, asked_at), rest.read));
        }
        rest.read = 1;
        if let Some(year) = rest.after_of(year) {
            return Some((Span::month(year, month), rest.read));
        }
        let before = at.checked_sub(1).map_or("", |before| words[before]);
        let is_led_to = self.lead.contains(before);
        if self.ambiguous.contains(name) && !is_led_to {
            return None;
        }
        let is_last = [before, rest.word(1)].iter().any(|word| self.last.contains(*word));
        let is_meant = asked_at.month() > month || (asked_at.month() == month && !is_last);
        Some((Span::month(asked_at.year() - i32::from(!is_meant), month), 1))
    }

    /// A time relative to the moment of the question. "Last week" and "a month ago" are vague, and so are
    /// their spans.
    fn relative(&self, words: &[&str], asked_at: DateTime<Utc>) -> Reading {
        let is_asked = |phrase: &Phrase| !phrase.is_false_friend && ASKED.contains(&phrase.section);
        let (phrase, number) = self.phrase(words, is_asked)?;
        let today = asked_at.date_naive();
        let ago = |days: f64| {
            Span::days_before(asked_at, (number + 0.6) * days + 1.0, (number - 0.6) * days - 1.0)
        };
        let span = match phrase.section {
            "today" => Span::day(today),
            "yesterday" => today.pred_opt().and_then(Span::day),
            "this week" => Span::days_before(asked_at, 7.0, 0.0),
            "last week" => Span::days_before(asked_at, 14.0, 4.0),
            // All of the month before, also when it has just ended.
            "last month" => Span::days_before(asked_at, 62.0, 20.0).and_then(|vague| {
                let this_month = Span::month(today.year(), today.month())?;
                Some(Span { to: vague.to.max(this_month.from), ..vague })
            }),
            "days ago" => ago(1.0),
            "weeks ago" => ago(7.0),
            _ => ago(30.0),
        };
        Some((span, phrase.words.len()))
    }

    /// The longest phrase that words begin with, and the number in it.
    fn phrase(&self, words: &[&str], is_meant: fn(&Phrase) -> bool) -> Option<(&Phrase, f64)> {
        let read = |phrase: &Phrase| {
            let mut number = 0.0;
            let matches = words.len() >= phrase.words.len()
                && phrase.words.iter().zip(words).all(|(expected, word)| {
                    if expected != NUMBER {
                        return expected == word;
                    }
                    let read = self.number(word);
                    number = read.unwrap_or_default();
                    read.is_some()
                });
            matches.then_some(number)
        };
        let longest = |first: &str| {
            let mut phrases = self.relative.get(first)?.iter().filter(|phrase| is_meant(phrase));
            phrases.find_map(|phrase| Some((phrase, read(phrase)?)))
        };
        let found = [longest(words.first()?), longest(NUMBER)];
        found.into_iter().flatten().max_by_key(|(phrase, _)| phrase.order())
    }

    /// The times relative to a day that words of a statement mean, and which words those are. Of phrases that
    /// overlap the longest counts.
    pub(crate) fn distances(&self, words: &[&str]) -> Vec<(Range<usize>, Distance)> {
        let folded: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
        let words: Vec<&str> = folded.iter().map(String::as_str).collect();
        let at = |at: usize| Some((at, self.phrase(&words[at..], |_| true)?));
        let mut found: Vec<_> = (0..words.len()).filter_map(at).collect();
        found.sort_by_key(|(_, (phrase, _))| std::cmp::Reverse(phrase.order()));
        let mut is_taken = vec![false; words.len()];
        let mut times = BTreeMap::new();
        for (at, (phrase, number)) in found {
            let range = at..at + phrase.words.len();
            if is_taken[range.clone()].contains(&true) {
                continue;
            }
            is_taken[range.clone()].fill(true);
            // A year and a half ago is no whole number of years.
            if !phrase.is_false_friend && number.fract() == 0.0 && (0.0..=MOST).contains(&number) {
                times.insert(at, (range, (phrase.distance)(number as i64)));
            }
        }
        times.into_values().collect()
    }

    /// Whether words name a date: the name of a month with a day or a year, or an ISO date.
    pub(crate) fn name_a_date(&self, words: &[&str]) -> bool {
        let folded: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
        let words: Vec<&str> = folded.iter().map(String::as_str).collect();
        let read = |at| self.dated(&words, at, DateTime::UNIX_EPOCH);
        (0..words.len()).filter_map(read).any(|(_, length)| length > 1)
    }

    fn number(&self, word: &str) -> Option<f64> {
        let digits = || (word.len() <= 3).then(|| word.parse::<u16>().ok()).flatten();
        self.numbers.get(word).copied().or_else(|| digits().map(f64::from))
    }

    /// "7", "7th".
    pub(crate) fn day_of_month(&self, word: &str) -> Option<u32> {
        let suffix = self.ordinals.iter().find_map(|suffix| word.strip_suffix(suffix.as_str()));
        let digits = suffix.unwrap_or(word);
        (digits.len() <= 2)
            .then(|| digits.parse().ok())
            .flatten()
            .filter(|day| (1..=31).contains(day))
    }
}

/// Words of a question while they are read.
struct Words<'a> {
    times: &'a Times,
    words: &'a [&'a str],
    read: usize,
}

impl<'a> Words<'a> {
    fn word(&self, at: usize) -> &'a str {
        self.words.get(at).copied().unwrap_or_default()
    }

    /// What the next word means, or the one after a word such as "of". Nothing is read if it means nothing.
    fn after_of<T>(&mut self, meaning: impl Fn(&str) -> Option<T>) -> Option<T> {
        let at = self.read + usize::from(self.times.of.contains(self.word(self.read)));
        let found = meaning(self.word(at))?;
        self.read = at + 1;
        Some(found)
    }
}

/// A time that a question names: from its begin to its end, which is not part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub from: DateTime<Utc>,
    pub to: DateTime<Utc>,
}

impl Span {
    fn of_days(first: NaiveDate, end: NaiveDate) -> Self {
        let midnight = |day: NaiveDate| day.and_time(chrono::NaiveTime::MIN).and_utc();
        Self { from: midnight(first), to: midnight(end) }
    }

    fn day(day: NaiveDate) -> Option<Self> {
        Some(Self::of_days(day, day.checked_add_days(Days::new(1))?))
    }

    fn month(year: i32, month: u32) -> Option<Self> {
        let first = NaiveDate::from_ymd_opt(year, month, 1)?;
        Some(Self::of_days(first, first.checked_add_months(Months::new(1))?))
    }

    fn year(year: i32) -> Option<Self> {
        Some(Self::of_days(
            NaiveDate::from_ymd_opt(year, 1, 1)?,
            NaiveDate::from_ymd_opt(year + 1, 1, 1)?,
        ))
    }

    /// Between so many days before a moment, the first more than the second.
    fn days_before(moment: DateTime<Utc>, most: f64, least: f64) -> Option<Self> {
        let before = |days: f64| {
            moment.checked_sub_signed(TimeDelta::try_seconds((days * 86_400.0) as i64)?)
        };
        Some(Self { from: before(most)?, to: before(least)? })
    }
}

/// A span that begins with a word, and how many words it takes; `None` for the span of a date that does
/// not exist.
type Reading = Option<(Option<Span>, usize)>;

/// Years from one 29 February to the next, at most.
const LEAP_YEARS_APART: i32 = 8;

/// A day; without a year, the latest one that has begun.
fn date(year: Option<i32>, month: u32, day: u32, asked_at: DateTime<Utc>) -> Option<Span> {
    if let Some(year) = year {
        return NaiveDate::from_ymd_opt(year, month, day).and_then(Span::day);
    }
    let today = asked_at.date_naive();
    let in_year = |back| NaiveDate::from_ymd_opt(today.year() - back, month, day);
    (0..=LEAP_YEARS_APART).filter_map(in_year).find(|day| *day <= today).and_then(Span::day)
}

/// Whether phrases of a section have a number.
fn counts(section: &str) -> bool {
    section.ends_with(" ago") || section.ends_with(" ahead")
}

/// A year of four digits, as a word is taken for one.
pub(crate) fn year(word: &str) -> Option<i32> {
    (word.len() == 4).then(|| word.parse().ok()).flatten().filter(|year| YEARS.contains(year))
}

/// The day in the third part of an ISO date, which a time may follow: "28t10".
fn day_of_stamp(word: &str) -> Option<u32> {
    match word.split_once('t') {
        Some((day, hour)) => two_digits(hour).and(two_digits(day)),
        None => two_digits(word),
    }
}

fn two_digits(word: &str) -> Option<u32> {
    (word.len() == 2).then(|| word.parse().ok()).flatten()
}

#[cfg(test)]
#[path = "time_phrases_tests.rs"]
mod tests;
