//! Locks on what has no row of its own: a user's erasures, the facts of a user that belong to no session, or
//! are compared across sessions, and the turns of a session before it has a row. They hold until the end of the transaction.
//!
//! They are no advisory locks: those have no privileges, and every role reads their keys in `pg_locks`.
//! PostgreSQL keeps a kind of lock for extensions, `userlock` in `pg_locks`, that no SQL statement or function
//! takes. Nor are they rows: a lock of a user who is new, or just erased, would be on a row that is not there yet.
#![allow(unsafe_code)]

use pgrx::pg_sys;
use sha2::{Digest, Sha256};
use std::cell::Cell;

/// Most locks that one transaction shares. PostgreSQL has room for 64 locks of each connection by default.
const MOST_SHARED: usize = 64;
const NOT_AVAILABLE: pg_sys::LockAcquireResult::Type =
    pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL;
const NEW: pg_sys::LockAcquireResult::Type = pg_sys::LockAcquireResult::LOCKACQUIRE_OK;

/// Something that can be locked.
pub struct Lock(pg_sys::LOCKTAG);

/// Waits for an erasure of the user's memory that is under way, and keeps others out until the end of the
/// transaction: the first lock of all who write memory. An erasure locks what it finds; it would wait for who writes
/// into a session that was made since, and that one for it, at the session's jobs.
pub fn keep_erasures_out(user_id: &str) {
    Lock::erasures(user_id).share();
}

impl Lock {
    /// A user's erasures: they hold it alone, who writes the user's memory shares it.
    pub fn erasures(user_id: &str) -> Self {
        Self::of("erase", &[user_id])
    }

    /// What an agent knows about a user that belongs to no session: who writes facts of it holds it alone.
    pub fn global_facts(user_id: &str, agent_id: &str) -> Self {
        Self::of("facts", &[user_id, agent_id])
    }

    /// The comparison of a user's facts across sessions and agents: who stores what it came to holds it alone.
    pub fn comparison(user_id: &str) -> Self {
        Self::of("comparison", &[user_id])
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
        self.acquire(pg_sys::ShareLock, true) != NOT_AVAILABLE
    }

    /// Waits until no other transaction holds it alone, and shares it until the end of the transaction. A
    /// transaction does so with [`MOST_SHARED`] locks at most: each takes a place in the server's table of locks,
    /// and one statement may be about any number of users.
    fn share(&self) {
        thread_local! {
            static SHARED: Cell<(i64, usize)> = const { Cell::new((0, 0)) };
        }
        // SAFETY: reads backend state.
        let transaction = unsafe { pg_sys::GetCurrentTransactionStartTimestamp() };
        let (of, shared) = SHARED.get();
        let shared = if of == transaction { shared } else { 0 };
        if shared < MOST_SHARED {
            let is_new = self.acquire(pg_sys::ShareLock, false) == NEW;
            SHARED.set((transaction, shared + usize::from(is_new)));
        }
    }

    fn acquire(&self, mode: u32, try_only: bool) -> pg_sys::LockAcquireResult::Type {
        // SAFETY: the tag is complete and copied; the transaction's end releases the lock. A wait ends with
        // an ERROR on cancel, lock_timeout and deadlock, as for every lock.
        unsafe { pg_sys::LockAcquire(&self.0, mode as pg_sys::LOCKMODE, false, try_only) }
    }
}
