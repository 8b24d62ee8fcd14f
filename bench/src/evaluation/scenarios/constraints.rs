//! constraint_awareness: limits are named once and matter when a task is at hand. The questions are
//! about the task.

use super::topic;
use crate::scenario::Scenario;

pub const SCENARIO: Scenario = Scenario {
    name: "constraint_awareness",
    tests: "Recall of constraints when relevant",
    changes: 0.2,
    in_pairs: false,
    topics: &[
        topic(
            "costs",
            "Important: the cloud infrastructure must not cost more than {} a month.",
            "The limit was changed: the cloud infrastructure must not cost more than {} a month.",
            "The cloud infrastructure must not cost more than {} a month.",
            "Can we afford two more servers in the cloud?",
            &["900 dollars", "1250 dollars", "640 dollars"],
        ),
        topic(
            "releases",
            "Never deploy the web shop on {}, that is when most people buy.",
            "The statistics changed: never deploy the web shop on {}.",
            "The web shop must never be deployed on {}.",
            "On which day shall we deploy the web shop?",
            &["Fridays", "Mondays", "Thursdays"],
        ),
        topic(
            "residence",
            "Constraint: the data of our customers must stay in {}.",
            "The contract was changed: the data of our customers must stay in {}.",
            "The data of customers must stay in {}.",
            "Where can we store copies of customer data?",
            &["Germany", "Switzerland", "Canada"],
        ),
        topic(
            "latency",
            "The search endpoint must answer within {}.",
            "The requirement was changed: the search endpoint must answer within {}.",
            "The search endpoint must answer within {}.",
            "Is the new search endpoint fast enough?",
            &["150 milliseconds", "280 milliseconds", "75 milliseconds"],
        ),
        topic(
            "browsers",
            "The web client must support browsers as old as {}.",
            "After the survey the web client must support browsers as old as {}.",
            "The web client must support browsers as old as {}.",
            "Which old browsers do I have to test the web client with?",
            &["Safari 13", "Safari 15", "Safari 16"],
        ),
        topic(
            "passwords",
            "Passwords must have at least {}.",
            "The auditors want more: passwords must have at least {}.",
            "Passwords must have at least {}.",
            "How do I check whether a password is long enough?",
            &["10 characters", "14 characters", "18 characters"],
        ),
        topic(
            "runtime",
            "All scripts have to run on {}, nothing newer is installed there.",
            "The hosts were upgraded: all scripts have to run on {}.",
            "All scripts have to run on {}.",
            "May I use the newest Python syntax in the scripts?",
            &["Python 3.8", "Python 3.9", "Python 3.11"],
        ),
        topic(
            "uploads",
            "Uploaded pictures must not exceed {}.",
            "The limit was raised: uploaded pictures must not exceed {}.",
            "Uploaded pictures must not exceed {}.",
            "How large may a picture be that somebody uploads?",
            &["4 megabytes", "12 megabytes", "25 megabytes"],
        ),
        topic(
            "meetings",
            "Do not schedule meetings with the Chicago office before {}.",
            "Their hours changed: do not schedule meetings with the Chicago office before {}.",
            "Meetings with the Chicago office must not begin before {}.",
            "When can the meeting with the Chicago office begin?",
            &["15:30", "16:15", "14:45"],
        ),
        topic(
            "retention",
            "Requirement: access logs must be deleted after {}.",
            "The requirement was changed: access logs must be deleted after {}.",
            "Access logs must be deleted after {}.",
            "For how long can we look into old access logs?",
            &["30 days", "45 days", "90 days"],
        ),
    ],
};
