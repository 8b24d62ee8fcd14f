//! The background work of a database: a folder for each kind of job, and in `run` who does them. What a
//! job does never holds a transaction while it waits for a model or an LLM.

pub mod attach;
pub mod embed;
pub mod evict;
pub mod exchange;
pub mod extract;
pub mod llm_connection;
pub mod pace;
pub mod prelude;
pub mod probing;
pub mod reembed;
pub mod reflect;
pub mod registry;
pub mod reindex;
pub mod run;
pub mod seal;
pub mod status;
pub mod step;
pub mod summarize;
pub mod sweep;
