//! The background work of a database. A launcher finds the databases with the extension and gives
//! them workers, one per slot; a worker takes jobs from `memory_agent.jobs`; whoever queues a job wakes
//! it at commit.
//!
//! `launcher` decides with `places` who runs, `start` and `run` are a worker's beginning and loop,
//! `jobs_loop` is what it does in a turn, `handlers` are the kinds of jobs. Waiting for an LLM happens
//! between transactions, never in one.

pub mod drop_hook;
pub mod endpoint;
pub mod launcher;
pub mod run;
pub mod settings;
pub mod slots;
pub mod spent;
mod vacated;
pub mod wake;

mod databases;
mod deadline;
pub mod handlers;
mod jobs_loop;
mod llm;
mod llm_pauses;
mod notes;
mod pause;
mod places;
mod signals;
mod start;
mod transaction;
mod tx;
