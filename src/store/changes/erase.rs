//! Erasing memory for good: rows, vectors, what was derived from them, and the texts that history,
//! jobs and recorded calls keep of them. What remains is a row of history that says how much it was.
//!
//! Everything happens in the caller's transaction, in the order in which all transactions lock: the user's
//! erasures, sessions,
//! facts of all sessions, jobs, entries, summaries. A worker that is at work on what is erased finds
//! its job gone and drops the result.

mod affected_rows;
mod jobs;

use crate::pg::locks::Lock;
use crate::pg::prelude::*;
use crate::store::rows::entries::new_id;
use crate::store::rows::sessions::{self, SessionKey};
use crate::store::{facts::shared_facts, quotas, rows::history, schema, summaries};
use affected_rows::{AffectedRows, Hold};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

/// The event in history.
pub const OP: &str = "erase";

/// What is to be erased.
pub enum Target {
    /// Everything of a user.
    User,
    /// One session of the user.
    Session(SessionKey),
    /// One entry with its versions, one document, or the summaries of the session that one of them
    /// belongs to.
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
    // Before anything else is locked: who writes the user's memory is waited for, and no other transaction does
    // from now on.
    Lock::erasures(user_id).hold();
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
        params![self.user_id]
    }

    /// Runs a statement about rows of a table, and counts them.
    fn run(&mut self, table: &str, sql: &str, mut params: Params) -> PgResult<u64> {
        let rows = self.spi.execute(sql, &mut params)?;
        self.counts.add(table, rows);
        Ok(rows)
    }

    /// Locks sessions, in the order of their keys, as all do that lock several.
    fn lock_sessions(&self, keys: &BTreeSet<SessionKey>) -> PgResult<()> {
        for key in keys {
            sessions::lock_existing(self.spi, key)?;
        }
        Ok(())
    }

    /// Locks the facts of the user that belong to no session, and the comparison across sessions.
    fn lock_facts(&self) -> PgResult<()> {
        Lock::comparison(self.user_id).hold();
        let agents: Vec<String> = self.spi.rows(
            "SELECT a.agent_id FROM (SELECT DISTINCT e.agent_id FROM memory_agent.entries e \
                                      WHERE e.user_id = $1 AND e.session_id IS NULL) a \
              ORDER BY a.agent_id COLLATE \"C\"",
            &mut self.params(),
        )?;
        for agent_id in &agents {
            Lock::global_facts(self.user_id, agent_id).hold();
        }
        Ok(())
    }

    fn user(&mut self) -> PgResult<()> {
        self.spi.execute(
            "SELECT FROM memory_agent.sessions s WHERE s.user_id = $1 \
              ORDER BY s.agent_id COLLATE \"C\", s.session_id COLLATE \"C\" FOR UPDATE",
            &mut self.params(),
        )?;
        self.lock_facts()?;
        // Jobs first: who runs one of them waits for this transaction, and finds it gone.
        self.delete_all_jobs()?;
        // Writers of attached tables keep no erasure out, and lock entries in this order.
        self.spi.execute(
            "SELECT FROM memory_agent.entries e WHERE e.user_id = $1 ORDER BY e.created_at, e.id FOR UPDATE",
            &mut self.params(),
        )?;
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
        if schema::has_0_3() {
            let tokens = "DELETE FROM memory_agent.tokens t WHERE t.user_id = $1";
            self.run("tokens", tokens, self.params())?;
            // The quota itself is an administrator's.
            quotas::forget(self.spi, self.user_id)?;
        }
        self.blank("SELECT x.id FROM memory_agent.history x WHERE x.user_id = $1", self.params())
    }

    fn session(&mut self, key: &SessionKey) -> PgResult<Vec<SessionKey>> {
        let concerned = AffectedRows::of_session(self.spi, key, Hold::Nothing)?.sessions;
        let mut locked = shared_facts::with_heirs(self.spi, key)?;
        locked.extend(concerned);
        self.lock_sessions(&locked)?;
        self.lock_facts()?;
        for other in &locked {
            self.delete_jobs(&other.agent_id, Some(&other.session_id), other == key)?;
        }
        if key.is_global() {
            self.delete_jobs(&key.agent_id, None, true)?;
        }
        self.delete_answers()?;
        shared_facts::leave(self.spi, key)?;
        let affected = AffectedRows::of_session(self.spi, key, Hold::Rows)?;
        self.delete(&affected)?;
        let traces = "DELETE FROM memory_agent.traces t \
                       WHERE t.user_id = $1 AND t.agent_id = $2 AND t.session_id = $3";
        self.run("traces", traces, key.params())?;
        let sessions = "DELETE FROM memory_agent.sessions t \
                         WHERE t.user_id = $1 AND t.agent_id = $2 AND t.session_id = $3";
        self.run("sessions", sessions, key.params())?;
        // Also of rows that were purged before.
        let session = if key.is_global() {
            "coalesce(x.body ->> 'session_id', $5) = $5 AND x.body ? 'session_id'"
        } else {
            "x.body ->> 'session_id' = $5"
        };
        self.blank(
            &format!(
                "{OF_AFFECTED} UNION SELECT x.id FROM memory_agent.history x \
                  WHERE x.user_id = $1 AND {session} AND x.body ->> 'agent_id' = $4"
            ),
            self.params()
                .with(self.event)
                .with(affected.known_as())
                .with(key.agent_id.clone())
                .with(key.session_id.clone()),
        )?;
        let others = affected.sessions.into_iter().filter(|other| other != key).collect();
        self.recount(others, &locked)
    }

    fn one(&mut self, id: Uuid) -> PgResult<Vec<SessionKey>> {
        affected_rows::refuse_part(self.spi, self.user_id, id)?;
        let concerned = AffectedRows::of_id(self.spi, self.user_id, id, Hold::Nothing)?.sessions;
        let mut locked: BTreeSet<SessionKey> = concerned.into_iter().collect();
        let mut agent = None;
        match affected_rows::place(self.spi, self.user_id, id)? {
            None => {}
            Some((agent_id, None)) => agent = Some(agent_id),
            Some((agent_id, Some(session_id))) => {
                let user_id = self.user_id.to_owned();
                locked.insert(SessionKey { user_id, agent_id, session_id });
            }
        }
        self.lock_sessions(&locked)?;
        self.lock_facts()?;
        // What is left without an embedding still wants one.
        for key in &locked {
            self.delete_jobs(&key.agent_id, Some(&key.session_id), false)?;
        }
        if let Some(agent_id) = &agent {
            self.delete_jobs(agent_id, None, false)?;
        }
        if agent.is_some() || !locked.is_empty() {
            self.delete_answers()?;
        }
        let affected = AffectedRows::of_id(self.spi, self.user_id, id, Hold::Rows)?;
        self.delete(&affected)?;
        self.blank(OF_AFFECTED, self.params().with(self.event).with(affected.known_as()))?;
        self.recount(affected.sessions, &locked)
    }

    /// Deletes the rows. Entries come before their windows: a transaction that embeds one holds its lock while
    /// windows are added.
    fn delete(&mut self, affected: &AffectedRows) -> PgResult<()> {
        let by_id = |erasure: &Self, ids: &[Uuid]| erasure.params().with(ids.to_vec());
        // Joined, not asked for each row: neither list may be gone through for each of the other.
        let traces = "DELETE FROM memory_agent.traces t \
             WHERE t.user_id = $1 AND t.id IN ( \
                SELECT x.id FROM memory_agent.traces x WHERE x.user_id = $1 AND x.episode_id = ANY ($3) \
                UNION \
                SELECT x.id FROM memory_agent.entries e \
                  JOIN memory_agent.traces x ON x.user_id = $1 AND x.episode_id = e.episode_id \
                 WHERE e.user_id = $1 AND e.id = ANY ($2) \
                UNION \
                SELECT x.id FROM memory_agent.traces x \
                 CROSS JOIN LATERAL regexp_matches(x.body::text, \
                        '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}', 'g') m(id) \
                  JOIN unnest($2) d(id) ON d.id = m.id[1]::uuid \
                 WHERE x.user_id = $1)";
        let params = by_id(self, &affected.entries).with(affected.episodes.clone());
        self.run("traces", traces, params)?;
        // An episode of which nothing is left goes; of another one the turns are counted.
        self.run(
            "episodes",
            "DELETE FROM memory_agent.episodes t WHERE t.user_id = $1 \
                AND (t.id = ANY ($3) \
                     OR t.id IN (SELECT e.episode_id FROM memory_agent.entries e \
                                  WHERE e.user_id = $1 AND e.id = ANY ($2)) \
                        AND NOT EXISTS (SELECT FROM memory_agent.entries o \
                                         WHERE o.user_id = $1 AND o.episode_id = t.id \
                                           AND o.id NOT IN (SELECT d.id FROM unnest($2) d(id))))",
            by_id(self, &affected.entries).with(affected.episodes.clone()),
        )?;
        // What was counted: one turn for all its versions; no rows of attached tables; and in episodes, to
        // which they do not belong, no sources of memory_add.
        self.spi.execute(
            &format!(
                "UPDATE memory_agent.episodes p SET turn_count = greatest(0, p.turn_count - gone.turns) \
                   FROM (SELECT e.episode_id, count(*)::int AS turns FROM memory_agent.entries e \
                          WHERE e.user_id = $1 AND e.id = ANY ($2) AND {COUNTED} GROUP BY 1) gone \
                  WHERE p.user_id = $1 AND p.id = gone.episode_id"
            ),
            &mut by_id(self, &affected.entries),
        )?;
        self.spi.execute(
            &format!(
                "UPDATE memory_agent.sessions s SET turn_count = greatest(0, s.turn_count - gone.turns), \
                        open_episode_id = (SELECT p.id FROM memory_agent.episodes p \
                                            WHERE p.user_id = $1 AND p.id = s.open_episode_id) \
                   FROM (SELECT e.agent_id, e.session_id, count(*) FILTER (WHERE {COUNTED}) AS turns \
                           FROM memory_agent.entries e \
                          WHERE e.user_id = $1 AND e.id = ANY ($2) AND e.kind = 'turn' AND e.session_id IS NOT NULL \
                          GROUP BY 1, 2) gone \
                  WHERE s.user_id = $1 AND s.agent_id = gone.agent_id AND s.session_id = gone.session_id"
            ),
            &mut by_id(self, &affected.entries),
        )?;
        for (table, column, ids) in [
            ("entries", "id", &affected.entries),
            ("entry_windows", "entry_id", &affected.entries),
            ("session_summaries", "id", &affected.summaries),
            ("archives", "id", &affected.archives),
        ] {
            let delete = format!(
                "DELETE FROM memory_agent.{table} t WHERE t.user_id = $1 AND t.{column} = ANY ($2)"
            );
            self.run(table, &delete, by_id(self, ids))?;
        }
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

    /// Takes body, salt and reason out of the rows of history that a query names; earlier erasures stay as
    /// they are.
    fn blank(&mut self, ids: &str, params: Params) -> PgResult<()> {
        let mut params = if params.len() == 1 { params.with(self.event) } else { params };
        let blanked = history::opened(|| {
            self.spi.execute(
                &format!(
                    "UPDATE memory_agent.history h \
                        SET body = NULL, salt = NULL, reason = NULL, erased_by = $2 \
                      WHERE h.user_id = $1 AND h.op <> '{OP}' AND h.erased_by IS NULL AND h.id = ANY (ARRAY({ids}))"
                ),
                &mut params,
            )
        })?;
        self.counts.add("history", blanked);
        Ok(())
    }

    /// Counts anew what is left in sessions, and returns those that lost their summary. One that was not
    /// concerned when the sessions were locked is locked now: each count needs a snapshot taken after that.
    fn recount(
        &self,
        sessions: Vec<SessionKey>,
        locked: &BTreeSet<SessionKey>,
    ) -> PgResult<Vec<SessionKey>> {
        for key in &sessions {
            if !locked.contains(key) {
                sessions::lock_existing(self.spi, key)?;
            }
            sessions::recount(self.spi, key)?;
            summaries::recount(self.spi, key)?;
        }
        Ok(sessions)
    }

    /// What remains: when, by which role, why, which, and how much. No text of what was erased; the name of a
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

/// An entry counts as a turn of its session, and of its episode if it has one: it is the last version, no
/// row of an attached table, and no text of memory_add that was never anything but a source.
const COUNTED: &str = "e.kind = 'turn' AND e.source_relation IS NULL AND e.replaced_by IS NULL \
     AND (e.episode_id IS NOT NULL OR e.state <> 'inactive' OR e.valid_to IS DISTINCT FROM e.created_at)";

/// Ids of rows of history about what is erased ($3); about memories that are no longer there and were made
/// of it; and those that the same jobs wrote, whose reasons may quote it. What an import says of jobs concerns
/// imported rows only.
const OF_AFFECTED: &str = "SELECT x.id FROM memory_agent.history x \
      WHERE x.user_id = $1 AND x.entry_id IN (SELECT d.id FROM unnest($3) d(id)) \
     UNION \
     SELECT x.id FROM memory_agent.history x \
      WHERE x.user_id = $1 AND (x.job_id, x.op = 'imported') IN ( \
            SELECT o.job_id, o.op = 'imported' FROM memory_agent.history o \
             WHERE o.user_id = $1 AND o.entry_id IN (SELECT d.id FROM unnest($3) d(id))) \
     UNION \
     SELECT x.id FROM memory_agent.history x \
      CROSS JOIN LATERAL jsonb_array_elements_text( \
            CASE jsonb_typeof(x.body -> 'source_ids') WHEN 'array' THEN x.body -> 'source_ids' \
                 ELSE '[]' END) s(id) \
       JOIN unnest($3) d(id) ON d.id::text = s.id \
      WHERE x.user_id = $1 \
        AND NOT EXISTS (SELECT FROM memory_agent.entries e WHERE e.user_id = $1 AND e.id = x.entry_id)";
