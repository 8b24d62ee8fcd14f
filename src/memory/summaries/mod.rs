//! How conversations are condensed, and how a window comes to fit into a budget.

pub mod archived_conversation;
pub mod awaited_summary;
pub mod chunks;
pub mod reservation;
pub mod summary_renewal;
pub mod summary_tree;
pub mod text_summary;
pub mod window_plan;
pub mod window_summary;
