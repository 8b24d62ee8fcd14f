//! The model of a kind that a database uses: the one that was activated in it, else the one that the
//! settings name.
//!
//! The default embedder is another one since 0.3.0. Rows that the former one embedded can be found by it only,
//! so a database that has such rows keeps it: after an upgrade, and after the restore of an older dump.

use crate::memory::prelude::*;
use crate::models::{self, model_ref};
use crate::store::models::{self as store, Kind};

/// The default of `memory_agent.embedding_model`.
const DEFAULT_EMBEDDER: &str = "memory-embed-small";
/// The same until 0.2.0.
const FORMER_EMBEDDER: &str = "bge-small-en-v1.5";

/// The model of a kind; `None` when the settings name none.
pub fn active(spi: &Spi, kind: Kind) -> PgResult<Option<ModelRef>> {
    if let Some((name, location)) = store::activated(spi, kind)? {
        return model_ref(&name, location.as_deref()).map(Some);
    }
    let (mut name, location) = match kind {
        Kind::Embedder => models::configured_embedder(),
        Kind::Reranker => models::configured_reranker(),
    };
    if kind == Kind::Embedder && name == DEFAULT_EMBEDDER && store::embeds(spi, FORMER_EMBEDDER)? {
        FORMER_EMBEDDER.clone_into(&mut name);
    }
    if name.is_empty() { Ok(None) } else { model_ref(&name, location).map(Some) }
}
