//! What each user may hold of something that all share: so one user leaves the others theirs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;

/// Users that are remembered before those who hold nothing are looked for, and forgotten.
const MANY: usize = 1_000;

/// At most so much for each user.
pub struct Shares {
    each: usize,
    users: Mutex<Users>,
}

struct Users {
    of: HashMap<String, Arc<Semaphore>>,
    /// How many there may be before the next look.
    many: usize,
}

impl Shares {
    pub fn new(each: usize) -> Self {
        let each = each.clamp(1, Semaphore::MAX_PERMITS);
        Self { each, users: Mutex::new(Users { of: HashMap::new(), many: MANY }) }
    }

    /// The share of a user. A request that holds a part of it, or waits for one, has this as well.
    pub fn of(&self, user_id: &str) -> Arc<Semaphore> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if users.of.len() >= users.many {
            users.of.retain(|_, share| Arc::strong_count(share) > 1);
            users.many = MANY.max(users.of.len() * 2);
        }
        if let Some(share) = users.of.get(user_id) {
            return Arc::clone(share);
        }
        let share = Arc::new(Semaphore::new(self.each));
        users.of.insert(user_id.to_owned(), Arc::clone(&share));
        share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_share() {
        let shares = Shares::new(2);
        let held = shares.of("ann").try_acquire_many_owned(2);
        assert!(held.is_ok() && shares.of("ann").try_acquire_owned().is_err());
        assert!(shares.of("bob").try_acquire_owned().is_ok());
        drop(held);
        assert!(shares.of("ann").try_acquire_owned().is_ok());
        assert!(Shares::new(0).of("ann").try_acquire_owned().is_ok(), "at least one");
    }

    #[test]
    fn who_holds_nothing_is_forgotten() {
        let shares = Shares::new(1);
        let held = shares.of("holds").try_acquire_owned();
        for number in 0..3 * MANY {
            shares.of(&number.to_string());
        }
        assert!(shares.users.lock().unwrap().of.len() <= MANY);
        assert!(held.is_ok() && shares.of("holds").try_acquire_owned().is_err());
    }
}
