//! Settings of the LLM's endpoint that no other suite changes.

use memory_agent_e2e::llm::{Call, LlmStub, Reply};
use memory_agent_e2e::memory::{ingest, value, values};
use memory_agent_e2e::{Client, Cluster, retry_until, wait_until};
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

fn drain(client: &mut Client) {
    assert!(value::<bool>(client, "SELECT memory_wait('60 s')", &[]), "the queue does not drain");
}

/// The stub does not know these paths: what counts is what it was asked.
#[test]
fn llm_provider_and_api_version() {
    let stub = LlmStub::start(|_: &Call| Reply::error(404, "unknown"));
    let cluster = with_llm(&stub, "memory_agent.llm_provider", "azure");
    cluster.alter_system("memory_agent.llm_api_version", Some("2030-01-01"));
    let key = cluster.socket_directory().join("llm.key");
    std::fs::write(&key, "an-azure-key\n").unwrap();
    cluster.alter_system("memory_agent.llm_api_key_file", key.to_str());
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

/// A wrong address is told where it is set, not by the first job that fails.
#[test]
fn an_address_has_a_scheme() {
    let cluster = Cluster::builder().preload(true).start();
    let mut client = cluster.database("llm_address").connect();
    let set = "ALTER SYSTEM SET memory_agent.llm_base_url = '127.0.0.1:11434/v1'";
    let error = client.batch_execute(set).unwrap_err();
    let detail = error.as_db_error().and_then(|error| error.detail());
    assert_eq!(detail, Some("It must begin with http:// or https://."));
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
