//! What a client asks about memory, in fields of the body or in headers.

use crate::chat::splice::Object;
use axum::http::{HeaderMap, HeaderName};
use memory_agent_core::text::ids;
use serde_json::Value;

/// Fields of the body that begin like this are for the gateway, and go no further.
pub const FIELDS: &str = "memory_";
/// The same in headers.
const HEADERS: &str = "x-memory-";
/// What may follow, in fields and, with hyphens, in headers.
const NAMES: [&str; 5] = ["id", "recency_weight", "score_threshold", "store", "top_k"];
/// Headers that say whose memory it is.
const OF_CALLERS: [&str; 2] = ["x-memory-token", "x-memory-user"];
/// Where clients name their conversation: Claude Code, Codex (which has written it in two ways), Open WebUI.
const SESSIONS: [&str; 4] =
    ["x-claude-code-session-id", "session-id", "session_id", "x-openwebui-chat-id"];
/// What clients send along when an agent of theirs asks, and not the user: Claude Code, Codex.
const AGENTS: [&str; 2] = ["x-claude-code-agent-id", "x-openai-subagent"];
/// Most of an unknown name that is repeated.
const SHOWN: usize = 40;

/// What the client asked about memory, in fields of the body or in headers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extras {
    /// The conversation; empty where the client names none.
    pub session_id: String,
    /// Whether nothing of the request is to be remembered.
    pub is_forgotten: bool,
    /// Most memories; 0 for none.
    pub top_k: Option<i32>,
    /// 0 to 1: how much newer memories come first.
    pub recency_weight: Option<f32>,
    /// The least score of a memory.
    pub score_threshold: Option<f32>,
}

impl Extras {
    /// # Errors
    /// Which of them cannot be read, for the client.
    pub fn read(body: &Object<'_>, headers: &HeaderMap) -> Result<Self, String> {
        check_names(body, headers)?;
        let field = |name: &str| -> Result<Option<Value>, String> {
            if let Some(member) = body.get(&format!("{FIELDS}{name}")) {
                let value: Value = serde_json::from_str(member.value)
                    .map_err(|_| format!("{FIELDS}{name} cannot be read"))?;
                if !value.is_null() {
                    return Ok(Some(value));
                }
            }
            let header = header(headers, &format!("x-memory-{}", name.replace('_', "-")))?;
            Ok(header.map(|text| match serde_json::from_str::<Value>(&text) {
                Ok(number) if number.is_number() && name != "id" => number,
                _ => Value::from(text),
            }))
        };
        let number = |name: &str| -> Result<Option<f32>, String> {
            field(name)?
                .map(|value| value.as_f64().map(|number| number as f32))
                .map(|number| number.ok_or(format!("{FIELDS}{name} is not a number")))
                .transpose()
        };
        let session_id = match field("id")? {
            None => String::new(),
            Some(Value::String(id)) => {
                ids::check(&id).map_err(|error| format!("memory_id {error}"))?;
                id
            }
            Some(_) => return Err("memory_id is not a text".to_owned()),
        };
        let top_k = match field("top_k")? {
            None => None,
            Some(value) => {
                let number = value.as_i64().and_then(|number| i32::try_from(number).ok());
                Some(number.ok_or("memory_top_k is not a whole number")?)
            }
        };
        let is_forgotten = match field("store")? {
            // What a model tells an agent is not what the user says.
            None => AGENTS.iter().any(|name| headers.contains_key(*name)),
            Some(Value::Bool(store)) => !store,
            Some(Value::String(store)) if store.eq_ignore_ascii_case("true") => false,
            Some(Value::String(store)) if store.eq_ignore_ascii_case("false") => true,
            Some(_) => return Err("memory_store is neither true nor false".to_owned()),
        };
        Ok(Self {
            session_id,
            is_forgotten,
            top_k,
            recency_weight: number("recency_weight")?,
            score_threshold: number("score_threshold")?,
        })
    }
}

/// Refuses what looks like an option and is unknown: a request that asks not to be stored must not be stored for a slip
/// of the pen.
fn check_names(body: &Object<'_>, headers: &HeaderMap) -> Result<(), String> {
    let field = body
        .0
        .iter()
        .map(|member| member.name.as_str())
        .find(|name| name.strip_prefix(FIELDS).is_some_and(|name| !NAMES.contains(&name)));
    let header = headers.keys().map(HeaderName::as_str).find(|name| {
        name.strip_prefix(HEADERS).is_some_and(|rest| {
            !OF_CALLERS.contains(name) && !NAMES.iter().any(|known| known.replace('_', "-") == rest)
        })
    });
    let (unknown, prefix, mark) = match (field, header) {
        (Some(field), _) => (field, FIELDS, "_"),
        (None, Some(header)) => (header, HEADERS, "-"),
        (None, None) => return Ok(()),
    };
    let names = NAMES.map(|name| format!("{prefix}{}", name.replace('_', mark)));
    let of_callers = OF_CALLERS.iter().filter(|name| name.starts_with(prefix));
    let known: Vec<&str> = names.iter().map(String::as_str).chain(of_callers.copied()).collect();
    let known = known.join(", ");
    let shown: String = unknown.chars().take(SHOWN).collect();
    Err(format!("{shown} is no option of memory: known are {known}"))
}

/// The conversation as the client's own header names it.
pub fn session_of_client(headers: &HeaderMap) -> Option<String> {
    SESSIONS.iter().find_map(|name| {
        let id = headers.get(*name)?.to_str().ok()?.trim();
        ids::check(id).is_ok().then(|| id.to_owned())
    })
}

/// The text of a header.
///
/// # Errors
/// That it has other bytes.
pub fn header(headers: &HeaderMap, name: &str) -> Result<Option<String>, String> {
    let name: HeaderName = name.parse().map_err(|_| format!("{name} is not a header"))?;
    headers
        .get(&name)
        .map(|value| value.to_str().map(|text| text.trim().to_owned()))
        .transpose()
        .map_err(|_| format!("the header {name} has bytes that are not text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extras(body: &str, headers: &HeaderMap) -> Result<Extras, String> {
        Extras::read(&Object::read(body, body).unwrap(), headers)
    }

    #[test]
    fn headers_say_what_the_body_does_not() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-memory-id", "42"),
            ("x-memory-top-k", "7"),
            ("x-memory-recency-weight", "0.25"),
            ("x-memory-score-threshold", "1"),
            ("x-memory-store", "False"),
            ("x-memory-token", "mat_1"),
            ("x-memory-user", "ann"),
        ] {
            headers.insert(name, value.parse().unwrap());
        }
        let body = r#"{"messages":[],"memory_top_k":2,"memory_recency_weight":null}"#;
        let expected = Extras {
            session_id: "42".to_owned(),
            is_forgotten: true,
            top_k: Some(2),
            recency_weight: Some(0.25),
            score_threshold: Some(1.0),
        };
        assert_eq!(extras(body, &headers), Ok(expected));
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        for (field, problem) in [
            (r#""memory_id":7"#, "memory_id is not a text"),
            (r#""memory_id":" ""#, "memory_id is empty or blank: expected 1 to 512 bytes"),
            (r#""memory_id":"a ""#, "memory_id begins or ends with a blank"),
            (r#""memory_top_k":1.5"#, "memory_top_k is not a whole number"),
            (r#""memory_score_threshold":"x""#, "memory_score_threshold is not a number"),
            (r#""memory_score_threshold":1e400"#, "memory_score_threshold cannot be read"),
            (r#""memory_id":"\ud800""#, "memory_id cannot be read"),
            (r#""memory_id":"a\u0000b""#, "memory_id has a control character"),
            (r#""memory_store":"no""#, "memory_store is neither true nor false"),
            (r#""memory_store":0"#, "memory_store is neither true nor false"),
        ] {
            assert_eq!(extras(&format!("{{{field}}}"), &HeaderMap::new()), Err(problem.to_owned()));
        }
    }

    #[test]
    fn what_agents_of_the_clients_are_told_is_not_stored() {
        let nothing = HeaderMap::new();
        assert!(!extras("{}", &nothing).unwrap().is_forgotten);
        for name in AGENTS {
            let mut headers = HeaderMap::new();
            headers.insert(name, "a1".parse().unwrap());
            assert!(extras("{}", &headers).unwrap().is_forgotten, "{name}");
            assert!(!extras(r#"{"memory_store":true}"#, &headers).unwrap().is_forgotten, "{name}");
        }
    }

    #[test]
    fn an_option_that_does_not_exist_is_refused() {
        let nothing = HeaderMap::new();
        let fields = "known are memory_id, memory_recency_weight, memory_score_threshold, \
                      memory_store, memory_top_k";
        for name in ["memory_stored", "memory_", "memory_Store"] {
            let expected = format!("{name} is no option of memory: {fields}");
            assert_eq!(extras(&format!(r#"{{"{name}":null}}"#), &nothing), Err(expected));
        }
        let long = format!(r#"{{"memory_{}":1}}"#, "x".repeat(99));
        assert!(extras(&long, &nothing).unwrap_err().len() < 200);
        for name in ["x-memory-stored", "x-memory-user-id", "x-memory-recency_weight"] {
            let mut headers = HeaderMap::new();
            headers.insert(name, "1".parse().unwrap());
            let problem = extras("{}", &headers).unwrap_err();
            assert!(problem.starts_with(&format!("{name} is no option")), "{problem}");
            assert!(problem.contains("x-memory-id, x-memory-recency-weight,"), "{problem}");
        }
        assert_eq!(extras(r#"{"memory":1,"x-memory-x":1}"#, &nothing), Ok(Extras::default()));
    }

    #[test]
    fn clients_name_their_conversation_in_headers_of_their_own() {
        let named = |pairs: &[(&'static str, &str)]| {
            let pairs = pairs
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
            session_of_client(&pairs.collect())
        };
        for name in SESSIONS {
            assert_eq!(named(&[(name, "0193-a")]).as_deref(), Some("0193-a"), "{name}");
        }
        assert_eq!(named(&[("session-id", " "), ("session_id", "b")]).as_deref(), Some("b"));
        assert_eq!(named(&[("session", "a")]), None);
    }
}
