//! What a client asks about memory, in fields of the body or in headers.

use crate::splice::Object;
use axum::http::{HeaderMap, HeaderName};
use memory_agent_core::ids;
use serde_json::Value;

/// Fields of the body that begin like this are for the gateway, and go no further.
pub const FIELDS: &str = "memory_";
/// The session of a request that names none.
const DEFAULT_SESSION: &str = "default";

/// What the client asked about memory, in fields of the body or in headers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extras {
    /// The conversation.
    pub session_id: String,
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
            None => DEFAULT_SESSION.to_owned(),
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
        Ok(Self {
            session_id,
            top_k,
            recency_weight: number("recency_weight")?,
            score_threshold: number("score_threshold")?,
        })
    }
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
        ] {
            headers.insert(name, value.parse().unwrap());
        }
        let body = r#"{"messages":[],"memory_top_k":2,"memory_recency_weight":null}"#;
        let expected = Extras {
            session_id: "42".to_owned(),
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
        ] {
            assert_eq!(extras(&format!("{{{field}}}"), &HeaderMap::new()), Err(problem.to_owned()));
        }
    }
}
