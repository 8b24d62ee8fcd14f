//! memory_augment and memory_chat: what the LLM is sent, what is stored, what comes back, and that
//! nothing of it depends on the LLM being well.

mod augment;
mod cancel;
mod converse;
mod endpoint;
mod failures;
mod options;
mod scene;
mod spent;
mod stored;
mod tls;
