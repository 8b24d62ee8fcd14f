//! The SQL surface: every function a user can call, declared in sql/schema/40_functions.sql. Each
//! checks its arguments, resolves the caller's identity, and leaves the rest to `memory/`, SQL to `store/`
//! and arithmetic to `core::rank`.

pub mod add;
pub mod archive_conversation;
pub mod arguments;
pub mod attach;
pub mod attached;
pub mod augment;
pub mod backfill;
pub mod batch;
pub mod chat;
pub mod configure;
pub mod context;
pub mod documents;
pub mod endpoints;
pub mod erase;
pub mod explain;
pub mod export_json;
pub mod export_markdown;
pub mod history;
pub mod import_markdown;
pub mod inference;
pub mod ingest;
pub mod ingest_once;
pub mod jobs;
pub mod lifecycle;
pub mod list;
pub mod model_change;
pub mod prelude;
pub mod prompt_limit;
pub mod quotas;
pub mod recall;
pub mod reserve;
pub mod rows;
pub mod search_archive;
pub mod security;
pub mod state;
pub mod status;
pub mod summaries;
pub mod summarize;
pub mod tokens;
pub mod update;
pub mod window;
