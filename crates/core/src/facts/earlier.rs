//! What came before a turn, as far as an LLM is shown it to understand the turn.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::facts::same::words;
use crate::prompt::augment::original_message;

/// Most characters that are shown of a message before a turn.
pub const MAX_CHARS: usize = 1_000;
/// How many messages further back is looked for what an assistant answered.
pub const LOOK_BACK: usize = 20;

/// A message that came before a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EarlierMessage {
    /// `user` or `assistant`.
    pub role: String,
    /// The day it was said, as an ISO date.
    pub said_at: String,
    pub text: String,
}

/// What stands in the conversation before a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Earlier {
    Message(EarlierMessage),
    /// A message of the user's or the assistant's that is not for the LLM.
    Hidden {
        is_users: bool,
    },
    /// A turn that the LLM is asked about too, with what came before it.
    Asked,
}

impl EarlierMessage {
    /// What was said, see [`original_message`]: of the user the begin, of the assistant the end, where it asks.
    #[must_use]
    pub fn new(role: String, said_at: String, content: &str) -> Self {
        let text = match role.as_str() {
            "assistant" => {
                let begin = content.char_indices().rev().nth(MAX_CHARS - 1);
                content[begin.map_or(0, |(at, _)| at)..].to_owned()
            }
            _ => original_message(content).chars().take(MAX_CHARS).collect(),
        };
        Self { role, said_at, text }
    }

    fn is_users(&self) -> bool {
        self.role == "user"
    }

    /// Whether it is a question of the assistant's, or ends with one.
    #[must_use]
    pub fn asks(&self) -> bool {
        let mut end = self.text.chars().rev().take_while(|c| !c.is_alphanumeric());
        !self.is_users() && end.any(|c| matches!(c, '?' | '？' | '؟' | '՞' | ';'))
    }
}

/// Of what came before a turn, the newest first, at most `most` messages, oldest first. They come right before the
/// turn and have no gap: a question further back is not what "yes" answers. What the assistant answered to a hidden
/// message may repeat it, and is hidden too.
///
/// * `is_all`: whether the conversation begins with the last of `earlier`.
#[must_use]
pub fn shown(earlier: Vec<Earlier>, most: usize, is_all: bool) -> Vec<EarlierMessage> {
    let mut shown: Vec<EarlierMessage> = Vec::new();
    let mut is_full = false;
    // Until it is known which message the oldest of them answers.
    let mut answers_hidden = !is_all;
    for one in earlier {
        is_full |= shown.len() == most;
        let answered = match one {
            Earlier::Message(message) if !is_full => {
                shown.push(message);
                None
            }
            Earlier::Message(message) => message.is_users().then_some(false),
            Earlier::Hidden { is_users } => {
                is_full = true;
                is_users.then_some(true)
            }
            Earlier::Asked => Some(false),
        };
        if let Some(is_hidden) = answered {
            answers_hidden = is_hidden;
            break;
        }
    }
    while answers_hidden && shown.last().is_some_and(|oldest| !oldest.is_users()) {
        shown.pop();
    }
    shown.reverse();
    shown
}

/// Whether a fact tells of what came before a turn instead of the turn: they share words, and it has none in common
/// with the turn. The answer to a question may have none.
#[must_use]
pub fn tells_of_before(fact: &str, said: &str, before: &[EarlierMessage]) -> bool {
    if before.last().is_none_or(EarlierMessage::asks) {
        return false;
    }
    let told = begins(fact);
    let is_shared = |text: &str| !told.is_disjoint(&begins(text));
    !is_shared(said) && before.iter().any(|message| is_shared(&message.text))
}

/// The begins of the longer words of a text, which inflection leaves alone, and its numbers.
fn begins(text: &str) -> BTreeSet<String> {
    const LENGTH: usize = 4;
    words(text)
        .into_iter()
        .filter(|word| word.chars().all(char::is_numeric) || word.chars().count() >= LENGTH)
        .map(|word| word.chars().take(LENGTH).collect())
        .filter(|begin| begin != "user")
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(role: &str, text: &str) -> EarlierMessage {
        EarlierMessage::new(role.to_owned(), "2024-05-03".to_owned(), text)
    }

    /// Messages as letters, oldest first: `u`, `a`, hidden ones as `U`, `A`, and turns that are asked about as `.`.
    fn shown_of(earlier: &str, most: usize, is_all: bool) -> String {
        let one = |c: char| match c {
            'u' => Earlier::Message(message("user", "u")),
            'a' => Earlier::Message(message("assistant", "a")),
            '.' => Earlier::Asked,
            hidden => Earlier::Hidden { is_users: hidden == 'U' },
        };
        let earlier = earlier.chars().rev().map(one).collect();
        shown(earlier, most, is_all).iter().map(|message| message.text.as_str()).collect()
    }

    #[test]
    fn only_what_comes_right_before_is_shown() {
        for (earlier, most, expected) in [
            ("", 2, ""),
            ("ua", 0, ""),
            ("ua", 1, "a"),
            ("uaua", 3, "aua"),
            // What is hidden ends it, and takes what the assistant answered along.
            ("uaUua", 9, "ua"),
            ("uaUa", 9, ""),
            ("uaUaua", 9, "ua"),
            ("uaUaua", 2, "ua"),
            ("uaUaa", 1, ""),
            ("uaAa", 9, "a"),
            ("uaA", 9, ""),
            ("UAa", 1, ""),
            ("uAa", 1, "a"),
            // Turns that are asked about have theirs.
            ("a.a", 9, "a"),
            ("a.aa", 1, "a"),
            ("a.", 9, ""),
        ] {
            assert_eq!(shown_of(earlier, most, true), expected, "{earlier} {most}");
        }
        // Which message an assistant answered is not known; greetings answer no message.
        assert_eq!(shown_of("aaa", 2, false), "");
        assert_eq!(shown_of("aua", 9, false), "ua");
        assert_eq!(shown_of("aa", 2, true), "aa");
    }

    #[test]
    fn an_assistant_asks_at_the_end() {
        for text in [
            "Do you?",
            "Do you? ",
            "Really?!",
            "Do you? 🙂",
            "(Do you?)",
            "¿Sí?\"",
            "好吗？",
            "أليس كذلك؟",
        ] {
            assert!(message("assistant", text).asks(), "{text}");
            assert!(!message("user", text).asks());
        }
        for text in ["", "Do you? I do.", "Here you are.", "?x"] {
            assert!(!message("assistant", text).asks(), "{text}");
        }
        let long = "ü".repeat(MAX_CHARS) + "Do you?";
        assert!(message("assistant", &long).asks());
        assert_eq!(message("assistant", &long).text.chars().count(), MAX_CHARS);
        assert_eq!(message("user", &long).text, "ü".repeat(MAX_CHARS));
    }

    #[test]
    fn a_fact_tells_of_its_turn_or_answers_a_question() {
        let tells = |fact: &str, said: &str, before: &[(&str, &str)]| {
            let before: Vec<EarlierMessage> =
                before.iter().map(|(role, text)| message(role, text)).collect();
            tells_of_before(fact, said, &before)
        };
        let ward = [("user", "I am Deborah, I manage a cardiac ward.")];
        let dog = "We have a golden retriever.";
        assert!(tells("The user manages a cardiac ward.", dog, &ward));
        assert!(tells("The user's name is Deborah.", dog, &ward));
        assert!(!tells("The user has a golden retriever.", dog, &ward));
        assert!(!tells("Deborah has a golden retriever.", dog, &ward));
        let beds = [("user", "We have 26 beds now.")];
        assert!(tells("The user has 26 beds.", "My left wrist hurts.", &beds));
        assert!(!tells("The user has 29 beds.", "It is 29.", &beds));
        let marta = [("user", "My sister Marta lives in Porto.")];
        assert!(!tells("The user's sister Marta moves to Faro.", "She moved to Faro.", &marta));
        // What has no word of either is another check's.
        assert!(!tells("Der Nutzer wohnt in Wien.", dog, &marta));
        let asked = [marta[0], ("assistant", "Does Marta eat meat?")];
        assert!(!tells("Marta is vegetarian.", "No.", &asked));
        assert!(!tells("The user manages a cardiac ward.", dog, &[]));
    }

    proptest! {
        #[test]
        fn nothing_hidden_and_no_answer_to_it_is_shown(
            earlier in "[uaUA.]{0,12}", most in 0..6_usize, is_all in any::<bool>(),
        ) {
            let found = shown_of(&earlier, most, is_all);
            prop_assert!(found.len() <= most);
            prop_assert!(earlier.ends_with(&found), "no gap");
            let before = &earlier[..earlier.len() - found.len()];
            let answers = found.len() - found.trim_start_matches('a').len();
            let speaker = before.trim_end_matches(['a', 'A']).chars().last();
            prop_assert!(answers == 0 || speaker != Some('U'));
        }
    }
}
