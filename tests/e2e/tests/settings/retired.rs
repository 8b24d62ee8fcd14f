//! Settings of earlier versions that nothing reads any more: their values stop nothing, and who sets one is told.

use memory_agent_e2e::memory::{ingest, recall, run, value, values};
use memory_agent_e2e::{Client, Cluster, Json, expect_error, json};
use std::sync::mpsc::Receiver;

/// Those that 0.2.0 had.
const NAMES: [&str; 27] = [
    "bm25_b",
    "bm25_k1",
    "bm25_length_floor",
    "candidate_multiplier",
    "chunk_overlap",
    "consolidation_similarity",
    "context_margin",
    "current_episode_share",
    "dedup_similarity",
    "default_token_budget",
    "episode_close_on_tool_result",
    "episode_topic_similarity",
    "freshness_boost",
    "fusion",
    "max_candidates",
    "max_facts_per_episode",
    "max_facts_per_turn",
    "message_overhead_tokens",
    "mmr_lambda",
    "recall_scope",
    "recency_days",
    "recency_decay",
    "reconcile_similarity",
    "rerank_max_query_chars",
    "rerank_weight",
    "score_normalization",
    "summary_chunk_overlap",
];

/// A client, and the notices that it gets.
fn listening(cluster: &Cluster, database: &str) -> (Client, Receiver<String>) {
    let (send, notices) = std::sync::mpsc::channel();
    let mut config = cluster.config(database);
    config.notice_callback(move |notice| {
        let _ = send.send(format!("{}: {}", notice.severity(), notice.message()));
    });
    (config.connect(postgres::NoTls).expect("a connection"), notices)
}

#[test]
fn a_retired_setting_stops_nothing_and_who_sets_it_is_told() {
    // As it stands in a file.
    let cluster = Cluster::builder().preload(true).setting("memory_agent.fusion", "rrf").start();
    let mut owner = cluster.database("settings_retired").connect();
    let (mut client, notices) = listening(&cluster, "settings_retired");
    let told = |client: &mut Client| -> Vec<String> {
        // Notices that follow a statement are read with the next one.
        run(client, "");
        notices.try_iter().collect()
    };
    for name in NAMES {
        let expected = [format!("NOTICE: memory_agent.{name} has no effect any more")];
        run(&mut client, &format!("SET memory_agent.{name} = 'anything'"));
        assert_eq!(told(&mut client), expected);
        run(&mut client, &format!("ALTER ROLE postgres SET memory_agent.{name} = '1'"));
        assert_eq!(told(&mut client), expected);
    }
    run(&mut owner, "ALTER DATABASE settings_retired SET memory_agent.mmr_lambda = 0.3");
    let listed = "SELECT count(*) FROM pg_settings WHERE name = ANY ($1)";
    let full: Vec<String> = NAMES.iter().map(|name| format!("memory_agent.{name}")).collect();
    assert_eq!(value::<i64>(&mut client, listed, &[&full]), 0, "they are shown no more");

    // Who logs in with the value of a role or a database is not.
    let (mut client, notices) = listening(&cluster, "settings_retired");
    run(&mut client, "SET memory_agent.user_id = 'alice'");
    ingest(&mut client, "s", "The key is under the mat.");
    assert_eq!(recall(&mut client, "'Where is the key?'").len(), 1);
    assert_eq!(notices.try_iter().collect::<Vec<_>>(), Vec::<String>::new());
    // A name that never was is an error, as before.
    expect_error(client.batch_execute("SET memory_agent.fusionn = 'rrf'"), "42602");
}

#[test]
fn a_retired_setting_is_not_stored_and_goes_where_it_is() {
    let cluster = Cluster::builder().preload(true).start();
    let mut owner = cluster.database("configure_retired").connect();
    run(
        &mut owner,
        "SELECT memory_configure('a', settings => '{\"default_top_k\": 7}');
         UPDATE memory_agent.agents SET settings = settings || '{\"mmr_lambda\": 0.3, \"fusion\": \"rrf\"}'",
    );
    let (mut client, notices) = listening(&cluster, "configure_retired");
    run(&mut client, "SET memory_agent.user_id = 'alice'; SET memory_agent.agent_id = 'a'");
    ingest(&mut client, "s", "The key is under the mat.");
    assert_eq!(recall(&mut client, "'Where is the key?'").len(), 1, "what is stored stops nothing");
    assert_eq!(notices.try_iter().collect::<Vec<_>>(), Vec::<String>::new());
    let configured: Json = value(
        &mut client,
        "SELECT memory_configure('a', settings => '{\"fusion\": \"rrf\", \"memory_agent.recency_days\": 3, \
                                                   \"default_top_k\": 8}')",
        &[],
    );
    assert_eq!(configured["stored"]["agent"], json!({"default_top_k": 8, "mmr_lambda": 0.3}));
    run(&mut client, "SELECT memory_configure('a', settings => '{\"mmr_lambda\": null}')");
    let stored: Vec<Json> = values(&mut owner, "SELECT settings FROM memory_agent.agents", &[]);
    assert_eq!(stored, [json!({"default_top_k": 8})]);
    let told: Vec<String> = notices.try_iter().collect();
    assert_eq!(
        told,
        ["fusion", "memory_agent.recency_days"]
            .map(|name| format!("NOTICE: {name} has no effect any more, and is not stored"))
    );
}
