//! Questions to an LLM and the answers that are accepted: the messages of a chat, the shape an
//! answer must have, and why one is not acceptable.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{contradictions, extract, json_answer, markers, reconcile, reflect, rewrite};

/// Most characters of an answer that an [`AnswerError`] repeats.
const MAX_QUOTED_CHARS: usize = 100;
/// Most ids that a JSON schema lists one by one: providers limit the values of all lists of a
/// schema together. More ids are only checked afterwards.
const MAX_LISTED_IDS: u32 = 200;

/// Who speaks in a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChatRole {
    System,
    User,
    Assistant,
}

/// One message of a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatMessage {
    pub role: ChatRole,
    pub content: String,
}

impl ChatMessage {
    #[must_use]
    pub fn new(role: ChatRole, content: impl Into<String>) -> Self {
        Self { role, content: content.into() }
    }
}

/// What an answer must look like.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AnswerFormat {
    /// Any text that is not blank.
    Text,
    /// Facts of the turns 1 to `turns`, as [`extract::parse`] reads them.
    Facts {
        turns: u32,
        /// Most facts of one turn; more are dropped.
        max_per_turn: u32,
    },
    /// Decisions over the memories 1 to `existing` and the new facts that are numbered on to
    /// `existing + new`, as [`reconcile::parse`] reads them.
    Decisions { existing: u32, new: u32 },
    /// Actions over the prior facts 1 to `existing` for an episode of the turns 1 to `turns`, as
    /// [`reflect::parse`] reads them.
    Reflection {
        existing: u32,
        turns: u32,
        /// Most new and changed facts; more are dropped by [`reflect::plan`].
        max_facts: u32,
    },
    /// Other wordings of a message, as [`rewrite::parse`] reads them.
    Rewrites {
        /// More are dropped.
        max: u32,
    },
    /// Verdicts on the recalled memories 1 to `rows`, as [`contradictions::parse`] reads them.
    Verdicts { rows: u32 },
}

/// Why an answer is not acceptable, worded so that the model can mend it. It repeats at most
/// 200 characters of the answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AnswerError(String);

impl AnswerError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl AnswerFormat {
    /// The name of the format, as `json_schema.name` wants one.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Facts { .. } => "facts",
            Self::Decisions { .. } => "decisions",
            Self::Reflection { .. } => "reflection",
            Self::Rewrites { .. } => "rewrites",
            Self::Verdicts { .. } => "verdicts",
        }
    }

    /// The JSON schema of the answer, `None` for text.
    ///
    /// It keeps to what the strict mode of OpenAI's structured outputs knows: every property is
    /// required (an optional one may be null), no other property is allowed. The only bounds are the
    /// lengths of the lists: without them small models repeat themselves until they are cut off.
    #[must_use]
    pub fn json_schema(&self) -> Option<Value> {
        match *self {
            Self::Text => None,
            Self::Facts { turns, max_per_turn } => Some(list_schema(
                "facts",
                turns.saturating_mul(max_per_turn),
                &object_schema(&json!({
                    "turn": id_schema(1, turns),
                    "text": {"type": "string"},
                    "confidence": {"type": ["number", "null"]},
                })),
            )),
            Self::Decisions { existing, new } => {
                let total = existing.saturating_add(new);
                let new_ids = id_schema(existing.saturating_add(1), total);
                Some(list_schema(
                    "memories",
                    total,
                    &object_schema(&json!({
                        "id": id_schema(1, total),
                        "event": {"type": "string", "enum": ["ADD", "UPDATE", "DELETE", "NONE"]},
                        "text": {"type": ["string", "null"]},
                        "from": {"type": "array", "items": new_ids},
                        "same_as": {"type": ["integer", "null"]},
                    })),
                ))
            }
            Self::Reflection { existing, turns, max_facts } => Some(list_schema(
                "actions",
                existing.saturating_add(max_facts),
                &object_schema(&json!({
                    "action": {"type": "string", "enum": ["keep", "update", "add", "remove"]},
                    "id": nullable(id_schema(1, existing)),
                    "text": {"type": ["string", "null"]},
                    "markers": {
                        "type": ["array", "null"], "maxItems": markers::BUILT_IN.len(),
                        "items": {"type": "string", "enum": markers::BUILT_IN},
                    },
                    "confidence": {"type": ["number", "null"]},
                    "turns": {"type": "array", "maxItems": turns, "items": id_schema(1, turns)},
                })),
            )),
            Self::Rewrites { max } => {
                Some(list_schema("rewrites", max, &json!({"type": "string"})))
            }
            Self::Verdicts { rows } => Some(list_schema(
                "verdicts",
                rows,
                &object_schema(&json!({
                    "id": id_schema(1, rows),
                    "verdict": {"type": "string", "enum": ["KEEP", "UPDATE", "DELETE"]},
                })),
            )),
        }
    }

    /// The answer as clean JSON text, or as text without the model's reasoning.
    ///
    /// # Errors
    ///
    /// Says what is wrong with the answer, for the model's one chance to mend it.
    pub fn check(&self, answer: &str) -> Result<String, AnswerError> {
        let value = match *self {
            Self::Text => return text(answer),
            Self::Facts { turns, max_per_turn } => json_answer::find(answer, |value| {
                extract::facts_in(value, turns, max_per_turn).map(drop)
            })?,
            Self::Decisions { existing, new } => json_answer::find(answer, |value| {
                reconcile::decisions_in(value, existing, new).map(drop)
            })?,
            Self::Reflection { existing, turns, .. } => json_answer::find(answer, |value| {
                reflect::actions_in(value, existing, turns).map(drop)
            })?,
            Self::Rewrites { .. } => {
                json_answer::find(answer, |value| rewrite::texts_in(value).map(drop))?
            }
            Self::Verdicts { rows } => json_answer::find(answer, |value| {
                contradictions::verdicts_in(value, rows).map(drop)
            })?,
        };
        Ok(value.to_string())
    }
}

fn text(answer: &str) -> Result<String, AnswerError> {
    match json_answer::without_reasoning(answer)?.trim() {
        "" => Err(AnswerError::new("the answer is empty")),
        text => Ok(text.to_owned()),
    }
}

/// An object whose only property is a list of at most `most` `items`.
fn list_schema(list: &str, most: u32, items: &Value) -> Value {
    object_schema(&json!({list: {"type": "array", "maxItems": most, "items": items}}))
}

/// An object with `properties`, all of them and no others.
fn object_schema(properties: &Value) -> Value {
    let required: Vec<&String> =
        properties.as_object().into_iter().flat_map(|o| o.keys()).collect();
    json!({
        "type": "object",
        "required": required,
        "properties": properties,
        "additionalProperties": false,
    })
}

/// An integer from `first` to `last`. Where the ids are listed, an endpoint that enforces the
/// schema cannot invent one.
fn id_schema(first: u32, last: u32) -> Value {
    match last.checked_sub(first) {
        Some(more) if more < MAX_LISTED_IDS => {
            json!({"type": "integer", "enum": (first..=last).collect::<Vec<_>>()})
        }
        _ => json!({"type": "integer"}),
    }
}

/// What a schema of a single type describes, or null.
fn nullable(mut schema: Value) -> Value {
    if let Some(listed) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        listed.push(Value::Null);
    }
    schema["type"] = json!([schema["type"], "null"]);
    schema
}

/// The beginning of a part of an answer, fit to be repeated in an error.
pub(crate) fn excerpt(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_QUOTED_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FACTS: AnswerFormat = AnswerFormat::Facts { turns: 2, max_per_turn: 3 };
    const DECISIONS: AnswerFormat = AnswerFormat::Decisions { existing: 2, new: 1 };

    #[test]
    fn a_checked_answer_is_clean_and_can_be_parsed() {
        let facts =
            FACTS.check("Sure!\n```json\n{\"facts\": [{\"turn\": 2, \"text\": \"a\",}],}\n```");
        assert_eq!(facts.as_deref(), Ok(r#"{"facts":[{"turn":2,"text":"a"}]}"#));
        assert_eq!(extract::parse(&facts.unwrap(), 2, 3).unwrap().len(), 1);

        let decisions = DECISIONS.check(
            "<think>1, 2, 3</think>[{\"id\":1,\"event\":\"none\"}, {\"id\":2,\"event\":\"NONE\"}]",
        );
        assert_eq!(reconcile::parse(&decisions.unwrap(), 2, 1).unwrap().len(), 2);

        let text = AnswerFormat::Text.check("<think>Hm.</think>\n\n A summary.\n");
        assert_eq!(text.as_deref(), Ok("A summary."));
    }

    #[test]
    fn an_answer_of_another_format_is_refused_with_the_reason() {
        for (format, answer, reason) in [
            (FACTS, r#"{"facts":[{"turn":3,"text":"a"}]}"#, "there is no turn 3"),
            (FACTS, r#"{"memories":[]}"#, "the list \"facts\""),
            (FACTS, "There are none.", "there is no JSON"),
            (FACTS, "", "the answer is empty"),
            (DECISIONS, r#"{"memories":[{"id":1,"event":"NONE"}]}"#, "missing: 2"),
            (DECISIONS, r#"{"memories":[{"id":9,"event":"NONE"}]}"#, "there is no memory 9"),
            (AnswerFormat::Text, " \n", "the answer is empty"),
            (AnswerFormat::Text, "<think>a</think> ", "the answer is empty"),
        ] {
            let error = format.check(answer).unwrap_err().to_string();
            assert!(error.contains(reason), "{answer}: {error}");
        }
    }

    #[test]
    fn the_schemas_are_strict() {
        assert_eq!(AnswerFormat::Text.json_schema(), None);
        for format in [FACTS, DECISIONS] {
            let schema = format.json_schema().unwrap();
            let name = schema["required"][0].as_str().unwrap();
            let item = &schema["properties"][name]["items"];
            for object in [&schema, item] {
                assert_eq!(object["type"], "object");
                assert_eq!(object["additionalProperties"], false);
                let properties: Vec<_> = object["properties"].as_object().unwrap().keys().collect();
                assert_eq!(object["required"], json!(properties), "all are required");
            }
        }
    }

    #[test]
    fn the_schemas_ask_for_the_number_first() {
        let first = |format: AnswerFormat, list: &str| {
            let schema = format.json_schema().unwrap();
            let properties = &schema["properties"][list]["items"]["properties"];
            serde_json::to_string(properties).unwrap()
        };
        assert!(first(FACTS, "facts").starts_with(r#"{"turn""#));
        assert!(
            first(DECISIONS, "memories")
                .starts_with(r#"{"id":{"type":"integer","enum":[1,2,3]},"event""#)
        );
    }

    #[test]
    fn the_schemas_bound_the_lists() {
        let longest = |format: AnswerFormat, list: &str| {
            format.json_schema().unwrap()["properties"][list]["maxItems"].clone()
        };
        assert_eq!(longest(AnswerFormat::Facts { turns: 2, max_per_turn: 3 }, "facts"), 6);
        assert_eq!(longest(AnswerFormat::Decisions { existing: 2, new: 1 }, "memories"), 3);
    }

    #[test]
    fn the_schemas_list_the_numbers_unless_there_are_too_many() {
        let turn = |turns| {
            let schema = AnswerFormat::Facts { turns, max_per_turn: 3 }.json_schema().unwrap();
            schema["properties"]["facts"]["items"]["properties"]["turn"].clone()
        };
        assert_eq!(turn(2), json!({"type": "integer", "enum": [1, 2]}));
        assert_eq!(turn(200)["enum"].as_array().unwrap().len(), 200);
        assert_eq!(turn(201), json!({"type": "integer"}));
        assert_eq!(turn(0), json!({"type": "integer"}), "an empty list of values is no schema");

        let schema = DECISIONS.json_schema().unwrap();
        let item = &schema["properties"]["memories"]["items"]["properties"];
        assert_eq!(item["from"]["items"], json!({"type": "integer", "enum": [3]}));
        let largest = AnswerFormat::Decisions { existing: u32::MAX, new: u32::MAX };
        assert!(largest.json_schema().is_some());
    }

    #[test]
    fn names_are_fit_for_json_schema_name() {
        let names = [AnswerFormat::Text, FACTS, DECISIONS].map(|format| format.name());
        assert_eq!(names, ["text", "facts", "decisions"]);
    }

    proptest! {
        #[test]
        fn a_checked_answer_stays_as_it_is(answer in "[a-z{}\\[\\]\",: 0-9]{0,40}") {
            for format in [FACTS, DECISIONS, AnswerFormat::Text] {
                if let Ok(checked) = format.check(&answer) {
                    prop_assert_eq!(format.check(&checked), Ok(checked.clone()));
                }
            }
        }

        #[test]
        fn an_error_repeats_at_most_200_characters(
            noise in "\\PC{0,30}",
            piece in "(\"text\"|\"turn\"|\"id\"|\"event\"|x|ü|[{}\\[\\],:\"]){1,10}",
        ) {
            // The part that is repeated is the same character everywhere.
            let answer = format!("{{\"facts\":[{{\"turn\":\"{}\",{piece}{noise}", "¤".repeat(500));
            for format in [FACTS, DECISIONS] {
                let error = format.check(&answer).unwrap_err().to_string();
                prop_assert!(error.chars().filter(|c| *c == '¤').count() <= 200);
            }
        }
    }
}
