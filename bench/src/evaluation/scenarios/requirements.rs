//! progressive_requirements: requirements that change again and again; only the last word counts.

use super::topic;
use crate::scenario::Scenario;

pub const SCENARIO: Scenario = Scenario {
    name: "progressive_requirements",
    tests: "Updates of facts: probes check the last, not the first",
    changes: 0.6,
    in_pairs: true,
    topics: &[
        topic(
            "load",
            "The app has to serve {} at the same time.",
            "The requirement changed: the app has to serve {} at the same time.",
            "The app has to serve {} at the same time.",
            "How many users does the app have to serve?",
            &["250 users", "1200 users", "6000 users", "40000 users"],
        ),
        topic(
            "export",
            "Reports have to be exported as {}.",
            "The customer wants it otherwise: reports have to be exported as {}.",
            "Reports have to be exported as {}.",
            "In which format do we export reports?",
            &["PDF", "Excel", "Parquet", "LaTeX"],
        ),
        topic(
            "refresh",
            "The dashboard has to refresh every {}.",
            "That was changed again: the dashboard has to refresh every {}.",
            "The dashboard has to refresh every {}.",
            "How often does the dashboard refresh?",
            &["60 seconds", "15 seconds", "5 minutes", "quarter of an hour"],
        ),
        topic(
            "retention",
            "Measurements have to be kept for {}.",
            "The new rule is that measurements have to be kept for {}.",
            "Measurements have to be kept for {}.",
            "How long do we keep the measurements?",
            &["2 years", "7 years", "18 months", "10 weeks"],
        ),
        topic(
            "sign-in",
            "The sign-in page has to offer {} accounts.",
            "Another change: the sign-in page has to offer {} accounts instead.",
            "The sign-in page has to offer {} accounts.",
            "Which accounts can people sign in with?",
            &["Google", "GitHub", "Okta", "Keycloak"],
        ),
        topic(
            "release",
            "The first release has to ship in {}.",
            "The date moved: the first release has to ship in {}.",
            "The first release has to ship in {}.",
            "When does the first release ship?",
            &["March", "April", "June", "September"],
        ),
        topic(
            "translation",
            "The interface has to be translated to {}.",
            "They changed their minds: the interface has to be translated to {} instead.",
            "The interface has to be translated to {}.",
            "Which language is the interface translated to?",
            &["French", "Korean", "Dutch", "Greek"],
        ),
        topic(
            "backup",
            "The backup has to run at {}.",
            "The backup collides with the import, it has to run at {}.",
            "The backup has to run at {}.",
            "At what time does the backup run?",
            &["1:30", "3:15", "4:45", "23:10"],
        ),
        topic(
            "audit log",
            "The audit log has to be sent to {}.",
            "New instruction: the audit log has to be sent to {}.",
            "The audit log has to be sent to {}.",
            "Where do we send the audit log?",
            &["Splunk", "Graylog", "Loki", "OpenSearch"],
        ),
        topic(
            "payments",
            "Payments have to go through {}.",
            "The contract was ended: payments have to go through {} now.",
            "Payments have to go through {}.",
            "Who handles our payments?",
            &["Stripe", "Adyen", "Mollie", "Klarna"],
        ),
    ],
};
