//! `memory_history`: what happened to a memory, told from any of its versions.

use crate::{fact, forget, quiet, restore, say, update};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, Json, Uuid, expect_error};

/// `op content` of the events, in order.
fn told(client: &mut Client, id: Uuid) -> Vec<String> {
    values(client, "SELECT concat_ws(' ', op, content) FROM memory_history($1)", &[&id])
}

#[test]
fn every_version_tells_the_same() {
    let mut client = quiet("history_versions");
    let turn = say(&mut client, "s", "A.");
    assert_eq!(told(&mut client, turn), ["ingest A."], "nothing happened since it came");
    let second = update(&mut client, turn, "B.");
    let third = update(&mut client, second, "C.");
    forget(&mut client, third);
    restore(&mut client, third);
    let events =
        ["ingest A.", "update A.", "add B.", "update B.", "add C.", "delete C.", "restore C."];
    for version in [turn, second, third] {
        assert_eq!(told(&mut client, version), events);
    }
    say(&mut client, "s", "Something else.");
    let known = fact(&mut client, None, "D.");
    update(&mut client, known, "E.");
    assert_eq!(told(&mut client, known), ["add D.", "update D.", "add E."]);
    assert!(told(&mut client, Uuid::from_u128(7)).is_empty());
    expect_error(client.query("SELECT memory_history(NULL)", &[]), "22004");
}

#[test]
fn it_says_when_who_and_what() {
    let mut client = quiet("history_columns");
    let turn = say(&mut client, "s", "Hello.");
    forget(&mut client, turn);
    let row = client
        .query_one(
            "SELECT h.actor = session_user, h.at BETWEEN now() - interval '1 minute' AND clock_timestamp(), \
                    h.entry, h.job_id IS NULL AND h.reason IS NULL \
               FROM memory_history($1) h WHERE h.op = 'delete'",
            &[&turn],
        )
        .unwrap();
    assert_eq!((row.get(0), row.get(1), row.get(3)), (true, true, true));
    let entry: Json = row.get(2);
    assert_eq!(entry["state"], "inactive");
    assert_eq!(entry["user_id"], "alice");
    assert_eq!(entry.get("embedding"), None);
}

/// Of a session that was cleared its summaries have a history too.
#[test]
fn summaries_have_one() {
    let mut client = quiet("history_summaries");
    let turn = say(&mut client, "s", "Hello.");
    crate::summarise(&mut client, "s", &[turn]);
    run(&mut client, "SELECT memory_clear('s')");
    let summary: Uuid = value(&mut client, "SELECT id FROM memory_agent.session_summaries", &[]);
    assert_eq!(told(&mut client, summary), ["delete So they said."]);
}

/// A reader reads the history of what is theirs, without any right on the table.
#[test]
fn readers_see_their_own() {
    let mut client = quiet("history_reader");
    let known = fact(&mut client, None, "A.");
    let bobs: Uuid =
        value(&mut client, "SELECT memory_add('B.', user_id => 'bob', infer => false)", &[]);
    run(
        &mut client,
        "CREATE ROLE historian; SELECT memory_grant('historian', 'reader'); SET ROLE historian",
    );
    run(&mut client, "SET memory_agent.user_id = 'alice'");
    assert_eq!(told(&mut client, known), ["add A."]);
    assert!(told(&mut client, bobs).is_empty());
    expect_error(client.query("SELECT * FROM memory_agent.history", &[]), "42501");
    expect_error(client.query("SELECT memory_forget($1)", &[&known]), "42501");
    run(&mut client, "RESET ROLE; DROP OWNED BY historian; DROP ROLE historian");
}
