//! What is kept about LLMs: endpoints, calls, what they cost, and what they were found able to do.

pub mod endpoints;
pub mod llm_calls;
pub mod llm_ledger;
pub mod llm_probes;
