//! The model of a kind that a database uses: the one that was activated in it, else the one that the
//! settings name.

use crate::models::{REMOTE_LOCATION, model_ref};
use crate::pg::prelude::*;
use crate::settings::{Models, endpoint};
use crate::store::models::{self as store, Kind};
use memory_agent_model_server::protocol::ModelRef;

/// The model of a kind; `None` when the settings name none.
pub fn active(spi: &Spi, kind: Kind) -> PgResult<Option<ModelRef>> {
    if let Some((name, location)) = store::activated(spi, kind)? {
        return model_ref(&name, location.as_deref()).map(Some);
    }
    let settings = Models::current();
    let (name, location) = match kind {
        Kind::Embedder => {
            (settings.embedding_model, endpoint::is_embedder_remote().then_some(REMOTE_LOCATION))
        }
        Kind::Reranker => (settings.rerank_model, None),
    };
    if name.is_empty() { Ok(None) } else { model_ref(&name, location).map(Some) }
}
