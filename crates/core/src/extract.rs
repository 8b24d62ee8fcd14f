//! Facts out of what users said: the question to the LLM, and the reading of its answer.

use serde::Serialize;
use serde_json::Value;

pub use crate::augment::original_message;
use crate::chat::{AnswerError, ChatMessage, excerpt};
use crate::grounding::{is_bare_change, statements};
use crate::json_answer::whole_number;
use crate::prompts;

pub(crate) const SYSTEM: &str = include_str!("prompts/extract_system.txt");
/// What is said besides where turns have markers, and where an assistant's decisions are among them.
pub(crate) const MARKED: &str = include_str!("prompts/extract_marked.txt");
pub(crate) const DECISIONS: &str = include_str!("prompts/extract_decisions.txt");

/// Most characters of a fact. A longer one is no atomic statement but a retold conversation.
pub const MAX_FACT_CHARS: usize = 1_000;

/// Most entries of the list that an answer is, of any format: entries are compared with each other,
/// and what an endpoint sends can be megabytes.
const MAX_LISTED: usize = 4_096;

/// A user's turn from which facts are to be extracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PendingTurn<'a> {
    /// What the user said, see [`original_message`].
    pub content: &'a str,
    /// The user's name, if the turn has one.
    pub speaker: Option<&'a str>,
    /// The day the turn was said, as an ISO date.
    pub said_at: &'a str,
}

/// What a turn is, beside what it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks<'a> {
    pub markers: &'a [String],
    /// Whether the assistant said it, who decided something there.
    pub is_assistants: bool,
}

/// One statement that holds without its conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtractedFact {
    /// Trimmed, not empty, at most [`MAX_FACT_CHARS`] characters, without NUL.
    pub text: String,
    /// The place of its turn among the turns that were sent, from 0.
    pub turn: usize,
    /// How sure the model is that the user said so, 0 to 1.
    pub confidence: Option<f32>,
}

#[derive(Serialize)]
struct Turns<'a> {
    turns: Vec<Turn<'a>>,
}

/// A turn as the model sees it.
#[derive(Serialize)]
struct Turn<'a> {
    turn: usize,
    said_at: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    speaker: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    markers: &'a [String],
    text: &'a str,
}

/// The chat that asks for at most `max_per_turn` facts of each turn. The turns are numbered from
/// 1; an answer has the format `Facts`.
#[must_use]
pub fn messages(turns: &[PendingTurn], max_per_turn: u32) -> Vec<ChatMessage> {
    marked_messages(turns, &[], max_per_turn)
}

/// [`messages`] that say what turns are; those behind the last of `marks` are nothing in particular.
#[must_use]
pub fn marked_messages(
    turns: &[PendingTurn],
    marks: &[Marks<'_>],
    max_per_turn: u32,
) -> Vec<ChatMessage> {
    let marks = marks.iter().copied().chain(std::iter::repeat(Marks::default()));
    let turns: Vec<Turn<'_>> = (1..)
        .zip(turns.iter().zip(marks))
        .map(|(turn, (pending, marks))| Turn {
            turn,
            said_at: pending.said_at,
            speaker: pending.speaker,
            role: marks.is_assistants.then_some("assistant"),
            markers: marks.markers,
            text: pending.content,
        })
        .collect();
    let mut system = SYSTEM.replace("{max_per_turn}", &max_per_turn.to_string());
    for (is_needed, text) in [
        (turns.iter().any(|turn| !turn.markers.is_empty()), MARKED),
        (turns.iter().any(|turn| turn.role.is_some()), DECISIONS),
    ] {
        if is_needed {
            system = format!("{}\n\n{text}", system.trim_end());
        }
    }
    prompts::chat(system, &Turns { turns })
}

/// Reads an answer about the turns 1 to `turns` that was cleaned by
/// [`AnswerFormat::check`](crate::answers::AnswerFormat::check).
///
/// The shape is `{"facts": [{"turn": 1, "text": "...", "confidence": 0.9}]}` or the list alone.
/// If there is one turn, its number may be left out, and a fact may be just its text. Blank
/// facts, repeated ones and those over `max_per_turn` (the later ones of a turn) are dropped.
///
/// # Errors
///
/// Another shape, a number of no turn that was sent, a missing text, or a text that is too long
/// or holds a NUL, which PostgreSQL cannot store.
pub fn parse(
    checked_json: &str,
    turns: u32,
    max_per_turn: u32,
) -> Result<Vec<ExtractedFact>, AnswerError> {
    facts_in(&parse_json(checked_json)?, turns, max_per_turn)
}

pub(crate) fn facts_in(
    answer: &Value,
    turns: u32,
    max_per_turn: u32,
) -> Result<Vec<ExtractedFact>, AnswerError> {
    let mut facts: Vec<ExtractedFact> = Vec::new();
    for item in list_in(answer, "facts")? {
        let Some(fact) = fact(item, turns)? else { continue };
        for text in statements(&fact.text) {
            let of_turn = facts.iter().filter(|other| other.turn == fact.turn);
            let is_repeated = of_turn.clone().any(|other| other.text == text);
            if !is_repeated && of_turn.count() < max_per_turn as usize {
                facts.push(ExtractedFact { text, ..fact });
            }
        }
    }
    // Another fact says to what it changed.
    let says_more = |fact: &ExtractedFact| {
        let is_other = |other: &&ExtractedFact| other.turn == fact.turn && other.text != fact.text;
        facts.iter().filter(is_other).any(|other| !is_bare_change(&other.text))
    };
    let is_kept = |fact: &&ExtractedFact| !(is_bare_change(&fact.text) && says_more(fact));
    Ok(facts.iter().filter(is_kept).cloned().collect())
}

/// A fact, or `None` if it says nothing.
fn fact(item: &Value, turns: u32) -> Result<Option<ExtractedFact>, AnswerError> {
    let (text, turn, confidence) = match item {
        Value::String(text) if turns == 1 => (text, 1, None),
        Value::Object(fields) => {
            let Some(Value::String(text)) = fields.get("text") else {
                return Err(AnswerError::new(format!(
                    "each fact needs a \"text\" that is a string: {}",
                    excerpt(&item.to_string())
                )));
            };
            let turn = match fields.get("turn").filter(|turn| !turn.is_null()) {
                None if turns == 1 => 1,
                None => return Err(AnswerError::new("each fact needs the \"turn\" it is from")),
                Some(turn) => turn_number(turn, turns)?,
            };
            (text, turn, fields.get("confidence").and_then(Value::as_f64))
        }
        _ => {
            return Err(AnswerError::new(format!(
                "each fact must be an object with \"turn\" and \"text\": {}",
                excerpt(&item.to_string())
            )));
        }
    };
    let text = statement(text)?;
    // The conversion cannot leave 0 to 1.
    let confidence = confidence.map(|confidence| confidence.clamp(0.0, 1.0) as f32);
    Ok(text.map(|text| ExtractedFact { text, turn: turn - 1, confidence }))
}

fn turn_number(turn: &Value, turns: u32) -> Result<usize, AnswerError> {
    whole_number(turn)
        .filter(|number| (1..=u64::from(turns)).contains(number))
        .and_then(|number| usize::try_from(number).ok())
        .ok_or_else(|| {
            AnswerError::new(format!(
                "there is no turn {}: the turns are 1 to {turns}",
                excerpt(&turn.to_string())
            ))
        })
}

/// A statement that can be stored, `None` if it is blank.
pub(crate) fn statement(text: &str) -> Result<Option<String>, AnswerError> {
    let text = text.trim();
    if text.chars().nth(MAX_FACT_CHARS).is_some() {
        return Err(AnswerError::new(format!(
            "a text is longer than {MAX_FACT_CHARS} characters, facts are single short \
             statements: {}",
            excerpt(text)
        )));
    }
    if text.contains('\0') {
        return Err(AnswerError::new(format!(
            "a text holds the character U+0000: {}",
            excerpt(text)
        )));
    }
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

/// The list that `answer` is or has as its property `name`.
pub(crate) fn list_in<'a>(answer: &'a Value, name: &str) -> Result<&'a [Value], AnswerError> {
    match answer {
        Value::Array(items) => Some(items),
        Value::Object(fields) => fields.get(name).and_then(Value::as_array),
        _ => None,
    }
    .map(Vec::as_slice)
    .filter(|items| items.len() <= MAX_LISTED)
    .ok_or_else(|| {
        AnswerError::new(format!(
            "the answer must be a JSON object with the list \"{name}\" of at most {MAX_LISTED}: {}",
            excerpt(&answer.to_string())
        ))
    })
}

pub(crate) fn parse_json(checked_json: &str) -> Result<Value, AnswerError> {
    serde_json::from_str(checked_json).map_err(|error| {
        AnswerError::new(format!("the answer is not JSON: {}", excerpt(&error.to_string())))
    })
}

/// Shorter words are in every text.
const EXAMPLE_CHARS: usize = 4;
const EXAMPLE_EMPTY: [&str; 6] = ["user", "with", "named", "wants", "does", "more"];

/// Whether a fact is an example of our own prompt, which small models like to repeat, and not what
/// the turn says.
#[must_use]
pub fn is_example(fact: &str, turn: &str) -> bool {
    let fact = fact.trim_end_matches('.');
    if !SYSTEM.contains(&format!("\"text\":\"{fact}\",\"confidence\"")) {
        return false;
    }
    let turn = turn.to_lowercase();
    let fact = fact.to_lowercase();
    let mut words = fact
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.chars().count() >= EXAMPLE_CHARS && !EXAMPLE_EMPTY.contains(word));
    !words.any(|word| turn.contains(word))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn fact(text: &str, turn: usize, confidence: Option<f32>) -> ExtractedFact {
        ExtractedFact { text: text.to_owned(), turn, confidence }
    }

    fn error(answer: &str, turns: u32) -> String {
        parse(answer, turns, 3).unwrap_err().to_string()
    }

    #[test]
    fn a_turn_says_what_it_is() {
        let turn = PendingTurn { content: "x", speaker: None, said_at: "2024-05-03" };
        let markers = ["decision".to_owned(), "custom:legal".to_owned()];
        let marked = Marks { markers: &markers, is_assistants: false };
        let asked = |marks: &[Marks<'_>]| {
            let chat = marked_messages(&[turn, turn], marks, 3);
            let document: Value = serde_json::from_str(&chat[1].content).unwrap();
            (chat[0].content.clone(), document["turns"].clone())
        };
        let plain = messages(&[turn, turn], 3)[0].content.clone();
        let bare = json!({"turn": 1, "said_at": "2024-05-03", "text": "x"});
        let second = json!({"turn": 2, "said_at": "2024-05-03", "text": "x"});
        assert_eq!(asked(&[]), (plain.clone(), json!([bare, second])));
        let (system, turns) = asked(&[marked]);
        assert_eq!(system, format!("{plain}\n\n{}", MARKED.trim_end()));
        assert_eq!(turns[0]["markers"], json!(["decision", "custom:legal"]));
        assert_eq!(turns[1], second);
        let (system, turns) = asked(&[Marks { is_assistants: true, ..marked }, Marks::default()]);
        let both = format!("{plain}\n\n{}\n\n{}", MARKED.trim_end(), DECISIONS.trim_end());
        assert_eq!(system, both);
        assert_eq!(turns[0]["role"], "assistant");
        assert!(turns[1].get("role").is_none());
    }

    #[test]
    fn facts_are_read_with_their_turn_and_confidence() {
        let facts = parse(
            r#"{"facts":[{"turn":2,"text":" The user has a dog ","confidence":0.5},
                         {"turn":1,"text":"The user likes tea"}]}"#,
            2,
            3,
        );
        let expected =
            [fact("The user has a dog", 1, Some(0.5)), fact("The user likes tea", 0, None)];
        assert_eq!(facts.unwrap(), expected);
        assert_eq!(parse(r#"{"facts":[]}"#, 2, 3).unwrap(), []);
    }

    #[test]
    fn a_bare_list_is_accepted() {
        let facts = parse(r#"[{"turn":2,"text":"a"},{"turn":"1","text":"b"}]"#, 2, 3);
        assert_eq!(facts.unwrap(), [fact("a", 1, None), fact("b", 0, None)]);
    }

    #[test]
    fn with_one_turn_its_number_may_be_left_out() {
        let expected = [fact("a", 0, None), fact("b", 0, None)];
        assert_eq!(parse(r#"["a", "b"]"#, 1, 3).unwrap(), expected);
        assert_eq!(
            parse(r#"{"facts":[{"text":"a"}, {"turn":null,"text":"b"}]}"#, 1, 3).unwrap(),
            expected
        );
        assert_eq!(error(r#"[{"text":"a"}]"#, 2), "each fact needs the \"turn\" it is from");
        assert!(error(r#"["a"]"#, 2).starts_with("each fact must be an object"));
    }

    #[test]
    fn confidence_is_kept_between_0_and_1() {
        for (given, kept) in [
            (json!(0.25), Some(0.25)),
            (json!(-1), Some(0.0)),
            (json!(95), Some(1.0)),
            (json!(1e300), Some(1.0)),
            (json!(null), None),
            (json!("high"), None),
        ] {
            let answer = json!([{"text": "a", "confidence": given}]).to_string();
            assert_eq!(parse(&answer, 1, 3).unwrap(), [fact("a", 0, kept)], "{given}");
        }
    }

    #[test]
    fn blank_and_repeated_facts_are_dropped() {
        let answer = r#"["", " \n", "a", "a ", "b"]"#;
        assert_eq!(parse(answer, 1, 2).unwrap(), [fact("a", 0, None), fact("b", 0, None)]);
    }

    #[test]
    fn a_fact_is_one_statement_and_says_what_holds() {
        let answer = json!([
            "The user changed suppliers",
            "Priya is vegetarian and her son Arun is allergic to peanuts",
        ]);
        let texts = |answer: &Value| -> Vec<String> {
            parse(&answer.to_string(), 1, 4).unwrap().into_iter().map(|fact| fact.text).collect()
        };
        let parts = ["Priya is vegetarian", "Priya's son Arun is allergic to peanuts"];
        assert_eq!(texts(&answer), parts);
        assert_eq!(
            texts(&json!([answer[0]])),
            ["The user changed suppliers"],
            "nothing else is known"
        );
    }

    #[test]
    fn more_facts_than_allowed_are_dropped_turn_by_turn() {
        let answer = json!([
            {"turn": 1, "text": "a"}, {"turn": 1, "text": "b"}, {"turn": 2, "text": "c"},
            {"turn": 1, "text": "d"}, {"turn": 2, "text": "e"},
        ]);
        let facts = parse(&answer.to_string(), 2, 2).unwrap();
        let texts: Vec<_> = facts.iter().map(|fact| fact.text.as_str()).collect();
        assert_eq!(texts, ["a", "b", "c", "e"]);
        assert_eq!(parse(&answer.to_string(), 2, 0).unwrap(), []);
    }

    #[test]
    fn turns_that_were_not_sent_are_an_error() {
        for turn in ["0", "3", "-1", "1.5", "\"two\"", "[1]", "1e99", "true"] {
            let answer = format!(r#"{{"facts":[{{"turn":{turn},"text":"a"}}]}}"#);
            assert!(error(&answer, 2).starts_with("there is no turn "), "{turn}");
        }
        assert_eq!(
            error(r#"[{"turn":3,"text":"a"}]"#, 2),
            "there is no turn 3: the turns are 1 to 2"
        );
    }

    #[test]
    fn other_shapes_are_an_error() {
        for answer in ["5", "null", "\"a\"", "{}", r#"{"facts":{}}"#, r#"{"fact":["a"]}"#] {
            assert!(error(answer, 1).contains("the list \"facts\""), "{answer}");
        }
        for answer in [r#"[{"turn":1}]"#, r#"[{"text":5}]"#, r#"[{"text":["a"]}]"#] {
            assert!(error(answer, 1).contains("needs a \"text\""), "{answer}");
        }
        assert!(error("[5]", 1).contains("must be an object"));
        assert!(error("{", 1).starts_with("the answer is not JSON"));
    }

    #[test]
    fn texts_that_cannot_be_facts_are_an_error() {
        let longest = "ü".repeat(MAX_FACT_CHARS);
        assert_eq!(parse(&json!([longest]).to_string(), 1, 3).unwrap(), [fact(&longest, 0, None)]);
        let message = error(&json!([longest + "ü"]).to_string(), 1);
        assert!(message.starts_with("a text is longer than 1000 characters"), "{message}");
        assert!(message.chars().count() < 300, "{message}");
        assert!(error(r#"["a\u0000b"]"#, 1).contains("U+0000"));
    }

    proptest! {
        #[test]
        fn facts_come_back_as_they_were(
            facts in prop::collection::vec(("\\PC{1,40}", 1..4_u32, prop::option::of(0.0..=1.0)), 0..6),
        ) {
            let answer = facts.iter().map(|(text, turn, confidence)| {
                json!({"turn": turn, "text": text, "confidence": confidence})
            });
            let answer = json!({"facts": answer.collect::<Vec<_>>()}).to_string();
            let parsed = parse(&answer, 3, 100).unwrap();
            for (text, turn, _) in &facts {
                let is_kept = parsed.iter().any(|fact| {
                    fact.text == text.trim() && fact.turn + 1 == *turn as usize
                });
                prop_assert!(is_kept || text.trim().is_empty());
            }
            prop_assert!(parsed.len() <= facts.len());
        }

        #[test]
        fn no_answer_makes_it_panic(answer in r#"[\[\]{}",:0-9a-z \\]{0,60}"#, turns in 0..3_u32) {
            for fact in parse(&answer, turns, 3).unwrap_or_default() {
                prop_assert!(fact.turn < turns as usize && !fact.text.is_empty());
            }
        }
    }
}
