//! Where pages of lists end. mem0's clients ask for pages by number and mostly one after the other, so the next
//! one goes on where the last one ended: it costs what the first one does, and what was added or deleted
//! meanwhile neither repeats memories nor skips any.

use crate::db::place::Place;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A place that no client goes on from is forgotten after this time.
const REMEMBERED: Duration = Duration::from_secs(600);
/// Places that are remembered at most.
const MANY: usize = 10_000;

/// Which page of which list: a hash of what decides that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Page([u8; 32]);

impl Page {
    /// `list` is everything that decides what is on the pages, and in which order.
    pub fn of(list: &str, number: i64) -> Self {
        Self(Sha256::new().chain_update(number.to_be_bytes()).chain_update(list).finalize().into())
    }
}

/// The places behind which pages begin, by user.
#[derive(Default)]
pub struct PageEnds(Mutex<HashMap<String, Known>>);

type Known = HashMap<Page, (Instant, Place)>;

impl PageEnds {
    /// Where a page begins; `None` where that is not known.
    pub fn before(&self, user_id: &str, page: Page, now: Instant) -> Option<Place> {
        let of_users = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, place) = of_users.get(user_id)?.get(&page)?;
        is_fresh(*at, now).then(|| place.clone())
    }

    /// Where there is no room, the user with the most places loses the oldest one: users who list much cannot
    /// push out the places of others.
    pub fn remember(&self, user_id: &str, page: Page, place: Place, now: Instant) {
        let mut of_users = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if count(&of_users) >= MANY {
            of_users.retain(|_, known| {
                known.retain(|_, (at, _)| is_fresh(*at, now));
                !known.is_empty()
            });
            if count(&of_users) >= MANY
                && let Some(most) = of_users.values_mut().max_by_key(|known| known.len())
                && let Some(oldest) =
                    most.iter().min_by_key(|(_, (at, _))| *at).map(|(page, _)| *page)
            {
                most.remove(&oldest);
            }
        }
        of_users.entry(user_id.to_owned()).or_default().insert(page, (now, place));
    }
}

fn is_fresh(at: Instant, now: Instant) -> bool {
    now.saturating_duration_since(at) < REMEMBERED
}

fn count(of_users: &HashMap<String, Known>) -> usize {
    of_users.values().map(HashMap::len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_remembered_for_a_while_and_not_without_end() {
        let (ends, now) = (PageEnds::default(), Instant::now());
        let place =
            Place::read("2026-01-01T00:00:00_00000000-0000-0000-0000-000000000000").unwrap();
        let page = |number| Page::of("a list", number);
        ends.remember("bob", page(0), place.clone(), now);
        for number in 0..20_000 {
            let at = now + Duration::from_micros(number);
            ends.remember("ann", page(number as i64), place.clone(), at);
        }
        assert_eq!(count(&ends.0.lock().unwrap()), MANY);
        assert_eq!(ends.before("bob", page(0), now), Some(place.clone()));
        assert_eq!(ends.before("bob", page(1), now), None);
        assert_eq!(ends.before("ann", page(19_999), now), Some(place.clone()));
        assert_eq!(ends.before("ann", page(0), now), None);
        let later = now + Duration::from_secs(601);
        assert_eq!(ends.before("ann", page(19_999), later), None);
        ends.remember("ann", page(0), place.clone(), later);
        assert_eq!(count(&ends.0.lock().unwrap()), 1);
        assert_eq!(ends.before("ann", page(0), later), Some(place));
    }
}
