//! Who does the jobs. A launcher finds the databases with the extension and gives them workers, one per
//! slot; a worker takes jobs from `memory_agent.jobs`; the transaction that queues a job wakes it at commit.
//!
//! `launcher` decides with `worker_places` who runs, `assignment` and `worker_process` are a worker's
//! beginning and loop, `jobs_loop` is what it does in a turn.

pub mod assignment;
pub mod databases;
pub mod deadline;
pub mod jobs_loop;
pub mod launcher;
pub mod llm_pauses;
pub mod pause;
pub mod signals;
pub mod slots;
pub mod waker;
pub mod wanted_databases;
pub mod worker_places;
pub mod worker_process;
