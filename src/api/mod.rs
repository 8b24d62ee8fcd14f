//! The SQL surface: every function a user can call, declared in sql/schema/40_functions.sql. Each
//! checks its arguments, resolves the caller's identity, and leaves SQL to `store/` and arithmetic
//! to the ranking crate.

pub mod archive;
pub mod attach;
pub mod attached;
pub mod attached_status;
pub mod augment;
pub mod backfill;
pub mod batch;
pub mod chat;
pub mod chunks;
pub mod condense;
pub mod configure;
pub mod context;
pub mod documents;
pub mod erase;
pub mod explain;
pub mod export_markdown;
pub mod facts;
pub mod history;
pub mod import_markdown;
pub mod inference;
pub mod ingest;
pub mod intake;
pub mod jobs;
pub mod lifecycle;
pub mod llm;
pub mod model_change;
pub mod overtaken;
pub mod pool;
pub mod prepare;
pub mod recall;
pub mod repetitions;
pub mod request;
pub mod reserve;
pub mod security;
pub mod session_writer;
pub mod stale;
pub mod status;
pub mod summaries;
pub mod summarize;
pub mod update;
pub mod window;
pub mod window_summary;
pub mod worker_status;
