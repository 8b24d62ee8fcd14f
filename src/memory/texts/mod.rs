//! How a text becomes a row: its checks, language, secrets and embedding, and the jobs that follow.

pub mod follow_ups;
pub mod language;
pub mod prepare;
pub mod repetitions;
pub mod secrets;
pub mod session_writer;
pub mod turn;
