//! The state of memories that a prompt tells, as a text that changes when what it tells holds no longer.

use crate::memory::prelude::*;
use crate::store::changes::erasures::Erasures;
use crate::store::{facts::stale, rows::entries};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

/// What a prompt tells.
pub struct Told {
    pub ids: Vec<Uuid>,
    /// The session whose summary it tells.
    pub summary_of: Option<SessionKey>,
}

/// The state now. Of what is erased, marks and summaries may tell as well, and it is not known which: so each erasure
/// counts. New facts and renewed summaries change nothing.
pub fn now(caller: &Caller, told: &Told) -> PgResult<String> {
    let users = caller.visible();
    roles::read_as_owner(|spi| {
        let erasures = Erasures::known(&caller.user_id)?;
        let texts = entries::standing(spi, &users, &told.ids)?;
        // In which words a turn says what was replaced, is not always known.
        let replaced = stale::replacements(spi, &users, &told.ids, None)?;
        let replaced: BTreeSet<Uuid> = replaced.into_iter().map(|(turn, _)| turn).collect();
        let outdated = stale::no_longer_true(spi, &users, &told.ids)?;
        let summary = match &told.summary_of {
            Some(key) => sessions::summary(spi, key)?.is_some(),
            None => false,
        };
        let state = format!("{} {summary} {texts:?} {replaced:?} {outdated:?}", erasures.count());
        Ok(Sha256::digest(state).iter().map(|byte| format!("{byte:02x}")).collect())
    })
}
