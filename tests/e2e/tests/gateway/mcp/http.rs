//! `/mcp` of the gateway: one request, one answer, whose user is that of the token.

use super::{PREVIOUS, call, initialize, said};
use crate::http::{Reply, send};
use crate::people::{token, with_tokens};
use crate::upstream::Upstream;
use crate::{NEVER_LATE, PATIENCE, ROLE, database, for_ann};
use memory_agent_e2e::llm::{Call, LlmStub, Reply as Answer};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Cluster, Gateway, Json, StopMode, json, wait_until};

/// Sends a message as a client of the previous protocol does.
fn post(gateway: &Gateway, headers: &[(&str, &str)], message: &Json) -> Reply {
    let fixed = [
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", PREVIOUS),
    ];
    send(gateway.address(), "POST", "/mcp", &[&fixed, headers].concat(), &message.to_string())
}

/// Calls a tool: the text of its answer, and whether it failed.
#[track_caller]
fn ask(gateway: &Gateway, token: &str, tool: &str, arguments: &Json) -> (String, bool) {
    let bearer = format!("Bearer {token}");
    let mut reply = post(gateway, &[("authorization", &bearer)], &call(1, tool, arguments));
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    said(&reply.json())
}

/// The id that a tool returned.
#[track_caller]
fn id((text, failed): (String, bool)) -> String {
    assert!(!failed, "{text}");
    let answer: Json = serde_json::from_str(&text).unwrap();
    answer["id"].as_str().unwrap().to_owned()
}

#[test]
fn two_tokens_never_see_each_other() {
    let upstream = Upstream::saying("Never asked.");
    let (gateway, mut client) = with_tokens("mcp_tokens", &upstream, &[]);
    let (ann, bob) = (token(&mut client, "ann", "laptop"), token(&mut client, "bob", "phone"));
    std::thread::scope(|scope| {
        for (user, other, token) in [("ann", "bob", &ann), ("bob", "ann", &bob)] {
            let gateway = &gateway;
            scope.spawn(move || {
                for number in 0..6 {
                    let text = format!("The secret number {number} of {user} is {user}{number}.");
                    id(ask(gateway, token, "add_memory", &json!({"text": text})));
                    for (tool, arguments) in [
                        ("search_memories", json!({"query": "secret number"})),
                        ("search", json!({"query": other})),
                        ("list_memories", json!({})),
                    ] {
                        let (found, failed) = ask(gateway, token, tool, &arguments);
                        assert!(!failed && !found.contains(other), "{user} got {found}");
                        assert!(found.contains(user), "{user} got {found}");
                    }
                }
            });
        }
    });
    let secret =
        id(ask(&gateway, &ann, "add_memory", &json!({"text": "The key is under the mat."})));
    for (tool, arguments) in [
        ("get_memory", json!({"id": secret})),
        ("fetch", json!({"id": secret})),
        ("update_memory", json!({"id": secret, "text": "There is no key."})),
        ("delete_memory", json!({"id": secret})),
    ] {
        let (found, failed) = ask(&gateway, &bob, tool, &arguments);
        assert!(failed && found.contains("No memory has this id"), "{tool}: {found}");
    }
    let (found, failed) = ask(&gateway, &ann, "get_memory", &json!({"id": secret}));
    assert!(!failed && found.contains("under the mat"), "{found}");
    let users: String = value(
        &mut client,
        "SELECT string_agg(DISTINCT user_id, ' ' ORDER BY user_id) FROM memory_agent.entries",
        &[],
    );
    assert_eq!(users, "ann bob");
    assert!(!upstream.requests().iter().any(|request| request.method == "POST"));
    let log = gateway.log();
    assert!(log.contains("\"tool\":\"add_memory\""), "{log}");
    for word in ["mat_", "secret number", "ann", "under the mat"] {
        assert!(!log.contains(word), "{word} is in the log:\n{log}");
    }
}

#[test]
fn only_a_token_lets_in() {
    let upstream = Upstream::saying("Never asked.");
    let (gateway, mut client) = with_tokens("mcp_refused", &upstream, &["--rate", "5"]);
    let list = call(1, "list_memories", &json!({}));
    for headers in [&[][..], &[("authorization", "Bearer mat_0")], &[("x-memory-token", "eve")]] {
        let mut reply = post(&gateway, headers, &list);
        assert_eq!(reply.status, 401);
        assert_eq!(reply.json()["error"]["code"], "invalid_memory_token");
    }
    let ann = token(&mut client, "ann", "laptop");
    let header = [("x-memory-token", &*ann)];
    assert_eq!(post(&gateway, &header, &list).status, 200);
    wait_until(PATIENCE, "the rate to be used up", || post(&gateway, &header, &list).status == 429);
    run(&mut client, "SELECT memory_revoke_token('ann', 'laptop')");
    assert_eq!(post(&gateway, &header, &list).status, 401);
}

#[test]
fn one_person_needs_no_token_on_this_machine() {
    let upstream = Upstream::saying("Never asked.");
    let (gateway, _client) = for_ann("mcp_one", &upstream, &["--max-body", "100000"]);
    let begin = initialize(PREVIOUS);
    let from = |headers: &[(&str, &str)]| post(&gateway, headers, &begin).status;
    assert_eq!(from(&[]), 200);
    assert_eq!(from(&[("origin", "http://localhost:3000")]), 403);
    assert_eq!(from(&[("origin", "https://evil.example")]), 403);
    assert_eq!(from(&[("host", "rebound.example")]), 403);

    let begun = post(&gateway, &[], &begin).json();
    assert_eq!(begun["result"]["protocolVersion"], PREVIOUS, "{begun}");
    let oldest = "2025-03-26";
    let header = [("mcp-protocol-version", oldest)];
    let fixed =
        [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
    let old = initialize(oldest).to_string();
    let mut reply = send(gateway.address(), "POST", "/mcp", &[&fixed[..], &header].concat(), &old);
    assert_eq!(reply.json()["result"]["protocolVersion"], oldest);
    // No session is kept: a call comes without one, and a stream is not offered.
    let (found, failed) = said(&post(&gateway, &[], &call(1, "list_memories", &json!({}))).json());
    assert!(!failed, "{found}");
    for method in ["GET", "DELETE"] {
        let accept = [("accept", "text/event-stream")];
        assert_eq!(send(gateway.address(), method, "/mcp", &accept, "").status, 405);
    }
    let unknown = [&fixed[..], &[("mcp-protocol-version", "1999-01-01")]].concat();
    let list = call(1, "list_memories", &json!({})).to_string();
    assert_eq!(send(gateway.address(), "POST", "/mcp", &unknown, &list).status, 400);
    assert_eq!(send(gateway.address(), "POST", "/mcp", &fixed, "{").status, 415);
    let mut large =
        post(&gateway, &[], &call(1, "add_memory", &json!({"text": "a".repeat(200_000)})));
    assert_eq!(large.status, 413);
    assert_eq!(large.json()["error"]["code"], "request_too_large");
}

#[test]
fn what_was_said_has_its_session_and_metadata() {
    let upstream = Upstream::saying("Never asked.");
    let (gateway, mut client) = for_ann("mcp_turns", &upstream, &[]);
    let turn: String = value(
        &mut client,
        "SELECT memory_ingest('chat-1', 'user', 'I moved to Oslo.', user_id => 'ann', \
                              metadata => '{\"app\": {\"n\": 1.5}}')::text",
        &[],
    );
    run(
        &mut client,
        "SELECT memory_add('The office closes at six.', user_id => '*', infer => false)",
    );
    let ask = |tool: &str, arguments: Json| -> Json {
        let (text, failed) = said(&post(&gateway, &[], &call(1, tool, &arguments)).json());
        assert!(!failed, "{tool}: {text}");
        serde_json::from_str(&text).unwrap()
    };
    let turns = ask("list_memories", json!({"kind": "turn"}));
    let expected = json!({"id": turn, "text": "I moved to Oslo.", "kind": "turn", "role": "user", "session": "chat-1"});
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&turns["memories"][0][name], value, "{turns}");
    }
    let whole = ask("get_memory", json!({"id": turn}));
    assert_eq!(whole["metadata"], json!({"app": {"n": 1.5}}));
    assert_eq!(whole["history"][0]["event"], "ingest", "{whole}");
    let document = ask("fetch", json!({"id": turn}));
    assert_eq!(document["metadata"]["session"], "chat-1");
    assert_eq!(document["metadata"]["app"], json!({"n": 1.5}));
    // Memory of everybody is there to be read, not to be changed.
    let shared = &ask("list_memories", json!({}))["memories"][0];
    assert_eq!(shared["text"], "The office closes at six.");
    assert_eq!(ask("get_memory", json!({"id": shared["id"]}))["text"], shared["text"]);
    let forget = call(1, "delete_memory", &json!({"id": shared["id"]}));
    assert!(said(&post(&gateway, &[], &forget).json()).1);
}

/// A client refuses answers of a hundred kilobytes: only a memory that is asked for by its id comes as a whole.
#[test]
fn of_long_memories_searches_and_lists_have_passages() {
    let upstream = Upstream::saying("Never asked.");
    let (gateway, mut client) = for_ann("mcp_passages", &upstream, &[]);
    let answer = "The shard leader timed out because its disk was full.";
    let mut ids = Vec::new();
    for run in 0..3 {
        let half = format!("Check of run {run} found nothing to report.\n").repeat(450);
        let text = format!("{half}{answer}\n{half}");
        let ingest = "SELECT memory_ingest('logs', 'user', $1, user_id => 'ann')::text";
        ids.push((value::<String>(&mut client, ingest, &[&text]), text));
    }
    let ask = |tool: &str, arguments: Json| -> (Json, usize) {
        let reply = post(&gateway, &[], &call(1, tool, &arguments)).json();
        let (text, failed) = said(&reply);
        assert!(!failed, "{tool}: {text}");
        (serde_json::from_str(&text).unwrap(), reply.to_string().len())
    };
    let (found, size) = ask("search_memories", json!({"query": "shard leader timeout"}));
    assert!(size < 12_000, "{size}: {found}");
    let memories = found["memories"].as_array().unwrap();
    assert_eq!(memories.len(), 3);
    for memory in memories {
        let text = memory["text"].as_str().unwrap();
        assert!(memory["shortened"] == true && text.contains(answer), "{memory}");
        assert!(text.starts_with("… ") && text.ends_with(" …"), "{memory}");
    }
    let (listed, size) = ask("list_memories", json!({"kind": "turn"}));
    assert!(size < 12_000, "{size}: {listed}");
    for memory in listed["memories"].as_array().unwrap() {
        let text = memory["text"].as_str().unwrap();
        assert!(memory["shortened"] == true && text.starts_with("Check of run"), "{memory}");
    }
    let (titles, _) = ask("search", json!({"query": "shard leader timeout"}));
    assert!(titles["results"][0]["title"].as_str().unwrap().starts_with("Check"), "{titles}");
    for (id, text) in &ids {
        let (whole, _) = ask("get_memory", json!({"id": id}));
        assert_eq!(whole["text"], *text);
        assert!(whole.get("shortened").is_none());
        let earlier = whole["history"][0]["text"].as_str().unwrap();
        assert!(earlier.len() < 2000 && earlier.ends_with(" …"), "{earlier}");
        assert_eq!(ask("fetch", json!({"id": id})).0["text"], *text);
    }
}

#[test]
fn without_a_database_the_tools_say_so() {
    let cluster = Cluster::builder().preload(true).setting("memory_agent.worker", "off").start();
    run(&mut cluster.connect("postgres"), &format!("CREATE ROLE {ROLE} LOGIN"));
    drop(database(&cluster, "mcp_down"));
    let to = Gateway::database(&cluster, ROLE, "mcp_down");
    let options = ["--database", &to, "--user", "ann", "--patience", NEVER_LATE];
    let gateway = Gateway::start(&options);
    let add = call(1, "add_memory", &json!({"text": "Ann likes tea."}));
    assert!(!said(&post(&gateway, &[], &add).json()).1);
    cluster.stop(StopMode::Immediate);
    let (text, failed) = said(&post(&gateway, &[], &add).json());
    assert!(failed && text.contains("Memory cannot be reached. Go on without it"), "{text}");
    let metrics = send(gateway.address(), "GET", "/metrics", &[], "").rest().unwrap();
    assert!(metrics.contains("memory_gateway_memory_failures_total{step=\"tool\"} 1"), "{metrics}");
    cluster.start();
    wait_until(PATIENCE, "memory to be back", || !said(&post(&gateway, &[], &add).json()).1);
}

#[test]
fn the_servers_model_condenses_a_text() {
    let model = |call: &Call| match call.model() {
        "good" => Answer::from("Ann went to Bergen."),
        _ => Answer::error(400, "no"),
    };
    let stub = LlmStub::start(model);
    let cluster = Cluster::builder()
        .preload(true)
        .setting("memory_agent.worker", "off")
        .setting("memory_agent.llm_base_url", stub.base_url())
        .setting("memory_agent.llm_model", "good")
        .start();
    run(&mut cluster.connect("postgres"), &format!("CREATE ROLE {ROLE} LOGIN"));
    let mut client = database(&cluster, "mcp_model");
    let to = Gateway::database(&cluster, ROLE, "mcp_model");
    let gateway = Gateway::start(&["--database", &to, "--user", "ann"]);
    let text = "Ann went to Bergen by train, and it rained all day. ".repeat(20);
    let condense = |max_tokens: u32| {
        let arguments = json!({"text": text, "max_tokens": max_tokens, "content_type": "journal"});
        said(&post(&gateway, &[], &call(1, "summarize_text", &arguments)).json())
    };
    let (answer, failed) = condense(40);
    assert!(!failed, "{answer}");
    let answer: Json = serde_json::from_str(&answer).unwrap();
    assert_eq!(
        (&answer["summary"], &answer["model"]),
        (&json!("Ann went to Bergen."), &json!("good"))
    );
    assert_eq!(answer["signature"], Json::Null);
    let user: String =
        value(&mut client, "SELECT user_id FROM memory_agent.history WHERE op = 'summarize'", &[]);
    assert_eq!(user, "ann");
    let (said, failed) = condense(1);
    assert!(failed && said.contains("max_tokens is from 16 to 100000"), "{said}");
    run(&mut client, "ALTER SYSTEM SET memory_agent.llm_model = 'bad'");
    run(&mut client, "SELECT pg_reload_conf()");
    wait_until(PATIENCE, "the model to fail", || condense(40).1);
    let (said, _) = condense(40);
    assert!(said.contains("gave no answer"), "{said}");
}
