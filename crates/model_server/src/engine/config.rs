//! The settings of a model: what its graph computes and how its input has to be prepared. They come
//! from `config.json`; what that leaves out is taken from the files that a folder published on a
//! model hub has anyway, see `hub_files.rs`. Fields that only ranking uses, such as similarity
//! thresholds, are ignored here.

use std::ops::RangeInclusive;
use std::path::Path;

use serde::Deserialize;

use crate::engine::defects::Defects;
use crate::engine::fields::Fields;
use crate::engine::head::Layer;
use crate::engine::hub_files::HubFiles;
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
#[derive(Debug, Clone)]
pub struct ModelConfig {
    /// `None` if the files do not say: then it may have any.
    pub name: Option<String>,
    pub kind: ModelKind,
    /// Length of the embeddings; `None` if only the graph says it.
    pub dimension: Option<u32>,
    /// `None` if the graph itself returns one row per text.
    pub pooling: Option<Pooling>,
    /// Whether `pooling` is what config.json asks for. Otherwise it is what has to be done unless
    /// the graph does it.
    pub pooling_is_set: bool,
    /// What has to be done after pooling.
    pub layers: Vec<Layer>,
    /// Whether embeddings are scaled to length 1.
    pub normalize: bool,
    /// Put before a question.
    pub query_prefix: String,
    /// Put before every window of a document.
    pub document_prefix: String,
    /// Longest sequence the graph takes, in its own tokens, special tokens included.
    pub max_tokens: usize,
}

/// Limits of `max_tokens`: below, windows and their overlap would not fit; above, one sequence
/// would hold a thread for minutes (attention is quadratic in the length).
const MAX_TOKENS_RANGE: RangeInclusive<usize> = 128..=8192;

impl ModelConfig {
    /// Reads and checks the settings of the model in a directory.
    ///
    /// # Errors
    /// [`InferenceError::ModelMissing`] if a file cannot be read, [`InferenceError::ModelInvalid`]
    /// if they are incomplete or wrong, or of another model.
    pub fn load(reference: &ModelRef) -> Result<Self, InferenceError> {
        let mut defects = Defects::default();
        match Self::read(reference, &mut defects) {
            Some(config) if defects.is_empty() => Ok(config),
            _ => Err(defects.into_error(reference)),
        }
    }

    /// The reference to the model in a directory, by the name its configuration or else the
    /// directory gives.
    #[must_use]
    pub fn reference(directory: &Path) -> ModelRef {
        let defects = &mut Defects::default();
        let own = Fields::required(directory, "config.json", defects);
        let name = own.and_then(|own| own.get("name", defects)).unwrap_or_else(|| {
            directory.file_name().unwrap_or_default().to_string_lossy().into_owned()
        });
        ModelRef { name, directory: directory.to_string_lossy().into_owned(), remote: None }
    }

    /// Whether the model may go by that name.
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        self.name.as_ref().is_none_or(|own| own == name)
    }

    /// Reads the settings. What is wrong goes to `defects`, and then what is returned is good
    /// enough to look for more.
    pub(crate) fn read(reference: &ModelRef, defects: &mut Defects) -> Option<Self> {
        let directory = Path::new(&reference.directory);
        let own = Fields::required(directory, "config.json", defects)?;
        let published = HubFiles::read(directory, &own, defects);
        let name: Option<String> = own.get("name", defects);
        if let Some(name) = name.as_ref().filter(|name| **name != reference.name) {
            defects.add(
                format_args!("the folder holds the model \"{name}\""),
                "register it under that name, or change \"name\" in config.json",
            );
        }
        let kind = own.get("kind", defects).or(published.kind);
        if kind.is_none() && own.lacks("kind") {
            defects.add(
                "no file says what kind of model it is",
                "write \"kind\": \"embedder\" or \"kind\": \"reranker\" into config.json",
            );
        }
        let max_tokens = own.get("max_tokens", defects).or(published.max_tokens);
        match max_tokens {
            Some(tokens) if !MAX_TOKENS_RANGE.contains(&tokens) => defects.add(
                format_args!("max_tokens {tokens} is not within {MAX_TOKENS_RANGE:?}"),
                "write another one into config.json",
            ),
            Some(tokens) if published.positions.is_some_and(|positions| tokens > positions) => {
                defects.add(
                    format_args!("max_tokens {tokens} is more than the model has positions for"),
                    "write a smaller one into config.json",
                );
            }
            None if own.lacks("max_tokens") => defects.add(
                "no file says how many tokens the model takes",
                "write \"max_tokens\" into config.json, for example 512",
            ),
            _ => {}
        }
        let pooling_is_set = own.names("pooling");
        let pooling = own.get("pooling", defects).or(published.pooling);
        let mut prefix = |field, published: Option<String>| {
            own.get(field, defects).or(published).unwrap_or_default()
        };
        let query_prefix = prefix("query_prefix", published.query_prefix);
        let document_prefix = prefix("document_prefix", published.document_prefix);
        let dimension = own.get("dimension", defects);
        let normalize = own.get("normalize", defects).unwrap_or(true);
        Some(Self {
            name,
            kind: kind?,
            dimension,
            pooling,
            pooling_is_set,
            layers: published.layers,
            normalize,
            query_prefix,
            document_prefix,
            // Any other is a defect by now.
            max_tokens: max_tokens
                .unwrap_or_default()
                .clamp(*MAX_TOKENS_RANGE.start(), *MAX_TOKENS_RANGE.end()),
        })
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
