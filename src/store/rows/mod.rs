//! The tables that hold memories, sessions and their history, and the scope that every statement asks in.

pub mod counts;
pub mod entries;
pub mod entry_windows;
pub mod episodes;
pub mod fact_scope;
pub mod forms;
pub mod history;
pub mod lexemes;
pub mod repeated_turns;
pub mod scope;
pub mod sessions;
pub mod text_search;
