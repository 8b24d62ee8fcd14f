//! The way of a request from the plan to a worker: what is cached, what waits, and what runs together.

pub(crate) mod cache;
pub(crate) mod plan;
pub(crate) mod queue;
pub(crate) mod reranks;
pub mod service;
pub(crate) mod single_flight;
pub(crate) mod worker;
