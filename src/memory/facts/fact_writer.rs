//! Writes the facts of one scope while it is locked, for all that state them: a caller, an extraction, a
//! reflection, an update. Additions, new versions, repetitions and endings are here, with their history,
//! their embedding, what assistants repeated of them, and the session's counters.

use crate::memory::{
    quotas,
    texts::{follow_ups, repetitions},
};
use crate::pg::prelude::*;
use crate::settings::Effective;
use crate::store::changes::lifecycle::{self, Stored};
use crate::store::facts::doubts::{self, Doubted};
use crate::store::facts::{self as store, Ending, Home, NearFact};
use crate::store::rows::entries::{self, NewEntry, Standing};
use crate::store::rows::fact_scope::FactScope;
use crate::store::rows::history;
use crate::store::rows::history::UPDATE;
use crate::store::rows::sessions::{self, Fill, SessionKey};
use crate::store::schema;
use std::collections::BTreeSet;

/// Who writes facts.
#[derive(Clone, Copy, Default)]
pub struct Actor {
    /// The job; `None` for a caller's statement.
    pub job: Option<Uuid>,
    /// The cosine from which two texts may say the same, if repetitions are looked for by it.
    pub duplicate: Option<f64>,
}

/// Writes facts of one scope while it is locked.
pub struct FactWriter<'a> {
    spi: &'a Spi,
    scope: FactScope<'a>,
    actor: Actor,
    settings: &'a Effective,
    session: Option<SessionKey>,
    /// Where else facts are at home that it may change, because it has locked that too.
    homes: Vec<Home>,
    /// Active facts stored by this transaction.
    stored: Vec<Uuid>,
    /// Facts ended by it.
    ended: Vec<Uuid>,
}

impl<'a> FactWriter<'a> {
    /// Locks the scope for a caller, whose session is created if it is new; `at` is the event time of
    /// what is said. Two callers that add the same fact at once see each other.
    pub fn lock(
        spi: &'a Spi,
        scope: FactScope<'a>,
        at: TimestampWithTimeZone,
        settings: &'a Effective,
    ) -> PgResult<Self> {
        let session = scope.session();
        match &session {
            Some(key) => drop(sessions::lock(spi, key, at)?),
            None => store::lock_global(scope.user_id, scope.agent_id),
        }
        Ok(Self { session, ..Self::of_locked(spi, scope, Actor::default(), settings) })
    }

    /// Locks the scope for a job; `None` when its session is not there. `known` are facts that may be changed
    /// wherever they are at home; `None`: the scope is by itself. Sessions are locked in the order of their keys, as
    /// by all who lock several, then the comparison across sessions, then global facts.
    pub fn lock_existing(
        spi: &'a Spi,
        scope: FactScope<'a>,
        known: Option<&[Uuid]>,
        actor: Actor,
        settings: &'a Effective,
    ) -> PgResult<Option<Self>> {
        let homes = match known {
            Some(ids) if !ids.is_empty() => {
                let mut homes = store::homes(spi, scope.user_id, ids)?;
                homes.extend(doubts::homes(spi, scope.user_id, ids)?);
                homes
            }
            _ => Vec::new(),
        };
        let session = scope.session();
        let keys: BTreeSet<SessionKey> = homes
            .iter()
            .filter_map(|home| home.key(scope.user_id))
            .chain(session.clone())
            .collect();
        for key in &keys {
            // Not created here: while a dump is restored, the sessions come last.
            if sessions::lock_existing(spi, key)?.is_none() && Some(key) == session.as_ref() {
                return Ok(None);
            }
        }
        if known.is_some() || session.is_none() {
            store::lock_comparison(scope.user_id);
        }
        let global = homes.iter().filter(|home| home.key(scope.user_id).is_none());
        let mut agents: BTreeSet<&str> = global.map(|home| home.agent_id.as_str()).collect();
        if session.is_none() {
            agents.insert(scope.agent_id);
        }
        for agent in agents {
            store::lock_global(scope.user_id, agent);
        }
        Ok(Some(Self { session, homes, ..Self::of_locked(spi, scope, actor, settings) }))
    }

    /// Writes into a scope that is locked already, and whose counters the caller keeps.
    pub fn of_locked(
        spi: &'a Spi,
        scope: FactScope<'a>,
        actor: Actor,
        settings: &'a Effective,
    ) -> Self {
        let (stored, ended) = (Vec::new(), Vec::new());
        Self { spi, scope, actor, settings, session: None, homes: Vec::new(), stored, ended }
    }

    pub fn scope(&self) -> &FactScope<'a> {
        &self.scope
    }

    pub fn user(&self) -> &'a str {
        self.scope.user_id
    }

    /// Whether a fact may be changed: it is of the scope, or of what was locked with it.
    pub fn may_change(&self, fact: &NearFact) -> bool {
        !fact.is_others || self.homes.contains(&fact.home)
    }

    /// The active facts stored so far.
    pub fn stored(&self) -> &[Uuid] {
        &self.stored
    }

    /// The facts ended so far.
    pub fn ended(&self) -> &[Uuid] {
        &self.ended
    }

    /// Stores a fact, for a reason if one is given. `needs_job`: one is to embed it, or to count its tokens.
    pub fn insert(
        &mut self,
        entry: NewEntry<'_>,
        needs_job: bool,
        reason: Option<&str>,
    ) -> PgResult<()> {
        let (id, is_active) = (entry.id, matches!(entry.standing, Standing::Active));
        entries::insert(self.spi, entry)?;
        if needs_job {
            follow_ups::queue_embedding(self.spi, &self.scope, self.settings)?;
        }
        history::append(self.spi, self.user(), id, "add", reason, self.actor.job)?;
        if is_active {
            self.stored.push(id);
        }
        Ok(())
    }

    /// Puts a version with another text in the place of a fact, or of a turn.
    pub fn revise(&mut self, old: &Stored, new: NewEntry<'_>, needs_job: bool) -> PgResult<()> {
        lifecycle::supersede(self.spi, self.user(), old.id, new.id)?;
        doubts::pass_on(self.spi, self.user(), old.id, new.id)?;
        history::append(self.spi, self.user(), old.id, UPDATE, None, self.actor.job)?;
        self.insert(new, needs_job, None)?;
        if old.is_fact() { self.note_repetitions(old.id) } else { Ok(()) }
    }

    /// Notes that a known fact was said again, at this event time. That decides about what it perhaps took the place
    /// of: such a fact ends. If it was doubted itself, it no longer is.
    pub fn said_again(
        &mut self,
        known: Uuid,
        source_ids: &[Uuid],
        expires_at: Option<TimestampWithTimeZone>,
        at: TimestampWithTimeZone,
    ) -> PgResult<()> {
        let decided = doubts::decided_by(self.spi, self.user(), known, source_ids, at)?;
        store::said_again(self.spi, self.user(), known, source_ids, expires_at)?;
        doubts::lift(self.spi, self.user(), known, at)?;
        for Doubted { id, since, home } in decided {
            // Another home that is not locked is left to the next repetition.
            let is_own = home.agent_id == self.scope.agent_id
                && schema::home_of(home.session_id.as_deref())
                    == schema::home_of(self.scope.session_id);
            if is_own || self.homes.contains(&home) {
                self.end(id, known, since, Ending::Superseded, Some("confirmed"))?;
            }
        }
        Ok(())
    }

    /// Keeps a fact that was to be replaced or ended for what was said later, and notes that.
    pub fn doubt(&self, known: Uuid, later: Uuid) -> PgResult<()> {
        doubts::note(self.spi, self.user(), known, later)
    }

    /// Ends a fact that `new` takes the place of, and notes who repeated it: `new` is stored.
    pub fn end(
        &mut self,
        old: Uuid,
        new: Uuid,
        at: TimestampWithTimeZone,
        ending: Ending,
        reason: Option<&str>,
    ) -> PgResult<()> {
        if self.supersede(old, new, at, ending, reason)? {
            self.note_repetitions(old)?;
        }
        Ok(())
    }

    /// Ends a fact; false when it had ended before.
    pub fn supersede(
        &mut self,
        old: Uuid,
        new: Uuid,
        at: TimestampWithTimeZone,
        ending: Ending,
        reason: Option<&str>,
    ) -> PgResult<bool> {
        if !store::supersede(self.spi, self.user(), old, new, at, ending)? {
            return Ok(false);
        }
        doubts::pass_on(self.spi, self.user(), old, new)?;
        self.ended.push(old);
        let op = match ending {
            Ending::Superseded => "supersede",
            Ending::Contradicted => "delete",
        };
        history::append(self.spi, self.user(), old, op, reason, self.actor.job)?;
        Ok(true)
    }

    /// Notes which turns of assistants repeat a fact that another one replaced.
    pub fn note_repetitions(&self, ended: Uuid) -> PgResult<()> {
        repetitions::note(self.spi, self.user(), ended, self.actor.duplicate, self.actor.job)
    }

    /// Brings the session's counters up to date. The quota is looked at here: of facts that took the place of others,
    /// not one is too much.
    pub fn finish(&self) -> PgResult<()> {
        if !self.stored.is_empty() {
            quotas::check(self.spi, self.user())?;
        }
        let Some(key) = &self.session else { return Ok(()) };
        let change = Fill { entries: self.stored.len() as i64, ..Fill::default() };
        match sessions::adjust(self.spi, key, change)? {
            Some(fill) => follow_ups::queue_eviction(self.spi, key, fill.entries, self.settings),
            None => Ok(()),
        }
    }
}
