//! The settings: those that PostgreSQL keeps, and what is made of them: values, endpoints, keys, and what
//! a job keeps of the settings of its session. No other module reads what PostgreSQL keeps.

pub mod audit_keys;
mod effective;
mod guc;
pub mod job_settings;
pub mod overrides;
pub mod providers;
mod values;

pub use effective::Effective;
pub use guc::choices::*;
pub use guc::{given_before_load, register};
pub use values::*;
