//! Does a query ask for fresh memory ("the latest", "today", "this week")?
//!
//! The words are those of a [`Language`](crate::text::language::Language). ISO dates are
//! recognised here: programs write them, mostly for the present day. Dates as
//! people write them ("in May 2023", "March 3", "5/3/2024") ask about the past
//! more often than not. There, favouring recent rows would push away what was
//! asked for, so they are not freshness words.

use std::ops::RangeInclusive;

/// Whether the query has an ISO date (`YYYY-MM-DD`). A time may follow: the T of an RFC 3339 stamp ends the run.
pub(crate) fn has_iso_date(query: &str) -> bool {
    query
        .split(|character: char| {
            !(character.is_ascii_digit() || matches!(character, '-' | '.' | '/'))
        })
        .map(|run| run.trim_matches(['-', '.', '/']))
        .any(|run| match run.split('-').collect::<Vec<_>>()[..] {
            [year, month, day] => {
                is_number(year, 4, 1900..=2199)
                    && is_number(month, 2, 1..=12)
                    && is_number(day, 2, 1..=31)
            }
            _ => false,
        })
}

fn is_number(text: &str, digits: usize, range: RangeInclusive<u16>) -> bool {
    let is_digits = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    is_digits && text.parse().is_ok_and(|number| range.contains(&number))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    fn asks_for_fresh(query: &str) -> bool {
        crate::text::language::Language::english().asks_for_fresh(query)
    }

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
        "What did we plan for (2024-03-05)?",
        "in May 2023 and again this week",
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
        "the invoice of 5.3.2024",
        "what did I pay on 3/5/2024",
        "meeting on March 3",
        "meeting on march 3rd, 2023",
        "What did we do in May 2023?",
        "May 5 was a Sunday",
        "the 3rd of March",
        "our talk of 12 June",
        "What happened on 2024/03/05?",
        "the night of 5-3-2024",
        "Where did she live in March 2022?",
        "summer of 2023",
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
    fn impossible_dates_are_none() {
        for query in [
            "2024-13-05",
            "2024-03-32",
            "99-99-2024",
            "2024-3-5",
            "2024-03-05-07",
            "12024-03-05",
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
