//! Ten thousand random calls by random users, with other users' ids and hostile values among the
//! arguments: nothing that comes back, neither rows nor errors nor messages, is another user's, nothing
//! of another user changes, and the LLM is never sent two users' texts at once.
//!
//! Every text that a user stores carries a secret of theirs, a word that nobody else ever writes. What
//! is returned is searched for the secrets of all others. One user, the witness, does nothing: all
//! their rows, and all answers they get, are the same afterwards.
//!
//! Each identity mode has a test of its own, on a cluster of its own. Tests print their seed;
//! `MEMORY_AGENT_TEST_SEED` repeats the calls, `MEMORY_AGENT_LONG=1` makes five times as many.

mod answer;
mod calls;
mod diary;
mod draw;
mod llm;
mod people;
#[path = "../common/random.rs"]
#[allow(dead_code, reason = "shared with suites that use other parts")]
mod random;
mod twins;
mod witness;
mod world;

use calls::CALLS;
use memory_agent_e2e::memory::values;
use memory_agent_e2e::shared;
use people::Mode;
use std::collections::BTreeSet;
use world::World;

/// Calls of each test; three tests make ten thousand.
const STEPS: u32 = 3_400;

fn steps() -> u32 {
    if std::env::var_os("MEMORY_AGENT_LONG").is_some() { 5 * STEPS } else { STEPS }
}

fn nothing_leaks(mode: Mode) {
    let mut world = World::build(mode);
    let before = world.witness.statement(&mut world.superuser);
    for _ in 0..steps() {
        world.step();
    }
    world.call_the_rest();
    world.finish();
    let after = world.witness.statement(&mut world.superuser);
    witness::assert_same(&before, &after);
    world.assert_everybody_owns_something();
}

#[test]
fn nothing_leaks_in_mode_setting() {
    nothing_leaks(Mode::Setting);
}

#[test]
fn nothing_leaks_in_mode_required() {
    nothing_leaks(Mode::Required);
}

#[test]
fn nothing_leaks_in_mode_role() {
    nothing_leaks(Mode::Role);
}

#[test]
fn nothing_leaks_in_mode_claims() {
    nothing_leaks(Mode::Claims);
}

/// A function that is new has to be called here.
#[test]
fn every_function_is_called() {
    let mut client = shared().database("isolation_functions").connect();
    let functions: Vec<String> = values(
        &mut client,
        "SELECT DISTINCT p.proname::text FROM pg_depend d \
           JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'memory_agent' \
           JOIN pg_proc p ON p.oid = d.objid AND d.classid = 'pg_proc'::regclass \
          WHERE d.deptype = 'e' AND p.pronamespace = 'public'::regnamespace",
        &[],
    );
    let called: BTreeSet<String> = CALLS.iter().map(|call| call.function.to_owned()).collect();
    assert_eq!(called, BTreeSet::from_iter(functions), "CALLS has to name each public function");
}
