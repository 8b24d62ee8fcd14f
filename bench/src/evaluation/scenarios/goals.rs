//! goal_tracking: goals are named, sometimes moved, and asked about after other things were talked of.

use super::topic;
use crate::scenario::Scenario;

pub const SCENARIO: Scenario = Scenario {
    name: "goal_tracking",
    tests: "Persistence of goals and objectives",
    changes: 0.25,
    in_pairs: false,
    topics: &[
        topic(
            "thesis",
            "My goal is to hand in the thesis by {}.",
            "The goal moved: I want to hand in the thesis by {}.",
            "The user's goal is to hand in the thesis by {}.",
            "By when do I want to hand in the thesis?",
            &["1 May", "15 July", "30 September"],
        ),
        topic(
            "page load",
            "Our goal is to load the start page in {}.",
            "The goal for the start page is stricter now: it loads in {}.",
            "The goal is to load the start page in {}.",
            "How fast do we want the start page to load?",
            &["2 seconds", "900 milliseconds", "1.5 seconds"],
        ),
        topic(
            "customers",
            "Our objective is to win {} before the fair.",
            "The objective was changed: we want to win {} before the fair.",
            "The objective is to win {} before the fair.",
            "How many customers do we want to win before the fair?",
            &["40 new customers", "65 new customers", "110 new customers"],
        ),
        topic(
            "language",
            "My goal is to learn {} before the summer.",
            "I changed my goal: I want to learn {} before the summer.",
            "The user's goal is to learn {} before the summer.",
            "Which language do I want to learn?",
            &["Spanish", "Japanese", "Welsh"],
        ),
        topic(
            "launch",
            "The goal of this quarter is to launch the product in {}.",
            "The board changed the goal of this quarter: we launch the product in {}.",
            "The goal of this quarter is to launch the product in {}.",
            "In which country do we want to launch the product?",
            &["Brazil", "Poland", "Vietnam"],
        ),
        topic(
            "marathon",
            "My goal is to run the marathon in {}.",
            "My new goal is to run the marathon in {}.",
            "The user's goal is to run the marathon in {}.",
            "Which time am I aiming for in the marathon?",
            &["4 hours", "225 minutes", "208 minutes"],
        ),
        topic(
            "cluster",
            "The plan is to move {} to the new cluster first.",
            "The plan was changed: we move {} to the new cluster first.",
            "The plan is to move {} to the new cluster first.",
            "What do we want to move to the new cluster first?",
            &["billing", "the archive", "the mail server"],
        ),
        topic(
            "savings",
            "My goal is to save {} for the trip to Chile.",
            "The trip to Chile became dearer, my goal is to save {}.",
            "The user's goal is to save {} for the trip to Chile.",
            "How much do I want to save for the trip?",
            &["2500 euros", "3200 euros", "4100 euros"],
        ),
        topic(
            "coverage",
            "We aim to raise the test coverage to {}.",
            "The aim was raised: we want a test coverage of {}.",
            "The aim is to raise the test coverage to {}.",
            "Which test coverage do we aim for?",
            &["75 percent", "82 percent", "91 percent"],
        ),
        topic(
            "career",
            "I hope to become {} in two years.",
            "I thought about it again, I hope to become {} in two years.",
            "The user hopes to become {} in two years.",
            "What do I want to become?",
            &["a team lead", "an architect", "a trainer"],
        ),
    ],
};
