//! Entries that were stored without their embedding or with an estimated token count, and filling
//! them in later.

use crate::pg::memory_context::scratch;
use crate::store::prelude::*;
use crate::store::rows::entry_windows::{self, SECOND};
use crate::store::rows::fact_scope::FactScope;

/// Rows that are read at once.
const FETCH: usize = 8;

/// An entry that lacks something.
pub struct Incomplete {
    pub id: Uuid,
    pub content: String,
    pub content_hash: Option<Vec<u8>>,
    pub metadata: JsonbText,
    pub lacks_embedding: bool,
}

record!(Incomplete: id content content_hash metadata lacks_embedding);

/// `e` lacks its embedding (asked for by $4) or an exact count; the first part is the predicate of
/// entries_incomplete_idx.
const LACKS: &str = "e.state <> 'inactive' AND (e.embedding IS NULL OR NOT e.token_count_exact) \
    AND ($4 OR NOT e.token_count_exact)";

/// The next entries of a scope that lack something, after an id: at most `most`, and as many as fit into so
/// many bytes, at least one. `embed` says whether a missing embedding counts.
pub fn incomplete(
    spi: &Spi,
    scope: &FactScope<'_>,
    embed: bool,
    after: Uuid,
    most: usize,
    bytes: usize,
) -> PgResult<Vec<Incomplete>> {
    let (mut found, mut sum) = (Vec::<Incomplete>::new(), 0);
    spi.scan(
        &format!(
            "SELECT e.id, e.content, e.content_hash, e.metadata, e.embedding IS NULL FROM memory_agent.entries e \
              WHERE {} AND {LACKS} AND e.id > $5 ORDER BY e.id LIMIT $6",
            scope.condition()
        ),
        &mut scope.params().with(embed).with(after).with(most as i64),
        FETCH,
        |row| {
            let entry: Incomplete = scratch(|| row.record())?;
            sum += entry.content.len();
            if sum > bytes && !found.is_empty() {
                return Ok(ControlFlow::Break(()));
            }
            found.push(entry);
            Ok(ControlFlow::Continue(()))
        },
    )?;
    Ok(found)
}

/// How many entries of a scope lack something.
pub fn count_incomplete(spi: &Spi, scope: &FactScope<'_>, embed: bool) -> PgResult<i64> {
    spi.one(
        &format!(
            "SELECT count(*) FROM memory_agent.entries e WHERE {} AND {LACKS}",
            scope.condition()
        ),
        &mut scope.params().with(embed),
    )
}

/// Fills in what the entry of an id lacks, unless it has another text by now or was deleted. The window's size in
/// tokens follows the count.
pub fn complete(
    spi: &Spi,
    user_id: &str,
    (id, content_hash): (Uuid, Option<&[u8]>),
    embedding: Option<(&str, &[Vec<f32>])>,
    token_count: i32,
) -> PgResult<()> {
    let first = embedding.and_then(|(_, windows)| windows.first());
    let filled = spi.execute(
        include_str!("../sql/complete_entry.sql"),
        &mut params![
            user_id,
            id,
            content_hash,
            first.cloned().map(Vector),
            embedding.map(|(model, _)| model),
            token_count,
        ],
    )?;
    if let (1, Some((model, [_, further @ ..]))) = (filled, embedding) {
        entry_windows::insert(spi, user_id, id, model, SECOND, further)?;
    }
    Ok(())
}
