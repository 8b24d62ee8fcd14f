//! The settings: those that PostgreSQL keeps, and what is made of them: endpoints, keys, and what a
//! job keeps of the settings of its session.

pub mod audit_keys;
pub mod endpoint;
pub mod guc;
pub mod job_settings;
pub mod overrides;
