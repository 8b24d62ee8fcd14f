//! The client of the database: calls of `memory_*` functions, each in a transaction of its own that says first whose
//! memory it is about. The statements stand with the ways in (`queries.rs`) and are run through this.

use crate::db::cause::Cause;
use crate::db::lending::{Borrower, Lender};
pub use crate::db::memory_error::MemoryError;
use crate::db::memory_error::{no_extension, reason};
use crate::metrics::Metrics;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

/// A turn that no client waits for any more is stored within this time, or not at all.
pub const LAST_MOMENT: Duration = Duration::from_secs(30);
/// Says who the statements of a transaction are for, and how long each may take. Where the gateway was killed, the
/// server ends them by itself.
macro_rules! who {
    () => {
        "SELECT set_config('memory_agent.user_id', $1, true), \
                set_config('statement_timeout', $2, true), \
                current_setting('memory_agent.identity', true), \
                set_config('request.jwt.claims', CASE $1 WHEN '' THEN '' \
                           ELSE json_build_object('sub', $1)::text END, true), \
                set_config('memory_agent.memory_message', 'user', true), \
                set_config('client_connection_check_interval', '1s', true)"
    };
}
pub const WHO: &str = who!();
/// The same, and has a job embed what is stored, so that no chat waits for that. Where nothing is embedded, or no
/// worker runs, it stays as it is. In the same statement, for each one costs a chat time.
pub const WHO_STORES: &str = concat!(
    who!(),
    ", (SELECT set_config('memory_agent.embed_on_ingest', 'async', true) \
         WHERE current_setting('memory_agent.embed_on_ingest', true) = 'sync' \
           AND current_setting('memory_agent.worker', true) = 'on')"
);
/// Of the patience of a chat, what is waited for the database by who watches it, and at most.
const WATCHED: u32 = 4;
const MOST_WATCHED: Duration = Duration::from_secs(2);
/// How long the database may take to say what time was over.
const GRACE: Duration = Duration::from_millis(250);
/// The identity mode in which a SQL role is a user, so that no caller can act for another user.
const MODE_OF_ROLES: &str = "role";

/// A component that `memory_status()` names.
#[derive(Debug)]
pub struct Status {
    pub component: String,
    pub state: String,
    pub detail: String,
    /// What to do, if there is something.
    pub hint: Option<String>,
}

/// How a transaction ends in which nothing failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Commit,
    /// What was done was only to see what it would come to.
    Rollback,
}

/// An argument and its type.
pub type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// A pool of connections, all as the gateway's one role.
#[derive(Clone)]
pub struct Memory {
    lender: Arc<Lender>,
    /// How long a call waits that nothing else is said of.
    pub patience: Duration,
    pub metrics: Arc<Metrics>,
}

impl Memory {
    /// Connects on the first request. `patience` is how long a chat waits for memory.
    ///
    /// # Errors
    /// What is wrong with the connection string, or with the pool.
    pub fn new(
        database: &str,
        connections: usize,
        patience: Duration,
        metrics: Arc<Metrics>,
    ) -> Result<Self, String> {
        let lender = Arc::new(Lender::new(database, connections, patience)?);
        Ok(Self { lender, patience, metrics })
    }

    /// The same for who watches it, and wants to hear at once that the database is gone: with less patience.
    pub fn watched(&self) -> Self {
        let patience = (self.patience / WATCHED).min(MOST_WATCHED);
        Self { patience, ..self.clone() }
    }

    /// Connections that are open, and how many of them are idle.
    pub fn connections(&self) -> (usize, usize) {
        self.lender.connections()
    }

    /// What `memory_status()` says.
    ///
    /// # Errors
    /// [`MemoryError`].
    pub async fn status(&self) -> Result<Vec<Status>, MemoryError> {
        let sql = "SELECT component, state, coalesce(detail, ''), hint FROM memory_status()";
        let rows = self.call("", self.patience, sql, &[]).await?;
        let status = |row: &Row| {
            Ok(Status {
                component: column(row, 0)?,
                state: column(row, 1)?,
                detail: column(row, 2)?,
                hint: column(row, 3)?,
            })
        };
        rows.iter().map(status).collect()
    }

    /// The name of the database, and how many memories a recall returns by default.
    ///
    /// # Errors
    /// [`MemoryError`].
    pub async fn store_name(&self) -> Result<(String, Option<String>), MemoryError> {
        let sql =
            "SELECT current_database()::text, current_setting('memory_agent.default_top_k', true)";
        let rows = self.call("", self.patience, sql, &[]).await?;
        let row = rows.first().ok_or(MemoryError::Unexpected)?;
        Ok((column(row, 0)?, column(row, 1)?))
    }

    /// Runs a statement for a user who waits for it, and returns its rows.
    ///
    /// # Errors
    /// [`MemoryError`].
    pub async fn ask(
        &self,
        user_id: &str,
        sql: &str,
        params: &[Param<'_>],
        end: End,
    ) -> Result<Vec<Row>, MemoryError> {
        self.one(user_id, LAST_MOMENT, sql, params, end).await
    }

    /// The rows of one statement about a user's memory; about no user's where `user_id` is empty.
    ///
    /// # Errors
    /// [`MemoryError`]; [`MemoryError::Late`] when patience ends.
    pub async fn call(
        &self,
        user_id: &str,
        patience: Duration,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, MemoryError> {
        self.one(user_id, patience, sql, params, End::Commit).await
    }

    /// The same, for a statement that waits for a language model.
    ///
    /// # Errors
    /// [`MemoryError`]; [`MemoryError::Late`] when patience ends.
    pub async fn call_with_model(
        &self,
        user_id: &str,
        patience: Duration,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, MemoryError> {
        let (who, statements) = ((WHO, Borrower::WithModel(user_id)), [(sql, params)]);
        let mut answers = self.run(who, patience, &statements, End::Commit, None).await?;
        Ok(answers.pop().unwrap_or_default())
    }

    async fn one(
        &self,
        user_id: &str,
        patience: Duration,
        sql: &str,
        params: &[Param<'_>],
        end: End,
    ) -> Result<Vec<Row>, MemoryError> {
        let who = (WHO, Borrower::of(user_id));
        let mut answers = self.run(who, patience, &[(sql, params)], end, None).await?;
        Ok(answers.pop().unwrap_or_default())
    }

    /// Runs statements in a transaction of the borrower, and returns the rows of each.
    ///
    /// They go out at once, right behind what says who they are for, and before what ends the transaction. Should
    /// the connection's session have another user's name left, the identity of the transaction overrules it; and
    /// the argument `user_id`, which every statement about memory has, would contradict it.
    ///
    /// With `looking`, all of them see what was there when that is used.
    pub async fn run(
        &self,
        (who, borrower): (&str, Borrower<'_>),
        patience: Duration,
        statements: &[(&str, &[Param<'_>])],
        end: End,
        looking: Option<oneshot::Sender<()>>,
    ) -> Result<Vec<Vec<Row>>, MemoryError> {
        let work = async {
            let lent = self.lender.lend(borrower, patience).await?;
            let client = lent.client().ok_or(MemoryError::Unexpected)?;
            let (user_id, milliseconds) =
                (borrower.user_id(), format!("{}ms", patience.as_millis()));
            let whose: [Param<'_>; 2] = [(&user_id, Type::TEXT), (&milliseconds, Type::TEXT)];
            let queries = statements.iter().map(|(sql, params)| client.query_typed(sql, params));
            let begin = match looking {
                Some(_) => "BEGIN ISOLATION LEVEL REPEATABLE READ",
                None => "BEGIN",
            };
            let name = async {
                let named = client.query_typed(who, &whose).await;
                // The caller may be gone.
                let _ = looking.map(|looking| looking.send(()));
                named
            };
            let end = match end {
                End::Commit => "COMMIT",
                End::Rollback => "ROLLBACK",
            };
            let (begun, named, rows, ended) = tokio::join!(
                biased;
                client.batch_execute(begin),
                name,
                // Each is polled once in its place, which is when it is sent.
                futures_util::future::try_join_all(queries),
                // After a statement that failed, this undoes the others.
                client.batch_execute(end),
            );
            let is_over = ended.is_ok();
            let outcome = begun.and(named).and_then(|named| rows.map(|rows| (named, rows)));
            let outcome = outcome.and_then(|outcome| ended.map(|()| outcome));
            let missing = match &outcome {
                Err(error)
                    if error.code().map(|code| Cause::of(code.code()))
                        == Some(Cause::NoFunction) =>
                {
                    no_extension(client).await
                }
                _ => None,
            };
            if is_over {
                lent.give_back();
            }
            let (named, rows) =
                outcome.map_err(|error| missing.unwrap_or_else(|| reason(&error)))?;
            let mode: Option<String> = named.first().and_then(|row| row.try_get(2).ok());
            if mode.as_deref() == Some(MODE_OF_ROLES) {
                return Err(MemoryError::ModeOfRoles);
            }
            Ok(rows)
        };
        tokio::time::timeout(patience + GRACE, work).await.unwrap_or(Err(MemoryError::Late))
    }
}

/// A column of an answer.
///
/// # Errors
/// [`MemoryError::Unexpected`].
pub fn column<'a, T: tokio_postgres::types::FromSql<'a>>(
    row: &'a Row,
    at: usize,
) -> Result<T, MemoryError> {
    row.try_get(at).map_err(|_| MemoryError::Unexpected)
}
