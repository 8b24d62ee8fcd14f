//! Who may erase what, and what has to be named.

use crate::{erase, tables_with};
use memory_agent_e2e::memory::{ingest, run, value};
use memory_agent_e2e::{Uuid, expect_error, shared_without_worker};

#[test]
fn users_erase_their_own_and_administrators_anybodys() {
    let database = shared_without_worker().database("erase_rights");
    let mut owner = database.connect();
    run(
        &mut owner,
        "CREATE ROLE erase_reader LOGIN; SELECT memory_grant('erase_reader', 'reader'); \
         CREATE ROLE erase_user LOGIN; SELECT memory_grant('erase_user', 'user'); \
         CREATE ROLE erase_admin LOGIN; SELECT memory_grant('erase_admin', 'admin')",
    );
    ingest(&mut owner, "s", "Of alice.");
    let of_bob: Uuid =
        value(&mut owner, "SELECT memory_ingest('s', 'user', 'Of bob.', user_id => 'bob')", &[]);
    run(&mut owner, "SELECT memory_ingest('s', 'user', 'Of all.', user_id => '*')");

    let mut reader = database.connect_as("erase_reader");
    expect_error(reader.query("SELECT memory_erase(session_id => 's')", &[]), "42501");
    let mut user = database.connect_as("erase_user");
    for other in ["user_id => 'bob'", "user_id => '*'", "session_id => 's', user_id => 'bob'"] {
        expect_error(user.query(&format!("SELECT memory_erase({other})"), &[]), "42501");
    }
    // Somebody else's id is an unknown one.
    assert_eq!(erase(&mut user, &format!("id => '{of_bob}'"))["entries"], 0);
    assert_eq!(erase(&mut user, "session_id => 's'")["entries"], 1);
    assert_eq!(tables_with(&mut owner, "Of alice."), Vec::<String>::new());
    assert_eq!(tables_with(&mut owner, "Of bob."), ["entries"]);

    let mut admin = database.connect_as("erase_admin");
    assert_eq!(erase(&mut admin, &format!("id => '{of_bob}', user_id => 'bob'"))["entries"], 1);
    assert_eq!(erase(&mut admin, "user_id => '*'")["entries"], 1);
    let left: i64 = value(&mut owner, "SELECT count(*) FROM memory_agent.entries", &[]);
    assert_eq!(left, 0);
}

#[test]
fn one_thing_has_to_be_named() {
    let mut client = shared_without_worker().database("erase_arguments").connect();
    ingest(&mut client, "s", "I like tea.");
    for arguments in [
        "",
        "reason => 'because'",
        "agent_id => 'default'",
        "user_id => 'alice', agent_id => 'default'",
        "session_id => 's', id => gen_random_uuid()",
        "session_id => ''",
        "user_id => ''",
        "session_id => 's', reason => repeat('x', 1001)",
    ] {
        let query = format!("SELECT memory_erase({arguments})");
        expect_error(client.query(&query, &[]), "22023");
    }
    run(&mut client, "BEGIN READ ONLY");
    expect_error(client.query("SELECT memory_erase(session_id => 's')", &[]), "25006");
    run(&mut client, "ROLLBACK");
    assert_eq!(value::<i64>(&mut client, "SELECT count(*) FROM memory_agent.entries", &[]), 1);
}
