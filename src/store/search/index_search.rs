//! Recall's candidates where a scope is too large to be read: the nearest rows through the vector index,
//! those with a word of the query through the lexeme index, and of each what the other arm says.

use crate::store::prelude::*;
use crate::store::rows::scope::{Layer, Scope, bind};
use crate::store::search::nearest::{PartTotals, nearest};
use crate::store::search::neighbors;
use crate::store::search::{
    BATCH, Found, FoundRow, Query, bind_terms, distance, raise_by_windows, similarity,
    term_frequencies,
};
use memory_agent_core::rank::bm25::Bm25;
use memory_agent_core::rank::bm25::{LexicalMatch, LexicalScores, score_matches};
use memory_agent_core::text::lexical::Term;
use std::collections::HashMap;

/// Asks the vector index for the nearest rows and the lexeme index for all rows with a word of the
/// query, then fills in the similarity of what only the words found.
pub fn through_indexes(
    spi: &Spi,
    scope: &Scope,
    query: &Query<'_>,
    terms: &[Term],
    vector: &VectorType,
    totals: &[PartTotals],
) -> PgResult<Found> {
    let documents = totals.iter().map(|part| part.documents).sum();
    let total_length = totals.iter().map(|part| part.length).sum();
    let (mut rows, mode) = nearest(spi, scope, query, vector, totals)?;
    let mut known: HashMap<Uuid, usize> =
        rows.iter().enumerate().map(|(at, row)| (row.id, at)).collect();

    let mut matches = Vec::new();
    let mut matched: Vec<(Uuid, Layer)> = Vec::new();
    let mut sql = scope.to_sql()?;
    let layers = sql.layers();
    if let Some(parameter) = bind_terms(&mut sql, terms)? {
        let statement = sql.select(
            "e.id, e.doc_len, e.lexemes, {part}",
            &format!(" AND e.lexemes @@ {parameter}"),
        );
        spi.scan(&statement, &mut sql.params, BATCH, |row| {
            if let Some(datum) = row.datum(3) {
                matches.push(LexicalMatch {
                    key: matches.len(),
                    document_length: row.required::<i32>(2)?.max(0) as u32,
                    term_frequencies: term_frequencies(datum, terms),
                });
                let layer = layers[row.required::<i32>(4)? as usize];
                matched.push((row.required(1)?, layer));
            }
            Ok(ControlFlow::Continue(()))
        })?;
    }
    let LexicalScores { scores, bound } =
        score_matches(&matches, terms.len(), documents, total_length, Bm25::default());
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| {
        scores[b].total_cmp(&scores[a]).then_with(|| matched[a].0.cmp(&matched[b].0))
    });
    let lexical_matches = matches.len();
    let mut wanted: HashMap<Layer, usize> = HashMap::new();
    for at in order {
        let (id, layer) = matched[at];
        let left = wanted.entry(layer).or_insert(query.limit);
        let lexical = Some(scores[at]);
        match known.get(&id) {
            Some(&row) => rows[row].lexical = lexical,
            None if *left > 0 => {
                known.insert(id, rows.len());
                rows.push(FoundRow { id, layer, similarity: None, dense: None, lexical });
            }
            None => {}
        }
        *left = left.saturating_sub(1);
    }
    add_included(spi, scope, query, &mut rows, &known)?;
    fill_similarities(spi, scope, query, vector, &mut rows)?;
    let mut found = Found { rows, mode, documents, lexical_matches, lexical_bound: bound };
    raise_by_windows(spi, scope, query, vector, &mut found)?;
    neighbors::blend(spi, scope, query, vector, &mut found.rows)?;
    Ok(found)
}

/// Adds the rows that are to be included and were not found, as far as they are in the scope.
fn add_included(
    spi: &Spi,
    scope: &Scope,
    query: &Query<'_>,
    rows: &mut Vec<FoundRow>,
    known: &HashMap<Uuid, usize>,
) -> PgResult<()> {
    let missing: Vec<Uuid> =
        query.included.iter().filter(|id| !known.contains_key(id)).copied().collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut sql = scope.to_sql()?;
    let ids = bind(&mut sql.params, missing);
    let statement = sql.select("e.id, {part}", &format!(" AND e.id = ANY ({ids})"));
    let layers = sql.layers();
    for (id, part) in spi.rows::<(Uuid, i32)>(&statement, &mut sql.params)? {
        let layer = layers[part as usize];
        rows.push(FoundRow { id, layer, similarity: None, dense: None, lexical: None });
    }
    Ok(())
}

/// Computes the similarity of rows that were found by their words only.
fn fill_similarities(
    spi: &Spi,
    scope: &Scope,
    query: &Query<'_>,
    vector: &VectorType,
    rows: &mut [FoundRow],
) -> PgResult<()> {
    let missing: Vec<Uuid> =
        rows.iter().filter(|row| row.similarity.is_none()).map(|row| row.id).collect();
    if missing.is_empty() || query.embeddings.is_empty() {
        return Ok(());
    }
    let mut sql = scope.to_sql()?;
    let distance = distance(&mut sql, "e", query, vector);
    let ids = bind(&mut sql.params, missing);
    let statement = sql.select(&format!("e.id, {distance}"), &format!(" AND e.id = ANY ({ids})"));
    let filled: Vec<(Uuid, Option<f64>)> = spi.rows(&statement, &mut sql.params)?;
    let filled: HashMap<_, _> = filled.into_iter().collect();
    for row in rows.iter_mut().filter(|row| row.similarity.is_none()) {
        row.similarity = filled.get(&row.id).copied().flatten().and_then(similarity);
    }
    Ok(())
}
