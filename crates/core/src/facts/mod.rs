//! What is learned from conversations: the questions to an LLM, the reading of its [`answers`], and what holds of them.

pub mod answers;
pub mod contradictions;
pub mod earlier;
pub mod episodes;
pub mod extract;
pub mod gate;
pub mod grounding;
pub mod passages;
pub mod reconcile;
pub mod repetition;
pub mod rewrite;
pub mod same;
pub mod statement_check;
pub mod statement_probe;
