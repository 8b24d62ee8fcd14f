//! The numbers of a text: digits of any script, words, times of the day, with their units.

use std::collections::HashSet;

use super::number_words;
use crate::text::word_lists::List;
use crate::text::words::{Word, is_currency, is_english};

/// A number of a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Number {
    pub value: f64,
    /// The line of its unit in the list of units, if it has one that is known.
    pub unit: Option<usize>,
    /// The word that it is read from, or the first of them, and how many they are.
    pub at: usize,
    pub words: usize,
    /// Whether it is a time of the day; the value is then in minutes.
    pub is_time: bool,
    /// Whether it is said which half of the day is meant.
    pub is_exact: bool,
}

/// The numbers that a text names. Of those of a source also what it implies.
pub(super) fn numbers(words: &[Word<'_>], is_source: bool) -> Vec<Number> {
    let mut found = Vec::new();
    let mut at = 0;
    // Many words for numbers are other words in English: "hat" is six in Hungarian, "once" eleven in Spanish.
    let is_foreign = is_source && !is_english(words);
    while at < words.len() {
        let mut read: Vec<Number> =
            time(words, at).or_else(|| spelled(words, at)).into_iter().collect();
        if read.is_empty() && is_foreign {
            let foreign = number_words::read(words, at).into_iter();
            read.extend(foreign.map(|(value, length)| plain(value, at, length)));
        }
        let length = read.first().map_or(1, |number| number.words);
        if read.is_empty() {
            written(words, at, is_source, &mut found);
        }
        found.extend(read.into_iter().map(|number| with_unit(number, words)));
        if is_source {
            implied(&words[at], at, &mut found);
        }
        at += length.max(1);
    }
    found
}

fn plain(value: f64, at: usize, words: usize) -> Number {
    Number { value, unit: None, at, words, is_time: false, is_exact: false }
}

fn with_unit(mut number: Number, words: &[Word<'_>]) -> Number {
    if number.unit.is_none() && !number.is_time {
        let next = words.get(number.at + number.words);
        number.unit = next.and_then(|word| List::Unit.lines(&word.folded).first().copied());
    }
    number
}

fn implied(word: &Word<'_>, at: usize, found: &mut Vec<Number>) {
    found.extend(List::Implied.values(&word.folded).map(|value| plain(value, at, 1)));
    // "the nineties"
    let tens = word.folded.strip_suffix("ies").map(|stem| format!("{stem}y"));
    found.extend(tens.and_then(|tens| cardinal(&tens)).map(|value| plain(value, at, 1)));
}

/// A number in words: "two", "twenty-five", "three hundred and fifty", "two and a half thousand".
fn spelled(words: &[Word<'_>], at: usize) -> Option<Number> {
    let (mut total, mut current, mut any) = (0.0, 0.0, false);
    let mut end = at;
    let mut last_small = f64::INFINITY;
    while let Some(word) = words.get(end) {
        let name = word.folded.as_str();
        if any
            && name == "and"
            && words.get(end + 1).is_some_and(|next| cardinal(&next.folded).is_some())
            && current % 100.0 == 0.0
            && current > 0.0
        {
            end += 1;
            continue;
        }
        if let Some(value) = cardinal(name) {
            // "two three" are two numbers.
            if any && value >= last_small {
                break;
            }
            last_small = if value >= 20.0 && value % 10.0 == 0.0 { 10.0 } else { 0.0 };
            current += value;
        } else if let Some(scale) = List::Scale.value(name).filter(|_| any || name != "k") {
            current = current.max(1.0) * scale;
            if scale >= 1e3 {
                (total, current) = (total + current, 0.0);
            }
            last_small = f64::INFINITY;
        } else {
            break;
        }
        any = true;
        end += 1;
    }
    if any {
        return Some(plain(total + current, at, end - at));
    }
    List::Ordinal.value(&words[at].folded).map(|value| plain(value, at, 1))
}

/// "seven", "twenty", "twenty-five".
fn cardinal(name: &str) -> Option<f64> {
    List::Cardinal.value(name).or_else(|| {
        let (tens, ones) = name.split_once('-')?;
        let (tens, ones) = (List::Cardinal.value(tens)?, List::Cardinal.value(ones)?);
        (tens >= 20.0 && ones < 10.0).then_some(tens + ones)
    })
}

/// Whether a word is a number of English.
pub(super) fn is_cardinal(name: &str) -> bool {
    cardinal(name).is_some()
}

/// A time of the day: "10:30", "3 pm", "half past three", "quarter to four", "noon".
fn time(words: &[Word<'_>], at: usize) -> Option<Number> {
    let of = |minutes: f64, words: usize| Number {
        is_time: true,
        ..plain(minutes.rem_euclid(1440.0), at, words)
    };
    let name = |offset: usize| words.get(at + offset).map_or("", |word| word.folded.as_str());
    let hour = |offset: usize| {
        let value =
            cardinal(name(offset)).or_else(|| name(offset).parse::<u32>().ok().map(f64::from))?;
        (value <= 24.0).then_some(value)
    };
    match (name(0), name(1)) {
        ("noon" | "midday", _) => return Some(of(720.0, 1)),
        ("midnight", _) => return Some(of(0.0, 1)),
        ("half", "past") => return Some(of(hour(2)? * 60.0 + 30.0, 3)),
        ("quarter", "past") => return Some(of(hour(2)? * 60.0 + 15.0, 3)),
        ("quarter", "to") => return Some(of(hour(2)? * 60.0 - 15.0, 3)),
        // German and Dutch count to the hour.
        ("halb" | "half", _) => {
            return Some(of(number_words::value(name(1))? * 60.0 - 30.0, 2));
        }
        _ => {}
    }
    if matches!(name(1), "past" | "to") && !name(0).is_empty() && hour(2).is_some() {
        let minutes = cardinal(name(0))
            .or_else(|| name(0).parse::<u32>().ok().map(f64::from))
            .filter(|m| *m < 60.0)?;
        let is_clock =
            matches!(name(3), "am" | "pm" | "a.m" | "p.m" | "o'clock") || minutes % 5.0 == 0.0;
        let is_past = name(1) == "past";
        if is_past && is_clock {
            return Some(of(hour(2)? * 60.0 + minutes, 3));
        }
        return None;
    }
    let half = |word: &str| match word {
        "am" | "a.m" => Some(0.0),
        "pm" | "p.m" => Some(720.0),
        _ => None,
    };
    let word = name(0);
    let (clock, attached) = match word.strip_suffix("am").or_else(|| word.strip_suffix("pm")) {
        Some(clock) if clock.ends_with(|c: char| c.is_ascii_digit()) => {
            (clock, half(&word[clock.len()..]))
        }
        _ => (word, None),
    };
    let after = attached.or_else(|| half(name(1)));
    let length = 1 + usize::from(attached.is_none() && after.is_some());
    let spoken = duration(word);
    let clock = spoken.as_deref().unwrap_or(clock);
    let (hours, minutes) = match clock.split_once(':') {
        Some((hours, minutes)) => {
            (hours.parse::<u32>().ok()?, minutes.get(..2)?.parse::<u32>().ok()?)
        }
        None if after.is_some() => {
            (hour(0).or_else(|| clock.parse::<u32>().ok().map(f64::from))? as u32, 0)
        }
        None if matches!(name(1), "o'clock" | "oclock" | "uhr") => {
            let value = hour(0).or_else(|| number_words::value(name(0)))?;
            return Some(of(value * 60.0, 2));
        }
        None => return None,
    };
    if hours > 24 || minutes > 59 {
        return None;
    }
    let base = f64::from(hours * 60 + minutes);
    Some(match after {
        Some(half) => Number { is_exact: true, ..of(base % 720.0 + half, length) },
        None => of(base, length),
    })
}

/// "1:52:30" of "1h52m30s", "10:30" of "10h30".
fn duration(word: &str) -> Option<String> {
    let (hours, rest) = word.split_once('h')?;
    let rest = rest.trim_end_matches(['s', 'm', 'i', 'n']).replace("min", "m");
    let parts: Vec<&str> = std::iter::once(hours).chain(rest.split('m')).collect();
    let is_number = |part: &&str| matches!(part.len(), 1 | 2) && part.parse::<u8>().is_ok();
    let padded = parts.iter().map(|part| format!("{part:0>2}")).collect::<Vec<_>>().join(":");
    (matches!(parts.len(), 2 | 3) && parts.iter().all(is_number)).then_some(padded)
}

/// The seconds of a time that has them.
fn seconds(word: &str) -> Option<f64> {
    let clock = duration(word).unwrap_or_else(|| word.to_owned());
    clock.split(':').nth(2)?.parse().ok()
}

/// The numbers in the digits of a word: "1,000", "$5.50", "5km", "GPT-4", "2/3", "3.5M", "3只".
fn written(words: &[Word<'_>], at: usize, is_source: bool, found: &mut Vec<Number>) {
    let word = &words[at];
    if !word.has_digit() {
        // They are parts of other words as well, so only a source's count.
        if is_source {
            let values = number_words::numerals(word.raw).into_iter();
            found.extend(values.map(|value| plain(value, at, 1)));
        }
        return;
    }
    let text = word.folded.as_str();
    let currency = text.chars().find(|c| is_currency(*c));
    let mut rest = 0;
    while let Some(begin) =
        text[rest..].find(|c: char| c.is_ascii_digit()).map(|begin| rest + begin)
    {
        let is_part = |c: char| c.is_ascii_digit() || c == ',' || c == '.' || c == '\'';
        let end = text[begin..].find(|c| !is_part(c)).map_or(text.len(), |end| begin + end);
        let digits = text[begin..end].trim_end_matches(|c: char| !c.is_ascii_digit());
        let suffix_end = text[end..]
            .find(|c: char| !c.is_alphabetic() && c != '%')
            .map_or(text.len(), |len| end + len);
        let suffix = &text[end..suffix_end];
        for mut value in values(digits) {
            let scale = match suffix {
                "k" => 1e3,
                "m" | "mio" | "mm" if currency.is_some() => 1e6,
                "m" if digits.contains('.') => 1e6,
                "bn" | "b" => 1e9,
                _ => 1.0,
            };
            let mut length = 1;
            value *= scale;
            let next = words.get(at + 1).map_or("", |word| word.folded.as_str());
            if suffix.is_empty()
                && let Some(scale) = List::Scale.value(next).filter(|_| next != "dozen")
            {
                value *= scale;
                length = 2;
            }
            let mut number = plain(value, at, length);
            let sign = currency.map(String::from).unwrap_or_default();
            number.unit = [sign.as_str(), suffix]
                .iter()
                .find_map(|unit| List::Unit.lines(unit).first().copied());
            found.push(with_unit(number, words));
        }
        rest = end.max(suffix_end);
    }
}

/// What digits with separators may mean: "1.000" is a thousand or one.
fn values(digits: &str) -> Vec<f64> {
    const MOST: usize = 40;
    if digits.len() > MOST {
        return Vec::new();
    }
    let parts: Vec<&str> = digits.split([',', '.', '\'']).collect();
    let parse = |text: &str| text.parse::<f64>().ok();
    if parts.len() == 1 {
        return parse(digits).into_iter().collect();
    }
    let is_grouped = parts[0].len() <= 3 && parts[1..].iter().all(|part| part.len() == 3);
    let mut values: Vec<f64> = Vec::new();
    if is_grouped {
        values.extend(parse(&parts.concat()));
    }
    let (whole, fraction) = (parts[..parts.len() - 1].concat(), parts[parts.len() - 1]);
    let is_decimal =
        parts.len() == 2 || parts[..parts.len() - 1].iter().skip(1).all(|part| part.len() == 3);
    if is_decimal && (!is_grouped || parts.len() == 2) {
        values.extend(parse(&format!("{whole}.{fraction}")));
    }
    if values.is_empty() {
        values.extend(parts.iter().filter_map(|part| parse(part)));
    }
    values
}

/// Most digits that are searched for a number that is written in groups.
const MAX_DIGITS: usize = 16 * 1024;

/// What a source says in numbers.
#[derive(Default)]
pub(super) struct Numbers {
    values: HashSet<u64>,
    /// Values with their units; the unit `None` is one that is not known.
    units: HashSet<(u64, Option<usize>)>,
    minutes: HashSet<u32>,
    /// The digits of words side by side, for numbers that are written in groups.
    digits: String,
}

impl Numbers {
    pub fn add(&mut self, words: &[Word<'_>]) {
        for number in numbers(words, true) {
            if number.is_time {
                self.minutes.extend(hours(number.value, number.is_exact));
                self.values.insert((number.value / 60.0).floor().to_bits());
                let word = words[number.at].folded.as_str();
                self.values.extend(seconds(word).map(f64::to_bits));
                // Of an hour, not of a clock: "1h52" are 52 minutes, too.
                if word.contains('h') {
                    self.values.insert((number.value % 60.0).to_bits());
                }
                continue;
            }
            self.values.insert(number.value.to_bits());
            self.units.insert((number.value.to_bits(), number.unit));
            if (0.0..=24.0).contains(&number.value) {
                self.minutes.extend(hours(number.value * 60.0, false));
            }
        }
        for word in words {
            if self.digits.len() > MAX_DIGITS {
                break;
            }
            // Of words side by side: "10 km in 50 minutes" has no 1050.
            match word.has_digit() {
                true => self.digits.extend(digits(word)),
                false if !self.digits.ends_with(' ') => self.digits.push(' '),
                false => {}
            }
        }
        self.digits.push(' ');
    }

    /// Whether a source has a number.
    pub fn has(&self, value: f64) -> bool {
        self.values.contains(&value.to_bits())
    }

    /// Whether a number of a fact is one of the sources'.
    pub fn ground(&self, number: &Number, words: &[Word<'_>]) -> bool {
        if number.is_time {
            let seconds = seconds(&words[number.at].folded).filter(|seconds| *seconds > 0.0);
            return seconds.is_none_or(|seconds| self.has(seconds))
                && hours(number.value, number.is_exact)
                    .any(|minutes| self.minutes.contains(&minutes));
        }
        // "a dog" is one dog.
        if number.value == 1.0 {
            return true;
        }
        let digits: String = digits(&words[number.at]).collect();
        let is_in_groups = digits.len() >= 4 && self.digits.contains(&digits);
        let is_of_century = (1910.0..2100.0).contains(&number.value)
            && number.value % 100.0 >= 10.0
            && self.units.contains(&((number.value % 100.0).to_bits(), None));
        if !(self.has(number.value) || is_in_groups || is_of_century) {
            return false;
        }
        // Another unit is another amount; one that is not known may be any.
        let bits = number.value.to_bits();
        number.unit.is_none()
            || self.units.contains(&(bits, number.unit))
            || self.units.contains(&(bits, None))
            || !self.has(number.value)
    }
}

fn digits<'a>(word: &'a Word<'_>) -> impl Iterator<Item = char> + 'a {
    word.folded.chars().filter(char::is_ascii_digit)
}

/// A time of the day, and the same half a day later if it is one of a clock of twelve hours.
fn hours(minutes: f64, is_exact: bool) -> impl Iterator<Item = u32> {
    let minutes = minutes as u32 % 1440;
    let other = (minutes <= 780 && !is_exact).then_some((minutes + 720) % 1440);
    std::iter::once(minutes).chain(other)
}
