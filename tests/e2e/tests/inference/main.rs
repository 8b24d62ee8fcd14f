//! The models as SQL sees them, what is built on them for prompts, and what the extension says about
//! itself: memory_embed, memory_rerank, memory_count_tokens, memory_register_model, memory_context,
//! memory_status, memory_stats.

mod backend;
mod building_blocks;
mod context;
mod register;
mod remote;
mod status;
