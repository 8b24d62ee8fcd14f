//! The seal of the history.

pub mod chain;
pub mod signature;
