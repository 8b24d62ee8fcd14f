//! The times that a question names: "in May", "on 7 May 2023", "last week", as spans of time.
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
//! - the names of [`RELATIVE`]: phrases, in which `N` is a number.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Datelike, Days, Months, NaiveDate, TimeDelta, Utc};

use crate::phrases::{self, PhraseListError};

pub(crate) const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
/// Sections of phrases for a time relative to the moment of the question.
const RELATIVE: [&str; 8] = [
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
    /// The longest first.
    relative: Vec<(&'static str, Vec<String>)>,
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
                    let meant = text.rsplit(' ').next().and_then(|last| last.parse().ok());
                    let meant =
                        meant.ok_or(phrases::error(number, "a number has to end the line"))?;
                    times.numbers.extend(words.map(|word| (word, meant)));
                }
                _ => {
                    let name = RELATIVE.into_iter().find(|name| *name == section);
                    let name = name.ok_or(phrases::error(number, "an unknown section of times"))?;
                    // Words end at an apostrophe here, as those of the question do.
                    if name.ends_with("ago") && !text.split(' ').any(|word| word == NUMBER) {
                        return Err(phrases::error(number, "a phrase of this section needs N"));
                    }
                    for phrase in phrases::expand(text) {
                        let words = phrase.iter().flat_map(|word| words_of(word));
                        let folded = words.map(|word| match word {
                            NUMBER => word.to_owned(),
                            _ => phrases::folded(word),
                        });
                        times.relative.push((name, folded.collect()));
                    }
                }
            }
        }
        if ![0, 12].contains(&month) {
            return Err(phrases::error(source.lines().count(), "a year has twelve months"));
        }
        times.relative.sort_by_key(|(_, words): &(_, Vec<String>)| std::cmp::Reverse(words.len()));
        Ok(times)
    }

    /// The times that a question names, asked at a moment. At most one for each word of it.
    pub(crate) fn spans(&self, question: &str, asked_at: DateTime<Utc>) -> Vec<Span> {
        let folded = question.to_lowercase();
        let words: Vec<&str> = words_of(&folded).collect();
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
        let (name, length, number) = self.relative.iter().find_map(|(name, phrase)| {
            let mut number = 0.0;
            let matches = words.len() >= phrase.len()
                && phrase.iter().zip(words).all(|(expected, word)| {
                    if expected != NUMBER {
                        return expected == word;
                    }
                    let read = self.number(word);
                    number = read.unwrap_or_default();
                    read.is_some()
                });
            matches.then_some((*name, phrase.len(), number))
        })?;
        let today = asked_at.date_naive();
        let ago = |days: f64| {
            Span::days_before(asked_at, (number + 0.6) * days + 1.0, (number - 0.6) * days - 1.0)
        };
        let span = match name {
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
        Some((span, length))
    }

    fn number(&self, word: &str) -> Option<f64> {
        let digits = || (word.len() <= 3).then(|| word.parse::<u16>().ok()).flatten();
        self.numbers.get(word).copied().or_else(|| digits().map(f64::from))
    }

    /// "7", "7th".
    fn day_of_month(&self, word: &str) -> Option<u32> {
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

fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

fn year(word: &str) -> Option<i32> {
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn asked_at() -> DateTime<Utc> {
        "2023-06-15T12:00:00Z".parse().unwrap()
    }

    fn english() -> Times {
        Times::parse(include_str!("times_en.txt")).unwrap()
    }

    /// First and last day of each span.
    fn days(question: &str) -> Vec<(String, String)> {
        english()
            .spans(question, asked_at())
            .iter()
            .map(|span| {
                let last = span.to - TimeDelta::seconds(1);
                (span.from.date_naive().to_string(), last.date_naive().to_string())
            })
            .collect()
    }

    #[test]
    fn dates_are_read_as_people_write_them() {
        for (question, first, last) in [
            ("What did she do on 7 May 2023?", "2023-05-07", "2023-05-07"),
            ("Who called on the 7th of May?", "2023-05-07", "2023-05-07"),
            ("What happened on May 7th, 2022?", "2022-05-07", "2022-05-07"),
            ("Where was he on July 3?", "2022-07-03", "2022-07-03"),
            ("What did we plan in May?", "2023-05-01", "2023-05-31"),
            ("Did they meet in June?", "2023-06-01", "2023-06-30"),
            ("Did they meet in July?", "2022-07-01", "2022-07-31"),
            ("What did Ann paint in December 2021?", "2021-12-01", "2021-12-31"),
            ("logs of 2023-02-28", "2023-02-28", "2023-02-28"),
            ("How many trips did he make in 2021?", "2021-01-01", "2021-12-31"),
            ("What did I eat yesterday?", "2023-06-14", "2023-06-14"),
            ("What did I eat this morning?", "2023-06-15", "2023-06-15"),
            ("Which books did she read this week?", "2023-06-08", "2023-06-15"),
            ("What did she do last week?", "2023-06-01", "2023-06-11"),
            ("Where was he two weeks ago?", "2023-05-27", "2023-06-06"),
            ("Where was he a month ago?", "2023-04-27", "2023-06-04"),
            ("What did she do last month?", "2023-04-14", "2023-05-31"),
            ("logs of 2023-02-28T10:00:00Z", "2023-02-28", "2023-02-28"),
            ("logs of 2023-02-28t23:31:05+02:00", "2023-02-28", "2023-02-28"),
            ("Who came on 29 February?", "2020-02-29", "2020-02-29"),
            ("Who came last May?", "2023-05-01", "2023-05-31"),
            ("Who came last June?", "2022-06-01", "2022-06-30"),
            ("Who came last July?", "2022-07-01", "2022-07-31"),
        ] {
            assert_eq!(days(question), [(first.to_owned(), last.to_owned())], "{question}");
        }
    }

    #[test]
    fn last_month_has_every_day_of_it() {
        for (asked, first, last) in [
            ("2023-06-01T00:00:00Z", "2023-05-01", "2023-05-31"),
            ("2023-08-31T23:59:59Z", "2023-07-01", "2023-07-31"),
            ("2024-01-01T12:00:00Z", "2023-12-01", "2023-12-31"),
        ] {
            let spans = english().spans("What did we do last month?", asked.parse().unwrap());
            let of = |day: &str| day.parse().ok().and_then(Span::day).unwrap();
            assert!(spans[0].from <= of(first).from && spans[0].to >= of(last).to, "{spans:?}");
            assert!(spans[0].to <= asked.parse::<DateTime<Utc>>().unwrap(), "{spans:?}");
        }
    }

    #[test]
    fn a_leap_day_is_the_latest_one_that_has_begun() {
        for (asked, day) in [
            ("2025-03-01T00:00:00Z", "2024-02-29"),
            ("2024-02-29T00:00:00Z", "2024-02-29"),
            ("2024-02-28T00:00:00Z", "2020-02-29"),
            ("2103-01-01T00:00:00Z", "2096-02-29"),
        ] {
            let spans = english().spans("on 29 February", asked.parse().unwrap());
            assert_eq!(spans, [day.parse().ok().and_then(Span::day).unwrap()], "{asked}");
        }
    }

    #[test]
    fn the_words_of_a_list_match_in_any_letter_case() {
        let list = "[month]\nJanuar\nFebruar\nMärz\nApril\nMai\nJuni\nJuli\nAugust\nSeptember\n\
            Oktober\nNovember\nDezember\n[ambiguous]\nMärz\n[lead]\nIm\n[of]\nDes\n[ordinal]\nTER\n\
            [number]\nZwei 2\n[yesterday]\nGestern\n[days ago]\nVor N Tagen";
        let times = Times::parse(list).unwrap();
        for question in
            ["im märz", "IM MÄRZ", "4ter des mai", "gestern", "Gestern", "vor zwei Tagen"]
        {
            assert_eq!(times.spans(question, asked_at()).len(), 1, "{question}");
        }
        assert_eq!(times.spans("märz", asked_at()), []);
    }

    #[test]
    fn other_words_are_no_times() {
        for question in [
            "",
            "May I ask where she lives?",
            "Who will march for peace?",
            "What is 30 plus 5?",
            "Who came on 31 February?",
            "flight 12345 of 7",
            "long ago",
            "1000 days ago",
        ] {
            assert_eq!(days(question), [], "{question}");
        }
    }

    #[test]
    fn several_times_are_several_spans() {
        assert_eq!(days("between 1 May and 3 May 2023").len(), 2);
        assert_eq!(days("from May 2022 until June 2022").len(), 2);
    }

    #[test]
    fn lists_that_cannot_be_used_say_why() {
        let error = |list: &str| Times::parse(list).unwrap_err().to_string();
        for (list, expected) in [
            ("[month]\njanuary\nfebruary", "word list line 3: a year has twelve months"),
            ("[number]\none", "word list line 2: a number has to end the line"),
            ("[days ago]\nlong ago", "word list line 2: a phrase of this section needs N"),
            ("[then]\nlong ago", "word list line 2: an unknown section of times"),
        ] {
            assert_eq!(error(list), expected);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_and_spans_are_in_order(
            text in "([a-z0-9 ]|may|june|ago|week|last|of|2023|-){0,60}", seconds in -1e11..1e11f64,
        ) {
            let asked_at = DateTime::from_timestamp(seconds as i64, 0).unwrap_or_default();
            for span in english().spans(&text, asked_at) {
                prop_assert!(span.from < span.to, "{span:?}");
            }
        }
    }
}
