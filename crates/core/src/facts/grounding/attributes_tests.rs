//! Tests of what can take the place of what, mostly with the pairs of `attribute_cases.txt`.

use super::*;

/// The pairs of a section: the known statement, then the new one.
fn pairs(section: &str) -> Vec<(&'static str, &'static str)> {
    let cases = include_str!("attribute_cases.txt");
    let begin = cases.find(&format!("[{section}]\n")).expect("the section");
    let lines = cases[begin..].lines().skip(1).take_while(|line| !line.starts_with('['));
    lines.filter_map(|line| line.split_once(" | ")).collect()
}

/// Those of a section of which a rule says that the one can take the place of the other, and the others.
fn judged(kind: &str) -> (Vec<String>, Vec<String>) {
    let parts = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"]
        .map(|part| pairs(&format!("{kind}, {part}")));
    let (with, without): (Vec<_>, Vec<_>) =
        parts.concat().into_iter().partition(|(known, new)| can_replace(new, known));
    let told = |pairs: Vec<(&str, &str)>| {
        pairs
            .iter()
            .map(|(known, new)| format!("{known} | {new}: {:?}", sign(new, known)))
            .collect()
    };
    (told(with), told(without))
}

#[test]
fn what_replaces_has_a_sign() {
    let (found, missed) = judged("replaced");
    assert_eq!(found.len() + missed.len(), 350);
    assert!(missed.len() <= 19, "{} missed:\n{}", missed.len(), missed.join("\n"));
}

#[test]
fn what_stays_beside_it_has_none() {
    let (wrong, right) = judged("both");
    assert_eq!(wrong.len() + right.len(), 356);
    assert!(wrong.len() <= 6, "{wrong:#?}");
}

#[test]
fn a_sign_says_why() {
    for (known, new, sign) in [
        ("The user lives in Hamburg.", "The user moved to Lisbon.", Sign::Single),
        ("The user has a dog called Balu.", "Balu died.", Sign::End),
        (
            "The hotel's laundry is done by Blanco.",
            "The user does the laundry instead.",
            Sign::Change,
        ),
        ("The shop opens at 8.", "The shop opens at 9 from June on.", Sign::Value),
        ("The audition is held in May.", "The audition is scheduled for June.", Sign::Event),
        (
            "The user's favourite colour is green.",
            "The user's favourite colour is red.",
            Sign::Attribute,
        ),
        (
            "The team decided to offer the public API as GraphQL.",
            "The team decided to offer the public API as gRPC.",
            Sign::Frame,
        ),
        ("The user has a dog.", "The user has a dog called Balu.", Sign::Covered),
        ("The user plans a trip to Rome.", "The user made the trip to Rome in May.", Sign::Covered),
        ("Stefan leads the team.", "Karen leads the team.", Sign::Role),
        ("The user loves olives.", "The user hates olives.", Sign::Denial),
        ("用户住在北京。", "用户搬到了上海。", Sign::Foreign),
        ("Der Nutzer trinkt gern Tee.", "Der Nutzer trinkt lieber Kaffee.", Sign::Foreign),
    ] {
        assert_eq!(super::sign(new, known), Some(sign), "{known} | {new}");
    }
}

/// Facts of `make evaluate` that replace each other: only a value differs.
#[test]
fn another_value_in_the_same_sentence_is_a_sign() {
    for (fact, values) in [
        ("The team decided to send events between services through {}.", ["Kafka", "NATS"]),
        ("The staging environment is hosted at {}.", ["Hetzner", "Linode"]),
        ("The team decided that users log in with {}.", ["magic links", "passkeys"]),
        ("The team chose the {} licence for the client library.", ["MIT", "Apache"]),
        ("The team decided to monitor production with {}.", ["Datadog", "Zabbix"]),
        ("Production runs in the data centre in {}.", ["Frankfurt", "Dublin"]),
        ("The web shop must never be deployed on {}.", ["Fridays", "Mondays"]),
        ("The data of customers must stay in {}.", ["Germany", "Canada"]),
        ("The data migration with pgloader failed because of {}.", ["a full disk", "enum columns"]),
        ("The user's goal is to learn {} before the summer.", ["Spanish", "Welsh"]),
        ("The plan is to move {} to the new cluster first.", ["billing", "the mail server"]),
        ("The user hopes to become {} in two years.", ["a team lead", "an architect"]),
        ("The user's dog is called {}.", ["Balu", "Rex"]),
        ("The user takes coffee with {}.", ["oat milk", "honey"]),
        ("Reports have to be exported as {}.", ["PDF", "Parquet"]),
        ("The sign-in page has to offer {} accounts.", ["Google", "Okta"]),
        ("Measurements have to be kept for {}.", ["18 months", "2 years"]),
        ("The dashboard has to refresh every {}.", ["60 seconds", "quarter of an hour"]),
    ] {
        let [known, new] = values.map(|value| fact.replace("{}", value));
        assert!(can_replace(&new, &known), "{known} | {new}");
    }
}

#[test]
fn who_teaches_at_one_place_worked_at_another() {
    let known = "The user works at the harbour office.";
    assert!(can_replace("The user teaches at the music school.", known));
}

/// A memory may be a whole document.
#[test]
fn of_a_long_text_the_begin_is_compared() {
    let long =
        format!("The user lives in Hamburg. {}", "And so on, in May, not now. ".repeat(40_000));
    assert!(can_replace("The user moved to Lisbon.", &long));
    assert!(can_replace(&long.replace("Hamburg", "Lisbon"), "The user lives in Hamburg."));
}

#[test]
fn another_property_of_the_same_thing_replaces_nothing() {
    for (known, new) in [
        ("Nadia is the user's aunt.", "Nadia has been promoted to colonel."),
        ("Nadia is a cashier.", "Nadia became a mother."),
        ("The user's ducks lay 20 eggs a week.", "The user now has seven ducks."),
        ("The user feeds the ducks at six.", "The user now has six ducks."),
        ("The user brushes the pony every day.", "The pony now has a blanket."),
        ("The user earns 16 euros an hour.", "The user now works 20 hours a week."),
        ("The course begins on May 4 in Bonn.", "The course is held on Mondays."),
        ("The course begins on May 4.", "The course is held in Bonn."),
        ("The course takes place in Bonn.", "The course is held on Mondays."),
        ("The harbour does not allow dogs.", "The harbour now has a crane."),
        ("Nadia is a cashier.", "Nadia is now ill."),
        ("Nadia is the user's aunt.", "Nadia is now ill."),
        ("The user lives in Kiel.", "The user is staying in Rome for a week."),
        ("The nurse recommends to drink less beer.", "The user stopped drinking ale."),
        ("The coach advises against running on ice.", "The user gave up running."),
    ] {
        assert!(!can_replace(new, known), "{known} | {new}");
    }
}

#[test]
fn the_same_property_in_other_words_is_replaced() {
    for (known, new) in [
        ("Nadia is a cashier.", "Nadia has been promoted to store manager."),
        ("Nadia sells insurance in Fez.", "Nadia has been promoted to head of sales."),
        ("Nadia is a cashier.", "Nadia is now a florist."),
        ("The user's hair is brown.", "The user's hair is now blond."),
        ("The rent of the boat is 900 a month.", "The boat's rent rose: 950 euros a month."),
        ("The user has five ducks.", "The user now has seven ducks."),
        ("The user guards a car park for £11.50 an hour.", "The user gets £12.10 an hour."),
        ("The hike takes place on May 4.", "The hike is scheduled for the 11th."),
        ("The course takes place in Bonn.", "The course is held in Trier."),
        ("The user is planning a picnic by the lake.", "The picnic has become a dinner."),
        ("The user's allowance is from the bank.", "The allowance comes from the state."),
        ("The park forbids kites.", "Kites are allowed in the park."),
        ("The mail server is Postfix.", "The mail server was changed to Exim."),
        ("The nurse recommends 3 mg of the drug.", "The nurse recommends 4 mg of the drug."),
        ("The nurse advised the user to rest.", "The nurse no longer advises the user to rest."),
    ] {
        assert!(can_replace(new, known), "{known} | {new}");
    }
}
