//! Locks on what has no row of its own: a user's erasures, the facts of a user's agent that belong to no
//! session, and the turns of a session before it has a row. They hold until the end of the transaction.
//!
//! They are no advisory locks: those have no privileges, and every role reads their keys in `pg_locks`.
//! PostgreSQL keeps a kind of lock for extensions, `userlock` in `pg_locks`, that no SQL statement or function
//! takes. Nor are they rows: a lock of a user who is new, or just erased, would be on a row that is not there yet.
#![allow(unsafe_code)]

use pgrx::pg_sys;
use sha2::{Digest, Sha256};

/// Something that can be locked.
pub struct Lock(pg_sys::LOCKTAG);

impl Lock {
    /// A user's erasures: they hold it alone, who stores what was read before shares it.
    pub fn erasures(user_id: &str) -> Self {
        Self::of("erase", &[user_id])
    }

    /// What an agent knows about a user that belongs to no session: who writes facts of it holds it alone.
    pub fn global_facts(user_id: &str, agent_id: &str) -> Self {
        Self::of("facts", &[user_id, agent_id])
    }

    /// The turns of a session that are stored once: who looks whether there is one, and stores it, holds it.
    pub fn turns_once(user_id: &str, agent_id: &str, session_id: &str) -> Self {
        Self::of("turns", &[user_id, agent_id, session_id])
    }

    /// The tag has 80 bits for a name. A cryptographic hash fills them, so that no user finds a name with
    /// the tag of another user's.
    fn of(what: &str, names: &[&str]) -> Self {
        let mut hash = Sha256::new_with_prefix(what);
        for name in names {
            hash.update((name.len() as u64).to_be_bytes());
            hash.update(name);
        }
        let digest = hash.finalize();
        let word = |at: usize| {
            u32::from_be_bytes([digest[at], digest[at + 1], digest[at + 2], digest[at + 3]])
        };
        Self(pg_sys::LOCKTAG {
            // SAFETY: reads backend state.
            locktag_field1: unsafe { pg_sys::MyDatabaseId }.to_u32(),
            locktag_field2: word(0),
            locktag_field3: word(4),
            locktag_field4: u16::from_be_bytes([digest[8], digest[9]]),
            locktag_type: pg_sys::LockTagType::LOCKTAG_USERLOCK as u8,
            locktag_lockmethodid: pg_sys::DEFAULT_LOCKMETHOD as u8,
        })
    }

    /// Waits until no other transaction holds it, and keeps it from others until the end of the transaction.
    pub fn hold(&self) {
        self.acquire(pg_sys::ExclusiveLock, false);
    }

    /// Shares it until the end of the transaction, unless another transaction holds it alone. Never waits.
    #[must_use]
    pub fn try_share(&self) -> bool {
        self.acquire(pg_sys::ShareLock, true)
    }

    fn acquire(&self, mode: u32, try_only: bool) -> bool {
        // SAFETY: the tag is complete and copied; the transaction's end releases the lock. A wait ends with
        // an ERROR on cancel, lock_timeout and deadlock, as for every lock.
        let outcome =
            unsafe { pg_sys::LockAcquire(&self.0, mode as pg_sys::LOCKMODE, false, try_only) };
        outcome != pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL
    }
}
