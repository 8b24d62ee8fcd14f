//! Erasing global memory has to be confirmed: all sessions of the user rest on it.

use crate::{SECRET, tables_with, verified};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Json, expect_error, shared_without_worker};

#[test]
fn erasing_global_memory_is_confirmed_and_complete() {
    let mut client = shared_without_worker().database("erase_global").connect();
    run(
        &mut client,
        &format!(
            "SET memory_agent.embed_on_ingest = off; SET memory_agent.user_id = 'alice';
             SELECT memory_ingest('s', 'user', 'In a session.');
             SELECT memory_ingest('global', 'user', '{SECRET} said');
             SELECT memory_add('{SECRET} known', infer => false, fact_key => 'k');
             SELECT memory_add('{SECRET} known better', 'global', infer => false, fact_key => 'k');
             SELECT memory_add_document('# Doc'||chr(10)||'{SECRET}', 'Doc');
             SELECT memory_add('of coder', infer => false, agent_id => 'coder')"
        ),
    );
    for call in [
        "memory_erase(session_id => 'global')",
        "memory_erase('alice', 'global')",
        "memory_erase(session_id => 'global', confirm_global => false)",
        "memory_erase(session_id => 'global', confirm_global => NULL)",
    ] {
        let error = expect_error(client.query(&format!("SELECT {call}"), &[]), "22023");
        assert!(error.contains("confirm_global => true"), "{call}: {error}");
    }
    assert!(!tables_with(&mut client, SECRET).is_empty());
    let counts: Json = value(
        &mut client,
        "SELECT memory_erase(session_id => 'global', confirm_global => true, reason => 'ticket 7')",
        &[],
    );
    assert_eq!(counts["sessions"], 1, "{counts}");
    assert_eq!(tables_with(&mut client, SECRET), [""; 0]);
    let left: Vec<String> =
        values(&mut client, "SELECT content FROM memory_agent.entries ORDER BY content", &[]);
    assert_eq!(left, ["In a session.", "of coder"]);
    let sealed: Vec<String> = verified(&mut client);
    assert_eq!(sealed, ["intact"]);
    // Another session needs no word, and takes it.
    let erase = "SELECT memory_erase(session_id => 's', confirm_global => true) ->> 'entries'";
    assert_eq!(value::<String>(&mut client, erase, &[]), "1");
    // A user is erased with global memory, as before.
    run(&mut client, "SELECT memory_erase(user_id => 'alice')");
    let rows = "SELECT count(*) FROM memory_agent.entries";
    assert_eq!(value::<i64>(&mut client, rows, &[]), 0);
}
