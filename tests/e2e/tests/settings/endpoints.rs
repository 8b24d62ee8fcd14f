//! Settings of the LLM's and the embedding endpoint that no other suite changes.

use memory_agent_e2e::llm::{Call, LlmStub, Purpose, Reply, ScriptedModel};
use memory_agent_e2e::memory::{ingest, recall, run, value, values};
use memory_agent_e2e::{Client, Cluster, expect_error, retry_until, wait_until};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster that calls the stub as its LLM, with one more setting.
fn with_llm(stub: &LlmStub, name: &str, value: &str) -> Cluster {
    Cluster::builder()
        .preload(true)
        .setting("memory_agent.llm_base_url", stub.base_url())
        .setting("memory_agent.llm_model", "stub-1")
        .setting(name, value)
        .start()
}

/// A file that the server may read; removed when dropped.
struct KeyFile(PathBuf);

impl KeyFile {
    fn new(test: &str, key: &str) -> Self {
        let name = format!("ma_e2e_{}_{test}.key", std::process::id());
        let file = Self(std::env::temp_dir().join(name));
        file.write(key);
        std::fs::set_permissions(&file.0, std::fs::Permissions::from_mode(0o644)).unwrap();
        file
    }

    fn write(&self, key: &str) {
        std::fs::write(&self.0, format!("{key}\n")).unwrap();
    }

    fn path(&self) -> String {
        self.0.to_string_lossy().into_owned()
    }
}

impl Drop for KeyFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn drain(client: &mut Client) {
    assert!(value::<bool>(client, "SELECT memory_wait('60 s')", &[]), "the queue does not drain");
}

/// The stub does not know these paths: what counts is what it was asked.
#[test]
fn llm_provider_and_api_version() {
    let stub = LlmStub::start(|_: &Call| Reply::error(404, "unknown"));
    let cluster = with_llm(&stub, "memory_agent.llm_provider", "azure");
    cluster.alter_system("memory_agent.llm_api_version", Some("2030-01-01"));
    let key = KeyFile::new("llm_provider", "an-azure-key");
    cluster.alter_system("memory_agent.llm_api_key_file", Some(&key.path()));
    let mut client = cluster.database("llm_provider").connect();
    ingest(&mut client, "s", "I live in Oslo.");
    let call = |path: &str| {
        retry_until(PATIENCE, path, || stub.calls().into_iter().find(|call| call.path == path))
    };
    let azure = call("/v1/openai/deployments/stub-1/chat/completions?api-version=2030-01-01");
    assert_eq!(azure.header("api-key"), Some("an-azure-key"));
    assert_eq!(azure.header("authorization"), None);

    cluster.alter_system("memory_agent.llm_provider", Some("anthropic"));
    let anthropic = call("/v1/messages");
    assert_eq!(anthropic.header("anthropic-version"), Some("2030-01-01"));
    assert_eq!(anthropic.header("x-api-key"), Some("an-azure-key"));
    assert!(anthropic.body["system"].is_string() && anthropic.body["model"] == "stub-1");
}

#[test]
fn reconcile_similarity() {
    let city = |turn: &str, name: &str| (turn.to_owned(), format!("The user lives in {name}."));
    let cities = [city("Rome is my home.", "Rome"), city("I moved to Paris.", "Paris")];
    let model = cities
        .iter()
        .fold(ScriptedModel::new(), |model, (turn, fact)| model.knows(turn, "home", fact, fact));
    let stub = LlmStub::start(model);
    let cluster = with_llm(&stub, "memory_agent.llm_concurrency", "1");
    let mut client = cluster.database("reconcile_similarity").connect();
    let mut homes = |session: &str| {
        for (turn, _) in &cities {
            ingest(&mut client, session, turn);
            drain(&mut client);
        }
        let facts = "SELECT count(*) FROM memory_agent.entries \
                      WHERE kind = 'fact' AND state = 'active' AND session_id = $1";
        let asked = stub.calls().iter().filter(|c| c.purpose() == Purpose::Reconcile).count();
        let homes: i64 = value(&mut client, facts, &[&session]);
        run(&mut client, "SET memory_agent.reconcile_similarity = 1");
        (homes, asked)
    };
    assert_eq!(homes("by default"), (1, 1), "two homes are near enough to be compared");
    assert_eq!(homes("only if equal"), (2, 1), "nothing is as near as that");
}

#[test]
fn trace() {
    let stub = LlmStub::start(|_: &Call| r#"{"facts": []}"#);
    let cluster = with_llm(&stub, "memory_agent.trace", "calls");
    let mut client = cluster.database("trace").connect();
    ingest(&mut client, "s", "The word is marmalade.");
    drain(&mut client);
    let texts = "SELECT concat(request, response) FROM memory_agent.llm_calls ORDER BY id";
    let kept: Vec<String> = values(&mut client, texts, &[]);
    assert!(kept.len() == 1 && kept[0].contains("marmalade") && kept[0].contains("facts"));
    let public: Vec<String> = values(&mut client, "SELECT c::text FROM memory_llm_calls c", &[]);
    assert!(!public[0].contains("marmalade"), "the view is without texts");

    cluster.alter_system("memory_agent.trace", Some("off"));
    wait_until(PATIENCE, "a call that is not kept", || {
        ingest(&mut client, "s", "The word is honey.");
        drain(&mut client);
        values::<String>(&mut client, texts, &[]).last().is_some_and(String::is_empty)
    });
}

/// A cluster whose embeddings come from the stub, 64 numbers each.
fn with_embedder(stub: &LlmStub) -> memory_agent_e2e::Builder {
    Cluster::builder()
        .preload(true)
        .setting("memory_agent.embedding_provider", "http")
        .setting("memory_agent.embedding_base_url", stub.base_url())
        .setting("memory_agent.embedding_model", "stub-embedder")
        .setting("memory_agent.rerank", "off")
}

#[test]
fn embeddings_from_an_endpoint() {
    let stub = LlmStub::start(|_: &Call| Reply::error(404, "no LLM"));
    let key = KeyFile::new("embeddings", "key-1");
    let cluster =
        with_embedder(&stub).setting("memory_agent.embedding_api_key_file", key.path()).start();
    let mut client = cluster.database("embedding_provider").connect();
    for turn in ["Blue whales sing in the sea.", "The printer is out of paper."] {
        ingest(&mut client, "s", turn);
    }
    let rows =
        "SELECT concat_ws('/', embedding_model, vector_dims(embedding)) FROM memory_agent.entries";
    assert_eq!(values::<String>(&mut client, rows, &[]), ["stub-embedder/64"; 2]);
    let found = recall(&mut client, "'whales in the sea', top_k => 1").remove(0);
    assert!(found.content.contains("whales") && found.similarity.is_some());
    let calls = stub.calls();
    assert!(
        calls.iter().all(|call| call.path == "/v1/embeddings" && call.model() == "stub-embedder")
    );
    assert!(calls.iter().all(|call| call.header("authorization") == Some("Bearer key-1")));
    let state = "SELECT state FROM memory_status() WHERE component = 'embedder'";
    assert_eq!(value::<String>(&mut client, state, &[]), "remote");

    // The file is read again when its key changes.
    key.write("key-2");
    ingest(&mut client, "s", "The lock was changed.");
    assert_eq!(stub.calls().last().unwrap().header("authorization"), Some("Bearer key-2"));

    // An outage costs nothing but time.
    stub.set_down(true);
    ingest(&mut client, "s", "Green parrots talk.");
    let missing = "SELECT count(*) FROM memory_agent.entries WHERE embedding IS NULL";
    assert_eq!(value::<i64>(&mut client, missing, &[]), 1);
    assert_eq!(recall(&mut client, "'parrots'")[0].content, "Green parrots talk.");
    stub.set_down(false);
    drain(&mut client);
    assert_eq!(value::<i64>(&mut client, missing, &[]), 0);
}

#[test]
fn embedding_dimension_is_checked() {
    let stub = LlmStub::start(|_: &Call| Reply::error(404, "no LLM"));
    let cluster = with_embedder(&stub).setting("memory_agent.embedding_dimension", 32).start();
    let mut client = cluster.database("embedding_dimension").connect();
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
    let mut client = cluster.connect("embedding_dimension");
    run(&mut client, register);
    let dimension: i32 = value(&mut client, "SELECT dimension FROM memory_agent.models", &[]);
    assert_eq!(dimension, 64);
}
