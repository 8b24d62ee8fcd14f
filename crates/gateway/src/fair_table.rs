//! A table of so many entries that nobody fills at the cost of others: where there is no room, who has the most
//! entries loses the one that was used longest ago.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// A hash: of an owner, or of what an entry is about.
pub type Hash = [u8; 32];

/// The table.
pub struct FairTable<V> {
    most: usize,
    /// Counts uses.
    clock: u64,
    entries: HashMap<Hash, Entry<V>>,
    /// The entries of each owner by their last use.
    owners: HashMap<Hash, BTreeMap<u64, Hash>>,
}

struct Entry<V> {
    owner: Hash,
    used: u64,
    value: V,
}

impl<V> FairTable<V> {
    pub fn new(most: usize) -> Self {
        Self { most, clock: 0, entries: HashMap::new(), owners: HashMap::new() }
    }

    /// Adds an entry, in the place of the one with the same name.
    pub fn insert(&mut self, owner: Hash, name: Hash, value: V) {
        self.remove(&name);
        while self.is_full() {
            let largest =
                self.owners.values().max_by_key(|uses| (uses.len(), Reverse(uses.keys().next())));
            match largest.and_then(|uses| uses.values().next().copied()) {
                Some(oldest) => self.remove(&oldest),
                None => break,
            };
        }
        self.clock += 1;
        self.owners.entry(owner).or_default().insert(self.clock, name);
        self.entries.insert(name, Entry { owner, used: self.clock, value });
    }

    /// Whether the next entry takes the place of another.
    pub fn is_full(&self) -> bool {
        self.entries.len() >= self.most
    }

    /// Takes out what need not be kept.
    pub fn retain(&mut self, is_kept: impl Fn(&V) -> bool) {
        let unkept = self.entries.iter().filter(|(_, entry)| !is_kept(&entry.value));
        let unkept: Vec<Hash> = unkept.map(|(name, _)| *name).collect();
        for name in unkept {
            self.remove(&name);
        }
    }

    /// The entry of this name, which is used now.
    pub fn get(&mut self, name: &Hash) -> Option<&mut V> {
        let entry = self.entries.get_mut(name)?;
        self.clock += 1;
        let uses = self.owners.get_mut(&entry.owner)?;
        uses.remove(&entry.used);
        uses.insert(self.clock, *name);
        entry.used = self.clock;
        Some(&mut entry.value)
    }

    /// Takes an entry out.
    pub fn remove(&mut self, name: &Hash) -> Option<V> {
        let entry = self.entries.remove(name)?;
        if let Some(uses) = self.owners.get_mut(&entry.owner) {
            uses.remove(&entry.used);
            if uses.is_empty() {
                self.owners.remove(&entry.owner);
            }
        }
        Some(entry.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: Hash = [1; 32];
    const BOB: Hash = [2; 32];

    fn named(number: u8) -> Hash {
        [number; 32]
    }

    #[test]
    fn who_has_the_most_makes_room() {
        let mut table = FairTable::new(4);
        table.insert(ANN, named(1), "ann's");
        for number in 2..100 {
            table.insert(BOB, named(number), "bob's");
        }
        assert!(table.get(&named(1)).is_some(), "ann keeps her one");
        let left: Vec<u8> =
            (2..100).filter(|number| table.get(&named(*number)).is_some()).collect();
        assert_eq!(left, [97, 98, 99]);
        // What is used stays longer.
        table.get(&named(97));
        table.insert(ANN, named(100), "ann's");
        assert!(table.get(&named(98)).is_none() && table.get(&named(97)).is_some());
        // Of those who have as many, it is the entry that was used longest ago.
        table.insert([3; 32], named(101), "eve's");
        assert!(table.get(&named(1)).is_none());
        assert_eq!((table.entries.len(), table.owners.len()), (4, 3));
    }

    #[test]
    fn an_entry_is_there_once() {
        let mut table = FairTable::new(2);
        table.insert(ANN, named(1), 1);
        table.insert(BOB, named(1), 2);
        assert_eq!((table.get(&named(1)).copied(), table.owners.len()), (Some(2), 1));
        assert_eq!((table.remove(&named(1)), table.remove(&named(1))), (Some(2), None));
        assert!(table.entries.is_empty() && table.owners.is_empty());
    }
}
