//! failure_memory: something did not work, for a reason that is corrected now and then. The questions
//! are those of a user who is about to try it again.

use super::topic;
use crate::scenario::Scenario;

pub const SCENARIO: Scenario = Scenario {
    name: "failure_memory",
    tests: "Avoiding repeated failures",
    changes: 0.2,
    in_pairs: false,
    topics: &[
        topic(
            "migration",
            "The data migration with pgloader failed because of {}.",
            "We looked again: the data migration with pgloader failed because of {}.",
            "The data migration with pgloader failed because of {}.",
            "Shall we migrate the data with pgloader?",
            &["enum columns", "a full disk", "time zones"],
        ),
        topic(
            "build",
            "The build for ARM failed because of {}.",
            "I was wrong, the build for ARM failed because of {}.",
            "The build for ARM failed because of {}.",
            "Can we build for ARM too?",
            &["a missing linker", "an old glibc", "the openssl headers"],
        ),
        topic(
            "load test",
            "The load test of the checkout broke down at {}.",
            "The load test of the checkout was repeated and broke down at {}.",
            "The load test of the checkout broke down at {}.",
            "How many people can use the checkout at once?",
            &["300 users", "550 users", "820 users"],
        ),
        topic(
            "cache",
            "Caching pages with Varnish did not work because of {}.",
            "It turned out that caching pages with Varnish did not work because of {}.",
            "Caching pages with Varnish did not work because of {}.",
            "Why not cache the pages with Varnish?",
            &["session cookies", "vary headers", "personal greetings"],
        ),
        topic(
            "upgrade",
            "The upgrade to Node 20 failed because of {}.",
            "The true reason was found: the upgrade to Node 20 failed because of {}.",
            "The upgrade to Node 20 failed because of {}.",
            "Is it time to upgrade Node?",
            &["native modules", "the bcrypt package", "the test runner"],
        ),
        topic(
            "import",
            "The nightly import of products crashed because of {}.",
            "The log says that the nightly import of products crashed because of {}.",
            "The nightly import of products crashed because of {}.",
            "What do I have to look out for in the import of products?",
            &["duplicate numbers", "a malformed row", "a memory limit"],
        ),
        topic(
            "mail",
            "Sending invoices through the old mail relay failed because of {}.",
            "The provider says that the old mail relay failed because of {}.",
            "Sending invoices through the old mail relay failed because of {}.",
            "Can invoices be sent through the mail relay?",
            &["its SPF record", "a blocked port", "rate limiting"],
        ),
        topic(
            "restore",
            "Restoring the backup in the exercise failed because of {}.",
            "We repeated the exercise: restoring the backup failed because of {}.",
            "Restoring the backup failed because of {}.",
            "What went wrong when we restored the backup?",
            &["wrong ownership", "a missing WAL segment", "an expired certificate"],
        ),
        topic(
            "payment",
            "The test payment with the new card terminal failed because of {}.",
            "Support found that the card terminal's test payment failed because of {}.",
            "The test payment with the new card terminal failed because of {}.",
            "Does payment with the card terminal work?",
            &["its firmware", "a wrong currency", "the proxy server"],
        ),
        topic(
            "search",
            "The experiment with trigram search failed because of {}.",
            "In hindsight the experiment with trigram search failed because of {}.",
            "The experiment with trigram search failed because of {}.",
            "Should we try trigram search?",
            &["short queries", "Chinese titles", "index bloat"],
        ),
    ],
};
