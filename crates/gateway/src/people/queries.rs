//! What the database knows of callers: whose token it is that they show, and what they spend. Both need the level
//! `gateway` of the database's role; what all of them spent needs the level `admin`.

use crate::db::cause::Cause;
use crate::db::memory::{LAST_MOMENT, Memory, MemoryError, Param, column};
use std::time::Duration;
use tokio_postgres::types::Type;

/// What was spent today (UTC), in tokens of language models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpentToday {
    /// Of the gateway's key, by all callers.
    pub by_callers: i64,
    /// Of the database's endpoints, for facts and summaries.
    pub by_endpoints: i64,
}

impl Memory {
    /// The user of the token with this SHA-256.
    ///
    /// # Errors
    /// [`MemoryError`].
    pub async fn token_user(&self, hash: &[u8]) -> Result<Option<String>, MemoryError> {
        Ok(self.token(hash).await?.map(|(user_id, _)| user_id))
    }

    /// The same, and whether the token may name any other user.
    ///
    /// # Errors
    /// [`MemoryError`].
    pub async fn token(&self, hash: &[u8]) -> Result<Option<(String, bool)>, MemoryError> {
        let sql = "SELECT user_id, for_users FROM memory_token_user($1)";
        let rows = self.call("", self.patience, sql, &[(&hash, Type::BYTEA)]).await?;
        rows.first().map(|row| Ok((column(row, 0)?, column(row, 1)?))).transpose()
    }

    /// Whether the role of the database has the level `gateway`, which looking up tokens and counting what is spent
    /// need. The error says so; a database that does not answer may have given it.
    ///
    /// # Errors
    /// What to grant.
    pub async fn may_look_up(&self) -> Result<(), String> {
        match self.token_user(&[0; 32]).await {
            Err(MemoryError::Refused(said)) if said.cause() == Cause::NotPermitted => {
                Err("tokens and spending need the level gateway of the database's role (SQLSTATE \
                     42501): SELECT memory_grant('ROLE', 'gateway')"
                    .to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Adds a guess to what a caller has spent today, and returns the sum; `None` when `at_most` is spent.
    ///
    /// # Errors
    /// [`MemoryError`].
    pub async fn spend(
        &self,
        caller: &[u8],
        tokens: i64,
        at_most: i64,
    ) -> Result<Option<i64>, MemoryError> {
        let sql = "SELECT memory_spend($1, $2, at_most => $3)";
        self.spent(caller, tokens, at_most, self.patience, sql).await
    }

    /// Counts what a call took in the place of a guess.
    ///
    /// # Errors
    /// [`MemoryError`].
    pub async fn settle(&self, caller: &[u8], tokens: i64, guess: i64) -> Result<(), MemoryError> {
        let sql = "SELECT memory_spend($1, $2, reserved => $3)";
        self.spent(caller, tokens, guess, LAST_MOMENT, sql).await.map(drop)
    }

    /// What all callers spent today.
    ///
    /// # Errors
    /// [`MemoryError`].
    pub async fn spent_today(&self, patience: Duration) -> Result<SpentToday, MemoryError> {
        let sql = "SELECT memory_spent_today(), \
                          (SELECT coalesce(sum(e.tokens_today), 0)::int8 FROM memory_list_endpoints() e)";
        let rows = self.call("", patience, sql, &[]).await?;
        let row = rows.first().ok_or(MemoryError::Unexpected)?;
        Ok(SpentToday { by_callers: column(row, 0)?, by_endpoints: column(row, 1)? })
    }

    async fn spent(
        &self,
        caller: &[u8],
        tokens: i64,
        other: i64,
        patience: Duration,
        sql: &str,
    ) -> Result<Option<i64>, MemoryError> {
        let params: [Param<'_>; 3] =
            [(&caller, Type::BYTEA), (&tokens, Type::INT8), (&other, Type::INT8)];
        let rows = self.call("", patience, sql, &params).await?;
        column(rows.first().ok_or(MemoryError::Unexpected)?, 0)
    }
}
