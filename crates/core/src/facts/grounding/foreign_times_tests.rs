use std::collections::HashMap;
use std::sync::LazyLock;

use proptest::prelude::*;

use crate::facts::grounding::{Grounds, Sources, Ungrounded, dated};
use crate::text::language::Language;

const SAID_AT: &str = "2026-11-27";

macro_rules! language {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../../../languages/", $name, "/times.txt")))
    };
}

const LANGUAGES: [(&str, &str); 5] = [
    language!("german"),
    language!("french"),
    language!("spanish"),
    language!("italian"),
    language!("portuguese"),
];

static PARSED: LazyLock<HashMap<&str, Language>> = LazyLock::new(|| {
    LANGUAGES
        .into_iter()
        .map(|(name, times)| (name, Language::parse("", "", times).unwrap()))
        .collect()
});

fn language(name: &str) -> &'static Language {
    &PARSED[name]
}

fn check(said: &str, said_at: &str, language: &Language, fact: &str) -> Result<(), Ungrounded> {
    let said = [said];
    let sources = Sources { said: &said, said_at, language: Some(language), ..Sources::default() };
    Grounds::of(&sources).check(fact)
}

/// Without the dates in parentheses.
fn undated(statement: &str) -> String {
    let mut parts = statement.split(" (");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once(')').map_or(part, |(_, rest)| rest))
}

/// The dates that `foreign_times.txt` gives each statement, once, and each grounded by the statement without them.
#[test]
fn statements_get_the_dates_of_their_phrases() {
    let mut wrong = Vec::new();
    for section in include_str!("foreign_times.txt").split("\n[").skip(1) {
        let (name, lines) = section.split_once("]\n").unwrap();
        let language = language(name);
        for line in lines.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let said = undated(line);
            for statement in [said.as_str(), line] {
                let found = dated(statement, SAID_AT, Some(language));
                if found != line {
                    wrong.push(format!("{statement}: {found}"));
                }
            }
            if let Err(reason) = check(&said, SAID_AT, language, line) {
                wrong.push(format!("{line}: {reason}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn statements_of_english_get_dates_in_words_whatever_the_language() {
    let german = language("german");
    let statement = "The user flies to Rome tomorrow";
    let expected = "The user flies to Rome on 2026-11-28";
    assert_eq!(dated(statement, SAID_AT, Some(german)), expected);
    assert_eq!(check("I fly to Rome tomorrow", SAID_AT, german, expected), Ok(()));
    // Phrases of another language than the agent's are no times.
    let french = "L'utilisateur part demain";
    assert_eq!(dated(french, SAID_AT, Some(german)), french);
    assert_eq!(dated("Der Nutzer kommt morgen", SAID_AT, None), "Der Nutzer kommt morgen");
    assert_eq!(dated("Der Nutzer kommt morgen", "bald", Some(german)), "Der Nutzer kommt morgen");
}

#[test]
fn dates_follow_the_calendar() {
    for (name, said_at, statement, expected) in [
        ("german", "2024-02-28", "Sie fährt morgen", "Sie fährt morgen (2024-02-29)"),
        ("german", "2023-02-28", "Sie fährt morgen", "Sie fährt morgen (2023-03-01)"),
        ("german", "2024-12-31", "Sie fährt übermorgen", "Sie fährt übermorgen (2025-01-02)"),
        ("french", "2024-03-31", "vu le mois dernier", "vu le mois dernier (2024-02)"),
        ("french", "2024-12-31", "vu le mois prochain", "vu le mois prochain (2025-01)"),
        ("french", "2024-02-29", "vu il y a un an", "vu il y a un an (2023)"),
        ("spanish", "2024-03-31", "hace un mes", "hace un mes (2024-02)"),
        ("spanish", "2024-01-01", "viaja el próximo año", "viaja el próximo año (2025)"),
        // On a Sunday, the next week begins tomorrow.
        (
            "italian",
            "2024-03-03",
            "parte la prossima settimana",
            "parte la prossima settimana (2024-03-04 – 2024-03-10)",
        ),
        (
            "portuguese",
            "2025-01-01",
            "viajou na semana passada",
            "viajou na semana passada (2024-12-23 – 2024-12-29)",
        ),
    ] {
        assert_eq!(dated(statement, said_at, Some(language(name))), expected);
    }
}

#[test]
fn a_date_of_a_fact_has_to_follow_from_the_phrase() {
    for (name, said, right, wrong) in [
        (
            "german",
            "Ich bin vor vier Monaten nach Köln gezogen",
            "Der Nutzer ist im Monat 2026-07 nach Köln gezogen",
            "Der Nutzer ist im Monat 2024-07 nach Köln gezogen",
        ),
        (
            "german",
            "Ich fahre morgen nach Köln.",
            "Der Nutzer fährt am 2026-11-28 nach Köln.",
            "Der Nutzer fährt am 2026-12-18 nach Köln.",
        ),
        (
            "french",
            "Je suis allé à Lyon il y a deux jours",
            "L'utilisateur est allé à Lyon le 2026-11-25",
            "L'utilisateur est allé à Lyon le 2026-11-12",
        ),
        (
            "spanish",
            "Viajo a Madrid la semana que viene",
            "El usuario viaja a Madrid el 2026-12-03",
            "El usuario viaja a Madrid el 2026-12-24",
        ),
        (
            "italian",
            "Vado a Roma dopodomani",
            "L'utente va a Roma il 2026-11-29",
            "L'utente va a Roma il 2026-12-03",
        ),
        (
            "portuguese",
            "Casei no ano passado na minha cidade, Faro",
            "O utilizador casou em 2025 em Faro",
            "O utilizador casou em 2019 em Faro",
        ),
        // Nothing but "no ano" says that "no" is "in the".
        (
            "portuguese",
            "Casei no ano passado em Faro",
            "O utilizador casou em 2025 em Faro",
            "O utilizador casou em 2019 em Faro",
        ),
        (
            "portuguese",
            "Casei ano passado em Faro",
            "O utilizador casou no ano passado (2025) em Faro",
            "O utilizador não casou no ano passado (2025) em Faro",
        ),
        (
            "german",
            "Ich lese „Dune“. Morgen fahre ich nach Köln.",
            "Der Nutzer fährt am 2026-11-28 nach Köln.",
            "Der Nutzer fährt am 2026-12-18 nach Köln.",
        ),
    ] {
        let language = language(name);
        assert_eq!(check(said, SAID_AT, language, right), Ok(()), "{right}");
        assert!(check(said, SAID_AT, language, wrong).is_err(), "{wrong}");
    }
    // What only the phrases of the language ground.
    let (said, fact) = ("Vado a Roma dopodomani", "L'utente va a Roma il 2026-11-29");
    let sources = Sources { said: &[said], said_at: SAID_AT, ..Sources::default() };
    assert!(Grounds::of(&sources).check(fact).is_err());
}

#[test]
fn phrases_stand_in_one_clause() {
    let german = language("german");
    let statement = "Der Nutzer kommt heute. Morgen fährt er";
    let expected = "Der Nutzer kommt heute (2026-11-27). Morgen (2026-11-28) fährt er";
    assert_eq!(dated(statement, SAID_AT, Some(german)), expected);
}

#[test]
fn numbers_that_are_no_time_give_no_date() {
    let times = "[number]\nhalbe 0.5\nviele 1e300\nminus -3\n[days ago]\nvor N tagen";
    let own = Language::parse("", "", times).unwrap();
    for number in ["halbe", "viele", "minus", "1001", "zwei"] {
        let statement = format!("Das war vor {number} tagen");
        assert_eq!(dated(&statement, SAID_AT, Some(&own)), statement);
    }
    assert_eq!(dated("vor 999 tagen", "2024-02-29", Some(&own)), "vor 999 tagen (2021-06-05)");
}

/// Phrases at random, whole and in parts, with marks between them.
fn texts() -> impl Strategy<Value = String> {
    let words = "(Der Nutzer |[a-zäöü]{1,5} |morgen |Morgen |heute |demain |d'hier |avant-|il y a |hace |mañana |ieri \
         |domani |fa |há |anos |amanhã |vor |zwei |2 |999 |Tagen |Jahren |letzte |Woche |la |semaine |dernière |próxima \
         |semana |que |viene |mese |scorso |\\(2024\\) |\\(|\\)|, |\\. |\"|tomorrow |last |year |years |week |one |ago |[0-9]{1,4}-|–|~|\\PC){0,14}";
    proptest::string::string_regex(words).unwrap()
}

proptest! {
    #[test]
    fn a_dated_statement_stays_as_it_is(
        statement in texts(),
        name in prop::sample::select(LANGUAGES.map(|(name, _)| name).to_vec()),
        said_at in "(2024-02-29|2026-11-27|2025-12-31|9999-12-31|0000-01-01|-262143-01-01|)",
    ) {
        let language = language(name);
        let once = dated(&statement, &said_at, Some(language));
        prop_assert_eq!(&dated(&once, &said_at, Some(language)), &once);
        // Nor does it change on a later day, if its dates have years of four digits.
        if once != statement && said_at.starts_with("20") {
            prop_assert_eq!(&dated(&once, "2030-05-05", Some(language)), &once);
        }
        let _ = check(&statement, &said_at, language, &once);
    }
}
