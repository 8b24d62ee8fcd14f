//! What an erasure takes along: found, and locked, before anything is deleted.

use crate::error::{Error, PgResult};
use crate::store::sessions::SessionKey;
use crate::store::spi::{Params, Session as Spi};
use pgrx::datum::Uuid;

/// The versions of an entry: what it replaced and what replaced it, without itself.
const VERSIONS: &str = "WITH RECURSIVE version AS ( \
        SELECT e.id, e.replaced_by FROM memory_agent.entries e WHERE e.user_id = $1 AND e.id = $2 \
        UNION \
        SELECT e.id, e.replaced_by FROM version v \
          JOIN memory_agent.entries e ON e.user_id = $1 AND (e.id = v.replaced_by OR e.replaced_by = v.id)) \
     SELECT e.id FROM memory_agent.entries e \
      WHERE e.user_id = $1 AND e.id IN (SELECT v.id FROM version v) AND e.id <> $2 \
      ORDER BY e.created_at, e.id FOR UPDATE";

/// Rows that are to be erased, by their ids.
#[derive(Default)]
pub struct Doomed {
    pub entries: Vec<Uuid>,
    pub archives: Vec<Uuid>,
    pub summaries: Vec<Uuid>,
    pub episodes: Vec<Uuid>,
}

impl Doomed {
    /// Everything of a session.
    pub fn of_session(spi: &Spi, key: &SessionKey) -> PgResult<Self> {
        let of = |table: &str, order: &str| {
            ids(
                spi,
                &format!(
                    "SELECT t.id FROM memory_agent.{table} t \
                      WHERE t.user_id = $1 AND t.agent_id = $2 AND t.session_id = $3 \
                      ORDER BY {order} FOR UPDATE"
                ),
                key.params(),
            )
        };
        Ok(Self {
            entries: of("entries", "t.created_at, t.id")?,
            archives: of("archives", "t.id")?,
            summaries: of("session_summaries", "t.id")?,
            episodes: of("episodes", "t.id")?,
        })
    }

    /// A document, or an entry with its versions. An id that nobody has is that of an entry which is
    /// gone: history may still know it.
    pub fn of_id(spi: &Spi, user_id: &str, id: Uuid) -> PgResult<Self> {
        let one = || Params::new().with(user_id.to_owned()).with(id);
        let archives = ids(
            spi,
            "SELECT a.id FROM memory_agent.archives a WHERE a.user_id = $1 AND a.id = $2 FOR UPDATE",
            one(),
        )?;
        let mut doomed = Self { archives, ..Self::default() };
        if doomed.archives.is_empty() {
            doomed.entries = ids(spi, VERSIONS, one())?;
            doomed.entries.push(id);
        }
        Ok(doomed)
    }

    /// Adds what was made of it and of nothing else: facts; summaries of a session, all of them when one
    /// condenses something erased, for each contains the one before; archives made of those; chunks of
    /// archives. Returns the sessions that something is taken from.
    pub fn derive(&mut self, spi: &Spi, user_id: &str) -> PgResult<Vec<SessionKey>> {
        let user = || Params::new().with(user_id.to_owned());
        self.entries.extend(ids(
            spi,
            "SELECT e.id FROM memory_agent.entries e \
              WHERE e.user_id = $1 AND e.source_ids && $2 AND e.id <> ALL ($2) \
                AND NOT EXISTS (SELECT FROM memory_agent.entries s \
                                 WHERE s.user_id = $1 AND s.id = ANY (e.source_ids) AND s.id <> ALL ($2)) \
              ORDER BY e.created_at, e.id FOR UPDATE",
            user().with(self.entries.clone()),
        )?);
        self.summaries.extend(ids(
            spi,
            "SELECT u.id FROM memory_agent.session_summaries u \
              WHERE u.user_id = $1 AND u.id <> ALL ($3) \
                AND (u.agent_id, u.session_id) IN ( \
                        SELECT x.agent_id, x.session_id FROM memory_agent.session_summaries x \
                         WHERE x.user_id = $1 \
                           AND (x.id = ANY ($2) OR x.source_ids && $2 \
                                OR x.first_entry_id = ANY ($2) OR x.last_entry_id = ANY ($2))) \
              ORDER BY u.id FOR UPDATE",
            user().with(self.entries.clone()).with(self.summaries.clone()),
        )?);
        self.archives.extend(ids(
            spi,
            "SELECT a.id FROM memory_agent.archives a \
              WHERE a.user_id = $1 AND a.summary_id = ANY ($2) AND a.id <> ALL ($3) \
              ORDER BY a.id FOR UPDATE",
            user().with(self.summaries.clone()).with(self.archives.clone()),
        )?);
        self.entries.extend(ids(
            spi,
            "SELECT e.id FROM memory_agent.entries e \
              WHERE e.user_id = $1 AND e.kind = 'document' \
                AND e.metadata ->> 'parent_id' = ANY ($2::uuid[]::text[]) AND e.id <> ALL ($3) \
              ORDER BY e.created_at, e.id FOR UPDATE",
            user().with(self.archives.clone()).with(self.entries.clone()),
        )?);
        spi.all(
            "SELECT DISTINCT e.agent_id, e.session_id FROM memory_agent.entries e \
              WHERE e.user_id = $1 AND e.id = ANY ($2) AND e.session_id IS NOT NULL \
             UNION SELECT u.agent_id, u.session_id FROM memory_agent.session_summaries u \
              WHERE u.user_id = $1 AND u.id = ANY ($3) ORDER BY 1, 2",
            &mut user().with(self.entries.clone()).with(self.summaries.clone()),
            |row| {
                Ok(SessionKey {
                    user_id: user_id.to_owned(),
                    agent_id: row.required(1)?,
                    session_id: row.required(2)?,
                })
            },
        )
    }

    /// The ids under which history knows them.
    pub fn known_as(&self) -> Vec<Uuid> {
        [&self.entries, &self.archives, &self.summaries].into_iter().flatten().copied().collect()
    }
}

fn ids(spi: &Spi, sql: &str, mut params: Params) -> PgResult<Vec<Uuid>> {
    spi.all(sql, &mut params, |row| row.required(1))
}

/// Where something is that has an id: its agent, and its session if it has one. Nothing is locked: the
/// session's lock comes before those of its entries.
pub fn place(spi: &Spi, user_id: &str, id: Uuid) -> PgResult<Option<(String, Option<String>)>> {
    spi.first(
        "SELECT e.agent_id, e.session_id FROM memory_agent.entries e WHERE e.user_id = $1 AND e.id = $2 \
         UNION ALL \
         SELECT a.agent_id, a.session_id FROM memory_agent.archives a WHERE a.user_id = $1 AND a.id = $2 \
         UNION ALL \
         SELECT u.agent_id, u.session_id FROM memory_agent.session_summaries u \
          WHERE u.user_id = $1 AND u.id = $2",
        &mut Params::new().with(user_id.to_owned()).with(id),
        |row| Ok((row.required(1)?, row.optional(2))),
    )
}

/// Refuses a chunk (22023): its text would stay in the whole.
pub fn refuse_part(spi: &Spi, user_id: &str, id: Uuid) -> PgResult<()> {
    let whole: Option<Uuid> = spi.first(
        "SELECT a.id FROM memory_agent.entries e \
           JOIN memory_agent.archives a ON a.user_id = e.user_id AND a.id::text = e.metadata ->> 'parent_id' \
          WHERE e.user_id = $1 AND e.id = $2 AND e.kind = 'document'",
        &mut Params::new().with(user_id.to_owned()).with(id),
        |row| row.required(1),
    )?;
    match whole {
        None => Ok(()),
        Some(whole) => {
            let hint = format!("Erase the whole: SELECT memory_erase(id => '{whole}').");
            Err(Error::invalid("a chunk cannot be erased without its document", hint).into())
        }
    }
}
