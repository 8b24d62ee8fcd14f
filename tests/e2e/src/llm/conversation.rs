//! Conversations whose outcome is known: what a user says, turn by turn in several sessions, what a
//! good model makes of it, and which facts are left in the end.

use super::dice::Dice;
use super::topics::{HABITS, SMALL_TALK, TOPICS};
use std::collections::BTreeMap;

const SESSIONS: usize = 8;
const TURNS_PER_SESSION: usize = 25;
const UPDATES_PER_SESSION: usize = 5;
/// The first half of the sessions has three, the others two.
const CONTRADICTIONS: [usize; 2] = [3, 2];
const REPETITIONS_PER_SESSION: usize = 3;
/// Of the subjects of a session, so many begin in one turn together with another.
const PAIRS_PER_SESSION: usize = 2;
const TOPICS_PER_SESSION: usize = 11;

/// How a statement relates to what was said before on its subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The first word on its subject.
    New,
    /// Its value takes the place of another.
    Update,
    /// It says that an earlier statement no longer holds.
    Contradiction,
    /// It says the same in the same or in other words.
    Repetition,
}

/// What one turn says on one subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    pub topic: String,
    /// Statements on a topic with the same value say the same.
    pub value: String,
    /// The fact that a good model extracts.
    pub fact: String,
    pub change: Change,
}

/// A turn of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    pub session: String,
    pub text: String,
    /// None for small talk.
    pub statements: Vec<Statement>,
}

/// A fact that was replaced or contradicted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Superseded {
    pub session: String,
    pub fact: String,
    pub by: String,
    /// Whether `by` ended it, instead of replacing it.
    pub contradicted: bool,
}

/// The outcome of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// (session, fact) that hold, sorted.
    pub active: Vec<(String, String)>,
    /// Facts that held once, sorted.
    pub superseded: Vec<Superseded>,
}

/// The turns in the order in which they are said.
#[derive(Clone, Debug)]
pub struct Conversation {
    pub turns: Vec<Turn>,
}

impl Conversation {
    /// 200 turns in 8 sessions that take turns; 40 of them update a fact and 20 contradict one, 24
    /// repeat one, and the rest are new facts (16 turns say two things) and small talk.
    pub fn generate(seed: u64) -> Self {
        let mut dice = Dice::of(seed);
        let sessions: Vec<Vec<Turn>> =
            (0..SESSIONS).map(|number| Session::new(number, &mut dice).play(&mut dice)).collect();
        let turns = (0..TURNS_PER_SESSION)
            .flat_map(|step| sessions.iter().map(move |session| session[step].clone()))
            .collect();
        Self { turns }
    }

    /// The names of the sessions.
    pub fn sessions(&self) -> Vec<String> {
        (0..SESSIONS).map(session_name).collect()
    }

    /// What is true after all turns.
    pub fn outcome(&self) -> Outcome {
        self.outcome_after(self.turns.len())
    }

    /// What is true after the first `count` turns.
    pub fn outcome_after(&self, count: usize) -> Outcome {
        let mut holds: BTreeMap<(&str, &str), &Statement> = BTreeMap::new();
        let mut superseded = Vec::new();
        for turn in &self.turns[..count] {
            for statement in &turn.statements {
                let key = (turn.session.as_str(), statement.topic.as_str());
                if statement.change == Change::Repetition {
                    continue;
                }
                if let Some(old) = holds.insert(key, statement) {
                    superseded.push(Superseded {
                        session: turn.session.clone(),
                        fact: old.fact.clone(),
                        by: statement.fact.clone(),
                        contradicted: statement.change == Change::Contradiction,
                    });
                }
            }
        }
        let active = holds.iter().map(|((session, _), s)| ((*session).to_owned(), s.fact.clone()));
        let mut outcome = Outcome { active: active.collect(), superseded };
        outcome.active.sort();
        outcome.superseded.sort();
        outcome
    }
}

fn session_name(number: usize) -> String {
    format!("session {number}")
}

/// What a session still has to say.
struct Session {
    name: String,
    new: Vec<Vec<Subject>>,
    updates: usize,
    contradictions: usize,
    repetitions: usize,
    small_talk: Vec<&'static str>,
    /// What was said so far: (subject, the step of its values or of its end).
    said: Vec<(Subject, usize)>,
}

/// An index into [`TOPICS`] or [`HABITS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Topic(usize),
    Habit(usize),
}

#[derive(Clone, Copy, Debug)]
enum Step {
    New,
    Update,
    Contradiction,
    Repetition,
    SmallTalk,
}

impl Session {
    fn new(number: usize, dice: &mut Dice) -> Self {
        let contradictions = CONTRADICTIONS[number * CONTRADICTIONS.len() / SESSIONS];
        let topics = dice.choose(TOPICS.len(), TOPICS_PER_SESSION);
        let habits = dice.choose(HABITS.len(), contradictions);
        let mut subjects: Vec<Subject> = topics.into_iter().map(Subject::Topic).collect();
        let paired: Vec<Vec<Subject>> =
            (0..PAIRS_PER_SESSION).map(|_| subjects.drain(..2).collect()).collect();
        subjects.extend(habits.into_iter().map(Subject::Habit));
        let mut new: Vec<Vec<Subject>> =
            subjects.into_iter().map(|subject| vec![subject]).collect();
        new.extend(paired);
        dice.shuffle(&mut new);
        let turns = new.len() + UPDATES_PER_SESSION + contradictions + REPETITIONS_PER_SESSION;
        let small_talk = dice
            .choose(SMALL_TALK.len(), TURNS_PER_SESSION - turns)
            .into_iter()
            .map(|index| SMALL_TALK[index]);
        Self {
            name: session_name(number),
            new,
            updates: UPDATES_PER_SESSION,
            contradictions,
            repetitions: REPETITIONS_PER_SESSION,
            small_talk: small_talk.collect(),
            said: Vec::new(),
        }
    }

    fn play(mut self, dice: &mut Dice) -> Vec<Turn> {
        (0..TURNS_PER_SESSION).map(|_| self.next_turn(dice)).collect()
    }

    fn next_turn(&mut self, dice: &mut Dice) -> Turn {
        let steps = self.possible_steps();
        let (text, statements) = match steps[dice.below(steps.len())] {
            Step::New => self.say_something_new(),
            Step::Update => self.update(dice),
            Step::Contradiction => self.contradict(dice),
            Step::Repetition => self.repeat(dice),
            Step::SmallTalk => (self.small_talk.pop().unwrap_or("Ok.").to_owned(), Vec::new()),
        };
        Turn { session: self.name.clone(), text, statements }
    }

    /// Every turn that is left and possible now, as often as it is left, so that the kinds mix.
    fn possible_steps(&self) -> Vec<Step> {
        let mut steps = vec![Step::New; self.new.len()];
        if !self.updatable().is_empty() {
            steps.extend(vec![Step::Update; self.updates]);
        }
        if !self.endable().is_empty() {
            steps.extend(vec![Step::Contradiction; self.contradictions]);
        }
        if !self.said.is_empty() {
            steps.extend(vec![Step::Repetition; self.repetitions]);
        }
        steps.extend(vec![Step::SmallTalk; self.small_talk.len()]);
        steps
    }

    fn updatable(&self) -> Vec<usize> {
        self.indexes(|subject, step| {
            matches!(subject, Subject::Topic(topic) if step + 1 < TOPICS[topic].values.len())
        })
    }

    fn endable(&self) -> Vec<usize> {
        self.indexes(|subject, step| matches!(subject, Subject::Habit(_)) && step == 0)
    }

    fn indexes(&self, wanted: impl Fn(Subject, usize) -> bool) -> Vec<usize> {
        let indexes = 0..self.said.len();
        indexes.filter(|index| wanted(self.said[*index].0, self.said[*index].1)).collect()
    }

    fn say_something_new(&mut self) -> (String, Vec<Statement>) {
        let subjects = self.new.pop().unwrap_or_default();
        self.said.extend(subjects.iter().map(|subject| (*subject, 0)));
        let said: Vec<String> = subjects.iter().map(|subject| subject.said(0)).collect();
        let statements = subjects.iter().map(|subject| subject.statement(0, Change::New)).collect();
        (said.join(" "), statements)
    }

    fn update(&mut self, dice: &mut Dice) -> (String, Vec<Statement>) {
        self.updates -= 1;
        let candidates = self.updatable();
        let (subject, step) = &mut self.said[candidates[dice.below(candidates.len())]];
        *step += 1;
        let text = format!("Something changed. {}", subject.said(*step));
        (text, vec![subject.statement(*step, Change::Update)])
    }

    fn contradict(&mut self, dice: &mut Dice) -> (String, Vec<Statement>) {
        self.contradictions -= 1;
        let candidates = self.endable();
        let (subject, step) = &mut self.said[candidates[dice.below(candidates.len())]];
        *step += 1;
        (subject.said(*step), vec![subject.statement(*step, Change::Contradiction)])
    }

    /// The same fact in the same words, or in words that differ a little.
    fn repeat(&mut self, dice: &mut Dice) -> (String, Vec<Statement>) {
        self.repetitions -= 1;
        let (subject, step) = self.said[dice.below(self.said.len())];
        let mut statement = subject.statement(step, Change::Repetition);
        let text = if dice.below(2) == 0 {
            format!("As I said: {}", subject.said(step))
        } else {
            statement.fact = match statement.fact.strip_prefix("User ") {
                Some(rest) => format!("The user {rest}"),
                None => statement.fact.trim_end_matches('.').to_owned(),
            };
            format!("I may have mentioned it: {}", subject.said(step))
        };
        (text, vec![statement])
    }
}

impl Subject {
    fn statement(self, step: usize, change: Change) -> Statement {
        let (topic, value, fact) = match self {
            Self::Topic(index) => {
                let topic = &TOPICS[index];
                (topic.name, topic.values[step], topic.fact.replace("{}", topic.values[step]))
            }
            Self::Habit(index) => {
                let habit = &HABITS[index];
                let fact = if step == 0 { habit.fact } else { habit.ended };
                (habit.name, if step == 0 { "holds" } else { "ended" }, fact.to_owned())
            }
        };
        Statement { topic: topic.to_owned(), value: value.to_owned(), fact, change }
    }

    fn said(self, step: usize) -> String {
        match self {
            Self::Topic(index) => TOPICS[index].said.replace("{}", TOPICS[index].values[step]),
            Self::Habit(index) if step == 0 => HABITS[index].said.to_owned(),
            Self::Habit(index) => HABITS[index].said_at_the_end.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memory_agent_core::facts::same::says_the_same;
    use std::collections::BTreeSet;

    #[test]
    fn has_the_promised_numbers() {
        for seed in 0..50 {
            let conversation = Conversation::generate(seed);
            assert_eq!(conversation.turns.len(), 200);
            let count = |change: Change| {
                let statements = conversation.turns.iter().flat_map(|turn| &turn.statements);
                statements.filter(|statement| statement.change == change).count()
            };
            assert_eq!(count(Change::Update), 40);
            assert_eq!(count(Change::Contradiction), 20);
            assert_eq!(count(Change::Repetition), 24);
            let outcome = conversation.outcome();
            assert_eq!(outcome.superseded.len(), 60);
            assert_eq!(outcome.active.len(), count(Change::New));
        }
    }

    #[test]
    fn a_seed_decides_everything() {
        assert_eq!(Conversation::generate(7).turns, Conversation::generate(7).turns);
        assert_ne!(Conversation::generate(7).turns, Conversation::generate(8).turns);
    }

    #[test]
    fn no_superseded_fact_holds_again() {
        for seed in 0..50 {
            let outcome = Conversation::generate(seed).outcome();
            let active: BTreeSet<_> = outcome.active.iter().cloned().collect();
            for old in &outcome.superseded {
                assert!(!active.contains(&(old.session.clone(), old.fact.clone())), "{old:?}");
            }
        }
    }

    /// Else the gate for duplicates would swallow what the script calls a change.
    #[test]
    fn only_repetitions_say_the_same() {
        let conversation = Conversation::generate(1);
        let statements: Vec<_> =
            conversation.turns.iter().flat_map(|turn| &turn.statements).collect();
        for left in &statements {
            for right in &statements {
                let same = left.topic == right.topic && left.value == right.value;
                assert_eq!(says_the_same(&left.fact, &right.fact), same, "{left:?} {right:?}");
            }
        }
    }

    #[test]
    fn what_is_said_decides_the_facts() {
        let mut meanings: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for seed in 0..50 {
            for turn in Conversation::generate(seed).turns {
                let facts = turn.statements.iter().map(|s| s.fact.clone()).collect();
                assert_eq!(*meanings.entry(turn.text).or_insert_with(|| Vec::clone(&facts)), facts);
            }
        }
    }
}
