//! What nearly every function of the SQL surface uses.

pub use crate::api::arguments::WithinLimits;
pub use crate::api::rows::Rows;
pub use crate::identity::grants::Level;
pub(crate) use crate::identity::{self, Caller};
pub use crate::memory::scope::checks::{check_content, check_session};
pub use crate::memory::scope::scope_settings;
pub use crate::pg::prelude::*;
pub use crate::settings::Content;
pub use crate::store::rows::fact_scope::FactScope;
pub use crate::store::rows::sessions::{self, SessionKey};
pub use crate::store::schema;
pub use memory_agent_core::text::entry;
