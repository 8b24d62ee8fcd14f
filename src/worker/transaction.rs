//! One transaction of the worker, run as the extension's owner. An ERROR in it, or an `Err` of the
//! body, aborts it and comes back as a value: the loop goes on.

use crate::error::PgResult;
use crate::identity;
use crate::worker::tx;

pub use crate::worker::tx::Aborted;

/// Runs `body` in a transaction of its own.
pub fn transaction<T>(body: impl FnOnce() -> PgResult<T>) -> Result<T, Aborted> {
    tx::try_transaction(|| identity::as_owner(body))
}
