//! `memory_load`: what is in the window, in the order of a prompt.

use crate::{load, say, summarised};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, Json, Uuid, expect_error, json, shared, shared_without_worker};

#[test]
fn the_summary_comes_first_then_the_turns_from_old_to_new() {
    let mut client = shared_without_worker().database("load_order").connect();
    for (role, content, at) in [
        ("assistant", "Third.", "2025-01-03"),
        ("user", "First.", "2025-01-01"),
        ("tool", "Second.", "2025-01-02"),
    ] {
        run(
            &mut client,
            &format!("SELECT memory_ingest('s', '{role}', '{content}', created_at => '{at}')"),
        );
    }
    assert_eq!(
        load(&mut client, "s"),
        [("user", "First."), ("tool", "Second."), ("assistant", "Third.")]
            .map(|(role, content)| (role.to_owned(), content.to_owned()))
    );
    let summary = summarised(&mut client, "s", "They counted.", &[]);
    let rows = client
        .query("SELECT role, content, created_at, id, token_count FROM memory_load('s')", &[])
        .unwrap();
    assert_eq!(rows.len(), 4);
    assert_eq!(rows[0].get::<_, &str>(0), "system");
    assert_eq!(rows[0].get::<_, &str>(1), "They counted.");
    assert_eq!(rows[0].get::<_, Uuid>(3), summary);
    let tokens: Vec<i32> = rows.iter().map(|row| row.get(4)).collect();
    let counted: Vec<i32> =
        values(&mut client, "SELECT memory_count_tokens(content) FROM memory_load('s')", &[]);
    assert_eq!(tokens, counted);
}

#[test]
fn what_left_the_window_is_not_loaded() {
    let mut client = shared_without_worker().database("load_left").connect();
    let archived = say(&mut client, "s", "user", "Archived.");
    let deleted = say(&mut client, "s", "user", "Deleted.");
    say(&mut client, "s", "user", "Active.");
    say(&mut client, "other", "user", "Of another session.");
    run(
        &mut client,
        "SELECT memory_add('A fact.', 's', infer => false);
         SELECT memory_ingest('s', 'user', 'Of another agent.', agent_id => 'other');
         SELECT memory_ingest('s', 'user', 'Of another user.', user_id => 'bob');
         SELECT memory_ingest('s', 'user', 'Expired.', ttl => '1 microsecond')",
    );
    for (id, state) in [(archived, "archived"), (deleted, "inactive")] {
        client
            .execute("UPDATE memory_agent.entries SET state = $2 WHERE id = $1", &[&id, &state])
            .unwrap();
    }
    assert_eq!(load(&mut client, "s"), [("user".to_owned(), "Active.".to_owned())]);
    let of_agent: String = value(
        &mut client,
        "SELECT string_agg(content, ' ') FROM memory_load('s', agent_id => 'other')",
        &[],
    );
    assert_eq!(of_agent, "Of another agent.");
    let of_bob: String =
        value(&mut client, "SELECT string_agg(content, ' ') FROM memory_load('s', 'bob')", &[]);
    assert_eq!(of_bob, "Of another user.");
}

#[test]
fn an_unknown_session_is_empty_and_nothing_is_written() {
    let mut client = shared().database("load_unknown").connect();
    run(&mut client, "BEGIN READ ONLY");
    assert!(load(&mut client, "nowhere").is_empty());
    let said = "SELECT memory_context('nowhere', 'Hello.') -> 'messages'";
    let said: Json = value(&mut client, said, &[]);
    assert_eq!(said, json!([{"role": "user", "content": "Hello."}]));
    run(&mut client, "COMMIT");
    // Its siblings that write find nothing to do either, and none of them says a word.
    assert_eq!(value::<i32>(&mut client, "SELECT memory_clear('nowhere')", &[]), 0);
    assert_eq!(value::<Option<Uuid>>(&mut client, "SELECT memory_archive('nowhere')", &[]), None);
    let sessions = "SELECT count(*) FROM memory_agent.sessions";
    assert_eq!(value::<i64>(&mut client, sessions, &[]), 0);
    for call in ["memory_load('')", "memory_load(NULL)", "memory_load(repeat('s', 513))"] {
        expect_error(client.query(&format!("SELECT * FROM {call}"), &[]), "22023");
    }
}

#[test]
fn a_budget_is_a_second_argument() {
    let mut client = shared_without_worker().database("load_budget").connect();
    for content in ["The first of three turns.", "The second one.", "The third."] {
        say(&mut client, "s", "user", content);
    }
    let with = |client: &mut Client, arguments: &str| -> Vec<String> {
        values(client, &format!("SELECT content FROM memory_load({arguments})"), &[])
    };
    assert_eq!(with(&mut client, "'s', 16"), ["The second one.", "The third."]);
    assert_eq!(with(&mut client, "'s', 0"), [""; 0]);
    assert_eq!(with(&mut client, "'unknown', 1000"), [""; 0]);
    assert_eq!(with(&mut client, "'s', token_budget => NULL").len(), 3);
    // Without a budget the second argument is the user, as ever.
    assert_eq!(with(&mut client, "'s', 'alice'").len(), 3);
    assert_eq!(with(&mut client, "'s', 'bob'"), [""; 0]);
    expect_error(client.query("SELECT FROM memory_load('s', -1)", &[]), "22023");
    // What the model reads bounds it too, also as the session is configured.
    run(
        &mut client,
        "SELECT memory_configure(session_id => 's', settings => '{\"context_limit\": 17}')",
    );
    assert_eq!(with(&mut client, "'s', 1000"), ["The second one.", "The third."]);
}
