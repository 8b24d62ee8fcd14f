//! The words of a text: where they stand, and the form in which they are compared.
//!
//! [`words`] reads a text as people write it: "10:30", "$500" and "a.b@c.org" are one word each, and punctuation tells
//! sentences, clauses and quotations. Where only letters and digits matter, [`parts`] ends a word at every mark.
//!
//! Three more ways to cut a text answer other questions: `lexical.rs` follows PostgreSQL's parser, `phrases.rs` needs
//! the punctuation as words of its own, and `words_sought.rs` has pairs of letters where a script has no spaces.

use crate::text::word_lists::List;

/// A word of a text.
pub(crate) struct Word<'a> {
    /// As it is written, without punctuation around it.
    pub raw: &'a str,
    /// Where that begins in the text, in bytes.
    pub begin: usize,
    /// In lower case, without diacritics and without the ending `'s`.
    pub folded: String,
    /// Whether a sentence begins with it.
    pub is_first: bool,
    /// The number of its clause: punctuation parts clauses.
    pub clause: usize,
    /// Whether it stands between quotation marks.
    pub is_quoted: bool,
}

impl Word<'_> {
    /// Where it ends in the text, in bytes.
    pub fn end(&self) -> usize {
        self.begin + self.raw.len()
    }

    pub fn is_in(&self, list: List) -> bool {
        list.has(&self.folded)
    }

    /// Whether it begins with a capital, or has one where only names and codes do.
    pub fn is_capitalised(&self) -> bool {
        self.raw.chars().any(char::is_uppercase)
    }

    pub fn has_digit(&self) -> bool {
        self.raw.chars().any(|c| digit(c).is_some())
    }
}

/// The words of a text, in order.
pub(crate) fn words(text: &str) -> Vec<Word<'_>> {
    let mut found = Vec::new();
    let (mut clause, mut is_first, mut quotation) = (0, true, Quotation::of(text));
    let mut rest = 0;
    while rest < text.len() {
        let begin = text[rest..].find(is_inner).map_or(text.len(), |at| rest + at);
        for (at, c) in text[rest..begin].char_indices() {
            match c {
                '.' | '!' | '?' | '\n' | '。' | '！' | '？' | '؟' | '।' => {
                    (clause, is_first) = (clause + 1, true);
                }
                ';' | '(' | ')' | '—' | '–' | '，' | '、' | '；' | '،' => clause += 1,
                '“' | '”' | '„' | '«' | '»' | '「' | '」' | '"' => {
                    quotation.read(rest + at, c);
                    clause += 1;
                }
                _ => {}
            }
        }
        let end = begin + word_length(&text[begin..]);
        let run = &text[begin..end];
        let is_quoted = quotation.opened.is_some();
        // A full stop behind a quotation or parenthesis stands by itself: "„Dune“."
        if run == "." && !text[..begin].ends_with(char::is_whitespace) {
            (clause, is_first) = (clause + 1, true);
        }
        // "milk,eggs" are two words, "1,000" is one.
        let mut from = 0;
        while from < run.len() {
            let comma = |at: &usize| {
                let (before, after) = (&run[..*at], &run[*at + 1..]);
                let is_digit = |c: Option<char>| c.is_some_and(|c| digit(c).is_some());
                !(is_digit(before.chars().next_back()) && is_digit(after.chars().next()))
            };
            let cut = run[from..].match_indices(',').map(|(at, _)| from + at).find(comma);
            let piece = &run[from..cut.unwrap_or(run.len())];
            let word = trimmed(piece);
            if !word.is_empty() {
                let at = piece.find(word).unwrap_or(0);
                let folded = folded(word);
                let is_abbreviation = ABBREVIATIONS.contains(&folded.as_str());
                found.push(Word {
                    raw: word,
                    begin: begin + from + at,
                    folded,
                    is_first,
                    clause,
                    is_quoted,
                });
                is_first = false;
                let tail = &piece[at + word.len()..];
                if tail.contains(['.', ':']) && !is_abbreviation {
                    clause += 1;
                    is_first = tail.contains('.');
                }
            }
            if cut.is_some() {
                clause += 1;
            }
            from += piece.len() + usize::from(cut.is_some());
        }
        rest = end;
    }
    found
}

/// The runs of letters and digits of a text: words that end at every mark.
pub(crate) fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty())
}

/// The quotation that a place of a text is in.
struct Quotation<'a> {
    text: &'a str,
    /// The mark that opened it.
    opened: Option<char>,
    last_left_guillemet: Option<usize>,
}

impl<'a> Quotation<'a> {
    fn of(text: &'a str) -> Self {
        Self { text, opened: None, last_left_guillemet: text.rfind('«') }
    }

    /// Reads a quotation mark. What `“`, `«` and `»` do depends on what opened the quotation: “…” and «…», but „…“
    /// and »…«.
    fn read(&mut self, at: usize, mark: char) {
        self.opened = match (self.opened, mark) {
            (Some('„'), '“' | '”' | '"') | (Some('»'), '«' | '»') => None,
            // Marks of another kind are those of a quotation inside this one.
            (Some('„' | '»'), _) => self.opened,
            (_, '“' | '«' | '„' | '「') => Some(mark),
            (None, '»') if self.opens(at) => Some(mark),
            (None, '"') => Some(mark),
            _ => None,
        };
    }

    /// Whether a `»` outside of quotations opens one, and is no arrow as in "File » Save".
    fn opens(&self, at: usize) -> bool {
        let is_before_word =
            self.text[at + '»'.len_utf8()..].starts_with(|c: char| !c.is_whitespace());
        is_before_word && self.last_left_guillemet > Some(at)
    }
}

/// Words whose full stop ends no sentence.
const ABBREVIATIONS: [&str; 12] =
    ["dr", "mr", "mrs", "ms", "prof", "st", "jr", "sr", "no", "vs", "approx", "dept"];

/// The length of the word that a text begins with. Where words are not parted by spaces, it ends before
/// letters and digits of another script.
fn word_length(text: &str) -> usize {
    let mut before = None;
    for (at, c) in text.char_indices() {
        if !is_inner(c) {
            return at;
        }
        let is_unspaced = match c {
            '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' => {
                Some(true)
            }
            c if c.is_ascii_alphanumeric() => Some(false),
            _ => None,
        };
        if matches!((before, is_unspaced), (Some(before), Some(now)) if before != now) {
            return at;
        }
        before = is_unspaced.or(before);
    }
    text.len()
}

/// Marks that join letters and digits to one word: `10:30`, `$500`, `a.b@c.org`.
fn is_inner(c: char) -> bool {
    c.is_alphanumeric() || is_mark(c) || "'’.,-−%#@_/\\:+&°".contains(c) || is_currency(c)
}

/// Vowel signs of Indian scripts, Arabic and Hebrew points: parts of words.
fn is_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{591}'..='\u{5bd}' | '\u{64b}'..='\u{65f}' | '\u{900}'..='\u{903}' | '\u{93a}'..='\u{94f}')
}

pub(crate) fn is_currency(c: char) -> bool {
    matches!(c, '$' | '£' | '¥' | '\u{20a0}'..='\u{20cf}')
}

fn trimmed(word: &str) -> &str {
    let is_kept =
        |c: char| c.is_alphanumeric() || is_mark(c) || is_currency(c) || "%#+".contains(c);
    let word = word.trim_end_matches(|c| !is_kept(c));
    word.trim_start_matches(|c: char| {
        !(c.is_alphanumeric() || is_currency(c) || "-−#+".contains(c))
    })
    .trim_start_matches('+')
}

/// The value of a digit of any common script.
pub(crate) fn digit(c: char) -> Option<u32> {
    const ZEROS: [u32; 7] = [0x30, 0x660, 0x6f0, 0x966, 0x9e6, 0xe50, 0xff10];
    ZEROS.iter().find_map(|zero| (c as u32).checked_sub(*zero).filter(|value| *value < 10))
}

/// A word as it is compared.
pub(crate) fn folded(word: &str) -> String {
    let mut text = String::with_capacity(word.len());
    for c in word.chars().flat_map(char::to_lowercase) {
        match c {
            '’' | '`' | 'ʼ' => text.push('\''),
            '−' => text.push('-'),
            '\u{300}'..='\u{36f}' => {}
            'ß' => text.push_str("ss"),
            'æ' => text.push_str("ae"),
            'œ' => text.push_str("oe"),
            _ => match digit(c).and_then(|value| char::from_digit(value, 10)) {
                Some(digit) => text.push(digit),
                None => text.push(unaccented(c)),
            },
        }
    }
    match text.strip_suffix("'s") {
        Some(bare) if !bare.is_empty() => bare.to_owned(),
        _ => text.trim_end_matches('\'').to_owned(),
    }
}

/// A letter without its diacritic.
fn unaccented(c: char) -> char {
    const LETTERS: [(&str, char); 18] = [
        ("àáâãäåāăą", 'a'),
        ("çćĉċč", 'c'),
        ("ďđ", 'd'),
        ("èéêëēĕėęě", 'e'),
        ("ĝğġģ", 'g'),
        ("ìíîïĩīĭįı", 'i'),
        ("ķ", 'k'),
        ("ĺļľŀł", 'l'),
        ("ñńņňŉ", 'n'),
        ("òóôõöøōŏő", 'o'),
        ("ŕŗř", 'r'),
        ("śŝşšș", 's'),
        ("ţťŧț", 't'),
        ("ùúûüũūŭůűų", 'u'),
        ("ŵ", 'w'),
        ("ýÿŷ", 'y'),
        ("źżž", 'z'),
        ("ё", 'е'),
    ];
    if c.is_ascii() {
        return c;
    }
    LETTERS.iter().find(|(letters, _)| letters.contains(c)).map_or(c, |(_, plain)| *plain)
}

/// A word without the endings of inflection, as far as rules go: "allergies" and "allergy", "lives" and
/// "living".
pub(crate) fn stem(word: &str) -> &str {
    const ENDINGS: [&str; 9] = ["ies", "ing", "ied", "es", "ed", "s", "y", "e", "n"];
    let is_long = |stem: &&str| stem.chars().count() >= 3;
    ENDINGS.iter().find_map(|ending| word.strip_suffix(ending)).filter(is_long).unwrap_or(word)
}

pub(crate) fn is_latin(c: char) -> bool {
    c.is_alphabetic() && (c as u32) < 0x250
}

/// Whether a text has more words of English than of the languages with the same letters.
pub(crate) fn is_english(found: &[Word<'_>]) -> bool {
    let count = |list: List| found.iter().filter(|word| word.is_in(list)).count();
    count(List::English) > count(List::Foreign)
}

#[cfg(test)]
mod tests {
    use super::words;

    fn quoted(text: &str) -> Vec<&str> {
        words(text).iter().filter(|word| word.is_quoted).map(|word| word.raw).collect()
    }

    #[test]
    fn quotations_end_where_the_mark_that_opened_them_says() {
        for (text, expected) in [
            ("Er hat „Dune“ gelesen und fährt morgen", "Dune"),
            ("Er hat »Dune« gelesen und fährt morgen", "Dune"),
            ("Er liest „Dune“ und »Solaris« und „Eden“ gern", "Dune Solaris Eden"),
            ("Er mag „Dune\" sehr", "Dune"),
            ("Lubi „Solaris” bardzo", "Solaris"),
            ("He read “Dune” and flies", "Dune"),
            ("He read \"Dune\" and flies", "Dune"),
            ("Il a lu « Dune » et part", "Dune"),
            ("Il a lu «Dune» et «Solaris» hier", "Dune Solaris"),
            ("「砂の惑星」 を", "砂の惑星"),
            // One inside the other.
            ("Sie sagt: „Lies »Dune« bald“ und geht", "Lies Dune bald"),
            ("Sie sagt: »Lies „Dune“ bald« und geht", "Lies Dune bald"),
            ("Elle dit « lis “Dune” » et part", "lis Dune"),
            // No quotations.
            ("File » Save and »new", ""),
            ("File » Save « Dune » and go", "Dune"),
            // One that does not end.
            ("Er sagt „bis morgen", "bis morgen"),
        ] {
            assert_eq!(quoted(text).join(" "), expected, "{text}");
        }
    }

    #[test]
    fn a_full_stop_behind_a_quotation_ends_the_sentence() {
        for text in ["Ich lese „Dune“. Morgen", "I read “Dune”. Morgen", "Ich lese (viel). Morgen"]
        {
            let words = words(text);
            let [.., before, last] = words.as_slice() else { panic!("{text}") };
            assert!(last.is_first && last.clause > before.clause && !last.is_quoted, "{text}");
        }
        assert!(words("Na ja . Morgen").iter().skip(1).all(|word| !word.is_first));
    }
}
