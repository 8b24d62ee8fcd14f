//! The database: its address, its connections, how statements are run, and what an error of it means.

pub mod cause;
pub mod database;
pub mod database_address;
pub mod lending;
pub mod memory;
pub mod memory_error;
pub mod place;
