//! One conversation of a scenario: statements between other talk, and what has to be known at the end.

use crate::random::Random;
use crate::scenario::{Scenario, Topic};
use crate::small_talk::{NOTED, SMALL_TALK};

/// Share of the user's messages that say something to be remembered, as far as the topics reach.
const STATEMENT_SHARE: f64 = 0.6;

/// What a conversation is made by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recipe {
    /// Messages of user and assistant together, who take turns. The user begins.
    pub turns: usize,
    pub seed: u64,
    /// Whether the assistant repeats what it was told.
    pub echo: bool,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// `user` or `assistant`.
    pub role: &'static str,
    pub text: String,
}

/// A question at the end, and what tells its answers apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    pub topic: &'static str,
    pub question: &'static str,
    /// The value that holds.
    pub current: &'static str,
    /// Values that held before.
    pub superseded: Vec<&'static str>,
}

/// What is said, and what is asked afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    pub messages: Vec<Message>,
    pub probes: Vec<Probe>,
}

/// Something the user says on a topic.
struct Statement<'a> {
    topic: &'a Topic,
    value: &'static str,
    is_first: bool,
}

impl Conversation {
    /// Facts are planted and replaced at random places; every topic that came up is asked about.
    pub fn of(scenario: &Scenario, recipe: Recipe) -> Self {
        let mut random = Random::new(recipe.seed);
        let spoken = recipe.turns.div_ceil(2);
        let chains = chains(scenario, spoken, &mut random);
        let probes = chains.iter().map(|(topic, values)| probe(topic, values)).collect();
        let said = together(interleave(&chains, &mut random), scenario.in_pairs);
        let places = random.choose(spoken, said.len());
        let mut said = said.into_iter();
        let mut talk: Vec<usize> = (0..SMALL_TALK.len()).collect();
        random.shuffle(&mut talk);
        let mut talk = talk.into_iter().cycle();

        let mut messages = Vec::with_capacity(recipe.turns);
        for at in 0..spoken {
            let statements = places.binary_search(&at).ok().and_then(|_| said.next());
            let (said, answer) = match statements {
                Some(statements) => {
                    let in_one = |text: fn(&Statement<'_>) -> String| {
                        statements.iter().map(text).collect::<Vec<_>>().join(" ")
                    };
                    let answer = match recipe.echo {
                        true => format!("Noted. {}", in_one(|said| said.topic.fact(said.value))),
                        false => NOTED[random.below(NOTED.len())].to_owned(),
                    };
                    (in_one(|said| said.text()), answer)
                }
                None => {
                    let (asked, answered) = SMALL_TALK[talk.next().unwrap_or(0)];
                    (asked.to_owned(), answered.to_owned())
                }
            };
            messages.push(Message { role: "user", text: said });
            if messages.len() < recipe.turns {
                messages.push(Message { role: "assistant", text: answer });
            }
        }
        Self { messages, probes }
    }
}

impl Statement<'_> {
    fn text(&self) -> String {
        if self.is_first { self.topic.said(self.value) } else { self.topic.changed(self.value) }
    }
}

fn probe(topic: &Topic, values: &[&'static str]) -> Probe {
    let (current, superseded) = values.split_last().unwrap_or((&"", &[]));
    Probe { topic: topic.name, question: topic.question, current, superseded: superseded.to_vec() }
}

/// The topics of a conversation, each with the values that it takes, in order.
fn chains<'a>(
    scenario: &'a Scenario,
    spoken: usize,
    random: &mut Random,
) -> Vec<(&'a Topic, Vec<&'static str>)> {
    let wanted = ((spoken as f64 * STATEMENT_SHARE) as usize).max(1);
    let changes = (wanted as f64 * scenario.changes).round() as usize;
    let count = (wanted - changes.min(wanted - 1)).min(scenario.topics.len());
    let mut chains: Vec<(&Topic, Vec<&'static str>)> = random
        .choose(scenario.topics.len(), count)
        .into_iter()
        .map(|index| {
            let topic = &scenario.topics[index];
            let mut values = topic.values.to_vec();
            // Another one is the first in every conversation.
            values.rotate_left(random.below(topic.values.len()));
            (topic, values)
        })
        .collect();
    let mut lengths = vec![1; chains.len()];
    for _ in 0..changes {
        let open: Vec<usize> =
            (0..chains.len()).filter(|chain| lengths[*chain] < chains[*chain].1.len()).collect();
        if let Some(chain) = open.get(random.below(open.len())) {
            lengths[*chain] += 1;
        }
    }
    for ((_, values), length) in chains.iter_mut().zip(lengths) {
        values.truncate(length);
    }
    chains
}

/// All statements, those of a topic in their order, otherwise mixed.
fn interleave<'a>(
    chains: &[(&'a Topic, Vec<&'static str>)],
    random: &mut Random,
) -> Vec<Statement<'a>> {
    let mut order: Vec<usize> = chains
        .iter()
        .enumerate()
        .flat_map(|(chain, (_, values))| vec![chain; values.len()])
        .collect();
    random.shuffle(&mut order);
    let mut said = vec![0; chains.len()];
    order
        .into_iter()
        .map(|chain| {
            let (topic, values) = &chains[chain];
            let step = said[chain];
            said[chain] += 1;
            Statement { topic, value: values[step], is_first: step == 0 }
        })
        .collect()
}

/// The statements of each message, in their order.
fn together<'a>(statements: Vec<Statement<'a>>, in_pairs: bool) -> Vec<Vec<Statement<'a>>> {
    let mut messages: Vec<Vec<Statement<'a>>> = Vec::new();
    for statement in statements {
        match messages.last_mut() {
            Some(last)
                if in_pairs && last.len() == 1 && last[0].topic.name != statement.topic.name =>
            {
                last.push(statement);
            }
            _ => messages.push(vec![statement]),
        }
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenarios::SCENARIOS;

    fn all() -> impl Iterator<Item = (&'static Scenario, Recipe, Conversation)> {
        SCENARIOS.into_iter().flat_map(|scenario| {
            (10..=80).step_by(10).flat_map(move |turns| {
                (0..20).map(move |seed| {
                    let recipe = Recipe { turns, seed, echo: seed % 2 == 1 };
                    (scenario, recipe, Conversation::of(scenario, recipe))
                })
            })
        })
    }

    #[test]
    fn user_and_assistant_take_turns() {
        for (_, recipe, conversation) in all() {
            assert_eq!(conversation.messages.len(), recipe.turns);
            for (at, message) in conversation.messages.iter().enumerate() {
                assert_eq!(message.role, if at % 2 == 0 { "user" } else { "assistant" });
            }
        }
        let odd = Recipe { turns: 7, seed: 1, echo: false };
        assert_eq!(Conversation::of(SCENARIOS[0], odd).messages.len(), 7);
    }

    /// The user says the last value of every topic that is asked about after all others of it.
    #[test]
    fn the_last_word_is_the_current_one() {
        for (_, _, conversation) in all() {
            assert!(!conversation.probes.is_empty());
            for probe in &conversation.probes {
                let said: Vec<&str> = conversation
                    .messages
                    .iter()
                    .filter(|message| message.role == "user")
                    .filter_map(|message| {
                        let mut values = probe.superseded.iter().chain([&probe.current]);
                        values.find(|value| message.text.contains(**value)).copied()
                    })
                    .collect();
                let mut expected = probe.superseded.clone();
                expected.push(probe.current);
                assert_eq!(said, expected, "{}", probe.topic);
            }
        }
    }

    #[test]
    fn facts_are_replaced_as_often_as_the_scenario_says() {
        for (scenario, recipe, conversation) in all().filter(|(_, recipe, _)| recipe.turns == 40) {
            let replaced: usize =
                conversation.probes.iter().map(|probe| probe.superseded.len()).sum();
            let expected = (12.0 * scenario.changes).round() as usize;
            assert_eq!(replaced, expected, "{} {recipe:?}", scenario.name);
        }
    }

    #[test]
    fn the_assistant_repeats_only_when_told_to() {
        for (scenario, recipe, conversation) in all() {
            let repeats = conversation.messages.iter().any(|message| {
                message.role == "assistant"
                    && scenario
                        .topics
                        .iter()
                        .flat_map(|topic| topic.values)
                        .any(|value| message.text.contains(value))
            });
            assert_eq!(repeats, recipe.echo);
        }
    }

    #[test]
    fn messages_say_two_things_where_the_scenario_says_so() {
        let mut outlived = 0;
        for (scenario, _, conversation) in all() {
            let values = |message: &Message| -> Vec<(&str, bool)> {
                let probes = conversation.probes.iter();
                let said = probes.filter_map(|probe| {
                    let mut all = probe.superseded.iter().chain([&probe.current]);
                    let value = all.find(|value| message.text.contains(**value))?;
                    Some((probe.topic, *value == probe.current))
                });
                said.collect()
            };
            let of_users = conversation.messages.iter().filter(|message| message.role == "user");
            let pairs: Vec<_> = of_users.map(values).filter(|said| said.len() > 1).collect();
            assert!(pairs.iter().all(|said| said.len() == 2), "{pairs:?}");
            assert!(scenario.in_pairs || pairs.is_empty(), "{}: {pairs:?}", scenario.name);
            outlived += pairs.iter().filter(|said| said[0].1 != said[1].1).count();
        }
        assert!(outlived > 100, "{outlived} messages of which one half was replaced");
    }

    #[test]
    fn conversations_differ_by_their_seed() {
        let of = |seed| Conversation::of(SCENARIOS[0], Recipe { turns: 20, seed, echo: false });
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }
}
