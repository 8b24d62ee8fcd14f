//! What storing texts needs of the models, asked for before the database is touched: embeddings and
//! token counts, or what stands in for them.

use crate::memory::scope::active_model;
use crate::models::counting::{self, COUNTED_BYTES, EMBEDDED_BYTES};
use crate::models::{self, Prepared};
use crate::pg::prelude::*;
use crate::settings::{Content, EmbedOnIngest};
use crate::store::models::Kind;
use crate::store::rows::entries::NewEntry;
use crate::store::rows::lexemes::Lexemes;
use memory_agent_core::text::tokens;
use memory_agent_model_server::protocol::{ModelRef, Purpose};

/// Embeddings and token counts of texts, or what stands in for them.
pub struct Prepare {
    /// Of the first texts, each one's windows. Those of the others are to be made later.
    pub embeddings: Vec<Vec<Vec<f32>>>,
    token_counts: Vec<u32>,
    /// How many of the counts, from the first, are no estimates.
    exact_counts: usize,
    pub model: Option<ModelRef>,
    /// By which their words are indexed.
    pub configuration: String,
}

/// Asks the models for everything that storing these texts needs, in requests of a size that is answered well within
/// `memory_agent.inference_timeout`. A failure is a WARNING: the rows that are left are then stored without embeddings
/// and with estimated counts.
pub fn prepare(
    indexed_texts: Vec<String>,
    contents: Vec<String>,
    settings: &Content,
) -> PgResult<Prepare> {
    let (model, embed_now) = embedder(settings)?;
    let configuration = settings.text_search_config.clone();
    Ok(prepare_by(model, embed_now, indexed_texts, contents, configuration))
}

/// The model that is to embed what is stored now, and whether it is to do so at once.
pub fn embedder(settings: &Content) -> PgResult<(Option<ModelRef>, bool)> {
    let mode = settings.embed_on_ingest;
    let model = match mode {
        EmbedOnIngest::Off => None,
        _ => roles::read_as_owner(|spi| active_model::active(spi, Kind::Embedder))?,
    };
    Ok((model, mode == EmbedOnIngest::Sync))
}

/// As [`prepare`], by a model that is known already, for words that `configuration` makes. The database is not touched, so that the worker
/// can do this between two transactions. Where a job embeds later, it counts as well, and no caller waits for the
/// model server.
pub fn prepare_by(
    model: Option<ModelRef>,
    embed_now: bool,
    indexed_texts: Vec<String>,
    contents: Vec<String>,
    configuration: String,
) -> Prepare {
    let embeds_later = model.is_some() && !embed_now;
    let embed_now = model.as_ref().filter(|_| embed_now);
    let limit = if embed_now.is_some() { EMBEDDED_BYTES } else { COUNTED_BYTES };
    let mut embeddings = Vec::with_capacity(indexed_texts.len());
    let mut token_counts = Vec::with_capacity(contents.len());
    let mut start = if embeds_later { contents.len() } else { 0 };
    while start < contents.len() {
        let end = start + counting::in_one_request(&contents[start..], limit);
        let token_texts = contents[start..end].to_vec();
        let texts =
            if embed_now.is_some() { indexed_texts[start..end].to_vec() } else { Vec::new() };
        start = end;
        match models::current().prepare(embed_now, Purpose::Document, texts, token_texts) {
            Ok(Prepared { embeddings: some, token_counts: counts }) => {
                embeddings.extend(some);
                token_counts.extend(counts);
            }
            Err(failure) => {
                failure.warn("stored without embedding");
                break;
            }
        }
    }
    let exact_counts = token_counts.len();
    let rest = &contents[exact_counts..];
    token_counts.extend(rest.iter().map(|content| tokens::estimate_tokens(content)));
    Prepare { embeddings, token_counts, exact_counts, model, configuration }
}

impl Prepare {
    /// The windows of the text at `index`.
    pub fn embedding(&self, index: usize) -> Option<&[Vec<f32>]> {
        self.embeddings.get(index).map(Vec::as_slice)
    }

    /// The words of a text, and what they were made by.
    pub fn words(&self, spi: &Spi, text: &str) -> PgResult<(Lexemes, &str)> {
        Ok((Lexemes::index(spi, &self.configuration, text)?, self.configuration.as_str()))
    }

    /// The token count of the text at `index`.
    pub fn token_count(&self, index: usize) -> i32 {
        self.token_counts.get(index).map_or(0, |&count| i32::try_from(count).unwrap_or(i32::MAX))
    }

    /// The entry with what the models said of the text at `index`.
    pub fn complete<'a>(&'a self, index: usize, entry: NewEntry<'a>) -> NewEntry<'a> {
        NewEntry {
            token_count: self.token_count(index),
            // What has no text has no count that could be wrong.
            token_count_exact: !(self.exact_counts..self.token_counts.len()).contains(&index),
            embedding: self.embedding(index),
            embedding_model: self.model.as_ref().map(|model| model.name.as_str()),
            ..entry
        }
    }

    /// Whether rows stored with this need the embed job.
    pub fn needs_job(&self) -> bool {
        let texts = self.token_counts.len();
        (self.model.is_some() && self.embeddings.len() < texts) || self.exact_counts < texts
    }
}
