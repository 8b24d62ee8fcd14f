//! `memory_ingest_once`, which the gateway stores turns with.

use crate::{cluster, database};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, Uuid, expect_error};

fn once(client: &mut Client, arguments: &str) -> (Uuid, bool) {
    let query = format!("SELECT id, is_new FROM memory_ingest_once({arguments})");
    let row = client.query_one(&query, &[]).unwrap_or_else(|error| panic!("{query}: {error:?}"));
    (row.get(0), row.get(1))
}

#[test]
fn a_turn_is_stored_once() {
    let mut client = database(cluster(), "turns_once");
    run(&mut client, "SET memory_agent.user_id = 'ann'");
    let (first, is_new) = once(&mut client, "'s', 'user', 'Hello.'");
    assert!(is_new);
    assert_eq!(once(&mut client, "'s', 'user', 'Hello.'"), (first, false));
    assert!(once(&mut client, "'other', 'user', 'Hello.'").1, "another session");
    let (answer, _) = once(&mut client, "'s', 'assistant', 'Hi.', 'k'");
    assert_eq!(once(&mut client, "'s', 'assistant', 'Something else.', 'k'"), (answer, false));
    assert!(once(&mut client, "'s', 'assistant', 'Hi.'").1, "an answer may be the same");
    assert!(once(&mut client, "'s', 'user', 'Bye.', 'k'").1, "the same key of another role");
    assert!(!once(&mut client, "'s', 'user', 'Bye.', 'k'").1);
    assert!(once(&mut client, "'s', 'user', 'Hello.'").1, "said again later");
    run(&mut client, "SET memory_agent.user_id = 'bob'");
    assert!(once(&mut client, "'s', 'user', 'Bye.', 'k'").1, "another user");
}

#[test]
fn a_key_that_never_changes_loses_no_turn() {
    let mut client = database(cluster(), "turns_constant_key");
    run(&mut client, "SET memory_agent.user_id = 'ann'");
    let (first, _) = once(&mut client, "'s', 'user', 'One.', 'k'");
    let (second, is_new) = once(&mut client, "'s', 'user', 'Two.', 'k'");
    assert!(is_new && second != first);
    assert_eq!(once(&mut client, "'s', 'user', 'One.', 'k'"), (first, false), "sent again");
    // An empty key is none: what is repeated is the latest turn alone.
    for key in ["''", "' '"] {
        once(&mut client, &format!("'empty', 'user', 'One.', {key}"));
        once(&mut client, &format!("'empty', 'user', 'Two.', {key}"));
        assert!(once(&mut client, &format!("'empty', 'user', 'One.', {key}")).1);
        let (answer, _) = once(&mut client, &format!("'empty', 'assistant', 'So.', {key}"));
        assert_ne!(once(&mut client, &format!("'empty', 'assistant', 'No.', {key}")).0, answer);
    }
    let keys: i64 = value(
        &mut client,
        "SELECT count(*) FROM memory_agent.entries \
          WHERE session_id = 'empty' AND metadata ? 'request_key'",
        &[],
    );
    assert_eq!(keys, 0);
}

#[test]
fn a_turn_that_has_expired_is_not_stored() {
    let mut client = database(cluster(), "turns_expired");
    run(&mut client, "SET memory_agent.user_id = 'ann'");
    for call in
        ["'s', 'user', 'Hello.'", "'k', 'user', 'Hello.', 'k'", "'k', 'assistant', 'Hi.', 'k'"]
    {
        let (first, _) = once(&mut client, call);
        run(&mut client, "UPDATE memory_agent.entries SET expires_at = now() - interval '1 s'");
        let (second, is_new) = once(&mut client, call);
        assert!(is_new && second != first, "{call}");
    }
    // What was said before the turn that has expired was said, and then something else was.
    once(&mut client, "'before', 'user', 'Yes.'");
    let (other, _) = once(&mut client, "'before', 'user', 'No.'");
    let expire =
        "UPDATE memory_agent.entries SET expires_at = now() - interval '1 s' WHERE id = $1";
    client.execute(expire, &[&other]).unwrap();
    assert!(once(&mut client, "'before', 'user', 'Yes.'").1);
}

#[test]
fn metadata_stays_as_it_is() {
    let mut client = database(cluster(), "turns_metadata");
    run(&mut client, "SET memory_agent.user_id = 'ann'");
    let metadata = r#"'{"n": 1.50, "o": {"a": {}}}'"#;
    once(&mut client, &format!("'s', 'user', 'Hello.', 'k\"1', metadata => {metadata}"));
    once(&mut client, "'s', 'user', 'Bye.', 'k2'");
    let found: Vec<String> = memory_agent_e2e::memory::values(
        &mut client,
        "SELECT metadata::text FROM memory_agent.entries ORDER BY created_at, id",
        &[],
    );
    assert_eq!(
        found,
        [r#"{"n": 1.50, "o": {"a": {}}, "request_key": "k\"1"}"#, r#"{"request_key": "k2"}"#]
    );
    let no_object =
        client.batch_execute("SELECT memory_ingest_once('s', 'user', 'x', metadata => '[]')");
    expect_error(no_object, "22023");
    let blank = client.batch_execute("SELECT memory_ingest_once('s', 'user', ' ')");
    expect_error(blank, "22023");
}

#[test]
fn many_at_once_store_one() {
    let mut client = database(cluster(), "turns_many");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = cluster().connect("turns_many");
                run(&mut client, "SET memory_agent.user_id = 'ann'");
                once(&mut client, "'new', 'user', 'All at once.'");
                once(&mut client, "'new', 'assistant', 'One.', 'k'");
            });
        }
    });
    let counts: String = value(
        &mut client,
        "SELECT string_agg(concat(role, ' ', n), ', ' ORDER BY role) \
           FROM (SELECT role, count(*) AS n FROM memory_agent.entries GROUP BY role) c",
        &[],
    );
    assert_eq!(counts, "assistant 1, user 1");
}

/// A turn with what the client sent before it: the ids of what it took the place of, and of its earlier answers.
fn with_history(client: &mut Client, said: &str, history: &str) -> (Vec<Uuid>, Vec<Uuid>) {
    let query = "SELECT replaced, answers FROM memory_ingest_once('s', 'user', $1, history => $2::text::jsonb)";
    let row = client.query_one(query, &[&said, &history]).expect("stored");
    (row.get(0), row.get(1))
}

#[test]
fn what_a_client_took_back_ends() {
    let mut client = database(cluster(), "turns_taken_back");
    run(&mut client, "SET memory_agent.user_id = 'ann'");
    once(&mut client, "'s', 'user', 'I am Ann.'");
    once(&mut client, "'s', 'assistant', 'Hello.'");
    let (old, _) = once(&mut client, "'s', 'user', 'I ski.'");
    let (answer, _) = once(&mut client, "'s', 'assistant', 'Where?'");
    let before =
        r#"[{"role": "user", "content": "I am Ann."}, {"role": "assistant", "content": "Hello."}]"#;
    // What only looks alike: another beginning, none, more.
    for history in [
        "[]",
        r#"[{"role": "user", "content": "I am Bob."}, {"role": "assistant", "content": "Hello."}]"#,
        r#"[{"role": "assistant", "content": "Hello."}, {"role": "user", "content": "I am Ann."}]"#,
    ] {
        run(&mut client, "BEGIN");
        assert_eq!(with_history(&mut client, "I sail.", history), (vec![], vec![]), "{history}");
        run(&mut client, "ROLLBACK");
    }
    assert_eq!(with_history(&mut client, "I ski.", before), (vec![], vec![answer]));
    // A turn of another session stays.
    let (other, _) = once(&mut client, "'other', 'assistant', 'Elsewhere.'");
    let again = format!("'s', 'assistant', 'In Oslo?', replaces => '{{{answer},{other}}}'");
    let row = client
        .query_one(&format!("SELECT id, replaced FROM memory_ingest_once({again})"), &[])
        .unwrap();
    let (new, replaced): (Uuid, Vec<Uuid>) = (row.get(0), row.get(1));
    assert_eq!(replaced, [answer]);
    assert_eq!(with_history(&mut client, "I sail.", before), (vec![old, new], vec![]));
    let contents: Vec<String> =
        memory_agent_e2e::memory::values(&mut client, "SELECT content FROM memory_load('s')", &[]);
    assert_eq!(contents, ["I am Ann.", "Hello.", "I sail."]);
    assert!(value::<bool>(&mut client, "SELECT memory_restore($1)", &[&new]), "it may come back");
    for (arguments, expected) in [
        ("'s', 'assistant', 'x', history => '[]'", "history is for turns of the role user"),
        ("'s', 'user', 'x', replaces => ARRAY[gen_random_uuid()]", "of the role assistant"),
        ("'s', 'user', 'x', history => '{}'", "history: messages must be a JSON array"),
        ("'s', 'user', 'x', history => '[1]'", "history: message 1: it is not an object"),
    ] {
        let call = client.batch_execute(&format!("SELECT memory_ingest_once({arguments})"));
        let message = expect_error(call, "22023");
        assert!(message.contains(expected), "{message}");
    }
}
