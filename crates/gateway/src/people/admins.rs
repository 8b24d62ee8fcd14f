//! What only administrators see, and how: through a connection of its own, whose role has the level `admin`,
//! and for tokens of users who were named on the command line. Everything else goes through the gateway's
//! connection, whose role cannot see it.

use crate::db::memory::{Memory, MemoryError};
use crate::log;
use crate::metrics::Metrics;
use crate::people::authentication::Person;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// Administrators are few.
const CONNECTIONS: usize = 2;
/// How long the database may take to say whether its role is one of an administrator.
const START: Duration = Duration::from_secs(30);

/// Who they are, and their connection.
pub struct Admins {
    pub memory: Memory,
    users: Vec<String>,
}

impl Admins {
    /// # Errors
    /// What is wrong with the connection string; that its role is no administrator. A database that
    /// cannot be reached may come later.
    pub async fn new(
        database: &str,
        users: Vec<String>,
        patience: Duration,
        metrics: Arc<Metrics>,
    ) -> Result<Self, String> {
        let memory = Memory::new(database, CONNECTIONS, patience, metrics)
            .map_err(|problem| format!("--admin-database: {problem}"))?;
        let admins = Self { memory, users };
        match admins.memory.spent_today(START).await {
            Ok(_) => {}
            Err(MemoryError::Refused(said)) => {
                let code = &said.code;
                return Err(format!(
                    "--admin-database: its role needs the level admin (SQLSTATE {code}): \
                     SELECT memory_grant('ROLE', 'admin')"
                ));
            }
            Err(error) => {
                let reason = error.for_operator();
                log::write("memory_failed", json!({"step": "start", "reason": reason}));
            }
        }
        Ok(admins)
    }

    /// Whether this is one of them.
    pub fn include(&self, person: &Person) -> bool {
        self.users.contains(&person.user_id)
    }
}
