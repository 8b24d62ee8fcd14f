//! Rows of attached tables that are JSON, as frameworks for agents store messages: where the text and the role stand
//! in it, and which of our roles theirs are.

use crate::text::entry::{self, TextError};
use crate::text::half_characters::mended;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;

/// Most keys in a path.
pub const MAX_KEYS: usize = 16;
/// Most roles in a map.
pub const MAX_ROLES: usize = 64;
/// The types of parts that are text. Parts of other types (calls of tools, reasoning, images) are not what was said.
const TEXTS: [&str; 3] = ["text", "input_text", "output_text"];
/// What stands between two parts.
const BETWEEN: &str = "\n\n";

/// Where something stands in a JSON document: keys of objects and numbers of elements, outermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path(Vec<String>);

/// Why something is no path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a path is 1 to {MAX_KEYS} keys with a point between two")]
pub struct PathError;

impl Path {
    /// Reads keys with points between them, such as `content.parts`.
    ///
    /// # Errors
    ///
    /// Where a key is empty, or there are too many.
    pub fn read(path: &str) -> Result<Self, PathError> {
        let keys: Vec<String> = path.split('.').map(str::to_owned).collect();
        if keys.len() > MAX_KEYS || keys.iter().any(|key| key.trim().is_empty()) {
            return Err(PathError);
        }
        Ok(Self(keys))
    }

    /// What stands there.
    fn of<'a>(&self, document: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(document, |value, key| match value {
            Value::Array(elements) => elements.get(key.parse::<usize>().ok()?),
            _ => value.get(key),
        })
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

/// A value that begins as JSON and is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its content is not valid JSON")]
pub struct NotJson;

/// What a column has that may be JSON.
#[derive(Clone, Debug, PartialEq)]
pub enum Document {
    /// A text that was never JSON, as a framework stores it that writes JSON where it has more to say.
    Plain(String),
    Json(Value),
}

impl Document {
    /// Reads the text of a column.
    ///
    /// # Errors
    ///
    /// Where it begins as an object or a list of objects, and cannot be read to its end.
    pub fn read(text: &str) -> Result<Self, NotJson> {
        let is_begun = {
            let start = text.trim_start();
            let inner = start.strip_prefix('[').unwrap_or(start).trim_start();
            inner.strip_prefix('{').is_some_and(|rest| rest.trim_start().starts_with(['"', '}']))
        };
        match serde_json::from_str(&mended(text)) {
            Ok(Value::String(text)) => Ok(Self::Plain(text)),
            Ok(value @ (Value::Array(_) | Value::Object(_))) => Ok(Self::Json(value)),
            Err(_) if is_begun => Err(NotJson),
            _ => Ok(Self::Plain(text.to_owned())),
        }
    }

    /// The text at a path, with parts as paragraphs; a plain text is all of it.
    #[must_use]
    pub fn text_at(&self, path: &Path) -> Option<String> {
        let text = match self {
            Self::Plain(text) => Some(text.clone()),
            Self::Json(value) => said(path.of(value)?),
        };
        text.map(storable)
    }

    /// The role at a path.
    #[must_use]
    pub fn role_at(&self, path: &Path) -> Option<String> {
        match self {
            Self::Plain(_) => None,
            Self::Json(value) => path.of(value)?.as_str().map(str::to_owned).map(storable),
        }
    }
}

/// What a content says: a text, the text of a part, or those of a list of such.
fn said(content: &Value) -> Option<String> {
    match content {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => {
            let texts: Vec<String> = parts.iter().filter_map(text_of_part).collect();
            (!texts.is_empty()).then(|| texts.join(BETWEEN))
        }
        part => text_of_part(part),
    }
}

fn text_of_part(part: &Value) -> Option<String> {
    let part = match part {
        Value::String(text) => return Some(text.clone()),
        part => part.as_object()?,
    };
    let is_text = match part.get("type") {
        None | Some(Value::Null) => !is_thought(part),
        Some(kind) => kind.as_str().is_some_and(|kind| TEXTS.contains(&kind)),
    };
    let text = part.get("text").filter(|_| is_text)?;
    text.as_str().map(str::to_owned)
}

/// Whether a part without a type is reasoning, as Gemini marks it.
fn is_thought(part: &Map<String, Value>) -> bool {
    part.get("thought").is_some_and(|thought| *thought == Value::Bool(true))
}

/// A text as PostgreSQL can store it, which has no character 0.
fn storable(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}

/// What the roles of a table are called here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleMap(BTreeMap<String, Option<String>>);

/// Why something is no map of roles.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoleMapError {
    #[error("role_map is not a JSON object of at most {MAX_ROLES} roles")]
    NoObject,
    #[error("role_map: {0}")]
    Role(TextError),
}

impl RoleMap {
    /// Reads an object whose keys are the table's roles and whose values are ours, or null for rows that are not
    /// remembered.
    ///
    /// # Errors
    ///
    /// Where a value is no role.
    pub fn read(json: &str) -> Result<Self, RoleMapError> {
        let roles: BTreeMap<String, Option<String>> =
            serde_json::from_str(json).map_err(|_| RoleMapError::NoObject)?;
        if roles.len() > MAX_ROLES {
            return Err(RoleMapError::NoObject);
        }
        for role in roles.values().flatten() {
            entry::validate_role(role).map_err(RoleMapError::Role)?;
        }
        Ok(Self(roles))
    }

    /// What [`RoleMap::read`] reads.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::json!(self.0).to_string()
    }

    /// The role that is meant by one of the table's, itself where nothing is said of it; `None` for rows that are
    /// not remembered.
    #[must_use]
    pub fn role<'a>(&'a self, role: &'a str) -> Option<&'a str> {
        match self.0.get(role) {
            Some(mapped) => mapped.as_deref(),
            None => Some(role),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn text(document: &Value, path: &str) -> Option<String> {
        let document = Document::read(&document.to_string()).unwrap();
        document.text_at(&Path::read(path).unwrap())
    }

    fn role(document: &Value, path: &str) -> Option<String> {
        let document = Document::read(&document.to_string()).unwrap();
        document.role_at(&Path::read(path).unwrap())
    }

    #[test]
    fn messages_as_frameworks_store_them() {
        let n8n = json!({"type": "human", "content": "Ann skis.", "additional_kwargs": {}});
        let item = json!({"type": "message", "role": "assistant", "content": [
            {"type": "output_text", "text": "Where?", "annotations": []},
            {"type": "refusal", "refusal": "No."}, {"type": "output_text", "text": "When?"}]});
        let event = json!({"author": "root", "content": {"role": "model", "parts": [
            {"text": "They may ski.", "thought": true}, {"text": "In Oslo?"}, {"functionCall": {"name": "x"}}]}});
        let parts = json!({"format": 2, "parts": [{"type": "step-start"}, {"type": "reasoning", "text": "Hm."},
            {"type": "text", "text": "Noted."}]});
        for (document, content, who, expected) in [
            (&n8n, "content", "type", (Some("Ann skis."), Some("human"))),
            (&item, "content", "role", (Some("Where?\n\nWhen?"), Some("assistant"))),
            (&event, "content.parts", "content.role", (Some("In Oslo?"), Some("model"))),
            (&event, "content.parts.1", "author", (Some("In Oslo?"), Some("root"))),
            (&parts, "parts", "role", (Some("Noted."), None)),
        ] {
            let found = (text(document, content), role(document, who));
            assert_eq!((found.0.as_deref(), found.1.as_deref()), expected, "{document}");
        }
    }

    #[test]
    fn what_says_nothing() {
        for document in [
            json!({"type": "function_call", "name": "x", "arguments": "{}"}),
            json!({"content": null}),
            json!({"content": []}),
            json!({"content": [{"type": "tool-invocation"}, {"type": "text", "text": 3}, 4]}),
            json!({"content": {"deeper": "text"}}),
            json!([]),
        ] {
            assert_eq!(text(&document, "content"), None, "{document}");
        }
    }

    #[test]
    fn a_text_that_is_no_document_is_the_text() {
        let path = Path::read("content").unwrap();
        for (stored, expected) in [
            ("Ann skis.", "Ann skis."),
            ("\"Ann skis.\"", "Ann skis."),
            ("[urgent] call Ann", "[urgent] call Ann"),
            ("{draft} call Ann", "{draft} call Ann"),
            ("42", "42"),
            ("\"a\\u0000b\"", "a\u{fffd}b"),
            ("{\"content\": \"half \\ud83d\"}", "half \u{fffd}"),
        ] {
            let document = Document::read(stored).unwrap();
            assert_eq!(document.text_at(&path).as_deref(), Some(expected), "{stored}");
        }
        assert_eq!(Document::read("\"x\"").unwrap().role_at(&path), None);
        for broken in ["{\"content\": \"Ann", " [ {\"role\": \"user\"}", "{\"a\": 1,}"] {
            assert_eq!(Document::read(broken), Err(NotJson), "{broken}");
        }
    }

    #[test]
    fn paths() {
        for path in ["", ".", "a.", "a..b", " ", &"a.".repeat(MAX_KEYS), "a. .b"] {
            assert_eq!(Path::read(path), Err(PathError), "{path}");
        }
        let longest = vec!["a"; MAX_KEYS].join(".");
        assert_eq!(Path::read(&longest).unwrap().to_string(), longest);
    }

    #[test]
    fn roles_are_mapped() {
        let map = RoleMap::read(r#"{"human": "user", "ai": "assistant", "system": null}"#).unwrap();
        for (given, expected) in [
            ("human", Some("user")),
            ("ai", Some("assistant")),
            ("system", None),
            ("tool", Some("tool")),
        ] {
            assert_eq!(map.role(given), expected, "{given}");
        }
        assert_eq!(RoleMap::default().role("user"), Some("user"));
        assert_eq!(RoleMap::read(&map.to_json()), Ok(map));
        for wrong in ["[]", "1", r#"{"a": 1}"#, r#"{"a": {}}"#] {
            assert_eq!(RoleMap::read(wrong), Err(RoleMapError::NoObject), "{wrong}");
        }
        let king = RoleMap::read(r#"{"a": "king"}"#).unwrap_err().to_string();
        assert!(king.starts_with("role_map: ") && king.contains("role"), "{king}");
        let many = (0..=MAX_ROLES).map(|at| format!("\"{at}\": null")).collect::<Vec<_>>();
        assert!(RoleMap::read(&format!("{{{}}}", many.join(","))).is_err());
    }
}
