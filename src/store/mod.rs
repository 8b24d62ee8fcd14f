//! The SQL of memory: statements with typed rows in and out, in a folder for each theme. `rows/` is below the other
//! folders; decisions are made by the callers in `memory/` and by `crates/core`.

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
