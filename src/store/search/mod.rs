//! Recall's candidates: for every row of the scope that matters, its cosine similarity and its exact
//! BM25 score. Small scopes are read once from end to end; large ones through the indexes.

pub mod candidate_details;
pub mod index_search;
pub mod nearest;
pub mod neighbors;
pub mod vector_index;

use crate::store::prelude::*;
use crate::store::rows::counts::estimated_entries;
use crate::store::rows::lexemes::{self, Lexemes};
use crate::store::rows::scope::{Layer, Scope, ScopeSql, bind};
use crate::store::rows::{entry_windows, forms, text_search};
use crate::store::search::index_search::through_indexes;
use crate::store::search::nearest::totals;
use memory_agent_core::rank::bm25::Bm25;
use memory_agent_core::rank::bm25::{LexicalMatch, LexicalScores, score_matches};
use memory_agent_core::rank::neighbors::{Placed, blend_with_neighbors};
use memory_agent_core::text::lexical::{PlacedLexeme, Term, Terms};
use std::collections::HashMap;

/// Rows fetched from a cursor at a time.
pub const BATCH: usize = 1000;
/// A query has at most this many distinct words, and bytes of them; the rest of a very long one is
/// not searched (a tsquery holds 1 MiB).
const MAX_TERMS: usize = 512;
const MAX_TERM_BYTES: usize = 256 * 1024;

/// One number per session: rows of the same session are neighbours in time. A session lies within one
/// part of a scope, so the part stands for its user.
const SESSION_KEY: &str = "CASE WHEN e.session_id IS NOT NULL \
    THEN hashtextextended(e.session_id, hashtextextended(e.agent_id, {part})) END";

/// What is searched for.
pub struct Query<'a> {
    pub text: &'a str,
    /// Further wordings of the same question; their words are searched too.
    pub rewrites: &'a [String],
    /// The query's embeddings, one per wording; empty for lexical recall only.
    pub embeddings: Vec<Vector>,
    pub embedding_model: Option<&'a str>,
    /// Rows wanted from each arm, of each layer of the scope.
    pub limit: usize,
    /// Rows to be included, if they are in the scope, whatever the arms say of them.
    pub included: &'a [Uuid],
}

/// A row of the scope with what the arms say of it; rows that neither knows are not ranked.
#[derive(Clone, Copy)]
pub struct FoundRow {
    pub id: Uuid,
    pub layer: Layer,
    /// Cosine similarity of the entry itself.
    pub similarity: Option<f64>,
    /// The same with a share of its neighbours' similarity: what is ranked.
    pub dense: Option<f64>,
    pub lexical: Option<f64>,
}

words! {
    /// How the candidates were found.
    pub enum Mode {
        /// The whole scope was read.
        Exact = "exact",
        /// The vector index and the lexeme index were asked.
        Index = "index",
        /// The vector index gave too few rows, so the dense arm was exact after all.
        IndexThenExact = "index, dense exact",
    }
}

/// The candidates of one recall.
pub struct Found {
    pub rows: Vec<FoundRow>,
    pub mode: Mode,
    /// Rows in the scope, found or not.
    pub documents: u64,
    /// Rows with at least one word of the query.
    pub lexical_matches: usize,
    /// No BM25 score is above this.
    pub lexical_bound: f64,
}

/// Searches a scope.
pub fn candidates(spi: &Spi, scope: &Scope, query: &Query<'_>) -> PgResult<Found> {
    let vector = catalog::vector_type()?;
    let terms = terms(spi, scope, query)?;
    let limit = scope.search.exact_scan_rows;
    if estimated_entries(spi)? <= limit as i64
        && let Some(found) = exact(spi, scope, query, &terms, &vector, limit)?
    {
        return Ok(found);
    }
    let totals = totals(spi, scope)?;
    let documents: u64 = totals.iter().map(|part| part.documents).sum();
    if documents <= limit as u64
        && let Some(found) = exact(spi, scope, query, &terms, &vector, limit)?
    {
        return Ok(found);
    }
    through_indexes(spi, scope, query, &terms, &vector, &totals)
}

/// The words of the query and its rewrites, as all configurations know them by which the user's memory is
/// indexed.
fn terms(spi: &Spi, scope: &Scope, query: &Query<'_>) -> PgResult<Vec<Term>> {
    let own = scope.search.text_search_config.as_str();
    let mut others = text_search::of_users(spi, &scope.caller.visible())?;
    others.push(scope.search.server_text_search_config.clone());
    others.sort();
    others.dedup();
    others.retain(|other| other != own);
    let configurations: Vec<&str> =
        std::iter::once(own).chain(others.iter().map(String::as_str)).collect();
    let mut terms = Terms::within(MAX_TERMS, MAX_TERM_BYTES);
    for text in std::iter::once(query.text).chain(query.rewrites.iter().map(String::as_str)) {
        let placed = |configuration: &str| -> PgResult<Vec<PlacedLexeme>> {
            Ok(Lexemes::index(spi, configuration, text)?.placed())
        };
        let of_others: Vec<_> =
            others.iter().map(|other| placed(other)).collect::<PgResult<_>>()?;
        terms.add(placed(own)?, &of_others);
        forms::add_words(spi, &mut terms, &configurations, text)?;
    }
    Ok(terms.into_vec())
}

/// The expression that every dense arm shares, its parameters bound: the smallest distance of the row's
/// embedding to any wording of the query, NULL without one.
pub fn distance(sql: &mut ScopeSql, row: &str, query: &Query<'_>, vector: &VectorType) -> String {
    let (Some(model), false) = (query.embedding_model, query.embeddings.is_empty()) else {
        return "NULL::float8".into();
    };
    let model = bind(&mut sql.params, model.to_owned());
    let operator = vector.cosine_distance();
    let mut to = |embedding: &Vector| {
        format!("{row}.embedding {operator} {}", bind(&mut sql.params, embedding.clone()))
    };
    let distances: Vec<String> = query.embeddings.iter().map(&mut to).collect();
    let nearest = match distances.as_slice() {
        [only] => only.clone(),
        several => format!("least({})", several.join(", ")),
    };
    format!("CASE WHEN {row}.embedding_model = {model} THEN {nearest} END")
}

pub fn bind_terms(sql: &mut ScopeSql, terms: &[Term]) -> PgResult<Option<String>> {
    if terms.is_empty() {
        return Ok(None);
    }
    let params = std::mem::take(&mut sql.params);
    sql.params = params.raw(pg_sys::TSQUERYOID, Some(lexemes::any_of(terms)?));
    Ok(Some(format!("${}", sql.params.len())))
}

/// Reads the whole scope once. `None` when it turns out to be larger than `limit`.
fn exact(
    spi: &Spi,
    scope: &Scope,
    query: &Query<'_>,
    terms: &[Term],
    vector: &VectorType,
    limit: usize,
) -> PgResult<Option<Found>> {
    let mut sql = scope.to_sql()?;
    let distance = distance(&mut sql, "e", query, vector);
    let matching = match bind_terms(&mut sql, terms)? {
        Some(terms) => format!("CASE WHEN e.lexemes @@ {terms} THEN e.lexemes END"),
        None => "NULL::tsvector".into(),
    };
    let statement = sql.select(
        &format!("e.id, {distance}, e.doc_len, {matching}, {SESSION_KEY}, e.created_at, {{part}}"),
        "",
    );
    let layers = sql.layers();
    let mut rows = Vec::new();
    let mut places = Vec::new();
    let mut matches = Vec::new();
    let mut total_length = 0u64;
    let mut too_large = false;
    spi.scan(&statement, &mut sql.params, BATCH, |row| {
        if rows.len() == limit {
            too_large = true;
            return Ok(ControlFlow::Break(()));
        }
        let length = row.required::<i32>(3)?.max(0) as u32;
        total_length += u64::from(length);
        if let Some(datum) = row.datum(4) {
            matches.push(LexicalMatch {
                key: rows.len(),
                document_length: length,
                term_frequencies: term_frequencies(datum, terms),
            });
        }
        let id: Uuid = row.required(1)?;
        // A row without a session is a session of its own: its id stands in for the key.
        let session = row.optional::<i64>(5).unwrap_or_else(|| own_key(id));
        let created_at = row.datum(6).map_or(0, |at| at.value() as i64);
        let similarity = row.optional::<f64>(2).and_then(similarity);
        places.push(Placed {
            session: session as u64,
            position: (created_at, *id.as_bytes()),
            similarity,
        });
        let layer = layers[row.required::<i32>(7)? as usize];
        rows.push(FoundRow { id, layer, similarity, dense: None, lexical: None });
        Ok(ControlFlow::Continue(()))
    })?;
    if too_large {
        return Ok(None);
    }
    let documents = rows.len() as u64;
    let LexicalScores { scores, bound } =
        score_matches(&matches, terms.len(), documents, total_length, Bm25::default());
    for (found, score) in matches.iter().zip(scores) {
        rows[found.key].lexical = Some(score);
    }
    let lexical_matches = matches.len();
    let mut found =
        Found { rows, mode: Mode::Exact, documents, lexical_matches, lexical_bound: bound };
    raise_by_windows(spi, scope, query, vector, &mut found)?;
    for (place, row) in places.iter_mut().zip(&found.rows) {
        place.similarity = row.similarity;
    }
    let blended = blend_with_neighbors(&places, scope.search.neighbor_weight);
    for (row, dense) in found.rows.iter_mut().zip(blended) {
        row.dense = dense;
    }
    Ok(Some(found))
}

fn own_key(id: Uuid) -> i64 {
    let mut random_part = [0; 8];
    random_part.copy_from_slice(&id.as_bytes()[8..]);
    i64::from_ne_bytes(random_part)
}

/// A long entry counts with its best window, and one that is embedded by another model, while models
/// are changed, with what it has of this one. Only entries that were found are raised: where the
/// scope is too large to be read, one whose first window is far from the query may be missed.
pub fn raise_by_windows(
    spi: &Spi,
    scope: &Scope,
    query: &Query<'_>,
    vector: &VectorType,
    found: &mut Found,
) -> PgResult<()> {
    let Some(model) = query.embedding_model else { return Ok(()) };
    let users = scope.caller.visible();
    if query.embeddings.is_empty() || !entry_windows::any(spi, &users, model)? {
        return Ok(());
    }
    let ids: Vec<Uuid> = found.rows.iter().map(|row| row.id).collect();
    let mut nearest: HashMap<Uuid, f64> = HashMap::new();
    for embedding in &query.embeddings {
        for (id, distance) in entry_windows::nearest(spi, vector, &users, &ids, model, embedding)? {
            let best = nearest.entry(id).or_insert(distance);
            *best = best.min(distance);
        }
    }
    for row in &mut found.rows {
        if let Some(&distance) = nearest.get(&row.id) {
            row.similarity = larger(row.similarity, similarity(distance));
        }
    }
    Ok(())
}

/// Cosine similarity from pgvector's cosine distance, which is NaN where one of the vectors is zero: then nothing
/// is known of the row's similarity, as of a row that is not embedded.
pub fn similarity(distance: f64) -> Option<f64> {
    distance.is_finite().then_some(1.0 - distance)
}

/// The larger of two values of which either may be missing.
pub fn larger(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.max(b)),
        (a, b) => a.or(b),
    }
}

#[allow(unsafe_code)]
pub fn term_frequencies(datum: pg_sys::Datum, terms: &[Term]) -> Vec<u16> {
    // SAFETY: the datum is the tsvector column of a live row.
    unsafe { lexemes::frequencies(datum, terms) }
}

/// Refuses a query embedding of another dimension than the stored ones.
pub fn check_dimension(spi: &Spi, model: &str, given: usize) -> PgResult<()> {
    match crate::store::rows::entries::embedding_dimension(spi, model)? {
        Some(stored) if stored as usize != given => Err(Error::invalid(
            format!("query_embedding has {given} dimensions, the model \"{model}\" has {stored}"),
            "Embed the query with memory_embed(), or with the model that embedded the memory.",
        )),
        _ => Ok(()),
    }
}
