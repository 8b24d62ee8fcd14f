//! What nearly every function of the SQL surface uses.

pub use crate::api::arguments::WithinLimits;
pub use crate::api::rows::Rows;
pub use crate::identity::grants::Level;
pub(crate) use crate::identity::{self, Caller};
pub use crate::pg::prelude::*;
