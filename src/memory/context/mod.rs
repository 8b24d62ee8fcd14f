//! The parts of a prompt: blocks within a budget, the window of a session, what other sessions know.

pub mod block;
pub mod cross_session;
pub mod prompt;
pub mod prompt_memory;
pub mod tokens;
pub mod window;
pub mod window_messages;
