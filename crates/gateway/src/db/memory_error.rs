//! Why memory did not do what it was asked: what the driver, the database and the clock say, as the rest of the
//! gateway knows it.

use crate::db::cause::Cause;
use crate::db::memory::column;
use deadpool_postgres::PoolError;
use std::error::Error;
use tokio_postgres::Client;

/// Why memory did not do what it was asked. Printed, it has no message of the database: they may name arguments.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// No connection is available, for a reason.
    #[error("the database cannot be reached")]
    NoDatabase(String),
    /// There is one, to a database without what is asked for.
    #[error("the database has no memory")]
    NoExtension(String),
    /// TLS failed: the server has none, or its certificate is not believed.
    #[error("TLS with the database failed")]
    NoTls(String),
    /// The time was over.
    #[error("memory took too long")]
    Late,
    /// See `--max-answers`.
    #[error("other answers leave no room for this one")]
    NoRoom,
    /// The text of an answer cannot be read.
    #[error("the answer has no text that can be read")]
    Unread,
    /// The database refused. What it said is for the user who asked, never for a log.
    #[error("the database refused: SQLSTATE {}", .0.code)]
    Refused(Box<DatabaseError>),
    /// This version of the extension does not give such an answer.
    #[error("the database answered something unexpected")]
    Unexpected,
    /// In the identity mode `role` a SQL role is a user, so that no caller can act for another user.
    #[error(
        "memory_agent.identity is 'role': the gateway, which is one role, cannot act for users. \
         Set it to 'required', 'setting' or 'claims'"
    )]
    ModeOfRoles,
}

/// What the messages of a request have to fit into.
const LIMIT: &str = "memory_agent.context_limit";

impl MemoryError {
    /// For the gateway's operator: with what the server said to a connection, which names hosts, databases and roles.
    pub fn for_operator(&self) -> String {
        match self {
            Self::NoTls(problem) | Self::NoDatabase(problem) => format!("{self}: {problem}"),
            Self::NoExtension(problem) => problem.clone(),
            // The hint is the extension's own, and names what is too small.
            Self::Refused(said)
                if said.hint.as_deref().is_some_and(|hint| hint.contains(LIMIT)) =>
            {
                format!("{self}: the messages are longer than {LIMIT} allows")
            }
            other => other.to_string(),
        }
    }
}

/// What the database said when it refused.
#[derive(Debug)]
pub struct DatabaseError {
    /// The SQLSTATE.
    pub code: String,
    pub message: String,
    pub hint: Option<String>,
}

impl DatabaseError {
    pub fn cause(&self) -> Cause {
        Cause::of(&self.code)
    }

    /// What to do, for a person who may read what the database says. What PostgreSQL itself refuses lacks a level.
    pub fn advice(&self) -> Option<&str> {
        const NO_LEVEL: &str = "Grant its role a level: SELECT memory_grant('ROLE').";
        self.hint.as_deref().or((self.cause() == Cause::NotPermitted).then_some(NO_LEVEL))
    }
}

/// Why there is no connection to an address.
pub fn unreachable(error: &PoolError, address: &str) -> MemoryError {
    /// The driver's words for it; what the other side's certificate lacks is behind them.
    const TLS: &str = "error performing TLS handshake";
    match error {
        PoolError::Backend(error) if error.to_string() == TLS => {
            let problem = error.source().map_or_else(String::new, ToString::to_string);
            MemoryError::NoTls(problem)
        }
        PoolError::Backend(error) => {
            MemoryError::NoDatabase(format!("{} ({address})", words(error)))
        }
        other => MemoryError::NoDatabase(format!("{other} ({address})")),
    }
}

/// What the server said, or else what the driver says of it.
fn words(error: &tokio_postgres::Error) -> String {
    if let Some(said) = error.as_db_error() {
        return format!("{}: {}", said.severity(), said.message());
    }
    match error.source() {
        Some(reason) => reason.to_string(),
        None => error.to_string(),
    }
}

/// What went wrong on a connection.
pub fn reason(error: &tokio_postgres::Error) -> MemoryError {
    match error.as_db_error() {
        Some(error) if Cause::of(error.code().code()) == Cause::Cancelled => MemoryError::Late,
        Some(error) => MemoryError::Refused(Box::new(DatabaseError {
            code: error.code().code().to_owned(),
            message: error.message().to_owned(),
            hint: error.hint().map(str::to_owned),
        })),
        None => MemoryError::NoDatabase(words(error)),
    }
}

/// What a database lacks in which a function is not found.
pub async fn no_extension(client: &Client) -> Option<MemoryError> {
    let sql = "SELECT pg_catalog.current_database()::text, n.nspname::text, \
                      n.nspname = ANY (pg_catalog.current_schemas(true)) \
                 FROM (VALUES (1)) one \
                 LEFT JOIN (pg_catalog.pg_extension e \
                            JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace) \
                        ON e.extname = 'memory_agent'";
    let rows = client.query_typed(sql, &[]).await.ok()?;
    let row = rows.first()?;
    let (database, schema): (String, Option<String>) = (column(row, 0).ok()?, column(row, 1).ok()?);
    let is_seen = column::<Option<bool>>(row, 2).ok()? == Some(true);
    match schema {
        None => Some(MemoryError::NoExtension(format!(
            "the database {database} has no extension memory_agent: run CREATE EXTENSION memory_agent CASCADE in it, \
             or name another database"
        ))),
        Some(schema) if !is_seen => Some(MemoryError::NoExtension(format!(
            "the extension memory_agent of the database {database} is in the schema {schema}, which is not in the \
             search_path of this role: set it with ALTER ROLE"
        ))),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_runs_the_gateway_is_told_which_limit_is_too_small() {
        let refused = |hint: &str| {
            let (code, message, hint) = ("22023".to_owned(), "Ann's".to_owned(), hint.to_owned());
            let said = DatabaseError { code, message, hint: Some(hint) };
            MemoryError::Refused(Box::new(said)).for_operator()
        };
        let limited = refused("Send fewer messages, or raise memory_agent.context_limit.");
        assert!(limited.contains(LIMIT) && !limited.contains("Ann's"), "{limited}");
        assert_eq!(refused("Do this."), "the database refused: SQLSTATE 22023");
    }
}
