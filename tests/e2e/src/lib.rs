//! Harness of the end-to-end tests: private PostgreSQL clusters with the installed extension.
//!
//! A suite (one file in `tests/`, one test binary) takes its databases from [`shared`], one cluster
//! per binary; a test that stops, kills or configures its server starts its own with
//! [`Cluster::builder`]. `tests/README.md` says which kind of test belongs where.
//!
//! Whatever happens in a test, no process stays: [`Cluster`] stops its server when it is dropped,
//! the shared one is stopped at exit, and the kernel stops both when the test binary is killed.

mod binaries;
mod binary_upgrade;
mod browser;
mod certificates;
mod cluster;
mod database;
mod expect;
mod files;
mod gateway;
pub mod http;
pub mod injections;
pub mod llm;
pub mod memory;
mod pooler;
pub mod processes;
mod programs;
pub mod programs_of_others;
mod shared;
pub mod spawner;
mod standby;

pub use binaries::bindir;
pub use browser::{Browser, Element};
pub use certificates::Certificates;
pub use cluster::{Builder, Cluster, StopMode};
pub use database::Database;
pub use expect::{expect_error, let_cancel_pass, retry_until, sqlstate, wait_until};
pub use gateway::Gateway;
pub use pooler::Pooler;
pub use programs::Programs;
pub use shared::{keep, shared, shared_without_worker};

// What suites need to talk to a database, so that they name one crate only.
pub use chrono::{DateTime, Utc};
pub use postgres::{Client, Error, Row, Transaction};
pub use serde_json::{Value as Json, json};
pub use uuid::Uuid;
