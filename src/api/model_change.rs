//! `memory_use_embedding_model`: another embedding model for memory that is in use.

use crate::api::prelude::*;
use crate::memory::scope::model_registry::use_embedder;
use crate::settings::LlmLimits;

#[pg_extern(sql = false)]
fn memory_use_embedding_model(_limits: WithinLimits, name: Option<String>) -> PgResult<Uuid> {
    identity::require(Level::Admin)?;
    use_embedder(&name.unwrap_or_default(), LlmLimits::current().max_attempts)
}
