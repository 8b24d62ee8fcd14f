//! `memory_agent.entry_windows`: the further windows of entries longer than their model reads, and,
//! while the embedding model is changed, all windows of the model that is not the row's own.

use crate::store::prelude::*;

/// The window that is an entry's embedding, unless the entry is embedded by another model.
pub const FIRST: i32 = 1;
pub const SECOND: i32 = FIRST + 1;

/// Stores windows of one entry, of which the first has the number `ordinal`; those that are there
/// already stay.
pub fn insert(
    spi: &Spi,
    user_id: &str,
    entry_id: Uuid,
    model: &str,
    ordinal: i32,
    windows: &[Vec<f32>],
) -> PgResult<()> {
    for (ordinal, window) in (ordinal..).zip(windows) {
        spi.execute(
            "INSERT INTO memory_agent.entry_windows (user_id, entry_id, ordinal, embedding, embedding_model) \
             VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
            &mut params![user_id, entry_id, ordinal, Vector(window.clone()), model],
        )?;
    }
    Ok(())
}

/// Whether these users have any window of a model beside those in the entries themselves.
pub fn any(spi: &Spi, users: &[String], model: &str) -> PgResult<bool> {
    spi.exists(
        "SELECT true FROM memory_agent.entry_windows w \
          WHERE w.embedding_model = $2 AND w.user_id = ANY ($1) LIMIT 1",
        &mut params![users.to_vec(), model],
    )
}

/// Whether entries of these users are still to get a model's vector as their own: it is a window of
/// theirs so far.
pub fn any_first(spi: &Spi, users: &[String], model: &str) -> PgResult<bool> {
    spi.exists(
        "SELECT true FROM memory_agent.entry_windows w \
          WHERE w.embedding_model = $2 AND w.user_id = ANY ($1) AND w.ordinal = $3 LIMIT 1",
        &mut params![users.to_vec(), model, FIRST],
    )
}

/// The smallest cosine distance of any such window of each of these entries.
pub fn nearest(
    spi: &Spi,
    vector: &VectorType,
    users: &[String],
    entries: &[Uuid],
    model: &str,
    query: &Vector,
) -> PgResult<Vec<(Uuid, f64)>> {
    let sql = format!(
        "SELECT w.entry_id, min(w.embedding {} $3) FROM memory_agent.entry_windows w \
           JOIN unnest($4::uuid[]) found(id) ON found.id = w.entry_id \
          WHERE w.user_id = ANY ($1) AND w.embedding_model = $2 GROUP BY w.entry_id",
        vector.cosine_distance()
    );
    spi.rows(&sql, &mut params![users.to_vec(), model, query.clone(), entries.to_vec()])
}
