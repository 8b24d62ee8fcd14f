//! The arithmetic and the text rules of `memory_agent`: everything that can be computed without a database, a model or
//! a clock.
//!
//! The crate knows nothing of PostgreSQL and does no I/O. The extension fetches candidates, calls the models and passes
//! plain values in; so every rule here is tested in milliseconds. Start with [`rank::pipeline`], which joins the steps
//! of one recall, or with [`facts::extract`], where what is learned from a conversation begins.
//!
//! The folders stand on floors, and each uses only what is below it: [`text`]; [`llm`], [`rank`] and [`history`];
//! [`condense`], [`files`] and [`prompt`]; [`facts`]; [`wire`] and [`jobs`]. `make lint` checks that.

pub mod attached;
pub mod claims;
pub mod condense;
pub mod facts;
pub mod files;
pub mod history;
pub mod jobs;
pub mod limits;
pub mod llm;
pub mod prompt;
pub mod rank;
pub mod row_json;
pub mod text;
pub mod wire;
pub mod words;
