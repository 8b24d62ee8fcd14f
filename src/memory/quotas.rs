//! Quotas of users. What is stored is counted after it was stored, in the transaction of the statement, which an error
//! undoes as a whole; rows of attached tables are counted before, for the statement that wrote them goes on without
//! them. Two transactions of a user do not see each other's rows before they commit: a quota may be exceeded by what
//! was under way.

use crate::memory::prelude::*;
use crate::store::llm::{llm_calls, llm_ledger};
use crate::store::quotas::{self as store, Counted, Held, MOST_SINCE, Quota};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The share of a quota from which `memory_status()` says that it is nearly used up.
pub const NEARLY: f64 = 0.9;
const SECONDS_PER_DAY: u64 = 86_400;
/// Longest wait of a job for the next day: a sweep takes longer ones for a clock that was ahead. It waits again.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// What the reasons of jobs begin with that wait for the next day.
pub const NO_TOKENS_LEFT: &str = "the user's quota of LLM tokens for today is used up";

/// Whether something is counted that may have come with an older id than the last count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ids {
    New,
    Any,
}

/// What a user may still store.
#[derive(Clone, Copy)]
pub struct Room {
    quota: Quota,
    held: Held,
}

impl Room {
    /// What is used up by more than there is.
    pub fn problem(&self) -> Option<String> {
        problem(&self.quota, self.held)
    }

    /// Takes an entry in; why not, if there is no room for it.
    pub fn take(&mut self, bytes: usize) -> Option<String> {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let with =
            Held { entries: self.held.entries + 1, bytes: self.held.bytes.saturating_add(bytes) };
        let problem = problem(&self.quota, with);
        if problem.is_none() {
            self.held = with;
        }
        problem
    }
}

/// The quota of a user and what counts for it; `None` where entries and bytes have no limit.
pub fn room(spi: &Spi, user_id: &str) -> PgResult<Option<Room>> {
    room_by(spi, user_id, Ids::New)
}

fn room_by(spi: &Spi, user_id: &str, ids: Ids) -> PgResult<Option<Room>> {
    let quota = store::of(spi, user_id)?;
    if quota.entries.is_none() && quota.bytes.is_none() {
        return Ok(None);
    }
    if ids == Ids::New
        && let Some(counted) = store::counted(spi, user_id)?
        && let Some(held) = known(&quota, &counted)
    {
        return Ok(Some(Room { quota, held }));
    }
    let held = store::count(spi, user_id)?;
    store::keep(spi, user_id, held)?;
    Ok(Some(Room { quota, held }))
}

/// What a user has by the last count and the rows since. `None` where all has to be counted: when much came since,
/// when it is more than the quota, for some may have ended meanwhile, and when `memory_status()` has to learn that the
/// quota is nearly used up.
fn known(quota: &Quota, counted: &Counted) -> Option<Held> {
    let Counted { then, since } = counted;
    let held = Held { entries: then.entries + since.entries, bytes: then.bytes + since.bytes };
    let is_news = is_near(quota, held) && !is_near(quota, *then);
    (since.entries <= MOST_SINCE && problem(quota, held).is_none() && !is_news).then_some(held)
}

fn is_near(quota: &Quota, held: Held) -> bool {
    let near = |limit: Option<i64>, held: i64| {
        limit.is_some_and(|limit| held as f64 >= NEARLY * limit as f64)
    };
    near(quota.entries, held.entries) || near(quota.bytes, held.bytes)
}

/// Which quota does not allow so much.
fn problem(quota: &Quota, held: Held) -> Option<String> {
    let over = |limit: Option<i64>, held: i64, what: &str| {
        let limit = limit.filter(|limit| held > *limit)?;
        Some(format!("the user's quota of {limit} {what} is used up"))
    };
    over(quota.entries, held.entries, "entries")
        .or_else(|| over(quota.bytes, held.bytes, "bytes of content"))
}

/// Refuses what was stored in this statement, if it is too much (53400).
pub fn check(spi: &Spi, user_id: &str) -> PgResult<()> {
    check_by(spi, user_id, Ids::New)
}

/// The same for what came back, or came in with an id of its own.
pub fn check_all(spi: &Spi, user_id: &str) -> PgResult<()> {
    check_by(spi, user_id, Ids::Any)
}

fn check_by(spi: &Spi, user_id: &str, ids: Ids) -> PgResult<()> {
    let problem = room_by(spi, user_id, ids)?.and_then(|room| room.problem());
    problem.map_or(Ok(()), |problem| Err(over_quota(problem)))
}

/// What to do about a quota of entries or bytes.
pub const HINT: &str = "Forget what is not needed any more, or ask an administrator for more: memory_set_quota. \
    SELECT * FROM memory_usage() shows what is used.";

/// 53400.
pub fn over_quota(problem: String) -> ErrorReport {
    Error::over_quota(problem, HINT)
}

/// Why there is no room for turns that are about to be stored.
pub fn lacks_room(user_id: &str, contents: &[&str]) -> PgResult<Option<String>> {
    let Some(mut room) = roles::write_as_owner(|spi| room(spi, user_id))? else { return Ok(None) };
    Ok(contents.iter().find_map(|content| room.take(content.len())))
}

/// Why no LLM is asked for a user before the next day, if that is so.
///
/// * `writes`: whether calls that are made can be recorded: without that, they could not be counted.
pub fn tokens_problem(spi: &Spi, user_id: &str, writes: bool) -> PgResult<Option<String>> {
    let Some(limit) = store::of(spi, user_id)?.daily_tokens else { return Ok(None) };
    if !writes {
        let problem = "with a quota of LLM tokens no LLM is asked in a read-only transaction";
        return Ok(Some(problem.to_owned()));
    }
    let used = tokens_today(spi, user_id)?;
    Ok((used >= limit).then(|| format!("{NO_TOKENS_LEFT}: {used} of {limit}")))
}

/// Tokens that were used today for a user.
fn tokens_today(spi: &Spi, user_id: &str) -> PgResult<i64> {
    // The ledgers first: what moves from there to the table meanwhile is counted twice rather than not at all.
    let waiting = llm_ledger::waiting_tokens_of_user(user_id);
    Ok(llm_calls::tokens_of_user_today(spi, user_id)?.saturating_add(waiting))
}

/// Refuses a call that would ask an LLM for a user who has no tokens left (53400).
pub fn check_tokens(user_id: &str, writes: bool) -> PgResult<()> {
    let problem = roles::as_owner(|| tokens_problem(&Spi::read_latest()?, user_id, writes))?;
    problem.map_or(Ok(()), |problem| {
        Err(Error::over_quota(
            problem,
            "The day ends at midnight UTC. An administrator can allow more: memory_set_quota.",
        ))
    })
}

/// What the users of several rows may still store, looked up once each.
#[derive(Default)]
pub struct Rooms<'a>(BTreeMap<&'a str, Option<Room>>);

impl<'a> Rooms<'a> {
    /// Why the quota of a user keeps a row out. `bytes`: what it takes, if it is a further entry.
    pub fn problem(
        &mut self,
        spi: &Spi,
        user_id: &'a str,
        bytes: Option<usize>,
    ) -> PgResult<Option<String>> {
        if !self.0.contains_key(user_id) {
            self.0.insert(user_id, room(spi, user_id)?);
        }
        let Some(Some(room)) = self.0.get_mut(user_id) else { return Ok(None) };
        Ok(match bytes {
            Some(bytes) => room.take(bytes),
            None => room.problem(),
        })
    }
}

/// How long a job waits for the next day.
pub fn until_tomorrow() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    Duration::from_secs(SECONDS_PER_DAY - now % SECONDS_PER_DAY).min(LONGEST_WAIT)
}

/// What a user has of something, and may have: resource, used, quota.
pub type Usage = (&'static str, i64, Option<i64>);

/// What a user has and may have.
pub fn usage(spi: &Spi, user_id: &str) -> PgResult<Vec<Usage>> {
    let quota = store::of(spi, user_id)?;
    let held = store::count(spi, user_id)?;
    Ok(vec![
        ("entries", held.entries, quota.entries),
        ("bytes", held.bytes, quota.bytes),
        ("daily_tokens", tokens_today(spi, user_id)?, quota.daily_tokens),
    ])
}
