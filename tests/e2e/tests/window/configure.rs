//! `memory_configure`: settings that belong to agents and sessions, and where they take effect.

use crate::configure;
use memory_agent_e2e::memory::{explain, ingest, run, value, values};
use memory_agent_e2e::{Client, Cluster, Json, expect_error, shared, shared_without_worker};
use serde_json::json;

/// The share of recency that a recall counts with.
fn recency_weight(client: &mut Client, arguments: &str) -> f64 {
    explain(client, arguments)["recency_weight"].as_f64().expect("a number")
}

#[test]
fn the_nearest_setting_wins() {
    let mut client = shared().database("configure_nearest").connect();
    ingest(&mut client, "s", "Tea is served at four.");
    let asked = "'tea', session_id => 's', rerank => false";
    let of_session = |client: &mut Client| recency_weight(client, asked);
    assert_eq!(of_session(&mut client), 0.0, "the default of the learned ranking");
    run(&mut client, "SET memory_agent.recency_weight = 0.25");
    assert_eq!(of_session(&mut client), 0.25);
    run(
        &mut client,
        "SELECT memory_configure(settings => '{\"recency_weight\": 0.1}', user_id => '*')",
    );
    assert_eq!(of_session(&mut client), 0.1, "the agent's, for all users");
    configure(&mut client, "settings => '{\"recency_weight\": 0.3}'");
    assert_eq!(of_session(&mut client), 0.3, "the agent's");
    configure(
        &mut client,
        "session_id => 's', settings => '{\"memory_agent.recency_weight\": 0.4}'",
    );
    assert_eq!(of_session(&mut client), 0.4, "the session's");
    assert_eq!(recency_weight(&mut client, &format!("{asked}, recency_weight => 0.5")), 0.5);
    // Elsewhere what is nearest there.
    assert_eq!(recency_weight(&mut client, "'tea', session_id => 't'"), 0.3);
    assert_eq!(recency_weight(&mut client, "'tea'"), 0.3);
    assert_eq!(recency_weight(&mut client, "'tea', agent_id => 'other'"), 0.25);
    assert_eq!(recency_weight(&mut client, "'tea', user_id => 'bob'"), 0.1);
    let own: String = value(&mut client, "SHOW memory_agent.recency_weight", &[]);
    assert_eq!(own, "0.25", "what was set comes back");

    configure(&mut client, "session_id => 's', settings => '{\"recency_weight\": null}'");
    assert_eq!(of_session(&mut client), 0.3);
    run(&mut client, "SET memory_agent.agent_id = 'other'");
    configure(&mut client, "settings => '{\"recency_weight\": 0.6}'");
    assert_eq!(recency_weight(&mut client, "'tea'"), 0.6, "of the agent that the session is");
}

#[test]
fn the_result_shows_what_is_in_effect_and_what_is_stored() {
    let mut client = shared().database("configure_result").connect();
    run(&mut client, "SET memory_agent.stale_sources = 'hide'");
    let plain = configure(&mut client, "");
    assert_eq!(plain["agent_id"], "default");
    assert_eq!(plain["session_id"], Json::Null);
    assert_eq!(plain["content_type"], "conversation");
    assert_eq!(plain["stored"], json!({"agent": {}, "session": {}, "shared": {}}));
    let settings = plain["settings"].as_object().unwrap();
    assert_eq!(settings["stale_sources"], "hide");
    assert_eq!(settings["episode_gap"], 1800);
    assert_eq!(settings["recency_weight"], -1.0);
    assert_eq!(settings["compression"], true);
    let mut names: Vec<String> = settings.keys().cloned().collect();
    names.sort();
    let expected: Vec<String> = values(
        &mut client,
        "SELECT substr(name, 14) FROM pg_settings \
          WHERE name LIKE 'memory\\_agent.%' \
            AND (context = 'user' OR name IN ('memory_agent.default_ttl', 'memory_agent.max_content_bytes', \
                                                      'memory_agent.max_entries', 'memory_agent.purge_after', \
                                                      'memory_agent.secret_phrases', 'memory_agent.secrets', \
                                                      'memory_agent.text_search_config')) \
            AND name NOT IN ('memory_agent.user_id', 'memory_agent.agent_id', \
                             'memory_agent.memory_message') ORDER BY name COLLATE \"C\"",
        &[],
    );
    assert_eq!(names, expected);
    let sessions: i64 = value(
        &mut client,
        "SELECT (SELECT count(*) FROM memory_agent.sessions) + (SELECT count(*) FROM memory_agent.agents)",
        &[],
    );
    assert_eq!(sessions, 0, "nothing is stored without being asked to");

    configure(&mut client, "'a', settings => '{\"episode_gap\": \"1 h\", \"rerank\": \"off\"}'");
    configure(&mut client, "'a', settings => '{\"default_top_k\": 7}', content_type => 'journal'");
    configure(&mut client, "'a', 's', '{\"default_top_k\": 8}', 'document'");
    let both = configure(&mut client, "'a', 's'");
    assert_eq!(both["content_type"], "document");
    assert_eq!(
        both["stored"],
        json!({"agent": {"episode_gap": "1 h", "rerank": "off", "default_top_k": 7},
               "session": {"default_top_k": 8}, "shared": {}})
    );
    let picked = ["episode_gap", "rerank", "default_top_k"].map(|name| &both["settings"][name]);
    assert_eq!(picked, [&json!(3600), &json!(false), &json!(8)]);
    let other = configure(&mut client, "'a', 't'");
    assert_eq!(
        (&other["content_type"], &other["settings"]["default_top_k"]),
        (&json!("journal"), &json!(7))
    );
}

#[test]
fn what_set_refuses_is_refused_and_nothing_is_stored() {
    let mut client = shared().database("configure_refused").connect();
    for (arguments, part) in [
        ("settings => '{\"recency_weight\": 1.5}'", "recency_weight"),
        ("settings => '{\"recency_weight\": \"NaN\"}'", "recency_weight"),
        ("settings => '{\"default_top_k\": \"many\"}'", "default_top_k"),
        ("settings => '{\"ranking\": \"cold\"}'", "ranking"),
        ("settings => '{\"rerank\": \"perhaps\"}'", "rerank"),
        ("settings => '{\"default_top_k\": 3, \"topk\": 3}'", "topk"),
        ("settings => '{\"llm_base_url\": \"http://x\"}'", "llm_base_url"),
        ("settings => '{\"memory_agent.max_entries\": -3}'", "max_entries"),
        ("settings => '{\"user_id\": \"bob\"}'", "user_id"),
        ("settings => '{\"agent_id\": \"bob\"}'", "agent_id"),
        ("settings => '{\"search_path\": \"x\"}'", "search_path"),
        ("settings => '{\"default_top_k\": [3]}'", "default_top_k"),
        ("settings => '[]'", "object"),
        ("settings => 'null'", "object"),
        ("content_type => 'poem'", "poem"),
        ("session_id => ''", "session_id"),
        ("agent_id => ' '", "agent_id"),
    ] {
        let message = expect_error(
            client.query(&format!("SELECT memory_configure({arguments})"), &[]),
            "22023",
        );
        assert!(message.contains(part), "{arguments}: {message}");
    }
    run(&mut client, "BEGIN READ ONLY; SELECT memory_configure()");
    expect_error(client.query("SELECT memory_configure(content_type => 'journal')", &[]), "25006");
    run(&mut client, "ROLLBACK");
    let stored: i64 = value(
        &mut client,
        "SELECT (SELECT count(*) FROM memory_agent.sessions) + (SELECT count(*) FROM memory_agent.agents)",
        &[],
    );
    assert_eq!(stored, 0);
}

/// Each of the functions that store sees the settings of its session, a batch those of each.
#[test]
fn turns_and_facts_are_stored_with_the_settings_of_their_session() {
    let mut client = shared_without_worker().database("configure_ingest").connect();
    configure(&mut client, "session_id => 'plain', settings => '{\"auto_detect_markers\": false}'");
    configure(&mut client, "session_id => 'late', settings => '{\"embed_on_ingest\": \"async\"}'");
    configure(&mut client, "session_id => 'short', settings => '{\"episode_max_turns\": 1}'");
    let turns: Vec<Json> = ["usual", "plain", "late", "short", "plain", "late", "short", "usual"]
        .iter()
        .enumerate()
        .map(|(at, session)| {
            json!({"session_id": session, "role": "user", "content": format!("We decided on number {at}.")})
        })
        .collect();
    let ids: Vec<memory_agent_e2e::Uuid> =
        values(&mut client, "SELECT memory_ingest_batch($1)", &[&Json::from(turns)]);
    let contents: Vec<String> = ids
        .iter()
        .map(|id| {
            value(&mut client, "SELECT content FROM memory_agent.entries WHERE id = $1", &[id])
        })
        .collect();
    let expected: Vec<String> = (0..8).map(|at| format!("We decided on number {at}.")).collect();
    assert_eq!(contents, expected, "ids come in the order given");
    for session in ["usual", "plain", "late", "short"] {
        ingest(&mut client, session, "We decided to stop.");
        run(
            &mut client,
            &format!("SELECT memory_add('We decided to rest.', '{session}', infer => false)"),
        );
    }
    let rows: Vec<String> = values(
        &mut client,
        "SELECT concat_ws('|', session_id, array_agg(DISTINCT markers::text), \
                          bool_and(embedding IS NOT NULL), count(DISTINCT episode_id)) \
           FROM memory_agent.entries GROUP BY session_id ORDER BY session_id",
        &[],
    );
    assert_eq!(
        rows,
        [
            "late|{\"{decision}\"}|f|1",
            "plain|{\"{}\"}|t|1",
            "short|{\"{decision}\"}|t|3",
            "usual|{\"{decision}\"}|t|1"
        ]
    );
    for setting in ["auto_detect_markers", "embed_on_ingest", "episode_max_turns"] {
        let source: String = value(
            &mut client,
            "SELECT source FROM pg_settings WHERE name = 'memory_agent.' || $1",
            &[&setting],
        );
        assert_eq!(source, "default", "{setting}");
    }
}

#[test]
fn settings_are_put_back_after_an_error() {
    let mut client = shared().database("configure_error").connect();
    configure(
        &mut client,
        "session_id => 's', settings => '{\"default_top_k\": 9, \"rerank\": false}'",
    );
    let shown = |client: &mut Client| -> String {
        value(client, "SELECT current_setting('memory_agent.default_top_k')", &[])
    };
    // One that comes back as a value, one that PostgreSQL raises in the middle, one that is caught.
    expect_error(client.query("SELECT memory_ingest('s', 'nobody', 'x')", &[]), "22023");
    assert_eq!(shown(&mut client), "5");
    let wrong = "SELECT * FROM memory_recall('x', 's', query_embedding => '[1]')";
    ingest(&mut client, "s", "something");
    expect_error(client.query(wrong, &[]), "22023");
    assert_eq!(shown(&mut client), "5");
    run(
        &mut client,
        "DO $$ BEGIN \
            BEGIN PERFORM memory_ingest('s', 'nobody', 'x'); EXCEPTION WHEN OTHERS THEN NULL; END; \
            IF current_setting('memory_agent.default_top_k') <> '5' THEN RAISE 'not put back'; END IF; \
            PERFORM memory_ingest('s', 'user', 'y'); \
            IF current_setting('memory_agent.default_top_k') <> '5' THEN RAISE 'not put back'; END IF; \
         END $$",
    );
    run(&mut client, "BEGIN; SET LOCAL memory_agent.default_top_k = 6");
    run(&mut client, "SELECT * FROM memory_recall('something', 's')");
    assert_eq!(shown(&mut client), "6");
    run(&mut client, "COMMIT");
    assert_eq!(shown(&mut client), "5");
}

#[test]
fn a_stored_value_that_is_no_longer_allowed_is_passed_over() {
    let mut client = shared().database("configure_stale").connect();
    ingest(&mut client, "s", "something");
    run(
        &mut client,
        "UPDATE memory_agent.sessions \
            SET settings = '{\"default_top_k\": 1, \"recency_weight\": 7, \"fusion\": \"rrf\", \"gone\": 1, \"user_id\": \"bob\", \
                             \"search_path\": \"nowhere\", \"ranking\": [1]}'",
    );
    ingest(&mut client, "s", "something else");
    assert_eq!(memory_agent_e2e::memory::recall(&mut client, "'something', 's'").len(), 1);
    let users: Vec<String> =
        values(&mut client, "SELECT DISTINCT user_id FROM memory_agent.entries", &[]);
    assert_eq!(users, ["alice"]);
}

#[test]
fn everybody_configures_their_own_and_administrators_all() {
    let database = shared().database("configure_levels");
    let mut owner = database.connect();
    run(
        &mut owner,
        "CREATE ROLE configure_reader LOGIN; SELECT memory_grant('configure_reader', 'reader');
         CREATE ROLE configure_user LOGIN; SELECT memory_grant('configure_user', 'user');
         CREATE ROLE configure_admin LOGIN; SELECT memory_grant('configure_admin', 'admin')",
    );
    let mut reader = database.connect_as("configure_reader");
    expect_error(reader.query("SELECT memory_configure()", &[]), "42501");
    let mut user = database.connect_as("configure_user");
    configure(&mut user, "settings => '{\"rerank\": false}'");
    for other in ["user_id => 'bob'", "user_id => '*'"] {
        expect_error(user.query(&format!("SELECT memory_configure({other})"), &[]), "42501");
    }
    let mut admin = database.connect_as("configure_admin");
    configure(&mut admin, "settings => '{\"default_top_k\": 2}', user_id => '*'");
    for content in ["red apple", "green apple", "blue apple"] {
        ingest(&mut user, "s", content);
    }
    assert_eq!(memory_agent_e2e::memory::recall(&mut reader, "'apple'").len(), 2);
    let seen: Vec<String> =
        values(&mut user, "SELECT user_id FROM memory_agents ORDER BY user_id", &[]);
    assert_eq!(seen, ["*", "alice"]);
}

#[test]
fn administrators_alone_store_caps() {
    let cluster = shared();
    let mut admin = cluster.database("configure_caps").connect();
    run(
        &mut admin,
        "CREATE ROLE caps_user LOGIN; SELECT memory_grant('caps_user', 'user');
         CREATE ROLE caps_admin LOGIN; SELECT memory_grant('caps_admin', 'admin')",
    );
    let caps = "settings => '{\"max_entries\": 2, \"max_content_bytes\": 50, \
                  \"memory_agent.default_ttl\": 3600}'";
    let mut user = cluster.connect_as("configure_caps", "caps_user");
    run(&mut user, "SET memory_agent.user_id = 'ann'");
    let one = "settings => '{\"max_content_bytes\": 70}'";
    for refused in [caps, one, "settings => '{\"max_entries\": null}'"] {
        let found = user.query(&format!("SELECT memory_configure('small', {refused})"), &[]);
        expect_error(found, "42501");
    }
    let mut chosen = cluster.connect_as("configure_caps", "caps_admin");
    run(&mut chosen, &format!("SELECT memory_configure('small', {caps}, user_id => '*')"));
    let wrong =
        "SELECT memory_configure('small', settings => '{\"max_entries\": -1}', user_id => '*')";
    expect_error(chosen.query(wrong, &[]), "22023");
    let shown: Json = value(&mut user, "SELECT memory_configure('small') -> 'settings'", &[]);
    assert_eq!((&shown["max_entries"], &shown["default_ttl"]), (&json!(2), &json!(3600)));
    let purge = "settings => '{\"purge_after\": \"1d\"}'";
    let found = user.query(&format!("SELECT memory_configure('small', {purge})"), &[]);
    expect_error(found, "42501");
    let kept: i64 = value(
        &mut chosen,
        &format!(
            "SELECT (memory_configure('kept', {purge}, user_id => '*') #>> '{{settings,purge_after}}')::bigint"
        ),
        &[],
    );
    assert_eq!(kept, 86_400);
    let of_session = format!("SELECT memory_configure('kept', 's', {purge}, user_id => 'ann')");
    let message = expect_error(chosen.query(&of_session, &[]), "22023");
    assert!(message.contains("not a setting of sessions"), "{message}");
    let other: Json = value(&mut user, "SELECT memory_configure() -> 'settings'", &[]);
    assert_eq!((&other["max_entries"], &other["default_ttl"]), (&json!(500), &json!(0)));
    for agent in ["small", "default"] {
        for n in 0..5 {
            let text = format!("Number {n}.");
            let ingest = "SELECT memory_ingest('s', 'user', $1, agent_id => $2)";
            user.execute(ingest, &[&text, &agent]).expect("ingest");
        }
    }
    assert!(value::<bool>(&mut user, "SELECT memory_wait('90 s')", &[]));
    let count = "SELECT count(*) FILTER (WHERE is_active), count(expires_at) FROM memory_entries WHERE agent_id = $1";
    for (agent, expected) in [("small", (2, 5)), ("default", (5, 0))] {
        let row = user.query_one(count, &[&agent]).expect("the entries");
        assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), expected, "{agent}");
    }
    let setting: String = value(&mut user, "SHOW memory_agent.max_entries", &[]);
    assert_eq!(setting, "500", "the setting comes back");
}

/// An agent's cap counts wherever its memory is written, and is never above the server's.
#[test]
fn an_agent_may_have_smaller_entries() {
    let cluster =
        Cluster::builder().preload(true).setting("memory_agent.max_content_bytes", "200B").start();
    let mut client = cluster.database("configure_sizes").connect();
    configure(&mut client, "'small', settings => '{\"max_content_bytes\": \"100B\"}'");
    let shown = configure(&mut client, "'small'");
    assert_eq!(shown["settings"]["max_content_bytes"], 100);
    let calls = |agent: &str, bytes: usize| {
        let text = format!("repeat('x', {bytes})");
        [
            format!("memory_ingest('s', 'user', {text}, agent_id => '{agent}')"),
            format!("memory_add({text}, infer => false, agent_id => '{agent}')"),
            format!("memory_add_document({text}, agent_id => '{agent}')"),
            format!(
                "memory_update((SELECT min(id::text)::uuid FROM memory_agent.entries \
                                 WHERE agent_id = '{agent}' AND kind = 'turn' AND state = 'active'), \
                               repeat('y', {bytes}))"
            ),
            format!(
                "memory_add('y', infer => false, metadata => jsonb_build_object('k', repeat('x', {})), agent_id => '{agent}')",
                bytes - 9
            ),
        ]
    };
    for (agent, longest) in [("small", 100), ("large", 200)] {
        for call in calls(agent, longest) {
            run(&mut client, &format!("SELECT {call}"));
        }
        for call in calls(agent, longest + 1) {
            let message = expect_error(client.query(&format!("SELECT {call}"), &[]), "22023");
            assert!(message.contains(&longest.to_string()), "{call}: {message}");
        }
    }
    let shown = configure(&mut client, "'large', settings => '{\"max_content_bytes\": 1000}'");
    assert_eq!(shown["settings"]["max_content_bytes"], 200, "no more than the server's");
    for call in calls("large", 201) {
        expect_error(client.query(&format!("SELECT {call}"), &[]), "22023");
    }
    let reset: String = value(&mut client, "SHOW memory_agent.max_content_bytes", &[]);
    assert_eq!(reset, "200B", "the setting comes back");
}

#[test]
fn lists_are_taken_as_json_arrays() {
    let mut client = shared_without_worker().database("configure_lists").connect();
    let document = configure(
        &mut client,
        "session_id => 's', settings => '{\"cross_session_triggers\": [\"back then\", \"remember when\"]}'",
    );
    assert_eq!(document["settings"]["cross_session_triggers"], "back then, remember when");
    let stored = &document["stored"]["session"]["cross_session_triggers"];
    assert_eq!(stored, &json!(["back then", "remember when"]));
    let empty =
        configure(&mut client, "session_id => 's', settings => '{\"cross_session_triggers\": []}'");
    assert_eq!(empty["settings"]["cross_session_triggers"], "");
    for refused in [
        r#"{"cross_session_triggers": ["one, two"]}"#,
        r#"{"cross_session_triggers": ["one", 2]}"#,
        r#"{"cross_session_triggers": {"one": 2}}"#,
        r#"{"recency_weight": [0.5]}"#,
    ] {
        let call = format!("SELECT memory_configure(settings => '{refused}')");
        expect_error(client.query(&call, &[]), "22023");
    }
}
