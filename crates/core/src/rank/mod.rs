//! One recall: [`pipeline`] joins its steps.

pub mod blend;
pub mod bm25;
pub mod budget;
pub mod filter;
pub mod follow_up;
pub mod fuse;
pub mod mmr;
pub mod neighbors;
pub mod pipeline;
pub(crate) mod replacements;
pub mod rerank_passage;
pub mod score;
pub mod shares;
