//! What the model server and an endpoint send.

pub mod frame;
pub mod llm_answers;
pub mod protocol;
