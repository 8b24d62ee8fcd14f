//! Tests with the shipped models, tiny ones and the real ONNX Runtime, in one binary so that they
//! are linked once. `common.rs` says where the files are looked for.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

mod cancellation;
mod concurrency;
mod defects;
mod engine;
mod errors;
mod four_bits;
mod http_stub;
mod lifecycle;
mod protocol;
mod remote;
mod remote_blame;
mod remote_chat;
mod remote_converse;
mod remote_embeddings;
mod remote_faults;
mod reranks;
mod server;
mod shapes;
mod token_counts;
