//! The threads that run models: take a batch from the queue, run it, hand the rows back. A
//! failure or a panic costs the requests it concerns and nothing else.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{io, thread};

use crate::engine::model::Model;
use crate::error::InferenceError;
use crate::log;
use crate::process;
use crate::protocol::ModelKind;
use crate::work::queue::{Batch, JobResult, Queue, Schedulable, Takes};

impl Schedulable for Model {
    fn kind(&self) -> ModelKind {
        self.config().kind
    }

    fn max_batch(&self) -> usize {
        Model::max_batch(self)
    }
}

/// Starts `threads` threads that serve the queue until the process ends, and one more for what is urgent beside
/// bulk: it makes a window of a long text half as slow again, where a question would wait for all of it.
///
/// * `sequences`: counts the sequences that were run.
///
/// # Errors
/// The operating system's, if a thread cannot be started.
pub fn start(
    threads: usize,
    queue: &Arc<Queue<Model>>,
    sequences: &Arc<AtomicU64>,
) -> io::Result<()> {
    let takes = std::iter::repeat_n(Takes::All, threads).chain([Takes::UrgentBesideBulk]);
    for (number, takes) in takes.enumerate() {
        let queue = Arc::clone(queue);
        let sequences = Arc::clone(sequences);
        thread::Builder::new().name(format!("model {number}")).spawn(move || {
            // Panics of models are caught below; this is for bugs of the queue itself. Without
            // this thread requests would wait for ever, while a new server would serve them.
            let _ = catch_unwind(AssertUnwindSafe(|| {
                loop {
                    serve(queue.next(takes), &sequences);
                }
            }));
            log::line(format_args!("a model thread ended, so the server does"));
            process::exit_now(1);
        })?;
    }
    Ok(())
}

fn serve(batch: Batch<Model>, sequences: &AtomicU64) {
    let size = batch.sequences().len();
    sequences.fetch_add(size as u64, Ordering::Relaxed);
    match run(&batch) {
        Ok(rows) => batch.deliver(rows),
        Err(_) if size > 1 => batch.split().for_each(|single| serve(single, sequences)),
        Err(error) => batch.fail(&error),
    }
}

fn run(batch: &Batch<Model>) -> JobResult {
    let model = batch.model();
    let sequences = batch.sequences();
    catch_unwind(AssertUnwindSafe(|| model.run(&sequences))).unwrap_or_else(|_| {
        let name = model.name();
        Err(InferenceError::Internal(format!("running the model \"{name}\" panicked")))
    })
}
