//! multi_fact_tracking: facts that have nothing to do with each other, each of which is asked about.

use super::topic;
use crate::scenario::Scenario;

pub const SCENARIO: Scenario = Scenario {
    name: "multi_fact_tracking",
    tests: "Independent recall of multiple facts",
    changes: 0.15,
    in_pairs: false,
    topics: &[
        topic(
            "dog",
            "My dog is called {}.",
            "We have another dog now, it is called {}.",
            "The user's dog is called {}.",
            "What is the name of my dog?",
            &["Balu", "Fiona", "Rex"],
        ),
        topic(
            "sister",
            "My sister lives in {}.",
            "My sister moved, she lives in {} now.",
            "The user's sister lives in {}.",
            "In which town does my sister live?",
            &["Porto", "Ghent", "Tallinn"],
        ),
        topic(
            "coffee",
            "I take my coffee with {}.",
            "These days I take my coffee with {}.",
            "The user takes coffee with {}.",
            "How do I like my coffee?",
            &["oat milk", "cinnamon", "honey"],
        ),
        topic(
            "flight",
            "My flight to Tokyo leaves on {}.",
            "My flight to Tokyo was moved, it leaves on {}.",
            "The user's flight to Tokyo leaves on {}.",
            "When does my flight to Tokyo leave?",
            &["12 May", "19 May", "3 June"],
        ),
        topic(
            "work",
            "I work as {}.",
            "I have a new job, I work as {}.",
            "The user works as {}.",
            "What is my profession?",
            &["a nurse", "a surveyor", "a librarian"],
        ),
        topic(
            "locker",
            "The number of my locker at the gym is {}.",
            "I got another locker at the gym, its number is {}.",
            "The number of the user's locker at the gym is {}.",
            "What number does my locker at the gym have?",
            &["4471", "9032", "1186"],
        ),
        topic(
            "instrument",
            "Our son plays the {} in the school orchestra.",
            "Our son switched, he plays the {} in the school orchestra.",
            "The user's son plays the {} in the school orchestra.",
            "Which instrument does our son play?",
            &["cello", "trumpet", "oboe"],
        ),
        topic(
            "painter",
            "My favourite painter is {}.",
            "Since the exhibition my favourite painter is {}.",
            "The user's favourite painter is {}.",
            "Which painter do I like best?",
            &["Vermeer", "Hopper", "Klimt"],
        ),
        topic(
            "garage",
            "The code of the garage door is {}.",
            "The code of the garage door was changed to {}.",
            "The code of the user's garage door is {}.",
            "How do I open the garage door?",
            &["7305", "2648", "5912"],
        ),
        topic(
            "novel",
            "I am reading the novel {}.",
            "I have begun another novel, I am reading {}.",
            "The user is reading the novel {}.",
            "Which novel am I reading?",
            &["Middlemarch", "Solaris", "Beloved"],
        ),
    ],
};
