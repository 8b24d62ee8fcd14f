//! The models as SQL sees them, and what the extension says about itself: memory_embed, memory_rerank,
//! memory_count_tokens, memory_register_model, memory_status, memory_stats.

mod backend;
mod building_blocks;
mod register;
mod remote;
mod status;
