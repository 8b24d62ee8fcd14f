//! A random life of memories against a [model](crate::model) of it: at every moment recall returns what
//! held then, and nothing else.

use crate::model::{Kind, Model, Moment, Version};
use crate::quiet;
use crate::random::Random;
use memory_agent_e2e::memory::{value, values};
use memory_agent_e2e::{Client, DateTime, Uuid, sqlstate};
use postgres::types::ToSql;
use std::collections::BTreeSet;
use std::time::Duration;

const SESSIONS: [&str; 2] = ["s1", "s2"];
const KEYS: [&str; 3] = ["home", "job", "pet"];

/// A database and the model of what is in it.
struct Life {
    client: Client,
    random: Random,
    model: Model,
    /// When something happened.
    moments: Vec<Moment>,
}

impl Life {
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.random.below(from.len() as u64) as usize]
    }

    /// Calls a function that returns an id; returns when, too.
    fn call(&mut self, call: &str, params: &[&(dyn ToSql + Sync)]) -> (Moment, Uuid) {
        let row = self.client.query_one(&format!("SELECT now(), {call}"), params);
        let row = row.unwrap_or_else(|error| panic!("{call}: {error:?}"));
        self.moments.push(row.get(0));
        (row.get(0), row.get(1))
    }

    /// Now, or a moment of the past: few enough that events coincide.
    fn event_time(&mut self) -> Option<Moment> {
        (self.random.below(2) == 0).then(|| {
            DateTime::from_timestamp(1_700_000_000 + 3600 * self.random.below(40) as i64, 0)
                .unwrap()
        })
    }

    fn blank(kind: Kind) -> Version {
        Version {
            id: Uuid::nil(),
            kind,
            session: None,
            key: None,
            content: String::new(),
            from: DateTime::UNIX_EPOCH,
            until: None,
            expires: None,
            is_active: true,
            memory: 0,
            came: 0,
        }
    }

    fn ingest(&mut self) {
        let (session, at) = (self.pick(&SESSIONS), self.event_time());
        let content = format!("memo turn {}", self.model.versions.len());
        let lives = self.random.below(4) == 0;
        let ttl = if lives { "'12 hours'" } else { "NULL" };
        let call = format!("memory_ingest($1, 'user', $2, created_at => $3, ttl => {ttl})");
        let (now, id) = self.call(&call, &[&session, &content, &at]);
        self.model.add(Version {
            id,
            session: Some(session),
            content,
            from: at.unwrap_or(now),
            expires: lives.then(|| now + Duration::from_secs(12 * 3600)),
            ..Self::blank(Kind::Turn)
        });
    }

    /// The text of a fact: those with a key never say what others say.
    fn statement(&mut self, key: Option<&str>) -> String {
        format!("memo fact {} {}", key.unwrap_or("plain"), self.random.below(12))
    }

    fn add_fact(&mut self) {
        let session = self.pick(&[None, Some("s1"), Some("s2")]);
        let key = if self.random.below(2) == 0 { None } else { Some(self.pick(&KEYS)) };
        let (content, at) = (self.statement(key), self.event_time());
        let call = "memory_add($1, $2, infer => false, fact_key => $3, created_at => $4)";
        let (now, id) = self.call(call, &[&content, &session, &key, &at]);
        let from = at.unwrap_or(now);
        if let Some(known) = self.model.fact(session, |fact| fact.content == content) {
            assert_eq!(id, self.model.versions[known].id, "it is known already");
            return;
        }
        if let Some(holder) = self.model.fact(session, |fact| key.is_some() && fact.key == key) {
            self.model.end(holder, from);
        }
        self.model.add(Version { id, session, key, content, from, ..Self::blank(Kind::Fact) });
    }

    fn add_document(&mut self) {
        let session = self.pick(&[None, Some("s1")]);
        let content = format!("memo document {}", self.model.versions.len());
        let (from, id) =
            self.call("memory_add_document($1, session_id => $2)", &[&content, &session]);
        self.model.add(Version { id, session, content, from, ..Self::blank(Kind::Document) });
    }

    /// Any version there ever was, those of memories that have several as often as all.
    fn any(&mut self) -> usize {
        let all: Vec<usize> = (0..self.model.versions.len()).collect();
        let memories = &self.model.memories;
        let of_many = |index: &usize| memories[self.model.versions[*index].memory].len() > 1;
        let some: Vec<usize> = all.iter().copied().filter(of_many).collect();
        match self.random.below(2) {
            0 if !some.is_empty() => self.pick(&some),
            _ => self.pick(&all),
        }
    }

    fn update(&mut self, index: usize) {
        let old = self.model.versions[index].clone();
        let content = match old.kind {
            Kind::Fact => self.statement(old.key),
            Kind::Document => format!("memo document {index} {}", self.moments.len()),
            Kind::Turn => format!("memo turn {} again", self.model.versions.len()),
        };
        let sql = "SELECT now(), memory_update($1, $2)";
        match self.client.query_one(sql, &[&old.id, &content]) {
            Err(error) => {
                assert_eq!(sqlstate(&error), "55000");
                assert!(!old.is_active, "{old:?}: {error}");
            }
            Ok(row) => {
                assert!(old.is_active, "{old:?} is not there any more");
                let (now, id): (Moment, Uuid) = (row.get(0), row.get(1));
                self.moments.push(now);
                if content == old.content || old.kind == Kind::Document {
                    assert_eq!(id, old.id);
                    self.model.versions[index].content = content;
                } else {
                    self.model.update(index, id, content, now);
                }
            }
        }
    }

    fn forget(&mut self, index: usize) {
        let old = self.model.versions[index].clone();
        let row = self.client.query_one("SELECT now(), memory_forget($1)", &[&old.id]).unwrap();
        assert_eq!(row.get::<_, bool>(1), old.is_active, "{old:?}");
        self.moments.push(row.get(0));
        if old.is_active {
            self.model.end(index, row.get(0));
        }
    }

    fn restore(&mut self, index: usize) {
        let id = self.model.versions[index].id;
        let restored = self.client.query_one("SELECT now(), memory_restore($1)", &[&id]);
        let expected = self.model.may_return(index);
        match restored {
            Err(error) => {
                assert_eq!(sqlstate(&error), "55000");
                assert_eq!(expected, Some(false), "{:?}: {error}", self.model.versions[index]);
            }
            Ok(row) => {
                let done: bool = row.get(1);
                assert_eq!(done.then_some(true), expected, "{:?}", self.model.versions[index]);
                if done {
                    self.moments.push(row.get(0));
                    self.model.restore(index);
                }
            }
        }
    }

    /// Forgets the version of a memory that holds, and restores one before it.
    fn undo(&mut self) {
        let versions = &self.model.versions;
        let changed: Vec<usize> = (0..self.model.memories.len())
            .filter(|&memory| {
                let chain = &self.model.memories[memory];
                chain.len() > 1 && chain.last().is_some_and(|&last| versions[last].is_active)
            })
            .collect();
        if changed.is_empty() {
            return;
        }
        let memory = self.pick(&changed);
        let chain = self.model.memories[memory].clone();
        let (last, earlier) = chain.split_last().expect("a memory has versions");
        let earlier = self.pick(earlier);
        self.forget(*last);
        self.restore(earlier);
    }

    fn clear(&mut self) {
        let session = self.pick(&SESSIONS);
        let row = self.client.query_one("SELECT now(), memory_clear($1)", &[&session]).unwrap();
        let mut turns = 0;
        for index in 0..self.model.versions.len() {
            let version = &self.model.versions[index];
            if version.is_active
                && version.session == Some(session)
                && version.kind != Kind::Document
            {
                turns += i32::from(version.kind == Kind::Turn);
                self.model.end(index, row.get(0));
            }
        }
        assert_eq!(row.get::<_, i32>(1), turns);
        self.moments.push(row.get(0));
    }

    /// The bound of an interval, a little more or less, or any other moment.
    fn moment(&mut self) -> Moment {
        let count = self.moments.len() as u64;
        let known = self.moments[self.random.below(count) as usize];
        match self.random.below(6) {
            0 => known + Duration::from_micros(1),
            1 => known - Duration::from_micros(1),
            2 => known + Duration::from_secs(13 * 3600),
            3 => self.event_time().unwrap_or(known),
            _ => known,
        }
    }

    /// What recall returns, documents by their own ids.
    fn recalled(&mut self, session: Option<&str>, at: Option<Moment>) -> BTreeSet<Uuid> {
        let sql = "SELECT CASE WHEN r.kind = 'document' THEN (r.metadata ->> 'parent_id')::uuid ELSE r.id END \
                     FROM memory_recall('memo', $1, as_of => $2, top_k => 1000, score_threshold => 0, \
                                        rerank => false) r";
        values(&mut self.client, sql, &[&session, &at]).into_iter().collect()
    }

    /// How many memories have three versions and more, how many versions were undone, and how many were
    /// restored.
    fn variety(&mut self) -> [usize; 3] {
        let changed = self.model.memories.iter().filter(|versions| versions.len() > 2).count();
        let undone = |version: &&Version| version.until == Some(version.from);
        let restored: i64 = value(
            &mut self.client,
            "SELECT count(*) FROM memory_agent.history WHERE op = 'restore'",
            &[],
        );
        [changed, self.model.versions.iter().filter(undone).count(), restored as usize]
    }

    fn expect_agreement(&mut self, step: usize) {
        let session = self.pick(&[None, Some("s1"), Some("s2")]);
        let at = self.moment();
        let seen = |version: &Version| {
            session.is_none() || version.session.is_none() || version.session == session
        };
        let held: BTreeSet<Uuid> = (0..self.model.versions.len())
            .filter(|&index| seen(&self.model.versions[index]) && self.model.holds_at(index, at))
            .map(|index| self.model.versions[index].id)
            .collect();
        let recalled = self.recalled(session, Some(at));
        let wrong: Vec<&Version> = recalled
            .symmetric_difference(&held)
            .map(|id| &self.model.versions[self.model.position(*id)])
            .collect();
        assert!(wrong.is_empty(), "at {at} from {session:?}, step {step}: {wrong:#?}");
        if !step.is_multiple_of(3) {
            return;
        }
        let holding: BTreeSet<Uuid> = (self.model.versions.iter())
            .filter(|version| version.is_active && seen(version))
            .map(|version| version.id)
            .collect();
        assert_eq!(self.recalled(session, None), holding, "now, from {session:?}, step {step}");
        if let Some(session) = session {
            let mut turns: Vec<&Version> = (self.model.versions.iter())
                .filter(|turn| {
                    turn.is_active && turn.kind == Kind::Turn && turn.session == Some(session)
                })
                .collect();
            turns.sort_by_key(|turn| (turn.from, turn.came));
            let window: Vec<Uuid> = turns.iter().map(|turn| turn.id).collect();
            let loaded: Vec<Uuid> =
                values(&mut self.client, "SELECT id FROM memory_load($1)", &[&session]);
            assert_eq!(loaded, window, "the window of {session}, step {step}");
        }
    }
}

#[test]
fn the_past_is_what_it_was() {
    let mut random = Random::seeded("lifecycle");
    let mut variety = [0; 3];
    for life in 0..3 {
        let client = quiet(&format!("past_{life}"));
        let random = Random::of(random.below(u64::MAX));
        let mut life = Life { client, random, model: Model::default(), moments: Vec::new() };
        life.ingest();
        for step in 0..200 {
            let any = life.any();
            match life.random.below(100) {
                0..20 => life.ingest(),
                20..38 => life.add_fact(),
                38..43 => life.add_document(),
                43..48 => life.update(any),
                48..64 => {
                    let newest =
                        *life.model.memories[life.model.versions[any].memory].last().unwrap();
                    life.update(newest);
                }
                64..77 => life.forget(any),
                77..90 => life.restore(any),
                90..98 => life.undo(),
                _ => life.clear(),
            }
            life.expect_agreement(step);
        }
        for session in SESSIONS {
            crate::expect_counters(&mut life.client, session);
        }
        for (sum, count) in variety.iter_mut().zip(life.variety()) {
            *sum += count;
        }
    }
    // A life without any of these would say nothing about them.
    assert!(variety.iter().all(|&count| count >= 2), "changed, undone, restored: {variety:?}");
}
