//! Neighbours in a conversation for candidates that came from an index: the rows of the scope before
//! and after each, which an exact scan sees anyway. (Only the first window of a long neighbour counts
//! here.)

use crate::store::prelude::*;
use crate::store::rows::scope::{Scope, bind};
use crate::store::search::{self, FoundRow, Query, similarity};
use std::collections::HashMap;

/// Sets `dense` of every row: its own similarity, with a share of its neighbours'.
pub fn blend(
    spi: &Spi,
    scope: &Scope,
    query: &Query<'_>,
    vector: &VectorType,
    rows: &mut [FoundRow],
) -> PgResult<()> {
    let share = scope.search.neighbor_weight;
    for row in rows.iter_mut() {
        row.dense = row.similarity;
    }
    if query.embeddings.is_empty() || share <= 0.0 || rows.is_empty() {
        return Ok(());
    }
    let mut sql = scope.to_sql()?;
    let distance = search::distance(&mut sql, "n", query, vector);
    let visible = sql.conditions("n");
    let neighbor = |comparison: &str, direction: &str| {
        format!(
            "(SELECT {distance} FROM memory_agent.entries n \
               WHERE n.user_id = e.user_id AND n.session_id = e.session_id AND n.agent_id = e.agent_id \
                 AND (n.created_at, n.id) {comparison} (e.created_at, e.id){visible} \
               ORDER BY n.created_at {direction}, n.id {direction} LIMIT 1)"
        )
    };
    let ids: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
    let users = bind(&mut sql.params, scope.caller.visible());
    let ids = bind(&mut sql.params, ids);
    let statement = format!(
        "SELECT e.id, {}, {} FROM memory_agent.entries e \
          WHERE e.user_id = ANY ({users}) AND e.id = ANY ({ids}) AND e.session_id IS NOT NULL",
        neighbor("<", "DESC"),
        neighbor(">", "ASC")
    );
    let mut means = HashMap::new();
    spi.for_each(&statement, &mut sql.params, |row| {
        let found: Vec<f64> =
            [2, 3].into_iter().filter_map(|at| similarity(row.optional(at)?)).collect();
        if !found.is_empty() {
            let mean = found.iter().sum::<f64>() / found.len() as f64;
            means.insert(row.required::<Uuid>(1)?, mean);
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
