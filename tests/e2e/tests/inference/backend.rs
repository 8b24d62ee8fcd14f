//! `memory_agent.inference = 'backend'`, in a cluster that neither preloads nor starts processes:
//! everything works, and gives what the model server gives.

use memory_agent_e2e::memory::{explain, ingest_all, recalled_texts, run, value};
use memory_agent_e2e::{Cluster, Json, expect_error, processes, shared};

const TURNS: [&str; 3] =
    ["My cat sleeps on the stove.", "The train leaves at nine.", "Grandmother bakes bread."];

#[test]
fn everything_works_without_a_model_server() {
    let cluster = Cluster::builder().setting("memory_agent.inference", "backend").start();
    let database = cluster.database("backend");
    let mut client = database.connect();
    ingest_all(&mut client, "s", &TURNS);
    run(&mut client, "SELECT memory_add('The user owns a cat.', infer => false)");
    let embedded: i64 =
        value(&mut client, "SELECT count(embedding) FROM memory_agent.entries", &[]);
    assert_eq!(embedded, 4);
    let document = explain(&mut client, "'Where does the kitten rest?', top_k => 1");
    assert_eq!(document["embedding"], "memory-embed-small");
    assert_eq!(document["reranking"], "ms-marco-MiniLM-L-12-v2");
    assert_eq!(
        recalled_texts(&mut client, "'Where does the kitten rest?', kinds => '{turn}', top_k => 1"),
        [TURNS[0]]
    );
    assert_eq!(value::<i32>(&mut client, "SELECT memory_count_tokens('hello world')", &[]), 2);
    let context: Json = value(&mut client, "SELECT memory_context('s', 'hello')", &[]);
    assert!(context["messages"].as_array().unwrap().len() >= 4);
    run(&mut client, "SELECT memory_register_model('all-MiniLM-L6-v2', 'embedder')");

    let state = |component: &str| {
        format!("SELECT state FROM memory_status() WHERE component = '{component}'")
    };
    assert_eq!(value::<String>(&mut client, &state("model server"), &[]), "off");
    assert_eq!(value::<String>(&mut client, &state("library"), &[]), "on demand");
    assert!(processes::model_servers(&cluster.data()).is_empty());
    let workers: i64 = value(
        &mut client,
        "SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'memory_agent%'",
        &[],
    );
    assert_eq!(workers, 0);

    // The same numbers as from the model server.
    let mut server = shared().database("backend_compared").connect();
    let texts = "'How many people live in Berlin?', ARRAY['Berlin has 3.7 million inhabitants.', 'Rain fell.']";
    for (call, tolerance) in [
        (format!("memory_rerank({texts})"), 0.01),
        ("memory_embed('Where is she?')::real[]".to_owned(), 0.001),
    ] {
        let sql = format!("SELECT {call}");
        let (here, there): (Vec<f32>, Vec<f32>) =
            (value(&mut client, &sql, &[]), value(&mut server, &sql, &[]));
        assert_eq!(here.len(), there.len());
        let difference = here.iter().zip(&there).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(difference < tolerance, "{call}: {difference}");
    }
}

#[test]
fn without_preload_the_first_call_starts_the_model_server() {
    let cluster = Cluster::builder().start();
    let database = cluster.database("on_demand");
    assert!(
        processes::model_servers(&cluster.data()).is_empty(),
        "nothing was asked of a model yet"
    );
    let mut client = database.connect();
    ingest_all(&mut client, "s", &TURNS);
    let embedded: i64 =
        value(&mut client, "SELECT count(embedding) FROM memory_agent.entries", &[]);
    assert_eq!(embedded, 3, "the first call waits for the server");
    assert_eq!(processes::model_servers(&cluster.data()).len(), 1);
    let (state, hint): (String, Option<String>) = {
        let row = client
            .query_one("SELECT state, hint FROM memory_status() WHERE component = 'library'", &[])
            .unwrap();
        (row.get(0), row.get(1))
    };
    assert_eq!(state, "on demand");
    assert!(hint.unwrap().contains("shared_preload_libraries"));
}

/// LLMs are called by the model server: without one, no job is queued that nobody would ever run.
#[test]
fn without_a_model_server_nothing_waits_for_an_llm() {
    let cluster = Cluster::builder()
        .setting("memory_agent.inference", "backend")
        .setting("memory_agent.llm_base_url", "http://127.0.0.1:9/v1")
        .setting("memory_agent.llm_model", "nobody")
        .setting("memory_agent.summary_min_tokens", 1)
        .start();
    let mut client = cluster.database("backend_llm").connect();
    ingest_all(&mut client, "s", &TURNS);
    run(&mut client, "SELECT memory_close_episode('s')");
    let jobs: i64 = value(&mut client, "SELECT count(*) FROM memory_jobs", &[]);
    assert_eq!(jobs, 0);
    for call in [
        "memory_compress('s')",
        "memory_backfill()",
        "memory_add('I live in Oslo.', infer => true)",
    ] {
        let message = expect_error(client.query(&format!("SELECT {call}"), &[]), "55000");
        assert!(message.contains("'backend'"), "{call}: {message}");
    }
    let state = "SELECT state FROM memory_status() WHERE component = $1";
    assert_eq!(value::<String>(&mut client, state, &[&"llm"]), "unreachable");
    assert_eq!(value::<String>(&mut client, state, &[&"extraction"]), "off");
    // They are extracted from when there is somebody, and it is asked for.
    cluster.alter_system("memory_agent.inference", Some("server"));
    let mut client = cluster.connect("backend_llm");
    run(&mut client, "SET memory_agent.user_id = 'alice'");
    assert_eq!(value::<i64>(&mut client, "SELECT memory_backfill()", &[]), 3);
}
