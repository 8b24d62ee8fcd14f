//! Where pages of lists end. mem0's clients ask for pages by number and mostly one after the other, so the next
//! one goes on where the last one ended: it costs what the first one does, and what was added or deleted
//! meanwhile neither repeats memories nor skips any.

use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// A place that no client goes on from is forgotten after this time.
const REMEMBERED: Duration = Duration::from_secs(600);
/// Places that are remembered at most.
const MANY: usize = 10_000;

/// The time and the id of a memory, after which a list goes on.
pub type Place = (String, Uuid);

/// Which page of which list: a hash of what decides that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Page([u8; 32]);

impl Page {
    /// `list` is everything that decides what is on the pages, and in which order.
    pub fn of(list: &str, number: i64) -> Self {
        Self(Sha256::new().chain_update(number.to_be_bytes()).chain_update(list).finalize().into())
    }
}

/// The places behind which pages begin.
#[derive(Default)]
pub struct Borders(Mutex<HashMap<Page, (Instant, Place)>>);

impl Borders {
    /// Where a page begins; `None` where that is not known.
    pub fn before(&self, page: Page, now: Instant) -> Option<Place> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, place) = known.get(&page)?;
        (now.saturating_duration_since(*at) < REMEMBERED).then(|| place.clone())
    }

    pub fn remember(&self, page: Page, place: Place, now: Instant) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MANY {
            known.retain(|_, (at, _)| now.saturating_duration_since(*at) < REMEMBERED);
        }
        if known.len() < MANY || known.contains_key(&page) {
            known.insert(page, (now, place));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_remembered_for_a_while_and_not_without_end() {
        let (borders, now) = (Borders::default(), Instant::now());
        let place = ("2026-01-01T00:00:00Z".to_owned(), Uuid::nil());
        for number in 0..10_001 {
            borders.remember(Page::of("ann", number), place.clone(), now);
        }
        assert_eq!(borders.before(Page::of("ann", 9_999), now), Some(place.clone()));
        for other in [Page::of("bob", 9_999), Page::of("ann", 10_000)] {
            assert_eq!(borders.before(other, now), None);
        }
        let later = now + Duration::from_secs(600);
        assert_eq!(borders.before(Page::of("ann", 9_999), later), None);
        borders.remember(Page::of("ann", 10_000), place.clone(), later);
        assert_eq!(borders.before(Page::of("ann", 10_000), later), Some(place));
    }
}
