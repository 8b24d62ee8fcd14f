//! `memory_agent.jobs`, the side of the workers: claim with a lease, then finish, postpone or fail.
//! Who finishes must still hold the lease, so a result is applied once, however often a job was run.

pub mod backfill;
pub mod jobs;
pub mod queue_upkeep;
pub mod traces;

use crate::store::prelude::*;
use crate::store::queue::jobs::JobKind;
use crate::store::rows::fact_scope::FactScope;
use memory_agent_core::jobs::payloads::Payload;
use std::str::FromStr;

/// How long a claimed job belongs to its worker without a renewal.
pub const LEASE: Duration = Duration::from_secs(300);
/// Interruptions (a worker that died, say) after which a job is run less and less often: perhaps it is
/// what kills the worker.
const PATIENT_INTERRUPTIONS: i32 = 10;
/// Interruptions without any progress between them after which it surely is: it is given up.
const MOST_INTERRUPTIONS: i32 = 20;
/// Of one user's jobs of a kind that are due, how many are looked at. Each of them leads to the oldest one of
/// its scope, which is claimed; they are more only where writers of attached tables queue one each.
const LOOKED_AT: i64 = 100;
/// The error of a job that found no row of its session.
pub const NO_SESSION: &str = "its session is not there";
/// Longest error text that is kept.
const MAX_ERROR_CHARS: usize = 1000;

/// A claimed job.
#[derive(Clone, Debug)]
pub struct Job {
    pub id: Uuid,
    pub kind: JobKind,
    pub user_id: String,
    pub agent_id: String,
    pub session_id: Option<String>,
    payload: serde_json::Value,
    /// Failures so far that were the job's own.
    pub attempts: i32,
    pub max_attempts: i32,
    /// How often its worker ended while it ran, or could not store what became of it.
    pub interrupted: i32,
    /// Proves that the job still is this worker's.
    lease: String,
}

impl Job {
    /// Whether one more failure of its own ends it.
    pub fn is_last_attempt(&self) -> bool {
        self.attempts + 1 >= self.max_attempts
    }

    pub fn session_key(&self) -> SessionKey {
        let session_id = self.session_id.as_deref().unwrap_or_default();
        SessionKey::new(&self.user_id, &self.agent_id, session_id)
    }

    /// Its session, or the memory of its agent that belongs to none.
    pub fn scope(&self) -> FactScope<'_> {
        let Self { user_id, agent_id, session_id, .. } = self;
        FactScope { user_id, agent_id, session_id: session_id.as_deref() }
    }

    /// What the payload of its kind holds.
    pub fn payload<P: Payload>(&self) -> P {
        P::read(&self.payload)
    }

    /// Changes what the payload holds. It is in the row only when it was [saved](save).
    pub fn keep<P: Payload>(&mut self, change: impl FnOnce(&mut P)) {
        let mut payload = self.payload();
        change(&mut payload);
        self.payload = payload.to_value();
    }
}

/// Ids as JSON holds them.
pub fn uuids(texts: &[String]) -> Vec<Uuid> {
    texts.iter().filter_map(|text| uuid(text)).collect()
}

/// An id as JSON holds it.
pub fn uuid(text: &str) -> Option<Uuid> {
    Some(Uuid::from_bytes(*uuid::Uuid::from_str(text).ok()?.as_bytes()))
}

/// The name under which a worker slot leases jobs; ends in a blank.
fn lessee(slot: u32) -> String {
    format!("slot {slot} ")
}

/// Gives back what this slot has leased and none of its tasks, whose jobs are `held`, works at: what the last
/// worker of the slot left, of which the slot's lock proves that it is gone, and what this one could not give
/// back when it should have. Returns whether some are left, which others have locked.
pub fn release_slot(spi: &Spi, slot: u32, held: &[&Job]) -> PgResult<bool> {
    let lost = "j.status = 'running' AND starts_with(j.leased_by, $1) AND j.leased_by <> ALL ($2)";
    // Reading an attached table may end the worker; what else it did then is not to blame.
    let counted = "CASE WHEN j.kind = 'attach' \
           OR NOT EXISTS (SELECT FROM memory_agent.jobs a \
                           WHERE a.status = 'running' AND a.kind = 'attach' AND starts_with(a.leased_by, $1)) \
         THEN 1 ELSE 0 END";
    let params = || params![lessee(slot), leases(held)];
    release(spi, lost, counted, params())?;
    spi.exists(&format!("SELECT true FROM memory_agent.jobs j WHERE {lost} LIMIT 1"), &mut params())
}

fn leases(jobs: &[&Job]) -> Vec<String> {
    jobs.iter().map(|job| job.lease.clone()).collect()
}

/// Gives back the jobs whose leases ran out.
pub fn release_expired(spi: &Spi) -> PgResult<u64> {
    release(spi, "j.status = 'running' AND j.leased_until < now()", "1", params![])
}

/// `counted` is how many interruptions it is for a job.
fn release(spi: &Spi, condition: &str, counted: &str, mut params: Params) -> PgResult<u64> {
    spi.execute(
        &format!(
            "UPDATE memory_agent.jobs j \
                SET leased_until = NULL, interrupted = j.interrupted + {counted}, \
                    status = CASE WHEN j.interrupted + {counted} >= {MOST_INTERRUPTIONS} THEN 'dead' ELSE 'pending' END, \
                    finished_at = CASE WHEN j.interrupted + {counted} >= {MOST_INTERRUPTIONS} THEN now() END, \
                    last_error = CASE WHEN j.interrupted + {counted} >= {MOST_INTERRUPTIONS} \
                        THEN concat('interrupted ', j.interrupted + {counted}, ' times: each time its worker ended, or could not store what became of it; see the server''s log') \
                        ELSE j.last_error END, \
                    run_after = CASE WHEN j.interrupted < {PATIENT_INTERRUPTIONS} THEN j.run_after \
                        ELSE now() + make_interval(secs => least(600, \
                            power(2, least(j.interrupted - {PATIENT_INTERRUPTIONS}, 10)))) END \
              WHERE j.id IN (SELECT j.id FROM memory_agent.jobs j \
                              WHERE {condition} FOR UPDATE SKIP LOCKED)"
        ),
        &mut params,
    )
}

/// Claims the next job of a kind that is due, if any. Users take turns: the first one after the user `after`
/// who has such a job, in the order of their ids, and then the first of all. Jobs of one scope whose kinds
/// [exclude](JobKind::exclusive) each other run one after the other, as they were queued.
pub fn claim(spi: &Spi, slot: u32, kind: JobKind, after: &str) -> PgResult<Option<Job>> {
    match claim_after(spi, slot, kind, after)? {
        None if !after.is_empty() => claim_after(spi, slot, kind, ""),
        claimed => Ok(claimed),
    }
}

/// Each look at a user costs one descent of jobs_turn_idx and two for each of [`LOOKED_AT`] jobs, however many
/// there are. Schemas before 0.3.0 lack that index: there the users are found in one pass.
fn claim_after(spi: &Spi, slot: u32, kind: JobKind, after: &str) -> PgResult<Option<Job>> {
    let users = if schema::has_0_3() {
        "SELECT (SELECT j.user_id FROM memory_agent.jobs j \
                  WHERE j.status = 'pending' AND j.kind = $1 AND j.user_id > $5 \
                  ORDER BY j.user_id, j.priority DESC LIMIT 1) \
         UNION ALL \
         SELECT (SELECT j.user_id FROM memory_agent.jobs j \
                  WHERE j.status = 'pending' AND j.kind = $1 AND j.user_id > u.user_id \
                  ORDER BY j.user_id, j.priority DESC LIMIT 1) \
           FROM users u WHERE u.user_id IS NOT NULL"
    } else {
        "SELECT DISTINCT j.user_id FROM memory_agent.jobs j \
          WHERE j.status = 'pending' AND j.run_after <= now() AND j.kind = $1 AND j.user_id > $5 ORDER BY 1"
    };
    let lease = format!("{}{}", lessee(slot), uuid::Uuid::new_v4());
    let exclusive: Vec<String> =
        kind.exclusive().iter().map(|kind| kind.as_str().to_owned()).collect();
    spi.first(
        &format!(include_str!("../sql/claim_job.sql"), users = users, LOOKED_AT = LOOKED_AT),
        &mut params![kind.as_str(), &lease, LEASE.as_secs_f64(), exclusive, after],
        |row| {
            Ok(Job {
                id: row.required(1)?,
                kind,
                user_id: row.required(2)?,
                agent_id: row.required(3)?,
                session_id: row.optional(4),
                payload: serde_json::from_str(&row.required::<JsonbText>(5)?.0).unwrap_or_default(),
                attempts: row.required(6)?,
                max_attempts: row.required(7)?,
                interrupted: row.required(8)?,
                lease,
            })
        },
    )
}

/// Whether another user waits for a job of this kind, or for [the same](JobKind::rivals). Two looks, each in
/// the order of the index: a user's own jobs may be many.
pub fn do_others_wait(spi: &Spi, job: &Job) -> PgResult<bool> {
    let rivals: Vec<String> =
        job.kind.rivals().iter().map(|kind| kind.as_str().to_owned()).collect();
    spi.exists(
        "SELECT true WHERE EXISTS (SELECT FROM memory_agent.jobs j \
                                    WHERE j.status = 'pending' AND j.kind = ANY ($1) AND j.user_id < $2 \
                                      AND j.run_after <= now()) \
                        OR EXISTS (SELECT FROM memory_agent.jobs j \
                                    WHERE j.status = 'pending' AND j.kind = ANY ($1) AND j.user_id > $2 \
                                      AND j.run_after <= now())",
        &mut params![rivals, &job.user_id],
    )
}

/// Gives a job back in the middle, with what its payload says of how far it has come, so that other users
/// have their turn.
pub fn hand_over(spi: &Spi, job: &Job) -> PgResult<()> {
    spi.run(
        "UPDATE memory_agent.jobs j \
            SET status = 'pending', leased_until = NULL, run_after = now(), payload = $3 \
          WHERE j.id = $1 AND j.leased_by = $2 AND j.status = 'running'",
        &mut params![job.id, &job.lease, JsonbText(job.payload.to_string())],
    )
}

/// Takes jobs of the same kind and scope along that writers of attached tables queued each by itself:
/// the claimed one does everything that its scope lacks, and the rows behind a job that is visible are.
pub fn fold(spi: &Spi, job: &Job) -> PgResult<u64> {
    spi.execute(
        "DELETE FROM memory_agent.jobs j WHERE j.id IN ( \
            SELECT o.id FROM memory_agent.jobs o \
             WHERE o.user_id = $1 AND o.agent_id = $2 AND coalesce(o.session_id, '') = coalesce($3, '') \
               AND o.kind = $4 AND o.status = 'pending' AND o.leased_by IS NULL \
               AND o.entry_id IS NOT NULL AND o.id <> $5 \
               FOR UPDATE SKIP LOCKED)",
        &mut params![
            &job.user_id, &job.agent_id, job.session_id.as_deref(), job.kind.as_str(), job.id,
        ],
    )
}

/// How storing what a job came to went. Only with `Stored` was anything stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Applied<Stored = (), Changed = ()> {
    Stored(Stored),
    /// What the job is about changed since it was looked at.
    Changed(Changed),
    /// Another worker has the job by now, or it was cancelled.
    NotOurs,
    /// The session is not there (yet).
    NoSession,
}

/// Locks a claimed job until the end of the transaction; false when it no longer is this worker's:
/// its result must be dropped.
pub fn lock(spi: &Spi, job: &Job) -> PgResult<bool> {
    spi.exists(
        "SELECT true FROM memory_agent.jobs j \
          WHERE j.id = $1 AND j.leased_by = $2 AND j.status = 'running' FOR UPDATE",
        &mut params![job.id, &job.lease],
    )
}

/// Marks a job as done. Its payload may hold texts, which are not needed any more.
pub fn finish(spi: &Spi, job: &Job) -> PgResult<()> {
    spi.run(
        "UPDATE memory_agent.jobs j \
            SET status = 'done', finished_at = now(), leased_until = NULL, last_error = NULL, payload = '{}' \
          WHERE j.id = $1 AND j.leased_by = $2",
        &mut params![job.id, &job.lease],
    )
}

/// Stores how far a job has come, so that the next attempt goes on from there.
pub fn save(spi: &Spi, job: &Job) -> PgResult<()> {
    spi.run(
        "UPDATE memory_agent.jobs j SET payload = $3 WHERE j.id = $1 AND j.leased_by = $2",
        &mut params![job.id, &job.lease, JsonbText(job.payload.to_string())],
    )
}

/// Stores the progress of a job, for `memory_jobs`; `of` is the whole, when it became known. Of what ended its
/// workers before, it is not the cause: only the fact is kept.
pub fn progress(spi: &Spi, job: &Job, done: i64, of: Option<i64>) -> PgResult<()> {
    spi.run(
        "UPDATE memory_agent.jobs j SET progress = $3, progress_of = coalesce($4, j.progress_of), \
                interrupted = CASE WHEN $3 > coalesce(j.progress, 0) THEN least(j.interrupted, 1) \
                                   ELSE j.interrupted END \
          WHERE j.id = $1 AND j.leased_by = $2",
        &mut params![job.id, &job.lease, done, of],
    )
}

/// Gives a job back for reasons that are not its own (an outage); it does not count as an attempt.
pub fn postpone(spi: &Spi, job: &Job, delay: Duration, reason: &str) -> PgResult<()> {
    give_back(spi, job, "status = 'pending'", delay, reason)
}

/// Counts a failure: the job is run again after `delay`, or is dead after its last attempt.
pub fn fail(spi: &Spi, job: &Job, delay: Duration, reason: &str) -> PgResult<()> {
    let counted = "attempts = j.attempts + 1, \
        status = CASE WHEN j.attempts + 1 >= j.max_attempts THEN 'dead' ELSE 'pending' END, \
        finished_at = CASE WHEN j.attempts + 1 >= j.max_attempts THEN now() END";
    give_back(spi, job, counted, delay, reason)
}

/// Counts a failure after which another attempt would ask the LLM the same: the job is dead.
pub fn give_up(spi: &Spi, job: &Job, reason: &str) -> PgResult<()> {
    let counted = "attempts = j.attempts + 1, status = 'dead', finished_at = now()";
    give_back(spi, job, counted, Duration::ZERO, reason)
}

fn give_back(
    spi: &Spi,
    job: &Job,
    change: &'static str,
    delay: Duration,
    reason: &str,
) -> PgResult<()> {
    spi.run(
        &format!(
            "UPDATE memory_agent.jobs j \
                SET {change}, leased_until = NULL, last_error = $4, \
                    run_after = now() + make_interval(secs => $3) \
              WHERE j.id = $1 AND j.leased_by = $2 AND j.status = 'running'"
        ),
        &mut params![job.id, &job.lease, delay.as_secs_f64(), shortened(reason)],
    )
}

/// Keeps the reason why a job that is done did less than it should have.
pub fn note_error(spi: &Spi, job: &Job, reason: &str) -> PgResult<()> {
    spi.run(
        "UPDATE memory_agent.jobs j SET last_error = $3 WHERE j.id = $1 AND j.leased_by = $2",
        &mut params![job.id, &job.lease, shortened(reason)],
    )
}

fn shortened(reason: &str) -> String {
    reason.chars().take(MAX_ERROR_CHARS).collect()
}

/// Keeps claimed jobs for another lease.
pub fn renew(spi: &Spi, jobs: &[&Job]) -> PgResult<()> {
    let ids: Vec<Uuid> = jobs.iter().map(|job| job.id).collect();
    spi.run(
        "UPDATE memory_agent.jobs j SET leased_until = now() + make_interval(secs => $3) \
          WHERE j.id = ANY ($1) AND j.leased_by = ANY ($2) AND j.status = 'running'",
        &mut params![ids, leases(jobs), LEASE.as_secs_f64()],
    )
}

/// Runs a dead job again, from the first attempt. `user_id` narrows it to jobs of that user.
pub fn retry(spi: &Spi, id: Uuid, user_id: Option<&str>) -> PgResult<bool> {
    spi.changes(
        "UPDATE memory_agent.jobs j \
            SET status = 'pending', attempts = 0, interrupted = 0, run_after = now(), finished_at = NULL \
          WHERE j.id = $1 AND j.status = 'dead' AND ($2::text IS NULL OR j.user_id = $2)",
        &mut params![id, user_id],
    )
}

/// Whether jobs are waiting or running, of one user, of one of their sessions, or at all.
pub fn is_busy(spi: &Spi, user_id: Option<&str>, session: Option<(&str, &str)>) -> PgResult<bool> {
    // Only the conditions that are needed: a plan for all cases would read every open job.
    let mut params = params![];
    let mut conditions = String::new();
    if let Some(user_id) = user_id {
        params = params.with(user_id.to_owned());
        conditions.push_str(" AND j.user_id = $1");
        if let Some((agent_id, session_id)) = session {
            let sessions = SessionKey::new(user_id, agent_id, session_id).names();
            params = params.with(agent_id.to_owned()).with(sessions);
            conditions.push_str(" AND j.agent_id = $2 AND coalesce(j.session_id, '') = ANY ($3)");
        }
    }
    spi.exists(
        &format!(
            "SELECT true FROM memory_agent.jobs j WHERE j.status IN ('pending', 'running'){conditions} LIMIT 1"
        ),
        &mut params)
}

/// Seconds until the next job of these kinds that waits for its time; `None` when none does.
pub fn next_due(spi: &Spi, kinds: &[JobKind]) -> PgResult<Option<Duration>> {
    let kinds: Vec<String> = kinds.iter().map(|kind| kind.as_str().to_owned()).collect();
    let seconds = spi.row::<Option<f64>>(
        "SELECT extract(epoch FROM min(j.run_after) - now())::float8 FROM memory_agent.jobs j \
          WHERE j.status = 'pending' AND j.run_after > now() AND j.kind = ANY ($1)",
        &mut params![kinds],
    )?;
    Ok(seconds.flatten().map(|seconds| Duration::from_secs_f64(seconds.max(0.0))))
}
