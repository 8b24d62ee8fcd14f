//! Facts: what callers state and what is found in turns, what is near it in memory, and how it is stored.

pub mod addition;
pub mod apply;
pub mod fact_writer;
pub mod found;
pub mod grounds;
pub mod neighborhood;
pub mod reconciler;
