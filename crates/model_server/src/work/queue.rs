//! Decides what the model threads run next. A request waits here as a job: the sequences to run
//! and a place for their results.
//!
//! Jobs stand in three lanes by size, so that a question never waits behind a bulk ingest. The
//! lanes share the machine by start-time fair queueing (Goyal, Vin and Cheng, 1996): each lane
//! has a virtual time that advances by the tokens it was given, divided by its weight, and the
//! lane that is furthest behind is served next; a lane that was empty starts at the present. So
//! no lane starves, and an urgent one waits for the batches that are running and no more. It does not
//! wait for a batch of bulk either, which takes some hundred milliseconds: while one is running, one
//! thread more takes what is urgent. Within a lane jobs are served in order of arrival. A batch is filled up, where the model allows
//! batches, with sequences of similar length from any job of the lane.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::engine::batch::BatchShape;
use crate::engine::tokenizer::TokenSequence;
use crate::error::InferenceError;
use crate::protocol::ModelKind;

/// Rows of a job, in the order of its sequences.
pub type JobResult = Result<Vec<Vec<f32>>, InferenceError>;

/// What the queue has to know about a model.
pub trait Schedulable {
    fn kind(&self) -> ModelKind;
    /// Most sequences that may share a run.
    fn max_batch(&self) -> usize;
}

/// A job of at most this many tokens is short: any single question, or one turn to store.
const SHORT_JOB_TOKENS: usize = 512;

/// A rerank of more tokens than this is bulk: it would hold up those of recalls, which have some hundred tokens.
const RERANK_JOB_TOKENS: usize = 8_192;

/// Lane numbers, most urgent first, and the share of the machine each gets when all are busy.
const SHORT: usize = 0;
const RERANK: usize = 1;
const BULK: usize = 2;
const WEIGHTS: [u64; 3] = [4, 2, 1];

fn lane_of(kind: ModelKind, tokens: usize) -> usize {
    match kind {
        _ if tokens <= SHORT_JOB_TOKENS => SHORT,
        ModelKind::Reranker if tokens <= RERANK_JOB_TOKENS => RERANK,
        _ => BULK,
    }
}

/// Which jobs a model thread takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    All,
    /// Questions and reranks, and these only while a batch of bulk is running.
    UrgentBesideBulk,
}

/// One sequence of a job.
#[derive(Debug)]
struct Item {
    position: usize,
    sequence: TokenSequence,
}

#[derive(Debug)]
struct Job<M> {
    id: u64,
    model: Arc<M>,
    /// By length, the longest last.
    items: Vec<Item>,
    results: Arc<Results>,
}

/// Where the rows of a job are collected.
#[derive(Debug)]
struct Results {
    state: Mutex<ResultsState>,
}

#[derive(Debug)]
struct ResultsState {
    rows: Vec<Vec<f32>>,
    missing: usize,
    sender: Option<oneshot::Sender<JobResult>>,
}

#[derive(Debug)]
struct Lane<M> {
    jobs: VecDeque<Job<M>>,
    virtual_time: u64,
}

#[derive(Debug)]
struct State<M> {
    lanes: [Lane<M>; 3],
    /// Virtual time at which the lane served last started.
    now: u64,
    waiting_items: usize,
    /// Batches of bulk that are running.
    running_bulk: usize,
    next_id: u64,
}

/// The queue between requests and model threads.
#[derive(Debug)]
pub struct Queue<M> {
    state: Mutex<State<M>>,
    arrived: Condvar,
    max_items: usize,
}

/// Why a job was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// No room now.
    Full,
    /// More sequences than the whole queue may hold.
    TooLarge,
}

impl<M: Schedulable> Queue<M> {
    /// A queue that holds at most `max_items` sequences.
    pub fn new(max_items: usize) -> Self {
        let lanes = [(); 3].map(|()| Lane { jobs: VecDeque::new(), virtual_time: 0 });
        Self {
            state: Mutex::new(State {
                lanes,
                now: 0,
                waiting_items: 0,
                running_bulk: 0,
                next_id: 0,
            }),
            arrived: Condvar::new(),
            max_items,
        }
    }

    /// Sequences that wait for a thread.
    pub fn waiting_items(&self) -> usize {
        self.lock().waiting_items
    }

    /// Adds a job. Dropping the ticket cancels what of it is not running yet.
    pub fn submit(
        self: &Arc<Self>,
        model: Arc<M>,
        sequences: Vec<TokenSequence>,
    ) -> Result<Ticket<M>, Refusal> {
        if sequences.len() > self.max_items {
            return Err(Refusal::TooLarge);
        }
        let tokens = sequences.iter().map(TokenSequence::len).sum();
        let mut items: Vec<Item> = sequences
            .into_iter()
            .enumerate()
            .map(|(position, sequence)| Item { position, sequence })
            .collect();
        items.sort_by_key(|item| item.sequence.len());
        let count = items.len();
        let (sender, receiver) = oneshot::channel();

        let mut state = self.lock();
        if state.waiting_items + count > self.max_items {
            return Err(Refusal::Full);
        }
        let id = state.next_id;
        state.next_id += 1;
        if count == 0 {
            // No thread listens yet, so this cannot fail.
            let _ = sender.send(Ok(Vec::new()));
            return Ok(Ticket { queue: Arc::clone(self), id, receiver });
        }
        let results = Arc::new(Results {
            state: Mutex::new(ResultsState {
                rows: vec![Vec::new(); count],
                missing: count,
                sender: Some(sender),
            }),
        });
        let now = state.now;
        let lane = &mut state.lanes[lane_of(model.kind(), tokens)];
        if lane.jobs.is_empty() {
            lane.virtual_time = lane.virtual_time.max(now);
        }
        lane.jobs.push_back(Job { id, model, items, results });
        state.waiting_items += count;
        drop(state);
        // Not one: it may be the thread that does not take this job.
        self.arrived.notify_all();
        Ok(Ticket { queue: Arc::clone(self), id, receiver })
    }

    /// The next batch to run; waits until there is one.
    pub fn next(self: &Arc<Self>, takes: Takes) -> Batch<M> {
        let mut state = self.lock();
        loop {
            if let Some((mut batch, lane)) = state.next_batch(takes) {
                if lane == BULK {
                    state.running_bulk += 1;
                    batch.bulk = Some(Arc::new(RunningBulk { queue: Arc::clone(self) }));
                    self.arrived.notify_all();
                }
                return batch;
            }
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Forgets the waiting sequences of a job.
    fn cancel(&self, id: u64) {
        let mut state = self.lock();
        for lane in &mut state.lanes {
            if let Some(index) = lane.jobs.iter().position(|job| job.id == id) {
                let cancelled = lane.jobs.remove(index).map_or(0, |job| job.items.len());
                state.waiting_items -= cancelled;
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<M>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M: Schedulable> State<M> {
    /// A batch and its lane.
    fn next_batch(&mut self, takes: Takes) -> Option<(Batch<M>, usize)> {
        let lanes = match takes {
            Takes::All => &mut self.lanes[..],
            Takes::UrgentBesideBulk if self.running_bulk > 0 => &mut self.lanes[..BULK],
            Takes::UrgentBesideBulk => return None,
        };
        let lane = lanes
            .iter_mut()
            .enumerate()
            .filter(|(_, lane)| !lane.jobs.is_empty())
            .min_by_key(|(number, lane)| (lane.virtual_time, *number));
        let (number, lane) = lane?;
        let first = lane.jobs.front_mut()?;
        let anchor = first.items.pop()?;
        let model = Arc::clone(&first.model);
        let mut shape = BatchShape::new(anchor.sequence.len(), model.max_batch());
        let longest = anchor.sequence.len();
        let mut items = vec![(Arc::clone(&first.results), anchor)];
        for job in lane.jobs.iter_mut().filter(|job| Arc::ptr_eq(&job.model, &model)) {
            while let Some(lengths) = shape.joining_lengths() {
                // The longest that is not longer than the batch.
                let end = job.items.partition_point(|item| item.sequence.len() <= *lengths.end());
                match job.items[..end].last() {
                    Some(item) if lengths.contains(&item.sequence.len()) => {
                        items.push((Arc::clone(&job.results), job.items.remove(end - 1)));
                        shape.add();
                    }
                    _ => break,
                }
            }
        }
        lane.jobs.retain(|job| !job.items.is_empty());
        self.now = lane.virtual_time;
        lane.virtual_time += (longest * items.len()) as u64 * WEIGHTS[SHORT] / WEIGHTS[number];
        self.waiting_items -= items.len();
        Some((Batch { model, items, bulk: None }, number))
    }
}

/// Sequences to be run together.
#[derive(Debug)]
pub struct Batch<M: Schedulable> {
    model: Arc<M>,
    items: Vec<(Arc<Results>, Item)>,
    bulk: Option<Arc<RunningBulk<M>>>,
}

/// Says that a batch of bulk is running, until the last part of it is dropped.
#[derive(Debug)]
struct RunningBulk<M: Schedulable> {
    queue: Arc<Queue<M>>,
}

impl<M: Schedulable> Drop for RunningBulk<M> {
    fn drop(&mut self) {
        self.queue.lock().running_bulk -= 1;
    }
}

impl<M: Schedulable> Batch<M> {
    pub fn model(&self) -> &M {
        &self.model
    }

    pub fn sequences(&self) -> Vec<&TokenSequence> {
        self.items.iter().map(|(_, item)| &item.sequence).collect()
    }

    /// Hands the rows, one per sequence in the order of [`Self::sequences`], to their jobs.
    pub fn deliver(self, rows: Vec<Vec<f32>>) {
        for ((results, item), row) in self.items.into_iter().zip(rows) {
            let mut state = results.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.rows[item.position] = row;
            state.missing -= 1;
            if state.missing == 0 {
                let rows = std::mem::take(&mut state.rows);
                state.finish(Ok(rows));
            }
        }
    }

    /// Fails every job that has a sequence here.
    pub fn fail(self, error: &InferenceError) {
        for (results, _) in self.items {
            let mut state = results.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.finish(Err(error.clone()));
        }
    }

    /// Splits a batch into batches of one sequence, so that a failure stays with its cause.
    pub fn split(self) -> impl Iterator<Item = Self> {
        let Self { model, items, bulk } = self;
        items.into_iter().map(move |item| Self {
            model: Arc::clone(&model),
            items: vec![item],
            bulk: bulk.clone(),
        })
    }
}

impl ResultsState {
    fn finish(&mut self, result: JobResult) {
        if let Some(sender) = self.sender.take() {
            // Fails only when the ticket was dropped: then no caller wants the result.
            let _ = sender.send(result);
        }
    }
}

/// A job that was taken.
#[derive(Debug)]
pub struct Ticket<M: Schedulable> {
    queue: Arc<Queue<M>>,
    id: u64,
    receiver: oneshot::Receiver<JobResult>,
}

impl<M: Schedulable> Ticket<M> {
    /// Waits for the rows.
    ///
    /// # Errors
    /// The first failure of one of the job's batches.
    pub async fn rows(mut self) -> JobResult {
        (&mut self.receiver)
            .await
            .unwrap_or_else(|_| Err(InferenceError::Internal("a model thread ended".to_owned())))
    }
}

impl<M: Schedulable> Drop for Ticket<M> {
    fn drop(&mut self) {
        self.queue.cancel(self.id);
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
