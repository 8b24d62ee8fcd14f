//! The background worker and its LLM: what becomes of turns while everything works, and while an
//! endpoint fails in every way it can. The LLM is a stub in the test's own process; every test has
//! a cluster of its own, because the endpoint is a setting of the whole server.

mod attached;
mod blame;
mod context;
mod decisions;
mod doubts;
mod endpoints;
mod extract;
mod failures;
mod grounding;
mod keys;
mod limits;
mod models;
mod probe;
mod quotas;
mod reconcile;
mod regressions;
mod repetitions;
mod scene;
mod sessions;
mod statements;
mod stream;
mod unusable;
