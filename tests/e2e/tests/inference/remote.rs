//! Embeddings from an endpoint (`embedding_provider = http`): stored, searched, made up for after an
//! outage, and refused when they are not what the settings say.

use memory_agent_e2e::llm::{Call, Fault, FaultPlan, LlmStub, Reply};
use memory_agent_e2e::memory::{ingest, recall, run, value, values};
use memory_agent_e2e::{Builder, Client, Cluster, Json, expect_error, json, wait_until};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A stub that only embeds, 64 numbers a text.
fn embedder() -> LlmStub {
    LlmStub::start(|_: &Call| Reply::error(404, "no LLM"))
}

/// A cluster that embeds by the stub.
fn with_embedder(stub: &LlmStub) -> Builder {
    Cluster::builder()
        .preload(true)
        .setting("memory_agent.embedding_provider", "http")
        .setting("memory_agent.embedding_base_url", stub.base_url())
        .setting("memory_agent.embedding_model", "stub-embedder")
        .setting("memory_agent.rerank", "off")
}

/// The stub does not know Azure's paths: what counts is what it was asked.
#[test]
fn azure_embeds() {
    let stub = embedder();
    let cluster = with_embedder(&stub)
        .setting("memory_agent.embedding_provider", "azure")
        .setting("memory_agent.embedding_api_version", "2030-01-01")
        .start();
    let key = cluster.socket_directory().join("embedding.key");
    std::fs::write(&key, "key-1\n").unwrap();
    cluster.alter_system("memory_agent.embedding_api_key_file", key.to_str());
    let mut client = cluster.database("azure").connect();
    ingest(&mut client, "s", "Blue whales sing in the sea.");
    let call = stub.calls().remove(0);
    let path = "/v1/openai/deployments/stub-embedder/embeddings?api-version=2030-01-01";
    assert_eq!(call.path, path);
    assert_eq!((call.header("api-key"), call.header("authorization")), (Some("key-1"), None));
}

const MISSING: &str = "SELECT count(*) FROM memory_agent.entries WHERE embedding IS NULL";
const STATE: &str = "SELECT state FROM memory_status() WHERE component = 'embedder'";

#[test]
fn embeddings_come_from_the_endpoint() {
    let stub = embedder();
    let cluster = with_embedder(&stub).start();
    let key = cluster.socket_directory().join("embedding.key");
    std::fs::write(&key, "key-1\n").unwrap();
    cluster.alter_system("memory_agent.embedding_api_key_file", key.to_str());
    let mut client = cluster.database("remote").connect();
    for turn in ["Blue whales sing in the sea.", "The printer is out of paper."] {
        ingest(&mut client, "s", turn);
    }
    let rows =
        "SELECT concat_ws('/', embedding_model, vector_dims(embedding)) FROM memory_agent.entries";
    assert_eq!(values::<String>(&mut client, rows, &[]), ["stub-embedder/64"; 2]);
    let found = recall(&mut client, "'whales in the sea', top_k => 1").remove(0);
    assert!(found.content.contains("whales") && found.similarity.is_some());
    for call in stub.calls() {
        assert_eq!((call.path.as_str(), call.model()), ("/v1/embeddings", "stub-embedder"));
        assert_eq!(call.header("authorization"), Some("Bearer key-1"));
    }
    assert_eq!(value::<String>(&mut client, STATE, &[]), "remote");

    // The file is read again when its key changes.
    std::fs::write(&key, "key-2\n").unwrap();
    ingest(&mut client, "s", "The lock was changed.");
    assert_eq!(stub.calls().last().unwrap().header("authorization"), Some("Bearer key-2"));
    // Jobs use it too.
    run(&mut client, "SET memory_agent.embed_on_ingest = async");
    ingest(&mut client, "s", "Said in passing.");
    assert!(value::<bool>(&mut client, "SELECT memory_wait('60 s')", &[]));
    assert_eq!(value::<i64>(&mut client, MISSING, &[]), 0);
}

#[test]
fn an_outage_of_the_endpoint_costs_nothing_but_time() {
    let stub = embedder();
    let cluster = with_embedder(&stub).start();
    ingest(&mut cluster.database("remote_outage").connect(), "s", "Blue whales sing.");
    let warnings = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&warnings);
    let mut client: Client = cluster
        .config("remote_outage")
        .notice_callback(move |notice| seen.lock().unwrap().push(notice.message().to_owned()))
        .connect(postgres::NoTls)
        .unwrap();
    run(&mut client, "SET memory_agent.user_id = 'alice'");
    let warning_of = |client: &mut Client| {
        // Notices that follow a statement are read with the next one.
        run(client, "");
        let mut warnings = std::mem::take(&mut *warnings.lock().unwrap());
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        warnings.remove(0)
    };
    stub.set_down(true);
    ingest(&mut client, "s", "Green parrots talk.");
    assert!(warning_of(&mut client).starts_with("stored without embedding"));
    assert_eq!(value::<i64>(&mut client, MISSING, &[]), 1);
    let found = recall(&mut client, "'parrots'");
    assert_eq!((found.len(), found[0].content.as_str()), (1, "Green parrots talk."));
    assert!(found[0].similarity.is_none());
    assert!(warning_of(&mut client).starts_with("recall goes on with words only"));
    assert_eq!(value::<String>(&mut client, STATE, &[]), "failing");
    stub.set_down(false);
    assert!(value::<bool>(&mut client, "SELECT memory_wait('90 s')", &[]));
    assert_eq!(value::<i64>(&mut client, MISSING, &[]), 0);
}

/// A statement asks for its embeddings in several requests: what the first ones brought is stored, and a job makes up
/// for the others only.
#[test]
fn a_failure_in_the_middle_keeps_what_is_embedded() {
    let stub = embedder();
    let refused = Arc::new(AtomicBool::new(true));
    let refuses = Arc::clone(&refused);
    stub.faults(FaultPlan::when(move |call| {
        let is_meant = call.body["input"].to_string().contains("FLAGGED");
        (is_meant && refuses.load(Ordering::Relaxed)).then_some(Fault::Status(500))
    }));
    let cluster = with_embedder(&stub).setting("memory_agent.worker", "off").start();
    let mut client = cluster.database("remote_middle").connect();
    let turns: Vec<Json> = ["whale ", "FLAGGED ", "parrot "]
        .map(|word| json!({"role": "user", "content": word.repeat(30_000 / word.len())}))
        .into();
    let store = "SELECT count(*) FROM memory_ingest_batch($1::text::jsonb, session_id => 's')";
    assert_eq!(value::<i64>(&mut client, store, &[&Json::from(turns).to_string()]), 3);
    let state = "SELECT concat_ws('/', left(content, 4), embedding IS NULL, token_count_exact) \
                   FROM memory_agent.entries ORDER BY id";
    let expected = ["whal/f/t", "FLAG/t/f", "parr/t/f"];
    assert_eq!(values::<String>(&mut client, state, &[]), expected);
    let before = stub.call_count();
    refused.store(false, Ordering::Relaxed);
    cluster.alter_system("memory_agent.worker", Some("on"));
    assert!(value::<bool>(&mut client, "SELECT memory_wait('90 s')", &[]));
    let expected = ["whal/f/t", "FLAG/f/t", "parr/f/t"];
    assert_eq!(values::<String>(&mut client, state, &[]), expected);
    let again = stub.calls().split_off(before);
    assert!(again.iter().all(|call| !call.body["input"].to_string().contains("whale")));
}

/// A text that a filter before the endpoint refuses fails its own job, with the reason. Everything else is embedded
/// meanwhile, also for the user whose text it is.
#[test]
fn a_text_that_is_refused_stops_no_other() {
    for status in [403, 500] {
        let stub = embedder();
        stub.faults(FaultPlan::when(move |call| {
            call.body["input"].to_string().contains("FLAGGED").then_some(Fault::Status(status))
        }));
        let cluster = with_embedder(&stub).setting("memory_agent.llm_max_attempts", "4").start();
        let mut bob = cluster.database("remote_refused").connect();
        let mut ann = cluster.connect("remote_refused");
        run(&mut ann, "SET memory_agent.user_id = 'ann'");
        run(&mut bob, "SET memory_agent.user_id = 'bob'; SET memory_agent.embed_on_ingest = async");
        for text in ["Blue whales sing.", "FLAGGED: I live in Rome.", "Green parrots talk."] {
            ingest(&mut bob, "s", text);
        }
        let dead = "SELECT count(*) FROM memory_jobs WHERE status = 'dead'";
        let mut embedded = 0;
        wait_until(Duration::from_secs(60), "the refused text to be given up", || {
            embedded += 1;
            let text = format!("hello {embedded}");
            let embed = "SELECT vector_dims(memory_embed($1))";
            assert_eq!(value::<i32>(&mut ann, embed, &[&text]), 64);
            value::<i64>(&mut bob, dead, &[]) == 1
        });
        assert!(embedded >= 8, "{embedded}");
        let job: String = value(
            &mut bob,
            "SELECT concat_ws('/', kind, attempts, last_error) FROM memory_jobs WHERE status = 'dead'",
            &[],
        );
        assert!(job.starts_with("embed/4/") && job.contains(&format!("HTTP {status}")), "{job}");
        let missing = "SELECT content FROM memory_agent.entries WHERE embedding IS NULL";
        assert_eq!(values::<String>(&mut bob, missing, &[]), ["FLAGGED: I live in Rome."]);
        // To the statement that embeds it it is an error, and to the next ones nothing.
        for number in 0..6 {
            let message = expect_error(bob.query("SELECT memory_embed('FLAGGED')", &[]), "58000");
            assert!(message.contains(&format!("HTTP {status}")), "{message}");
            let embed = format!("SELECT vector_dims(memory_embed('hi {number}'))");
            assert_eq!(value::<i32>(&mut ann, &embed, &[]), 64);
        }
    }
}

#[test]
fn another_dimension_than_the_settings_say_is_refused() {
    let stub = embedder();
    let cluster = with_embedder(&stub).setting("memory_agent.embedding_dimension", 32).start();
    let mut client = cluster.database("remote_dimension").connect();
    let message = expect_error(client.query("SELECT memory_embed('x')", &[]), "58000");
    assert!(message.contains("64") && message.contains("32"), "{message}");
    let register = "SELECT memory_register_model('stub-embedder', 'embedder', location => 'http')";
    expect_error(client.query(register, &[]), "58000");
    let told: bool = value(
        &mut client,
        "SELECT state = 'failing' AND hint IS NOT NULL FROM memory_status() WHERE component = 'embedder'",
        &[],
    );
    assert!(told);
    cluster.alter_system("memory_agent.embedding_dimension", Some("64"));
    let mut client = cluster.connect("remote_dimension");
    run(&mut client, register);
    let dimension: i32 = value(&mut client, "SELECT dimension FROM memory_agent.models", &[]);
    assert_eq!(dimension, 64);
}

/// A database may choose the endpoint for itself, while the others keep the local model.
#[test]
fn a_database_registers_the_endpoint_as_its_embedder() {
    let stub = embedder();
    let cluster = Cluster::builder()
        .preload(true)
        .setting("memory_agent.embedding_base_url", stub.base_url())
        .start();
    let mut client = cluster.database("remote_registered").connect();
    run(
        &mut client,
        "SELECT memory_register_model('stub/embedder:1', 'embedder', location => 'http', activate => true)",
    );
    assert_eq!(value::<i32>(&mut client, "SELECT vector_dims(memory_embed('x'))", &[]), 64);
    let mut other = cluster.database("remote_not_registered").connect();
    assert_eq!(value::<i32>(&mut other, "SELECT vector_dims(memory_embed('x'))", &[]), 384);
    let reranker = "SELECT memory_register_model('r', 'reranker', location => 'http')";
    expect_error(client.query(reranker, &[]), "22023");
}
