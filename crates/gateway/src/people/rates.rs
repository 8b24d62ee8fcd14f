//! How often a caller may do something: a bucket of tries for each name, which fills up again by itself.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Names that are remembered before the buckets that are full again are looked for, and forgotten.
const MANY: usize = 10_000;
/// Every bucket is full again after this.
const FULL: Duration = Duration::from_secs(60);

/// At most so many tries a minute for each name.
#[derive(Debug)]
pub struct Rates<Name> {
    per_minute: u32,
    buckets: Mutex<Buckets<Name>>,
}

#[derive(Debug)]
struct Buckets<Name> {
    of: HashMap<Name, Bucket>,
    /// How many there may be before full ones are looked for: that costs a look at each, so it is not done
    /// for each that comes.
    many: usize,
}

/// What is left for one name.
#[derive(Debug)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl<Name: Eq + Hash> Rates<Name> {
    /// 0 is no limit.
    pub fn new(per_minute: u32) -> Self {
        Self { per_minute, buckets: Mutex::new(Buckets { of: HashMap::new(), many: MANY }) }
    }

    /// Gives a try back that was taken for nothing.
    pub fn give_back(&self, name: &Name) {
        let most = f64::from(self.per_minute);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = buckets.of.get_mut(name) {
            bucket.left = (bucket.left + 1.0).min(most);
        }
    }

    /// Takes a try.
    ///
    /// # Errors
    /// How long it takes until there is one.
    pub fn take(&self, name: Name, now: Instant) -> Result<(), Duration> {
        if self.per_minute == 0 {
            return Ok(());
        }
        let most = f64::from(self.per_minute);
        let per_second = most / 60.0;
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.of.len() >= buckets.many {
            buckets.of.retain(|_, bucket| now.saturating_duration_since(bucket.at) < FULL);
            buckets.many = MANY.max(buckets.of.len() * 2);
        }
        let bucket = buckets.of.entry(name).or_insert(Bucket { left: most, at: now });
        let since = now.saturating_duration_since(bucket.at).as_secs_f64();
        bucket.left = (bucket.left + since * per_second).min(most);
        bucket.at = now;
        if bucket.left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - bucket.left) / per_second));
        }
        bucket.left -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_so_many_tries_a_minute() {
        let rates = Rates::new(3);
        let start = Instant::now();
        for _ in 0..3 {
            assert_eq!(rates.take("a", start), Ok(()));
        }
        assert_eq!(rates.take("a", start), Err(Duration::from_secs(20)));
        assert_eq!(rates.take("b", start), Ok(()));
        let later = start + Duration::from_secs(21);
        assert_eq!(rates.take("a", later), Ok(()));
        assert!(rates.take("a", later).is_err());
        rates.give_back(&"a");
        assert_eq!(rates.take("a", later), Ok(()));
        rates.give_back(&"unknown");
        assert_eq!(Rates::new(0).take("a", start), Ok(()));
    }

    #[test]
    fn names_that_are_gone_take_no_memory() {
        let rates = Rates::new(3);
        let start = Instant::now();
        for number in 0..MANY {
            rates.take(number, start).unwrap();
        }
        rates.take(MANY, start + Duration::from_secs(61)).unwrap();
        assert_eq!(rates.buckets.lock().unwrap().of.len(), 1);
    }

    #[test]
    fn names_that_are_here_are_not_looked_through_for_each() {
        let rates = Rates::new(3);
        let start = Instant::now();
        for number in 0..3 * MANY {
            rates.take(number, start).unwrap();
        }
        let buckets = rates.buckets.lock().unwrap();
        assert_eq!((buckets.of.len(), buckets.many), (3 * MANY, 4 * MANY));
    }
}
