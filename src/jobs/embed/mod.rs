//! `embed` jobs: entries that were stored while no model was available, or asynchronously, get their
//! embeddings and exact token counts, a few at a time.

use crate::jobs::pace::{self, Pace, Verdict};
use crate::jobs::prelude::*;
use crate::jobs::step::{SLOW_DELAY, Step, StepTask};
use crate::memory::scope::active_model;
use crate::memory::texts::turn::indexed_text;
use crate::models::{self, Failure};
use crate::pg::locks::keep_erasures_out;
use crate::store::facts::embeddings::{self as store, Incomplete};
use crate::store::models::Kind;
use crate::store::rows::sessions;
use memory_agent_core::jobs::payloads::EmbedPlace;
use memory_agent_model_server::protocol::{ModelRef, Purpose};

/// Comes before every entry.
fn nil() -> Uuid {
    Uuid::from_bytes([0; 16])
}

/// An embed job on its way.
pub struct EmbedTask {
    job: Job,
    /// The last entry that was looked at.
    after: Uuid,
    done: i64,
    /// Why a text could not be embedded; the others are.
    refused: Option<String>,
}

impl StepTask for EmbedTask {
    fn job(&self) -> &Job {
        &self.job
    }

    fn step(&mut self, pace: &mut Pace) -> Result<Step, Aborted> {
        let (model, mut batch) = transaction(|spi| {
            // Nothing is embedded that could not be stored then.
            self.lock_session(spi)?;
            let model = active_model::active(spi, Kind::Embedder)?;
            let scope = self.job.scope();
            if self.done == 0 {
                let of = store::count_incomplete(spi, &scope, model.is_some())?;
                queue::progress(spi, &self.job, 0, Some(of))?;
            }
            let (rows, bytes) = (pace::ROWS, pace.bytes());
            let batch = store::incomplete(spi, &scope, model.is_some(), self.after, rows, bytes)?;
            if batch.is_empty() && self.refused.is_none() && queue::lock(spi, &self.job)? {
                queue::finish(spi, &self.job)?;
            }
            Ok((model, batch))
        })?;
        if batch.is_empty() {
            return Ok(self.refused.take().map_or(Step::Finished, Step::Failed));
        }
        let failure = match self.embed(model.as_ref(), &batch) {
            Ok(prepared) => {
                pace.quicken();
                self.store(model.as_ref(), &batch, &prepared)?;
                return Ok(Step::Continue);
            }
            Err(failure) => failure,
        };
        let lengths: Vec<usize> = batch.iter().map(|row| row.content.len()).collect();
        match pace.judge(&failure, model.as_ref(), &lengths) {
            Verdict::Halve => Ok(Step::Continue),
            Verdict::Outage => Ok(Step::Outage(failure.message)),
            Verdict::Busy => Ok(Step::Busy(SLOW_DELAY, failure.message)),
            Verdict::Own => {
                self.refused = Some(failure.message);
                self.after = batch.pop().map_or(self.after, |row| row.id);
                Ok(Step::Continue)
            }
        }
    }

    fn note_place(&mut self) {
        let place = EmbedPlace {
            attempt: self.job.attempts,
            after: self.after.to_string(),
            done: self.done,
            refused: self.refused.clone(),
        };
        self.job.keep(|payload: &mut payloads::Embed| payload.place = Some(place));
    }
}

impl EmbedTask {
    /// Takes up a claimed job.
    pub fn start(job: Job) -> Self {
        let place = job.payload::<payloads::Embed>().place;
        match place.filter(|place| place.attempt == job.attempts) {
            Some(EmbedPlace { after, done, refused, .. }) => {
                Self { after: queue::uuid(&after).unwrap_or_else(nil), done, refused, job }
            }
            None => Self { job, after: nil(), done: 0, refused: None },
        }
    }

    /// Whether it goes on from the place that another task has come to.
    pub fn is_resumed(job: &Job) -> bool {
        job.payload::<payloads::Embed>().place.is_some()
    }

    /// Erasures are kept out, and sessions locked, before their entries, as everywhere.
    fn lock_session(&self, spi: &Spi) -> PgResult<()> {
        keep_erasures_out(&self.job.user_id);
        if self.job.session_id.is_some() {
            let key = self.job.session_key();
            sessions::lock_existing(spi, &key)?;
        }
        Ok(())
    }

    fn embed(
        &self,
        model: Option<&ModelRef>,
        batch: &[Incomplete],
    ) -> Result<models::Prepared, Failure> {
        let texts = match model {
            Some(_) => batch
                .iter()
                .filter(|row| row.lacks_embedding)
                .map(|row| indexed_text(&row.content, &row.metadata))
                .collect(),
            None => Vec::new(),
        };
        let token_texts = batch.iter().map(|row| row.content.clone()).collect();
        models::current().prepare(model, Purpose::Document, texts, token_texts)
    }

    fn store(
        &mut self,
        model: Option<&ModelRef>,
        batch: &[Incomplete],
        prepared: &models::Prepared,
    ) -> Result<(), Aborted> {
        let done = self.done + batch.len() as i64;
        transaction(|spi| -> PgResult<()> {
            self.lock_session(spi)?;
            let mut embeddings = prepared.embeddings.iter();
            for (index, row) in batch.iter().enumerate() {
                let embedding = model
                    .filter(|_| row.lacks_embedding)
                    .and_then(|model| Some((model, embeddings.next()?)));
                let tokens = prepared.token_counts.get(index).copied().unwrap_or(0);
                store::complete(
                    spi,
                    &self.job.user_id,
                    (row.id, row.content_hash.as_deref()),
                    embedding.map(|(model, windows)| (model.name.as_str(), windows.as_slice())),
                    i32::try_from(tokens).unwrap_or(i32::MAX),
                )?;
            }
            queue::progress(spi, &self.job, done, None)
        })?;
        self.done = done;
        if let Some(last) = batch.last() {
            self.after = last.id;
        }
        Ok(())
    }
}
