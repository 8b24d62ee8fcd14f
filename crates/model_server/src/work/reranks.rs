//! How many reranks there are. A recall does not join too many: it goes on without one at once, which is better for its
//! user than to wait for all the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Reranks that may wait or run, if the server has no more threads than that; else as many as threads. Measured with 32
/// connections that ask without pause, on two cores that were busy with something else too: the 95th percentile of a
/// recall was 356 ms with two (turns of LoCoMo), and 590 to 880 ms with four.
const LEAST: usize = 2;

/// The reranks that wait or run.
#[derive(Debug)]
pub struct Reranks {
    present: Arc<AtomicUsize>,
    most: usize,
}

impl Reranks {
    pub fn new(threads: usize) -> Self {
        Self { present: Arc::default(), most: threads.max(LEAST) }
    }

    /// One more, until it is dropped; `None` if there are enough, unless it waits however many there are.
    pub fn join(&self, waits: bool) -> Option<Place> {
        let others = self.present.fetch_add(1, Ordering::Relaxed);
        let place = Place(Arc::clone(&self.present));
        (waits || others < self.most).then_some(place)
    }
}

/// One of them.
#[derive(Debug)]
pub struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_some_and_for_all_that_wait() {
        for (threads, most) in [(1, 2), (2, 2), (4, 4)] {
            let reranks = Reranks::new(threads);
            let mut places: Vec<Place> = (0..most).filter_map(|_| reranks.join(false)).collect();
            assert_eq!(places.len(), most);
            assert!(reranks.join(false).is_none());
            places.extend(reranks.join(true));
            assert_eq!(places.len(), most + 1);
            places.truncate(most - 1);
            assert!(reranks.join(false).is_some());
        }
    }
}
