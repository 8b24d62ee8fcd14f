//! Remembers embeddings of questions and scores of (query, document) pairs, which an agent asks
//! for again and again within one conversation. Keys are SHA-256 hashes, so no text is kept.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use sha2::{Digest, Sha256};

/// A rerank scores tens of pairs where one question is embedded, and a score is small: the
/// cache of scores has this many times the entries of the cache of embeddings.
const PAIRS_PER_QUERY: usize = 16;

/// Identifies a text, or a pair of texts, together with the model.
pub type Key = [u8; 32];

/// The key of texts run through a model.
///
/// * `identity`: tells the model from others.
pub fn key(identity: &str, texts: &[&str]) -> Key {
    let mut hash = Sha256::new();
    for part in std::iter::once(&identity).chain(texts) {
        // The length keeps ("a", "bc") and ("ab", "c") apart.
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().into()
}

/// A bounded cache that forgets the entry used least recently, and counts.
#[derive(Debug)]
pub struct Cache<V> {
    state: Mutex<State<V>>,
    hits: AtomicU64,
    misses: AtomicU64,
}

#[derive(Debug)]
struct State<V> {
    /// `None` if caching is off.
    entries: Option<LruCache<Key, V>>,
    generation: Generation,
}

/// Counts how often a cache was emptied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation(u64);

impl<V: Clone> Cache<V> {
    /// A cache of at most `capacity` entries; 0 switches it off.
    pub fn new(capacity: usize) -> Self {
        // The memory for all entries is not taken before they come.
        let entries = NonZeroUsize::new(capacity).map(|capacity| {
            let mut entries = LruCache::unbounded();
            entries.resize(capacity);
            entries
        });
        Self {
            state: Mutex::new(State { entries, generation: Generation(0) }),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// Looks every key up and counts hits and misses. The generation goes to
    /// [`Self::insert`] with the values that were missing.
    pub fn get_all(&self, keys: &[Key]) -> (Vec<Option<V>>, Generation) {
        let mut state = self.lock();
        let found: Vec<Option<V>> = match &mut state.entries {
            Some(entries) => keys.iter().map(|key| entries.get(key).cloned()).collect(),
            None => vec![None; keys.len()],
        };
        let hits = found.iter().filter(|value| value.is_some()).count() as u64;
        self.hits.fetch_add(hits, Ordering::Relaxed);
        self.misses.fetch_add(keys.len() as u64 - hits, Ordering::Relaxed);
        (found, state.generation)
    }

    /// Adds values, unless the cache was emptied since they were missed: what was erased in
    /// between must not come back.
    pub fn insert(&self, generation: Generation, values: impl IntoIterator<Item = (Key, V)>) {
        let mut state = self.lock();
        if state.generation != generation {
            return;
        }
        if let Some(entries) = &mut state.entries {
            for (key, value) in values {
                entries.put(key, value);
            }
        }
    }

    /// Forgets everything.
    pub fn clear(&self) {
        let mut state = self.lock();
        state.generation = Generation(state.generation.0 + 1);
        if let Some(entries) = &mut state.entries {
            entries.clear();
        }
    }

    /// Hits and misses so far.
    pub fn counts(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }

    fn lock(&self) -> MutexGuard<'_, State<V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The server's caches.
#[derive(Debug)]
pub struct Caches {
    /// Embeddings of questions.
    pub queries: Cache<Vec<f32>>,
    /// Scores of (query, document) pairs.
    pub pairs: Cache<f32>,
}

impl Caches {
    /// Caches for `entries` questions and their pairs.
    pub fn new(entries: usize) -> Self {
        Self {
            queries: Cache::new(entries),
            pairs: Cache::new(entries.saturating_mul(PAIRS_PER_QUERY)),
        }
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.queries.clear();
        self.pairs.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_depend_on_model_and_on_where_texts_end() {
        assert_eq!(key("m", &["ab", "c"]), key("m", &["ab", "c"]));
        assert_ne!(key("m", &["ab", "c"]), key("m", &["a", "bc"]));
        assert_ne!(key("m", &["ab"]), key("n", &["ab"]));
    }

    #[test]
    fn finds_what_was_inserted_and_forgets_the_oldest() {
        let cache = Cache::new(2);
        let keys = [key("m", &["a"]), key("m", &["b"]), key("m", &["c"])];
        let (_, generation) = cache.get_all(&[]);
        for (number, key) in keys.iter().enumerate() {
            cache.insert(generation, [(*key, number)]);
        }
        assert_eq!(cache.get_all(&keys).0, [None, Some(1), Some(2)]);
        assert_eq!(cache.counts(), (2, 1));
    }

    #[test]
    fn what_was_missed_before_a_clear_is_not_inserted_after_it() {
        let cache = Cache::new(2);
        let keys = [key("m", &["a"])];
        let (_, generation) = cache.get_all(&keys);
        cache.clear();
        cache.insert(generation, [(keys[0], 1)]);
        assert_eq!(cache.get_all(&keys).0, [None]);
    }

    #[test]
    fn capacity_zero_keeps_nothing() {
        let cache = Cache::new(0);
        let keys = [key("m", &["a"])];
        let (_, generation) = cache.get_all(&keys);
        cache.insert(generation, [(keys[0], 1)]);
        assert_eq!(cache.get_all(&keys).0, [None]);
    }
}
