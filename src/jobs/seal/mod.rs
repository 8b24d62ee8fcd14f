//! Seals history: what was committed since the last look, user by user. Only the first worker of a
//! database does, in short transactions.

use crate::jobs::prelude::*;
use crate::settings::audit_keys;
use crate::store::{changes::seal, schema};

/// Rows of one transaction.
const BATCH: i64 = 500;
/// Transactions of one turn: jobs wait meanwhile.
const BATCHES: usize = 8;

/// Goes round the users who have something to seal.
#[derive(Default)]
pub struct Sealer {
    /// The user whose turn was last.
    after: String,
}

impl Sealer {
    /// Seals some rows; true when there may be more. While the key cannot be read nothing is sealed.
    pub fn run(&mut self) -> Result<bool, Aborted> {
        let is_whole_round = self.after.is_empty();
        let mut total = 0;
        for _ in 0..BATCHES {
            let after = self.after.clone();
            let done = transaction(|spi| {
                if !schema::has_0_2() {
                    return Ok(None);
                }
                let Some(user) = seal::next_user(spi, &after)? else { return Ok(None) };
                let sealed = seal::seal(spi, &user, audit_keys::key()?.as_ref(), BATCH)?;
                Ok(Some((user, sealed)))
            })?;
            let Some((user, sealed)) = done else {
                self.after.clear();
                told(total);
                return Ok(!is_whole_round);
            };
            total += sealed;
            if sealed < BATCH as u64 {
                self.after = user;
            }
        }
        told(total);
        Ok(true)
    }
}

fn told(rows: u64) {
    if rows > 0 {
        debug1!("memory_agent: seal rows={rows}");
    }
}
