//! The approximate index over one model's embeddings: created by `memory_create_vector_index`, found
//! and used by recall when a scope is too large to be read.

use crate::pg::settings_level::SettingsLevel;
use crate::store::prelude::*;
use std::ffi::CString;

/// Most dimensions of an indexed vector (pgvector's limit).
pub const MAX_DIMENSION: i32 = 2000;

/// An index over the embeddings of one model.
pub struct VectorIndex {
    pub name: String,
    pub dimension: i32,
    /// `hnsw` or `ivfflat`.
    pub method: String,
}

impl VectorIndex {
    /// The indexed expression: a query is only helped by an index whose expression it repeats.
    pub fn expression(&self, vector: &VectorType) -> String {
        format!("(e.embedding::{}({}))", vector.name(), self.dimension)
    }
}

/// The name an index for a model gets: short enough, and the same every time.
pub fn name_for(model: &str) -> String {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(model.as_bytes());
    let short: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("entries_vector_{short}_idx")
}

/// The index for a model, if it was created and is valid. Its dimension is the type modifier of the
/// expression that it indexes.
pub fn find(spi: &Spi, model: &str) -> PgResult<Option<VectorIndex>> {
    let name = name_for(model);
    spi.first(
        "SELECT a.atttypmod, m.amname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
           JOIN pg_am m ON m.oid = c.relam \
           JOIN pg_namespace n ON n.oid = c.relnamespace \
           JOIN pg_attribute a ON a.attrelid = i.indexrelid AND a.attnum = 1 \
          WHERE n.nspname = 'memory_agent' AND c.relname = $1 AND i.indisvalid",
        &mut params![&name],
        |row| Ok(VectorIndex { name, dimension: row.required(1)?, method: row.required(2)? }),
    )
}

/// Drops the index of a model that is not used any more. Never waits for the table, since readers
/// would wait too: the ERROR is 55P03 while a transaction uses it.
pub fn drop(spi: &Spi, index: &VectorIndex) -> PgResult<()> {
    spi.execute("LOCK TABLE memory_agent.entries IN ACCESS EXCLUSIVE MODE NOWAIT", &mut params![])?;
    let statement = format!("DROP INDEX memory_agent.{}", index.name);
    spi.run(&statement, &mut params![])
}

/// Creates the index. `method` is `hnsw` or `ivfflat`; the caller has checked it.
pub fn create(spi: &Spi, model: &str, dimension: i32, method: &str) -> PgResult<String> {
    let vector = catalog::vector_type()?;
    let name = name_for(model);
    let options = if method == "ivfflat" { " WITH (lists = 100)" } else { "" };
    spi.execute(
        &format!(
            "CREATE INDEX {name} ON memory_agent.entries USING {method} \
             ((embedding::{}({dimension})) {}.vector_cosine_ops){options} WHERE embedding_model = {}",
            vector.name(),
            vector.schema,
            pgrx::spi::quote_literal(model)
        ),
        &mut params![],
    )?;
    Ok(name)
}

/// pgvector's settings for one index scan, put back when the level is dropped: iterate until enough rows
/// pass the filters, and look at least as far as the rows that are wanted.
pub fn scan_settings(limit: usize) -> SettingsLevel {
    let level = SettingsLevel::enter();
    level.set(c"hnsw.iterative_scan", c"strict_order");
    level.set(c"ivfflat.iterative_scan", c"relaxed_order");
    if let Ok(limit) = CString::new(limit.clamp(40, 1000).to_string()) {
        level.set(c"hnsw.ef_search", &limit);
    }
    level
}
