//! What the chain shows: rows that were edited, taken away, moved, added or blanked.

use crate::{head, problems, remember, tamper, verify, wait_for_seals};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, expect_error, shared};

/// A database with six sealed rows of alice and two of bob.
fn sealed(name: &str) -> Client {
    let mut client = shared().database(name).connect();
    remember(&mut client, 1..7);
    run(&mut client, "SET memory_agent.user_id = 'bob'");
    remember(&mut client, 1..3);
    run(&mut client, "SET memory_agent.user_id = 'alice'");
    wait_for_seals(&mut client);
    client
}

#[test]
fn what_was_committed_is_sealed_in_order() {
    let mut client = sealed("history_sealed");
    let lines = verify(&mut client, "");
    let heads: Vec<_> = lines.iter().map(|line| (line.user.as_str(), line.seq)).collect();
    assert_eq!(heads, [("alice", Some(6)), ("bob", Some(2))]);
    assert!(lines.iter().all(|line| line.state == "intact"), "{lines:?}");
    let first = lines[0].clone();
    assert_eq!((first.sealed, first.unsealed), (Some(6), Some(0)));
    assert_eq!(first.detail.as_deref(), Some("6 rows sealed without a key"));
    let in_order: bool = value(
        &mut client,
        "SELECT bool_and(h.seq = n.number AND h.prev_hash IS NOT DISTINCT FROM n.before) FROM memory_agent.history h \
           JOIN (SELECT id, row_number() OVER w AS number, lag(hash) OVER w AS before \
                   FROM memory_agent.history WHERE user_id = 'alice' WINDOW w AS (ORDER BY at, id)) n USING (id)",
        &[],
    );
    assert!(in_order);
    // The chain goes on where it was.
    remember(&mut client, 7..9);
    wait_for_seals(&mut client);
    let kept = format!("'alice', 6, '\\x{}'", hex(first.hash.as_deref().unwrap()));
    let lines = verify(&mut client, &kept);
    assert_eq!((lines.len(), lines[0].seq, lines[0].state.as_str()), (1, Some(8), "intact"));
    // Nothing to say about a user without history.
    let none = verify(&mut client, "'carol'");
    assert_eq!((none.len(), none[0].seq, none[0].sealed), (1, None, Some(0)));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn every_kind_of_change_is_found_and_only_it() {
    let mut client = sealed("history_changed");
    let kept = head(&mut client);
    run(
        &mut client,
        "CREATE TABLE copy AS SELECT * FROM memory_agent.history; \
         CREATE FUNCTION put_back() RETURNS void LANGUAGE sql AS $$ \
            DELETE FROM memory_agent.history; INSERT INTO memory_agent.history SELECT * FROM copy $$",
    );
    let change = |set: &str, seq: i64| {
        format!("UPDATE memory_agent.history SET {set} WHERE user_id = 'alice' AND seq = {seq}")
    };
    for (what, statement, expected) in [
        ("op", change("op = 'delete'", 3), vec!["edited 3"]),
        ("actor", change("actor = 'mallory'", 3), vec!["edited 3"]),
        ("at", change("at = at - interval '1 microsecond'", 2), vec!["edited 2"]),
        ("entry", change("entry_id = gen_random_uuid()", 1), vec!["edited 1"]),
        ("job", change("job_id = gen_random_uuid()", 1), vec!["edited 1"]),
        ("hash", change("hash = NULL", 6), vec!["edited 6"]),
        ("commitment", change("commitment = sha256('')", 4), vec!["edited 4", "body 4"]),
        (
            "body",
            change("body = body || '{\"content\": \"Shelf 4 is empty.\"}'", 4),
            vec!["body 4"],
        ),
        ("reason", change("reason = 'because'", 4), vec!["body 4"]),
        ("salt", change("salt = NULL", 4), vec!["body 4"]),
        ("blank", change("body = NULL, salt = NULL, reason = NULL", 5), vec!["body gone 5"]),
        (
            "blank, with an erasure that never was",
            change("body = NULL, salt = NULL, erased_by = gen_random_uuid()", 5),
            vec!["body gone 5"],
        ),
        (
            "one row",
            "DELETE FROM memory_agent.history WHERE user_id = 'alice' AND seq = 1".into(),
            vec!["missing 2"],
        ),
        (
            "three rows",
            "DELETE FROM memory_agent.history WHERE user_id = 'alice' AND seq IN (2, 3, 5)".into(),
            vec!["missing 4", "missing 6"],
        ),
        (
            "a key's name",
            change("key_id = '0123456789abcdef'", 2),
            vec!["unknown key 2", "downgrade 3"],
        ),
    ] {
        tamper(&mut client, &statement);
        let mut found = problems(&mut client);
        found.sort();
        let mut expected = expected;
        expected.sort_unstable();
        assert_eq!(found, expected, "{what}");
        assert_eq!(verify(&mut client, "'bob'").len(), 1, "{what}: bob's chain is untouched");
        tamper(&mut client, "SELECT put_back()");
        assert_eq!(head(&mut client), kept, "{what}: put back");
    }

    // Two rows change places, hashes and all.
    tamper(
        &mut client,
        "UPDATE memory_agent.history SET seq = -seq WHERE user_id = 'alice' AND seq IN (3, 4); \
         UPDATE memory_agent.history SET seq = 7 + seq WHERE user_id = 'alice' AND seq < 0",
    );
    let found = problems(&mut client);
    for expected in ["reordered 3", "reordered 4"] {
        assert!(found.iter().any(|problem| problem == expected), "{found:?}");
    }
    tamper(&mut client, "SELECT put_back()");

    // The end is cut off and sealed again: only who kept the head knows.
    tamper(
        &mut client,
        "DELETE FROM memory_agent.history WHERE user_id = 'alice' AND seq = 6; \
         UPDATE memory_agent.history SET seq = NULL, prev_hash = NULL, hash = NULL \
          WHERE user_id = 'alice' AND seq = 5",
    );
    wait_for_seals(&mut client);
    assert_eq!(problems(&mut client), Vec::<String>::new());
    let arguments = format!("'alice', 6, '\\x{}'", hex(kept.hash.as_deref().unwrap()));
    let lines = verify(&mut client, &arguments);
    assert_eq!((lines[0].state.as_str(), lines[1].state.as_str()), ("broken", "head"));
    assert_eq!(lines[1].seq, Some(6));
}

#[test]
fn rows_of_0_1_0_are_sealed_with_their_reason() {
    let mut client = sealed("history_old");
    run(
        &mut client,
        "INSERT INTO memory_agent.history (id, user_id, op, reason, body, salt, commitment) \
         SELECT gen_random_uuid(), 'alice', 'delete', 'cleared', b, s, sha256(s || convert_to(b::text, 'UTF8')) \
           FROM (VALUES ('{\"a\": 1}'::jsonb, '\\x0102'::bytea)) v(b, s)",
    );
    wait_for_seals(&mut client);
    assert_eq!(problems(&mut client), Vec::<String>::new());
    tamper(
        &mut client,
        "UPDATE memory_agent.history SET reason = 'outdated' WHERE reason = 'cleared'",
    );
    assert_eq!(problems(&mut client), ["body 7"]);
}

#[test]
fn a_row_that_is_not_sealed_yet_is_checked_too() {
    let mut client =
        memory_agent_e2e::shared_without_worker().database("history_waiting").connect();
    remember(&mut client, 1..4);
    let lines = verify(&mut client, "");
    assert_eq!((lines[0].sealed, lines[0].unsealed, lines[0].seq), (Some(0), Some(3), None));
    tamper(
        &mut client,
        "UPDATE memory_agent.history SET body = '{}' WHERE id = (SELECT id FROM memory_agent.history LIMIT 1)",
    );
    assert_eq!(problems(&mut client), ["body"]);
}

#[test]
fn half_a_head_and_wrong_arguments_are_refused() {
    let mut client = shared().database("history_arguments").connect();
    for arguments in ["'alice', 1", "'alice', NULL, '\\x00'", "''"] {
        let query = format!("SELECT * FROM memory_verify_history({arguments})");
        expect_error(client.query(&query, &[]), "22023");
    }
    run(&mut client, "BEGIN READ ONLY; SELECT * FROM memory_verify_history(); COMMIT");
}
