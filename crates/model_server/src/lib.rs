//! Runs the ONNX models of memory_agent, and calls the HTTP services it uses: as a server for
//! all processes of a PostgreSQL cluster (the binary of this package), or, models only, inside
//! one process through [`Engine`].
//!
//! A request travels `connection` -> `service` -> `plan` (tokenise, look into the caches) ->
//! `queue` -> `worker` -> `model` -> `graph` -> `onnx`, and its answer back. What other services compute
//! goes from `plan` to `llm` instead.

pub mod client;
pub mod engine;
pub mod error;

mod llm;
mod log;
mod process;
mod signals;
pub mod socket;
pub mod work;

pub use client::BlockingClient;
pub use engine::{Engine, EngineOptions};
pub use error::InferenceError;
pub use memory_agent_core::wire::frame::{self, FrameReader};
pub use memory_agent_core::wire::protocol;
