//! The `filter` argument: every key, their combination, and what is no filter.

use memory_agent_e2e::memory::{recalled_texts, run, try_recall, value};
use memory_agent_e2e::{Client, Uuid, expect_error, shared};

fn fill(client: &mut Client) {
    run(
        client,
        r#"SET memory_agent.embed_on_ingest = off; SET memory_agent.rerank = off;
        SELECT memory_ingest('s', 'user', 'apple one', created_at => '2024-01-01 00:00+00', markers => '{goal}',
                             metadata => '{"project": "x", "tags": ["a", "b"], "deep": {"n": 1}}');
        SELECT memory_ingest('s', 'assistant', 'apple two', created_at => '2024-02-01 12:00+00',
                             markers => '{goal,decision,custom:a}', metadata => '{"project": "y"}');
        SELECT memory_ingest('t', 'tool', 'apple three', created_at => '2024-03-01 00:00+00', agent_id => 'coder',
                             metadata => '{"n": 12345678901234567890.5}');
        SELECT memory_add('apple four', infer => false, created_at => '2024-04-01 00:00+00', markers => '{}')"#,
    );
}

#[track_caller]
fn assert_filter(client: &mut Client, filter: &str, expected: &[&str]) {
    let mut found = recalled_texts(client, &format!("'apple', top_k => 50, filter => '{filter}'"));
    found.sort();
    let mut expected: Vec<String> = expected.iter().map(|label| format!("apple {label}")).collect();
    expected.sort();
    assert_eq!(found, expected, "{filter}");
}

const ALL: [&str; 4] = ["one", "two", "three", "four"];

#[test]
fn metadata_is_contained() {
    let mut client = shared().database("filter_metadata").connect();
    fill(&mut client);
    for (filter, expected) in [
        (r#"{"project": "x"}"#, &["one"] as &[&str]),
        (r#"{"project": "z"}"#, &[]),
        (r#"{"tags": ["b"]}"#, &["one"]),
        (r#"{"deep": {"n": 1}, "project": "x"}"#, &["one"]),
        (r#"{"deep": {"n": 2}}"#, &[]),
        (r#"{"n": 12345678901234567890.5}"#, &["three"]),
        (r#"{"n": 12345678901234567890.4}"#, &[]),
        (r#"{"project": "x'' OR true --"}"#, &[]),
        ("{}", &ALL),
    ] {
        assert_filter(&mut client, &format!(r#"{{"metadata": {filter}}}"#), expected);
    }
}

#[test]
fn columns_are_compared() {
    let mut client = shared().database("filter_columns").connect();
    fill(&mut client);
    for (filter, expected) in [
        (r#"{"role": "user"}"#, &["one"] as &[&str]),
        (r#"{"role": ["assistant", "tool"]}"#, &["two", "three"]),
        (r#"{"role": []}"#, &[]),
        (r#"{"kind": "fact"}"#, &["four"]),
        (r#"{"kind": ["turn", "document"]}"#, &["one", "two", "three"]),
        (r#"{"session_id": "s"}"#, &["one", "two"]),
        (r#"{"session_id": ["t", "u"]}"#, &["three"]),
        (r#"{"agent_id": "coder"}"#, &["three"]),
        (r#"{"markers_any": ["decision", "failure"]}"#, &["two"]),
        (r#"{"markers_any": "goal"}"#, &["one", "two"]),
        (r#"{"markers_any": []}"#, &[]),
        (r#"{"markers_all": ["goal", "custom:a"]}"#, &["two"]),
        (r#"{"markers_all": []}"#, &ALL),
        (r#"{"created_after": "2024-02-01T12:00:00Z"}"#, &["two", "three", "four"]),
        (r#"{"created_after": "2024-02-01T12:00:00.000001Z"}"#, &["three", "four"]),
        (r#"{"created_before": "2024-03-01"}"#, &["one", "two"]),
        (r#"{"created_before": "2024-03-01T01:00:00+01:00"}"#, &["one", "two"]),
        (r#"{"created_after": "2024-01-01", "created_before": "2024-02-02"}"#, &["one", "two"]),
        (r#"{"role": null, "metadata": null, "created_after": null}"#, &ALL),
        (
            r#"{"role": ["user", "assistant"], "markers_any": ["decision"], "session_id": "s"}"#,
            &["two"],
        ),
        ("{}", &ALL),
        ("null", &ALL),
    ] {
        assert_filter(&mut client, filter, expected);
    }
}

#[test]
fn days_do_not_depend_on_the_time_zone_of_the_session() {
    let mut client = shared().database("filter_time_zone").connect();
    fill(&mut client);
    for zone in ["Asia/Tokyo", "America/Los_Angeles"] {
        run(&mut client, &format!("SET timezone = '{zone}'; SET datestyle = 'German, DMY'"));
        assert_filter(&mut client, r#"{"created_before": "2024-01-01"}"#, &[]);
        assert_filter(&mut client, r#"{"created_before": "2024-01-02"}"#, &["one"]);
    }
}

#[test]
fn an_episode_is_chosen() {
    let mut client = shared().database("filter_episode").connect();
    fill(&mut client);
    let episode: Uuid = value(
        &mut client,
        "SELECT episode_id FROM memory_agent.entries WHERE content = 'apple two'",
        &[],
    );
    assert_filter(&mut client, &format!(r#"{{"episode_id": "{episode}"}}"#), &["two"]);
}

#[test]
fn filters_narrow_the_session_and_the_kinds_as_well() {
    let mut client = shared().database("filter_and_arguments").connect();
    fill(&mut client);
    let found = recalled_texts(
        &mut client,
        r#"'apple', session_id => 's', kinds => '{turn,fact}', filter => '{"markers_any": "goal", "role": "user"}'"#,
    );
    assert_eq!(found, ["apple one"]);
    let none = recalled_texts(
        &mut client,
        r#"'apple', session_id => 's', filter => '{"session_id": "t"}'"#,
    );
    assert!(none.is_empty());
}

#[test]
fn what_is_no_filter_is_refused() {
    let mut client = shared().database("filter_refused").connect();
    for filter in [
        "[]",
        "\"role\"",
        "7",
        r#"{"role": "robot"}"#,
        r#"{"role": 1}"#,
        r#"{"role": [1]}"#,
        r#"{"role": {"a": 1}}"#,
        r#"{"kind": "summary"}"#,
        r#"{"metadata": "x"}"#,
        r#"{"metadata": [1]}"#,
        r#"{"markers_any": "decisions"}"#,
        r#"{"markers_all": ["custom:"]}"#,
        r#"{"created_after": "yesterday"}"#,
        r#"{"created_after": 1700000000}"#,
        r#"{"created_before": "2024-13-01"}"#,
        r#"{"created_before": "2024-01-01 10:00"}"#,
        r#"{"episode_id": "one"}"#,
        r#"{"session_id": 1}"#,
    ] {
        let result = try_recall(&mut client, &format!("'apple', filter => '{filter}'"));
        let message = expect_error(result, "22023");
        assert!(message.lines().nth(1).is_some_and(|hint| !hint.is_empty()), "{filter}: {message}");
    }
    let unknown = try_recall(&mut client, r#"'apple', filter => '{"rolle": "user"}'"#);
    let message = expect_error(unknown, "22023");
    for key in [
        "rolle",
        "metadata",
        "role",
        "kind",
        "markers_any",
        "markers_all",
        "created_after",
        "created_before",
        "session_id",
        "episode_id",
        "agent_id",
    ] {
        assert!(message.contains(key), "{key} is not named: {message}");
    }
}
