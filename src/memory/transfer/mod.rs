//! Memories that come from files and records.

pub mod import_archive;
pub mod import_entries;
pub mod import_history;
