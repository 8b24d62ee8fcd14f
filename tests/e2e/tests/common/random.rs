//! Random numbers that repeat: a failing run is run again with the seed it printed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A generator of Marsaglia's xorshift kind, 64 bits.
pub struct Random(u64);

impl Random {
    /// Seeded by `MEMORY_AGENT_TEST_SEED`, else by the clock; the seed is printed.
    pub fn seeded(purpose: &str) -> Self {
        let seed = match std::env::var("MEMORY_AGENT_TEST_SEED") {
            Ok(seed) => seed.parse().expect("MEMORY_AGENT_TEST_SEED is a number"),
            Err(_) => {
                SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.as_nanos() as u64)
            }
        };
        println!("{purpose}: MEMORY_AGENT_TEST_SEED={seed}");
        Self::of(seed)
    }

    /// With a seed of its own, taken from another generator.
    pub fn of(seed: u64) -> Self {
        Self(seed.max(1))
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    /// A time below `limit`.
    pub fn time_below(&mut self, limit: Duration) -> Duration {
        Duration::from_micros(self.below(limit.as_micros() as u64))
    }

    /// So many bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.below(256) as u8).collect()
    }
}
