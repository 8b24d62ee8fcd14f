//! `memory_agent.entry_windows`: the further windows of entries longer than their model reads.

use crate::error::PgResult;
use crate::sql_types::Vector;
use crate::store::catalog::VectorType;
use crate::store::spi::{Params, Session as Spi};
use pgrx::datum::Uuid;

/// Stores the windows after the first of one entry.
pub fn insert(
    spi: &Spi,
    vector: &VectorType,
    user_id: &str,
    entry_id: Uuid,
    model: &str,
    further: &[Vec<f32>],
) -> PgResult<()> {
    for (index, window) in further.iter().enumerate() {
        spi.execute(
            "INSERT INTO memory_agent.entry_windows (user_id, entry_id, ordinal, embedding, embedding_model) \
             VALUES ($1, $2, $3, $4, $5)",
            &mut Params::new()
                .with(user_id.to_owned())
                .with(entry_id)
                .with(index as i32 + 2)
                .raw(vector.oid, Some(Vector(window.clone()).to_datum()))
                .with(model.to_owned()),
        )?;
    }
    Ok(())
}

/// Whether these users have any entry with more than one window.
pub fn any(spi: &Spi, users: &[String]) -> PgResult<bool> {
    let found = spi.first(
        "SELECT true FROM memory_agent.entry_windows w WHERE w.user_id = ANY ($1) LIMIT 1",
        &mut Params::new().with(users.to_vec()),
        |_| Ok(()),
    )?;
    Ok(found.is_some())
}

/// The smallest cosine distance of any further window of each of these entries.
pub fn nearest(
    spi: &Spi,
    vector: &VectorType,
    users: &[String],
    entries: &[Uuid],
    model: &str,
    query: &Vector,
) -> PgResult<Vec<([u8; 16], f64)>> {
    let sql = format!(
        "SELECT w.entry_id, min(w.embedding {} $3) FROM memory_agent.entry_windows w \
           JOIN unnest($4::uuid[]) found(id) ON found.id = w.entry_id \
          WHERE w.user_id = ANY ($1) AND w.embedding_model = $2 GROUP BY w.entry_id",
        vector.cosine_distance()
    );
    spi.all(
        &sql,
        &mut Params::new()
            .with(users.to_vec())
            .with(model.to_owned())
            .raw(vector.oid, Some(query.to_datum()))
            .with(entries.to_vec()),
        |row| Ok((*row.required::<Uuid>(1)?.as_bytes(), row.required(2)?)),
    )
}
