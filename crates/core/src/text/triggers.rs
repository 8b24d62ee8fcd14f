//! The phrases by which a user asks for something said in another session.

use std::collections::HashSet;

use crate::limits::MAX_PHRASES;

/// The default phrases, comma separated as the setting `cross_session_triggers` has them.
pub const DEFAULTS: &str = "what did we discuss, previous conversation, last time, remind me, \
                            we mentioned, earlier you said";

/// The phrases of a comma-separated list, trimmed, without empty and repeated ones, the first
/// [`MAX_PHRASES`]. An empty list has none, and nothing triggers then.
#[must_use]
pub fn parse(list: &str) -> Vec<String> {
    let mut known = HashSet::new();
    let phrases = list.split(',').map(str::trim).filter(|phrase| !phrase.is_empty());
    let distinct = phrases.filter(|phrase| known.insert(*phrase));
    distinct.take(MAX_PHRASES).map(str::to_owned).collect()
}

/// The first of the phrases that is a part of the message, whatever the case of either.
#[must_use]
pub fn find<'a>(message: &str, triggers: &'a [String]) -> Option<&'a str> {
    let message = message.to_lowercase();
    triggers
        .iter()
        .find(|trigger| !trigger.is_empty() && message.contains(&trigger.to_lowercase()))
        .map(String::as_str)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_defaults_are_six() {
        assert_eq!(
            parse(DEFAULTS),
            [
                "what did we discuss",
                "previous conversation",
                "last time",
                "remind me",
                "we mentioned",
                "earlier you said",
            ]
        );
    }

    #[test]
    fn a_list_is_taken_as_it_is_meant() {
        assert_eq!(parse(" remind me ,, last  time ,remind me,"), ["remind me", "last  time"]);
        assert!(parse("").is_empty() && parse(" , ").is_empty());
    }

    #[test]
    fn a_phrase_is_found_in_any_case_and_place() {
        let triggers = parse("remind me, weißt du noch, ÜBER DIE REISE");
        assert_eq!(find("Can you REMIND ME of the plan?", &triggers), Some("remind me"));
        assert_eq!(find("Weißt du noch?", &triggers), Some("weißt du noch"));
        assert_eq!(find("etwas über die Reise", &triggers), Some("ÜBER DIE REISE"));
        assert_eq!(
            find("What did we Discuss about JWT?", &parse(DEFAULTS)),
            Some("what did we discuss")
        );
        assert_eq!(find("We met recently.", &parse(DEFAULTS)), None);
        assert_eq!(find("remind me", &[]), None);
        assert_eq!(find("anything", &[String::new()]), None);
    }

    proptest! {
        #[test]
        fn what_is_found_is_one_of_the_phrases_and_in_the_message(
            message in "[a-dA-D ]{0,30}", list in "[a-d, ]{0,12}",
        ) {
            let triggers = parse(&list);
            match find(&message, &triggers) {
                Some(found) => {
                    prop_assert!(triggers.iter().any(|trigger| trigger == found));
                    prop_assert!(message.to_lowercase().contains(found));
                }
                None => for trigger in &triggers {
                    prop_assert!(!message.to_lowercase().contains(trigger));
                },
            }
        }
    }
}
