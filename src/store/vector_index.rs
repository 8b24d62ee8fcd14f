//! The approximate index over one model's embeddings: created by `memory_create_vector_index`, found
//! and used by recall when a scope is too large to be read.
#![allow(unsafe_code)]

use crate::error::PgResult;
use crate::store::catalog::VectorType;
use crate::store::spi::{Params, Session as Spi};
use pgrx::pg_sys;
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
        &mut Params::new().with(name.clone()),
        |row| Ok(VectorIndex { name, dimension: row.required(1)?, method: row.required(2)? }),
    )
}

/// Drops the index of a model that is not used any more. Never waits for the table, since readers
/// would wait too: the ERROR is 55P03 while anybody uses it.
pub fn drop(spi: &Spi, index: &VectorIndex) -> PgResult<()> {
    spi.execute(
        "LOCK TABLE memory_agent.entries IN ACCESS EXCLUSIVE MODE NOWAIT",
        &mut Params::new(),
    )?;
    let statement = format!("DROP INDEX memory_agent.{}", index.name);
    spi.execute(&statement, &mut Params::new())?;
    Ok(())
}

/// Creates the index. `method` is `hnsw` or `ivfflat`; the caller has checked it.
pub fn create(
    spi: &Spi,
    vector: &VectorType,
    model: &str,
    dimension: i32,
    method: &str,
) -> PgResult<String> {
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
        &mut Params::new(),
    )?;
    Ok(name)
}

/// pgvector's settings for one index scan, put back when dropped: iterate until enough rows pass
/// the filters, and look at least as far as the rows that are wanted.
pub struct ScanSettings {
    guc_level: i32,
}

impl ScanSettings {
    pub fn set(limit: usize) -> Self {
        // SAFETY: opens a GUC level that Drop, or transaction abort, closes.
        let guc_level = unsafe { pg_sys::NewGUCNestLevel() };
        for (name, value) in [
            (c"hnsw.iterative_scan", "strict_order".to_owned()),
            (c"hnsw.ef_search", limit.clamp(40, 1000).to_string()),
            (c"ivfflat.iterative_scan", "relaxed_order".to_owned()),
        ] {
            if let Ok(value) = CString::new(value) {
                // SAFETY: C strings; pgvector's library is loaded, or the names are placeholders.
                unsafe {
                    pg_sys::set_config_option(
                        name.as_ptr(),
                        value.as_ptr(),
                        pg_sys::GucContext::PGC_USERSET,
                        pg_sys::GucSource::PGC_S_SESSION,
                        pg_sys::GucAction::GUC_ACTION_SAVE,
                        true,
                        0,
                        false,
                    );
                }
            }
        }
        Self { guc_level }
    }
}

impl Drop for ScanSettings {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: closes the level opened in `set`.
            unsafe { pg_sys::AtEOXact_GUC(false, self.guc_level) };
        }
    }
}
