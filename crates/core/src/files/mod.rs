//! Memory as Markdown files.

pub mod front_matter;
pub mod markdown;
pub mod memory_path;
pub mod record;
