//! What the kinds of jobs do. A handler never holds a transaction while it waits for a model.

pub mod apply;
pub mod attach;
pub mod condense;
mod consolidate;
pub mod embed;
mod episode;
pub mod evict;
pub mod exchange;
pub mod extract;
pub mod facts;
pub mod need;
pub mod neighborhood;
pub mod pace;
pub mod reconcile;
pub mod reembed;
pub mod reflect;
pub mod renew;
pub mod seal;
pub mod summarize;
pub mod sweep;
mod writer;
