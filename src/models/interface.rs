//! What can be asked of the models, and why there is no answer.

use super::paths;
use crate::pg::error::{Error, ErrorReport, warn};
use crate::pg::sql_types::Vector;
use memory_agent_model_server::protocol::{
    Encoding, ErrorCode, ModelDescription, ModelRef, Purpose,
};

/// Embeddings and token counts of the texts of one call.
pub struct Prepared {
    /// Per text its windows, at least one.
    pub embeddings: Vec<Vec<Vec<f32>>>,
    /// Per token text its number of cl100k tokens.
    pub token_counts: Vec<u32>,
}

impl Prepared {
    /// The first window of each text: its embedding.
    pub fn first_windows(self) -> impl Iterator<Item = Vector> {
        self.embeddings.into_iter().filter_map(|windows| windows.into_iter().next().map(Vector))
    }
}

/// Why inference failed.
#[derive(Clone, Debug)]
pub struct Failure {
    pub message: String,
    pub hint: &'static str,
    /// The models answer nothing at all: another request would fail as well.
    pub is_outage: bool,
    /// The same request may succeed later.
    pub may_pass: bool,
    /// It may be due to this request alone, to its size or to a text in it: a smaller one may succeed.
    pub may_be_own: bool,
    /// The request was sent and its answer is lost: it may have been carried out.
    pub was_sent: bool,
}

impl Failure {
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: "See SELECT * FROM memory_status() for the state of the model server.",
            is_outage: true,
            may_pass: true,
            may_be_own: false,
            was_sent: false,
        }
    }

    pub fn of(code: ErrorCode, message: String) -> Self {
        let hint = match code {
            ErrorCode::Busy => {
                "Too many requests at once: try again, or raise memory_agent.inference_threads."
            }
            ErrorCode::ModelMissing | ErrorCode::ModelInvalid => {
                "Check memory_agent.model_dir and the files of the model, then memory_status()."
            }
            ErrorCode::RuntimeMissing => {
                "Install the ONNX Runtime library or set memory_agent.onnxruntime_path."
            }
            ErrorCode::InvalidRequest => {
                "Send less text in one call, or another text if an endpoint refuses this one."
            }
            ErrorCode::Version => {
                "Restart the server: library and model server are of different versions."
            }
            ErrorCode::RemoteUnavailable => {
                "Check memory_agent.embedding_base_url and its key, then memory_status()."
            }
            ErrorCode::Timeout => {
                "Raise memory_agent.inference_timeout, or send less text in one call."
            }
            ErrorCode::Internal => "See the server log.",
        };
        Self {
            message,
            hint,
            is_outage: matches!(code, ErrorCode::RuntimeMissing | ErrorCode::Version),
            may_pass: !matches!(code, ErrorCode::InvalidRequest),
            may_be_own: matches!(
                code,
                ErrorCode::InvalidRequest | ErrorCode::Internal | ErrorCode::Timeout
            ),
            was_sent: false,
        }
    }

    /// Tells the user, once in a call, that the call went on without inference.
    pub fn warn(&self, consequence: &str) {
        let message = paths::without_secret_places(&self.message);
        warn(format!("{consequence}: {message}"), self.hint);
    }
}

/// The failure as an ERROR, for functions whose only purpose is inference.
impl From<Failure> for ErrorReport {
    fn from(failure: Failure) -> Self {
        Error::inference(paths::without_secret_places(&failure.message), failure.hint)
    }
}

/// What can be asked of the models. Every call may raise an ERROR only for an interrupt.
pub trait Models {
    /// Embeds `texts` and counts the tokens of `token_texts`. Without a model, only counts.
    fn prepare(
        &self,
        model: Option<&ModelRef>,
        purpose: Purpose,
        texts: Vec<String>,
        token_texts: Vec<String>,
    ) -> Result<Prepared, Failure>;

    /// One count of tokens per text.
    fn count(&self, encoding: Encoding, texts: Vec<String>) -> Result<Vec<u32>, Failure>;

    /// One score per document. `None` if too many others rerank.
    ///
    /// * `waits`: whether it waits however many others do.
    fn rerank(
        &self,
        model: &ModelRef,
        query: &str,
        documents: Vec<String>,
        waits: bool,
    ) -> Result<Option<Vec<f32>>, Failure>;

    /// Loads the model and says what it is.
    fn describe(&self, model: &ModelRef) -> Result<ModelDescription, Failure>;
}
