//! The chunks of a document or archived conversation: cut, embedded and counted before the database
//! is touched, then stored as entries of kind `document`.

use crate::memory::prelude::*;
use crate::memory::quotas;
use crate::memory::texts::follow_ups;
use crate::memory::texts::prepare::{Prepare, prepare_by};
use crate::memory::texts::turn::indexed_text;
use crate::models::counting;
use crate::pg::memory_context::scratch;
use crate::settings::Effective;
use crate::store::rows::entries::{self, FactsFrom, NewEntry};
use memory_agent_core::condense::chunk::{self, Chunk, Limits};
use memory_agent_core::text::tokens;
use serde_json::Map;
use std::convert::Infallible;

/// What stands between a title and the headings below it.
const HEADING_SEPARATOR: &str = " / ";

/// The chunks of one document, ready to be stored.
pub struct Chunks {
    pub chunks: Vec<Chunk>,
    /// Per chunk what it adds to its document's metadata.
    pub keys: Vec<Map<String, Value>>,
    pub prepared: Prepare,
}

/// A text to be cut.
pub struct Uncut<'a> {
    pub content: &'a str,
    pub title: Option<&'a str>,
    /// The caller's own.
    pub metadata: &'a JsonbText,
    /// Whether each chunk is embedded and indexed under the title and the headings that stand above
    /// it, as a turn is under its speaker's name: "it" in the middle of a chapter says little.
    pub is_headed: bool,
}

/// Cuts a text and asks the models for everything that storing its chunks needs. A failure is a
/// WARNING: the chunks are then stored without embeddings and with estimated counts.
pub fn prepare_chunks(
    text: &Uncut<'_>,
    limits: Limits,
    model: Option<ModelRef>,
    embed_now: bool,
    configuration: String,
) -> Chunks {
    let chunks = cut(text.content, limits);
    let keys: Vec<Map<String, Value>> = chunks
        .iter()
        .enumerate()
        .map(|(index, chunk)| {
            let mut keys = Map::new();
            keys.insert("ordinal".into(), json!(index + 1));
            keys.insert("granularity".into(), json!(chunk.granularity.as_str()));
            keys.insert("headings".into(), json!(chunk.headings));
            let above = if text.is_headed { above(text.title, chunk) } else { String::new() };
            if !above.is_empty() {
                keys.insert("name".into(), json!(above));
            }
            keys
        })
        .collect();
    let contents: Vec<String> = chunks.iter().map(|chunk| chunk.text.clone()).collect();
    let indexed = contents
        .iter()
        .zip(&keys)
        .map(|(content, keys)| indexed_text(content, &text.metadata.with_keys(keys.clone())))
        .collect();
    let prepared = prepare_by(model, embed_now, indexed, contents, configuration);
    Chunks { chunks, keys, prepared }
}

/// Cuts by counted tokens, by estimated ones while the tokeniser is unavailable; that is said by
/// [`prepare_by`], which asks it next.
fn cut(content: &str, limits: Limits) -> Vec<Chunk> {
    let counted = chunk::chunks(content, limits, &mut counting::count);
    counted.unwrap_or_else(|_| {
        let estimated = chunk::chunks(content, limits, &mut |texts: &[String]| {
            Ok::<_, Infallible>(texts.iter().map(|text| tokens::estimate_tokens(text)).collect())
        });
        match estimated {
            Ok(chunks) => chunks,
        }
    })
}

/// What stands above a chunk: the title, and the headings that the chunk does not show itself.
fn above(title: Option<&str>, chunk: &Chunk) -> String {
    let shows = |heading: &str| {
        chunk.text.lines().any(|line| line.trim_start_matches('#').trim() == heading)
    };
    let headings = chunk.headings.iter().map(String::as_str).filter(|heading| !shows(heading));
    title.into_iter().chain(headings).collect::<Vec<_>>().join(HEADING_SEPARATOR)
}

/// What the chunks of one document have in common.
pub struct Parent<'a> {
    pub scope: FactScope<'a>,
    /// The document's own metadata.
    pub metadata: &'a JsonbText,
    /// The document, its type and its title: what each chunk's metadata says of it beside that.
    pub id: Uuid,
    pub doc_type: &'a str,
    pub title: Option<&'a str>,
    /// Event time of the chunks.
    pub at: TimestampWithTimeZone,
    pub source_relation: Option<&'static str>,
}

/// Stores the chunks of a document, and queues their embedding if they have none.
pub fn insert_chunks(
    spi: &Spi,
    parent: &Parent<'_>,
    chunks: &Chunks,
    settings: &Effective,
) -> PgResult<()> {
    let prepared = &chunks.prepared;
    let mut common = Map::new();
    common.insert("parent_id".into(), json!(parent.id.to_string()));
    common.insert("doc_type".into(), json!(parent.doc_type));
    common.extend(parent.title.map(|title| ("title".to_owned(), json!(title))));
    for (index, chunk) in chunks.chunks.iter().enumerate() {
        let mut keys = chunks.keys.get(index).cloned().unwrap_or_default();
        keys.extend(common.clone());
        let metadata = parent.metadata.with_keys(keys);
        scratch(|| {
            let text = indexed_text(&chunk.text, &metadata);
            let words = prepared.words(spi, &text)?;
            let (id, scope, text) = (entries::new_id(), &parent.scope, &chunk.text);
            let entry = NewEntry::new(id, scope, "document", "memory", text, words, parent.at);
            let entry = NewEntry {
                metadata,
                facts_from: FactsFrom::Nothing,
                source_relation: parent.source_relation,
                ..prepared.complete(index, entry)
            };
            entries::insert(spi, entry)
        })?;
        pgrx::check_for_interrupts!();
    }
    if prepared.needs_job() {
        follow_ups::queue_embedding(spi, &parent.scope, settings)?;
    }
    match parent.source_relation {
        // They repeat turns, and do not count.
        Some(_) => Ok(()),
        None => quotas::check(spi, parent.scope.user_id),
    }
}
