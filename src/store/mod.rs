//! The only place with SQL: one file per table, plus `search` for recall's candidates. Typed rows
//! go in and out; decisions are made by the callers in `memory/` and by the ranking crate.

pub mod agents;
pub mod attach;
pub mod changes;
pub mod facts;
pub mod llm;
pub mod models;
pub mod prelude;
pub mod queue;
pub mod quotas;
pub mod rows;
pub mod schema;
pub mod search;
pub mod summaries;
pub mod tokens;
pub mod transfer;
