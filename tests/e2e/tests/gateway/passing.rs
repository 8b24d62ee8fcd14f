//! What goes through as it is, and what ends here. The first half are the cases of agent-cli's tests of its proxy
//! (`tests/memory/test_proxy_passthrough.py`, `test_api_health.py`, `test_api_integration_liveish.py`).

use crate::http::{chat, says, send};
use crate::people::{token, with_tokens};
use crate::upstream::Upstream;
use crate::{NEVER_LATE, PATIENCE, ROLE, cluster, database, for_ann, stored};
use memory_agent_e2e::llm::{LlmStub, ScriptedModel};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Cluster, Gateway, Json, json, wait_until};

/// Answers with what came.
fn echo() -> Upstream {
    Upstream::start(|request, answer| match request.path.as_str() {
        "/v1/models" => answer.json(r#"{"data": [{"id": "gpt-4", "x": 1.0}]}"#),
        path if path.starts_with("/v1/other") => {
            answer.whole(200, &[("content-type", "text/plain")], "OK");
        }
        _ if request.body.is_empty() => answer.json("{}"),
        _ => answer.json(&format!("{{\"echo\": {}}}", request.body)),
    })
}

#[test]
fn models_are_those_of_the_upstream() {
    let upstream = echo();
    let (gateway, _client) = for_ann("passing_models", &upstream, &[]);
    let mut reply = send(gateway.address(), "GET", "/v1/models", &[], "");
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")));
    assert_eq!(reply.rest().unwrap(), r#"{"data": [{"id": "gpt-4", "x": 1.0}]}"#);
    let sent = upstream.requests().pop().unwrap();
    assert_eq!((sent.method.as_str(), sent.path.as_str()), ("GET", "/v1/models"));
}

#[test]
fn any_other_path_goes_through_with_the_callers_key() {
    let upstream = echo();
    let (gateway, _client) = for_ann("passing_other", &upstream, &[]);
    let headers = [("authorization", "Bearer sk-of-ann"), ("content-type", "text/plain")];
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        let path = "/v1/other/path?foo=bar";
        let mut reply = send(gateway.address(), method, path, &headers, "payload");
        assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/plain")));
        assert_eq!(reply.rest().unwrap(), "OK");
        let sent = upstream.requests().pop().unwrap();
        assert_eq!((sent.method.as_str(), sent.path.as_str()), (method, path));
        assert_eq!(
            (sent.body.as_str(), sent.header("authorization")),
            ("payload", Some("Bearer sk-of-ann"))
        );
    }
    let mut reply = send(gateway.address(), "GET", "/v1/responses/resp_1?stream=true", &[], "");
    assert_eq!(reply.json(), json!({}));
    let embedded = send(gateway.address(), "POST", "/v1/embeddings", &[], r#"{"n": 1.0}"#).rest();
    assert_eq!(embedded.unwrap(), r#"{"echo": {"n": 1.0}}"#);
}

#[test]
fn an_upstream_that_is_not_there_is_a_bad_gateway() {
    drop(database(cluster(), "passing_nowhere"));
    let to = Gateway::database(cluster(), ROLE, "passing_nowhere");
    let fixed = ["--database", &to, "--user", "ann", "--patience", NEVER_LATE];
    let lost = Gateway::start(&[&fixed[..], &["--upstream", "http://127.0.0.1:9/v1"]].concat());
    for path in ["/v1/models", "/v1/other"] {
        let mut reply = send(lost.address(), "GET", path, &[], "");
        assert_eq!(
            (reply.status, reply.json()["error"]["code"].clone()),
            (502, json!("upstream_unavailable"))
        );
    }
}

#[test]
fn health_has_the_fields_of_agent_cli_for_who_may_chat() {
    let upstream = Upstream::saying("Yes.");
    let (gateway, _client) = for_ann("passing_health", &upstream, &[]);
    let health = send(gateway.address(), "GET", "/health", &[], "").json();
    assert_eq!(health["status"], "ok");
    assert_eq!(health["memory_store"], "passing_health");
    assert_eq!(health["openai_base_url"], upstream.url());
    assert_eq!(health["default_top_k"], "5");
    let (gateway, mut client) = with_tokens("passing_health_tokens", &upstream, &[]);
    let token = token(&mut client, "ann", "laptop");
    let bearer = format!("Bearer {token}");
    let asked =
        |headers: &[(&str, &str)]| send(gateway.address(), "GET", "/health", headers, "").json();
    for headers in [&[][..], &[("authorization", "Bearer mat_1")]] {
        let health = asked(headers);
        assert_eq!((health["status"].clone(), health["ready"].clone()), (json!("ok"), json!(true)));
        assert!(
            health.get("openai_base_url").is_none() && health.get("memory_store").is_none(),
            "{health}"
        );
    }
    assert_eq!(asked(&[("authorization", &bearer)])["memory_store"], "passing_health_tokens");
}

/// agent-cli's conversation: two facts about one thing, of which the later one holds. Without `memory_id` it is the
/// session `default`.
#[test]
fn the_latest_fact_is_what_is_known() {
    let model = ScriptedModel::new()
        .knows("my wife is Jane", "wife", "Jane", "User's wife is Jane.")
        .knows("my wife is Anne", "wife", "Anne", "User's wife is Anne.");
    let stub = LlmStub::start(model);
    let cluster = Cluster::builder()
        .preload(true)
        .setting("memory_agent.identity", "required")
        .setting("memory_agent.llm_base_url", stub.base_url())
        .setting("memory_agent.llm_model", "stub-1")
        .setting("memory_agent.summarization", "off")
        .setting("memory_agent.compression", "off")
        .start();
    run(&mut cluster.connect("postgres"), &format!("CREATE ROLE {ROLE} LOGIN"));
    let mut client = database(&cluster, "passing_facts");
    let upstream = Upstream::saying("ok");
    let (to, url) = (Gateway::database(&cluster, ROLE, "passing_facts"), upstream.url());
    let fixed = ["--database", &to, "--upstream", &url, "--user", "ann", "--patience", NEVER_LATE];
    let gateway = Gateway::start(&fixed);
    for text in ["my wife is Jane", "my wife is Anne"] {
        let body = json!({"model": "demo-model", "messages": [{"role": "user", "content": text}]});
        assert_eq!(
            chat(&gateway, &[], &body.to_string()).json()["choices"][0]["message"]["content"],
            "ok"
        );
        let waited: bool = value(&mut client, "SELECT memory_wait('90 s', user_id => 'ann')", &[]);
        assert!(waited, "the worker is done");
    }
    let facts: Vec<String> = values(
        &mut client,
        "SELECT concat_ws(' ', e.content, e.session_id) FROM memory_agent.entries e \
          WHERE e.user_id = 'ann' AND e.kind = 'fact' AND e.state <> 'inactive'",
        &[],
    );
    assert_eq!(facts.len(), 1, "{facts:?}");
    assert!(facts[0].starts_with("User's wife is Anne."), "{facts:?}");
    let sessions: Vec<String> = values(
        &mut client,
        "SELECT DISTINCT e.session_id FROM memory_agent.entries e WHERE e.kind = 'turn'",
        &[],
    );
    let is_own = |session: &String| session.starts_with("chat-");
    assert!(sessions.len() == 2 && sessions.iter().all(is_own), "{sessions:?}");
}

#[test]
fn with_the_gateways_key_nothing_else_goes_upstream() {
    let upstream = echo();
    let (gateway, mut client) = with_tokens("passing_key", &upstream, &[]);
    let bearer = format!("Bearer {}", token(&mut client, "ann", "laptop"));
    let to = |method, path: &str| {
        send(gateway.address(), method, path, &[("authorization", &bearer)], "{}").status
    };
    assert_eq!(to("GET", "/v1/models"), 200);
    let passed = upstream.requests().len();
    for (method, path) in [
        ("POST", "/v1/files"),
        ("GET", "/v1/responses/resp_1"),
        ("DELETE", "/v1/models/m"),
        ("POST", "/v1/images/generations"),
        ("GET", "/v1/organization/admin_api_keys"),
    ] {
        assert_eq!(to(method, path), 404, "{path}");
    }
    // The other upstream has no key here, so that one is the caller's.
    assert_eq!(to("DELETE", "/v1/models"), 405);
    assert_eq!(upstream.requests().len(), passed);
}

#[test]
fn nothing_in_a_request_decides_which_host_is_asked() {
    let upstream = echo();
    let (gateway, mut client) = for_ann("passing_injection", &upstream, &[]);
    let passed = upstream.requests().len();
    for (method, path) in [
        ("POST", "/v1/chat/completions/../files"),
        ("GET", "/v1/models/../files"),
        ("GET", "/v1/%2e%2e/files"),
        ("GET", "/v1//models"),
        ("GET", "/v1/@127.0.0.1:1/x"),
        ("GET", "/v1/models%0d%0aHost:evil"),
        ("GET", "/v2/files"),
        ("GET", "/other"),
        ("POST", "//127.0.0.1:1/v1/models"),
        ("GET", "/v1/memories/x/y/z"),
    ] {
        let status = send(gateway.address(), method, path, &[], "{}").status;
        assert!(matches!(status, 400 | 404), "{path}: {status}");
    }
    // A whole address as the target of a request is looked at as its path.
    let absolute =
        send(gateway.address(), "GET", "http://127.0.0.1:1/v1/files/x/../..", &[], "").status;
    assert!(matches!(absolute, 400 | 403 | 404), "{absolute}");
    assert_eq!(upstream.requests().len(), passed, "nothing went upstream");
    // The name of a model is a text in the body, whatever it says, and so are addresses of images.
    for model in ["http://127.0.0.1:1/v1", "../../admin", "m\r\nHost: evil", "file:///etc/passwd"] {
        let mut body: Json = says("s", "Hello.").parse().unwrap();
        body["model"] = model.into();
        body["messages"][0]["content"] = json!([
            {"type": "text", "text": "Hello."},
            {"type": "image_url", "image_url": {"url": "http://127.0.0.1:1/x.png"}},
        ]);
        assert_eq!(chat(&gateway, &[], &body.to_string()).status, 200, "{model}");
        let sent = upstream.last();
        assert_eq!(
            (sent.path.as_str(), sent.json()["model"].clone()),
            ("/v1/chat/completions", json!(model))
        );
        assert_eq!(
            sent.header("host"),
            Some(upstream.url().replace("http://", "").replace("/v1", "").as_str())
        );
    }
    wait_until(PATIENCE, "the turns to be stored", || !stored(&mut client, "ann", "s").is_empty());
}
