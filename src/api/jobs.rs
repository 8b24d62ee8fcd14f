//! `memory_wait` and `memory_retry`: what a user can do about background work.

use crate::api::prelude::*;
use crate::pg::{latch, spi, wake_at_commit};
use crate::store::queue;
use std::time::{Duration, Instant};

/// First and longest pause between two looks at the queue.
const FIRST_LOOK: Duration = Duration::from_millis(5);
const LONGEST_LOOK: Duration = Duration::from_millis(100);

#[pg_extern(sql = false)]
fn memory_wait(
    _limits: WithinLimits,
    timeout: Option<Interval>,
    session_id: Option<String>,
    user_id: Option<String>,
) -> PgResult<bool> {
    let seconds = timeout.map(|timeout| timeout.as_micros() as f64 / 1e6);
    waited(seconds, session_id, user_id)
}

/// `memory_wait` for a number of seconds.
#[pg_extern(sql = false)]
fn memory_wait_for(
    _limits: WithinLimits,
    timeout: Option<f64>,
    session_id: Option<String>,
    user_id: Option<String>,
) -> PgResult<bool> {
    waited(timeout, session_id, user_id)
}

/// `memory_wait` for an interval that is written as a text. With it, PostgreSQL knows which of the three is meant by
/// a literal without a type.
#[pg_extern(sql = false)]
fn memory_wait_written(
    _limits: WithinLimits,
    timeout: Option<String>,
    session_id: Option<String>,
    user_id: Option<String>,
) -> PgResult<bool> {
    identity::require(Level::User)?;
    // A text that is no interval is PostgreSQL's error (22007), as it was where the argument was one.
    let read = |text: String| -> PgResult<f64> {
        let sql = "SELECT extract(epoch FROM $1::interval)::float8";
        roles::read_as_owner(|spi| spi.one(sql, &mut params![text]))
    };
    waited(timeout.map(read).transpose()?, session_id, user_id)
}

fn waited(
    timeout: Option<f64>,
    session_id: Option<String>,
    user_id: Option<String>,
) -> PgResult<bool> {
    check_session(session_id.as_deref())?;
    let caller = caller(user_id.as_deref(), session_id.is_none())?;
    refuse_waiting_in_vain()?;
    let timeout = duration(timeout)?;
    let started = Instant::now();
    let mut pause = FIRST_LOOK;
    loop {
        if !is_busy(caller.as_ref(), session_id.as_deref())? {
            return Ok(true);
        }
        let left = timeout.saturating_sub(started.elapsed());
        if left.is_zero() {
            return Ok(false);
        }
        latch::wait(Some(pause.min(left)), None);
        pgrx::check_for_interrupts!();
        pause = (pause * 2).min(LONGEST_LOOK);
    }
}

/// Whose jobs are meant; `None` for those of all users, as administrators mean who name no user.
fn caller(user_id: Option<&str>, may_be_all: bool) -> PgResult<Option<Caller>> {
    let level = identity::require(Level::User)?;
    if level == Level::Admin && user_id.is_none() && may_be_all {
        return Ok(None);
    }
    identity::resolve_at(level, user_id, None).map(Some)
}

fn is_busy(caller: Option<&Caller>, session_id: Option<&str>) -> PgResult<bool> {
    roles::write_as_owner(|spi| {
        let session = caller.and_then(|caller| Some((caller.agent(), session_id?)));
        // Not read-only: each look needs a snapshot of its own.
        queue::is_busy(spi, caller.map(|caller| caller.user_id.as_str()), session)
    })
}

/// Refuses to wait for jobs that cannot be done or seen before this transaction ends.
#[allow(unsafe_code)]
fn refuse_waiting_in_vain() -> PgResult<()> {
    // SAFETY: reads the state of the backend.
    let in_recovery = unsafe { pg_sys::RecoveryInProgress() };
    if in_recovery {
        return Err(Error::not_ready(
            "memory_wait cannot be used on a standby: no worker runs here",
            "Wait on the primary.",
        ));
    }
    if spi::sees_one_snapshot() {
        return Err(Error::active_transaction(
            "memory_wait needs isolation level READ COMMITTED: this transaction never sees the work done",
            "Call it outside of the transaction.",
        ));
    }
    if wake_at_commit::queued_in_this_transaction() {
        return Err(Error::active_transaction(
            "memory_wait would wait for jobs that this transaction queued",
            "Commit first: workers see jobs only then.",
        ));
    }
    Ok(())
}

fn duration(seconds: Option<f64>) -> PgResult<Duration> {
    let seconds = seconds.unwrap_or(30.0);
    match (0.0..=1e9).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err(unusable()),
    }
}

fn unusable() -> ErrorReport {
    Error::invalid(
        "timeout must be an interval, or a number of seconds, not negative or longer than 30 years",
        "Examples: '1 minute', 60.",
    )
}

#[pg_extern(sql = false)]
fn memory_retry(
    _limits: WithinLimits,
    job_id: Option<Uuid>,
    user_id: Option<String>,
) -> PgResult<bool> {
    let caller = caller(user_id.as_deref(), true)?;
    let Some(job_id) = job_id else {
        return Err(Error::null("job_id is NULL", "Take it from the view memory_jobs."));
    };
    let retried = roles::write_as_owner(|spi| {
        let user_id = caller.as_ref().map(|caller| caller.user_id.as_str());
        queue::retry(spi, job_id, user_id)
    })?;
    if retried {
        wake_at_commit::job_queued();
    }
    debug1!("memory_agent: retry job={job_id} retried={retried}");
    Ok(retried)
}
