use proptest::prelude::*;

use super::*;

fn asked_at() -> DateTime<Utc> {
    "2023-06-15T12:00:00Z".parse().unwrap()
}

fn english() -> Times {
    Times::parse(include_str!("times_en.txt")).unwrap()
}

/// First and last day of each span.
fn days(question: &str) -> Vec<(String, String)> {
    english()
        .spans(question, asked_at())
        .iter()
        .map(|span| {
            let last = span.to - TimeDelta::seconds(1);
            (span.from.date_naive().to_string(), last.date_naive().to_string())
        })
        .collect()
}

#[test]
fn dates_are_read_as_people_write_them() {
    for (question, first, last) in [
        ("What did she do on 7 May 2023?", "2023-05-07", "2023-05-07"),
        ("Who called on the 7th of May?", "2023-05-07", "2023-05-07"),
        ("What happened on May 7th, 2022?", "2022-05-07", "2022-05-07"),
        ("Where was he on July 3?", "2022-07-03", "2022-07-03"),
        ("What did we plan in May?", "2023-05-01", "2023-05-31"),
        ("Did they meet in June?", "2023-06-01", "2023-06-30"),
        ("Did they meet in July?", "2022-07-01", "2022-07-31"),
        ("What did Ann paint in December 2021?", "2021-12-01", "2021-12-31"),
        ("logs of 2023-02-28", "2023-02-28", "2023-02-28"),
        ("How many trips did he make in 2021?", "2021-01-01", "2021-12-31"),
        ("What did I eat yesterday?", "2023-06-14", "2023-06-14"),
        ("What did I eat this morning?", "2023-06-15", "2023-06-15"),
        ("Which books did she read this week?", "2023-06-08", "2023-06-15"),
        ("What did she do last week?", "2023-06-01", "2023-06-11"),
        ("Where was he two weeks ago?", "2023-05-27", "2023-06-06"),
        ("Where was he a month ago?", "2023-04-27", "2023-06-04"),
        ("What did she do last month?", "2023-04-14", "2023-05-31"),
        ("logs of 2023-02-28T10:00:00Z", "2023-02-28", "2023-02-28"),
        ("logs of 2023-02-28t23:31:05+02:00", "2023-02-28", "2023-02-28"),
        ("Who came on 29 February?", "2020-02-29", "2020-02-29"),
        ("Who came last May?", "2023-05-01", "2023-05-31"),
        ("Who came last June?", "2022-06-01", "2022-06-30"),
        ("Who came last July?", "2022-07-01", "2022-07-31"),
    ] {
        assert_eq!(days(question), [(first.to_owned(), last.to_owned())], "{question}");
    }
}

#[test]
fn last_month_has_every_day_of_it() {
    for (asked, first, last) in [
        ("2023-06-01T00:00:00Z", "2023-05-01", "2023-05-31"),
        ("2023-08-31T23:59:59Z", "2023-07-01", "2023-07-31"),
        ("2024-01-01T12:00:00Z", "2023-12-01", "2023-12-31"),
    ] {
        let spans = english().spans("What did we do last month?", asked.parse().unwrap());
        let of = |day: &str| day.parse().ok().and_then(Span::day).unwrap();
        assert!(spans[0].from <= of(first).from && spans[0].to >= of(last).to, "{spans:?}");
        assert!(spans[0].to <= asked.parse::<DateTime<Utc>>().unwrap(), "{spans:?}");
    }
}

#[test]
fn a_leap_day_is_the_latest_one_that_has_begun() {
    for (asked, day) in [
        ("2025-03-01T00:00:00Z", "2024-02-29"),
        ("2024-02-29T00:00:00Z", "2024-02-29"),
        ("2024-02-28T00:00:00Z", "2020-02-29"),
        ("2103-01-01T00:00:00Z", "2096-02-29"),
    ] {
        let spans = english().spans("on 29 February", asked.parse().unwrap());
        assert_eq!(spans, [day.parse().ok().and_then(Span::day).unwrap()], "{asked}");
    }
}

#[test]
fn the_words_of_a_list_match_in_any_letter_case() {
    let list = "[month]\nJanuar\nFebruar\nMärz\nApril\nMai\nJuni\nJuli\nAugust\nSeptember\n\
        Oktober\nNovember\nDezember\n[ambiguous]\nMärz\n[lead]\nIm\n[of]\nDes\n[ordinal]\nTER\n\
        [number]\nZwei 2\n[yesterday]\nGestern\n[days ago]\nVor N Tagen";
    let times = Times::parse(list).unwrap();
    for question in ["im märz", "IM MÄRZ", "4ter des mai", "gestern", "Gestern", "vor zwei Tagen"]
    {
        assert_eq!(times.spans(question, asked_at()).len(), 1, "{question}");
    }
    assert_eq!(times.spans("märz", asked_at()), []);
}

#[test]
fn other_words_are_no_times() {
    for question in [
        "",
        "May I ask where she lives?",
        "Who will march for peace?",
        "What is 30 plus 5?",
        "Who came on 31 February?",
        "flight 12345 of 7",
        "long ago",
        "1000 days ago",
    ] {
        assert_eq!(days(question), [], "{question}");
    }
}

#[test]
fn several_times_are_several_spans() {
    assert_eq!(days("between 1 May and 3 May 2023").len(), 2);
    assert_eq!(days("from May 2022 until June 2022").len(), 2);
}

#[test]
fn lists_that_cannot_be_used_say_why() {
    let error = |list: &str| Times::parse(list).unwrap_err().to_string();
    for (list, expected) in [
        ("[month]\njanuary\nfebruary", "word list line 3: a year has twelve months"),
        ("[number]\none", "word list line 2: a number has to end the line"),
        ("[days ago]\nlong ago", "word list line 2: a phrase of this section needs N"),
        ("[years ago]\nlong ago", "word list line 2: a phrase of this section needs N"),
        ("[then]\nlong ago", "word list line 2: an unknown section of times"),
        ("[tomorow]\nmorgen", "word list line 2: an unknown section of times"),
        ("[tomorrow]\n\nmorgen?", "word list line 3: all words are optional"),
        ("[today]\n!:", "word list line 2: all words are optional"),
    ] {
        assert_eq!(error(list), expected);
    }
}

/// A question asks for what has been, in whatever words: what comes is no time of it, and `!` concerns statements.
#[test]
fn questions_have_times_of_their_own() {
    let list = "[number]\nzwei 2\n[today]\nheute\n!heute nacht\n[tomorrow]\nmorgen\n[next week]\n\
        nächste woche\n[years ago]\nvor N jahren\n[last week]\nletzte woche\n!letzte woche der";
    let times = Times::parse(list).unwrap();
    for question in ["morgen", "nächste Woche", "vor zwei Jahren"] {
        assert_eq!(times.spans(question, asked_at()), [], "{question}");
    }
    for question in ["heute Nacht", "letzte Woche der Ferien"] {
        assert_eq!(times.spans(question, asked_at()).len(), 1, "{question}");
    }
    let words = |text: &'static str| crate::text::words::parts(text).collect::<Vec<_>>();
    let of = |text: &'static str| times.distances(&words(text));
    assert_eq!(of("kommt heute nacht"), []);
    assert_eq!(of("die letzte Woche der Ferien"), []);
    assert_eq!(
        of("Morgen oder vor zwei Jahren, letzte Woche"),
        [(0..1, Distance::Day(1)), (2..5, Distance::AboutYear(-2)), (5..7, Distance::Week(-1))]
    );
}

/// The sections are those of docs/languages.md.
#[test]
fn every_section_is_documented() {
    let documented = include_str!("../../../../docs/languages.md");
    for (name, _) in SECTIONS {
        assert!(documented.contains(&format!("`[{name}]`")), "{name}");
        let phrase = if counts(name) { "N x" } else { "x" };
        let times = Times::parse(&format!("[{name}]\n{phrase}")).unwrap();
        let words = if phrase == "x" { vec!["x"] } else { vec!["3", "x"] };
        assert_eq!(times.distances(&words).len(), 1, "{name}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_and_spans_are_in_order(
        text in "([a-z0-9 ]|may|june|ago|week|last|of|2023|-){0,60}", seconds in -1e11..1e11f64,
    ) {
        let asked_at = DateTime::from_timestamp(seconds as i64, 0).unwrap_or_default();
        for span in english().spans(&text, asked_at) {
            prop_assert!(span.from < span.to, "{span:?}");
        }
    }
}
