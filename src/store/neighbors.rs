//! Neighbours in a conversation for candidates that came from an index: the rows before and after
//! each, which an exact scan would have seen anyway.

use crate::error::PgResult;
use crate::guc;
use crate::store::catalog::VectorType;
use crate::store::scope::Scope;
use crate::store::search::{FoundRow, Query, similarity};
use crate::store::spi::{Params, Session as Spi};
use pgrx::datum::Uuid;
use std::collections::HashMap;

/// Sets `dense` of every row: its own similarity, with a share of its neighbours'.
pub fn blend(
    spi: &Spi,
    scope: &Scope,
    query: &Query<'_>,
    vector: &VectorType,
    rows: &mut [FoundRow],
) -> PgResult<()> {
    let share = guc::neighbor_weight();
    for row in rows.iter_mut() {
        row.dense = row.similarity;
    }
    let (Some(model), [embedding, ..]) = (query.embedding_model, query.embeddings.as_slice())
    else {
        return Ok(());
    };
    if share <= 0.0 || rows.is_empty() {
        return Ok(());
    }
    // The filter's own conditions are left out: a neighbour is context, not an answer.
    let visible = match scope.as_of {
        None => {
            "n.state <> 'inactive' AND (n.expires_at IS NULL OR n.expires_at > coalesce($5, now()))"
        }
        Some(_) => {
            "n.created_at <= $5 AND (n.valid_to IS NULL OR n.valid_to > $5) \
             AND (n.expires_at IS NULL OR n.expires_at > $5)"
        }
    };
    let neighbor = |comparison: &str, direction: &str| {
        format!(
            "(SELECT n.embedding {} $4 FROM memory_agent.entries n \
               WHERE n.user_id = e.user_id AND n.session_id = e.session_id AND n.agent_id = e.agent_id \
                 AND (n.created_at, n.id) {comparison} (e.created_at, e.id) AND n.embedding_model = $3 \
                 AND {visible} \
               ORDER BY n.created_at {direction}, n.id {direction} LIMIT 1)",
            vector.cosine_distance()
        )
    };
    let statement = format!(
        "SELECT e.id, {}, {} FROM memory_agent.entries e \
          WHERE e.user_id = ANY ($1) AND e.id = ANY ($2) AND e.session_id IS NOT NULL",
        neighbor("<", "DESC"),
        neighbor(">", "ASC")
    );
    let ids: Vec<Uuid> = rows.iter().map(|row| Uuid::from_bytes(row.id)).collect();
    let mut params = Params::new()
        .with(scope.caller.visible())
        .with(ids)
        .with(model.to_owned())
        .raw(vector.oid, Some(embedding.to_datum()))
        .with(scope.as_of);
    let mut means = HashMap::new();
    spi.for_each(&statement, &mut params, |row| {
        let found: Vec<f64> = [2, 3]
            .into_iter()
            .filter_map(|column| row.optional::<f64>(column))
            .map(similarity)
            .collect();
        if !found.is_empty() {
            let mean = found.iter().sum::<f64>() / found.len() as f64;
            means.insert(*row.required::<Uuid>(1)?.as_bytes(), mean);
        }
        Ok(())
    })?;
    for row in rows.iter_mut() {
        if let (Some(own), Some(mean)) = (row.similarity, means.get(&row.id)) {
            row.dense = Some((1.0 - share) * own + share * mean);
        }
    }
    Ok(())
}
