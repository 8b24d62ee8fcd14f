//! The times that a question names: "in May", "on 7 May 2023", "last week", as spans of time.
//!
//! English, as people write: months with or without a day and a year, years, ISO dates, and times
//! relative to the moment of the question. A month without a year is the latest one that has begun.
//! "May" and "march" are words as well: alone they count only where a preposition says that a time
//! is meant. Days are those of UTC.

use chrono::{DateTime, Datelike, Days, Months, NaiveDate, TimeDelta, Utc};

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
/// Months that are other words as well.
const AMBIGUOUS: [u32; 2] = [3, 5];
const BEFORE_A_TIME: [&str; 15] = [
    "in", "of", "during", "since", "by", "on", "early", "late", "last", "mid", "until", "before",
    "after", "around", "from",
];
/// Years that are read as such.
const YEARS: std::ops::RangeInclusive<i32> = 1900..=2199;

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

/// The times that a question names, asked at a moment. At most one for each word of it.
#[must_use]
pub fn spans(question: &str, asked_at: DateTime<Utc>) -> Vec<Span> {
    let folded = question.to_lowercase();
    let words: Vec<&str> =
        folded.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let read = dated(&words, at, asked_at).or_else(|| relative(&words, at, asked_at));
        let (span, length) = read.unwrap_or((None, 1));
        found.extend(span);
        at += length;
    }
    if found.is_empty() {
        found.extend(words.iter().filter_map(|word| year(word)).filter_map(Span::year));
    }
    found
}

/// A span that begins with a word, and how many words it takes; `None` for the span of a date that does
/// not exist.
type Reading = Option<(Option<Span>, usize)>;

/// A date with the name of a month, or an ISO date.
fn dated(words: &[&str], at: usize, asked_at: DateTime<Utc>) -> Reading {
    let word = |offset: usize| words.get(at + offset).copied().unwrap_or_default();
    if let (Some(of_year), Some(of_month), Some(day)) =
        (year(word(0)), two_digits(word(1)), two_digits(word(2)))
    {
        return Some((NaiveDate::from_ymd_opt(of_year, of_month, day).and_then(Span::day), 3));
    }
    // "7 May 2023", "7th of May".
    if let Some(day) = day_of_month(word(0)) {
        let of = usize::from(word(1) == "of");
        if let Some(month) = month(word(1 + of)) {
            let year = year(word(2 + of));
            return Some((date(year, month, day, asked_at), 2 + of + usize::from(year.is_some())));
        }
        return None;
    }
    let of_month = month(word(0))?;
    // "May 7, 2023"; "May 2023".
    if let Some(day) = day_of_month(word(1)) {
        let year = year(word(2));
        return Some((date(year, of_month, day, asked_at), 2 + usize::from(year.is_some())));
    }
    if let Some(year) = year(word(1)) {
        return Some((Span::month(year, of_month), 2));
    }
    let is_led_to = at > 0 && BEFORE_A_TIME.contains(&words[at - 1]);
    if AMBIGUOUS.contains(&of_month) && !is_led_to {
        return None;
    }
    let has_begun = asked_at.month() >= of_month;
    Some((Span::month(asked_at.year() - i32::from(!has_begun), of_month), 1))
}

/// A day; without a year, the latest one that has begun.
fn date(year: Option<i32>, month: u32, day: u32, asked_at: DateTime<Utc>) -> Option<Span> {
    let has_begun = (asked_at.month(), asked_at.day()) >= (month, day);
    let year = year.unwrap_or(asked_at.year() - i32::from(!has_begun));
    NaiveDate::from_ymd_opt(year, month, day).and_then(Span::day)
}

/// A time relative to the moment of the question. "Last week" and "a month ago" are vague, and so are
/// their spans.
fn relative(words: &[&str], at: usize, asked_at: DateTime<Utc>) -> Reading {
    let word = |offset: usize| words.get(at + offset).copied().unwrap_or_default();
    let today = asked_at.date_naive();
    match (word(0), word(1), word(2)) {
        ("today" | "tonight", ..) => Some((Span::day(today), 1)),
        ("yesterday", ..) => Some((today.pred_opt().and_then(Span::day), 1)),
        ("this", "morning" | "afternoon" | "evening", _) => Some((Span::day(today), 2)),
        ("this", "week", _) => Some((Span::days_before(asked_at, 7.0, 0.0), 2)),
        ("last", "week", _) => Some((Span::days_before(asked_at, 14.0, 4.0), 2)),
        ("last", "month", _) => Some((Span::days_before(asked_at, 62.0, 20.0), 2)),
        (number, unit, "ago") => {
            let days = match unit.trim_end_matches('s') {
                "day" => 1.0,
                "week" => 7.0,
                "month" => 30.0,
                _ => return None,
            };
            let number = match number {
                "a" | "one" => 1.0,
                "two" | "couple" => 2.0,
                "three" => 3.0,
                "few" | "four" => 4.0,
                digits if digits.len() <= 3 => digits.parse::<u16>().ok()?.into(),
                _ => return None,
            };
            Some((
                Span::days_before(
                    asked_at,
                    (number + 0.6) * days + 1.0,
                    (number - 0.6) * days - 1.0,
                ),
                3,
            ))
        }
        _ => None,
    }
}

fn month(word: &str) -> Option<u32> {
    MONTHS.iter().position(|name| *name == word).and_then(|place| u32::try_from(place + 1).ok())
}

fn year(word: &str) -> Option<i32> {
    (word.len() == 4).then(|| word.parse().ok()).flatten().filter(|year| YEARS.contains(year))
}

fn two_digits(word: &str) -> Option<u32> {
    (word.len() == 2).then(|| word.parse().ok()).flatten()
}

/// "7", "7th".
fn day_of_month(word: &str) -> Option<u32> {
    let digits = ["st", "nd", "rd", "th"]
        .iter()
        .find_map(|suffix| word.strip_suffix(suffix))
        .unwrap_or(word);
    (digits.len() <= 2).then(|| digits.parse().ok()).flatten().filter(|day| (1..=31).contains(day))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn asked_at() -> DateTime<Utc> {
        "2023-06-15T12:00:00Z".parse().unwrap()
    }

    /// First and last day of each span.
    fn days(question: &str) -> Vec<(String, String)> {
        spans(question, asked_at())
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
        ] {
            assert_eq!(days(question), [(first.to_owned(), last.to_owned())], "{question}");
        }
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
            assert_eq!(spans(question, asked_at()), [], "{question}");
        }
    }

    #[test]
    fn several_times_are_several_spans() {
        assert_eq!(days("between 1 May and 3 May 2023").len(), 2);
        assert_eq!(days("from May 2022 until June 2022").len(), 2);
    }

    proptest! {
        #[test]
        fn any_text_is_read_and_spans_are_in_order(
            text in "([a-z0-9 ]|may|june|ago|week|last|of|2023|-){0,60}", seconds in -1e11..1e11f64,
        ) {
            let asked_at = DateTime::from_timestamp(seconds as i64, 0).unwrap_or_default();
            for span in spans(&text, asked_at) {
                prop_assert!(span.from < span.to, "{span:?}");
            }
        }
    }
}
