//! A small chain, and everything that may be done to it.

use super::*;
use proptest::prelude::*;

/// A row that owns what it says.
#[derive(Clone, Debug)]
struct Row {
    id: Id,
    entry: Option<Id>,
    op: String,
    at: i64,
    actor: String,
    commitment: Vec<u8>,
    seq: i64,
    previous: Option<Vec<u8>>,
    hash: Vec<u8>,
    key_id: Option<String>,
    body: Body,
}

impl Row {
    fn event(&self) -> Event<'_> {
        Event {
            id: self.id,
            user_id: "ann",
            entry_id: self.entry,
            op: &self.op,
            at_micros: self.at,
            actor: &self.actor,
            job_id: None,
            commitment: &self.commitment,
        }
    }

    fn sealed(&self) -> Sealed<'_> {
        Sealed {
            event: self.event(),
            seq: self.seq,
            previous: self.previous.as_deref(),
            hash: &self.hash,
            key_id: self.key_id.as_deref(),
        }
    }

    fn seal(&mut self, key: Option<&Key>) {
        self.key_id = key.map(|key| key.id().to_owned());
        self.hash = hash(&self.event(), self.seq, self.previous.as_deref(), key).to_vec();
    }
}

/// A chain, each row sealed with the key that `key_of` gives its number.
fn chain<'k>(rows: u8, key_of: impl Fn(u8) -> Option<&'k Key>) -> Vec<Row> {
    let mut chain: Vec<Row> = Vec::new();
    for number in 1..=rows {
        let mut row = Row {
            id: [number; 16],
            entry: (number % 3 != 0).then_some([number / 2; 16]),
            op: ["add", "supersede"][usize::from(number % 2)].to_owned(),
            at: 1_700_000_000_000_000 + i64::from(number),
            actor: "app".to_owned(),
            commitment: vec![number; 32],
            seq: i64::from(number),
            previous: chain.last().map(|row| row.hash.clone()),
            hash: Vec::new(),
            key_id: None,
            body: Body::Intact,
        };
        row.seal(key_of(number));
        chain.push(row);
    }
    chain
}

fn read_with(rows: &[Row], keys: &[Key], kept: Option<(i64, Vec<u8>)>) -> Verdict {
    let mut reader = Reader::new(keys, kept);
    for row in rows {
        reader.sealed(&row.sealed(), row.body);
    }
    reader.finish()
}

fn troubles(rows: &[Row], keys: &[Key]) -> Vec<(Trouble, Option<i64>)> {
    let problems = read_with(rows, keys, None).problems;
    problems.into_iter().map(|problem| (problem.trouble, problem.seq)).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The example of docs/history.md, which Python computes there.
#[test]
fn anybody_can_compute_it_again() {
    let event = Event {
        id: [0x11; 16],
        user_id: "ann",
        entry_id: None,
        op: "add",
        at_micros: 1_746_090_000_000_000,
        actor: "shop",
        job_id: None,
        commitment: &[0x22; 32],
    };
    assert_eq!(
        hex(&hash(&event, 1, None, None)),
        "b9fb081a8ca157fb813333507bcf150280a79395b5a071ce88e9f50ae02c5175"
    );
    let key = Key::new("our audit key");
    assert_eq!(key.id(), "b7bf6e2e591f6bf3");
    assert_eq!(
        hex(&hash(&event, 1, None, Some(&key))),
        "e41c7079afc86400d72dc7eda3beb14a9f08f0d77520a5af1c76704a9c404359"
    );
}

#[test]
fn an_untouched_chain_is_intact() {
    let (old, new) = (Key::new("old"), Key::new("new"));
    let keys = [new.clone(), old.clone()];
    let rotated = chain(9, |number| match number {
        1..=3 => None,
        4..=6 => Some(&old),
        _ => Some(&new),
    });
    let verdict = read_with(&rotated, &keys, Some((5, rotated[4].hash.clone())));
    assert_eq!((verdict.sealed, verdict.unkeyed, verdict.unlisted), (9, 3, 0));
    assert_eq!(verdict.head, Some((9, rotated[8].hash.clone())));
    assert_eq!(verdict.problems, []);
    assert_eq!(read_with(&[], &keys, None), Verdict::default());
}

#[test]
fn what_was_done_to_it_is_told_apart() {
    let key = Key::new("key");
    let keys = [key.clone()];
    let whole = chain(6, |_| Some(&key));

    let mut edited = whole.clone();
    edited[2].actor = "somebody else".to_owned();
    assert_eq!(troubles(&edited, &keys), [(Trouble::Edited, Some(3))]);

    let mut missing = whole.clone();
    missing.drain(2..4);
    assert_eq!(troubles(&missing, &keys), [(Trouble::Missing, Some(5))]);
    let detail = &read_with(&missing, &keys, None).problems[0].detail;
    assert_eq!(detail, "rows 3 to 4 are gone");
    assert_eq!(troubles(&whole[1..], &keys), [(Trouble::Missing, Some(2))]);

    // Two rows change places.
    let mut swapped = whole.clone();
    swapped.swap(2, 3);
    (swapped[2].seq, swapped[3].seq) = (3, 4);
    let found = troubles(&swapped, &keys);
    assert!(found.contains(&(Trouble::Reordered, Some(3))), "{found:?}");
    assert!(found.contains(&(Trouble::Reordered, Some(4))), "{found:?}");

    // An attacker without the key replaces a row and seals it again.
    let mut replaced = whole.clone();
    replaced[2].op = "delete".to_owned();
    replaced[2].seal(None);
    let found = troubles(&replaced, &keys);
    assert!(found.contains(&(Trouble::Downgrade, Some(3))), "{found:?}");
    assert!(found.contains(&(Trouble::Unlinked, Some(4))), "{found:?}");
    // With another key, or under the name of the right one.
    replaced[2].seal(Some(&Key::new("forged")));
    assert!(troubles(&replaced, &keys).contains(&(Trouble::UnknownKey, Some(3))));
    replaced[2].key_id = Some(key.id().to_owned());
    assert!(troubles(&replaced, &keys).contains(&(Trouble::Edited, Some(3))));

    // The end of the chain is cut off: only who kept its head knows.
    assert_eq!(troubles(&whole[..4], &keys), []);
    let kept = Some((6, whole[5].hash.clone()));
    assert_eq!(read_with(&whole[..4], &keys, kept).problems[0].trouble, Trouble::Head);
    let other = Some((3, whole[5].hash.clone()));
    assert_eq!(read_with(&whole, &keys, other).problems[0].trouble, Trouble::Head);
}

#[test]
fn rows_of_a_lost_key_are_one_problem() {
    let (lost, key) = (Key::new("lost"), Key::new("key"));
    let rows = chain(9, |number| Some(if (3..=7).contains(&number) { &lost } else { &key }));
    let verdict = read_with(&rows, std::slice::from_ref(&key), None);
    assert_eq!(verdict.problems.len(), 1);
    assert_eq!(
        (verdict.problems[0].trouble, verdict.problems[0].seq),
        (Trouble::UnknownKey, Some(3))
    );
    assert!(
        verdict.problems[0].detail.starts_with("rows 3 to 7"),
        "{}",
        verdict.problems[0].detail
    );
    // Their order is still checked.
    let mut cut = rows.clone();
    cut.remove(4);
    assert!(troubles(&cut, &[key]).contains(&(Trouble::Missing, Some(6))));
}

#[test]
fn bodies_are_there_or_accounted_for() {
    let mut rows = chain(6, |_| None);
    rows[1].body = Body::Changed;
    assert_eq!(troubles(&rows, &[]), [(Trouble::Body, Some(2))]);
    rows[1].body = Body::Gone(None);
    assert_eq!(troubles(&rows, &[]), [(Trouble::Gone, Some(2))]);

    let erasure = [9; 16];
    rows[1].body = Body::Gone(Some(erasure));
    rows[2].body = Body::Gone(Some(erasure));
    assert_eq!(troubles(&rows, &[]), [(Trouble::Gone, Some(2))], "no such erasure");
    let with = |count: Option<i64>| {
        let mut reader = Reader::new(&[], None);
        for row in &rows {
            reader.body(Some(row.seq), row.id, row.body);
        }
        reader.erasure(erasure, count);
        reader.finish().problems.len()
    };
    assert_eq!((with(Some(2)), with(Some(1)), with(None)), (0, 1, 1));
}

#[test]
fn a_long_list_is_cut() {
    let mut reader = Reader::new(&[], None);
    for number in 0..1500_u32 {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&number.to_be_bytes());
        reader.unsealed(id, Body::Changed);
    }
    // Rows at each other's place, and one that was edited, are counted too.
    let mut rows = chain(3, |_| None);
    for (row, seq) in rows.iter_mut().zip([2, 1, 3]) {
        row.seq = seq;
    }
    rows.swap(0, 1);
    rows[2].actor = "eve".to_owned();
    for row in &rows {
        reader.sealed(&row.sealed(), row.body);
    }
    let verdict = reader.finish();
    assert_eq!((verdict.problems.len(), verdict.unlisted, verdict.unsealed), (1000, 503, 1500));
}

proptest! {
    /// Whatever is changed in whatever row, without the key or with it but in that row alone.
    #[test]
    fn every_change_shows(at in 0_usize..8, what in 0_usize..8, with_key in any::<bool>()) {
        let key = Key::new("key");
        let mut rows = chain(8, |_| Some(&key));
        let before = rows[at].clone();
        let row = &mut rows[at];
        match what {
            0 => row.id[3] ^= 1,
            1 => row.entry = if row.entry.is_some() { None } else { Some([7; 16]) },
            2 => row.op.push('x'),
            3 => row.at += 1,
            4 => row.actor.insert(0, 'x'),
            5 => row.commitment[0] ^= 1,
            6 => row.previous = if row.previous.is_some() { None } else { Some(vec![1; 32]) },
            _ => row.hash[31] ^= 1,
        }
        if with_key && what != 7 {
            // Sealed again by an attacker who has the key: the row after it, or the kept head, tells.
            row.seal(Some(&key));
        }
        let kept = Some((8, chain(8, |_| Some(&key))[7].hash.clone()));
        prop_assert!(!read_with(&rows, std::slice::from_ref(&key), kept).problems.is_empty());
        rows[at] = before;
        prop_assert!(troubles(&rows, &[key]).is_empty());
    }

    /// The lengths keep fields apart: text cannot wander from one to the next.
    #[test]
    fn fields_do_not_run_together(text in "[a-c]{1,6}", cut in 0_usize..6) {
        let (op, actor) = text.split_at(cut.min(text.len() - 1));
        let event = |op, actor| Event {
            id: [1; 16], user_id: "u", entry_id: None, op, at_micros: 0, actor, job_id: None,
            commitment: &[],
        };
        prop_assert_ne!(hash(&event(op, actor), 1, None, None), hash(&event(&text, ""), 1, None, None));
    }
}
