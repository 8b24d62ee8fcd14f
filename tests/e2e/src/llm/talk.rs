//! What several people say at the same time, each in sessions of their own, and what has to be known
//! afterwards: of every fact, which sayings it is from, when it began and what ended it. Values come
//! back, facts are taken back, transactions are rolled back.

use super::dice::Dice;
use super::topics::{HABITS, SMALL_TALK, TOPICS};
use super::{Change, ScriptedModel, Statement};
use std::collections::{BTreeMap, BTreeSet};

#[cfg(test)]
mod tests;

const SPEAKERS: usize = 4;
const TOPICS_OF_A_SPEAKER: usize = 3;
/// Acts of a speaker: so many, and up to so many more.
const ACTS: (usize, usize) = (3, 3);

/// How somebody's sayings reach memory, and where their facts go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Turns of a session; facts of this session.
    Session,
    /// Turns of a session; facts of all sessions.
    Global,
    /// `memory_add` without a session; facts of all sessions.
    Alone,
    /// Turns of a session; facts of whole episodes.
    Episodes,
}

/// How the sayings of an act are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    Call,
    Batch,
    Transaction,
    /// A transaction that is rolled back: nobody may ever learn what it said.
    RolledBack,
}

/// One turn of a user.
#[derive(Clone, Debug)]
pub struct Saying {
    /// Its place among all sayings of the talk, in event time.
    pub number: usize,
    pub text: String,
    pub statements: Vec<Statement>,
}

/// What is stored together.
#[derive(Clone, Debug)]
pub struct Act {
    pub manner: Manner,
    pub sayings: Vec<Saying>,
    /// Whether the running episode is ended afterwards.
    pub ends_episode: bool,
}

/// Somebody in a session.
#[derive(Clone, Debug)]
pub struct Speaker {
    pub user: String,
    pub session: Option<String>,
    pub way: Way,
    pub acts: Vec<Act>,
}

/// One fact as long as it held.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    pub user: String,
    /// `None`: of all sessions.
    pub session: Option<String>,
    pub topic: String,
    pub fact: String,
    /// The numbers of the sayings that say so, the first one first.
    pub said: Vec<usize>,
    /// The first saying of what ended it, and whether that contradicts it instead of replacing it.
    pub ended: Option<(usize, bool)>,
}

/// What is said in one round.
#[derive(Clone, Debug)]
pub struct Talk {
    pub speakers: Vec<Speaker>,
    /// The topic that several speakers talk about: their facts reach memory in any order.
    shared: Option<&'static str>,
}

impl Talk {
    /// Names of users begin with `prefix`.
    pub fn generate(dice: &mut Dice, prefix: &str) -> Self {
        let people = [
            (0, Some("s1"), Way::Session),
            (0, Some("s2"), Way::Global),
            (0, None, Way::Alone),
            (0, Some("s3"), Way::Global),
            (1, Some("s1"), Way::Session),
            (1, Some("s2"), Way::Session),
            (1, Some("s3"), Way::Episodes),
        ];
        let mut topics = dice.choose(TOPICS.len(), TOPICS.len());
        let mut habits = dice.choose(HABITS.len(), HABITS.len());
        let mut speakers: Vec<Speaker> = dice
            .choose(people.len(), SPEAKERS)
            .into_iter()
            .map(|index| {
                let (user, session, way) = people[index];
                let subjects: Vec<Subject> = (topics.drain(..TOPICS_OF_A_SPEAKER))
                    .map(Subject::Topic)
                    .chain(habits.pop().map(Subject::Habit))
                    .collect();
                Speaker {
                    user: format!("{prefix}u{user}"),
                    session: session.map(str::to_owned),
                    way,
                    acts: Script { way, subjects, said: BTreeMap::new() }.write(dice),
                }
            })
            .collect();
        let shared = share(&mut speakers, topics[0], dice);
        number(&mut speakers);
        Self { speakers, shared }
    }

    pub fn users(&self) -> Vec<String> {
        let users: BTreeSet<&String> = self.speakers.iter().map(|speaker| &speaker.user).collect();
        users.into_iter().cloned().collect()
    }

    /// A model that understands all of it.
    pub fn model(&self) -> ScriptedModel {
        let acts = self.speakers.iter().flat_map(|speaker| &speaker.acts);
        let meanings: BTreeMap<&str, &[Statement]> = acts
            .flat_map(|act| &act.sayings)
            .map(|saying| (saying.text.as_str(), saying.statements.as_slice()))
            .collect();
        (meanings.into_iter())
            .fold(ScriptedModel::new(), |model, (text, meant)| model.understands(text, meant))
    }

    /// The sayings of a speaker that have to be there in the end.
    pub fn committed(speaker: &Speaker) -> impl Iterator<Item = &Saying> {
        let acts = speaker.acts.iter().filter(|act| act.manner != Manner::RolledBack);
        acts.flat_map(|act| &act.sayings)
    }

    /// Whether the facts of a topic reach memory in any order.
    pub fn is_shared(&self, topic: &str) -> bool {
        self.shared == Some(topic)
    }

    /// All facts that have to come of it, if every statement is taken up once, in order of event time.
    pub fn versions(&self) -> Vec<Version> {
        let mut said: Vec<(usize, &Speaker, &Statement)> = Vec::new();
        for speaker in &self.speakers {
            for saying in Self::committed(speaker) {
                let statements = saying.statements.iter();
                said.extend(statements.map(|statement| (saying.number, speaker, statement)));
            }
        }
        said.sort_by_key(|(number, ..)| *number);
        let mut versions: Vec<Version> = Vec::new();
        let mut current: BTreeMap<(&str, Option<&str>, &str), (usize, &str)> = BTreeMap::new();
        for (number, speaker, statement) in said {
            let session = match speaker.way {
                Way::Session | Way::Episodes => speaker.session.as_deref(),
                Way::Global | Way::Alone => None,
            };
            let key = (speaker.user.as_str(), session, statement.topic.as_str());
            match current.get(&key) {
                Some(&(known, value)) if value == statement.value => {
                    versions[known].said.push(number);
                    continue;
                }
                Some(&(known, _)) => {
                    let contradicts = statement.change == Change::Contradiction;
                    versions[known].ended = Some((number, contradicts));
                }
                None => {}
            }
            current.insert(key, (versions.len(), &statement.value));
            versions.push(Version {
                user: speaker.user.clone(),
                session: session.map(str::to_owned),
                topic: statement.topic.clone(),
                fact: statement.fact.clone(),
                said: vec![number],
                ended: None,
            });
        }
        versions
    }
}

/// Lets those who speak to the same memory talk about one topic, each value once.
fn share(speakers: &mut [Speaker], topic: usize, dice: &mut Dice) -> Option<&'static str> {
    let global: Vec<usize> = (speakers.iter().enumerate())
        .filter(|(_, speaker)| matches!(speaker.way, Way::Global | Way::Alone))
        .map(|(index, _)| index)
        .collect();
    if global.len() < 2 {
        return None;
    }
    for step in 0..TOPICS[topic].values.len() {
        let acts = &mut speakers[dice.pick(&global)].acts;
        let at = dice.below(acts.len());
        if acts[at].manner != Manner::RolledBack {
            acts[at].manner = Manner::Transaction;
            acts[at]
                .sayings
                .push(Subject::Topic(topic).saying(Position::Holds(step), Change::Update));
        }
    }
    Some(TOPICS[topic].name)
}

/// Numbers the sayings in turn, as if the speakers took turns.
fn number(speakers: &mut [Speaker]) {
    let count = speakers.len();
    for (index, speaker) in speakers.iter_mut().enumerate() {
        let sayings = speaker.acts.iter_mut().flat_map(|act| &mut act.sayings);
        for (place, saying) in sayings.enumerate() {
            saying.number = place * count + index;
        }
    }
}

/// An index into [`TOPICS`] or [`HABITS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Topic(usize),
    Habit(usize),
}

/// Where a user stands on a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// With the value of this number.
    Holds(usize),
    /// That it no longer holds.
    Ended(usize),
}

/// What a speaker has to say.
struct Script {
    way: Way,
    subjects: Vec<Subject>,
    said: BTreeMap<Subject, Position>,
}

impl Script {
    fn write(mut self, dice: &mut Dice) -> Vec<Act> {
        let count = ACTS.0 + dice.below(ACTS.1);
        (0..count).map(|number| self.act(number + 1 == count, dice)).collect()
    }

    fn act(&mut self, is_last: bool, dice: &mut Dice) -> Act {
        let manner = match dice.below(20) {
            0..9 => Manner::Call,
            9..13 if self.way != Way::Alone => Manner::Batch,
            9..17 => Manner::Transaction,
            _ => Manner::RolledBack,
        };
        let count = if manner == Manner::Call { 1 } else { 1 + dice.below(3) };
        let before = self.said.clone();
        let sayings = (0..count).map(|_| self.saying(manner, dice)).collect();
        if manner == Manner::RolledBack {
            self.said = before;
        }
        let ends_episode = self.way == Way::Episodes && (is_last || dice.below(3) == 0);
        Act { manner, sayings, ends_episode }
    }

    fn saying(&mut self, manner: Manner, dice: &mut Dice) -> Saying {
        let subject = dice.pick(&self.subjects);
        let known = self.said.get(&subject).copied();
        let mut saying = match (dice.below(8), known) {
            (0, _) => Saying {
                number: 0,
                text: dice.pick(&SMALL_TALK).to_owned(),
                statements: Vec::new(),
            },
            (1, Some(known)) => subject.saying(known, Change::Repetition),
            (2, Some(known)) => subject.said_otherwise(known),
            (3 | 4, Some(Position::Holds(step))) => {
                self.take(subject, Position::Ended(step), Change::Contradiction)
            }
            (7, None) => self.two_things(subject, dice),
            (_, known) => {
                let next = Position::Holds(subject.other_step(known, dice));
                let change = if known.is_none() { Change::New } else { Change::Update };
                self.take(subject, next, change)
            }
        };
        if manner == Manner::RolledBack {
            saying.text = format!("Strike that. {}", saying.text);
            for statement in &mut saying.statements {
                statement.topic = "never said".to_owned();
                statement.fact = format!("Struck: {}", statement.fact);
            }
        }
        saying
    }

    /// Something about a new subject, and about another one.
    fn two_things(&mut self, subject: Subject, dice: &mut Dice) -> Saying {
        let mut saying = self.take(subject, Position::Holds(0), Change::New);
        let subjects = self.subjects.iter().filter(|other| !self.said.contains_key(other));
        let others: Vec<Subject> = subjects.copied().collect();
        if !others.is_empty() {
            let other = self.take(dice.pick(&others), Position::Holds(0), Change::New);
            saying.text = format!("{} {}", saying.text, other.text);
            saying.statements.extend(other.statements);
        }
        saying
    }

    fn take(&mut self, subject: Subject, position: Position, change: Change) -> Saying {
        self.said.insert(subject, position);
        subject.saying(position, change)
    }
}

impl Subject {
    /// Another value than the one that is known, perhaps one that held before.
    fn other_step(self, known: Option<Position>, dice: &mut Dice) -> usize {
        let Self::Topic(topic) = self else { return 0 };
        let steps =
            (0..TOPICS[topic].values.len()).filter(|step| known != Some(Position::Holds(*step)));
        dice.pick(&steps.collect::<Vec<_>>())
    }

    fn saying(self, position: Position, change: Change) -> Saying {
        let (name, value, fact, said) = match (self, position) {
            (Self::Topic(index), Position::Holds(step)) => {
                let topic = &TOPICS[index];
                let value = topic.values[step];
                let (fact, said) =
                    (topic.fact.replace("{}", value), topic.said.replace("{}", value));
                (topic.name, value.to_owned(), fact, said)
            }
            (Self::Topic(index), Position::Ended(step)) => {
                let Saying { text, statements, .. } =
                    self.saying(Position::Holds(step), Change::Update);
                let value = format!("not {}", statements[0].value);
                (TOPICS[index].name, value, taken_back(&statements[0].fact), taken_back(&text))
            }
            (Self::Habit(index), Position::Holds(_)) => {
                let habit = &HABITS[index];
                (habit.name, "holds".to_owned(), habit.fact.to_owned(), habit.said.to_owned())
            }
            (Self::Habit(index), Position::Ended(_)) => {
                let habit = &HABITS[index];
                let (fact, said) = (habit.ended.to_owned(), habit.said_at_the_end.to_owned());
                (habit.name, "ended".to_owned(), fact, said)
            }
        };
        let text = match change {
            Change::Repetition => format!("As I said: {said}"),
            Change::Update => format!("Something changed. {said}"),
            _ => said,
        };
        Saying {
            number: 0,
            text,
            statements: vec![Statement { topic: name.to_owned(), value, fact, change }],
        }
    }

    /// The same as what is known, in words that differ a little.
    fn said_otherwise(self, known: Position) -> Saying {
        let mut saying = self.saying(known, Change::Repetition);
        saying.text = saying.text.replace("As I said:", "I may have mentioned it:");
        let statement = &mut saying.statements[0];
        statement.fact = match statement.fact.strip_prefix("User ") {
            Some(rest) => format!("The user {rest}"),
            None => statement.fact.trim_end_matches('.').to_owned(),
        };
        saying
    }
}

/// That it no longer holds, in words that are near to what it takes back: what follows on the topic has to
/// be near to it as well.
fn taken_back(statement: &str) -> String {
    let statement = statement.trim_start_matches("Something changed. ");
    format!("{} no longer.", statement.trim_end_matches('.'))
}
