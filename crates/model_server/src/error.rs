//! What can go wrong while a model is loaded or run. Messages say which file or limit is meant
//! and never contain the text that was processed.

use std::path::PathBuf;

use thiserror::Error;

use crate::protocol::{ErrorCode, ModelKind, ProtocolError, Response};

/// Failure of an inference call.
#[derive(Debug, Clone, Error)]
pub enum InferenceError {
    #[error("cannot load ONNX Runtime from \"{}\": {reason}", path.display())]
    RuntimeMissing { path: PathBuf, reason: String },
    #[error("model \"{model}\": {reason}")]
    ModelMissing { model: String, reason: String },
    #[error("model \"{model}\": {reason}")]
    ModelInvalid { model: String, reason: String },
    #[error("model \"{model}\" is of kind {actual}, not {wanted}")]
    WrongKind { model: String, actual: ModelKind, wanted: ModelKind },
    #[error("model \"{model}\" returned a value that is not a finite number")]
    NotFinite { model: String },
    #[error("model \"{model}\" failed: {reason}")]
    RunFailed { model: String, reason: String },
    #[error("inference was cancelled")]
    Cancelled,
    #[error("internal error: {0}")]
    Internal(String),
}

impl InferenceError {
    /// The code under which the error travels to a client.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::RuntimeMissing { .. } => ErrorCode::RuntimeMissing,
            Self::ModelMissing { .. } => ErrorCode::ModelMissing,
            Self::ModelInvalid { .. } | Self::WrongKind { .. } | Self::NotFinite { .. } => {
                ErrorCode::ModelInvalid
            }
            Self::RunFailed { .. } | Self::Cancelled | Self::Internal(_) => ErrorCode::Internal,
        }
    }
}

/// Why a request is answered with an error.
#[derive(Debug)]
pub struct Failure {
    pub code: ErrorCode,
    pub message: String,
}

impl Failure {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl From<InferenceError> for Failure {
    fn from(error: InferenceError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

impl From<ProtocolError> for Failure {
    fn from(error: ProtocolError) -> Self {
        Self::new(ErrorCode::InvalidRequest, error.to_string())
    }
}

impl From<Failure> for Response {
    fn from(failure: Failure) -> Self {
        Self::Error { code: failure.code, message: failure.message }
    }
}
