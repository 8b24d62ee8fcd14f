//! Requests that are alike and under way at the same time are carried out once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;

use crate::protocol::Response;

/// Identifies a request by its bytes.
pub type Key = [u8; 32];

/// The requests under way.
#[derive(Debug, Default)]
pub struct Flights {
    flights: Mutex<HashMap<Key, Weak<OnceCell<Response>>>>,
}

impl Flights {
    #[must_use]
    pub fn key(body: &[u8]) -> Key {
        Sha256::digest(body).into()
    }

    /// The answer to a request: of the same one that is under way, else of `carry_out`. If who carries it out
    /// leaves, another one who waits does.
    pub async fn join(&self, key: Key, carry_out: impl Future<Output = Response>) -> Response {
        let flight = Flight { flights: self, key, cell: self.cell(key) };
        flight.cell.get_or_init(|| carry_out).await.clone()
    }

    fn cell(&self, key: Key) -> Arc<OnceCell<Response>> {
        let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        match flights.get(&key).and_then(Weak::upgrade) {
            Some(cell) => cell,
            None => {
                let cell = Arc::default();
                flights.insert(key, Arc::downgrade(&cell));
                cell
            }
        }
    }
}

/// One who waits. The last one to leave takes the request off the list.
struct Flight<'a> {
    flights: &'a Flights,
    key: Key,
    cell: Arc<OnceCell<Response>>,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let mut flights = self.flights.flights.lock().unwrap_or_else(PoisonError::into_inner);
        // New ones come only while the list is locked.
        if Arc::strong_count(&self.cell) == 1 {
            flights.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tokio::sync::Notify;

    use super::*;

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
    }

    fn is_empty(flights: &Flights) -> bool {
        flights.flights.lock().unwrap().is_empty()
    }

    #[test]
    fn requests_alike_are_carried_out_once_while_they_are_under_way() {
        run(async {
            let (flights, carried_out) = (Flights::default(), AtomicUsize::new(0));
            let ask = |body: &'static [u8]| {
                let carried_out = &carried_out;
                flights.join(Flights::key(body), async move {
                    carried_out.fetch_add(1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    Response::Flushed
                })
            };
            tokio::join!(ask(b"a"), ask(b"a"), ask(b"b"), ask(b"a"));
            assert_eq!(carried_out.load(Ordering::SeqCst), 2);
            assert!(is_empty(&flights));
            ask(b"a").await;
            assert_eq!(carried_out.load(Ordering::SeqCst), 3, "nothing is remembered");
        });
    }

    #[test]
    fn when_who_carries_it_out_leaves_another_does() {
        run(async {
            let (flights, never) = (Flights::default(), Notify::new());
            let key = Flights::key(b"a");
            let first = flights.join(key, async {
                never.notified().await;
                Response::Flushed
            });
            let second = flights.join(key, async { Response::Flushed });
            let (left, answered) =
                tokio::join!(tokio::time::timeout(Duration::from_millis(20), first), second);
            assert!(left.is_err());
            assert_eq!(answered, Response::Flushed);
            assert!(is_empty(&flights));
        });
    }
}
