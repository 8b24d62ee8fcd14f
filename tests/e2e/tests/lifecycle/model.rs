//! Memories as a user of the extension thinks of them: what holds when.
//!
//! A memory holds from its event time until it is forgotten, cleared or replaced. A new version of a fact
//! holds from the update on; a new version of a turn has the turn's event time and is told from the end of
//! the version before it on. What is restored held all the time since it began; versions that had come
//! after it never held.

use memory_agent_e2e::{DateTime, Utc, Uuid};

pub type Moment = DateTime<Utc>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Turn,
    Fact,
    Document,
}

/// A version of a memory.
#[derive(Clone, Debug)]
pub struct Version {
    pub id: Uuid,
    pub kind: Kind,
    pub session: Option<&'static str>,
    pub key: Option<&'static str>,
    pub content: String,
    pub from: Moment,
    pub until: Option<Moment>,
    pub expires: Option<Moment>,
    pub is_active: bool,
    /// Where the memory stands in the model's list of memories.
    pub memory: usize,
    /// When its memory came, in operations: of turns of one moment the order.
    pub came: usize,
}

/// All memories, with all their versions.
#[derive(Default)]
pub struct Model {
    pub versions: Vec<Version>,
    /// Per memory its versions, the one that took the place of all others last.
    pub memories: Vec<Vec<usize>>,
}

impl Model {
    pub fn add(&mut self, mut version: Version) {
        version.memory = self.memories.len();
        version.came = version.memory;
        self.memories.push(vec![self.versions.len()]);
        self.versions.push(version);
    }

    pub fn position(&self, id: Uuid) -> usize {
        self.versions.iter().position(|version| version.id == id).expect("a version of the model")
    }

    /// The active fact of a scope for which `condition` holds.
    pub fn fact(
        &self,
        session: Option<&str>,
        condition: impl Fn(&Version) -> bool,
    ) -> Option<usize> {
        self.versions.iter().position(|version| {
            version.kind == Kind::Fact
                && version.is_active
                && version.session == session
                && condition(version)
        })
    }

    pub fn holds_at(&self, index: usize, at: Moment) -> bool {
        let version = &self.versions[index];
        let told = version.kind != Kind::Turn
            || self.memories[version.memory]
                .iter()
                .take_while(|other| **other != index)
                .all(|other| self.versions[*other].until.is_some_and(|until| until <= at));
        told && version.from <= at
            && version.until.is_none_or(|until| at < until)
            && version.expires.is_none_or(|expires| at < expires)
    }

    pub fn end(&mut self, index: usize, at: Moment) {
        self.versions[index].until = Some(at);
        self.versions[index].is_active = false;
    }

    pub fn update(&mut self, index: usize, id: Uuid, content: String, now: Moment) {
        let old = self.versions[index].clone();
        self.end(index, now);
        if let Some(same) =
            self.fact(old.session, |fact| old.kind == Kind::Fact && fact.content == content)
        {
            // It says so already: a memory of its own, which is kept as long as both ask for.
            assert_eq!(self.versions[same].id, id);
            let expires = self.versions[same].expires.zip(old.expires);
            self.versions[same].expires = expires.map(|(one, other)| one.max(other));
            return;
        }
        self.memories[old.memory].push(self.versions.len());
        let from = if old.kind == Kind::Turn { old.from } else { now };
        self.versions.push(Version { id, content, from, until: None, is_active: true, ..old });
    }

    /// Whether the version can be brought back: `None` when there is nothing to bring back.
    pub fn may_return(&self, index: usize) -> Option<bool> {
        let version = &self.versions[index];
        if version.is_active {
            return None;
        }
        let is_replaced = self.memories[version.memory]
            .iter()
            .skip_while(|other| **other != index)
            .any(|other| self.versions[*other].is_active);
        let is_taken = version.kind == Kind::Fact
            && self
                .fact(version.session, |fact| {
                    fact.content == version.content
                        || (fact.key.is_some() && fact.key == version.key)
                })
                .is_some();
        Some(!is_replaced && !is_taken)
    }

    pub fn restore(&mut self, index: usize) {
        let memory = self.versions[index].memory;
        let place = self.memories[memory].iter().position(|other| *other == index).unwrap();
        let later = self.memories[memory].split_off(place + 1);
        self.memories[memory].pop();
        for version in &later {
            self.versions[*version].until = Some(self.versions[*version].from);
        }
        self.memories[memory].extend(later);
        self.memories[memory].push(index);
        self.versions[index].until = None;
        self.versions[index].is_active = true;
    }
}
