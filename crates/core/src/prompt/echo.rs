//! What of memory stands in a request anyway: copies of its messages, and texts that its messages quote. A model
//! that reads the request learns nothing from them.

use crate::llm::chat_messages::ChatMessages;
use crate::prompt::augment::original_message;
use crate::text::secrets::stored_forms;
use crate::text::unicode::compared;
use serde_json::Value;
use std::collections::HashSet;

/// A text of fewer bytes is quoted by accident: "ok" stands in half of all messages. So many are 30 letters of
/// Latin script, and 10 characters of Chinese.
const LEAST_QUOTED: usize = 30;
/// The roles in which an application speaks.
const INSTRUCTIONS: [&str; 2] = ["system", "developer"];

/// The texts of a request, as far as they matter here: blanks count as one, and a text with a secret also stands for
/// the one that is stored without it.
#[derive(Debug, Default)]
pub struct Said {
    messages: HashSet<String>,
    /// Each in a line of its own.
    all: String,
    /// Those in which the application speaks.
    instructions: String,
}

impl Said {
    /// The texts of a chat. What the user's last message was augmented with is about to be replaced, so only what
    /// the user typed counts of it.
    #[must_use]
    pub fn of(messages: &ChatMessages) -> Self {
        let mut said = Self::default();
        for (role, texts, is_latest) in messages.texts() {
            let whole = texts.join("\n\n");
            let original = original_message(&whole);
            if is_latest {
                said.add(role, original);
            } else {
                said.add(role, &whole);
                for text in texts.into_iter().chain([original]) {
                    said.add_whole(text);
                }
            }
        }
        said
    }

    /// Adds a message of this role.
    pub fn add(&mut self, role: &str, text: &str) {
        let forms = self.add_whole(text);
        let lines = INSTRUCTIONS.contains(&role).then_some(&mut self.instructions);
        for lines in lines.into_iter().chain([&mut self.all]) {
            for text in &forms {
                lines.push('\n');
                lines.push_str(text);
            }
        }
    }

    /// Adds messages as [`ChatMessages`] takes them. What has another form is passed over.
    pub fn add_values(&mut self, messages: &Value) {
        for message in messages.as_array().into_iter().flatten() {
            if let (Some(role), Some(text)) =
                (message["role"].as_str(), message["content"].as_str())
            {
                self.add(role, text);
            }
        }
    }

    fn add_whole(&mut self, text: &str) -> Vec<String> {
        let forms: Vec<String> = stored_forms(text).iter().map(|form| normalized(form)).collect();
        self.messages.extend(forms.iter().filter(|text| !text.is_empty()).cloned());
        forms
    }

    /// Whether a memory of this kind stands in the request: it is a whole message, or one quotes it. Who quotes a
    /// fact may ask about it, so only a quote in instructions of the application counts.
    #[must_use]
    pub fn holds(&self, kind: &str, text: &str) -> bool {
        let text = normalized(text);
        let lines = if kind == "fact" { &self.instructions } else { &self.all };
        self.messages.contains(&text) || quotes(lines, &text)
    }
}

/// The text with single blanks, in the form in which texts are compared.
#[must_use]
pub fn normalized(text: &str) -> String {
    compared(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether `text` stands in one of the lines, from the beginning of a word to the end of one.
fn quotes(lines: &str, text: &str) -> bool {
    // Scripts without case have no blanks between words, or short ones.
    let is_letter = |side: Option<char>| {
        side.is_some_and(|side| side.is_lowercase() || side.is_uppercase() || side.is_numeric())
    };
    let is_inside = |left, right| is_letter(left) && is_letter(right);
    text.len() >= LEAST_QUOTED
        && lines.match_indices(text).any(|(at, _)| {
            let end = at + text.len();
            !is_inside(lines[..at].chars().next_back(), text.chars().next())
                && !is_inside(text.chars().next_back(), lines[end..].chars().next())
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompt::augment::augmented;
    use proptest::prelude::*;
    use serde_json::json;

    fn said(messages: Value) -> Said {
        Said::of(&ChatMessages::parse(messages).unwrap())
    }

    #[test]
    fn a_turn_that_is_a_message_is_held_however_short() {
        let said = said(json!([
            {"role": "assistant", "content": "ok"},
            {"role": "tool", "content": [{"type": "text", "text": "18 °C\n"}, {"type": "text", "text": "rain"}]},
            {"role": "user", "content": "Is it  cold\ntoday?"},
        ]));
        for text in ["ok", " ok\n", "18 °C", "rain", "18 °C rain", "Is it cold today?"] {
            assert!(said.holds("turn", text) && said.holds("fact", text), "{text}");
        }
        for text in ["", "o", "cold today?", "OK", "it"] {
            assert!(!said.holds("turn", text), "{text}");
        }
    }

    #[test]
    fn a_message_is_held_without_its_secrets_too() {
        let text = "For the shop I pay with 4111 1111 1111 1111, the PIN is 4711.";
        let said = said(json!([{"role": "user", "content": format!("It is so: {text}")}]));
        for stored in [
            text,
            "For the shop I pay with [redacted: card], the PIN is 4711.",
            "For the shop I pay with [redacted: card], the PIN is [redacted: password].",
        ] {
            assert!(said.holds("turn", stored), "{stored}");
            assert!(said.holds("turn", &format!("It is so: {stored}")), "{stored}");
        }
        assert!(
            !said.holds("turn", "For the shop I pay with 5555 5555 5555 4444, the PIN is 4711.")
        );
    }

    #[test]
    fn what_a_message_quotes_is_held_if_it_is_long() {
        let quoted = "The user is allergic to hazelnuts.";
        let said =
            said(json!([{"role": "user", "content": format!("I read:\n- {quoted} Is it so?")}]));
        assert!(said.holds("turn", quoted) && said.holds("document", quoted));
        assert!(!said.holds("fact", quoted), "the user asks about it");
        assert!(!said.holds("turn", "user is allergic to hazelnuts"), "29 letters");
        assert!(!said.holds("turn", "e user is allergic to hazelnuts"), "half a word");
        assert!(!said.holds("turn", "The user is allergic to hazelnut"), "half a word");
        let two = said_in_two(&["The user is allergic", "to hazelnuts."]);
        assert!(!two.holds("turn", quoted), "two messages");
        let chinese =
            self::said(json!([{"role": "user", "content": "笔记:用户对榛子过敏不能吃蛋糕。"}]));
        assert!(chinese.holds("turn", ":用户对榛子过敏不能吃"));
    }

    fn said_in_two(texts: &[&str]) -> Said {
        let messages: Vec<Value> =
            texts.iter().map(|text| json!({"role": "user", "content": text})).collect();
        said(Value::from(messages))
    }

    #[test]
    fn only_instructions_state_a_fact() {
        let fact = "Ann is allergic to hazelnuts and nuts.";
        for (role, is_held) in [
            ("system", true),
            ("developer", true),
            ("assistant", false),
            ("tool", false),
            ("user", false),
        ] {
            let mut said = Said::default();
            said.add_values(
                &json!([{"role": role, "content": format!("Mind: {fact}")}, {"role": 1}, "x"]),
            );
            assert_eq!(said.holds("fact", fact), is_held, "{role}");
            assert!(said.holds("turn", fact), "{role}");
        }
        let mut said = Said::default();
        said.add("user", "Is Ann allergic to hazelnuts and nuts?");
        assert!(!said.holds("fact", fact) && !said.holds("turn", fact));
    }

    #[test]
    fn memories_of_the_last_message_are_about_to_be_replaced() {
        let memory = "The user is allergic to hazelnuts.";
        let memories =
            [crate::prompt::augment::Memory { label: "user", content: memory, outdated: &[] }];
        let message = augmented(None, &memories, "May I eat this?");
        let latest = said(json!([{"role": "user", "content": message}]));
        assert!(latest.holds("turn", "May I eat this?") && !latest.holds("turn", memory));
        let earlier = said(
            json!([{"role": "user", "content": message}, {"role": "user", "content": "And?"}]),
        );
        assert!(earlier.holds("turn", "May I eat this?") && earlier.holds("turn", memory));
    }

    proptest! {
        #[test]
        fn a_message_and_its_parts_are_held(words in prop::collection::vec("[a-zß木]{1,12}", 1..40), from in 0usize..40) {
            let mut said = Said::default();
            said.add("assistant", &words.join(" \n"));
            prop_assert!(said.holds("turn", &words.join("\t")));
            let from = from.min(words.len() - 1);
            let part = words[from..].join("  ");
            let is_long = normalized(&part).len() >= LEAST_QUOTED;
            prop_assert_eq!(said.holds("document", &part), from == 0 || is_long);
        }
    }
}
