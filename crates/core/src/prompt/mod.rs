//! What a prompt tells, and how it is told.

pub mod augment;
pub mod echo;
pub mod fence;
pub mod window;
