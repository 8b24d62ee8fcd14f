//! Numbers that a seed decides: the same in every run.

/// A generator; see [`Dice::of`].
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn of(seed: u64) -> Self {
        Self(seed)
    }

    /// Dice of their own for the part of this number, whatever the other parts throw.
    #[must_use]
    pub fn part(seed: u64, number: u64) -> Self {
        Self(mixed(seed ^ mixed(number)))
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(1);
        (mixed(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)) % limit as u64) as usize
    }

    /// One of the items, which has to be there.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end + 1));
        }
    }

    /// `count` different numbers below `limit`, in random order.
    pub fn choose(&mut self, limit: usize, count: usize) -> Vec<usize> {
        let mut numbers: Vec<usize> = (0..limit).collect();
        self.shuffle(&mut numbers);
        numbers.truncate(count);
        numbers
    }
}

/// SplitMix64's finaliser: <https://doi.org/10.1145/2714064.2660195>.
pub(super) fn mixed(seed: u64) -> u64 {
    let seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let seed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let seed = (seed ^ (seed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    seed ^ (seed >> 31)
}
