//! What an erasure takes along: found, and locked, before anything is deleted.

use crate::store::prelude::*;
use crate::store::rows::history;
use crate::store::rows::scope::in_session;

/// What took the place of `e` has its key.
const HAS_SAME_KEY: &str = "EXISTS (SELECT FROM memory_agent.entries n \
     WHERE n.user_id = $1 AND n.id = e.replaced_by AND n.fact_key = e.fact_key)";

/// `true` when what took the place of `e` is a version of the same memory. Turns are replaced by versions
/// only. A fact may also have been ended by a turn that says that it no longer holds, or by another fact
/// that was learned of later: those are memories of their own. Its version is what a user changed it
/// to, or what holds its key since. What happened before a fact was restored does not count.
fn is_version() -> String {
    format!(
        "(e.kind = 'turn' OR e.state_reason = 'superseded' AND {HAS_SAME_KEY} \
          OR EXISTS (SELECT FROM memory_agent.history h \
                      WHERE h.user_id = $1 AND h.entry_id = e.id \
                        AND ({of_h} = 'update' OR {of_h} = 'supersede' AND {HAS_SAME_KEY}) \
                        AND NOT EXISTS (SELECT FROM memory_agent.history r \
                                         WHERE r.user_id = $1 AND r.entry_id = e.id AND {of_r} = 'restore' \
                                           AND {after} > {before})))",
        of_h = history::op("h"),
        of_r = history::op("r"),
        after = history::order("r"),
        before = history::order("h")
    )
}

/// The versions of an entry: what it replaced and what replaced it, without itself.
fn versions() -> String {
    let next = format!("CASE WHEN {} THEN e.replaced_by END", is_version());
    format!(
        "WITH RECURSIVE version AS ( \
            SELECT e.id, e.kind, {next} AS next FROM memory_agent.entries e WHERE e.user_id = $1 AND e.id = $2 \
            UNION \
            SELECT e.id, e.kind, {next} FROM version v \
              JOIN memory_agent.entries e ON e.user_id = $1 AND (e.id = v.next OR e.replaced_by = v.id) \
             WHERE e.kind = v.kind AND (e.id = v.next OR {is_version})) \
         SELECT e.id FROM memory_agent.entries e \
          WHERE e.user_id = $1 AND e.id IN (SELECT v.id FROM version v) AND e.id <> $2 \
          ORDER BY e.created_at, e.id",
        is_version = is_version()
    )
}

/// From so many ids on, all sources of a user are looked through. Below that the GIN index is asked, which
/// compares each row that it finds, or has not merged in yet, with every id.
const MANY_IDS: usize = 1_000;

/// `true` when `row` has one of the ids `$2` among its sources. `IS TRUE` has PostgreSQL hash the ids, once
/// for all rows, where a join would be made anew for each.
fn has_source(row: &str) -> String {
    format!(
        "EXISTS (SELECT FROM unnest({row}.source_ids) o(id) \
                  WHERE (o.id IN (SELECT d.id FROM unnest($2) d(id))) IS TRUE)"
    )
}

/// Whether what is found is locked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// It is only looked at: the sessions that it belongs to are to be locked first.
    Nothing,
    Rows,
}

impl Hold {
    /// Ends a statement.
    fn clause(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::Rows => " FOR UPDATE",
        }
    }
}

/// Rows that are to be erased, by their ids.
#[derive(Default)]
pub struct AffectedRows {
    pub entries: Vec<Uuid>,
    pub archives: Vec<Uuid>,
    pub summaries: Vec<Uuid>,
    pub episodes: Vec<Uuid>,
    /// The sessions that something is taken from.
    pub sessions: Vec<SessionKey>,
}

impl AffectedRows {
    /// Everything of a session, and what was made of it.
    pub fn of_session(spi: &Spi, key: &SessionKey, hold: Hold) -> PgResult<Self> {
        let of = |table: &str, order: &str| {
            ids(
                spi,
                &format!(
                    "SELECT t.id FROM memory_agent.{table} t WHERE t.user_id = $1 AND {} \
                      ORDER BY {order}{}",
                    in_session("t", key),
                    hold.clause()
                ),
                key.params(),
            )
        };
        let mut affected = Self {
            entries: of("entries", "t.created_at, t.id")?,
            archives: of("archives", "t.id")?,
            summaries: of("session_summaries", "t.id")?,
            episodes: of("episodes", "t.id")?,
            sessions: Vec::new(),
        };
        affected.derive(spi, &key.user_id, hold)?;
        Ok(affected)
    }

    /// A document, or an entry with its versions, and what was made of it. An id that no row has is that
    /// of an entry which is gone: history may still know it.
    pub fn of_id(spi: &Spi, user_id: &str, id: Uuid, hold: Hold) -> PgResult<Self> {
        let one = || params![user_id, id];
        let archives = ids(
            spi,
            &format!(
                "SELECT a.id FROM memory_agent.archives a WHERE a.user_id = $1 AND a.id = $2{}",
                hold.clause()
            ),
            one(),
        )?;
        let mut affected = Self { archives, ..Self::default() };
        if affected.archives.is_empty() {
            affected.entries = ids(spi, &format!("{}{}", versions(), hold.clause()), one())?;
            affected.entries.push(id);
        }
        affected.derive(spi, user_id, hold)?;
        Ok(affected)
    }

    /// Adds what was made of it and of nothing else: facts; summaries of a session, all of them when one
    /// condenses something erased, for each contains the one before; archives made of those, or of the
    /// session of a turn; chunks of archives. Then notes the sessions.
    ///
    /// Lists of ids are negated as `NOT IN (SELECT .. unnest ..)`, which PostgreSQL hashes; `<> ALL` of a
    /// parameter would compare them one by one.
    fn derive(&mut self, spi: &Spi, user_id: &str, hold: Hold) -> PgResult<()> {
        let user = || params![user_id];
        let find = |sql: &str, params: Params| ids(spi, &format!("{sql}{}", hold.clause()), params);
        let made_of_them = match self.entries.len() {
            ..MANY_IDS => "e.source_ids && $2".to_owned(),
            _ => has_source("e"),
        };
        self.entries.extend(find(
            &format!(
                "SELECT e.id FROM memory_agent.entries e \
                  WHERE e.user_id = $1 AND {made_of_them} \
                    AND e.id NOT IN (SELECT d.id FROM unnest($2) d(id)) \
                    AND NOT EXISTS (SELECT FROM memory_agent.entries s \
                                     WHERE s.user_id = $1 AND s.id = ANY (e.source_ids) \
                                       AND s.id NOT IN (SELECT d.id FROM unnest($2) d(id))) \
                  ORDER BY e.created_at, e.id"
            ),
            user().with(self.entries.clone()),
        )?);
        self.summaries.extend(find(
            &format!(
                "SELECT u.id FROM memory_agent.session_summaries u \
                  WHERE u.user_id = $1 AND u.id NOT IN (SELECT d.id FROM unnest($3) d(id)) \
                    AND (u.agent_id, u.session_id) IN ( \
                            SELECT x.agent_id, x.session_id FROM memory_agent.session_summaries x \
                             WHERE x.user_id = $1 \
                               AND (x.id IN (SELECT d.id FROM unnest($2) d(id)) OR {} \
                                    OR x.first_entry_id IN (SELECT d.id FROM unnest($2) d(id)) \
                                    OR x.last_entry_id IN (SELECT d.id FROM unnest($2) d(id)))) \
                  ORDER BY u.id",
                has_source("x")
            ),
            user().with(self.entries.clone()).with(self.summaries.clone()),
        )?);
        // One that was made without a summary may tell any turn of its session.
        self.archives.extend(find(
            "SELECT a.id FROM memory_agent.archives a \
              WHERE a.user_id = $1 AND a.id NOT IN (SELECT d.id FROM unnest($3) d(id)) \
                AND (a.summary_id = ANY ($2) \
                     OR a.doc_type = 'conversation' AND (a.agent_id, a.session_id) IN ( \
                            SELECT e.agent_id, e.session_id FROM memory_agent.entries e \
                             WHERE e.user_id = $1 AND e.kind = 'turn' AND e.id IN (SELECT d.id FROM unnest($4) d(id)))) \
              ORDER BY a.id",
            user()
                .with(self.summaries.clone())
                .with(self.archives.clone())
                .with(self.entries.clone()),
        )?);
        self.entries.extend(find(
            "SELECT e.id FROM memory_agent.entries e \
              WHERE e.user_id = $1 AND e.kind = 'document' \
                AND e.metadata ->> 'parent_id' = ANY ($2::uuid[]::text[]) \
                AND e.id NOT IN (SELECT d.id FROM unnest($3) d(id)) \
              ORDER BY e.created_at, e.id",
            user().with(self.archives.clone()).with(self.entries.clone()),
        )?);
        self.sessions = spi.rows(
            "SELECT DISTINCT e.user_id, e.agent_id, e.session_id FROM memory_agent.entries e \
              WHERE e.user_id = $1 AND e.id = ANY ($2) AND e.session_id IS NOT NULL \
             UNION SELECT u.user_id, u.agent_id, u.session_id FROM memory_agent.session_summaries u \
              WHERE u.user_id = $1 AND u.id = ANY ($3)",
            &mut user().with(self.entries.clone()).with(self.summaries.clone()),
        )?;
        Ok(())
    }

    /// The ids under which history knows them.
    pub fn known_as(&self) -> Vec<Uuid> {
        [&self.entries, &self.archives, &self.summaries].into_iter().flatten().copied().collect()
    }
}

fn ids(spi: &Spi, sql: &str, mut params: Params) -> PgResult<Vec<Uuid>> {
    spi.rows(sql, &mut params)
}

/// Where something is that has an id: its agent, and its session if it has one. Nothing is locked: the
/// session's lock comes before those of its entries.
pub fn place(spi: &Spi, user_id: &str, id: Uuid) -> PgResult<Option<(String, Option<String>)>> {
    spi.row(
        "SELECT e.agent_id, e.session_id FROM memory_agent.entries e WHERE e.user_id = $1 AND e.id = $2 \
         UNION ALL \
         SELECT a.agent_id, a.session_id FROM memory_agent.archives a WHERE a.user_id = $1 AND a.id = $2 \
         UNION ALL \
         SELECT u.agent_id, u.session_id FROM memory_agent.session_summaries u \
          WHERE u.user_id = $1 AND u.id = $2",
        &mut params![user_id, id],
    )
}

/// Refuses a chunk (42809): its text would stay in the whole.
pub fn refuse_part(spi: &Spi, user_id: &str, id: Uuid) -> PgResult<()> {
    let whole: Option<Uuid> = spi.row(
        "SELECT a.id FROM memory_agent.entries e \
           JOIN memory_agent.archives a ON a.user_id = e.user_id AND a.id::text = e.metadata ->> 'parent_id' \
          WHERE e.user_id = $1 AND e.id = $2 AND e.kind = 'document'",
        &mut params![user_id, id],
    )?;
    match whole {
        None => Ok(()),
        Some(whole) => {
            let hint = format!("Erase the whole: SELECT memory_erase(id => '{whole}').");
            Err(Error::wrong_object("a chunk cannot be erased without its document", hint))
        }
    }
}
