//! Preparing text for PostgreSQL's full-text search, which has limits that long
//! turns run into, and building the query that finds it again.

use std::borrow::Cow;
use std::collections::HashMap;

/// Cuts text into pieces of at most `piece_bytes`, from which `tsvector`s are
/// built one by one (a `tsvector` holds about 1 MB).
///
/// A cut falls behind white space where there is any in the piece, else between
/// two characters; the pieces joined are the text. A single character longer
/// than `piece_bytes` is a piece of its own.
pub fn lexical_pieces(text: &str, piece_bytes: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let limit = rest.floor_char_boundary(piece_bytes.max(first.len_utf8()));
        let end = if limit == rest.len() {
            limit
        } else {
            let last_space =
                rest[..limit].char_indices().rfind(|(_, character)| character.is_whitespace());
            last_space.map_or(limit, |(position, space)| position + space.len_utf8())
        };
        let (piece, tail) = rest.split_at(end);
        rest = tail;
        Some(piece)
    })
}

/// Text without the tokens for which PostgreSQL's default parser would raise a
/// NOTICE ("word is too long to be indexed", above 2047 bytes); each is left out
/// or broken into its words.
///
/// The parser takes more than words for one token: runs of letters and ASCII
/// punctuation (paths, URLs, version numbers), runs of white space and marks, and
/// everything between `<` and `>`. So overlong runs of marks become one space,
/// and a bracket that is not closed soon loses its meaning. Text without any such
/// run comes back as it is.
pub fn without_overlong_words(text: &str, max_word_bytes: usize) -> Cow<'_, str> {
    match without_overlong_tags(text, max_word_bytes) {
        Cow::Borrowed(text) => without_overlong_runs(text, max_word_bytes),
        Cow::Owned(text) => Cow::Owned(without_overlong_runs(&text, max_word_bytes).into_owned()),
    }
}

/// Replaces the `<` of tags and comments of more than `max_bytes` by a space.
fn without_overlong_tags(text: &str, max_bytes: usize) -> Cow<'_, str> {
    if text.len() <= max_bytes || !text.contains('<') {
        return Cow::Borrowed(text);
    }
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, inside)) = rest.split_once('<') {
        let near = &inside[..inside.floor_char_boundary(max_bytes)];
        let end = if near.starts_with("!--") { "-->" } else { ">" };
        kept.push_str(before);
        kept.push(if near.contains(end) { '<' } else { ' ' });
        rest = inside;
    }
    kept.push_str(rest);
    Cow::Owned(kept)
}

fn without_overlong_runs(text: &str, max_bytes: usize) -> Cow<'_, str> {
    let is_overlong = |run: &&str| run.len() > max_bytes;
    // Marks that are not known to separate words, an emoji say, can be in both.
    let is_gap = |run: &str| !run.starts_with(char::is_alphanumeric);
    let runs = || runs_of(text, is_token_char);
    let gaps = || runs_of(text, char::is_alphanumeric).filter(|run| is_gap(run));
    if !runs().any(|run| is_overlong(&run)) && !gaps().any(|gap| is_overlong(&gap)) {
        return Cow::Borrowed(text);
    }
    let mut without_long_runs = String::with_capacity(text.len());
    for run in runs() {
        if !is_overlong(&run) || !run.starts_with(is_token_char) {
            without_long_runs.push_str(run);
            continue;
        }
        for part in runs_of(run, is_letter) {
            let keep = part.starts_with(is_letter) && !is_overlong(&part);
            without_long_runs.push_str(if keep { part } else { " " });
        }
    }
    let mut kept = String::with_capacity(without_long_runs.len());
    for run in runs_of(&without_long_runs, char::is_alphanumeric) {
        let is_long_gap = is_overlong(&run) && is_gap(run);
        kept.push_str(if is_long_gap { " " } else { run });
    }
    Cow::Owned(kept)
}

/// Splits text into runs of characters that are, and are not, of a class.
fn runs_of(text: &str, is_inside: fn(char) -> bool) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = is_inside(rest.chars().next()?);
        let end = rest.find(|character| is_inside(character) != first).unwrap_or(rest.len());
        let (run, tail) = rest.split_at(end);
        rest = tail;
        Some(run)
    })
}

/// Characters that can be inside one token that is not a tag.
fn is_token_char(character: char) -> bool {
    let ends_any_token = matches!(character, '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}');
    is_letter(character) || (character.is_ascii_graphic() && !ends_any_token)
}

/// Letters, digits and, beyond ASCII, whatever is not known to separate words:
/// the vowel signs of many scripts are no letters but stand inside a word.
fn is_letter(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_alphanumeric() || character == '_';
    }
    let separates = character.is_whitespace()
        || matches!(character,
            '\u{80}'..='\u{bf}' | '\u{2000}'..='\u{200b}' | '\u{2010}'..='\u{206f}'
            | '\u{3000}'..='\u{3004}' | '\u{3008}'..='\u{3020}' | '\u{ff00}'..='\u{ff0f}'
            | '\u{ff1a}'..='\u{ff20}');
    character.is_alphanumeric() || !separates
}

/// A lexeme of a text, and where it occurs first, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedLexeme {
    pub position: u16,
    pub lexeme: String,
}

/// PostgreSQL counts the words of a text up to this; all later words share the position.
const LAST_POSITION: u16 = 16_383;

/// A word of a query: the lexeme that the query's own text search configuration makes of it, and those of
/// the other configurations that rows were indexed by. A row has the word if it has any of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    pub lexeme: String,
    pub variants: Vec<String>,
}

impl Term {
    /// The lexemes of which a row has one, the own one first.
    pub fn lexemes(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.lexeme).chain(&self.variants).map(String::as_str)
    }
}

/// The words of a query and its other wordings, each once, in the order in which they occur.
#[derive(Debug)]
pub struct Terms {
    all: Vec<Term>,
    by_lexeme: HashMap<String, usize>,
    /// Words beyond this many, or with which the lexemes would have more bytes, are left out.
    most: usize,
    bytes_left: usize,
}

impl Terms {
    /// No words yet; at most `most` of them, and `bytes` of lexemes, are taken.
    pub fn within(most: usize, bytes: usize) -> Self {
        Self { all: Vec::new(), by_lexeme: HashMap::new(), most, bytes_left: bytes }
    }

    /// Adds the words of a text. `own` are its lexemes by the query's configuration, which decides what is a
    /// word and what a stop word; `others` are those by other configurations. Lexemes at the same position are
    /// of the same word, because PostgreSQL's configurations share one parser.
    pub fn add(&mut self, own: Vec<PlacedLexeme>, others: &[Vec<PlacedLexeme>]) {
        let mut variants: HashMap<u16, Vec<&str>> = HashMap::new();
        for other in others.iter().flatten().filter(|other| other.position < LAST_POSITION) {
            variants.entry(other.position).or_default().push(&other.lexeme);
        }
        for PlacedLexeme { position, lexeme } in own {
            let at = match self.by_lexeme.get(&lexeme).copied() {
                Some(at) => at,
                None if self.all.len() == self.most || !self.takes(&lexeme) => return,
                None => {
                    self.by_lexeme.insert(lexeme.clone(), self.all.len());
                    self.all.push(Term { lexeme, variants: Vec::new() });
                    self.all.len() - 1
                }
            };
            for variant in variants.get(&position).into_iter().flatten() {
                if !self.all[at].lexemes().any(|known| known == *variant) && self.takes(variant) {
                    self.all[at].variants.push((*variant).to_owned());
                }
            }
        }
    }

    /// Rows have a word too that have one of these `variants` of it. `word` are its lexemes, of which the first that is
    /// known stands for all.
    pub fn vary(&mut self, word: &[PlacedLexeme], variants: &[PlacedLexeme]) {
        let known = word.iter().find_map(|of| self.by_lexeme.get(&of.lexeme).copied());
        let Some(at) = known else { return };
        for PlacedLexeme { lexeme, .. } in variants {
            let is_new = !word.iter().any(|of| of.lexeme == *lexeme)
                && !self.all[at].lexemes().any(|known| known == lexeme);
            if is_new && self.takes(lexeme) {
                self.all[at].variants.push(lexeme.clone());
            }
        }
    }

    pub fn into_vec(self) -> Vec<Term> {
        self.all
    }

    /// Whether there is room for a lexeme, which has it then.
    fn takes(&mut self, lexeme: &str) -> bool {
        let left = self.bytes_left.checked_sub(lexeme.len());
        self.bytes_left = left.unwrap_or(self.bytes_left);
        left.is_some()
    }
}

/// A `tsquery`, as text, that matches rows with any of the lexemes.
///
/// Each is quoted, so operators and spaces inside are plain text. Empty lexemes
/// are left out; the result is empty if nothing remains.
pub fn tsquery_any<'a>(lexemes: impl IntoIterator<Item = &'a str>) -> String {
    lexemes
        .into_iter()
        .filter(|lexeme| !lexeme.is_empty())
        .map(|lexeme| format!("'{}'", lexeme.replace('\\', r"\\").replace('\'', "''")))
        .collect::<Vec<_>>()
        .join(" | ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pieces_are_cut_behind_white_space() {
        let pieces: Vec<&str> = lexical_pieces("one two three", 9).collect();
        assert_eq!(pieces, ["one two ", "three"]);
        let pieces: Vec<&str> = lexical_pieces("äöü", 3).collect();
        assert_eq!(pieces, ["ä", "ö", "ü"]);
        assert_eq!(lexical_pieces("äö", 0).collect::<Vec<_>>(), ["ä", "ö"]);
        assert_eq!(lexical_pieces("", 9).count(), 0);
    }

    #[test]
    fn overlong_words_are_left_out_and_their_neighbours_kept() {
        let long = "x".repeat(10);
        assert_eq!(without_overlong_words("short text", 9), "short text");
        assert_eq!(
            without_overlong_words(&format!("a {long} b"), 9)
                .split_whitespace()
                .collect::<Vec<_>>(),
            ["a", "b"]
        );
        // Exactly as long as allowed.
        assert_eq!(
            without_overlong_words(&format!("a {long} b"), 10).split_whitespace().count(),
            3
        );
        // A comma-separated line is no single word.
        let line = without_overlong_words("alpha,beta,gamma", 9);
        assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["alpha", "beta", "gamma"]);
    }

    /// Texts of this kind made PostgreSQL 15 raise the NOTICE.
    #[test]
    fn nothing_is_left_that_the_parser_finds_too_long() {
        let overlong = [
            format!("a{}b", " ".repeat(3000)),
            "= ".repeat(3000),
            "。".repeat(3000),
            "abc/".repeat(800),
            "abc-".repeat(800),
            "1.2.".repeat(800),
            "क्ष".repeat(400),
            "e\u{301}".repeat(900),
            "我喜欢".repeat(400),
            format!("<a href=\"{}\">b</a>", "x ".repeat(2000)),
            format!("<!-- > {} --> y", "x ".repeat(2000)),
        ];
        for text in overlong {
            let kept = without_overlong_words(&text, 2046);
            assert!(runs_of(&kept, is_token_char).all(|run| run.len() <= 2046), "{text:.20}");
            assert!(runs_of(&kept, is_letter).all(|run| run.len() <= 2046), "{text:.20}");
            assert!(!kept.contains("<!") && !kept.contains("<a"), "{text:.20}");
        }
    }

    #[test]
    fn short_tags_stay() {
        let text = format!("Vec<String> {}", "word ".repeat(800));
        assert_eq!(without_overlong_words(&text, 2046), text);
    }

    #[test]
    fn lexemes_are_quoted_for_tsquery() {
        let query = |lexemes: &[&str]| tsquery_any(lexemes.iter().copied());
        assert_eq!(query(&["cat", "dog"]), "'cat' | 'dog'");
        assert_eq!(query(&["o'neil", r"a\b", "x & !y:*"]), r"'o''neil' | 'a\\b' | 'x & !y:*'");
        assert_eq!(query(&["", "cat"]), "'cat'");
        assert_eq!(query(&[]), "");
    }

    fn placed(words: &[(u16, &str)]) -> Vec<PlacedLexeme> {
        words
            .iter()
            .map(|&(position, lexeme)| PlacedLexeme { position, lexeme: lexeme.to_owned() })
            .collect()
    }

    fn term(lexeme: &str, variants: &[&str]) -> Term {
        let variants = variants.iter().map(|variant| (*variant).to_owned()).collect();
        Term { lexeme: lexeme.to_owned(), variants }
    }

    #[test]
    fn without_other_configurations_the_words_are_the_lexemes() {
        let mut terms = Terms::within(9, 99);
        terms.add(placed(&[(1, "cat"), (3, "sleep")]), &[]);
        terms.add(placed(&[(1, "dog"), (2, "cat")]), &[]);
        assert_eq!(terms.into_vec(), [term("cat", &[]), term("sleep", &[]), term("dog", &[])]);
    }

    #[test]
    fn lexemes_of_one_word_are_one_term() {
        // "Die Häuser sind alt" by german, english and simple.
        let german = placed(&[(2, "haus"), (4, "alt")]);
        let english = placed(&[(1, "die"), (2, "häuser"), (3, "sind"), (4, "alt")]);
        let simple = placed(&[(1, "die"), (2, "häuser"), (3, "sind"), (4, "alt")]);
        let mut terms = Terms::within(9, 99);
        terms.add(german.clone(), &[english.clone(), simple.clone()]);
        assert_eq!(terms.into_vec(), [term("haus", &["häuser"]), term("alt", &[])]);
        let mut terms = Terms::within(9, 99);
        terms.add(english, &[german, simple]);
        let expected =
            [term("die", &[]), term("häuser", &["haus"]), term("sind", &[]), term("alt", &[])];
        assert_eq!(terms.into_vec(), expected);
    }

    #[test]
    fn a_word_has_the_forms_in_which_it_was_indexed() {
        let mut terms = Terms::within(9, 99);
        terms.add(placed(&[(1, "chlo\u{e9}"), (2, "salon")]), &[]);
        let now = placed(&[(1, "chlo\u{e9}")]);
        terms.vary(&now, &placed(&[(1, "chloe\u{301}")]));
        terms.vary(&now, &placed(&[(1, "chloe\u{301}"), (2, "chlo\u{e9}")]));
        // A stop word, or one that found no room, is no word.
        terms.vary(&placed(&[(1, "u\u{308}ber")]), &placed(&[(1, "salon")]));
        let expected = [term("chlo\u{e9}", &["chloe\u{301}"]), term("salon", &[])];
        assert_eq!(terms.into_vec(), expected);
        let mut terms = Terms::within(9, 4);
        terms.add(placed(&[(1, "cat")]), &[]);
        terms.vary(&placed(&[(1, "cat")]), &placed(&[(1, "ca\u{ad}t")]));
        assert_eq!(terms.into_vec(), [term("cat", &[])]);
    }

    #[test]
    fn words_of_which_postgresql_forgot_the_place_have_no_variants() {
        let mut terms = Terms::within(9, 99);
        terms.add(placed(&[(16_383, "a"), (16_383, "b")]), &[placed(&[(16_383, "c")])]);
        assert_eq!(terms.into_vec(), [term("a", &[]), term("b", &[])]);
    }

    #[test]
    fn words_end_where_there_is_no_room() {
        let mut terms = Terms::within(2, 99);
        terms.add(placed(&[(1, "one"), (2, "two"), (3, "three")]), &[]);
        assert_eq!(terms.into_vec().len(), 2);
        let mut terms = Terms::within(9, 8);
        terms.add(placed(&[(1, "one"), (2, "two"), (3, "three")]), &[placed(&[(1, "variant")])]);
        assert_eq!(terms.into_vec(), [term("one", &[]), term("two", &[])]);
    }

    proptest! {
        #[test]
        fn pieces_joined_are_the_text(text in "[a-z äß中🎉\n]{0,200}", piece_bytes in 0..40usize) {
            let pieces: Vec<&str> = lexical_pieces(&text, piece_bytes).collect();
            prop_assert_eq!(pieces.concat(), text.as_str());
            for piece in pieces {
                prop_assert!(!piece.is_empty());
                prop_assert!(piece.len() <= piece_bytes || piece.chars().count() == 1);
            }
        }

        #[test]
        fn no_run_of_letters_is_overlong(text in "[a-z中,./ \n]{0,200}", max_word_bytes in 1..20usize) {
            let kept = without_overlong_words(&text, max_word_bytes);
            for word in kept.split(|character: char| !character.is_alphanumeric()) {
                prop_assert!(word.len() <= max_word_bytes);
            }
            // Words that are short enough are all there, in order.
            let short = |text: &str| {
                text.split(|character: char| !character.is_alphanumeric())
                    .filter(|word| !word.is_empty() && word.len() <= max_word_bytes)
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            };
            prop_assert_eq!(short(&kept), short(&text));
            // And it has settled.
            prop_assert_eq!(&without_overlong_words(&kept, max_word_bytes), &kept);
        }

        #[test]
        fn every_lexeme_can_be_read_back(lexemes in prop::collection::vec("[a'\\\\|& :é]{1,8}", 1..5)) {
            let query = tsquery_any(lexemes.iter().map(String::as_str));
            // Undo the quoting as PostgreSQL's tsquery parser does it.
            let (mut read, mut rest) = (Vec::new(), query.as_str());
            while let Some(quoted) = rest.trim_start_matches(" | ").strip_prefix('\'') {
                let (mut lexeme, mut characters) = (String::new(), quoted.chars());
                loop {
                    match characters.next() {
                        Some('\\') => lexeme.extend(characters.next()),
                        Some('\'') if characters.as_str().starts_with('\'') => {
                            lexeme.extend(characters.next());
                        }
                        Some('\'') | None => break,
                        Some(character) => lexeme.push(character),
                    }
                }
                read.push(lexeme);
                rest = characters.as_str();
            }
            prop_assert_eq!(read, lexemes);
            prop_assert_eq!(rest, "");
        }
    }
}
