//! Episodes: when a run of turns ends, and why.

use memory_agent_e2e::memory::{ingest, ingest_all, run, value, values};
use memory_agent_e2e::{Client, Uuid, expect_error, shared};

/// All episodes, oldest first, as `turns status reason`.
fn episodes(client: &mut Client) -> Vec<String> {
    values(
        client,
        "SELECT concat_ws(' ', turn_count, status, close_reason) FROM memory_agent.episodes ORDER BY id",
        &[],
    )
}

fn ingest_at(client: &mut Client, second: i64) {
    run(
        client,
        &format!(
            "SELECT memory_ingest('s', 'user', 'at second {second}', \
                created_at => timestamptz '2024-05-01 10:00+00' + interval '1 second' * {second})"
        ),
    );
}

#[test]
fn an_episode_ends_after_max_turns() {
    let mut client = shared().database("episode_max_turns").connect();
    ingest_all(&mut client, "s", &["turn"; 41]);
    assert_eq!(episodes(&mut client), ["20 closed max_turns", "20 closed max_turns", "1 open"]);

    run(&mut client, "SET memory_agent.episode_max_turns = 2");
    for _ in 0..3 {
        ingest(&mut client, "t", "turn");
    }
    assert_eq!(episodes(&mut client)[3..], ["2 closed max_turns", "1 open"]);
    run(&mut client, "SET memory_agent.episode_max_turns = 0");
    ingest_all(&mut client, "u", &["turn"; 30]);
    assert_eq!(episodes(&mut client)[5..], ["30 open"]);
}

#[test]
fn turns_and_session_name_their_episode() {
    let mut client = shared().database("episode_names").connect();
    run(&mut client, "SET memory_agent.episode_max_turns = 2");
    let ids = ingest_all(&mut client, "s", &["one", "two", "three"]);
    let of: Vec<Uuid> = ids
        .iter()
        .map(|id| {
            value(&mut client, "SELECT episode_id FROM memory_agent.entries WHERE id = $1", &[id])
        })
        .collect();
    assert!(of[0] == of[1] && of[1] != of[2]);
    let open: Uuid = value(&mut client, "SELECT open_episode_id FROM memory_agent.sessions", &[]);
    assert_eq!(open, of[2]);
    ingest(&mut client, "s", "four");
    let open: Option<Uuid> =
        value(&mut client, "SELECT open_episode_id FROM memory_agent.sessions", &[]);
    assert_eq!(open, None, "the episode was full with its second turn");
}

#[test]
fn a_gap_in_event_time_ends_an_episode() {
    let mut client = shared().database("episode_gap").connect();
    for second in [0, 1800, 3600, 5401] {
        ingest_at(&mut client, second);
    }
    assert_eq!(episodes(&mut client), ["3 closed gap", "1 open"]);
    let times: Vec<bool> = values(
        &mut client,
        "SELECT (started_at, ended_at) = (timestamptz '2024-05-01 10:00+00', timestamptz '2024-05-01 11:00+00') \
             OR (started_at, ended_at) = (timestamptz '2024-05-01 11:30:01+00', timestamptz '2024-05-01 11:30:01+00') \
           FROM memory_agent.episodes",
        &[],
    );
    assert_eq!(times, [true, true]);

    run(&mut client, "SET memory_agent.episode_gap = 0");
    ingest_at(&mut client, 9_000_000);
    assert_eq!(episodes(&mut client), ["3 closed gap", "2 open"]);
}

#[test]
fn an_imported_old_turn_is_no_gap() {
    let mut client = shared().database("episode_import").connect();
    ingest_at(&mut client, 0);
    ingest_at(&mut client, -9_000_000);
    ingest_at(&mut client, 60);
    assert_eq!(episodes(&mut client), ["3 open"]);
    let covered: bool = value(
        &mut client,
        "SELECT p.started_at = min(e.created_at) AND p.ended_at = max(e.created_at) \
           FROM memory_agent.episodes p JOIN memory_agent.entries e ON e.episode_id = p.id \
          GROUP BY p.started_at, p.ended_at",
        &[],
    );
    assert!(covered, "an episode lasts from its first to its last turn");
}

#[test]
fn a_tool_result_ends_its_own_episode() {
    let mut client = shared().database("episode_tool").connect();
    run(
        &mut client,
        "SELECT memory_ingest('s', 'user', 'what is the weather'); \
         SELECT memory_ingest('s', 'tool', 'sunny'); \
         SELECT memory_ingest('s', 'assistant', 'It is sunny.')",
    );
    assert_eq!(episodes(&mut client), ["2 closed tool_result", "1 open"]);
}

#[test]
fn an_episode_is_closed_by_hand() {
    let mut client = shared().database("episode_manual").connect();
    let close = "SELECT memory_close_episode('s')";
    assert_eq!(value::<Option<Uuid>>(&mut client, close, &[]), None, "there is no such session");
    ingest(&mut client, "s", "one");
    let open: Uuid = value(&mut client, "SELECT open_episode_id FROM memory_agent.sessions", &[]);
    assert_eq!(value::<Option<Uuid>>(&mut client, close, &[]), Some(open));
    assert_eq!(value::<Option<Uuid>>(&mut client, close, &[]), None, "it is closed already");
    ingest(&mut client, "s", "two");
    run(&mut client, "SELECT memory_close_episode('s', 'the user left')");
    assert_eq!(episodes(&mut client), ["1 closed manual", "1 closed the user left"]);

    ingest(&mut client, "s", "three");
    for arguments in ["''", "NULL", "'s', ' '", "'s', repeat('x', 201)"] {
        let statement = format!("SELECT memory_close_episode({arguments})");
        expect_error(client.query(&statement, &[]), "22023");
    }
    assert_eq!(episodes(&mut client)[2], "1 open");
}

#[test]
fn sessions_and_agents_have_episodes_of_their_own() {
    let mut client = shared().database("episode_scopes").connect();
    ingest(&mut client, "s", "one");
    ingest(&mut client, "t", "one");
    run(&mut client, "SELECT memory_ingest('s', 'user', 'one', agent_id => 'coder')");
    run(&mut client, "SELECT memory_close_episode('s', agent_id => 'coder')");
    let closed: Vec<String> = values(
        &mut client,
        "SELECT agent_id || session_id FROM memory_agent.episodes WHERE status = 'closed'",
        &[],
    );
    assert_eq!(closed, ["coders"]);
    assert_eq!(episodes(&mut client).len(), 3);
}
