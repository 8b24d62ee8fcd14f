//! The six scenarios of the ACMS evaluation harness, a file each with what is said in it.
//! No fact has a relative date: memory puts a date in its place, and the stand-in does not know the fact again.

mod constraints;
mod decisions;
mod facts;
mod failures;
mod goals;
mod requirements;

use crate::scenario::{Scenario, Topic};

/// All scenarios; the first is the one of the default run.
pub const SCENARIOS: [&Scenario; 6] = [
    &decisions::SCENARIO,
    &constraints::SCENARIO,
    &failures::SCENARIO,
    &facts::SCENARIO,
    &goals::SCENARIO,
    &requirements::SCENARIO,
];

/// The scenario of this name.
pub fn find(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.into_iter().find(|scenario| scenario.name == name)
}

/// A topic; the order of the arguments is that of its fields.
const fn topic(
    name: &'static str,
    said: &'static str,
    changed: &'static str,
    fact: &'static str,
    question: &'static str,
    values: &'static [&'static str],
) -> Topic {
    Topic { name, said, changed, fact, question, values }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::small_talk::SMALL_TALK;
    use std::collections::BTreeSet;

    #[test]
    fn every_scenario_has_a_name_and_enough_to_say() {
        let names: BTreeSet<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        assert_eq!(names.len(), SCENARIOS.len());
        for scenario in SCENARIOS {
            assert_eq!(find(scenario.name).map(|found| found.name), Some(scenario.name));
            assert!(scenario.topics.len() >= 8, "{}", scenario.name);
            let topics: BTreeSet<&str> = scenario.topics.iter().map(|topic| topic.name).collect();
            assert_eq!(topics.len(), scenario.topics.len(), "{}", scenario.name);
        }
    }

    #[test]
    fn templates_have_one_place_for_a_value() {
        for topic in SCENARIOS.iter().flat_map(|scenario| scenario.topics) {
            for text in [topic.said, topic.changed, topic.fact] {
                assert_eq!(text.matches("{}").count(), 1, "{text}");
            }
            assert!(!topic.question.contains("{}"));
            assert!(topic.values.len() >= 3, "{}", topic.name);
        }
    }

    /// Otherwise a row about something else would pass for an answer, or for a stale one.
    #[test]
    fn a_value_occurs_nowhere_else() {
        for scenario in SCENARIOS {
            let values: Vec<&str> =
                scenario.topics.iter().flat_map(|topic| topic.values).copied().collect();
            let templates = scenario
                .topics
                .iter()
                .flat_map(|topic| [topic.said, topic.changed, topic.fact, topic.question]);
            let talk = SMALL_TALK.iter().flat_map(|(asked, answered)| [*asked, *answered]);
            let others: Vec<&str> = templates.chain(talk).collect();
            for (at, value) in values.iter().enumerate() {
                let elsewhere = values.iter().enumerate().any(|(other, text)| {
                    other != at && text.to_lowercase().contains(&value.to_lowercase())
                });
                assert!(!elsewhere, "{}: {value}", scenario.name);
                let text = others.iter().find(|text| text.contains(value));
                assert_eq!(text, None, "{}: {value}", scenario.name);
            }
        }
    }
}
