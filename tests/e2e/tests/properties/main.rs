//! What holds for any input: texts come back as they were stored, filters and budgets are kept to, and
//! recall about the past agrees with a model of it.
//!
//! Every test prints its seed; `MEMORY_AGENT_TEST_SEED` repeats a run, `MEMORY_AGENT_LONG=1` makes
//! five times as many cases.

mod budgets;
mod filters;
#[path = "../common/random.rs"]
#[allow(dead_code, reason = "shared with suites that use other parts")]
mod random;
mod supersession;
mod texts;

use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use random::Random;

/// How many cases a test tries: `usual`, or more when asked for.
fn cases(usual: u32) -> u32 {
    if std::env::var_os("MEMORY_AGENT_LONG").is_some() { 5 * usual } else { usual }
}

/// A runner whose cases follow from the printed seed. Failing inputs are shrunk only so far, for each
/// attempt is a round trip to the server.
fn runner(purpose: &str, usual: u32) -> TestRunner {
    let config = Config {
        cases: cases(usual),
        failure_persistence: None,
        max_shrink_iters: 200,
        ..Config::default()
    };
    let seed = Random::seeded(purpose).bytes(32);
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed))
}
