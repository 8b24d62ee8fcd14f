//! Tests of the queue with a stand-in for models.

use super::*;

#[derive(Debug)]
struct Stub {
    kind: ModelKind,
    max_batch: usize,
}

impl Schedulable for Stub {
    fn kind(&self) -> ModelKind {
        self.kind
    }

    fn max_batch(&self) -> usize {
        self.max_batch
    }
}

fn model(kind: ModelKind, max_batch: usize) -> Arc<Stub> {
    Arc::new(Stub { kind, max_batch })
}

/// Sequences of the given lengths; the first token says which one it is.
fn sequences(lengths: &[usize]) -> Vec<TokenSequence> {
    lengths
        .iter()
        .enumerate()
        .map(|(number, length)| TokenSequence {
            ids: std::iter::once(number as u32).chain(vec![7; length - 1]).collect(),
            segments: vec![0; *length],
        })
        .collect()
}

/// The next batch without waiting.
fn next(queue: &Queue<Stub>) -> Option<Batch<Stub>> {
    queue.lock().next_batch(Takes::All).map(|(batch, _)| batch)
}

fn lengths(batch: &Batch<Stub>) -> Vec<usize> {
    batch.sequences().iter().map(|sequence| sequence.len()).collect()
}

fn wait(ticket: Ticket<Stub>) -> JobResult {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(ticket.rows())
}

/// Answers a batch with the first token of each sequence.
fn echo(batch: Batch<Stub>) {
    let rows = batch.sequences().iter().map(|sequence| vec![sequence.ids[0] as f32]).collect();
    batch.deliver(rows);
}

#[test]
fn rows_come_back_in_the_order_of_the_sequences() {
    let queue = Arc::new(Queue::new(100));
    let ticket = queue.submit(model(ModelKind::Embedder, 2), sequences(&[30, 10, 20, 11])).unwrap();
    while let Some(batch) = next(&queue) {
        echo(batch);
    }
    assert_eq!(wait(ticket).unwrap().concat(), [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(queue.waiting_items(), 0);
}

#[test]
fn a_job_without_sequences_is_done_at_once() {
    let queue = Arc::new(Queue::new(1));
    let ticket = queue.submit(model(ModelKind::Embedder, 1), Vec::new()).unwrap();
    assert!(wait(ticket).unwrap().is_empty());
}

#[test]
fn a_batch_takes_similar_lengths_from_other_jobs_of_the_same_model_only() {
    let queue = Arc::new(Queue::new(100));
    let shared = model(ModelKind::Embedder, 8);
    let _first = queue.submit(Arc::clone(&shared), sequences(&[40, 10])).unwrap();
    let _second = queue.submit(Arc::clone(&shared), sequences(&[38, 34, 41])).unwrap();
    let _other = queue.submit(model(ModelKind::Embedder, 8), sequences(&[40])).unwrap();
    assert_eq!(lengths(&next(&queue).unwrap()), [40, 38]);
    assert_eq!(lengths(&next(&queue).unwrap()), [10]);
    assert_eq!(lengths(&next(&queue).unwrap()), [41]);
    assert_eq!(lengths(&next(&queue).unwrap()), [34]);
    assert_eq!(lengths(&next(&queue).unwrap()), [40]);
}

#[test]
fn a_question_overtakes_a_bulk_job_and_a_rerank_shares_with_both() {
    let queue = Arc::new(Queue::new(10_000));
    let embedder = model(ModelKind::Embedder, 1);
    let reranker = model(ModelKind::Reranker, 1);
    let _bulk = queue.submit(Arc::clone(&embedder), sequences(&[100; 1000])).unwrap();
    assert_eq!(lengths(&next(&queue).unwrap()), [100]);
    let _rerank = queue.submit(Arc::clone(&reranker), sequences(&[50; 30])).unwrap();
    let _question = queue.submit(Arc::clone(&embedder), sequences(&[12])).unwrap();
    assert_eq!(lengths(&next(&queue).unwrap()), [12]);
    // Bulk has a weight of 1, rerank of 2: per sequence of bulk four of half the length.
    let first: Vec<usize> = (0..25).map(|_| lengths(&next(&queue).unwrap())[0]).collect();
    let reranked = first.iter().filter(|length| **length == 50).count();
    assert!((18..=22).contains(&reranked), "{reranked} of 25 batches were reranking");
}

#[test]
fn many_questions_do_not_starve_a_bulk_job() {
    let queue = Arc::new(Queue::new(10_000));
    let embedder = model(ModelKind::Embedder, 1);
    let _bulk = queue.submit(Arc::clone(&embedder), sequences(&[100; 100])).unwrap();
    let mut questions = Vec::new();
    let mut bulk_served = 0;
    for _ in 0..400 {
        questions.push(queue.submit(Arc::clone(&embedder), sequences(&[20])).unwrap());
        bulk_served += lengths(&next(&queue).unwrap()).iter().filter(|n| **n == 100).count();
    }
    assert!(bulk_served >= 15, "bulk got {bulk_served} of 400 runs");
}

#[test]
fn dropping_the_ticket_empties_the_queue() {
    let queue = Arc::new(Queue::new(10));
    let embedder = model(ModelKind::Embedder, 1);
    let ticket = queue.submit(Arc::clone(&embedder), sequences(&[10; 10])).unwrap();
    let running = next(&queue).unwrap();
    assert_eq!(queue.submit(Arc::clone(&embedder), sequences(&[5; 2])).unwrap_err(), Refusal::Full);
    drop(ticket);
    assert_eq!(queue.waiting_items(), 0);
    echo(running);
    assert!(next(&queue).is_none());
}

#[test]
fn refuses_what_does_not_fit() {
    let queue = Arc::new(Queue::new(3));
    let embedder = model(ModelKind::Embedder, 1);
    let _first = queue.submit(Arc::clone(&embedder), sequences(&[5; 2])).unwrap();
    assert_eq!(queue.submit(Arc::clone(&embedder), sequences(&[5; 2])).unwrap_err(), Refusal::Full);
    assert_eq!(
        queue.submit(Arc::clone(&embedder), sequences(&[5; 4])).unwrap_err(),
        Refusal::TooLarge
    );
    assert!(queue.submit(embedder, sequences(&[5])).is_ok());
}

#[test]
fn a_failed_batch_fails_its_job_and_no_other() {
    let queue = Arc::new(Queue::new(10));
    let embedder = model(ModelKind::Embedder, 1);
    let bad = queue.submit(Arc::clone(&embedder), sequences(&[30, 20])).unwrap();
    let good = queue.submit(Arc::clone(&embedder), sequences(&[10])).unwrap();
    next(&queue).unwrap().fail(&InferenceError::Internal("broken".to_owned()));
    assert!(matches!(wait(bad), Err(InferenceError::Internal(_))));
    echo(next(&queue).unwrap());
    assert_eq!(wait(good).unwrap().concat(), [0.0]);
}

#[test]
fn a_split_batch_reports_each_sequence_on_its_own() {
    let queue = Arc::new(Queue::new(10));
    let shared = model(ModelKind::Embedder, 8);
    let bad = queue.submit(Arc::clone(&shared), sequences(&[20])).unwrap();
    let good = queue.submit(Arc::clone(&shared), sequences(&[20])).unwrap();
    let mut singles = next(&queue).unwrap().split();
    singles.next().unwrap().fail(&InferenceError::Internal("broken".to_owned()));
    echo(singles.next().unwrap());
    assert!(wait(bad).is_err());
    assert!(wait(good).is_ok());
}

#[test]
fn beside_bulk_one_thread_more_takes_what_is_urgent() {
    let queue = Arc::new(Queue::new(100));
    let embedder = model(ModelKind::Embedder, 1);
    let beside =
        || queue.lock().next_batch(Takes::UrgentBesideBulk).map(|(batch, _)| lengths(&batch));
    let _question = queue.submit(Arc::clone(&embedder), sequences(&[12])).unwrap();
    assert_eq!(beside(), None);
    echo(queue.next(Takes::All));
    let _bulk = queue.submit(Arc::clone(&embedder), sequences(&[400, 400])).unwrap();
    let running = queue.next(Takes::All);
    assert_eq!(beside(), None);
    let _question = queue.submit(Arc::clone(&embedder), sequences(&[13])).unwrap();
    assert_eq!(beside(), Some(vec![13]));
    let mut parts = running.split();
    let part = parts.next().unwrap();
    drop(parts);
    assert_eq!(queue.lock().running_bulk, 1);
    echo(part);
    assert_eq!(queue.lock().running_bulk, 0);
    let _question = queue.submit(embedder, sequences(&[14])).unwrap();
    assert_eq!(beside(), None);
}

#[test]
fn a_thread_for_what_is_urgent_wakes_when_bulk_begins() {
    let queue = Arc::new(Queue::new(100));
    let embedder = model(ModelKind::Embedder, 1);
    let beside = std::thread::spawn({
        let queue = Arc::clone(&queue);
        move || echo(queue.next(Takes::UrgentBesideBulk))
    });
    let _bulk = queue.submit(Arc::clone(&embedder), sequences(&[400, 400])).unwrap();
    let running = queue.next(Takes::All);
    let question = queue.submit(embedder, sequences(&[12])).unwrap();
    assert_eq!(wait(question).unwrap().concat(), [0.0]);
    beside.join().unwrap();
    drop(running);
}
