//! The arithmetic and the text rules of `memory_agent`: everything that can be
//! computed without a database, a model or a clock.
//!
//! The crate knows nothing of PostgreSQL and does no I/O. The extension fetches
//! candidates, calls the models and passes plain values in; so every rule here
//! is tested in milliseconds. Start with [`rank`], which joins the steps of one
//! recall; the modules it uses are [`fuse`], [`score`], [`mmr`] and [`budget`].

pub mod bm25;
pub mod budget;
pub mod episodes;
pub mod facts;
pub mod filter;
pub mod freshness;
pub mod fuse;
pub mod lexical;
pub mod markers;
pub mod mmr;
pub mod neighbors;
mod phrases;
pub mod rank;
mod replacements;
pub mod score;
pub mod setting;
pub mod text;
pub mod tokens;
