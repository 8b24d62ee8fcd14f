//! `config.json` of a model: what the graph computes and how its input has to be prepared.
//! Fields that only ranking uses, such as similarity thresholds, are ignored here.

use std::fs;
use std::io;
use std::path::Path;

use serde::Deserialize;

use crate::error::InferenceError;
use crate::protocol::{ModelKind, ModelRef, Purpose};

/// How the vectors of a text's tokens become one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// The vector of the first token (BERT's `[CLS]`).
    Cls,
    /// The mean over all tokens, special tokens included (as sentence-transformers does).
    Mean,
}

/// The settings of one model.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ModelConfig {
    pub name: String,
    pub kind: ModelKind,
    /// Length of the embeddings; required for an embedder.
    #[serde(default)]
    pub dimension: Option<u32>,
    /// `None` if the graph itself returns one vector per text.
    #[serde(default)]
    pub pooling: Option<Pooling>,
    /// Whether embeddings are scaled to length 1.
    #[serde(default = "default_normalize")]
    pub normalize: bool,
    /// Put before a question.
    #[serde(default)]
    pub query_prefix: String,
    /// Put before every window of a document.
    #[serde(default)]
    pub document_prefix: String,
    /// Longest sequence the graph takes, in its own tokens, special tokens included.
    pub max_tokens: usize,
}

fn default_normalize() -> bool {
    true
}

/// Limits of `max_tokens`: below, windows and their overlap would not fit; above, one sequence
/// would hold a thread for minutes (attention is quadratic in the length).
const MAX_TOKENS_RANGE: std::ops::RangeInclusive<usize> = 128..=8192;

impl ModelConfig {
    /// Reads and checks `directory/config.json`.
    ///
    /// # Errors
    /// [`InferenceError::ModelMissing`] if the file cannot be read,
    /// [`InferenceError::ModelInvalid`] if it is no configuration, or of another model.
    pub fn load(reference: &ModelRef) -> Result<Self, InferenceError> {
        let config = Self::read(&reference.name, Path::new(&reference.directory))?;
        if config.name == reference.name {
            return Ok(config);
        }
        Err(InferenceError::ModelInvalid {
            model: reference.name.clone(),
            reason: format!("\"{}\" holds the model \"{}\"", reference.directory, config.name),
        })
    }

    /// The reference to the model in a directory, by the name its configuration gives.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn reference(directory: &Path) -> Result<ModelRef, InferenceError> {
        let directory_text = directory.to_string_lossy().into_owned();
        let name = Self::read(&directory_text, directory)?.name;
        Ok(ModelRef { name, directory: directory_text, remote: None })
    }

    /// Reads and checks a configuration; `label` names the model in errors.
    fn read(label: &str, directory: &Path) -> Result<Self, InferenceError> {
        let path = directory.join("config.json");
        let text = fs::read_to_string(&path).map_err(|error| unreadable(label, &path, &error))?;
        let invalid = |reason: String| InferenceError::ModelInvalid {
            model: label.to_owned(),
            reason: format!("\"{}\": {reason}", path.display()),
        };
        let config: Self =
            serde_json::from_str(&text).map_err(|error| invalid(error.to_string()))?;
        if !MAX_TOKENS_RANGE.contains(&config.max_tokens) {
            return Err(invalid(format!(
                "max_tokens {} is not within {} and {}",
                config.max_tokens,
                MAX_TOKENS_RANGE.start(),
                MAX_TOKENS_RANGE.end()
            )));
        }
        if config.kind == ModelKind::Embedder && config.dimension.unwrap_or(0) == 0 {
            return Err(invalid("an embedder needs a dimension".to_owned()));
        }
        Ok(config)
    }

    /// The text put before a text of that purpose.
    #[must_use]
    pub fn prefix(&self, purpose: Purpose) -> &str {
        match purpose {
            Purpose::Query => &self.query_prefix,
            Purpose::Document => &self.document_prefix,
        }
    }
}

/// The error for a model file that cannot be read.
pub(crate) fn unreadable(model: &str, path: &Path, error: &io::Error) -> InferenceError {
    InferenceError::ModelMissing {
        model: model.to_owned(),
        path: path.to_owned(),
        reason: error.to_string(),
    }
}
