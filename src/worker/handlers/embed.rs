//! `embed` jobs: entries that were stored while no model was to be had, or asynchronously, get their
//! embeddings and exact token counts, one batch a turn of the loop.

use crate::api::ingest::indexed_text;
use crate::error::PgResult;
use crate::models::{self, Failure};
use crate::store::catalog;
use crate::store::embeddings::{self as store, Incomplete};
use crate::store::facts::FactScope;
use crate::store::models::{self as model_store, Kind};
use crate::store::queue::{self, Job};
use crate::store::sessions::{self, SessionKey};
use crate::store::spi::Session as Spi;
use crate::worker::transaction::{Aborted, transaction};
use memory_agent_model_server::protocol::{ModelRef, Purpose};
use pgrx::datum::Uuid;

/// Entries in one batch, and bytes of their texts.
const BATCH: usize = 64;
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// An embed job on its way.
pub struct EmbedTask {
    pub job: Job,
    /// The last entry that was looked at.
    after: Uuid,
    done: i64,
    /// Why a text could not be embedded; the others are.
    refused: Option<String>,
}

/// What became of one batch.
pub enum Step {
    /// There may be more.
    Continue,
    Finished,
    /// The models are not to be had at present.
    Outage(Failure),
    /// The rest is done, but a text cannot be embedded, for this reason.
    Failed(String),
}

impl EmbedTask {
    pub fn new(job: Job) -> Self {
        Self { job, after: Uuid::from_bytes([0; 16]), done: 0, refused: None }
    }

    fn scope(&self) -> FactScope<'_> {
        scope(&self.job)
    }

    /// Sessions are locked before their entries, as everywhere.
    fn lock_session(&self, spi: &Spi) -> PgResult<()> {
        if let Some(session_id) = &self.job.session_id {
            let key = SessionKey {
                user_id: self.job.user_id.clone(),
                agent_id: self.job.agent_id.clone(),
                session_id: session_id.clone(),
            };
            sessions::lock_existing(spi, &key)?;
        }
        Ok(())
    }

    /// Embeds the next batch.
    ///
    /// # Errors
    /// Why a transaction was aborted.
    pub fn step(&mut self) -> Result<Step, Aborted> {
        let (model, batch) = transaction(|| {
            let spi = Spi::read_write()?;
            // Nothing is embedded that could not be stored then.
            self.lock_session(&spi)?;
            let model = model_store::active(&spi, Kind::Embedder)?;
            if self.done == 0 {
                let of = store::count_incomplete(&spi, &self.scope(), model.is_some())?;
                queue::progress(&spi, &self.job, 0, Some(of))?;
            }
            let batch =
                store::incomplete(&spi, &self.scope(), model.is_some(), self.after, BATCH as i64)?;
            if batch.is_empty() && self.refused.is_none() && queue::lock(&spi, &self.job)? {
                queue::finish(&spi, &self.job)?;
            }
            Ok((model, batch))
        })?;
        if batch.is_empty() {
            return Ok(self.refused.take().map_or(Step::Finished, Step::Failed));
        }
        let mut batch = fitting(batch);
        loop {
            match self.embed(model.as_ref(), &batch) {
                Ok(prepared) => {
                    self.store(model.as_ref(), &batch, &prepared)?;
                    return Ok(Step::Continue);
                }
                Err(failure) if failure.may_pass => return Ok(Step::Outage(failure)),
                // Perhaps it is only one text that cannot be embedded.
                Err(_) if batch.len() > 1 => batch.truncate(batch.len() / 2),
                Err(failure) => {
                    self.refused = Some(failure.message);
                    self.after = batch.first().map_or(self.after, |row| row.id);
                    return Ok(Step::Continue);
                }
            }
        }
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
        transaction(|| -> PgResult<()> {
            let spi = Spi::read_write()?;
            self.lock_session(&spi)?;
            let vector = catalog::vector_type()?;
            let mut embeddings = prepared.embeddings.iter();
            for (index, row) in batch.iter().enumerate() {
                let embedding = model
                    .filter(|_| row.lacks_embedding)
                    .and_then(|model| Some((model, embeddings.next()?)));
                let tokens = prepared.token_counts.get(index).copied().unwrap_or(0);
                store::complete(
                    &spi,
                    &vector,
                    &self.job.user_id,
                    row,
                    embedding.map(|(model, windows)| (model.name.as_str(), windows.as_slice())),
                    i32::try_from(tokens).unwrap_or(i32::MAX),
                )?;
            }
            queue::progress(&spi, &self.job, done, None)
        })?;
        self.done = done;
        if let Some(last) = batch.last() {
            self.after = last.id;
        }
        Ok(())
    }
}

fn scope(job: &Job) -> FactScope<'_> {
    FactScope {
        user_id: &job.user_id,
        agent_id: &job.agent_id,
        session_id: job.session_id.as_deref(),
    }
}

/// As many entries as fit into one request, at least one.
fn fitting(mut batch: Vec<Incomplete>) -> Vec<Incomplete> {
    let mut bytes = 0;
    let count = batch
        .iter()
        .take_while(|row| {
            bytes += row.content.len();
            bytes <= BATCH_BYTES
        })
        .count();
    batch.truncate(count.max(1));
    batch
}
