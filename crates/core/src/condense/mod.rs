//! How conversations are condensed.

pub mod archive;
pub mod chunk;
pub mod compression;
pub mod levels;
pub mod material;
pub(crate) mod preamble;
pub(crate) mod sections;
pub mod shorten;
pub mod summarize;
pub(crate) mod summary_prompts;
