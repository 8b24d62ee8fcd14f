//! Runs the ONNX models of memory_agent, and calls the HTTP services it uses: as a server for
//! all processes of a PostgreSQL cluster (the binary of this package), or, models only, inside
//! one process through [`Engine`].
//!
//! A request travels `connection` -> `service` -> `plan` (tokenise, look into the caches) ->
//! `queue` -> `worker` -> `model` -> `graph` -> `onnx`, and its answer back. What other services compute
//! goes from `plan` to `llm` instead.

pub mod cl100k;
pub mod client;
pub mod config;
pub mod encoding;
pub mod engine;
pub mod error;
pub mod head;
pub mod model;
pub mod onnx;
pub mod server;
pub mod service;
pub mod session;
pub mod tokenizer;

mod batch;
mod budget;
mod cache;
mod connection;
mod defects;
mod fields;
mod folder;
mod graph;
mod hub_files;
mod listener;
mod llm;
mod log;
mod plan;
mod pooling;
mod process;
mod queue;
mod reranks;
mod session_pool;
mod signals;
mod single_flight;
mod worker;

pub use client::BlockingClient;
pub use engine::{Engine, EngineOptions};
pub use error::InferenceError;
pub use memory_agent_core::wire::frame::{self, FrameReader};
pub use memory_agent_core::wire::protocol;
