//! What words mean on the day that they were said: in English ("tomorrow", "last week", "three years ago"), and by the
//! phrases of another language. Days are those of UTC.

use std::ops::Range;

use chrono::{Datelike, NaiveDate};

use super::dates::{dates, weekday};
use super::foreign_times::{annotated, foreign_times};
use crate::text::calendar::Distance;
use crate::text::language::Language;
use crate::text::words::{Word, folded, words};

/// The times that words mean in English on the day `said`, and which words those are.
fn english_times(words: &[Word<'_>], said: NaiveDate) -> Vec<(Range<usize>, Distance)> {
    let names: Vec<&str> = words.iter().map(|word| word.folded.as_str()).collect();
    let mut found = Language::english().distances(&names);
    let day = |at| Some((at..at + 2, day_of_week(names.get(at..at + 2)?, said)?));
    found.extend((0..words.len()).filter_map(day));
    found.sort_by_key(|(range, _)| range.start);
    found
}

/// "Last Monday" is the last one before today; "this" is of this week, "next" of the next.
fn day_of_week(names: &[&str], said: NaiveDate) -> Option<Distance> {
    let day = i64::try_from(weekday(names[1]).filter(|_| names[1].ends_with("day"))?).ok()?;
    let away = day - i64::from(said.weekday().num_days_from_monday());
    match names[0] {
        "last" if away < 0 => Some(Distance::Day(away)),
        "last" => Some(Distance::Day(away - 7)),
        "this" => Some(Distance::Day(away)),
        "next" => Some(Distance::Day(away + 7)),
        _ => None,
    }
}

/// A time in words of English, and what stands before it. `last` is the last word by which it was named.
fn in_words(distance: Distance, last: &str, said: NaiveDate) -> Option<(&'static str, String)> {
    let date = distance.named_by(said)?;
    let text = match distance {
        Distance::Day(_) | Distance::AboutWeek(_) => date.to_string(),
        Distance::Week(_) => format!("the week of {date}"),
        Distance::Weekend(_) => format!("the weekend of {date}"),
        Distance::Month(_) | Distance::AboutMonth(_) => date.format("%B %Y").to_string(),
        Distance::Year(_) | Distance::AboutYear(_) => date.year().to_string(),
    };
    let before = match (distance, last) {
        (_, "morning") => "on the morning of",
        (_, "afternoon") => "on the afternoon of",
        (_, "evening" | "tonight") => "on the evening of",
        (_, "night") => "on the night of",
        (Distance::Day(_) | Distance::Weekend(_), _) => "on",
        (Distance::AboutWeek(_), _) => "around",
        _ => "in",
    };
    Some((before, text))
}

/// The times that words mean in English, or by the phrases of a language, on the day `said`: first and last days.
pub(super) fn spans(
    words: &[Word<'_>],
    said: NaiveDate,
    language: Option<&Language>,
) -> Vec<(NaiveDate, NaiveDate)> {
    let english = english_times(words, said).into_iter().map(|(_, distance)| distance);
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
    const LEADS: [&str; 13] = [
        "since", "until", "till", "by", "from", "before", "after", "for", "of", "on", "in", "as",
        "around",
    ];
    let name = |at: Option<usize>| at.map_or("", |at| words[at].folded.as_str());
    let (mut text, mut written) = (String::new(), 0);
    for (range, distance) in english_times(words, said) {
        let (mut from, last) = (range.start, range.end - 1);
        let Some((before, date)) = in_words(distance, name(Some(last)), said) else { continue };
        if !may_date(&words[range], name(from.checked_sub(1))) {
            continue;
        }
        if name(from.checked_sub(1)) == "the" {
            from -= 1;
        }
        text.push_str(&statement[written..words[from].begin]);
        let is_led_to = LEADS.contains(&name(from.checked_sub(1)));
        let mut phrase = if is_led_to { date } else { format!("{before} {date}") };
        if words[from].is_first
            && let Some(first) = phrase.get(..1)
        {
            phrase = first.to_uppercase() + &phrase[1..];
        }
        text.push_str(&phrase);
        written = words[last].end();
    }
    text.push_str(&statement[written..]);
    text
}

/// Whether words are meant as a time: not "the last week" (a duration), "USA Today", "today's" or a quotation.
fn may_date(own: &[Word<'_>], before: &str) -> bool {
    let is_plain = |word: &Word<'_>| {
        !word.is_quoted
            && folded(word.raw).len() == word.raw.len()
            && (word.is_first
                || !word.raw.starts_with(char::is_uppercase)
                || weekday(&word.folded).is_some())
    };
    let is_duration = matches!(before, "the" | "each" | "every") && own[0].folded != "day";
    own.iter().all(is_plain) && !is_duration
}
