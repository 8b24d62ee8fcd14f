//! `memory_backfill`: what was stored before there was an LLM, or while extraction was off.

use crate::{configure, drain, say, with_llm};
use memory_agent_e2e::llm::{Purpose, ScriptedModel};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, expect_error, shared};

fn model() -> ScriptedModel {
    [("Oslo", "home"), ("Rex", "dog"), ("tea", "drink"), ("chess", "game")].iter().fold(
        ScriptedModel::new(),
        |model, (value, topic)| {
            model.knows(
                &format!("It is {value}."),
                topic,
                value,
                &format!("The {topic} is {value}."),
            )
        },
    )
}

fn backfill(client: &mut Client, arguments: &str) -> i64 {
    value(client, &format!("SELECT memory_backfill({arguments})"), &[])
}

fn facts(client: &mut Client) -> Vec<String> {
    values(
        client,
        "SELECT concat_ws('|', user_id, session_id, content) FROM memory_agent.entries \
          WHERE kind = 'fact' ORDER BY 1",
        &[],
    )
}

#[test]
fn turns_that_came_without_extraction_are_extracted_later() {
    let (stub, cluster) = with_llm(model(), &[("memory_agent.summarization", "off")]);
    let mut client = cluster.database("backfill_turns").connect();
    run(&mut client, "SET memory_agent.extraction = off");
    for (session, content, at) in [
        ("s", "It is Oslo.", "2025-01-01"),
        ("s", "It is Rex.", "2025-03-01"),
        ("t", "It is tea.", "2025-03-02"),
        ("quiet", "It is chess.", "2025-03-03"),
    ] {
        run(
            &mut client,
            &format!(
                "SELECT memory_ingest('{session}', 'user', '{content}', created_at => '{at}')"
            ),
        );
    }
    say(&mut client, "s", "assistant", "It is noted.");
    run(&mut client, "SELECT memory_ingest('s', 'user', 'It is tea.', user_id => 'bob')");
    drain(&mut client);
    assert!(facts(&mut client).is_empty() && stub.call_count() == 0);
    configure(&mut client, "session_id => 'quiet', settings => '{\"extraction\": \"off\"}'");

    assert_eq!(backfill(&mut client, ""), 0, "they are off where it is asked");
    run(&mut client, "RESET memory_agent.extraction");
    assert_eq!(backfill(&mut client, "since => '2025-02-01'"), 2);
    drain(&mut client);
    assert_eq!(facts(&mut client), ["alice|s|The dog is Rex.", "alice|t|The drink is tea."]);
    assert_eq!(backfill(&mut client, ""), 1);
    assert_eq!(backfill(&mut client, ""), 0, "they are queued by now");
    drain(&mut client);
    assert_eq!(facts(&mut client).len(), 3);
    assert_eq!(backfill(&mut client, "all_users => true"), 1);
    drain(&mut client);
    assert_eq!(facts(&mut client).last().unwrap(), "bob|s|The drink is tea.");
    configure(&mut client, "session_id => 'quiet', settings => '{\"extraction\": null}'");
    assert_eq!(backfill(&mut client, ""), 1);
}

/// With extraction = episode, facts are made of the episodes of these turns.
#[test]
fn episodes_are_reflected_on_later() {
    let (stub, cluster) = with_llm(model(), &[("memory_agent.summarization", "off")]);
    let mut client = cluster.database("backfill_episodes").connect();
    run(&mut client, "SET memory_agent.extraction = off");
    for content in ["It is Oslo.", "It is Rex.", "It is tea."] {
        say(&mut client, "s", "user", content);
    }
    run(&mut client, "SELECT memory_close_episode('s')");
    say(&mut client, "s", "user", "It is chess.");
    drain(&mut client);
    assert_eq!(stub.call_count(), 0);
    configure(&mut client, "settings => '{\"extraction\": \"episode\"}'");
    assert_eq!(backfill(&mut client, ""), 4);
    drain(&mut client);
    let expected =
        ["alice|s|The dog is Rex.", "alice|s|The drink is tea.", "alice|s|The home is Oslo."];
    assert_eq!(facts(&mut client), expected, "the last turn's episode still runs");
    assert!(stub.calls().iter().all(|call| call.purpose() == Purpose::Extract));
    assert_eq!(backfill(&mut client, ""), 0);
    let wants: Vec<bool> =
        values(&mut client, "SELECT wants_reflection FROM memory_agent.episodes ORDER BY id", &[]);
    assert_eq!(wants, [true, true]);
}

/// Sessions that grew while there was no LLM get their summaries.
#[test]
fn sessions_are_summarised_later() {
    let (stub, cluster) = with_llm(model(), &[("memory_agent.extraction", "off")]);
    let mut client = cluster.database("backfill_summaries").connect();
    run(&mut client, "SET memory_agent.summarization = off");
    for session in ["long", "quiet"] {
        say(&mut client, session, "user", &"It is chess, and it is a long game. ".repeat(20));
    }
    say(&mut client, "short", "user", "It is tea.");
    drain(&mut client);
    assert_eq!(stub.call_count(), 0);
    run(&mut client, "RESET memory_agent.summarization");
    configure(&mut client, "session_id => 'quiet', settings => '{\"summarization\": false}'");
    assert_eq!(backfill(&mut client, ""), 0, "there are no facts to be made");
    drain(&mut client);
    let summarised: Vec<String> =
        values(&mut client, "SELECT session_id FROM memory_agent.session_summaries", &[]);
    assert_eq!(summarised, ["long"]);
}

#[test]
fn a_rollback_leaves_turns_as_they_are() {
    let (_stub, cluster) = with_llm(model(), &[("memory_agent.worker", "off")]);
    let mut client = cluster.database("backfill_rollback").connect();
    run(&mut client, "SET memory_agent.extraction = off");
    say(&mut client, "s", "user", "It is Oslo.");
    run(&mut client, "RESET memory_agent.extraction");
    run(&mut client, "BEGIN");
    assert_eq!(backfill(&mut client, ""), 1);
    run(&mut client, "ROLLBACK");
    assert_eq!(backfill(&mut client, ""), 1);
}

#[test]
fn who_may_ask_for_what() {
    let database = shared().database("backfill_levels");
    let mut owner = database.connect();
    expect_error(owner.query("SELECT memory_backfill()", &[]), "55000");
    expect_error(
        owner.query("SELECT memory_backfill(user_id => 'bob', all_users => true)", &[]),
        "22023",
    );
    run(
        &mut owner,
        "CREATE ROLE backfill_user LOGIN; SELECT memory_grant('backfill_user', 'user')",
    );
    let mut user = database.connect_as("backfill_user");
    expect_error(user.query("SELECT memory_backfill(all_users => true)", &[]), "42501");
    expect_error(user.query("SELECT memory_backfill(user_id => 'bob')", &[]), "42501");
    expect_error(user.query("SELECT memory_backfill()", &[]), "55000");
}
