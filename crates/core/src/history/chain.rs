//! The hash chain over a user's history: what is hashed, and what a reader of the chain can tell from
//! it. Each row's hash covers the row's metadata, the commitment to its body and the hash before it,
//! so a row that was changed, left out or moved shows.

use crate::history::signature;
use crate::words;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt;

/// The first field of what is hashed: another kind of document can never pass for a row of history.
const VERSION: &str = "memory_agent history 1";

/// Problems of one chain that are listed one by one; the others are only counted.
const LISTED: usize = 1000;

/// How far away the old place of a moved row is looked for.
const MOVED_BY: i64 = 100;

/// An id, as the 16 bytes of its UUID.
pub type Id = [u8; 16];

/// What does not change about a row of history once it is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    pub id: Id,
    pub user_id: &'a str,
    pub entry_id: Option<Id>,
    pub op: &'a str,
    /// Microseconds since 1970-01-01 00:00 UTC.
    pub at_micros: i64,
    pub actor: &'a str,
    pub job_id: Option<Id>,
    /// SHA-256 of salt, body and reason.
    pub commitment: &'a [u8],
}

/// A key that seals rows, by its name.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    id: String,
    secret: Vec<u8>,
}

impl Key {
    #[must_use]
    pub fn new(secret: &str) -> Self {
        Self { id: signature::key_id(secret.as_bytes()), secret: secret.as_bytes().to_vec() }
    }

    /// The name that rows are sealed under; see [`signature::key_id`].
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// HMAC-SHA-256 of a text in hexadecimal digits.
    #[must_use]
    pub fn sign(&self, message: &str) -> String {
        signature::sign(&self.secret, message)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Key({})", self.id)
    }
}

/// The hash of a row at a place of its chain: HMAC-SHA-256 with a key, SHA-256 without, over the
/// version, the key's name, `seq`, the hash before it (`None` for the first row) and the event. Each
/// field is preceded by its length as four bytes, the most significant first; numbers have eight
/// bytes; what is absent has the length 2^32 - 1 and nothing else.
#[must_use]
pub fn hash(event: &Event<'_>, seq: i64, previous: Option<&[u8]>, key: Option<&Key>) -> [u8; 32] {
    let mut text = Vec::with_capacity(256);
    for field in [
        Some(VERSION.as_bytes()),
        key.map(|key| key.id.as_bytes()),
        Some(&seq.to_be_bytes()),
        previous,
        Some(&event.id),
        Some(event.user_id.as_bytes()),
        event.entry_id.as_ref().map(<[u8; 16]>::as_slice),
        Some(event.op.as_bytes()),
        Some(&event.at_micros.to_be_bytes()),
        Some(event.actor.as_bytes()),
        event.job_id.as_ref().map(<[u8; 16]>::as_slice),
        Some(event.commitment),
    ] {
        match field {
            Some(bytes) => {
                text.extend(u32::try_from(bytes.len()).unwrap_or(u32::MAX - 1).to_be_bytes());
                text.extend(bytes);
            }
            None => text.extend(u32::MAX.to_be_bytes()),
        }
    }
    match key {
        Some(key) => signature::mac(&key.secret, &text),
        None => Sha256::digest(&text).into(),
    }
}

/// What is left of a row's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// It is what the commitment says.
    Intact,
    /// It is something else.
    Changed,
    /// It is gone, by the erasure with this id if one is named.
    Gone(Option<Id>),
}

/// A sealed row as it was read.
#[derive(Clone, Copy, Debug)]
pub struct Sealed<'a> {
    pub event: Event<'a>,
    pub seq: i64,
    pub previous: Option<&'a [u8]>,
    pub hash: &'a [u8],
    pub key_id: Option<&'a str>,
}

words! {
    /// What is wrong with a chain.
    pub enum Trouble {
        /// The hash is not that of the row.
        Edited = "edited",
        /// The hash is that of the row at another place.
        Reordered = "reordered",
        /// Rows before this one are gone.
        Missing = "missing",
        /// The row does not follow the one before it: that one was replaced.
        Unlinked = "unlinked",
        /// The body or the reason is not what the row committed to.
        Body = "body",
        /// The body is gone, and no erasure accounts for it.
        Gone = "body gone",
        /// Rows were sealed with a key that is not in the file.
        UnknownKey = "unknown key",
        /// A row without a key follows one with a key.
        Downgrade = "downgrade",
        /// The hash that was kept elsewhere is not in the chain.
        Head = "head",
    }
}

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub trouble: Trouble,
    pub seq: Option<i64>,
    pub id: Option<Id>,
    pub detail: String,
}

/// The verdict on one chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// `seq` and hash of the last row.
    pub head: Option<(i64, Vec<u8>)>,
    pub sealed: i64,
    pub unsealed: i64,
    /// Sealed rows without a key.
    pub unkeyed: i64,
    pub problems: Vec<Problem>,
    /// Problems that are not in the list.
    pub unlisted: usize,
}

/// Rows of one erasure that have lost their body.
struct Lost {
    count: i64,
    first: (Option<i64>, Id),
}

/// Consecutive rows of a key that is not known.
struct Unreadable {
    key_id: String,
    first: (i64, Id),
    last: i64,
}

/// Reads one chain, row by row in the order of `seq`, then the rows that are not sealed yet.
pub struct Reader<'k> {
    keys: &'k [Key],
    kept: Option<(i64, Vec<u8>)>,
    kept_is_there: bool,
    was_keyed: bool,
    unreadable: Option<Unreadable>,
    lost: BTreeMap<Id, Lost>,
    /// Erasures, and how many rows each says it took the body of.
    erasures: BTreeMap<Id, Option<i64>>,
    verdict: Verdict,
}

impl<'k> Reader<'k> {
    /// `kept` is a head that was noted before: it has to be in the chain.
    #[must_use]
    pub fn new(keys: &'k [Key], kept: Option<(i64, Vec<u8>)>) -> Self {
        Self {
            keys,
            kept,
            kept_is_there: false,
            was_keyed: false,
            unreadable: None,
            lost: BTreeMap::new(),
            erasures: BTreeMap::new(),
            verdict: Verdict::default(),
        }
    }

    /// Takes the next sealed row.
    pub fn sealed(&mut self, row: &Sealed<'_>, body: Body) {
        let (last_seq, last_hash) = match &self.verdict.head {
            Some((seq, hash)) => (*seq, Some(hash.as_slice())),
            None => (0, None),
        };
        let (is_next, is_linked) = (row.seq == last_seq + 1, row.previous == last_hash);
        if row.seq > last_seq + 1 {
            let gone = match (last_seq + 1, row.seq - 1) {
                (first, last) if first == last => format!("row {first} is gone"),
                (first, last) => format!("rows {first} to {last} are gone"),
            };
            self.report(Trouble::Missing, Some(row.seq), Some(row.event.id), gone);
        }
        if let Some((trouble, detail)) = self.hash_trouble(row) {
            self.report(trouble, Some(row.seq), Some(row.event.id), detail);
        } else if is_next && !is_linked {
            let detail = "it was sealed after another row than the one before it".to_owned();
            self.report(Trouble::Unlinked, Some(row.seq), Some(row.event.id), detail);
        }
        match row.key_id {
            Some(_) => self.was_keyed = true,
            None => {
                self.verdict.unkeyed += 1;
                if std::mem::take(&mut self.was_keyed) {
                    let detail = "sealed without a key, after rows with one".to_owned();
                    self.report(Trouble::Downgrade, Some(row.seq), Some(row.event.id), detail);
                }
            }
        }
        if self.kept.as_ref().is_some_and(|(seq, hash)| *seq == row.seq && hash == row.hash) {
            self.kept_is_there = true;
        }
        self.body(Some(row.seq), row.event.id, body);
        self.verdict.sealed += 1;
        self.verdict.head = Some((row.seq, row.hash.to_vec()));
    }

    /// Takes a row that is not sealed yet.
    pub fn unsealed(&mut self, id: Id, body: Body) {
        self.verdict.unsealed += 1;
        self.body(None, id, body);
    }

    /// Takes note of an erasure, a row that says how many rows lost their body by it.
    pub fn erasure(&mut self, id: Id, rows: Option<i64>) {
        self.erasures.insert(id, rows);
    }

    /// The verdict, when all rows were taken.
    #[must_use]
    pub fn finish(mut self) -> Verdict {
        self.end_of_unreadable();
        for (by, lost) in std::mem::take(&mut self.lost) {
            let named = uuid::Uuid::from_bytes(by);
            let detail = match self.erasures.get(&by) {
                Some(Some(rows)) if *rows == lost.count => continue,
                Some(Some(rows)) => {
                    format!("erasure {named} took {rows} bodies, {} are gone", lost.count)
                }
                Some(None) => format!("erasure {named} does not say how many bodies it took"),
                None => format!("there is no erasure {named}"),
            };
            let (seq, id) = lost.first;
            self.report(Trouble::Gone, seq, Some(id), detail);
        }
        if let Some((seq, _)) = self.kept.take().filter(|_| !self.kept_is_there) {
            let detail = format!("no row {seq} with this hash: the chain was cut or replaced");
            self.report(Trouble::Head, Some(seq), None, detail);
        }
        self.verdict
    }

    /// What the row's own hash tells.
    fn hash_trouble(&mut self, row: &Sealed<'_>) -> Option<(Trouble, String)> {
        let key = match row.key_id {
            None => None,
            Some(id) => match self.keys.iter().find(|key| key.id == id) {
                Some(key) => Some(key),
                None => {
                    self.unreadable(id, row);
                    return None;
                }
            },
        };
        self.end_of_unreadable();
        if hash(&row.event, row.seq, row.previous, key) == row.hash {
            return None;
        }
        // In a chain that was edited throughout, where each row came from helps no administrator.
        if self.verdict.problems.len() >= LISTED {
            return Some((Trouble::Edited, String::new()));
        }
        let places = (row.seq - MOVED_BY).max(1)..=row.seq.saturating_add(MOVED_BY);
        let moved =
            places.into_iter().find(|&seq| hash(&row.event, seq, row.previous, key) == row.hash);
        Some(match moved {
            Some(seq) => (Trouble::Reordered, format!("it was row {seq}")),
            None => (Trouble::Edited, "its hash is not that of its columns".to_owned()),
        })
    }

    fn unreadable(&mut self, key_id: &str, row: &Sealed<'_>) {
        match &mut self.unreadable {
            Some(run) if run.key_id == key_id => run.last = row.seq,
            _ => {
                self.end_of_unreadable();
                let first = (row.seq, row.event.id);
                self.unreadable =
                    Some(Unreadable { key_id: key_id.to_owned(), first, last: row.seq });
            }
        }
    }

    fn end_of_unreadable(&mut self) {
        if let Some(Unreadable { key_id, first: (seq, id), last }) = self.unreadable.take() {
            let detail = format!("rows {seq} to {last} were sealed with key {key_id}");
            self.report(Trouble::UnknownKey, Some(seq), Some(id), detail);
        }
    }

    fn body(&mut self, seq: Option<i64>, id: Id, body: Body) {
        match body {
            Body::Intact => {}
            Body::Changed => {
                let detail = "body, salt or reason is not what the row committed to".to_owned();
                self.report(Trouble::Body, seq, Some(id), detail);
            }
            Body::Gone(None) => {
                let detail = "no erasure is named".to_owned();
                self.report(Trouble::Gone, seq, Some(id), detail);
            }
            Body::Gone(Some(by)) => {
                let lost = self.lost.entry(by).or_insert(Lost { count: 0, first: (seq, id) });
                lost.count += 1;
            }
        }
    }

    fn report(&mut self, trouble: Trouble, seq: Option<i64>, id: Option<Id>, detail: String) {
        if self.verdict.problems.len() < LISTED {
            self.verdict.problems.push(Problem { trouble, seq, id, detail });
        } else {
            self.verdict.unlisted += 1;
        }
    }
}

#[cfg(test)]
#[path = "chain_tests.rs"]
mod tests;
