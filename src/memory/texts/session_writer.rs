//! Adds turns to one session while it is locked: their rows, the episodes that they belong to, the
//! session's counters, and the jobs that follow from them.

use crate::memory::prelude::*;
use crate::memory::texts::prepare::Prepare;
use crate::memory::texts::turn::Checked;
use crate::memory::{scope::endpoints, texts::follow_ups};
use crate::pg::memory_context::scratch;
use crate::settings::{Effective, Extraction};
use crate::store::rows::entries::{self, FactsFrom, NewEntry};
use crate::store::rows::episodes::{self, Running};
use crate::store::rows::sessions::Fill;
use crate::store::schema;
use memory_agent_core::facts::episodes::{CloseReason, OpenEpisode, after_turn, before_turn};

/// Adds turns to one locked session.
pub struct SessionWriter<'a> {
    spi: &'a Spi,
    key: &'a SessionKey,
    prepared: &'a Prepare,
    settings: &'a Effective,
    episode: Option<Running>,
    /// What facts about the user's turns are made from.
    facts_from: FactsFrom,
    /// Whether an episode has ended that is to be reflected on.
    has_reflection: bool,
}

impl<'a> SessionWriter<'a> {
    /// Locks the session, which is made if it is new; `at` is the event time of its first new turn.
    pub fn open(
        spi: &'a Spi,
        key: &'a SessionKey,
        at: TimestampWithTimeZone,
        prepared: &'a Prepare,
        settings: &'a Effective,
    ) -> PgResult<Self> {
        let episode = match sessions::lock(spi, key, at)? {
            Some(id) => episodes::open(spi, &key.user_id, id)?,
            None => None,
        };
        Ok(Self {
            spi,
            key,
            prepared,
            settings,
            episode,
            facts_from: facts_from(spi, &key.agent_id, settings)?,
            has_reflection: false,
        })
    }

    /// Adds the turns at `indexes`, in that order, and queues the work that they bring.
    pub fn add(mut self, turns: &[Checked], indexes: &[usize], ids: &[Uuid]) -> PgResult<()> {
        let mut tokens = 0;
        let mut last_turn_at = turns[indexes[0]].created_at;
        for &index in indexes {
            let turn = &turns[index];
            scratch(|| self.add_turn(turn, index, ids[index]))?;
            tokens += i64::from(self.prepared.token_count(index));
            last_turn_at = last_turn_at.max(turn.created_at);
            pgrx::check_for_interrupts!();
        }
        if let Some(episode) = &self.episode {
            episodes::save(self.spi, &self.key.user_id, episode, None)?;
        }
        let open = self.episode.as_ref().map(|episode| episode.id);
        let growth = (indexes.len() as i64, tokens);
        let fill = sessions::grow(self.spi, self.key, growth, last_turn_at, open)?;
        let waits = indexes.iter().any(|&index| match self.facts_of(&turns[index]) {
            FactsFrom::Turn => turns[index].turn.role == "user",
            from => from == FactsFrom::Decision,
        });
        self.queue_jobs(&fill, waits)
    }

    fn add_turn(&mut self, turn: &Checked, index: usize, id: Uuid) -> PgResult<()> {
        let episode_id = self.episode_for(turn)?;
        let words = self.prepared.words(self.spi, &turn.indexed_text)?;
        let (role, content) = (&turn.turn.role, &turn.turn.content);
        let scope = FactScope::of_session(self.key);
        let entry = NewEntry::new(id, &scope, "turn", role, content, words, turn.created_at);
        let entry = NewEntry {
            markers: turn.markers.clone(),
            metadata: turn.turn.metadata.clone(),
            episode_id: Some(episode_id),
            expires_at: turn.expires_at,
            facts_from: self.facts_of(turn),
            ..self.prepared.complete(index, entry)
        };
        entries::insert(self.spi, entry)?;
        self.close_after(turn)
    }

    /// What facts about a turn are made from.
    fn facts_of(&self, turn: &Checked) -> FactsFrom {
        let is_decision = || turn.markers.iter().any(|marker| marker == "decision");
        match turn.turn.role.as_str() {
            "user" => self.facts_from,
            "assistant"
                if self.settings.sessions.assistant_decisions
                    && self.facts_from == FactsFrom::Turn
                    && schema::has_0_3()
                    && is_decision() =>
            {
                FactsFrom::Decision
            }
            // It may repeat what the user said, and is not for the LLM either.
            "assistant" if self.settings.sessions.extraction == Extraction::Off => {
                FactsFrom::Nothing
            }
            _ => FactsFrom::Turn,
        }
    }

    /// The episode this turn belongs to; a running one that must end before it is closed.
    fn episode_for(&mut self, turn: &Checked) -> PgResult<Uuid> {
        if let Some(running) = &self.episode {
            let episodes = &self.settings.sessions.episodes;
            let open = OpenEpisode {
                turn_count: running.turn_count.max(0) as u32,
                last_turn_at_micros: running.ended_at.into_inner(),
            };
            let reason = before_turn(Some(&open), turn.created_at.into_inner(), episodes);
            if let Some(reason) = reason {
                self.end_episode(reason)?;
            }
        }
        let mut running = match self.episode.take() {
            Some(running) => running,
            None => episodes::start(self.spi, self.key, entries::new_id(), turn.created_at)?,
        };
        running.turn_count += 1;
        running.wants_reflection |= self.facts_from == FactsFrom::Episode;
        running.started_at = running.started_at.min(turn.created_at);
        running.ended_at = running.ended_at.max(turn.created_at);
        let id = running.id;
        self.episode = Some(running);
        Ok(id)
    }

    fn close_after(&mut self, turn: &Checked) -> PgResult<()> {
        let Some(running) = &self.episode else { return Ok(()) };
        let turns = running.turn_count.max(0) as u32;
        let reason = after_turn(turns, &turn.turn.role, &self.settings.sessions.episodes);
        reason.map_or(Ok(()), |reason| self.end_episode(reason))
    }

    fn end_episode(&mut self, reason: CloseReason) -> PgResult<()> {
        let Some(running) = self.episode.take() else { return Ok(()) };
        self.has_reflection |= running.wants_reflection;
        episodes::save(self.spi, &self.key.user_id, &running, Some(reason))
    }

    fn queue_jobs(&self, fill: &Fill, waits_for_extraction: bool) -> PgResult<()> {
        let scope = FactScope::of_session(self.key);
        if self.prepared.needs_job() {
            follow_ups::queue_embedding(self.spi, &scope, self.settings)?;
        }
        if waits_for_extraction {
            follow_ups::queue_extraction(self.spi, &scope, self.settings)?;
        }
        if self.has_reflection {
            follow_ups::queue_reflection(self.spi, self.key, self.settings)?;
        }
        follow_ups::queue_summary(self.spi, self.key, fill, self.settings)?;
        follow_ups::queue_eviction(self.spi, self.key, fill.entries, self.settings)
    }
}

/// What facts about turns stored now are made from: an LLM must be configured that makes them.
pub fn facts_from(spi: &Spi, agent_id: &str, settings: &Effective) -> PgResult<FactsFrom> {
    Ok(match settings.sessions.extraction {
        Extraction::Off => FactsFrom::Nothing,
        _ if endpoints::missing(spi, agent_id)?.is_some() => FactsFrom::Nothing,
        Extraction::Turn => FactsFrom::Turn,
        Extraction::Episode => FactsFrom::Episode,
    })
}
