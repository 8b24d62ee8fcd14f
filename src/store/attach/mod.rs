//! Attached tables: what is known of them, their rows, and the rows they make.

pub mod attached_entries;
pub mod attached_jobs;
pub mod attached_tables;
pub mod attachments;
pub mod row_columns;
pub mod source_rows;
