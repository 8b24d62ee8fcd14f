//! The processes of background work: who runs where and when, what wakes them, how they end and come
//! back, and that no death of any process loses a turn or stores a fact twice. The LLM is a stub in the
//! test's own process; what facts say is the topic of the suite `worker`.

mod activity;
mod clock;
mod crashes;
mod databases;
mod fairness;
mod influence;
mod invariants;
mod latency;
mod launcher;
mod on_demand;
mod oom;
mod shutdown;
mod surroundings;
mod sweeps;
mod waits;
mod waking;

#[path = "../worker/models.rs"]
mod models;
#[path = "../worker/scene.rs"]
#[allow(dead_code, reason = "the suite `worker` uses the rest")]
mod scene;
