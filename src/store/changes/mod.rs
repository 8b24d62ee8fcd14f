//! What changes rows that exist: their lives, versions, erasure, and the seal of their history.

pub mod clearing;
pub mod erase;
pub mod erasures;
pub mod eviction;
pub mod lifecycle;
pub mod listing;
pub mod reindex;
pub mod seal;
pub mod sweep;
pub mod versions;
