//! Erasing memory for good: rows, vectors, what was derived from them, and the texts that history,
//! jobs and recorded calls keep of them. What remains is a row of history that says how much it was.
//!
//! Everything happens in the caller's transaction, in the order in which everybody locks: sessions,
//! facts of all sessions, jobs, entries, summaries. A worker that is at work on what is erased finds
//! its job gone and drops the result.

mod doomed;

use crate::error::PgResult;
use crate::sql_types::JsonbText;
use crate::store::entries::new_id;
use crate::store::facts::{self, FactScope};
use crate::store::history;
use crate::store::sessions::{self, SessionKey};
use crate::store::spi::{Params, Session as Spi};
use crate::store::summaries;
use doomed::Doomed;
use pgrx::datum::Uuid;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// The event in history.
pub const OP: &str = "erase";

/// What is to be erased.
pub enum Target {
    /// Everything of a user.
    User,
    /// One session of the user.
    Session(SessionKey),
    /// One entry with the versions it replaced and that replaced it, one document, or the summaries of
    /// the session that one of them belongs to.
    One(Uuid),
}

/// How many rows of which table were deleted, or lost their texts.
#[derive(Debug, Default)]
pub struct Counts(Map<String, Value>);

impl Counts {
    fn add(&mut self, table: &str, rows: u64) {
        let known = self.0.get(table).and_then(Value::as_u64).unwrap_or(0);
        self.0.insert(table.to_owned(), json!(known + rows));
    }

    /// Whether there was nothing to erase.
    pub fn is_empty(&self) -> bool {
        self.0.values().all(|rows| rows.as_u64() == Some(0))
    }

    /// `{table: rows}`.
    pub fn document(&self) -> JsonbText {
        JsonbText(Value::from(self.0.clone()).to_string())
    }
}

/// Erases and returns what it came to, with the sessions that have to be summarised anew.
pub fn erase(
    spi: &Spi,
    user_id: &str,
    target: &Target,
    reason: Option<&str>,
) -> PgResult<(Counts, Vec<SessionKey>)> {
    let mut erasure = Erasure { spi, user_id, event: new_id(), counts: Counts::default() };
    let resummarised = match target {
        Target::User => {
            erasure.user()?;
            Vec::new()
        }
        Target::Session(key) => erasure.session(key)?,
        Target::One(id) => erasure.one(*id)?,
    };
    // A call that finds nothing to erase changes nothing.
    if !erasure.counts.is_empty() || matches!(target, Target::User) {
        erasure.blank_calls()?;
    }
    if !erasure.counts.is_empty() {
        erasure.tombstone(target, reason)?;
    }
    Ok((erasure.counts, resummarised))
}

struct Erasure<'a> {
    spi: &'a Spi,
    user_id: &'a str,
    event: Uuid,
    counts: Counts,
}

impl Erasure<'_> {
    fn params(&self) -> Params {
        Params::new().with(self.user_id.to_owned())
    }

    /// Runs a statement about rows of a table, and counts them.
    fn run(&mut self, table: &str, sql: &str, mut params: Params) -> PgResult<u64> {
        let rows = self.spi.execute(sql, &mut params)?;
        self.counts.add(table, rows);
        Ok(rows)
    }

    /// Locks the sessions of the user, and the facts that belong to none.
    fn lock(&self, agents_of: &str, session: Option<&SessionKey>) -> PgResult<()> {
        match session {
            Some(key) => {
                sessions::lock_existing(self.spi, key)?;
            }
            None => {
                self.spi.execute(
                    "SELECT FROM memory_agent.sessions s WHERE s.user_id = $1 \
                      ORDER BY s.agent_id, s.session_id FOR UPDATE",
                    &mut self.params(),
                )?;
            }
        }
        let agents: Vec<String> =
            self.spi.all(agents_of, &mut self.params(), |row| row.required(1))?;
        for agent_id in &agents {
            let scope = FactScope { user_id: self.user_id, agent_id, session_id: None };
            facts::lock_global(self.spi, &scope)?;
        }
        Ok(())
    }

    fn user(&mut self) -> PgResult<()> {
        self.lock(AGENTS, None)?;
        // Jobs first: who runs one of them waits for this transaction, and finds it gone. The job about
        // all users' vectors holds nothing of anybody's.
        let jobs = "DELETE FROM memory_agent.jobs t WHERE t.user_id = $1 AND t.kind <> 'reembed'";
        self.run("jobs", jobs, self.params())?;
        for table in [
            "entries",
            "entry_windows",
            "session_summaries",
            "archives",
            "traces",
            "episodes",
            "sessions",
        ] {
            let delete = format!("DELETE FROM memory_agent.{table} t WHERE t.user_id = $1");
            self.run(table, &delete, self.params())?;
        }
        // Settings of agents for all users are an administrator's, not a user's.
        let agents = "DELETE FROM memory_agent.agents t WHERE t.user_id = $1 AND t.user_id <> '*'";
        self.run("agents", agents, self.params())?;
        self.blank("true", self.params())
    }

    fn session(&mut self, key: &SessionKey) -> PgResult<Vec<SessionKey>> {
        self.lock(AGENTS, Some(key))?;
        self.delete_jobs("t.agent_id = $2 AND t.session_id = $3", || key.params())?;
        let mut doomed = Doomed::of_session(self.spi, key)?;
        let elsewhere = doomed.derive(self.spi, self.user_id)?;
        self.delete(&doomed)?;
        let traces = "DELETE FROM memory_agent.traces t \
                       WHERE t.user_id = $1 AND t.agent_id = $2 AND t.session_id = $3";
        self.run("traces", traces, key.params())?;
        let sessions = "DELETE FROM memory_agent.sessions t \
                         WHERE t.user_id = $1 AND t.agent_id = $2 AND t.session_id = $3";
        self.run("sessions", sessions, key.params())?;
        // Also of rows that were purged before.
        self.blank(
            &format!(
                "({OF_DOOMED} OR h.body ->> 'session_id' = $5 AND h.body ->> 'agent_id' = $4)"
            ),
            self.params()
                .with(self.event)
                .with(doomed.known_as())
                .with(key.agent_id.clone())
                .with(key.session_id.clone()),
        )?;
        self.recount(elsewhere.into_iter().filter(|other| other != key).collect())
    }

    fn one(&mut self, id: Uuid) -> PgResult<Vec<SessionKey>> {
        doomed::refuse_part(self.spi, self.user_id, id)?;
        let session = doomed::place(self.spi, self.user_id, id)?;
        if let Some((agent_id, session_id)) = &session {
            let key = session_id.as_ref().map(|session_id| SessionKey {
                user_id: self.user_id.to_owned(),
                agent_id: agent_id.clone(),
                session_id: session_id.clone(),
            });
            if let Some(key) = &key {
                self.lock(AGENTS, Some(key))?;
            } else {
                let scope = FactScope { user_id: self.user_id, agent_id, session_id: None };
                facts::lock_global(self.spi, &scope)?;
            }
            // What is left without an embedding still wants one.
            let scope =
                "t.agent_id = $2 AND t.session_id IS NOT DISTINCT FROM $3 AND t.kind <> 'embed'";
            self.delete_jobs(scope, || {
                Params::new()
                    .with(self.user_id.to_owned())
                    .with(agent_id.clone())
                    .with(session_id.clone())
            })?;
        }
        let mut doomed = Doomed::of_id(self.spi, self.user_id, id)?;
        let elsewhere = doomed.derive(self.spi, self.user_id)?;
        self.delete(&doomed)?;
        self.blank(OF_DOOMED, self.params().with(self.event).with(doomed.known_as()))?;
        self.recount(elsewhere)
    }

    /// Deletes the rows. Entries come before their windows: whoever embeds one holds its lock while
    /// windows are added.
    fn delete(&mut self, doomed: &Doomed) -> PgResult<()> {
        let by_id = |erasure: &Self, ids: &[Uuid]| erasure.params().with(ids.to_vec());
        let traces = "DELETE FROM memory_agent.traces t \
             WHERE t.user_id = $1 \
               AND (t.episode_id = ANY ($3) \
                    OR t.episode_id IN (SELECT e.episode_id FROM memory_agent.entries e \
                                         WHERE e.user_id = $1 AND e.id = ANY ($2)) \
                    OR EXISTS (SELECT FROM regexp_matches(t.body::text, \
                                    '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}', 'g') m(id) \
                                WHERE m.id[1]::uuid = ANY ($2)))";
        let params = by_id(self, &doomed.entries).with(doomed.episodes.clone());
        self.run("traces", traces, params)?;
        // An episode of which nothing is left goes; of another one the turns are counted.
        self.run(
            "episodes",
            "DELETE FROM memory_agent.episodes t WHERE t.user_id = $1 \
                AND (t.id = ANY ($3) \
                     OR t.id IN (SELECT e.episode_id FROM memory_agent.entries e \
                                  WHERE e.user_id = $1 AND e.id = ANY ($2)) \
                        AND NOT EXISTS (SELECT FROM memory_agent.entries o \
                                         WHERE o.user_id = $1 AND o.episode_id = t.id AND o.id <> ALL ($2)))",
            by_id(self, &doomed.entries).with(doomed.episodes.clone()),
        )?;
        self.spi.execute(
            "UPDATE memory_agent.episodes p SET turn_count = p.turn_count - gone.turns \
               FROM (SELECT e.episode_id, count(*)::int AS turns FROM memory_agent.entries e \
                      WHERE e.user_id = $1 AND e.id = ANY ($2) AND e.kind = 'turn' GROUP BY 1) gone \
              WHERE p.user_id = $1 AND p.id = gone.episode_id",
            &mut by_id(self, &doomed.entries),
        )?;
        self.spi.execute(
            "UPDATE memory_agent.sessions s SET turn_count = s.turn_count - gone.turns, \
                    open_episode_id = (SELECT p.id FROM memory_agent.episodes p \
                                        WHERE p.user_id = $1 AND p.id = s.open_episode_id) \
               FROM (SELECT e.agent_id, e.session_id, count(*) AS turns FROM memory_agent.entries e \
                      WHERE e.user_id = $1 AND e.id = ANY ($2) AND e.kind = 'turn' AND e.session_id IS NOT NULL \
                      GROUP BY 1, 2) gone \
              WHERE s.user_id = $1 AND s.agent_id = gone.agent_id AND s.session_id = gone.session_id",
            &mut by_id(self, &doomed.entries),
        )?;
        for (table, column, ids) in [
            ("entries", "id", &doomed.entries),
            ("entry_windows", "entry_id", &doomed.entries),
            ("session_summaries", "id", &doomed.summaries),
            ("archives", "id", &doomed.archives),
        ] {
            let delete = format!(
                "DELETE FROM memory_agent.{table} t WHERE t.user_id = $1 AND t.{column} = ANY ($2)"
            );
            self.run(table, &delete, by_id(self, ids))?;
        }
        Ok(())
    }

    /// Deletes the jobs of a scope. Where the user has facts that belong to no session, those that run in
    /// other sessions go too: they may have been shown some of what is erased. Turns that wait are found
    /// again by the next sweep.
    fn delete_jobs(&mut self, scope: &str, params: impl Fn() -> Params) -> PgResult<()> {
        let delete = format!(
            "DELETE FROM memory_agent.jobs t WHERE t.id IN ( \
                SELECT t.id FROM memory_agent.jobs t WHERE t.user_id = $1 AND ({scope}) \
                 ORDER BY t.id FOR UPDATE)"
        );
        let jobs = params();
        self.run("jobs", &delete, jobs)?;
        let running = "DELETE FROM memory_agent.jobs t WHERE t.id IN ( \
                SELECT t.id FROM memory_agent.jobs t \
                 WHERE t.user_id = $1 AND t.status = 'running' AND t.kind IN ('extract', 'reflect') \
                   AND EXISTS (SELECT FROM memory_agent.entries e \
                                WHERE e.user_id = $1 AND e.session_id IS NULL AND e.kind = 'fact') \
                 ORDER BY t.id FOR UPDATE)";
        self.run("jobs", running, self.params())?;
        Ok(())
    }

    /// Takes the texts out of the calls of models that are on record: which call was about what cannot
    /// be told, so all of the user's. What they cost stays.
    fn blank_calls(&mut self) -> PgResult<()> {
        let blank = "UPDATE memory_agent.llm_calls c SET request = NULL, response = NULL, error = NULL \
                      WHERE c.user_id = $1 \
                        AND (c.request IS NOT NULL OR c.response IS NOT NULL OR c.error IS NOT NULL)";
        self.run("llm_calls", blank, self.params())?;
        Ok(())
    }

    /// Takes body, salt and reason out of rows of history; earlier erasures stay as they are.
    fn blank(&mut self, rows: &str, params: Params) -> PgResult<()> {
        let mut params = if params.len() == 1 { params.with(self.event) } else { params };
        let blanked = history::opened(|| {
            self.spi.execute(
                &format!(
                    "UPDATE memory_agent.history h \
                        SET body = NULL, salt = NULL, reason = NULL, erased_by = $2 \
                      WHERE h.user_id = $1 AND h.op <> '{OP}' AND h.erased_by IS NULL AND {rows}"
                ),
                &mut params,
            )
        })?;
        self.counts.add("history", blanked);
        Ok(())
    }

    /// Counts anew what is left in sessions, and returns those that lost their summary.
    fn recount(&self, sessions: Vec<SessionKey>) -> PgResult<Vec<SessionKey>> {
        for key in &sessions {
            sessions::recount(self.spi, key)?;
            summaries::recount(self.spi, key)?;
        }
        Ok(sessions)
    }

    /// What remains: when, by whom, why, which, and how much. No text of what was erased; the name of a
    /// session is told to who knows it.
    fn tombstone(&mut self, target: &Target, reason: Option<&str>) -> PgResult<()> {
        let mut body = json!({ "counts": self.counts.0 });
        match target {
            Target::User => body["scope"] = json!("user"),
            Target::Session(key) => {
                body["scope"] = json!("session");
                body["session_sha256"] = json!(hex(&Sha256::digest(key.session_id.as_bytes())));
            }
            Target::One(id) => {
                body["scope"] = json!("id");
                body["id"] = json!(id.to_string());
            }
        }
        let entry = match target {
            Target::One(id) => Some(*id),
            _ => None,
        };
        let event = history::Event { id: self.event, op: OP, entry_id: entry, reason };
        history::append_event(self.spi, self.user_id, &event, JsonbText(body.to_string()))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Agents of a user who may have facts that belong to no session.
const AGENTS: &str = "SELECT DISTINCT e.agent_id FROM memory_agent.entries e \
     WHERE e.user_id = $1 AND e.session_id IS NULL ORDER BY 1";

/// Rows of history about what is erased ($3); about memories that are no longer there and were made of
/// it; and those that the same jobs wrote, whose reasons may quote it.
const OF_DOOMED: &str = "(h.entry_id = ANY ($3) \
     OR h.job_id IN (SELECT x.job_id FROM memory_agent.history x \
                      WHERE x.user_id = $1 AND x.entry_id = ANY ($3) AND x.job_id IS NOT NULL) \
     OR h.body -> 'source_ids' ?| $3::uuid[]::text[] \
        AND NOT EXISTS (SELECT FROM memory_agent.entries e WHERE e.user_id = $1 AND e.id = h.entry_id))";
