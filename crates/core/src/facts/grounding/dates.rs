//! The dates of a text, and the times that sources speak of. Days are those of UTC.

use chrono::{Datelike, Months, NaiveDate};

use super::numbers::Number;
use super::relative::spans;
use crate::text::calendar::add_days;
use crate::text::language::Language;
use crate::text::time_phrases::year;
use crate::text::word_lists::List;
use crate::text::words::Word;

/// "til end of feb": behind these, a month may be written in haste.
const BEFORE_MONTHS: [&str; 10] =
    ["in", "of", "til", "till", "until", "by", "since", "early", "mid", "late"];
const MAY: u32 = 5;

pub(super) const WEEKDAYS: [&str; 7] =
    ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// A date of a text, as far as it says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Date {
    pub year: Option<i32>,
    pub month: Option<u32>,
    pub day: Option<u32>,
    /// The first of its words, and how many they are.
    pub at: usize,
    pub words: usize,
}

impl Date {
    /// Its first and its last day, if it has a year.
    fn days(&self) -> Option<(NaiveDate, NaiveDate)> {
        let year = self.year?;
        let Some(month) = self.month else {
            return Some((
                NaiveDate::from_ymd_opt(year, 1, 1)?,
                NaiveDate::from_ymd_opt(year, 12, 31)?,
            ));
        };
        if let Some(day) = self.day {
            let date = NaiveDate::from_ymd_opt(year, month, day)?;
            return Some((date, date));
        }
        let first = NaiveDate::from_ymd_opt(year, month, 1)?;
        Some((first, first.checked_add_months(Months::new(1))?.pred_opt()?))
    }

    /// Whether it says nothing that another one denies, and no day or month that the other one lacks.
    fn is_part_of(&self, other: &Self) -> bool {
        let holds = |own: Option<u32>, other: Option<u32>| own.is_none() || own == other;
        holds(self.day, other.day)
            && holds(self.month, other.month)
            && (self.year.is_none() || other.year.is_none() || self.year == other.year)
    }
}

/// The dates of a text that name a month, and those in digits.
pub(super) fn dates(words: &[Word<'_>]) -> Vec<Date> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let read = in_digits(words, at).or_else(|| with_month(words, at));
        match read {
            Some(dates) => {
                let length = dates.first().map_or(1, |date| date.words).max(1);
                found.extend(dates);
                at += length;
            }
            None => at += 1,
        }
    }
    found
}

/// `2024-05-03`, `2024-05`, and `3/5/2024` in both readings.
fn in_digits(words: &[Word<'_>], at: usize) -> Option<Vec<Date>> {
    let text = words[at].folded.split('t').next()?;
    let parts: Vec<&str> = text.split(['-', '/', '.']).collect();
    let is_number = |part: &&str| {
        !part.is_empty() && part.len() <= 4 && part.bytes().all(|b| b.is_ascii_digit())
    };
    if !(2..=3).contains(&parts.len()) || !parts.iter().all(is_number) {
        return None;
    }
    let number = |index: usize| parts.get(index).and_then(|part| part.parse::<u32>().ok());
    let year = |index: usize| {
        number(index).filter(|year| (1900..2200).contains(year)).map(|year| year as i32)
    };
    let date = |year, month: Option<u32>, day: Option<u32>| Date { year, month, day, at, words: 1 };
    let is_date = |date: &Date| {
        date.month.is_some_and(|m| (1..=12).contains(&m))
            && date.day.is_none_or(|d| (1..=31).contains(&d))
    };
    let dates: Vec<Date> = match (parts.len(), year(0), year(2)) {
        (3, Some(_), _) => vec![date(year(0), number(1), number(2))],
        (3, None, Some(_)) => {
            vec![date(year(2), number(0), number(1)), date(year(2), number(1), number(0))]
        }
        (2, Some(_), _) if text.contains('-') => vec![date(year(0), number(1), None)],
        _ => return None,
    };
    let dates: Vec<Date> = dates.into_iter().filter(is_date).collect();
    (!dates.is_empty()).then_some(dates)
}

/// "May 3rd, 2024", "3 May", "the 3rd of May 2024", "in May".
fn with_month(words: &[Word<'_>], at: usize) -> Option<Vec<Date>> {
    let month_at = |offset: usize| words.get(at + offset).and_then(month);
    let written_at = |offset: usize| words.get(at + offset).and_then(month_beside_a_number);
    let name_at = |offset: usize| words.get(at + offset).map_or("", |word| word.folded.as_str());
    let tens = match at.checked_sub(1).map_or("", |before| words[before].folded.as_str()) {
        "twenty" => 20,
        "thirty" => 30,
        _ => 0,
    };
    let spelled = || Some(tens + spelled_day(name_at(0))?).filter(|day| *day <= 31);
    let year_at = |offset: usize| words.get(at + offset).and_then(|word| year(&word.folded));
    if let Some(day) = day_of_month(name_at(0)).or_else(spelled) {
        let of = usize::from(
            words.get(at + 1).is_some_and(|word| matches!(word.folded.as_str(), "of" | "de")),
        );
        // "Two may come": a verb.
        let written = written_at(1 + of).filter(|&month| month != MAY);
        let month = month_at(1 + of).or(written)?;
        let year = year_at(2 + of);
        let words = 2 + of + usize::from(year.is_some());
        return Some(vec![Date { year, month: Some(month), day: Some(day), at, words }]);
    }
    // "I may second that": a verb.
    let spelled = || month_at(0).and_then(|_| spelled_day(name_at(1)));
    let day = day_of_month(name_at(1)).or_else(spelled);
    let is_behind_a_time = at
        .checked_sub(1)
        .is_some_and(|before| BEFORE_MONTHS.contains(&words[before].folded.as_str()));
    let is_certain = is_behind_a_time || day.is_some() || year_at(1).is_some();
    let month = month_at(0).or_else(|| written_at(0).filter(|_| is_certain))?;
    let behind = 1 + usize::from(day.is_some());
    let year = year_at(behind);
    Some(vec![Date {
        year,
        month: Some(month),
        day,
        at,
        words: behind + usize::from(year.is_some()),
    }])
}

/// The month that a word is: the name, or its first three or four letters. "May" and "March" are other
/// words in small letters.
fn month(word: &Word<'_>) -> Option<u32> {
    let (month, is_whole) = Language::english().calendar().month(&word.folded)?;
    let may_be_other = matches!(word.folded.as_str(), "may" | "march" | "mar");
    let is_name = word.is_capitalised();
    let is_meant = if may_be_other { is_name && !word.is_first } else { is_whole || is_name };
    is_meant.then_some(month)
}

/// The month that is written in haste beside a day or a year, or behind a word for a time: "dec 31", "in may".
fn month_beside_a_number(word: &Word<'_>) -> Option<u32> {
    Language::english().calendar().month(&word.folded).map(|(month, _)| month)
}

pub(super) fn weekday(word: &str) -> Option<usize> {
    let is_plural = |stem: &&str| stem.ends_with("day") || *stem == "wed";
    let word = word.strip_suffix('s').filter(is_plural).unwrap_or(word);
    WEEKDAYS.iter().position(|day| {
        *day == word
            || (matches!(word.len(), 3..=5)
                && day.starts_with(word)
                && word != "sat"
                && word != "sun")
    })
}

/// What joins two days of the week: "mon-fri".
const SPANS: [char; 3] = ['-', '–', '/'];

/// The days of the week that a word of a source names, also written in haste: "tue to sat", "mon-fri".
/// "Sat" and "sun" are other words, unless they stand beside another day, or behind "every".
fn weekdays<'a>(words: &'a [Word<'_>], at: usize) -> impl Iterator<Item = usize> + 'a {
    let name = |at: usize| words.get(at).map_or("", |word| word.folded.as_str());
    let names_a_day = |at: usize| name(at).split(SPANS).any(|part| weekday(part).is_some());
    let before = at.checked_sub(1).map_or("", name);
    let is_meant = name(at).contains(SPANS)
        || matches!(before, "every" | "each" | "on" | "next" | "last")
        || (at.saturating_sub(3)..at + 4).any(names_a_day);
    name(at).split(SPANS).filter_map(move |part| match part {
        "sat" if is_meant => Some(5),
        "sun" if is_meant => Some(6),
        _ => weekday(part),
    })
}

/// Whether a word names a month or a day of the week.
pub(super) fn is_calendar(word: &Word<'_>) -> bool {
    month(word).is_some() || weekday(&word.folded).is_some()
}

fn day_of_month(word: &str) -> Option<u32> {
    Language::english().calendar().day_of_month(word)
}

/// "The first of the month", "of next month"; but not "a third of the month".
fn is_of_a_month(words: &[Word<'_>], at: usize) -> bool {
    let name = |at: usize| words.get(at).map_or("", |word| word.folded.as_str());
    at.checked_sub(1).map_or("", name) == "the"
        && name(at + 1) == "of"
        && matches!(name(at + 2), "the" | "this" | "next" | "last")
        && name(at + 3) == "month"
}

/// "The twelfth of May", "May twenty-first".
fn spelled_day(word: &str) -> Option<u32> {
    let (tens, ordinal) = match word.split_once('-') {
        Some(("twenty", ordinal)) => (20, ordinal),
        Some(("thirty", ordinal)) => (30, ordinal),
        Some(_) => return None,
        None => (0, word),
    };
    let day = match ordinal {
        "first" => 1,
        "second" => 2,
        _ => List::Ordinal.value(ordinal)? as u32,
    };
    (tens == 0 || day < 10).then_some(tens + day).filter(|day| (1..=31).contains(day))
}

/// Which of so many words belong to a date.
pub(super) fn covered(dates: &[Date], words: usize) -> Vec<bool> {
    let mut covered = vec![false; words];
    for date in dates {
        covered[date.at..(date.at + date.words).min(words)].fill(true);
    }
    covered
}

/// The times that sources speak of.
#[derive(Default)]
pub(super) struct Times {
    said: Option<NaiveDate>,
    dates: Vec<Date>,
    /// First and last days that words may mean.
    windows: Vec<(NaiveDate, NaiveDate)>,
    weekdays: [bool; 7],
    /// Days of a month that is not named: "the 10th".
    days: Vec<u32>,
}

/// Most dates and times of sources that are kept: each of a fact's is compared with all.
const MOST: usize = 500;

impl Times {
    pub fn new(said_at: &str) -> Self {
        Self { said: said_at.parse().ok(), ..Self::default() }
    }

    pub fn add(&mut self, words: &[Word<'_>], numbers: &[Number], language: Option<&Language>) {
        self.dates.extend(dates(words));
        self.dates.truncate(MOST);
        for (at, word) in words.iter().enumerate() {
            for day in weekdays(words, at) {
                self.weekdays[day] = true;
            }
            if word.folded.ends_with(|c: char| c.is_ascii_lowercase()) {
                // "First" and "second" are other words as well.
                let spelled =
                    || spelled_day(&word.folded).filter(|day| *day > 3 || is_of_a_month(words, at));
                self.days.extend(day_of_month(&word.folded).or_else(spelled));
            }
        }
        self.days.truncate(MOST);
        let Some(said) = self.said else { return };
        let mut windows = Vec::new();
        let around = |back: i64, ahead: i64| Some((add_days(said, back)?, add_days(said, ahead)?));
        for (first, last) in spans(words, said, language) {
            windows.extend(add_days(first, -1).zip(add_days(last, 1)));
            if first == last {
                self.weekdays[first.weekday().num_days_from_monday() as usize] = true;
            }
        }
        for word in words {
            windows.extend(match word.folded.as_str() {
                "today" | "now" | "just" | "currently" => around(-1, 1),
                "week" | "weekend" | "weeks" => around(-15, 15),
                "month" => around(-62, 62),
                "year" => around(-731, 731),
                "spring" | "summer" | "autumn" | "fall" | "winter" => around(-500, 500),
                "christmas" | "easter" | "thanksgiving" => around(-400, 400),
                name if weekday(name).is_some() => around(-8, 14),
                name if List::Weekday.has(name) => around(-9, 14),
                name => foreign(name).and_then(|(back, ahead)| around(back, ahead)),
            });
        }
        // "in two weeks", "for ten years", "I am 34"
        for number in
            numbers.iter().filter(|number| !number.is_time && (0.0..1000.0).contains(&number.value))
        {
            let name = |at: Option<usize>| {
                at.and_then(|at| words.get(at)).map_or("", |word| word.folded.as_str())
            };
            let unit = name(Some(number.at + number.words));
            let is_spelled = words[number.at].has_digit()
                || super::numbers::is_cardinal(&words[number.at].folded);
            let is_age = is_spelled
                && matches!(
                    name(number.at.checked_sub(1)),
                    "am" | "i'm" | "is" | "turned" | "turning" | "aged"
                );
            let (length, slack) = match unit.trim_end_matches('s') {
                "day" => (1, 1),
                "week" => (7, 4),
                "month" => (30, 40),
                "year" | "year-old" | "yr" => (365, 400),
                _ if is_age => (365, 400),
                _ => continue,
            };
            let away = (number.value * f64::from(length)) as i64 + number.value as i64 / 4;
            windows.extend(around(-away - slack, slack - away));
            windows.extend(around(away - slack, away + slack));
        }
        self.windows.extend(windows);
        self.windows.truncate(MOST);
    }

    /// Whether a date of a fact is one of the sources', or follows from the day that they were said.
    pub fn ground(&self, date: &Date) -> bool {
        if self.dates.iter().any(|said| date.is_part_of(said) && self.is_near(date, said)) {
            return true;
        }
        let Some(said) = self.said else { return false };
        // Without a year, the years around.
        let candidates: Vec<Date> = match date.year {
            Some(_) => vec![*date],
            None => (-1..=1).map(|by| Date { year: Some(said.year() + by), ..*date }).collect(),
        };
        candidates.iter().filter_map(Date::days).any(|(first, last)| {
            // The day itself, or the month or year that it is in.
            let holds_today =
                first <= said.succ_opt().unwrap_or(said) && last >= said.pred_opt().unwrap_or(said);
            let is_close = (first - said).num_days().abs() <= 62
                && date.day.is_some_and(|day| self.days.contains(&day));
            holds_today
                || is_close
                || self.windows.iter().any(|(from, to)| {
                    // A long time is no reason for a single day.
                    let is_vague = (*to - *from).num_days() > 45;
                    first <= *to && last >= *from && !(is_vague && date.day.is_some())
                })
        })
    }

    /// Whether a year is that of the day or next to it.
    pub fn is_current(&self, year: i32) -> bool {
        self.said.is_some_and(|said| (year - said.year()).abs() <= 1)
    }

    /// A year that only the fact has is the one of the day or next to it.
    fn is_near(&self, date: &Date, said: &Date) -> bool {
        match (date.year, said.year, self.said) {
            (Some(year), None, Some(day)) => (year - day.year()).abs() <= 1,
            (Some(_), None, None) => false,
            _ => true,
        }
    }

    /// Whether a day of the week that a fact names is one of the sources', or the day of a time they name.
    pub fn ground_weekday(&self, word: &str) -> bool {
        let is_any_named = self.weekdays.contains(&true);
        weekday(word).is_none_or(|day| self.weekdays[day])
            || (!is_any_named && !self.windows.is_empty())
    }
}

/// The days that a word of another language reaches back and ahead. Where words are not parted by spaces,
/// it is part of a longer one.
fn foreign(word: &str) -> Option<(i64, i64)> {
    let value = |list: List| match word.is_ascii() {
        true => list.value(word),
        false => list.value_within(word),
    };
    let day = value(List::Day).map(|away| (away as i64 - 1, away as i64 + 1));
    day.or_else(|| value(List::Span).map(|reach| (-(reach as i64), reach as i64)))
}
