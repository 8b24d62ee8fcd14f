//! Whose chain may be read by whom.

use crate::{remember, verify};
use memory_agent_e2e::memory::run;
use memory_agent_e2e::{expect_error, shared_without_worker};

#[test]
fn users_read_their_own_chain_and_administrators_all() {
    let database = shared_without_worker().database("history_rights");
    let mut owner = database.connect();
    run(
        &mut owner,
        "CREATE ROLE history_reader LOGIN; SELECT memory_grant('history_reader', 'reader'); \
         CREATE ROLE history_admin LOGIN; SELECT memory_grant('history_admin', 'admin'); \
         CREATE ROLE history_nobody LOGIN",
    );
    remember(&mut owner, 1..3);
    run(&mut owner, "SET memory_agent.user_id = 'bob'");
    remember(&mut owner, 1..2);

    let users = |lines: Vec<crate::Line>| -> Vec<String> {
        lines.into_iter().map(|line| line.user).collect()
    };
    let mut reader = database.connect_as("history_reader");
    assert_eq!(users(verify(&mut reader, "")), ["alice"]);
    assert_eq!(users(verify(&mut reader, "'alice'")), ["alice"]);
    for other in ["'bob'", "'*'"] {
        let query = format!("SELECT * FROM memory_verify_history({other})");
        expect_error(reader.query(&query, &[]), "42501");
    }
    let mut admin = database.connect_as("history_admin");
    assert_eq!(users(verify(&mut admin, "")), ["alice", "bob"]);
    assert_eq!(users(verify(&mut admin, "'bob'")), ["bob"]);
    // A head is that of one user: the session's, unless one is named.
    assert_eq!(users(verify(&mut admin, "NULL, 1, '\\x00'")), ["alice", "alice"]);
    let mut nobody = database.connect_as("history_nobody");
    expect_error(nobody.query("SELECT * FROM memory_verify_history()", &[]), "42501");
}
