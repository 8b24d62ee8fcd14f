//! Bounds the memory that requests may take while they are in the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A number of bytes that requests share.
#[derive(Debug)]
pub struct ByteBudget {
    used: AtomicUsize,
    limit: usize,
}

impl ByteBudget {
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { used: AtomicUsize::new(0), limit })
    }

    /// The most that can be reserved at once.
    pub fn limit(&self) -> usize {
        self.limit
    }

    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Takes bytes until the reservation is dropped; `None` if not that many are left.
    pub fn reserve(self: &Arc<Self>, bytes: usize) -> Option<Reservation> {
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|sum| *sum <= self.limit)
            })
            .ok()
            .map(|_| Reservation { budget: Arc::clone(self), bytes })
    }
}

/// Bytes taken from a [`ByteBudget`].
#[derive(Debug)]
pub struct Reservation {
    budget: Arc<ByteBudget>,
    bytes: usize,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_back_what_was_reserved_and_never_more_than_its_limit() {
        let budget = ByteBudget::new(10);
        let first = budget.reserve(6).unwrap();
        assert!(budget.reserve(5).is_none());
        assert!(budget.reserve(usize::MAX).is_none());
        let second = budget.reserve(4).unwrap();
        assert_eq!(budget.used(), 10);
        drop((first, second));
        assert_eq!(budget.used(), 0);
    }
}
