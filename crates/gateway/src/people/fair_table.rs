//! A table of so many entries, or of entries of so many bytes, that no owner fills at the cost of others: where there
//! is no room, the owner who has the most loses the entry that was used longest ago.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// A hash: of an owner, or of what an entry is about.
pub type Hash = [u8; 32];

/// The table.
pub struct FairTable<V> {
    /// What all entries may take together, and what they take.
    most: usize,
    taken: usize,
    /// Counts uses.
    clock: u64,
    entries: HashMap<Hash, Entry<V>>,
    owners: HashMap<Hash, Owned>,
}

struct Entry<V> {
    owner: Hash,
    used: u64,
    size: usize,
    value: V,
}

/// What an owner has.
#[derive(Default)]
struct Owned {
    size: usize,
    /// The entries by their last use.
    uses: BTreeMap<u64, Hash>,
}

impl<V> FairTable<V> {
    pub fn new(most: usize) -> Self {
        Self { most, taken: 0, clock: 0, entries: HashMap::new(), owners: HashMap::new() }
    }

    /// Adds an entry, in the place of the one with the same name.
    pub fn insert(&mut self, owner: Hash, name: Hash, value: V) {
        self.insert_sized(owner, name, value, 1);
    }

    /// The same where entries differ in what they take.
    pub fn insert_sized(&mut self, owner: Hash, name: Hash, value: V, size: usize) {
        self.remove(&name);
        while self.taken + size > self.most {
            let first = |owned: &Owned| owned.uses.keys().next().copied();
            let largest =
                self.owners.values().max_by_key(|owned| (owned.size, Reverse(first(owned))));
            match largest.and_then(|owned| owned.uses.values().next().copied()) {
                Some(oldest) => self.remove(&oldest),
                None => break,
            };
        }
        self.clock += 1;
        let owned = self.owners.entry(owner).or_default();
        owned.uses.insert(self.clock, name);
        owned.size += size;
        self.taken += size;
        self.entries.insert(name, Entry { owner, used: self.clock, size, value });
    }

    /// Whether the next entry takes the place of another.
    pub fn is_full(&self) -> bool {
        self.taken >= self.most
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
        let uses = &mut self.owners.get_mut(&entry.owner)?.uses;
        uses.remove(&entry.used);
        uses.insert(self.clock, *name);
        entry.used = self.clock;
        Some(&mut entry.value)
    }

    /// Takes an entry out.
    pub fn remove(&mut self, name: &Hash) -> Option<V> {
        let entry = self.entries.remove(name)?;
        self.taken -= entry.size;
        if let Some(owned) = self.owners.get_mut(&entry.owner) {
            owned.size -= entry.size;
            owned.uses.remove(&entry.used);
            if owned.uses.is_empty() {
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
    fn large_entries_take_more_room() {
        let mut table = FairTable::new(10);
        for number in 0..4 {
            table.insert_sized(ANN, named(number), "ann's", 1);
        }
        table.insert_sized(BOB, named(10), "bob's", 6);
        assert!(table.is_full());
        // Bob has the fewest entries, and the most.
        table.insert_sized([3; 32], named(11), "eve's", 2);
        assert!(table.get(&named(10)).is_none());
        assert!((0..4).chain([11]).all(|number| table.get(&named(number)).is_some()));
        table.insert_sized(ANN, named(0), "ann's", 7);
        assert_eq!((table.taken, table.entries.len(), table.owners[&ANN].size), (10, 3, 8));
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
