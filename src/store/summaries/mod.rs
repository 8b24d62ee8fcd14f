//! `memory_agent.session_summaries`: what was said in a session, condensed. The active L3 covers the
//! turns in its own `source_ids` and those of the L3s before it, which `previous_id` leads to.

pub mod archives;
pub mod compression;
mod parts;
mod sources;
mod tail;
pub mod window;

pub use parts::{Chunk, are_there, chunked_tokens, unchunked, ungrouped};
pub use sources::{Source, Uncovered, lock_sources, orphaned_facts, uncovered};

use crate::pg::pinned_settings::by_index;
use crate::pg::prelude::*;
use crate::store::rows::entries::new_id;
use crate::store::rows::sessions::{Fill, KEY_AND_FILL, SessionKey};
use memory_agent_core::condense::summarize::Sections;
use memory_agent_core::jobs::payloads::Condensed;
use std::collections::HashSet;

/// Begins a statement: `covered` has the ids of the turns that a session's active L3 covers, for the
/// parameters of the session's key. Used as `IN (SELECT c.id FROM covered c)` where that is no join
/// (negated, or IS TRUE): PostgreSQL then hashes it, whatever it thinks of the number of rows.
pub const COVERED: &str = "WITH RECURSIVE chain AS ( \
        SELECT u.id, u.previous_id FROM memory_agent.session_summaries u \
         WHERE u.user_id = $1 AND u.agent_id = $2 AND u.session_id = $3 AND u.level = 'L3' AND u.is_active \
        UNION \
        SELECT u.id, u.previous_id FROM chain c \
          JOIN memory_agent.session_summaries u ON u.user_id = $1 AND u.id = c.previous_id), \
     covered AS ( \
        SELECT s.id FROM chain c \
          JOIN memory_agent.session_summaries u ON u.user_id = $1 AND u.id = c.id \
         CROSS JOIN LATERAL unnest(u.source_ids) s(id) WHERE s.id IS NOT NULL) ";

/// `e` is a turn of the session that a summary is made of: in its window, archived, or what memory_add was
/// told, which is inactive from the start and has no reason for it. Attached rows are not part of a
/// conversation.
const SUMMARIZED: &str = "e.user_id = $1 AND e.agent_id = $2 AND e.session_id = $3 AND e.kind = 'turn' \
     AND (e.state <> 'inactive' OR e.state_reason IS NULL) AND e.source_relation IS NULL \
     AND (e.expires_at IS NULL OR e.expires_at > now())";

/// What a session is summarised as, and how much is in its window.
pub struct Subject {
    /// `conversation`, `journal` or `document`.
    pub content_type: String,
    pub window_tokens: u64,
}

record!(Subject: content_type window_tokens);

/// A session as its summaries see it; `None` when there is none. What is summarised is as the session
/// says, else its agent, else the agent of all users.
pub fn subject(spi: &Spi, key: &SessionKey) -> PgResult<Option<Subject>> {
    spi.row(
        "SELECT coalesce(s.content_type, \
                    (SELECT a.content_type FROM memory_agent.agents a \
                      WHERE a.user_id = $1 AND a.agent_id = $2), \
                    (SELECT a.content_type FROM memory_agent.agents a \
                      WHERE a.user_id = '*' AND a.agent_id = $2), \
                    'conversation'), \
                s.active_tokens \
           FROM memory_agent.sessions s \
          WHERE s.user_id = $1 AND s.agent_id = $2 AND s.session_id = $3",
        &mut key.params(),
    )
}

/// What is summarised: from the first to the last of it, as ids and event times.
#[derive(Clone, Debug)]
pub struct Coverage {
    pub first: (Option<Uuid>, TimestampWithTimeZone),
    pub last: (Option<Uuid>, TimestampWithTimeZone),
    /// Turns.
    pub messages: u32,
    /// Their tokens.
    pub tokens: u32,
}

record!(Coverage: first last messages tokens);

impl Coverage {
    /// What sources cover, which are in the order of their event times; `None` for none. Facts are no
    /// messages.
    pub fn of(sources: &[Source], are_facts: bool) -> Option<Self> {
        let end = |source: &Source| (Some(source.id), source.created_at);
        Some(Self {
            first: end(sources.first()?),
            last: end(sources.last()?),
            messages: if are_facts { 0 } else { u32::try_from(sources.len()).unwrap_or(u32::MAX) },
            tokens: sources.iter().fold(0, |sum, source| sum.saturating_add(source.tokens)),
        })
    }

    /// Both together. Turns may be recorded long after they were said.
    pub fn joined(&self, other: Self) -> Self {
        let is_first = self.first.1 <= other.first.1;
        let is_last = self.last.1 > other.last.1;
        Self {
            first: if is_first { self.first } else { other.first },
            last: if is_last { self.last } else { other.last },
            messages: self.messages.saturating_add(other.messages),
            tokens: self.tokens.saturating_add(other.tokens),
        }
    }
}

record!(Sections: summary topics entities decisions questions);

/// A session's active L3.
#[derive(Clone, Debug)]
pub struct Current {
    pub id: Uuid,
    pub tokens: u32,
    /// `None` only if the row was written by hand.
    pub coverage: Option<Coverage>,
    pub sections: Sections,
}

/// The active L3 of a session.
pub fn current(spi: &Spi, key: &SessionKey) -> PgResult<Option<Current>> {
    spi.row(
        "SELECT u.id, u.output_tokens, u.first_entry_at IS NOT NULL AND u.last_entry_at IS NOT NULL, \
                u.first_entry_id, coalesce(u.first_entry_at, u.created_at), \
                u.last_entry_id, coalesce(u.last_entry_at, u.created_at), u.message_count, u.input_tokens, \
                u.content, u.topics, u.entities, u.decisions, u.questions \
           FROM memory_agent.session_summaries u \
          WHERE u.user_id = $1 AND u.agent_id = $2 AND u.session_id = $3 AND u.level = 'L3' AND u.is_active",
        &mut key.params(),
    )
    .map(|found| {
        found.map(|(id, tokens, is_covered, coverage, sections)| Current {
            id,
            tokens,
            coverage: Some(coverage).filter(|_| is_covered),
            sections,
        })
    })
}

/// What the last L3 of a session that was made with topics, entities, decisions and questions says.
pub fn last_sections(spi: &Spi, key: &SessionKey) -> PgResult<Option<Sections>> {
    spi.row(
        &format!(
            "{COVERED} SELECT u.content, u.topics, u.entities, u.decisions, u.questions \
               FROM chain c JOIN memory_agent.session_summaries u ON u.user_id = $1 AND u.id = c.id \
              WHERE u.topics <> '{{}}' OR u.entities <> '{{}}' OR u.decisions <> '{{}}' OR u.questions <> '{{}}' \
              ORDER BY u.created_at DESC, u.id DESC LIMIT 1"
        ),
        &mut key.params(),
    )
}

/// The id of a session's active L3.
pub fn current_id(spi: &Spi, key: &SessionKey) -> PgResult<Option<Uuid>> {
    Ok(in_force(spi, key)?.map(|current| current.id))
}

/// A session's active L3, and what it rests on.
pub struct InForce {
    pub id: Uuid,
    pub previous: Option<Uuid>,
    pub content: String,
}

record!(InForce: id previous content);

pub fn in_force(spi: &Spi, key: &SessionKey) -> PgResult<Option<InForce>> {
    spi.row(
        "SELECT u.id, u.previous_id, u.content FROM memory_agent.session_summaries u \
          WHERE u.user_id = $1 AND u.agent_id = $2 AND u.session_id = $3 AND u.level = 'L3' AND u.is_active",
        &mut key.params(),
    )
}

/// What a person made of an L3; lists that are `None` are those of the L3.
pub struct Edited<'a> {
    pub content: &'a str,
    pub tokens: u32,
    pub topics: Option<Vec<String>>,
    pub entities: Option<Vec<String>>,
    pub decisions: Option<Vec<String>>,
    pub questions: Option<Vec<String>>,
}

/// Stores what a person made of an L3, which stays as the one that it rests on. No model wrote it.
pub fn insert_edited(spi: &Spi, user_id: &str, old: Uuid, edited: Edited<'_>) -> PgResult<Uuid> {
    let tokens = i32::try_from(edited.tokens).unwrap_or(i32::MAX);
    spi.one(
        "INSERT INTO memory_agent.session_summaries \
            (id, user_id, agent_id, session_id, level, ordinal, content, previous_id, method, topics, entities, \
             decisions, questions, first_entry_id, first_entry_at, last_entry_id, last_entry_at, message_count, \
             input_tokens, output_tokens, compression_ratio) \
         SELECT $3, u.user_id, u.agent_id, u.session_id, u.level, u.ordinal + 1, $4, u.id, u.method, \
                coalesce($6, u.topics), coalesce($7, u.entities), coalesce($8, u.decisions), \
                coalesce($9, u.questions), u.first_entry_id, u.first_entry_at, u.last_entry_id, \
                u.last_entry_at, u.message_count, u.input_tokens, $5, $5 / nullif(u.input_tokens, 0)::real \
           FROM memory_agent.session_summaries u WHERE u.user_id = $1 AND u.id = $2 \
         RETURNING id",
        &mut params![
            user_id, old, new_id(), edited.content, tokens,
            edited.topics, edited.entities, edited.decisions, edited.questions
        ],
    )
}

/// A summary to be stored.
pub struct NewSummary<'a> {
    /// `L1`, `L2` or `L3`.
    pub level: &'static str,
    pub condensed: &'a Condensed,
    pub source_ids: Vec<Uuid>,
    pub previous: Option<Uuid>,
    pub method: &'static str,
    pub coverage: &'a Coverage,
    /// Tokens of what was read for it, which for an L3 is everything it covers.
    pub input_tokens: u32,
}

/// Stores a summary as the last of its level.
pub fn insert(spi: &Spi, key: &SessionKey, new: &NewSummary<'_>) -> PgResult<()> {
    let saturated = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
    let Condensed { text, tokens, model, sections } = new.condensed;
    let sections = sections.clone().unwrap_or_default();
    let ratio = f64::from(*tokens) / f64::from(new.input_tokens.max(1));
    spi.run(
        "INSERT INTO memory_agent.session_summaries \
            (id, user_id, agent_id, session_id, level, ordinal, content, source_ids, previous_id, method, \
             topics, entities, decisions, questions, first_entry_id, first_entry_at, last_entry_id, \
             last_entry_at, message_count, input_tokens, output_tokens, compression_ratio, model) \
         SELECT $4, $1, $2, $3, $5, \
                coalesce((SELECT max(u.ordinal) + 1 FROM memory_agent.session_summaries u \
                           WHERE u.user_id = $1 AND u.agent_id = $2 AND u.session_id = $3 AND u.level = $5), 0), \
                $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22",
        &mut params![key;
            new_id(), new.level, text, new.source_ids.clone(), new.previous, new.method,
            sections.topics, sections.entities, sections.decisions, sections.questions,
            new.coverage.first.0, new.coverage.first.1, new.coverage.last.0, new.coverage.last.1,
            saturated(new.coverage.messages), saturated(new.input_tokens),
            saturated(*tokens), ratio as f32, model,
        ],
    )
}

/// Ends a session's active L3. It stays: the next one rests on it.
pub fn deactivate(spi: &Spi, user_id: &str, id: Uuid) -> PgResult<()> {
    spi.run(
        "UPDATE memory_agent.session_summaries u SET is_active = false, updated_at = now() \
          WHERE u.user_id = $1 AND u.id = $2",
        &mut params![user_id, id],
    )
}

/// Adds topics, entities, decisions and questions to a summary that was made without.
pub fn add_sections(spi: &Spi, user_id: &str, id: Uuid, sections: &Sections) -> PgResult<()> {
    spi.run(
        "UPDATE memory_agent.session_summaries u \
            SET topics = $3, entities = $4, decisions = $5, questions = $6, updated_at = now() \
          WHERE u.user_id = $1 AND u.id = $2",
        &mut params![
            user_id,
            id,
            sections.topics.clone(),
            sections.entities.clone(),
            sections.decisions.clone(),
            sections.questions.clone()
        ],
    )
}

/// Counts anew the tokens of a session's turns that no summary covers, and returns them. The caller
/// holds the session's lock.
pub fn recount(spi: &Spi, key: &SessionKey) -> PgResult<i64> {
    let counted = spi.row(
        &format!(
            "{COVERED} UPDATE memory_agent.sessions t \
                SET unsummarized_tokens = ( \
                    SELECT coalesce(sum(e.token_count), 0) FROM memory_agent.entries e \
                     WHERE {SUMMARIZED} AND e.id NOT IN (SELECT c.id FROM covered c)) \
              WHERE t.user_id = $1 AND t.agent_id = $2 AND t.session_id = $3 \
             RETURNING t.unsummarized_tokens"
        ),
        &mut key.params(),
    )?;
    Ok(counted.unwrap_or(0))
}

/// As [`recount`], after turns of `covered` tokens went into a new active L3. `before` is what the session
/// lacked until then: unless that was wrong, only what comes after the L3 has to be read.
pub fn recount_after(spi: &Spi, key: &SessionKey, before: i64, covered: i64) -> PgResult<i64> {
    let expected = before - covered;
    if tail::settle(spi, key, expected)? { Ok(expected) } else { recount(spi, key) }
}

/// Whether a session's active L3 covers a turn.
pub fn covers(spi: &Spi, key: &SessionKey, turn: Uuid) -> PgResult<bool> {
    spi.exists(
        &format!("{COVERED} SELECT true FROM covered c WHERE c.id = $4 LIMIT 1"),
        &mut params![key; turn],
    )
}

/// An original behind a summary: id, role, content, time, state.
pub type Original = (Uuid, String, String, TimestampWithTimeZone, String);

/// What a summary was made of, oldest first, in whatever state it is now: its own sources and those of
/// the summaries that were rolled into it.
pub fn originals(spi: &Spi, user_id: &str, summary: Uuid) -> PgResult<Vec<Original>> {
    spi.rows(
        "WITH RECURSIVE chain AS ( \
            SELECT u.id, u.previous_id FROM memory_agent.session_summaries u \
             WHERE u.user_id = $1 AND u.id = $2 \
            UNION \
            SELECT u.id, u.previous_id FROM chain c \
              JOIN memory_agent.session_summaries u ON u.user_id = $1 AND u.id = c.previous_id) \
         SELECT e.id, e.role, e.content, e.created_at, e.state FROM memory_agent.entries e \
          WHERE e.user_id = $1 \
            AND e.id IN (SELECT s.id FROM chain c \
                           JOIN memory_agent.session_summaries u ON u.user_id = $1 AND u.id = c.id \
                          CROSS JOIN LATERAL unnest(u.source_ids) s(id)) \
          ORDER BY e.created_at, e.id",
        &mut params![user_id, summary],
    )
}

/// Whether jobs of a session died lately that would have renewed its summary: perhaps its turns are such
/// that the LLM never answers. Each dead job after the first doubles the time in which none is queued,
/// from a minute on up to a day.
pub fn is_held_back(spi: &Spi, key: &SessionKey) -> PgResult<bool> {
    let held = spi.row(
        "SELECT count(*) > 1 AND coalesce(max(o.finished_at) > now() \
                    - make_interval(mins => least(1440, power(2, least(count(*) - 2, 20)))::int), false) \
           FROM memory_agent.jobs o \
          WHERE o.user_id = $1 AND coalesce(o.session_id, '') = $3 \
            AND o.kind IN ('summarize', 'compress') AND o.agent_id = $2 AND o.status = 'dead'",
        &mut key.params(),
    )?;
    Ok(held.unwrap_or(false))
}

/// Sessions that have a summary which lacks this many tokens of turns, and that no job knows of,
/// neither open nor dead. A session without a summary is left to the next turn or to memory_backfill:
/// perhaps its turns are from a time without an LLM.
///
/// There may be any number of sessions, so some are looked at: at most `most` after `after`, in the order of their
/// key. `after` is the last of them then, if there may be more.
pub fn forgotten(
    spi: &Spi,
    min_tokens: i64,
    after: &mut Option<SessionKey>,
    most: i64,
) -> PgResult<Vec<(SessionKey, Fill)>> {
    let from = after.take().unwrap_or_else(|| SessionKey::new("", "", ""));
    let mut params = from.params().with(most);
    let looked_at: Vec<(SessionKey, Fill)> = by_index(|| {
        spi.rows(
            &format!(
                "SELECT {KEY_AND_FILL} FROM memory_agent.sessions s \
                  WHERE (s.user_id, s.agent_id, s.session_id) > ($1, $2, $3) \
                  ORDER BY s.user_id, s.agent_id, s.session_id LIMIT $4"
            ),
            &mut params,
        )
    })?;
    let last = looked_at.last().filter(|_| looked_at.len() as i64 >= most);
    *after = last.map(|(key, _)| key.clone());
    let lacking: Vec<(SessionKey, Fill)> =
        looked_at.into_iter().filter(|(_, fill)| fill.unsummarized >= min_tokens).collect();
    let no_job = |status: &str| {
        format!(
            "NOT EXISTS (SELECT FROM memory_agent.jobs o \
                          WHERE o.user_id = s.user_id AND coalesce(o.session_id, '') = s.session_id \
                            AND o.kind IN ('summarize', 'compress') AND o.agent_id = s.agent_id \
                            AND o.status {status})"
        )
    };
    let keys = lacking.iter().map(|(key, _)| key);
    let mut params = params![
        keys.clone().map(|key| key.user_id.clone()).collect::<Vec<_>>(),
        keys.clone().map(|key| key.agent_id.clone()).collect::<Vec<_>>(),
        keys.map(|key| key.session_id.clone()).collect::<Vec<_>>(),
    ];
    let forgotten: HashSet<i64> = by_index(|| {
        spi.rows(
            &format!(
                "SELECT s.n FROM unnest($1, $2, $3) WITH ORDINALITY s(user_id, agent_id, session_id, n) \
                  WHERE EXISTS (SELECT FROM memory_agent.session_summaries u \
                                 WHERE u.user_id = s.user_id AND u.agent_id = s.agent_id \
                                   AND u.session_id = s.session_id AND u.level = 'L3' AND u.is_active) \
                    AND {} AND {}",
                no_job("IN ('pending', 'running')"),
                no_job("= 'dead'")
            ),
            &mut params,
        )
    })?
    .into_iter()
    .collect();
    let of_number = (1i64..).zip(lacking).filter(|(number, _)| forgotten.contains(number));
    Ok(of_number.map(|(_, session)| session).collect())
}
