//! What words mean on the day that they were said: in English ("tomorrow", "last week", "three years ago"), and by the
//! phrases of another language. Days are those of UTC.

use chrono::{Datelike, NaiveDate};

use super::dates::{dates, weekday};
use super::foreign_times::{annotated, foreign_times};
use crate::text::calendar::Distance;
use crate::text::language::Language;
use crate::text::time_phrases::MONTHS;
use crate::text::words::{Word, folded, words};

/// A time that English words mean.
struct Relative {
    words: usize,
    distance: Distance,
    /// What stands before the date.
    before: &'static str,
}

impl Relative {
    /// The date in words.
    fn text(&self, said: NaiveDate) -> Option<String> {
        let date = self.distance.named_by(said)?;
        Some(match self.distance {
            Distance::Day(_) | Distance::AboutWeek(_) => date.to_string(),
            Distance::Week(_) => format!("the week of {date}"),
            Distance::Weekend(_) => format!("the weekend of {date}"),
            Distance::Month(_) | Distance::AboutMonth(_) => month_text(date),
            Distance::Year(_) | Distance::AboutYear(_) => date.year().to_string(),
        })
    }
}

/// What the words from `at` on mean in English on the day `said`, if they mean one time.
fn relative(words: &[Word<'_>], at: usize, said: NaiveDate) -> Option<Relative> {
    let name = |offset: usize| words.get(at + offset).map_or("", |word| word.folded.as_str());
    let found = |words: usize, before: &'static str, distance: Distance| {
        distance.days(said).map(|_| Relative { words, distance, before })
    };
    let on =
        |days: i64, words: usize, before: &'static str| found(words, before, Distance::Day(days));
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
        _ => {
            let (words, before, distance) = ago(words, at)?;
            return found(words, before, distance);
        }
    };
    match name(1) {
        "week" => found(2, "in", Distance::Week(direction)),
        "weekend" => found(2, "on", Distance::Weekend(direction)),
        "month" => found(2, "in", Distance::Month(direction)),
        "year" => found(2, "in", Distance::Year(direction)),
        day => {
            let day = i64::try_from(weekday(day).filter(|_| day.ends_with("day"))?).ok()?;
            let weekday_now = i64::from(said.weekday().num_days_from_monday());
            // The last one before today, the one of this week, the one of the next.
            let days = match direction {
                -1 if day < weekday_now => day - weekday_now,
                _ => 7 * direction + day - weekday_now,
            };
            on(days, 2, "on")
        }
    }
}

/// "three weeks ago", "a year ago", "two days from now": how many words, what stands before the date, and the time.
fn ago(words: &[Word<'_>], at: usize) -> Option<(usize, &'static str, Distance)> {
    let count = small_number(&words[at].folded)?;
    let unit = words.get(at + 1)?.folded.as_str();
    let (away, length) = match (
        words.get(at + 2)?.folded.as_str(),
        words.get(at + 3).map(|word| word.folded.as_str()),
    ) {
        ("ago", _) => (-count, 3),
        ("from", Some("now" | "today")) => (count, 4),
        _ => return None,
    };
    match unit.trim_end_matches('s') {
        "day" => Some((length, "on", Distance::Day(away))),
        "week" => Some((length, "around", Distance::AboutWeek(away))),
        "month" => Some((length, "in", Distance::AboutMonth(away))),
        "year" => Some((length, "in", Distance::AboutYear(away))),
        _ => None,
    }
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

/// The times that words mean in English, or by the phrases of a language, on the day `said`: first and last days.
pub(super) fn spans(
    words: &[Word<'_>],
    said: NaiveDate,
    language: Option<&Language>,
) -> Vec<(NaiveDate, NaiveDate)> {
    let english = (0..words.len()).filter_map(|at| Some(relative(words, at, said)?.distance));
    let foreign = language.map(|language| foreign_times(words, language)).unwrap_or_default();
    let distances = english.chain(foreign.into_iter().map(|(_, distance)| distance));
    distances.filter_map(|distance| distance.days(said)).collect()
}

/// A statement with the dates that its words mean, counted from the day that it was said. In English they take the
/// place of "tomorrow", "last week" or "two years ago"; in another `language`, if the agent has one, they stand
/// behind the phrase: "morgen (2024-05-04)". A statement that names a date is left as it is.
#[must_use]
pub fn dated(statement: &str, said_at: &str, language: Option<&Language>) -> String {
    let Ok(said) = said_at.parse::<NaiveDate>() else { return statement.to_owned() };
    let words = words(statement);
    if dates(&words).iter().any(|date| date.day.is_some() || date.year.is_some()) {
        return statement.to_owned();
    }
    let english = rewritten(statement, &words, said);
    match language {
        Some(language) => annotated(&english, said, language),
        None => english,
    }
}

/// With dates in place of English words.
fn rewritten(statement: &str, words: &[Word<'_>], said: NaiveDate) -> String {
    let (mut text, mut written, mut at) = (String::new(), 0, 0);
    while at < words.len() {
        let found = relative(words, at, said).filter(|found| may_date(words, at, found.words));
        let Some((relative, date)) =
            found.and_then(|found| found.text(said).map(|date| (found, date)))
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
        text.push_str(&statement[written..words[from].begin]);
        let mut phrase = if needs { format!("{} {date}", relative.before) } else { date };
        if words[from].is_first
            && let Some(first) = phrase.get(..1)
        {
            phrase = first.to_uppercase() + &phrase[1..];
        }
        text.push_str(&phrase);
        written = last.end();
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
