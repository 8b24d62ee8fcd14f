//! What row-level security asks: whose rows a direct SELECT may show.

use crate::error::PgResult;
use crate::identity::{self, SHARED_USER};
use pgrx::prelude::*;

/// The caller's identity and the shared memory. The policies of every table that holds content call
/// this, so a direct SELECT shows nothing while the library cannot be loaded.
#[pg_extern(sql = false)]
fn visible_users() -> PgResult<Vec<String>> {
    Ok(vec![identity::visible_identity()?, SHARED_USER.to_owned()])
}
