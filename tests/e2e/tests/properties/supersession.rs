//! Facts that replace each other, in any order of event times, against a model kept in memory: what
//! recall says of any moment is what held then.

use crate::cases;
use crate::random::Random;
use memory_agent_e2e::memory::{run, values};
use memory_agent_e2e::{Client, DateTime, Utc, Uuid, shared};
use std::collections::BTreeSet;

const KEYS: [&str; 4] = ["home", "job", "pet", "car"];
const SCOPES: [Option<&str>; 3] = [None, Some("s1"), Some("s2")];

/// A fact and the time it held: from `from` to before `until`.
struct Fact {
    id: Uuid,
    key: Option<&'static str>,
    scope: Option<&'static str>,
    content: String,
    from: DateTime<Utc>,
    until: Option<DateTime<Utc>>,
    is_current: bool,
}

impl Fact {
    fn held_at(&self, at: DateTime<Utc>) -> bool {
        self.from <= at && self.until.is_none_or(|until| at < until)
    }
}

fn moment(random: &mut Random) -> DateTime<Utc> {
    // Few enough moments that events coincide, and bounds are met exactly.
    DateTime::from_timestamp(1_700_000_000 + 3600 * random.below(60) as i64, 0).unwrap()
}

fn pick<T: Copy>(random: &mut Random, from: &[T]) -> T {
    from[random.below(from.len() as u64) as usize]
}

/// Adds a fact to the database and to the model.
fn add(client: &mut Client, random: &mut Random, facts: &mut Vec<Fact>) {
    let key = if random.below(5) == 0 { None } else { Some(pick(random, &KEYS)) };
    let scope = pick(random, &SCOPES);
    // Repeated now and then, so that duplicates are met.
    let content = format!("fact number {}", random.below(40));
    let from = moment(random);
    let call = "SELECT memory_add($1, $2, infer => false, fact_key => $3, created_at => $4)";
    let id: Uuid = client.query_one(call, &[&content, &scope, &key, &from]).unwrap().get(0);

    let holder = facts.iter().position(|fact| {
        fact.is_current && key.is_some() && fact.key == key && fact.scope == scope
    });
    let same_text = |fact: &Fact| fact.is_current && fact.scope == scope && fact.content == content;
    match holder {
        Some(holder) if facts[holder].content == content => {
            assert_eq!(id, facts[holder].id, "the key's fact says so already");
            return;
        }
        Some(holder) => {
            facts[holder].is_current = false;
            facts[holder].until = Some(from);
        }
        None => {
            if let Some(known) = facts.iter().find(|fact| same_text(fact)) {
                assert!(
                    facts.iter().any(|fact| same_text(fact) && fact.id == id),
                    "a duplicate of {} got a new id",
                    known.content
                );
                return;
            }
        }
    }
    assert!(facts.iter().all(|fact| fact.id != id), "an id was given twice");
    facts.push(Fact { id, key, scope, content, from, until: None, is_current: true });
}

/// What recall returns, by id.
fn recalled(
    client: &mut Client,
    session: Option<&str>,
    as_of: Option<DateTime<Utc>>,
) -> BTreeSet<Uuid> {
    let call = "SELECT r.id FROM memory_recall('fact number', $1, kinds => '{fact}', as_of => $2, \
                                               top_k => 1000, \
                                               score_threshold => 0, rerank => false) r";
    client.query(call, &[&session, &as_of]).unwrap().iter().map(|row| row.get(0)).collect()
}

#[test]
fn the_past_is_what_it_was() {
    let mut client = shared().database("supersession").connect();
    run(&mut client, "SET memory_agent.embed_on_ingest = off");
    let mut random = Random::seeded("supersession");
    let mut facts: Vec<Fact> = Vec::new();
    for step in 0..cases(400) {
        add(&mut client, &mut random, &mut facts);
        if step % 4 != 0 {
            continue;
        }
        // A session sees its own facts and the global ones; no session sees them all.
        let session = pick(&mut random, &SCOPES);
        let seen_from =
            |fact: &&Fact| session.is_none() || fact.scope.is_none() || fact.scope == session;
        let at = moment(&mut random);
        let held: BTreeSet<Uuid> = facts
            .iter()
            .filter(seen_from)
            .filter(|fact| fact.held_at(at))
            .map(|fact| fact.id)
            .collect();
        assert_eq!(
            recalled(&mut client, session, Some(at)),
            held,
            "at {at}, session {session:?}, step {step}"
        );
        let current: BTreeSet<Uuid> = facts
            .iter()
            .filter(seen_from)
            .filter(|fact| fact.is_current)
            .map(|fact| fact.id)
            .collect();
        assert_eq!(
            recalled(&mut client, session, None),
            current,
            "now, session {session:?}, step {step}"
        );
    }
    assert!(
        facts.iter().filter(|fact| !fact.is_current).count() > 50,
        "hardly anything was replaced"
    );
    // Nothing was lost: every fact is still there, each step of its life is in the history.
    let stored: Vec<Uuid> = values(&mut client, "SELECT id FROM memory_agent.entries", &[]);
    assert_eq!(BTreeSet::from_iter(stored), facts.iter().map(|fact| fact.id).collect());
    let ends: Vec<i64> = values(
        &mut client,
        "SELECT count(*) FROM memory_agent.history WHERE op = 'supersede'",
        &[],
    );
    assert_eq!(ends[0], facts.iter().filter(|fact| !fact.is_current).count() as i64);
}
