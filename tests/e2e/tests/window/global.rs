//! `memory_clear` of global memory, which has to be confirmed: all sessions of the user rest on it.

use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, expect_error, shared_without_worker};

fn fill(name: &str) -> Client {
    let mut client = shared_without_worker().database(name).connect();
    run(
        &mut client,
        "SET memory_agent.embed_on_ingest = off;
         SELECT memory_ingest('s', 'user', 'In a session.');
         SELECT memory_ingest('global', 'user', 'Said in global.');
         SELECT memory_add('A global fact.', infer => false);
         SELECT memory_add('Another one.', 'global', infer => false);
         SELECT memory_add('Of coder.', infer => false, agent_id => 'coder');
         SELECT memory_add_document('# Doc'||chr(10)||'A document stays.', 'Doc')",
    );
    client
}

fn active(client: &mut Client) -> Vec<String> {
    let query = "SELECT content FROM memory_agent.entries \
                  WHERE state = 'active' AND kind <> 'document' ORDER BY content COLLATE \"C\"";
    values(client, query, &[])
}

#[test]
fn clearing_global_memory_is_confirmed() {
    let mut client = fill("clear_global");
    let before = active(&mut client);
    for call in [
        "memory_clear('global')",
        "memory_clear('global', 'alice')",
        "memory_clear('global', NULL)",
        "memory_clear('global', confirm_global => false)",
        "memory_clear('global', confirm_global => NULL)",
        "memory_clear('global', false, 'alice', 'default')",
    ] {
        let error = expect_error(client.query(&format!("SELECT {call}"), &[]), "22023");
        assert!(error.contains("confirm_global => true"), "{call}: {error}");
    }
    assert_eq!(active(&mut client), before);
    let turns: i32 =
        value(&mut client, "SELECT memory_clear('global', confirm_global => true)", &[]);
    assert_eq!(turns, 1);
    assert_eq!(active(&mut client), ["In a session.", "Of coder."]);
    let documents =
        "SELECT count(*) FROM memory_agent.entries WHERE kind = 'document' AND state = 'active'";
    assert!(value::<i64>(&mut client, documents, &[]) > 0);
    // History has a row for each, and they can come back.
    let events =
        "SELECT count(*) FROM memory_agent.history WHERE op = 'delete' AND reason = 'cleared'";
    assert_eq!(value::<i64>(&mut client, events, &[]), 3);
    let back =
        "SELECT memory_restore(id) FROM memory_agent.entries WHERE content = 'A global fact.'";
    assert!(value::<bool>(&mut client, back, &[]));
    assert_eq!(active(&mut client), ["A global fact.", "In a session.", "Of coder."]);
    // It is nobody's session that is not called so, and other sessions need nothing.
    assert_eq!(value::<i32>(&mut client, "SELECT memory_clear('Global')", &[]), 0);
    assert_eq!(
        value::<i32>(&mut client, "SELECT memory_clear('s', confirm_global => false)", &[]),
        1
    );
}

#[test]
fn global_memory_without_a_conversation_is_cleared_too() {
    let mut client = fill("clear_global_facts");
    let clear = "SELECT memory_clear('global', true, agent_id => 'coder')";
    assert_eq!(value::<i32>(&mut client, clear, &[]), 0);
    assert!(!active(&mut client).contains(&"Of coder.".to_owned()));
    assert!(active(&mut client).contains(&"A global fact.".to_owned()), "of another agent");
}
