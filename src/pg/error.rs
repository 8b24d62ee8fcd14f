//! The errors a user can meet, with their SQLSTATE and hint. Every function of `api/` returns
//! `Result<_, Error>`-like values through [`PgResult`]; nothing else decides on error codes.

use memory_agent_core::filter::FilterError;
use memory_agent_core::markers::MarkerError;
use memory_agent_core::text::TextError;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::PgSqlErrorCode;
use thiserror::Error;

/// What a `#[pg_extern]` returns: an [`ErrorReport`] keeps its SQLSTATE and hint.
pub type PgResult<T> = Result<T, ErrorReport>;

/// An error with a meaning of its own. The message says what is wrong, the hint what to do.
#[derive(Debug, Error)]
pub enum Error {
    /// An argument is outside of what the function accepts (22023).
    #[error("{message}")]
    InvalidArgument { message: String, hint: String },
    /// The caller may not do this, or not as this user (42501).
    #[error("{message}")]
    NotPermitted { message: String, hint: String },
    /// A named object does not exist (42704).
    #[error("{message}")]
    UndefinedObject { message: String, hint: String },
    /// A model, its files or the inference runtime cannot be used (58000, a system error).
    #[error("{message}")]
    Inference { message: String, hint: String },
    /// Something that is only possible outside of recovery or a read-only transaction (25006).
    #[error("{message}")]
    ReadOnly { message: String, hint: String },
    /// Something that needs a configuration or a state that is not there (55000).
    #[error("{message}")]
    NotReady { message: String, hint: String },
    /// Something that cannot work here at all (0A000).
    #[error("{message}")]
    Unsupported { message: String, hint: String },
    /// Something that cannot be done in this transaction (25001).
    #[error("{message}")]
    ActiveTransaction { message: String, hint: String },
    /// What others did meanwhile stands against it; again, it may go well (40001).
    #[error("{message}")]
    Conflict { message: String, hint: String },
    /// A state that cannot be reached unless the tables were edited by hand (XX000).
    #[error("{message}")]
    Internal { message: String, hint: String },
}

impl Error {
    pub fn invalid(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::InvalidArgument { message: message.into(), hint: hint.into() }
    }

    pub fn not_permitted(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::NotPermitted { message: message.into(), hint: hint.into() }
    }

    pub fn undefined(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::UndefinedObject { message: message.into(), hint: hint.into() }
    }

    pub fn inference(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Inference { message: message.into(), hint: hint.into() }
    }

    pub fn read_only(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::ReadOnly { message: message.into(), hint: hint.into() }
    }

    pub fn not_ready(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::NotReady { message: message.into(), hint: hint.into() }
    }

    pub fn unsupported(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Unsupported { message: message.into(), hint: hint.into() }
    }

    pub fn active_transaction(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::ActiveTransaction { message: message.into(), hint: hint.into() }
    }

    pub fn conflict(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Conflict { message: message.into(), hint: hint.into() }
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::Internal { message: message.into(), hint: String::new() }
    }

    fn parts(&self) -> (PgSqlErrorCode, &str) {
        match self {
            Self::InvalidArgument { hint, .. } => {
                (PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE, hint)
            }
            Self::NotPermitted { hint, .. } => {
                (PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE, hint)
            }
            Self::UndefinedObject { hint, .. } => (PgSqlErrorCode::ERRCODE_UNDEFINED_OBJECT, hint),
            Self::Inference { hint, .. } => (PgSqlErrorCode::ERRCODE_SYSTEM_ERROR, hint),
            Self::ReadOnly { hint, .. } => {
                (PgSqlErrorCode::ERRCODE_READ_ONLY_SQL_TRANSACTION, hint)
            }
            Self::NotReady { hint, .. } => {
                (PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, hint)
            }
            Self::Unsupported { hint, .. } => (PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED, hint),
            Self::ActiveTransaction { hint, .. } => {
                (PgSqlErrorCode::ERRCODE_ACTIVE_SQL_TRANSACTION, hint)
            }
            Self::Conflict { hint, .. } => {
                (PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE, hint)
            }
            Self::Internal { hint, .. } => (PgSqlErrorCode::ERRCODE_INTERNAL_ERROR, hint),
        }
    }
}

impl From<Error> for ErrorReport {
    fn from(error: Error) -> Self {
        let (code, hint) = error.parts();
        let report = ErrorReport::new(code, error.to_string(), "memory_agent");
        if hint.is_empty() { report } else { report.set_hint(hint) }
    }
}

impl From<TextError> for Error {
    fn from(error: TextError) -> Self {
        let hint = match &error {
            TextError::ContentTooLong { .. } => {
                "Split the text, or raise memory_agent.max_content_bytes in postgresql.conf."
            }
            _ => "See the COMMENT of the function for what its arguments accept.",
        };
        Self::invalid(error.to_string(), hint)
    }
}

impl From<MarkerError> for Error {
    fn from(error: MarkerError) -> Self {
        Self::invalid(
            error.to_string(),
            "Markers are decision, constraint, failure, goal, or custom:NAME.",
        )
    }
}

impl From<FilterError> for Error {
    fn from(error: FilterError) -> Self {
        Self::invalid(
            error.to_string(),
            "Example: {\"metadata\": {\"project\": \"x\"}, \"role\": [\"user\"], \
             \"created_after\": \"2026-01-31\"}.",
        )
    }
}
