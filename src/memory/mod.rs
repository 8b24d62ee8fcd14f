//! What a memory is and does, between the SQL surface, the background jobs and the tables.

pub mod backfill;
pub mod changes;
pub mod chat;
pub mod context;
pub mod facts;
pub mod ingest;
pub mod llm;
pub mod prelude;
pub mod quotas;
pub mod recall;
pub mod scope;
pub mod status;
pub mod summaries;
pub mod texts;
pub mod transfer;
