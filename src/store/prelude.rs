//! What nearly every table uses.

pub use crate::pg::catalog::VectorType;
pub use crate::pg::prelude::*;
pub use crate::store::rows::sessions::SessionKey;
pub use crate::store::schema;
pub use memory_agent_core::words;
pub use std::ops::ControlFlow;
pub use std::time::Duration;
