//! The only place with SQL: one file per table, plus `search` for recall's candidates. Typed rows
//! go in and out; decisions are made by the callers in `api/` and by the ranking crate.

pub mod agents;
pub mod archives;
pub mod backfill;
pub mod catalog;
pub mod clearing;
pub mod compression;
pub mod details;
pub mod embeddings;
pub mod entries;
pub mod episodes;
pub mod eviction;
pub mod extraction;
pub mod facts;
pub mod grants;
pub mod history;
pub mod jobs;
pub mod lexemes;
pub mod llm_calls;
pub mod models;
pub mod nearest;
pub mod neighbors;
pub mod queue;
pub mod reflections;
pub mod scope;
pub mod search;
pub mod sessions;
pub mod spi;
pub mod stale;
pub mod status;
pub mod summaries;
pub mod sweep;
pub mod traces;
pub mod vector_index;
pub mod window;
pub mod windows;
