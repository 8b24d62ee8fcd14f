//! What is said to an LLM, by us and by clients, and how calls to an endpoint behave.

pub mod anthropic;
pub mod breaker;
pub(crate) mod chat;
pub mod chat_body;
pub mod chat_messages;
pub mod client_forms;
pub mod endpoint;
pub mod json_answer;
pub mod questions;
pub mod rate;
pub mod redact;
pub mod retry;
pub mod taken_back;
