use std::fmt::Write as _;

use proptest::prelude::*;

use super::acts::{Act, acts};
use super::*;

/// A statement of `cases.txt`.
struct Case {
    said: String,
    context: Vec<String>,
    said_at: String,
    speaker: Option<String>,
    statement: String,
    is_right: bool,
}

fn cases(text: &str) -> Vec<Case> {
    let (mut said, mut context, mut said_at, mut speaker) =
        (String::new(), Vec::new(), String::new(), None);
    let mut found: Vec<Case> = Vec::new();
    for line in text.lines() {
        let (kind, text) = line.split_at_checked(1).unwrap_or_default();
        match (kind, text.trim()) {
            ("" | "#", _) => {}
            ("@", text) => said_at = text.to_owned(),
            (">", text) => (said, context) = (text.to_owned(), Vec::new()),
            ("~", text) => context.push(text.to_owned()),
            ("+" | "-", text) => found.push(Case {
                said: said.clone(),
                context: context.clone(),
                said_at: said_at.clone(),
                speaker: speaker.clone(),
                statement: text.to_owned(),
                is_right: kind == "+",
            }),
            ("n", name) => {
                let name = name.strip_prefix("ame").unwrap_or_default().trim();
                speaker = (!name.is_empty()).then(|| name.to_owned());
            }
            _ => panic!("{line}"),
        }
    }
    found
}

impl Case {
    fn check(&self) -> Result<(), Ungrounded> {
        let context: Vec<&str> = self.context.iter().map(String::as_str).collect();
        let sources = Sources {
            said: &[&self.said],
            context: &context,
            speaker: self.speaker.as_deref(),
            said_at: &self.said_at,
            language: None,
        };
        Grounds::of(&sources).check(&self.statement)
    }
}

/// At most 2 % of the right statements may be refused.
#[test]
fn right_statements_pass_and_wrong_ones_are_refused() {
    let cases = cases(include_str!("cases.txt"));
    let (right, wrong): (Vec<_>, Vec<_>) = cases.iter().partition(|case| case.is_right);
    let mut report = String::new();
    let (mut refused, mut passed) = (0, 0);
    for case in &cases {
        let result = case.check();
        if case.is_right == result.is_ok() {
            continue;
        }
        *(if case.is_right { &mut refused } else { &mut passed }) += 1;
        let _ = writeln!(report, "{} <- {}: {result:?}", case.statement, case.said);
    }
    assert_eq!((refused, passed), (0, 7), "the figures of docs/worker.md:\n{report}");
    let (right, wrong) = (right.len(), wrong.len());
    assert!(right >= 200 && wrong >= 200, "{right} right, {wrong} wrong");
}

#[test]
fn names_are_known_in_their_forms_and_numbers_in_words() {
    let mut report = String::new();
    for case in cases(include_str!("inflected_cases.txt")) {
        let result = case.check();
        if case.is_right != result.is_ok() {
            let _ = writeln!(report, "{} <- {}: {result:?}", case.statement, case.said);
        }
    }
    assert_eq!(report, "");
}

#[test]
fn the_reason_names_what_was_not_said() {
    for (said, statement, reason) in [
        ("My wife is Anne", "The user's wife is named Clara", "the name \"Clara\" was not said"),
        ("I have two cats", "The user has 3 cats", "the number \"3\" was not said"),
        (
            "My exam is tomorrow",
            "The user's exam is on 2024-06-04",
            "the date \"2024-06-04\" was not said and does not follow from the day of what was said",
        ),
        ("I eat meat", "The user does not eat meat", "it negates, and what was said does not"),
        ("I don't eat meat", "The user eats meat", "what was said negates it"),
        ("My wife is a pharmacist", "The user is a pharmacist", "it was said of another person"),
        (
            "I like proverbs",
            "The user likes \"less is more\"",
            "the words \"less\" between quotation marks were not said",
        ),
    ] {
        let sources = Sources { said: &[said], said_at: "2024-05-03", ..Sources::default() };
        let error = Grounds::of(&sources).check(statement).unwrap_err();
        assert_eq!(error.to_string(), reason, "{statement} <- {said}");
    }
}

#[test]
fn names_and_numbers_may_come_from_what_is_referred_to() {
    let said = "She is 31 and has a son there";
    let statement = "Priya lives in Pune and is 31";
    let check = |context: &[&str]| {
        Grounds::of(&Sources { said: &[said], context, ..Sources::default() }).check(statement)
    };
    assert_eq!(check(&[]), Err(Ungrounded::Name("Priya".to_owned())));
    assert_eq!(check(&["My friend Priya lives in Pune"]), Ok(()));
}

/// A fact that only a tool spoke of has no source of its own.
#[test]
fn names_are_compared_with_what_is_around_a_statement_without_a_source() {
    let sources = Sources {
        said: &[],
        context: &["Please read my mail.", "User lives in the city of Lisbon."],
        speaker: None,
        said_at: "2026-05-04T10:00:00Z",
        language: None,
    };
    let grounds = Grounds::of(&sources);
    assert!(grounds.check("User lives in the city of Minsk.").is_err());
    assert!(grounds.check("User lives in the city of Lisbon.").is_ok());
}

#[test]
fn relative_times_become_dates() {
    for (statement, dated_statement) in [
        ("The user has an exam tomorrow", "The user has an exam on 2024-05-04"),
        ("Yesterday the user ran 5 km", "On 2024-05-02 the user ran 5 km"),
        ("The user moved last month", "The user moved in April 2024"),
        ("The user flies this weekend", "The user flies on the weekend of 2024-05-04"),
        ("The user meets Anna next Friday", "The user meets Anna on 2024-05-10"),
        ("The user called last Monday", "The user called on 2024-04-29"),
        ("The user is ill since last week", "The user is ill since the week of 2024-04-22"),
        ("The user left three years ago", "The user left in 2021"),
        ("The user left two days ago", "The user left on 2024-05-01"),
        ("The user travels the day after tomorrow", "The user travels on 2024-05-05"),
        ("The trip is for next year", "The trip is for 2025"),
        // What is no time, or one that is named.
        ("The user reads USA Today", "The user reads USA Today"),
        ("The user was ill for the last week", "The user was ill for the last week"),
        ("The user says \"tomorrow never dies\"", "The user says \"tomorrow never dies\""),
        ("The exam is tomorrow, 2024-05-04", "The exam is tomorrow, 2024-05-04"),
        ("The user reads today's paper", "The user reads today's paper"),
        ("Der Nutzer kommt morgen", "Der Nutzer kommt morgen"),
        ("", ""),
    ] {
        assert_eq!(dated(statement, "2024-05-03", None), dated_statement);
    }
    assert_eq!(dated("The exam is tomorrow", "someday", None), "The exam is tomorrow");
}

/// What takes long if a rule is not linear: each part repeated up to the limits, by itself and in turns.
#[test]
fn hostile_texts_take_no_longer_than_honest_ones() {
    let parts = [
        "a",
        "A ",
        "A.",
        "1",
        "1,",
        "1 ",
        "two ",
        "hundred and ",
        "-",
        "a-",
        "'s ",
        "May 1 ",
        "in 2 weeks ",
        "no ",
        "don't ",
        "不",
        "三",
        "\"x\" ",
        "Spain ",
        "my wife ",
        "2024-05-03 ",
        "und",
        "ein",
        "\u{301}",
        "next week ",
        "und ",
        "1.2.3 ",
        "@a.b ",
        "half past ",
        "last Friday ",
        "letzte Woche ",
    ];
    let times = include_str!("../../../../../languages/german/times.txt");
    let german = Language::parse("", "", times).unwrap();
    for part in parts {
        let source = part.repeat(GROUNDING_BYTES / 4 / part.len());
        let statement = part.repeat(GROUNDED_BYTES / part.len());
        let sources = Sources {
            said: &[&source],
            context: &[&source],
            speaker: Some("A"),
            said_at: "2024-05-03",
            language: Some(&german),
        };
        let grounds = Grounds::of(&sources);
        for statement in [
            statement.clone(),
            format!("The user {statement}"),
            dated(&statement, "2024-05-03", None),
        ] {
            let _ = grounds.check(&statement);
        }
    }
    let long = "a".repeat(GROUNDED_BYTES + 1);
    assert_eq!(Grounds::of(&Sources::default()).check(&long), Err(Ungrounded::Length));
}

proptest! {
    #[test]
    fn what_was_stated_is_grounded(said in "([A-Z]?[a-z]{1,6}( [A-Z]?[a-z]{1,6}){0,6}( [0-9]{1,4})?\\.){1,3}") {
        let sources = Sources { said: &[&said], said_at: "2024-05-03", ..Sources::default() };
        let result = Grounds::of(&sources).check(&said);
        // Letters at random may make a question ("do it"), a courtesy ("ty") or a text that denies itself.
        let is_stated = acts(&said, &words(&said)).iter().all(|act| *act == Act::State);
        match result {
            Ok(()) | Err(Ungrounded::Denied) => {}
            Err(Ungrounded::Unstated(_)) if !is_stated => {}
            refused => prop_assert!(false, "{said}: {refused:?}"),
        }
    }

    #[test]
    fn any_texts_are_read(
        said in "\\PC{0,60}",
        context in "([A-Z0-9a-z不三 .,:'\"/-]|yesterday|last|week|half past|two|ago|May){0,40}",
        statement in "([A-Z0-9a-z不三 .,:'\"/-]|tomorrow|next|year|quarter to|hundred|and|not){0,40}",
        said_at in "(2024-05-03|9999-12-31|0000-01-01|-262143-01-01|)",
    ) {
        let sources = Sources { said: &[&said], context: &[&context], speaker: Some(&said), said_at: &said_at, language: None };
        let grounds = Grounds::of(&sources);
        for text in [&said, &context, &statement, &dated(&statement, &said_at, None), &dated(&context, &said_at, None)] {
            let _ = grounds.check(text);
        }
    }
}

/// Small words take no part in abbreviations, however many there are: each word is looked at once.
#[test]
fn abbreviations_leave_small_words_out() {
    let said =
        "I study at the University of the Arts, for the ".to_owned() + &"the ".repeat(10_000);
    let said = [said.as_str()];
    let grounds = Grounds::of(&Sources { said: &said, ..Sources::default() });
    assert_eq!(grounds.check("The user studies at the UA."), Ok(()));
    assert_eq!(
        grounds.check("The user studies at the MIT."),
        Err(Ungrounded::Name("MIT".to_owned()))
    );
}
