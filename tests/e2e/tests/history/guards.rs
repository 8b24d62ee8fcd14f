//! Nobody changes history by accident: not its owner, not a superuser who has not said so.

use crate::{problems, remember, wait_for_seals};
use memory_agent_e2e::memory::value;
use memory_agent_e2e::{expect_error, shared, shared_without_worker};

#[test]
fn history_is_append_only_also_for_its_owner() {
    let mut client = shared_without_worker().database("history_guards").connect();
    remember(&mut client, 1..3);
    for statement in [
        "UPDATE memory_agent.history SET op = op",
        "DELETE FROM memory_agent.history",
        "TRUNCATE memory_agent.history",
        "INSERT INTO memory_agent.history SELECT * FROM memory_agent.history \
            ON CONFLICT (user_id, id) DO UPDATE SET op = 'x'",
    ] {
        let message = expect_error(client.batch_execute(statement), "42501");
        assert!(message.contains("append-only") && message.contains("memory_erase"), "{message}");
    }
    assert_eq!(value::<i64>(&mut client, "SELECT count(*) FROM memory_agent.history", &[]), 2);
}

#[test]
fn the_guard_closes_after_a_seal_and_after_an_error() {
    let mut client = shared().database("history_closed").connect();
    remember(&mut client, 1..3);
    wait_for_seals(&mut client);
    let is_open = "SELECT memory_agent.history_is_open()";
    assert!(!value::<bool>(&mut client, is_open, &[]));
    expect_error(client.batch_execute("DELETE FROM memory_agent.history"), "42501");
    // No setting opens it.
    assert!(client.batch_execute("SET memory_agent.history_is_open = on").is_err());
    assert!(!value::<bool>(&mut client, is_open, &[]));
    assert_eq!(problems(&mut client), Vec::<String>::new());
}
