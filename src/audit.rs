//! The key with which summaries are signed: the first line of the file that
//! `memory_agent.audit_key_file` names. It is read for each signature, so it can be replaced without
//! a reload, and it is shown to nobody.

use crate::error::{Error, PgResult};
use crate::guc;
use memory_agent_core::signature;
use std::fmt;

/// A key for signatures.
pub struct Key(String);

impl Key {
    /// The configured key; `None` when no file is named.
    ///
    /// # Errors
    /// 58000 when the file cannot be read: what was to be signed must not go unsigned.
    pub fn configured() -> PgResult<Option<Self>> {
        let file = guc::audit_key_file();
        if file.is_empty() {
            return Ok(None);
        }
        const HINT: &str = "Make the file readable for the server's operating system user, with the key as its first line.";
        let text = std::fs::read_to_string(file).map_err(|error| {
            let problem = format!("memory_agent.audit_key_file cannot be read: {}", error.kind());
            Error::inference(problem, HINT)
        })?;
        match text.lines().next().map(str::trim) {
            Some(key) if !key.is_empty() => Ok(Some(Self(key.to_owned()))),
            _ => {
                Err(Error::inference("the file of memory_agent.audit_key_file is empty", HINT)
                    .into())
            }
        }
    }

    /// The key's name, by which a signature says with which key it was made.
    pub fn id(&self) -> String {
        signature::key_id(self.0.as_bytes())
    }

    /// The signature of a message in hexadecimal digits.
    pub fn sign(&self, message: &str) -> String {
        signature::sign(self.0.as_bytes(), message)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}
