//! Whether a statement is about what was said: its names, numbers, dates and negations have to occur in its
//! sources. An LLM that answers, concludes or invents is found out by words of its own.
//!
//! The check is made of rules and refuses only for a reason that it can name; it knows nothing of what is
//! true. Where it cannot compare, it does not refuse: names of another script, capitals in German, words of
//! languages that it has no lists for. Its time is linear in the length of the sources.

mod acts;
mod courtesies;
mod dates;
mod foreign_times;
mod inflection;
mod instructions;
mod names;
mod number_words;
mod numbers;
mod polarity;
mod relative;
mod sentence_acts;
mod statements;
mod subjects;

use std::collections::{HashMap, HashSet};

pub(crate) use acts::refers_back;
pub use acts::{may_state, only_states};
pub use relative::dated;
pub use statements::completed;
pub(crate) use statements::{is_bare_change, statements};

use acts::{Act, Acts};
use names::{MAX_INITIALS, bare, is_german, lines_of_place, may_be_named, script};
use numbers::{Numbers, numbers};
use polarity::Polarity;
use subjects::Subjects;

use crate::limits::{GROUNDED_BYTES, GROUNDING_BYTES};
use crate::text::language::Language;
use crate::text::word_lists::List;
use crate::text::words::{Word, is_latin, words};

/// What a statement may rest on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sources<'a> {
    /// What it was made of.
    pub said: &'a [&'a str],
    /// What that may refer to: other turns, statements that it updates, names.
    pub context: &'a [&'a str],
    /// The name of who said it.
    pub speaker: Option<&'a str>,
    /// The day it was said, as an ISO date.
    pub said_at: &'a str,
    /// The language of the agent if it is not English: its phrases mean times, as those of English always do.
    pub language: Option<&'a Language>,
}

/// Why a statement does not rest on its sources.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ungrounded {
    #[error("the name \"{0}\" was not said")]
    Name(String),
    #[error("the number \"{0}\" was not said")]
    Number(String),
    #[error("the date \"{0}\" was not said and does not follow from the day of what was said")]
    Date(String),
    #[error("the words \"{0}\" between quotation marks were not said")]
    Quote(String),
    #[error("it negates, and what was said does not")]
    Negation,
    #[error("what was said negates it")]
    Denied,
    #[error("it was said of another person")]
    Person,
    /// All of its words stand in what this names.
    #[error("it was not stated, but stands in {0}")]
    Unstated(&'static str),
    #[error("it tells of the conversation")]
    Conversation,
    #[error("it is longer than {GROUNDED_BYTES} bytes")]
    Length,
}

/// Sources that statements are compared with.
pub struct Grounds {
    words: HashSet<String>,
    /// Words that are written as names are.
    named: HashSet<String>,
    /// Names by the letters that they begin with, and whether what was said is in a language that inflects them, if it tells.
    inflected: HashMap<String, Vec<String>>,
    inflects: Option<bool>,
    /// Words without marks: "wifi" of "Wi-Fi".
    bare: HashSet<String>,
    /// First letters of words in a row, as abbreviations have them.
    initials: HashSet<String>,
    numbers: Numbers,
    times: dates::Times,
    /// Of what was said, not of its context.
    polarity: Polarity,
    subjects: Subjects,
    acts: Acts,
    speaker: Vec<String>,
    is_english: bool,
    is_foreign: bool,
    /// Begins of what was said in German, whose nouns have capitals and join to others: "Brot" of "Brotbacken".
    german_begins: HashSet<String>,
    script: Script,
    /// Lines of the list of places that it has a word of.
    places: HashSet<usize>,
}

/// A family of checks of one statement.
type Check<'a> = &'a dyn Fn() -> Result<(), Ungrounded>;

/// In which letters a text is written, mostly.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Script {
    None,
    Latin,
    Other,
}

impl Grounds {
    /// Reads sources; of very long ones only the begin.
    #[must_use]
    pub fn of(sources: &Sources<'_>) -> Self {
        let mut grounds = Self {
            words: HashSet::new(),
            named: HashSet::new(),
            inflected: HashMap::new(),
            inflects: None,
            bare: HashSet::new(),
            initials: HashSet::new(),
            numbers: Numbers::default(),
            times: dates::Times::new(sources.said_at),
            polarity: Polarity::default(),
            subjects: Subjects::default(),
            acts: Acts::default(),
            speaker: sources
                .speaker
                .map(|name| words(name).into_iter().map(|word| word.folded).collect())
                .unwrap_or_default(),
            is_english: false,
            is_foreign: false,
            german_begins: HashSet::new(),
            script: Script::None,
            places: HashSet::new(),
        };
        let mut left = GROUNDING_BYTES;
        let (mut latin, mut letters) = (0, 0);
        let (mut english, mut foreign) = (0, 0);
        let said = sources.said.iter().map(|text| (*text, true));
        let context = sources.context.iter().chain(&sources.speaker).map(|text| (*text, false));
        // A statement without a source of its own is compared with the language of what is around it.
        let nothing_is_said = sources.said.is_empty();
        for (text, is_said) in said.chain(context) {
            let text = &text[..text.floor_char_boundary(left)];
            left -= text.len();
            let found = words(text);
            grounds.add(&found, sources.language);
            if is_said {
                if is_german(&found) {
                    grounds.german_begins.extend(names::german_begins(&found));
                }
                grounds.polarity.add(text, &found);
                grounds.subjects.add(&found);
                grounds.acts.add(text, &found);
                grounds.inflects = grounds.inflects.or_else(|| inflection::inflects(&found));
            }
            if is_said || nothing_is_said {
                english += found.iter().filter(|word| word.is_in(List::English)).count();
                foreign += found.iter().filter(|word| word.is_in(List::Foreign)).count();
                latin += text.chars().filter(|c| is_latin(*c)).count();
                letters += text.chars().filter(|c| c.is_alphabetic()).count();
            }
        }
        grounds.script = script(latin, letters);
        grounds.is_foreign = foreign > english || grounds.script == Script::Other;
        grounds.is_english = english > 0 && english >= foreign;
        grounds
    }

    fn add(&mut self, found: &[Word<'_>], language: Option<&Language>) {
        let numbers = numbers(found, true);
        self.numbers.add(found);
        self.times.add(found, &numbers, language);
        for (at, word) in found.iter().enumerate() {
            for part in word
                .folded
                .split(['-', '/', '_', '.', '@', ':', '&', '+', '\''])
                .filter(|part| !part.is_empty())
            {
                self.words.insert(part.to_owned());
            }
            self.places.extend(lines_of_place(&word.folded));
            self.words.extend(word.folded.split('/').map(str::to_owned));
            self.bare.insert(bare(&word.folded));
            if let Some(next) = found.get(at + 1) {
                let phrase = format!("{}_{}", word.folded, next.folded);
                self.places.extend(lines_of_place(&phrase));
                // "post gres", "new york"
                self.bare.insert(bare(&word.folded) + &bare(&next.folded));
            }
            if may_be_named(word) && self.named.insert(word.folded.clone()) {
                self.add_inflected(&word.folded);
            }
            self.words.insert(word.folded.clone());
        }
        self.add_initials(found);
    }

    fn add_inflected(&mut self, name: &str) {
        let Some(begin) = inflection::begin(name) else { return };
        let alike = self.inflected.entry(begin.to_owned()).or_default();
        if alike.len() < inflection::MOST_ALIKE {
            alike.push(name.to_owned());
        }
    }

    /// What abbreviates words in a row, of which small ones may be left out.
    fn add_initials(&mut self, found: &[Word<'_>]) {
        let firsts: Vec<char> = found
            .iter()
            .filter(|word| !matches!(word.folded.as_str(), "of" | "the" | "and" | "for"))
            .filter_map(|word| word.folded.chars().next())
            .collect();
        for at in 0..firsts.len() {
            let longest = firsts.len().min(at + MAX_INITIALS);
            self.initials.extend((at + 2..=longest).map(|end| String::from_iter(&firsts[at..end])));
        }
    }

    /// Whether a statement rests on the sources.
    ///
    /// # Errors
    ///
    /// The first reason that it does not.
    pub fn check(&self, statement: &str) -> Result<(), Ungrounded> {
        self.check_without("", statement)
    }

    /// The same without a family of checks, or without one of the acts, for examples/grounding_ablation.rs.
    ///
    /// # Errors
    ///
    /// As those of [`Self::check`].
    #[doc(hidden)]
    pub fn check_without(&self, family: &str, statement: &str) -> Result<(), Ungrounded> {
        if statement.len() > GROUNDED_BYTES {
            return Err(Ungrounded::Length);
        }
        let found = words(statement);
        let check_person = || match self.is_english && self.subjects.confuses(&found, &self.speaker)
        {
            true => Err(Ungrounded::Person),
            false => Ok(()),
        };
        let is_assistant_said = self.has_word("assistant");
        let check_retold =
            || match subjects::retells(statement, &found, &self.speaker, is_assistant_said) {
                true => Err(Ungrounded::Conversation),
                false => Ok(()),
            };
        let families: [(&str, Check<'_>); 7] = [
            ("numbers and dates", &|| self.check_dates_and_numbers(&found)),
            ("names", &|| self.check_names(statement, &found)),
            ("quotes", &|| self.check_quotes(&found)),
            ("polarity", &|| self.check_polarity(statement, &found)),
            ("persons", &check_person),
            ("retold", &check_retold),
            ("acts", &|| self.check_acts(&found)),
        ];
        for (_, check) in families.iter().filter(|(name, _)| *name != family) {
            match check() {
                Err(Ungrounded::Unstated(act)) if act == family => {}
                result => result?,
            }
        }
        Ok(())
    }

    fn check_dates_and_numbers(&self, found: &[Word<'_>]) -> Result<(), Ungrounded> {
        let text = |at: usize, words: usize| {
            let words = &found[at..(at + words).min(found.len())];
            words.iter().map(|word| word.raw).collect::<Vec<_>>().join(" ")
        };
        let dates = dates::dates(found);
        // Both readings of "3/5/2024" may be meant.
        for readings in dates.chunk_by(|left, right| left.at == right.at) {
            let (date, has) = (readings[0], |value: f64| self.numbers.has(value));
            // The names of months in other languages are not known.
            let is_foreign = !self.is_english
                && date.day.is_none_or(|day| has(f64::from(day)))
                && date.year.is_none_or(|year| has(f64::from(year)) || self.times.is_current(year))
                && (date.day.is_some() || date.year.is_none_or(|year| has(f64::from(year))));
            if !is_foreign && !readings.iter().any(|reading| self.times.ground(reading)) {
                return Err(Ungrounded::Date(text(date.at, date.words)));
            }
        }
        let in_date = dates::covered(&dates, found.len());
        let mut numbers = numbers(found, false);
        numbers.retain(|number| !in_date[number.at]);
        // "1.000" is grounded if one of its readings is.
        for readings in numbers.chunk_by(|left, right| left.at == right.at) {
            let (number, word) = (&readings[0], &found[readings[0].at]);
            let is_year = number.value.fract() == 0.0 && (1900.0..2200.0).contains(&number.value);
            let year = dates::Date { year: Some(number.value as i32), ..dates::Date::default() };
            let is_name = word.raw.chars().any(char::is_alphabetic) && self.has_word(&word.folded);
            let is_said = readings.iter().any(|reading| self.numbers.ground(reading, found))
                || (is_year && self.times.ground(&year))
                || is_name;
            if !is_said {
                return Err(Ungrounded::Number(text(number.at, number.words)));
            }
        }
        let is_own = |word: &&Word<'_>| self.is_english && !self.times.ground_weekday(&word.folded);
        match found.iter().find(is_own) {
            Some(word) => Err(Ungrounded::Date(word.raw.to_owned())),
            None => Ok(()),
        }
    }

    fn check_quotes(&self, found: &[Word<'_>]) -> Result<(), Ungrounded> {
        let quoted: Vec<&Word<'_>> = found.iter().filter(|word| word.is_quoted).collect();
        let is_own = |word: &&&Word<'_>| !self.has_word(&word.folded);
        match quoted.iter().find(is_own) {
            Some(word) if !self.is_foreign => Err(Ungrounded::Quote(word.raw.to_owned())),
            _ => Ok(()),
        }
    }

    fn check_acts(&self, found: &[Word<'_>]) -> Result<(), Ungrounded> {
        let of_user = subjects::is_of_user(found, &self.speaker);
        // Of other languages a question is known by its mark.
        let is_known = |act: &Act| {
            !self.is_foreign || (matches!(act, Act::Ask | Act::Doubt) && self.acts.is_unstated())
        };
        if let Some(act) = self.acts.unstated(found, of_user).filter(is_known) {
            return Err(Ungrounded::Unstated(act.name()));
        }
        // "The conversation so far summarizes ..."
        let subject = found.iter().find(|word| !matches!(&*word.folded, "the" | "this" | "user"));
        const TALK: [&str; 6] =
            ["conversation", "chat", "message", "question", "request", "prompt"];
        let is_talk = |word: &Word<'_>| TALK.contains(&&*word.folded) && !self.acts.states(word);
        if !self.is_foreign && subject.is_some_and(is_talk) {
            return Err(Ungrounded::Conversation);
        }
        // "The user wants to know", "The user asked"
        let verb =
            found.iter().skip(1).find(|word| word.folded != "user" && !word.is_in(List::Empty));
        let tells = |word: &Word<'_>| {
            (word.is_in(List::Telling) || word.folded == "know") && !self.acts.states(word)
        };
        match verb {
            Some(verb) if of_user && !self.is_foreign && tells(verb) => {
                Err(Ungrounded::Conversation)
            }
            _ => Ok(()),
        }
    }

    fn check_polarity(&self, statement: &str, found: &[Word<'_>]) -> Result<(), Ungrounded> {
        let negates = polarity::has_negation(found) || polarity::negates_unspaced(statement);
        let affirms = || self.is_english && self.polarity.affirms(found);
        if negates && (!self.polarity.is_negating || affirms()) {
            return Err(Ungrounded::Negation);
        }
        if negates || polarity::is_negating(found) {
            return Ok(());
        }
        let is_translated = self.script != Script::Latin || !self.is_english;
        if self.polarity.denies(found) || (is_translated && self.polarity.is_denial) {
            return Err(Ungrounded::Denied);
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "grounding/tests.rs"]
mod tests;

#[cfg(test)]
#[path = "grounding/injection_tests.rs"]
mod injection_tests;
