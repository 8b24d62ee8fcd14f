//! What a memory is and does, between the SQL surface, the background jobs and the tables.

pub mod active_model;
pub mod archived_conversation;
pub mod awaited_summary;
pub mod chunks;
pub mod context;
pub mod endpoints;
pub mod facts;
pub mod follow_ups;
pub mod followed_rows;
pub mod ingest;
pub mod intake;
pub mod language;
pub mod llm;
pub mod prepare;
pub mod recall;
pub mod renew;
pub mod repetitions;
pub mod scope_settings;
pub mod session_writer;
pub mod summary_tree;
pub mod turn;
pub mod window_plan;
pub mod window_summary;
