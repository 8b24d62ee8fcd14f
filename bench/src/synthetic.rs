//! Made-up conversation for measurements of time: turns and questions of the length and
//! repetitiveness of people's chats, as many as wanted, each different from all others.

use serde_json::{Value, json};

const SPEAKERS: [&str; 2] = ["Ana", "Ben"];
const PEOPLE: [&str; 12] = [
    "my sister",
    "our neighbour Olga",
    "the new manager",
    "Uncle Theo",
    "my flatmate Jin",
    "Dr. Weber",
    "the band",
    "our landlord",
    "Priya from work",
    "my old coach",
    "the kids",
    "grandma",
];
const ACTIVITIES: [&str; 16] = [
    "signed up for a pottery class",
    "finally fixed the blue bicycle",
    "adopted a very shy cat",
    "started learning Portuguese",
    "ran the half marathon",
    "painted the kitchen yellow",
    "booked the ferry for the summer",
    "lost the keys to the storage room",
    "won a photography prize",
    "cooked a lentil curry with too much chili",
    "moved the meeting to the library",
    "planted tomatoes on the balcony",
    "sold the old piano",
    "read three novels in a week",
    "got an offer from a design studio",
    "broke a wrist while skating",
];
const PLACES: [&str; 14] = [
    "in Lisbon",
    "near the harbour",
    "at the community centre",
    "in the mountains",
    "by the lake",
    "at the station",
    "in the old town",
    "at the farm",
    "downtown",
    "at the university",
    "in Oslo",
    "on the island",
    "at the clinic",
    "in the new office",
];
const TIMES: [&str; 10] = [
    "last spring",
    "on a rainy Tuesday",
    "during the holidays",
    "two weeks before the wedding",
    "after the storm",
    "in early March",
    "over the long weekend",
    "right after breakfast",
    "while it was snowing",
    "the day we met Carla",
];
const REMARKS: [&str; 10] = [
    "I could hardly believe it, honestly.",
    "That made my whole week!",
    "What do you think about that?",
    "We should celebrate when you are back.",
    "I still have to tell my parents about it.",
    "It took much longer than anyone expected.",
    "There is a photo of it on my phone.",
    "Next time I would rather do it with you.",
    "I was so proud and a little bit jealous.",
    "Let us talk about it over coffee.",
];
const ASKED: [&str; 8] = [
    "When did {} hear that {} {}?",
    "What did {} say about how {} {}?",
    "Why was {} happy when {} {}?",
    "Who told {} that {} {}?",
    "Where was {} when {} {}?",
    "How long did it take {} after {} {}?",
    "Does {} remember that {} {}?",
    "What happened to {} before {} {}?",
];

/// Spreads consecutive numbers, so that neighbours differ in more than one place. A bijection of
/// the remainders by any number that 7919, a prime, does not divide.
fn spread(number: usize, among: usize) -> usize {
    number.wrapping_mul(7919) % among
}

/// Takes the next element, in a mixed radix notation of `number`.
fn pick<'a>(number: &mut usize, from: &[&'a str]) -> &'a str {
    let choice = from[*number % from.len()];
    *number /= from.len();
    choice
}

/// Lengths of turns in characters, twenty that are equally frequent in long chats of two people: the 2.5th,
/// 7.5th, ... percentile of LoCoMo's turns, below them the shortest that is told apart from others.
const LENGTHS: [usize; 20] =
    [60, 60, 60, 68, 76, 84, 92, 101, 110, 121, 132, 143, 156, 168, 183, 199, 218, 240, 273, 338];

/// The text of one turn without its speaker, as long as people's turns are: 144 characters on average.
pub fn sentence(number: usize) -> String {
    let length = LENGTHS[spread(number, LENGTHS.len())];
    let mut text = clause(number);
    let own = text.len();
    for further in 1.. {
        if text.len() >= length {
            break;
        }
        text.push_str(". ");
        // Of turns far away, so that no neighbour says the same.
        text.push_str(&clause(number + 100_003 * further));
    }
    match text[..length.max(own).min(text.len())].rfind(' ') {
        Some(end) if end > own => text[..end].to_owned(),
        _ => text[..own].to_owned(),
    }
}

/// Some 60 characters, or twice as many for every second.
fn clause(number: usize) -> String {
    let among = PEOPLE.len() * ACTIVITIES.len() * PLACES.len() * TIMES.len() * REMARKS.len();
    let mut rest = spread(number, among);
    let (activity, person) = (pick(&mut rest, &ACTIVITIES), pick(&mut rest, &PEOPLE));
    let (place, time) = (pick(&mut rest, &PLACES), pick(&mut rest, &TIMES));
    let remark = pick(&mut rest, &REMARKS);
    match number % 2 {
        0 => format!("You know, {person} {activity} {place} {time}. {remark}"),
        _ => format!("{time}, {person} {activity} {place}"),
    }
}

/// A turn for memory_ingest_batch, 20 to a session.
pub fn turn(number: usize) -> Value {
    json!({
        "session_id": format!("session {}", number / 20),
        "role": "user",
        "content": sentence(number),
        "metadata": {"name": SPEAKERS[number % 2]},
    })
}

/// What is embedded of a turn: its speaker and its text.
pub fn indexed_text(number: usize) -> String {
    format!("{}: {}", SPEAKERS[number % 2], sentence(number))
}

/// How many different questions there are.
pub const QUESTIONS: usize = ASKED.len() * 2 * PEOPLE.len() * ACTIVITIES.len();

/// A source of questions none of which was asked before: the model server remembers embeddings and
/// scores, and a remembered answer measures nothing.
#[derive(Debug, Default)]
pub struct FreshQuestions {
    asked: usize,
}

impl FreshQuestions {
    pub fn another(&mut self) -> String {
        let mut rest = spread(self.asked, QUESTIONS);
        // Beyond the different ones a running number makes them so.
        let round = self.asked / QUESTIONS;
        self.asked += 1;
        let template = pick(&mut rest, &ASKED);
        let (speaker, person) = (pick(&mut rest, &SPEAKERS), pick(&mut rest, &PEOPLE));
        let activity = pick(&mut rest, &ACTIVITIES);
        let mut question = template.to_owned();
        for part in [speaker, person, activity] {
            question = question.replacen("{}", part, 1);
        }
        if round > 0 {
            question.push_str(&format!(" ({round})"));
        }
        question
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn texts_and_questions_do_not_repeat() {
        let sentences: HashSet<String> = (0..5000).map(sentence).collect();
        assert_eq!(sentences.len(), 5000);
        let mut source = FreshQuestions::default();
        let questions: HashSet<String> = (0..QUESTIONS + 50).map(|_| source.another()).collect();
        assert_eq!(questions.len(), QUESTIONS + 50);
        assert!(questions.iter().all(|question| !question.contains("{}")));
    }
}
