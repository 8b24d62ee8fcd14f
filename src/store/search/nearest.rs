//! The dense arm where a scope is too large to be read: the nearest rows through the vector index,
//! part by part of the scope, and exactly where the index gives too few (its iterative scan stops at
//! a limit of its own, for a small user among many with nothing).

use crate::store::prelude::*;
use crate::store::rows::scope::{Layer, Scope, bind};
use crate::store::search::{FoundRow, Mode, Query, larger, similarity};
use crate::store::{rows::entry_windows, search::vector_index};
use std::collections::HashMap;

/// Size of one part of a scope.
pub struct PartTotals {
    pub layer: Layer,
    pub documents: u64,
    /// Words of all its rows.
    pub length: u64,
    /// Rows that have an embedding.
    pub embedded: u64,
}

/// The size of each part.
pub fn totals(spi: &Spi, scope: &Scope) -> PgResult<Vec<PartTotals>> {
    let mut sql = scope.to_sql()?;
    // One plain aggregate per part: grouping the rows of all parts would sort them.
    let totals = sql.select(
        "{part} AS part, count(*), coalesce(sum(e.doc_len), 0)::int8, count(e.embedding_model)",
        "",
    );
    let statement = format!("{totals} ORDER BY part");
    let layers = sql.layers();
    let totals = |(part, documents, length, embedded): (i32, u64, u64, u64)| PartTotals {
        layer: layers[part as usize],
        documents,
        length,
        embedded,
    };
    Ok(spi.rows(&statement, &mut sql.params)?.into_iter().map(totals).collect())
}

/// The nearest rows of each part: through the vector index if there is one, exactly where it gives
/// too few, or the part is so small that reading it is cheaper than looking for its rows among all
/// others.
pub fn nearest(
    spi: &Spi,
    scope: &Scope,
    query: &Query<'_>,
    vector: &VectorType,
    totals: &[PartTotals],
) -> PgResult<(Vec<FoundRow>, Mode)> {
    let Some(model) = query.embedding_model.filter(|_| !query.embeddings.is_empty()) else {
        return Ok((Vec::new(), Mode::Index));
    };
    let index = vector_index::find(spi, model)?;
    let is_changing = entry_windows::any_first(spi, &scope.caller.visible(), model)?;
    let most_exact = scope.search.exact_scan_rows as u64;
    let (mut is_by_index, mut is_exact) = (false, is_changing);
    let mut all = Vec::new();
    for (part, size) in totals.iter().enumerate() {
        let enough = (query.limit as u64).min(size.embedded);
        let is_large = size.documents > most_exact;
        let index = index.as_ref().filter(|_| is_large);
        let mut rows: HashMap<Uuid, FoundRow> = HashMap::new();
        for embedding in &query.embeddings {
            let layer = size.layer;
            let search = NearestSearch { spi, scope, query, vector, embedding, model, part, layer };
            let mut found = match index {
                Some(index) => {
                    let _settings = vector_index::scan_settings(query.limit);
                    search.run(&index.expression(vector), false)?
                }
                None => Vec::new(),
            };
            if (found.len() as u64) < enough {
                found = search.run("e.embedding", true)?;
                is_exact |= is_large;
            } else {
                is_by_index |= index.is_some();
            }
            if is_changing {
                found.extend(search.run_beside()?);
            }
            for row in found {
                let best = rows.entry(row.id).or_insert(row);
                best.similarity = larger(best.similarity, row.similarity);
            }
        }
        let mut rows: Vec<FoundRow> = rows.into_values().collect();
        rows.sort_by(|a, b| {
            let similarity = |row: &FoundRow| row.similarity.unwrap_or(0.0);
            similarity(b).total_cmp(&similarity(a)).then(a.id.cmp(&b.id))
        });
        rows.truncate(query.limit);
        all.extend(rows);
    }
    let mode = if is_by_index && !is_exact { Mode::Index } else { Mode::IndexThenExact };
    Ok((all, mode))
}

/// One search for the rows of one part that are nearest to an embedding.
struct NearestSearch<'a> {
    spi: &'a Spi,
    scope: &'a Scope,
    query: &'a Query<'a>,
    vector: &'a VectorType,
    embedding: &'a Vector,
    model: &'a str,
    part: usize,
    layer: Layer,
}

impl NearestSearch<'_> {
    /// Searches the part; `expression` is what is compared with the query.
    fn run(&self, expression: &str, exact: bool) -> PgResult<Vec<FoundRow>> {
        let mut sql = self.scope.to_sql()?;
        let query = bind(&mut sql.params, self.embedding.clone());
        let distance = format!("{expression} {} {query}", self.vector.cosine_distance());
        // The model is a literal here: a partial index is only used when its condition is implied.
        let condition =
            format!(" AND e.embedding_model = {}", pgrx::spi::quote_literal(self.model));
        // Adding zero hides the ordering from the index: every row of the part is compared. The index knows no
        // second key, so of rows that are equally near it gives those that it meets first.
        let order = if exact { format!("({distance}) + 0, e.id") } else { distance.clone() };
        let columns = format!("e.id, {distance} AS distance");
        let limit = bind(&mut sql.params, self.query.limit as i64);
        let statement = sql.select_best(self.part, &columns, &condition, &order, &limit);
        self.found(&statement, &mut sql.params)
    }

    /// Searches the rows of the part that are embedded by another model and have this one's vector
    /// beside it. There are such rows only while the embedding model is changed, and no index.
    fn run_beside(&self) -> PgResult<Vec<FoundRow>> {
        let mut sql = self.scope.to_sql()?;
        let query = bind(&mut sql.params, self.embedding.clone());
        let model = bind(&mut sql.params, self.model.to_owned());
        let columns = format!(
            "e.id, (SELECT w.embedding {} {query} FROM memory_agent.entry_windows w \
                     WHERE w.user_id = e.user_id AND w.entry_id = e.id \
                       AND w.embedding_model = {model} AND w.ordinal = {}) AS distance",
            self.vector.cosine_distance(),
            entry_windows::FIRST
        );
        let condition = format!(" AND e.embedding_model <> {model}");
        let limit = bind(&mut sql.params, self.query.limit as i64);
        let statement = sql.select_best(self.part, &columns, &condition, "distance, e.id", &limit);
        self.found(&statement, &mut sql.params)
    }

    /// Reads rows of (id, distance); those without a similarity were not found.
    fn found(&self, statement: &str, params: &mut Params) -> PgResult<Vec<FoundRow>> {
        let rows: Vec<(Uuid, Option<f64>)> = self.spi.rows(statement, params)?;
        let found = |(id, distance): (Uuid, Option<f64>)| {
            let similarity = Some(distance.and_then(similarity)?);
            Some(FoundRow { id, layer: self.layer, similarity, dense: None, lexical: None })
        };
        Ok(rows.into_iter().filter_map(found).collect())
    }
}
