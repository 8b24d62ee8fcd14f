//! `reembed` jobs: another embedding model is to be used. Recall goes on with the old one until every
//! row has a vector of the next one beside it; then the next one is the active model at once, and the
//! vectors are moved into their rows. One batch a turn of the loop; `store::models::model_change` says how the
//! rows get from one state to the next.

use crate::jobs::pace::{Pace, Verdict};
use crate::jobs::prelude::*;
use crate::jobs::step::{Step, StepTask};
use crate::memory::scope::active_model;
use crate::memory::texts::turn::indexed_text;
use crate::models;
use crate::store::models::model_change::{self as store, Place, Text};
use crate::store::models::{self as model_store, Kind};
use crate::store::search::vector_index::{self, VectorIndex};
use memory_agent_model_server::protocol::{ModelRef, Purpose};

/// Rows whose texts are read for one step.
const BATCH: usize = 32;
/// Rows that are looked at for one batch, moved, or deleted at once.
const PAGE: i64 = 500;
const MOVED: i64 = 200;
const DELETED: i64 = 1000;
/// When it goes on after another transaction kept it from going on.
const BUSY_DELAY: Duration = Duration::from_secs(5);
/// Why rows are left.
const IN_USE: &str = "its rows are in use by another transaction";
/// How often all rows are looked through for those that came meanwhile. Where more keep coming, the
/// last ones get their vectors after the switch.
const MAX_PASSES: u32 = 10;

/// A model change on its way.
pub struct ReembedTask {
    job: Job,
    stage: Stage,
    after: Place,
    passes: u32,
    /// Rows that this pass did something for.
    touched: u64,
    done: i64,
    has_counted: bool,
    /// Rows whose text could not be embedded, and the first of them; the others are. All users see this
    /// job, so what an endpoint says of a user's text is nowhere in it.
    refused: u64,
    first_refused: Option<Uuid>,
}

#[derive(Clone, Copy)]
enum Stage {
    /// Vectors are put beside the rows.
    Embed,
    /// The next model becomes the active one.
    Switch,
    /// The vectors are moved into their rows.
    Move,
    /// What is left of other models is deleted.
    Clean,
}

/// What there is to embed.
enum Batch {
    /// The job is not this worker's any more.
    Lost,
    /// The model is not registered any more.
    NoModel,
    /// The pass is over.
    End,
    /// Every row of this page has its vector.
    Nothing(Place),
    Texts(ModelRef, Vec<Text>, Place),
}

impl StepTask for ReembedTask {
    fn makes_room(&self) -> bool {
        false
    }

    fn job(&self) -> &Job {
        &self.job
    }

    fn step(&mut self, pace: &mut Pace) -> Result<Step, Aborted> {
        match self.stage {
            Stage::Embed => self.embed(pace),
            Stage::Switch => self.switch(),
            Stage::Move => self.move_in(),
            Stage::Clean => self.clean(),
        }
    }
}

impl ReembedTask {
    /// Takes up a claimed job.
    pub fn start(job: Job) -> Self {
        Self {
            job,
            stage: Stage::Embed,
            after: store::start(),
            passes: 1,
            touched: 0,
            done: 0,
            has_counted: false,
            refused: 0,
            first_refused: None,
        }
    }

    /// The model that is to be used.
    fn model(&self) -> String {
        self.job.payload::<payloads::Reembed>().model
    }

    fn begin(&mut self, stage: Stage) {
        self.stage = stage;
        self.after = store::start();
        self.touched = 0;
    }

    fn embed(&mut self, pace: &mut Pace) -> Result<Step, Aborted> {
        let (model, mut texts, end) = match self.next_batch(pace.bytes())? {
            Batch::Lost => return Ok(Step::Finished),
            Batch::NoModel => {
                return Ok(Step::Failed(format!("\"{}\" is not registered", self.model())));
            }
            Batch::End => return Ok(self.end_of_pass()),
            Batch::Nothing(end) => {
                self.after = end;
                return Ok(Step::Continue);
            }
            Batch::Texts(model, texts, end) => (model, texts, end),
        };
        let documents =
            texts.iter().map(|text| indexed_text(&text.content, &text.metadata)).collect();
        let prepared =
            models::current().prepare(Some(&model), Purpose::Document, documents, Vec::new());
        let failure = match prepared {
            Ok(prepared) => {
                pace.quicken();
                if !self.put_beside(&texts, &prepared.embeddings)? {
                    return Ok(Step::Finished);
                }
                self.after = end;
                return Ok(Step::Continue);
            }
            Err(failure) => failure,
        };
        let lengths: Vec<usize> = texts.iter().map(|text| text.content.len()).collect();
        match pace.judge(&failure, Some(&model), &lengths) {
            Verdict::Halve => Ok(Step::Continue),
            Verdict::Outage => Ok(Step::Outage("the model is not available at present".to_owned())),
            Verdict::Busy => Ok(busy("the models have much to do")),
            Verdict::Own => {
                self.refused += 1;
                self.after = texts.pop().map_or(end, |text| text.place);
                self.first_refused.get_or_insert(self.after.1);
                Ok(Step::Continue)
            }
        }
    }

    /// The next texts without a vector of the model, and the place up to which they were looked for.
    fn next_batch(&mut self, bytes: usize) -> Result<Batch, Aborted> {
        let name = self.model();
        transaction(|spi| {
            if !queue::lock(spi, &self.job)? {
                return Ok(Batch::Lost);
            }
            let Some(registered) = model_store::registered(spi, &name)? else {
                return Ok(Batch::NoModel);
            };
            if !self.has_counted {
                let of = store::count_steps(spi, &name)?;
                queue::progress(spi, &self.job, 0, Some(of))?;
                self.has_counted = true;
            }
            let page = store::others(spi, &name, &self.after, PAGE)?;
            let Some((end, _)) = page.last() else { return Ok(Batch::End) };
            let end = end.clone();
            let mut lacking: Vec<Place> =
                page.into_iter().filter(|(_, has_it)| !has_it).map(|(place, _)| place).collect();
            let is_whole = lacking.len() <= BATCH;
            lacking.truncate(BATCH);
            let texts = store::texts(spi, &lacking)?;
            let wanted = texts.len();
            let texts = fitting(texts, bytes);
            let reached = match texts.last() {
                _ if is_whole && texts.len() == wanted => end,
                Some(last) => last.place.clone(),
                None => end,
            };
            if texts.is_empty() {
                return Ok(Batch::Nothing(reached));
            }
            let model = models::model_ref(&name, registered.location.as_deref())?;
            Ok(Batch::Texts(model, texts, reached))
        })
    }

    /// Stores vectors beside their rows; false when the job is not this worker's any more.
    fn put_beside(
        &mut self,
        texts: &[Text],
        embeddings: &[Vec<Vec<f32>>],
    ) -> Result<bool, Aborted> {
        let name = self.model();
        let stored = transaction(|spi| -> PgResult<Option<u64>> {
            if !queue::lock(spi, &self.job)? {
                return Ok(None);
            }
            let mut stored = 0;
            for (text, vectors) in texts.iter().zip(embeddings) {
                stored += u64::from(store::put_beside(spi, &name, text, vectors)?);
            }
            queue::progress(spi, &self.job, self.done + texts.len() as i64, None)?;
            Ok(Some(stored))
        })?;
        let Some(stored) = stored else { return Ok(false) };
        self.touched += stored;
        self.done += texts.len() as i64;
        Ok(true)
    }

    /// After all rows were looked at: again, for those that came meanwhile, or on.
    fn end_of_pass(&mut self) -> Step {
        if let Some(first) = self.first_refused {
            let refused = self.refused;
            return Step::Failed(format!(
                "\"{}\" does not embed {refused} entries, the first is {first}",
                self.model()
            ));
        }
        if self.touched > 0 && self.passes < MAX_PASSES {
            self.passes += 1;
            self.begin(Stage::Embed);
        } else {
            self.begin(Stage::Switch);
        }
        Step::Continue
    }

    /// Makes the model the active one. Its index has to be there before the rows: HNSW grows with
    /// them, so no call waits for its construction.
    fn switch(&mut self) -> Result<Step, Aborted> {
        let name = self.model();
        self.in_step(|spi| self.create_index(spi, &name, "hnsw"))?;
        let switched = self.in_step(|spi| {
            let is_active =
                active_model::active(spi, Kind::Embedder)?.is_some_and(|model| model.name == name);
            if !is_active || model_store::activated(spi, Kind::Embedder)?.is_none() {
                model_store::activate(spi, Kind::Embedder, &name)?;
            }
            Ok(!is_active)
        })?;
        if switched == Some(true) {
            log!("memory_agent: the embedding model is \"{name}\" from now on");
        }
        if switched.is_none() {
            return Ok(Step::Finished);
        }
        self.begin(Stage::Move);
        Ok(Step::Continue)
    }

    fn move_in(&mut self) -> Result<Step, Aborted> {
        let name = self.model();
        let after = self.after.clone();
        let done = self.done;
        let moved = self.in_step(|spi| {
            let moved = store::move_in(spi, &name, &after, MOVED)?;
            queue::progress(spi, &self.job, done + moved.len() as i64, None)?;
            Ok(moved)
        })?;
        let Some(mut moved) = moved else { return Ok(Step::Finished) };
        self.done += moved.len() as i64;
        self.touched += moved.len() as u64;
        if let Some(last) = moved.pop() {
            self.after = last;
            return Ok(Step::Continue);
        }
        let left =
            self.in_step(|spi| Ok(!store::others(spi, &name, &store::start(), 1)?.is_empty()))?;
        match left {
            None => return Ok(Step::Finished),
            Some(false) => self.begin(Stage::Clean),
            Some(true) if self.touched == 0 => return Ok(busy(IN_USE)),
            // They came after the last pass, or another transaction held them.
            Some(true) => self.begin(Stage::Embed),
        }
        Ok(Step::Continue)
    }

    fn clean(&mut self) -> Result<Step, Aborted> {
        match self.clean_up() {
            Ok(Some(false)) => Ok(Step::Continue),
            Ok(_) => Ok(Step::Finished),
            // A long query reads the table; the old index takes only space.
            Err(aborted) if aborted.may_pass => Ok(busy(IN_USE)),
            Err(aborted) => Err(aborted),
        }
    }

    /// True when nothing is left and the job is finished.
    fn clean_up(&self) -> Result<Option<bool>, Aborted> {
        let name = self.model();
        self.in_step(|spi| {
            if store::delete_other_windows(spi, &name, DELETED)? > 0 {
                return Ok(false);
            }
            // The lists of an ivfflat index are made of the rows that are there, so it comes last.
            self.create_index(spi, &name, "ivfflat")?;
            for (_, index) in other_indexes(spi, &name)? {
                vector_index::drop(spi, &index)?;
            }
            queue::finish(spi, &self.job)?;
            Ok(true)
        })
    }

    /// Gives the model an index of this kind, when a model before it has one.
    fn create_index(&self, spi: &Spi, name: &str, method: &str) -> PgResult<()> {
        let has_one = other_indexes(spi, name)?.iter().any(|(_, index)| index.method == method);
        if !has_one || vector_index::find(spi, name)?.is_some() {
            return Ok(());
        }
        let registered = model_store::registered(spi, name)?;
        let dimension = registered
            .and_then(|model| model.dimension)
            .ok_or_else(|| Error::internal("an embedder is registered without dimension"))?;
        if dimension <= vector_index::MAX_DIMENSION {
            vector_index::create(spi, name, dimension, method)?;
        }
        Ok(())
    }

    /// Runs one transaction, unless the job is not this worker's any more.
    fn in_step<T>(&self, body: impl FnOnce(&Spi) -> PgResult<T>) -> Result<Option<T>, Aborted> {
        transaction(|spi| if queue::lock(spi, &self.job)? { body(spi).map(Some) } else { Ok(None) })
    }
}

/// Another transaction is the cause.
fn busy(reason: &str) -> Step {
    Step::Busy(BUSY_DELAY, reason.to_owned())
}

/// The indexes over the vectors of other models.
fn other_indexes(spi: &Spi, model: &str) -> PgResult<Vec<(String, VectorIndex)>> {
    let mut found = Vec::new();
    for other in store::other_models(spi, model)? {
        if let Some(index) = vector_index::find(spi, &other)? {
            found.push((other, index));
        }
    }
    Ok(found)
}

/// As many texts as fit into one request, at least one.
fn fitting(mut texts: Vec<Text>, most: usize) -> Vec<Text> {
    let mut bytes = 0;
    let count = texts
        .iter()
        .take_while(|text| {
            bytes += text.content.len();
            bytes <= most
        })
        .count();
    texts.truncate(count.max(1));
    texts
}
