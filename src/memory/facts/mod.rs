//! Facts: what callers state and what is found in turns, what is near it in memory, and how it is stored.

pub mod addition;
pub mod apply;
pub mod extracted_facts;
pub mod fact_writer;
pub mod neighborhood;
pub mod reconciler;
pub mod unverified;
