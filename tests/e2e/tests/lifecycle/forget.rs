//! `memory_forget`: gone from recall and the window, kept for history and the past.

use crate::{expect_counters, fact, forget, moment, quiet, say, state, window};
use memory_agent_e2e::memory::{recalled_texts, run, value, values};
use memory_agent_e2e::{Json, Uuid, expect_error};

#[test]
fn what_is_forgotten_is_found_in_the_past_only() {
    let mut client = quiet("forget_past");
    let turn = say(&mut client, "s", "The code of the gate is 4711.");
    let kept = say(&mut client, "s", "The gate is green.");
    let known = fact(&mut client, Some("s"), "Knows the code of the gate.");
    let global = fact(&mut client, None, "Has a gate.");
    let before = moment(&mut client);
    for id in [turn, known, global] {
        assert!(forget(&mut client, id));
        assert_eq!(state(&mut client, id), "inactive deleted ended");
        assert!(!forget(&mut client, id), "once is enough");
    }
    assert_eq!(recalled_texts(&mut client, "'gate', 's'"), ["The gate is green."]);
    assert_eq!(window(&mut client, "s"), ["The gate is green."]);
    assert_eq!(recalled_texts(&mut client, &format!("'gate', 's', as_of => '{before}'")).len(), 4);
    expect_counters(&mut client, "s");
    assert!(forget(&mut client, kept));
    expect_counters(&mut client, "s");
    // The text may be said again.
    say(&mut client, "s", "The gate is green.");
    fact(&mut client, None, "Has a gate.");
    assert_eq!(recalled_texts(&mut client, "'gate', 's'").len(), 2);
    expect_counters(&mut client, "s");
}

#[test]
fn a_rollback_forgets_nothing() {
    let mut client = quiet("forget_rollback");
    let turn = say(&mut client, "s", "Hello.");
    run(&mut client, "BEGIN");
    assert!(forget(&mut client, turn));
    run(&mut client, "ROLLBACK");
    assert_eq!(window(&mut client, "s"), ["Hello."]);
    expect_counters(&mut client, "s");
}

#[test]
fn the_reason_is_kept() {
    let mut client = quiet("forget_reason");
    let turn = say(&mut client, "s", "Hello.");
    let sql = "SELECT memory_forget($1, 'said by mistake')";
    assert!(value::<bool>(&mut client, sql, &[&turn]));
    let (reason, body): (String, Json) = {
        let row = client
            .query_one("SELECT reason, entry FROM memory_history($1) WHERE op = 'delete'", &[&turn])
            .unwrap();
        (row.get(0), row.get(1))
    };
    assert_eq!(reason, "said by mistake");
    assert_eq!(body["content"], "Hello.");
    let turn = say(&mut client, "s", "Hello again.");
    let long = "x".repeat(1001);
    expect_error(client.query("SELECT memory_forget($1, $2)", &[&turn, &long]), "22023");
    expect_error(client.query("SELECT memory_forget(NULL)", &[]), "22004");
    let blank = "SELECT memory_forget($1, ' '), (SELECT reason IS NULL FROM memory_history($1) WHERE op = 'delete')";
    assert!(value::<bool>(&mut client, blank, &[&turn]));
}

/// The ids of other users are as unknown as any other, and what all share is the administrators'.
#[test]
fn only_the_user_s_own_is_forgotten() {
    let mut client = quiet("forget_others");
    run(&mut client, "CREATE ROLE forgetter; SELECT memory_grant('forgetter')");
    let bobs: Uuid =
        value(&mut client, "SELECT memory_ingest('s', 'user', 'Of Bob.', user_id => 'bob')", &[]);
    let shared: Uuid = value(
        &mut client,
        "SELECT memory_add('The gate is locked.', user_id => '*', infer => false)",
        &[],
    );
    run(&mut client, "SET ROLE forgetter; SET memory_agent.user_id = 'alice'");
    for id in [bobs, shared, Uuid::from_u128(7)] {
        assert!(!forget(&mut client, id));
        assert!(!value::<bool>(&mut client, "SELECT memory_restore($1)", &[&id]));
        assert!(
            values::<String>(&mut client, "SELECT op FROM memory_history($1)", &[&id]).is_empty()
        );
    }
    for user in ["bob", "*"] {
        let call = client.query("SELECT memory_forget($1, user_id => $2)", &[&bobs, &user]);
        expect_error(call, "42501");
    }
    run(&mut client, "RESET ROLE");
    assert!(value::<bool>(&mut client, "SELECT memory_forget($1, user_id => '*')", &[&shared]));
    assert!(value::<bool>(&mut client, "SELECT memory_forget($1, user_id => 'bob')", &[&bobs]));
    let sql = "SELECT memory_restore($1, '*')";
    assert!(value::<bool>(&mut client, sql, &[&shared]));
    assert_eq!(recalled_texts(&mut client, "'gate'"), ["The gate is locked."]);
    let sql = "SELECT memory_update($1, 'The gate is open.', user_id => '*')";
    let new: Uuid = value(&mut client, sql, &[&shared]);
    assert_ne!(new, shared);
    assert_eq!(recalled_texts(&mut client, "'gate'"), ["The gate is open."]);
    run(&mut client, "DROP OWNED BY forgetter; DROP ROLE forgetter");
}
