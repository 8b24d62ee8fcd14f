//! `extraction = episode`: facts are extracted from the turns of an episode when it is over. When that is, what the
//! LLM is asked, what becomes of the known facts, what is on record, and that no failure costs anything. The
//! LLM is a stub in the test's own process; every test has a cluster of its own, because the endpoint
//! is a setting of the whole server.

mod boundaries;
mod carry;
mod consolidation;
mod handover;
mod recall;
mod script;
mod tools;
mod traces;

#[path = "../worker/scene.rs"]
#[allow(dead_code, reason = "the suite `worker` uses the rest")]
mod scene;
