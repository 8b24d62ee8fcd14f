//! Does a query ask for fresh memory ("the latest", "today", a date)?
//!
//! The words are in `freshness_en.txt`; the format of that file is described in
//! `phrases.rs`. Dates are recognised here.

use std::sync::LazyLock;

use crate::phrases::{PhraseList, Token, tokens};

const MONTHS: [&str; 23] = [
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
    "jan",
    "feb",
    "mar",
    "apr",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
];

// A unit test proves that the built-in list can be read.
static WORDS: LazyLock<PhraseList> =
    LazyLock::new(|| PhraseList::parse(include_str!("freshness_en.txt")).unwrap_or_default());

/// Whether the query holds a freshness word or a date, as whole words and in any
/// letter case.
pub fn asks_for_fresh(query: &str) -> bool {
    WORDS.find(query).next().is_some() || has_numeric_date(query) || has_month_date(query)
}

/// `2024-03-05`, `2024/03/05`, `5.3.2024`, `3/5/24`: three numbers joined by the
/// same mark, one of them a year, the others possible as day and month.
fn has_numeric_date(query: &str) -> bool {
    let is_date_byte = |byte: char| byte.is_ascii_digit() || matches!(byte, '-' | '/' | '.');
    query
        .split(|character: char| !is_date_byte(character))
        // A time may follow: the T of an RFC 3339 stamp has split it off.
        .map(|run| run.trim_matches(['-', '/', '.']))
        .any(|run| {
            ['-', '/', '.'].iter().any(|mark| {
                let parts: Vec<&str> = run.split(*mark).collect();
                match parts[..] {
                    [year, month, day] if year.len() == 4 => {
                        is_number(year, 1900, 2199)
                            && is_number(month, 1, 12)
                            && is_number(day, 1, 31)
                    }
                    [first, second, year] => {
                        let is_year = is_number(year, 1900, 2199)
                            || (*mark == '/' && year.len() == 2 && is_number(year, 0, 99));
                        is_year
                            && is_number(first, 1, 31)
                            && is_number(second, 1, 31)
                            && (is_number(first, 1, 12) || is_number(second, 1, 12))
                    }
                    _ => false,
                }
            })
        })
}

/// `March 3`, `3rd of March`, `March 2024`.
fn has_month_date(query: &str) -> bool {
    let tokens = tokens(query);
    (0..tokens.len()).any(|position| {
        let Some(month) = Month::of(&tokens[position]) else {
            return false;
        };
        let mut before = tokens[..position].iter().rev();
        let before = before.find(|token| token.folded != "of");
        let after = tokens.get(position + 1);
        before.is_some_and(|token| month.has_day(token))
            || after.is_some_and(|token| month.has_day(token) || is_year(token))
    })
}

/// The name of a month in a text.
enum Month {
    Certain,
    /// "may" and "march" in small letters are verbs more often than months.
    PerhapsVerb,
}

impl Month {
    fn of(token: &Token) -> Option<Self> {
        let word = token.folded.as_ref();
        let is_verb = matches!(word, "may" | "march") && token.raw.starts_with(word);
        MONTHS.contains(&word).then_some(if is_verb {
            Self::PerhapsVerb
        } else {
            Self::Certain
        })
    }

    /// Whether the token next to the name is its day; next to a possible verb
    /// ("you may 5 times") only an ordinal is.
    fn has_day(&self, token: &Token) -> bool {
        let word = token.folded.as_ref();
        let ordinal = ["st", "nd", "rd", "th"]
            .iter()
            .find_map(|ending| word.strip_suffix(ending));
        match (ordinal, self) {
            (Some(day), _) => is_number(day, 1, 31),
            (None, Self::Certain) => is_number(word, 1, 31),
            (None, Self::PerhapsVerb) => false,
        }
    }
}

fn is_year(token: &Token) -> bool {
    is_number(&token.folded, 1900, 2199)
}

fn is_number(text: &str, lowest: u16, highest: u16) -> bool {
    let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_digits
        && text
            .parse::<u16>()
            .is_ok_and(|number| (lowest..=highest).contains(&number))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FRESH: &[&str] = &[
        "What did she say today?",
        "what's the LATEST on the move",
        "Where does he work now?",
        "Where am I now",
        "current address of my sister",
        "Which project am I currently on?",
        "any recent trips?",
        "What have we recently changed?",
        "Who called yesterday?",
        "yesterday's meeting",
        "my plans for this week",
        "What happened last night?",
        "What did we discuss on Monday?",
        "two hours ago I sent you a file",
        "What happened on 2024-03-05?",
        "logs since 2024-03-05T10:00:00Z",
        "the invoice of 5.3.2024",
        "what did I pay on 3/5/2024",
        "meeting on March 3",
        "meeting on march 3rd, 2023",
        "What did we do in May 2023?",
        "May 5 was a Sunday",
        "the 3rd of March",
        "our talk of 12 June",
        "What's the state as of this morning?",
        "is the list up to date?",
        "So where is he now?",
    ];

    const NOT_FRESH: &[&str] = &[
        "",
        "Do you know her name?",
        "He went nowhere",
        "update my knowledge of the renowned author",
        "snow in the mountains",
        "What does she like to eat?",
        "Which currency does Japan use?",
        "What are concurrent programs?",
        "Who is the recency bias named after?",
        "every now and then I call him",
        "How strong is the electric current in a coil?",
        "number of my current account",
        "Finish it by noon at the latest",
        "Now, show me the list of hotels",
        "you may 5 times try",
        "they march 3 miles a day",
        "version 1.2.3 of the library",
        "the address 192.168.10.12",
        "a ratio of 3/4",
        "call 555-010-1234",
        "the 2024 budget",
        "room 12",
        "the todayness of things",
        "What did he study in college?",
    ];

    #[test]
    fn freshness_words_and_dates_are_found() {
        for query in FRESH {
            assert!(asks_for_fresh(query), "missed: {query:?}");
        }
    }

    #[test]
    fn words_that_only_look_like_it_are_not() {
        for query in NOT_FRESH {
            assert!(!asks_for_fresh(query), "wrongly found: {query:?}");
        }
    }

    #[test]
    fn the_built_in_word_list_can_be_read() {
        let list = PhraseList::parse(include_str!("freshness_en.txt")).unwrap();
        assert_eq!(list.sections(), ["fresh"]);
    }

    #[test]
    fn impossible_dates_are_none() {
        for query in [
            "2024-13-05",
            "2024-03-32",
            "99-99-2024",
            "20240305",
            "3/5/24/7",
            "0000-01-01",
        ] {
            assert!(!asks_for_fresh(query), "{query}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_accepted_and_case_does_not_matter(text in "[a-zA-Z0-9 .,:?/'-]{0,80}") {
            // Only the months that are verbs look at the letter case.
            prop_assume!(!text.to_lowercase().contains("ma"));
            prop_assert_eq!(asks_for_fresh(&text), asks_for_fresh(&text.to_uppercase()));
        }

        #[test]
        fn a_freshness_word_is_found_anywhere(before in "[b-z ]{0,20}", after in "[b-z ]{0,20}") {
            let text = format!("{before} today {after}");
            prop_assert!(asks_for_fresh(&text));
            let text = format!("{before}xtodayx{after}");
            let without = format!("{before}xx{after}");
            prop_assume!(!asks_for_fresh(&without));
            prop_assert!(!asks_for_fresh(&text));
        }

        #[test]
        fn every_iso_date_is_found(year in 1900..2200u32, month in 1..=12u32, day in 1..=31u32) {
            let query = format!("what about {year}-{month:02}-{day:02}?");
            prop_assert!(asks_for_fresh(&query));
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,100}") {
            let _ = asks_for_fresh(&text);
        }
    }
}
