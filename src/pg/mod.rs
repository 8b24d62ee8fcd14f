//! PostgreSQL made safe: statements, types, errors, roles, transactions, locks, processes. What is
//! here knows nothing of memory, and nothing of what is above it.

pub mod attempt;
pub mod background_transaction;
pub mod backtrace;
pub mod catalog;
pub mod condition;
pub mod error;
pub mod latch;
pub mod locked_file;
pub mod locks;
pub mod memory_context;
pub mod params;
pub mod pinned_settings;
pub mod plans;
pub mod preload;
pub mod prelude;
pub mod process;
pub mod roles;
pub mod settings_level;
pub mod spi;
pub mod sql_types;
pub mod trigger_rows;
pub mod wake_at_commit;
