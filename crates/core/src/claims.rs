//! The claims of a JSON Web Token that PostgREST has verified and handed on in `request.jwt.claims`.

use serde::Deserialize;
use thiserror::Error;

/// Why claims name no user.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ClaimsError {
    #[error("request.jwt.claims is not a JSON object")]
    NotAnObject,
    #[error("request.jwt.claims has no claim \"sub\" that is a string")]
    NoSubject,
}

#[derive(Deserialize)]
struct Claims {
    sub: Option<serde_json::Value>,
}

/// The claim `sub` (RFC 7519, section 4.1.2). It names a user only as a string: a number would become
/// another one in a reader that rounds.
///
/// # Errors
/// [`ClaimsError`]; the claims are not quoted.
pub fn subject(claims: &str) -> Result<String, ClaimsError> {
    let claims: Claims = serde_json::from_str(claims).map_err(|_| ClaimsError::NotAnObject)?;
    match claims.sub {
        Some(serde_json::Value::String(subject)) => Ok(subject),
        _ => Err(ClaimsError::NoSubject),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_names_the_user() {
        let claims = r#"{"role": "authenticated", "sub": "6c1f", "exp": 1e400, "x": {"sub": "y"}}"#;
        assert_eq!(subject(claims).as_deref(), Ok("6c1f"));
        assert_eq!(subject(r#"{"sub": "\u00e4 \""}"#).as_deref(), Ok("ä \""));
    }

    #[test]
    fn everything_else_names_nobody() {
        for claims in
            ["{}", r#"{"sub": null}"#, r#"{"sub": 7}"#, r#"{"sub": ["a"]}"#, r#"{"Sub": "a"}"#]
        {
            assert_eq!(subject(claims), Err(ClaimsError::NoSubject), "{claims}");
        }
        // Two subjects are refused: which one counts would depend on the reader.
        for claims in [
            "",
            "a",
            "null",
            "[]",
            r#"{"sub": "a""#,
            r#"{"sub": "a"} x"#,
            r#"{"sub":"a","sub":"b"}"#,
        ] {
            assert_eq!(subject(claims), Err(ClaimsError::NotAnObject), "{claims}");
        }
    }
}
