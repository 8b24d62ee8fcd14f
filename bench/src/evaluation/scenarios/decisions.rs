//! decision_tracking: a team decides things, and changes its mind about some of them.

use super::topic;
use crate::scenario::Scenario;

pub const SCENARIO: Scenario = Scenario {
    name: "decision_tracking",
    tests: "Recall of architectural decisions over time",
    changes: 0.25,
    in_pairs: false,
    topics: &[
        topic(
            "database",
            "Decision: we will use {} as the database of the order service.",
            "We changed our minds: the order service will use {} as its database.",
            "The team decided to use {} as the database of the order service.",
            "Which database does the order service use?",
            &["PostgreSQL", "MySQL", "CockroachDB"],
        ),
        topic(
            "frontend",
            "Let's go with {} as the frontend framework of the customer portal.",
            "After the trial we decided to build the customer portal with {} instead.",
            "The team chose {} as the frontend framework of the customer portal.",
            "What is the frontend of the customer portal built with?",
            &["React", "Svelte", "Angular"],
        ),
        topic(
            "queue",
            "We decided to send events between the services through {}.",
            "Change of plan: events between the services go through {} now.",
            "The team decided to send events between services through {}.",
            "How do events get from one service to another?",
            &["RabbitMQ", "Kafka", "NATS"],
        ),
        topic(
            "staging",
            "We settled on {} for hosting the staging environment.",
            "We decided to move the staging environment to {}.",
            "The staging environment is hosted at {}.",
            "Where is our staging environment hosted?",
            &["Hetzner", "DigitalOcean", "Linode"],
        ),
        topic(
            "login",
            "We agreed that users log in with {}.",
            "The login was decided anew: users log in with {}.",
            "The team decided that users log in with {}.",
            "How do users log in?",
            &["magic links", "passkeys", "one-time codes"],
        ),
        topic(
            "api",
            "Decision: the public API will be offered as {}.",
            "We decided again about the public API: it will be offered as {}.",
            "The team decided to offer the public API as {}.",
            "In which style do we offer the public API?",
            &["GraphQL", "gRPC", "JSON-RPC"],
        ),
        topic(
            "licence",
            "We opted for the {} licence for our client library.",
            "Legal asked us to switch: our client library gets the {} licence.",
            "The team chose the {} licence for the client library.",
            "Under which licence do we publish the client library?",
            &["MIT", "Apache", "Mozilla"],
        ),
        topic(
            "monitoring",
            "We have chosen {} to monitor production.",
            "We decided to monitor production with {} from now on.",
            "The team decided to monitor production with {}.",
            "What do we monitor production with?",
            &["Prometheus", "Datadog", "Zabbix"],
        ),
        topic(
            "region",
            "We decided to run production in the data centre in {}.",
            "We decided to move production to the data centre in {}.",
            "Production runs in the data centre in {}.",
            "In which city is the data centre of production?",
            &["Frankfurt", "Dublin", "Stockholm"],
        ),
        topic(
            "mobile",
            "We went with {} for writing the mobile app.",
            "We decided to rewrite the mobile app in {}.",
            "The team decided to write the mobile app in {}.",
            "What is the mobile app written in?",
            &["Flutter", "Kotlin", "Swift"],
        ),
    ],
};
