//! What a prompt tells, and how it is told.

pub mod augment;
pub mod echo;
pub mod fence;
pub mod window;

/// Token budget of a prompt where none is given.
pub const DEFAULT_TOKEN_BUDGET: i32 = 2_000;
/// Tokens that a chat format adds to each message.
pub const MESSAGE_OVERHEAD_TOKENS: u32 = 4;
/// Share of a model's context that stays free, for tokens that another tokenizer counts.
pub const CONTEXT_MARGIN: f64 = 0.05;
