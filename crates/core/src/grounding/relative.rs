//! What words mean on the day that they were said, in English: "tomorrow", "last week", "three years ago".
//! Days are those of UTC.

use chrono::{Datelike, Days, Months, NaiveDate};

use super::dates::{dates, weekday};
use super::words::{Word, folded, words};
use crate::time_phrases::MONTHS;

/// A time that words mean on a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Relative {
    pub words: usize,
    pub from: NaiveDate,
    pub to: NaiveDate,
    /// The same without the day: what stands before the date, and the date.
    pub text: (&'static str, String),
}

/// What the words from `at` on mean in English on the day `said`, if they mean one time.
pub(super) fn relative(words: &[Word<'_>], at: usize, said: NaiveDate) -> Option<Relative> {
    let name = |offset: usize| words.get(at + offset).map_or("", |word| word.folded.as_str());
    let shift = |days: i64| match u64::try_from(days) {
        Ok(days) => said.checked_add_days(Days::new(days)),
        Err(_) => said.checked_sub_days(Days::new(days.unsigned_abs())),
    };
    let on = |days: i64, words: usize, before: &'static str| {
        let day = shift(days)?;
        Some(Relative { words, from: day, to: day, text: (before, day.to_string()) })
    };
    let weekday_now = i64::from(said.weekday().num_days_from_monday());
    match (name(0), name(1), name(2)) {
        ("today", ..) => return on(0, 1, "on"),
        ("tonight", ..) => return on(0, 1, "on the evening of"),
        ("yesterday", ..) => return on(-1, 1, "on"),
        ("tomorrow", ..) => return on(1, 1, "on"),
        ("this", "morning", _) => return on(0, 2, "on the morning of"),
        ("this", "afternoon", _) => return on(0, 2, "on the afternoon of"),
        ("this", "evening", _) => return on(0, 2, "on the evening of"),
        ("last", "night", _) => return on(-1, 2, "on the night of"),
        ("day", "after", "tomorrow") => return on(2, 3, "on"),
        ("day", "before", "yesterday") => return on(-2, 3, "on"),
        _ => {}
    }
    let direction = match name(0) {
        "last" => -1,
        "this" => 0,
        "next" => 1,
        _ => return ago(words, at, said),
    };
    let span = |from: NaiveDate, to: NaiveDate, before, text| {
        Some(Relative { words: 2, from, to, text: (before, text) })
    };
    let monday = shift(7 * direction - weekday_now)?;
    match name(1) {
        "week" => {
            let end = monday.checked_add_days(Days::new(6))?;
            span(monday, end, "in", format!("the week of {monday}"))
        }
        "weekend" => {
            let saturday = monday.checked_add_days(Days::new(5))?;
            span(saturday, saturday.succ_opt()?, "on", format!("the weekend of {saturday}"))
        }
        "month" => {
            let first = months_on(said, direction)?;
            let end = months_on(said, direction + 1)?.pred_opt()?;
            span(first, end, "in", month_text(first))
        }
        "year" => {
            let year = said.year() + i32::try_from(direction).ok()?;
            let (first, end) =
                (NaiveDate::from_ymd_opt(year, 1, 1)?, NaiveDate::from_ymd_opt(year, 12, 31)?);
            span(first, end, "in", year.to_string())
        }
        day => {
            let day = i64::try_from(weekday(day).filter(|_| day.ends_with("day"))?).ok()?;
            // The last one before today, the one of this week, the one of the next.
            let days = match direction {
                -1 if day < weekday_now => day - weekday_now,
                _ => 7 * direction + day - weekday_now,
            };
            on(days, 2, "on")
        }
    }
}

/// "three weeks ago", "a year ago", "two days from now".
fn ago(words: &[Word<'_>], at: usize, said: NaiveDate) -> Option<Relative> {
    let count = small_number(&words[at].folded)?;
    let unit = words.get(at + 1)?.folded.as_str();
    let (sign, length) = match (
        words.get(at + 2)?.folded.as_str(),
        words.get(at + 3).map(|word| word.folded.as_str()),
    ) {
        ("ago", _) => (-1, 3),
        ("from", Some("now" | "today")) => (1, 4),
        _ => return None,
    };
    let away = sign * count;
    let result = |from: NaiveDate, to: NaiveDate, before, text| {
        Some(Relative { words: length, from, to, text: (before, text) })
    };
    match unit.trim_end_matches('s') {
        "day" => {
            let day = add_days(said, away)?;
            result(day, day, "on", day.to_string())
        }
        "week" => {
            let day = add_days(said, 7 * away)?;
            result(add_days(day, -4)?, add_days(day, 4)?, "around", day.to_string())
        }
        "month" => {
            let first = months_on(said, away)?;
            result(months_on(said, away - 1)?, months_on(said, away + 2)?, "in", month_text(first))
        }
        "year" => {
            let year = said.year() + i32::try_from(away).ok()?;
            result(
                NaiveDate::from_ymd_opt(year - 1, 7, 1)?,
                NaiveDate::from_ymd_opt(year + 1, 6, 30)?,
                "in",
                year.to_string(),
            )
        }
        _ => None,
    }
}

pub(super) fn add_days(date: NaiveDate, days: i64) -> Option<NaiveDate> {
    match u64::try_from(days) {
        Ok(days) => date.checked_add_days(Days::new(days)),
        Err(_) => date.checked_sub_days(Days::new(days.unsigned_abs())),
    }
}

/// The first of a month, so many months away.
fn months_on(date: NaiveDate, months: i64) -> Option<NaiveDate> {
    let first = date.with_day(1)?;
    let count = Months::new(u32::try_from(months.unsigned_abs()).ok()?);
    if months < 0 { first.checked_sub_months(count) } else { first.checked_add_months(count) }
}

fn month_text(first: NaiveDate) -> String {
    let name = MONTHS[first.month0() as usize];
    format!("{}{} {}", name[..1].to_uppercase(), &name[1..], first.year())
}

/// A number up to a thousand, in digits or as a word.
fn small_number(word: &str) -> Option<i64> {
    const WORDS: [&str; 13] = [
        "", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
        "eleven", "twelve",
    ];
    if matches!(word, "a" | "an") {
        return Some(1);
    }
    let spelled = WORDS.iter().position(|name| !name.is_empty() && *name == word);
    spelled
        .map(|value| value as i64)
        .or_else(|| word.parse().ok().filter(|value| (0..=1000).contains(value)))
}

/// The words of a statement, with dates in place of "tomorrow", "last week" or "two years ago", counted from
/// the day that it was said. English; a statement that names a date is left as it is.
#[must_use]
pub fn dated(statement: &str, said_at: &str) -> String {
    let Ok(said) = said_at.parse::<NaiveDate>() else { return statement.to_owned() };
    let words = words(statement);
    if dates(&words).iter().any(|date| date.day.is_some() || date.year.is_some()) {
        return statement.to_owned();
    }
    let offset = |word: &Word<'_>| word.raw.as_ptr() as usize - statement.as_ptr() as usize;
    let (mut text, mut written, mut at) = (String::new(), 0, 0);
    while at < words.len() {
        let Some(relative) =
            relative(&words, at, said).filter(|found| may_date(&words, at, found.words))
        else {
            at += 1;
            continue;
        };
        let (mut from, last) = (at, &words[at + relative.words - 1]);
        let before = |back: usize| at.checked_sub(back).map_or("", |at| words[at].folded.as_str());
        if before(1) == "the" && words[at].folded == "day" {
            from = at - 1;
        }
        let lead = from.checked_sub(1).map_or("", |at| words[at].folded.as_str());
        let needs = !matches!(
            lead,
            "since"
                | "until"
                | "till"
                | "by"
                | "from"
                | "before"
                | "after"
                | "for"
                | "of"
                | "on"
                | "in"
                | "as"
                | "around"
        );
        text.push_str(&statement[written..offset(&words[from])]);
        let (preposition, date) = &relative.text;
        let mut phrase = if needs { format!("{preposition} {date}") } else { date.clone() };
        if words[from].is_first
            && let Some(first) = phrase.get(..1)
        {
            phrase = first.to_uppercase() + &phrase[1..];
        }
        text.push_str(&phrase);
        written = offset(last) + last.raw.len();
        at += relative.words;
    }
    text.push_str(&statement[written..]);
    text
}

/// Whether words are meant as a time: not "the last week" (a duration), "USA Today", "today's" or a quotation.
fn may_date(words: &[Word<'_>], at: usize, length: usize) -> bool {
    let own = &words[at..at + length];
    let before = at.checked_sub(1).map_or("", |at| words[at].folded.as_str());
    let is_plain = |word: &Word<'_>| {
        !word.is_quoted
            && folded(word.raw).len() == word.raw.len()
            && (word.is_first
                || !word.raw.starts_with(char::is_uppercase)
                || weekday(&word.folded).is_some())
    };
    let is_duration = matches!(before, "the" | "each" | "every") && words[at].folded != "day";
    own.iter().all(is_plain) && !is_duration
}
