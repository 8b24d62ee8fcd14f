//! The errors a user can meet, with their SQLSTATE and hint: nothing else in Rust decides on
//! error codes. A few functions of `sql/schema` raise their own.

use memory_agent_core::rank::filter::FilterError;
use memory_agent_core::text::entry::TextError;
use memory_agent_core::text::ids;
use memory_agent_core::text::markers::MarkerError;
pub use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::{PgLogLevel, PgSqlErrorCode};
use std::fmt::Display;

/// What a `#[pg_extern]` returns: an [`ErrorReport`] keeps its SQLSTATE and hint.
pub type PgResult<T> = Result<T, ErrorReport>;

/// Makes errors. The message says what is wrong, the hint what to do. Each kind has a constructor, named by its
/// SQLSTATE's condition where that says enough.
pub struct Error;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $code:ident;)*) => {
        impl Error {
            $($(#[$doc])*
            pub fn $name(message: impl Into<String>, hint: impl Into<String>) -> ErrorReport {
                report(PgSqlErrorCode::$code, message).set_hint(hint)
            })*
        }
    };
}

kinds! {
    /// An argument is outside of what the function accepts (22023).
    invalid = ERRCODE_INVALID_PARAMETER_VALUE;
    /// An argument that must have a value is NULL (22004).
    null = ERRCODE_NULL_VALUE_NOT_ALLOWED;
    /// The caller may not do this, or not as this user (42501).
    not_permitted = ERRCODE_INSUFFICIENT_PRIVILEGE;
    /// A named object does not exist (42704).
    undefined = ERRCODE_UNDEFINED_OBJECT;
    /// A table has no column of this name (42703).
    undefined_column = ERRCODE_UNDEFINED_COLUMN;
    /// There is an object of this name (42710).
    duplicate = ERRCODE_DUPLICATE_OBJECT;
    /// A stored row has this id, key or source already (23505).
    taken = ERRCODE_UNIQUE_VIOLATION;
    /// The named object is of another kind than the function works with (42809).
    wrong_object = ERRCODE_WRONG_OBJECT_TYPE;
    /// A column has a type that the function does not work with (42804).
    wrong_type = ERRCODE_DATATYPE_MISMATCH;
    /// A model, its files, the inference runtime or the LLM cannot be used (58000, a system error).
    inference = ERRCODE_SYSTEM_ERROR;
    /// A file that a setting names cannot be used (F0000).
    configuration = ERRCODE_CONFIG_FILE_ERROR;
    /// What is to be stored has a secret, and secrets are refused (23514).
    secret = ERRCODE_CHECK_VIOLATION;
    /// Something that is only possible outside of recovery or a read-only transaction (25006).
    read_only = ERRCODE_READ_ONLY_SQL_TRANSACTION;
    /// Something that needs a configuration or a state that is not there (55000).
    not_ready = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE;
    /// Something that cannot work here at all (0A000).
    unsupported = ERRCODE_FEATURE_NOT_SUPPORTED;
    /// Something that cannot be done in this transaction (25001).
    active_transaction = ERRCODE_ACTIVE_SQL_TRANSACTION;
    /// PostgreSQL has no slot left for a background worker (53000).
    no_slot = ERRCODE_INSUFFICIENT_RESOURCES;
    /// A user has used up a quota (53400).
    over_quota = ERRCODE_CONFIGURATION_LIMIT_EXCEEDED;
    /// A concurrent transaction stands against it; a retry may succeed (40001).
    conflict = ERRCODE_T_R_SERIALIZATION_FAILURE;
}

impl Error {
    /// A state that cannot be reached unless the tables were edited by hand (XX000).
    pub fn internal(message: impl Into<String>) -> ErrorReport {
        report(PgSqlErrorCode::ERRCODE_INTERNAL_ERROR, message)
    }

    /// The core crate refuses an argument (22023).
    pub fn refused(reason: impl Refusal) -> ErrorReport {
        Self::invalid(reason.to_string(), reason.hint())
    }
}

fn report(code: PgSqlErrorCode, message: impl Into<String>) -> ErrorReport {
    ErrorReport::new(code, message.into(), "memory_agent")
}

/// The five characters of an SQLSTATE, which PostgreSQL packs into six bits each.
pub fn sqlstate(code: PgSqlErrorCode) -> String {
    (0..5).map(|place| char::from(b'0' + ((code as i32 >> (6 * place)) & 0x3f) as u8)).collect()
}

/// Tells the caller (01000) that a statement goes on without something.
pub fn warn(message: impl Into<String>, hint: impl Into<String>) {
    report(PgSqlErrorCode::ERRCODE_WARNING, message).set_hint(hint).report(PgLogLevel::WARNING);
}

/// Why the core crate refuses an argument.
pub trait Refusal: Display {
    fn hint(&self) -> &'static str;
}

impl Refusal for TextError {
    fn hint(&self) -> &'static str {
        match self {
            Self::ContentTooLong { .. } => {
                "Split the text, or raise memory_agent.max_content_bytes (in postgresql.conf, or what memory_configure stored)."
            }
            Self::SessionId(_) => ids::HINT,
            Self::EmptyContent => "Leave out messages without text.",
            Self::Nul => "Take the character out of the text.",
            Self::UnknownRole(_) => {
                "What the person says has the role user, what the model says assistant, a fact memory."
            }
        }
    }
}

impl Refusal for MarkerError {
    fn hint(&self) -> &'static str {
        "Markers are decision, constraint, failure, goal, or custom:NAME."
    }
}

impl Refusal for FilterError {
    fn hint(&self) -> &'static str {
        "Example: {\"metadata\": {\"project\": \"x\"}, \"role\": [\"user\"], \
         \"created_after\": \"2026-01-31\"}."
    }
}
