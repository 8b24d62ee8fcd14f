//! What nearly every job uses.

pub use crate::pg::background_transaction::{Aborted, transaction, unless_passing};
pub use crate::pg::prelude::*;
pub use crate::store::queue::jobs::JobKind;
pub use crate::store::queue::{self, Applied, Job};
pub use memory_agent_core::jobs::payloads;
pub use std::time::{Duration, Instant};
