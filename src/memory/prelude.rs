//! What nearly everything about a memory uses: whose it is, which conversation, and what is said there.

pub use crate::identity::Caller;
pub use crate::pg::prelude::*;
pub use crate::settings::Content;
pub use crate::store::rows::fact_scope::FactScope;
pub use crate::store::rows::sessions::{self, SessionKey};
pub use memory_agent_model_server::protocol::ModelRef;
pub use serde_json::{Value, json};
