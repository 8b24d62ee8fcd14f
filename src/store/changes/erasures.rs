//! Whether memory of a user was erased while a call was at work on what it had read of it before: a
//! statement that waits for an LLM must not store an answer that is made of what is gone.

use crate::pg::locks::Lock;
use crate::store::changes::erase::OP;
use crate::store::prelude::*;

/// What of a user's memory had been erased at some moment.
#[derive(Clone, Debug)]
pub struct Erasures {
    user_id: String,
    /// Their rows of history stay for ever.
    count: i64,
}

impl Erasures {
    /// As the calling query sees it, and with it everything that reads the user's memory.
    pub fn known(user_id: &str) -> PgResult<Self> {
        let mut erasures = Self { user_id: user_id.to_owned(), count: 0 };
        erasures.count = erasures.counted(&Spi::read_only()?)?;
        Ok(erasures)
    }

    /// How many there were.
    pub fn count(&self) -> i64 {
        self.count
    }

    /// Whether there was one since, as far as it is committed.
    pub fn have_grown(&self) -> PgResult<bool> {
        Ok(self.counted(&Spi::read_latest()?)? != self.count)
    }

    /// Whether there was none since; then there will be none until the end of the transaction either. Never
    /// waits: one that is under way counts.
    pub fn stay_as_known(&self) -> PgResult<bool> {
        Ok(Lock::erasures(&self.user_id).try_share() && !self.have_grown()?)
    }

    fn counted(&self, spi: &Spi) -> PgResult<i64> {
        if !schema::has_0_2() {
            return Ok(0);
        }
        spi.one(
            &format!(
                "SELECT count(*) FROM memory_agent.history h WHERE h.user_id = $1 AND h.op = '{OP}'"
            ),
            &mut params![&self.user_id],
        )
    }
}
