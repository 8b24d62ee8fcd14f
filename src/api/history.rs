//! `memory_verify_history()`: whether history is still what was sealed; and what the guards of the
//! table ask.

use crate::api::prelude::*;
use crate::settings::audit_keys;
use crate::store::{changes::seal, rows::history};
use memory_agent_core::history::chain::{Id, Verdict};

/// user_id, state, seq, hash, id, sealed, unsealed, detail.
type Line = (
    String,
    String,
    Option<i64>,
    Option<Vec<u8>>,
    Option<Uuid>,
    Option<i64>,
    Option<i64>,
    Option<String>,
);

#[pg_extern(sql = false)]
fn history_is_open() -> bool {
    history::is_open()
}

#[pg_extern(sql = false)]
fn memory_verify_history(
    _limits: WithinLimits,
    user_id: Option<String>,
    seq: Option<i64>,
    hash: Option<Vec<u8>>,
) -> PgResult<Rows<Line>> {
    let level = identity::require(Level::Reader)?;
    let kept = match (seq, hash) {
        (Some(seq), Some(hash)) => Some((seq, hash)),
        (None, None) => None,
        _ => {
            let hint = "Pass both, as memory_verify_history returned them before, or neither.";
            return Err(Error::invalid("seq and hash belong together", hint));
        }
    };
    let one = match user_id {
        None if level == Level::Admin && kept.is_none() => None,
        user => Some(identity::resolve_at(level, user.as_deref(), None)?.user_id),
    };
    let keys = audit_keys::keys()?;
    let lines = roles::read_as_owner(|spi| {
        let users = match one {
            Some(user) => vec![user],
            None => seal::users(spi)?,
        };
        let mut lines = Vec::new();
        for user in users {
            let verdict = seal::verify(spi, &user, &keys, kept.clone())?;
            tell(&user, verdict, &mut lines);
        }
        Ok(lines)
    })?;
    Ok(Rows::new(lines))
}

/// The line of a chain's head, then one for each problem.
fn tell(user: &str, verdict: Verdict, lines: &mut Vec<Line>) {
    let state = if verdict.problems.is_empty() { "intact" } else { "broken" };
    let mut remarks = Vec::new();
    if verdict.unkeyed > 0 {
        remarks.push(format!("{} rows sealed without a key", verdict.unkeyed));
    }
    if verdict.unlisted > 0 {
        remarks.push(format!("{} more problems", verdict.unlisted));
    }
    let (seq, hash) = verdict.head.unzip();
    let remarks = (!remarks.is_empty()).then(|| remarks.join(", "));
    lines.push((
        user.to_owned(),
        state.to_owned(),
        seq,
        hash,
        None,
        Some(verdict.sealed),
        Some(verdict.unsealed),
        remarks,
    ));
    let uuid = |id: Id| Uuid::from_bytes(id);
    lines.extend(verdict.problems.into_iter().map(|problem| {
        let trouble = problem.trouble.as_str().to_owned();
        let id = problem.id.map(uuid);
        (user.to_owned(), trouble, problem.seq, None, id, None, None, Some(problem.detail))
    }));
}
