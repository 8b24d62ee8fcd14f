//! The names of a statement: what is meant as one, and whether it was said, perhaps in another form.

use super::{Grounds, Script, Ungrounded, dates, inflection};
use crate::text::word_lists::List;
use crate::text::words::{Word, is_english, is_latin};

/// Longest abbreviation that is looked for.
pub(super) const MAX_INITIALS: usize = 5;
/// Longest begin of a name that is compared.
const MAX_NAME_BYTES: usize = 64;
/// Letters of the shortest German word that may be part of a longer one; words that are longer share one more.
const LEAST_GERMAN_BEGIN: usize = 4;

impl Grounds {
    pub(super) fn check_names(
        &self,
        statement: &str,
        found: &[Word<'_>],
    ) -> Result<(), Ungrounded> {
        let latin = statement.chars().filter(|c| is_latin(*c)).count();
        let letters = statement.chars().filter(|c| c.is_alphabetic()).count();
        let is_comparable = script(latin, letters) == self.script;
        let capitals = found.iter().filter(|word| word.is_capitalised()).count();
        let has_capitals = is_comparable
            && !is_german(found)
            && (found.len() < 5 || capitals * 10 < found.len() * 8);
        let in_date = dates::covered(&dates::dates(found), found.len());
        let inflects = inflection::either_inflects(self.inflects, found);
        for (at, word) in found.iter().enumerate() {
            let is_code = !in_date[at] && word.raw.is_ascii() && is_code(word.raw);
            let is_name = has_capitals && self.is_name(found, at);
            let is_said = if is_code {
                self.has_code(&word.folded)
            } else {
                !is_name
                    || self.has_name(found, at)
                    || inflects && (self.has_form(&word.folded) || is_user(word))
            };
            if !is_said {
                return Err(Ungrounded::Name(word.raw.to_owned()));
            }
        }
        Ok(())
    }

    /// Whether a word of a statement is meant as a name.
    fn is_name(&self, found: &[Word<'_>], at: usize) -> bool {
        let word = &found[at];
        if !word.is_capitalised() || word.is_in(List::Unnamed) || dates::is_calendar(word) {
            return false;
        }
        if !word.is_first {
            return true;
        }
        let next = found.get(at + 1).filter(|next| next.clause == word.clause);
        let is_subject = next.is_some_and(|next| next.is_in(List::Personal))
            || word.raw.ends_with("'s")
            || word.raw.ends_with("’s")
            || next.is_some_and(|next| {
                let is_name = next.is_capitalised() && !next.is_in(List::Unnamed);
                is_name && !dates::is_calendar(next)
            });
        is_subject && !word.is_in(List::Opener) && !word.folded.ends_with("ing")
    }

    fn has_code(&self, word: &str) -> bool {
        self.words.contains(word) || self.bare.contains(&bare(word))
    }

    fn has_name(&self, found: &[Word<'_>], at: usize) -> bool {
        let word = &found[at];
        // "Production" of "prod" begins a sentence, so it may be no name.
        if self.has_word(&word.folded)
            || self.has_german_begin(found, at)
            || (word.is_first
                && Self::has_begin(&word.folded, |begin| {
                    self.words.contains(begin) && !is_plain(begin)
                }))
        {
            return true;
        }
        let parts: Vec<&str> =
            word.folded.split(['-', '/', '&', '+', '\'']).filter(|part| !part.is_empty()).collect();
        if parts.len() > 1 && parts.iter().all(|part| self.has_word(part)) {
            return true;
        }
        // A person or thing of a place; names of places in other languages.
        let phrase = |from: usize| {
            let (left, right) = (found.get(from)?, found.get(from + 1)?);
            Some(format!("{}_{}", left.folded, right.folded))
        };
        let phrases = [at.checked_sub(1), Some(at)].into_iter().flatten().filter_map(phrase);
        let is_place = |name: &str| lines_of_place(name).any(|line| self.places.contains(&line));
        if is_place(&word.folded) || phrases.into_iter().any(|phrase| is_place(&phrase)) {
            return true;
        }
        // "Spanish" of a source in another language than Spanish.
        if !self.is_english && List::People.has(&word.folded) {
            return true;
        }
        // The words of a name whose abbreviation was said: "United Nations" of "UN".
        let begin = (0..=at)
            .rev()
            .take_while(|at| found[*at].is_capitalised() || found[*at].folded == "of")
            .last()
            .unwrap_or(at);
        let run = found[begin..]
            .iter()
            .take(MAX_INITIALS + 1)
            .take_while(|word| word.is_capitalised() || word.folded == "of");
        let initials: String = run
            .filter(|word| word.folded != "of")
            .filter_map(|word| word.folded.chars().next())
            .collect();
        let initials = initials.as_str();
        let is_spelled_out = (0..initials.len().min(MAX_INITIALS)).any(|from| {
            initials.get(from..).is_some_and(|tail| {
                (tail.len() >= 2 && self.named.contains(tail))
                    || (tail.len() >= 3 && self.words.contains(tail) && !is_plain(tail))
            })
        });
        is_spelled_out
            || (word.raw.chars().all(|c| c.is_uppercase() || c == '.')
                && self.initials.contains(&bare(&word.folded)))
    }

    /// Whether a name was said in another of its forms.
    fn has_form(&self, name: &str) -> bool {
        let alike = inflection::begin(name).and_then(|begin| self.inflected.get(begin));
        alike.is_some_and(|said| said.iter().any(|said| inflection::is_same_name(name, said)))
    }

    /// Whether a word was said, or one that differs by an ending or by marks.
    pub(super) fn has_word(&self, word: &str) -> bool {
        const ENDINGS: [&str; 12] =
            ["s", "es", "n", "en", "an", "ian", "i", "ese", "ish", "e", "er", "ers"];
        if self.words.contains(word)
            || self.bare.contains(&bare(word))
            || self.bare.contains(&plain_umlauts(word))
        {
            return true;
        }
        let longer = ENDINGS.iter().any(|ending| self.words.contains(&format!("{word}{ending}")));
        let is_long = |stem: &&str| stem.chars().count() >= 3;
        let mut stems =
            ENDINGS.iter().filter_map(|ending| word.strip_suffix(ending)).filter(is_long);
        let is_of = |stem: &str| {
            self.words.contains(stem)
                || (stem.len() > 3
                    && ["a", "y", "o", "ia"]
                        .iter()
                        .any(|end| self.words.contains(&format!("{stem}{end}"))))
        };
        if longer || stems.any(is_of) {
            return true;
        }
        // "Alex" and "Alexander", "postgres" and "PostgreSQL"; but not "live" and "Liverpool".
        Self::has_begin(word, |begin| {
            self.named.contains(begin)
                || (begin.len() * 4 >= word.len() * 3 && self.words.contains(begin))
        })
    }

    /// Whether what was said in German has a noun that begins like this one of a fact that is not English:
    /// "Imkerei" of "Imkern".
    fn has_german_begin(&self, found: &[Word<'_>], at: usize) -> bool {
        let word = &found[at].folded;
        let begin = word
            .char_indices()
            .nth(LEAST_GERMAN_BEGIN + 1)
            .map_or(word.as_str(), |(end, _)| &word[..end]);
        self.german_begins.contains(begin) && !is_english(found)
    }

    /// Whether a longer word begins with one that may stand for it.
    fn has_begin(word: &str, stands_for: impl Fn(&str) -> bool) -> bool {
        let ends = word.char_indices().map(|(at, _)| at).take_while(|at| *at < MAX_NAME_BYTES);
        let ends: Vec<usize> = ends.collect();
        // Behind the fourth letter, and before the last but one.
        ends.iter().skip(4).rev().skip(1).any(|end| stands_for(&word[..*end]))
    }
}

/// Whether a fact begins with the word for the user. It is no name, whatever follows: "Kullanıcı İzmir'de oturuyor".
fn is_user(word: &Word<'_>) -> bool {
    word.is_first && List::User.is_within(&word.folded)
}

/// Whether a word of a source may be a name or an abbreviation, of which another form may be told.
pub(super) fn may_be_named(word: &Word<'_>) -> bool {
    word.is_capitalised() && !(word.is_first && is_plain(&word.folded))
}

/// Whether a word is common, whatever letter it begins with.
fn is_plain(word: &str) -> bool {
    [List::English, List::Empty, List::Auxiliary, List::Filler, List::Opener]
        .iter()
        .any(|list| list.has(word))
}

/// The lines of what a word names: a place, or a country with its people.
pub(super) fn lines_of_place(word: &str) -> impl Iterator<Item = usize> {
    List::Place.lines(word).iter().chain(List::People.lines(word)).copied()
}

/// A word without its marks.
pub(super) fn bare(word: &str) -> String {
    word.chars().filter(|c| c.is_alphanumeric()).collect()
}

/// "mueller" as "müller" is folded.
fn plain_umlauts(word: &str) -> String {
    bare(word).replace("ae", "a").replace("oe", "o").replace("ue", "u")
}

/// Addresses, paths, names of files and versions: what has marks inside that no other word has.
fn is_code(word: &str) -> bool {
    let inside = word.get(1..word.len() - 1).unwrap_or_default();
    // "2.3.1", not "1.000.000".
    let parts = word.trim_start_matches(['v', 'V']).split('.');
    let is_version = parts.clone().count() > 2
        && parts.clone().all(|part| matches!(part.len(), 1 | 2) && part.parse::<u8>().is_ok());
    if is_version {
        return true;
    }
    let has_letter = |text: &str| text.chars().any(char::is_alphabetic);
    (inside.contains(['@', '_', '\\'])
        || inside.contains("://")
        || inside.split('.').filter(|part| has_letter(part) && part.len() > 1).count() > 1)
        && has_letter(word)
}

pub(super) fn script(latin: usize, letters: usize) -> Script {
    match letters {
        0 => Script::None,
        _ if latin * 2 >= letters => Script::Latin,
        _ => Script::Other,
    }
}

/// The first four letters of nouns of German, and the first five.
pub(super) fn german_begins(found: &[Word<'_>]) -> impl Iterator<Item = String> {
    let is_german = !is_english(found);
    let nouns =
        found.iter().filter(move |word| is_german && word.is_capitalised() && !word.is_first);
    nouns.flat_map(|word| {
        [LEAST_GERMAN_BEGIN, LEAST_GERMAN_BEGIN + 1].into_iter().filter_map(|letters| {
            let begin: String = word.folded.chars().take(letters).collect();
            (begin.chars().count() == letters).then_some(begin)
        })
    })
}

/// Whether nouns are capitalised: German.
pub(super) fn is_german(found: &[Word<'_>]) -> bool {
    found.iter().filter(|word| word.is_in(List::German)).count() >= 2
}
