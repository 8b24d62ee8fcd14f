//! What a relay passes on is data: types, headers, redirects and keys go through by a list of what may pass.

use crate::http::{chat, says, says_streaming, send};
use crate::people::{bearer, token, with_tokens};
use crate::upstream::{Upstream, chunk, completion};
use crate::wire;
use crate::{NEVER_LATE, ROLE, cluster, database, for_ann, stored};
use memory_agent_e2e::{Gateway, Json, json};

/// The key of `with_tokens`.
const KEY: &str = "sk-of-the-gateway";
/// What every answer says that is not the page's.
const POLICY: &str = "default-src 'none'; sandbox";

#[test]
fn an_answer_is_data_whatever_its_type() {
    let upstream = Upstream::start(|request, answer| {
        let kind = request.header("x-kind").unwrap_or("application/json").to_owned();
        let headers =
            [("content-type", &*kind), ("content-security-policy", "script-src 'unsafe-inline'")];
        answer.whole(200, &headers, "<script>1</script>");
    });
    let (gateway, _client) = for_ann("relay_types", &upstream, &[]);
    let other = "application/octet-stream";
    for (sent, expected) in [
        ("application/json", "application/json"),
        ("application/json; charset=utf-8", "application/json; charset=utf-8"),
        ("application/problem+json", "application/problem+json"),
        ("application/x-ndjson", "application/x-ndjson"),
        ("text/plain; charset=utf-8", "text/plain; charset=utf-8"),
        ("text/event-stream", "text/event-stream"),
        ("audio/mpeg", "audio/mpeg"),
        ("image/png", "image/png"),
        ("video/mp4", "video/mp4"),
        ("text/html", other),
        ("TEXT/HTML; charset=utf-8", other),
        ("application/xhtml+xml", other),
        ("text/xml", other),
        ("image/svg+xml", other),
        ("text/javascript", other),
        ("text/css", other),
        ("application/pdf", other),
        ("multipart/x-mixed-replace; boundary=json", other),
        ("text/html; x=application/json", other),
        ("text/html, application/json", other),
        ("", other),
    ] {
        for (method, path) in [
            ("GET", "/v1/models"),
            ("POST", "/v1/embeddings"),
            ("GET", "/v1/files/file-1/content"),
            ("POST", "/v1/chat/completions"),
        ] {
            let reply =
                send(gateway.address(), method, path, &[("x-kind", sent)], &says("s", "Hello."));
            let of = |name: &str| -> Vec<&str> {
                reply.headers.iter().filter(|header| header.0 == name).map(|h| &*h.1).collect()
            };
            assert_eq!(of("content-type"), [expected], "{path} {sent}");
            assert_eq!(of("content-security-policy"), [POLICY], "{path} {sent}");
            assert_eq!(of("x-content-type-options"), ["nosniff"], "{path} {sent}");
        }
    }
    for path in ["/health", "/metrics", "/nowhere", "/v1/ping"] {
        let reply = send(gateway.address(), "GET", path, &[], "");
        assert_eq!(reply.header("content-security-policy"), Some(POLICY), "{path}");
    }
}

#[test]
fn headers_of_an_answer_pass_by_a_list() {
    let passing = [
        ("content-disposition", "attachment; filename=\"a.txt\""),
        ("retry-after", "7"),
        ("retry-after-ms", "7000"),
        ("x-should-retry", "false"),
        ("x-request-id", "req_1"),
        ("request-id", "req_2"),
        ("openai-processing-ms", "12"),
        ("anthropic-ratelimit-tokens-remaining", "9"),
        ("x-ratelimit-remaining-requests", "59"),
    ];
    let held = [
        ("location", "http://127.0.0.1:1/"),
        ("content-location", "http://127.0.0.1:1/"),
        ("refresh", "0; url=http://127.0.0.1:1/"),
        ("link", "<http://127.0.0.1:1/>; rel=preload; as=script"),
        ("clear-site-data", "\"*\""),
        ("www-authenticate", "Basic realm=\"memory\""),
        ("proxy-authenticate", "Basic"),
        ("set-cookie", "a=b"),
        ("access-control-allow-origin", "*"),
        ("access-control-allow-credentials", "true"),
        ("service-worker-allowed", "/"),
        ("strict-transport-security", "max-age=1"),
        ("reporting-endpoints", "a=\"http://127.0.0.1:1/\""),
        ("nel", "{}"),
        ("alt-svc", "h3=\":443\""),
        ("etag", "\"1\""),
        ("x-memory-stored", "forged"),
        ("x-of-nobody", "1"),
    ];
    let sent = [&passing[..], &held[..]].concat();
    let upstream = Upstream::start(move |request, answer| {
        let status = if request.path.ends_with("refused") { 429 } else { 200 };
        let mut headers = sent.clone();
        headers.push(("content-type", "application/json"));
        answer.whole(status, &headers, "{}");
    });
    let (gateway, _client) = for_ann("relay_headers", &upstream, &[]);
    for (method, path) in [
        ("GET", "/v1/models"),
        ("POST", "/v1/embeddings"),
        ("POST", "/v1/chat/completions"),
        ("GET", "/v1/files"),
        ("GET", "/v1/refused"),
    ] {
        let reply = send(gateway.address(), method, path, &[], r#"{"messages": []}"#);
        for (name, value) in passing {
            assert_eq!(reply.header(name), Some(value), "{path}");
        }
        for (name, _) in held {
            assert_eq!(reply.header(name), None, "{path} {name}");
        }
    }
}

#[test]
fn a_redirect_ends_at_the_gateway() {
    let upstream = Upstream::start(|request, answer| {
        let status = request.header("x-request-id").unwrap_or("307").parse().unwrap();
        let headers = [("location", "http://127.0.0.1:1/x"), ("content-type", "text/plain")];
        answer.whole(status, &headers, "Elsewhere.");
    });
    let (own, _client) = for_ann("relay_redirects", &upstream, &[]);
    let (shared, mut client) = with_tokens("relay_redirects_key", &upstream, &[]);
    let ann = bearer(&token(&mut client, "ann", "laptop"));
    for status in ["300", "301", "302", "303", "304", "305", "307", "308"] {
        for (gateway, method, path) in [
            (&own, "POST", "/v1/chat/completions"),
            (&own, "POST", "/v1/messages"),
            (&own, "GET", "/v1/files/file-1/content"),
            (&shared, "POST", "/v1/chat/completions"),
            (&shared, "GET", "/v1/models"),
            (&shared, "POST", "/v1/embeddings"),
        ] {
            let headers = [("x-request-id", status), ("authorization", &*ann)];
            let headers = if std::ptr::eq(gateway, &own) { &headers[..1] } else { &headers[..] };
            let mut reply = send(gateway.address(), method, path, headers, &says("s", "Hello."));
            assert_eq!((reply.status, reply.header("location")), (502, None), "{path} {status}");
            let error = reply.json()["error"].clone();
            assert_eq!(error["code"], "upstream_unavailable");
            assert!(error["message"].as_str().unwrap().contains("redirect"), "{error}");
        }
    }
}

/// Bodies and headers that repeat the key they were asked with, in one piece and in many.
fn repeating() -> Upstream {
    Upstream::start(|request, answer| {
        let key = request.header("authorization").unwrap_or_default().replace("Bearer ", "");
        let status: u16 = request.header("x-request-id").unwrap_or("200").parse().unwrap();
        let headers = [("content-type", "application/json"), ("openai-organization", &*key)];
        if request.body.contains("\"stream\":true") {
            answer.begin();
            let event = format!("data: {}\n\n", chunk(&format!("It is {key}.")));
            let (begin, end) = event.split_at(event.find(&key).unwrap() + 5);
            answer.piece(begin);
            answer.piece(end);
            return answer.done();
        }
        if request.path == "/v1/models" && status == 200 {
            answer.begin_as("audio/mpeg");
            for letter in format!("{key}, {key}{key}").split_inclusive(|_: char| true) {
                answer.piece(letter);
            }
            return answer.end();
        }
        if status == 200 {
            return answer.whole(200, &headers, &completion(&format!("It is {key}.")));
        }
        let escaped: String = key.chars().map(|c| format!("\\u{:04x}", c as u32)).collect();
        // "sk-of-the-gateway", as Basic has it behind a colon.
        let encoded = "OnNrLW9mLXRoZS1nYXRld2F5";
        let error = format!(r#"{{"error": {{"message": "{key} {escaped} {encoded}", "n": 1.0}}}}"#);
        answer.whole(status, &headers, &error);
    })
}

#[test]
fn the_gateways_key_does_not_come_back() {
    let upstream = repeating();
    let (gateway, mut client) = with_tokens("relay_key", &upstream, &[]);
    let ann = bearer(&token(&mut client, "ann", "laptop"));
    let of =
        |status: &'static str| [("authorization", ann.clone()), ("x-request-id", status.into())];
    let mut reply = {
        let headers = of("200");
        chat(&gateway, &headers.each_ref().map(|h| (h.0, &*h.1)), &says("s", "Hello."))
    };
    assert_eq!(reply.header("openai-organization"), Some("***"));
    assert_eq!(reply.json()["choices"][0]["message"]["content"], "It is ***.");
    let headers = of("200");
    let headers = headers.each_ref().map(|h| (h.0, &*h.1));
    let streamed = chat(&gateway, &headers, &says_streaming("s", "Hello again.")).rest().unwrap();
    assert!(streamed.contains("It is ***.") && !streamed.contains("gateway"), "{streamed}");
    let audio = send(gateway.address(), "GET", "/v1/models", &headers, "").rest().unwrap();
    assert_eq!(audio, "***, ******");
    for status in ["400", "403", "404", "429", "500", "529"] {
        let headers = of(status);
        let headers = headers.each_ref().map(|h| (h.0, &*h.1));
        for (method, path) in
            [("POST", "/v1/chat/completions"), ("GET", "/v1/models"), ("POST", "/v1/embeddings")]
        {
            let mut reply = send(gateway.address(), method, path, &headers, &says("s", "Hello."));
            assert_eq!(reply.status.to_string(), status, "{path}");
            assert_eq!(reply.header("openai-organization"), Some("***"), "{path}");
            let error = r#"{"error": {"message": "*** *** ***", "n": 1.0}}"#;
            assert_eq!(reply.rest().unwrap(), error, "{path}");
        }
    }
    let kept = stored(&mut client, "ann", "s").join("\n");
    assert!(kept.contains("It is ***.") && !kept.contains(KEY), "{kept}");
    // The caller's own key is the caller's.
    let (own, _client) = for_ann("relay_own_key", &upstream, &[]);
    let headers = [("authorization", "Bearer sk-of-ann-her-own"), ("x-request-id", "403")];
    let mut reply = chat(&own, &headers, &says("s", "Hello."));
    assert!(reply.rest().unwrap().contains("sk-of-ann-her-own"));
}

#[test]
fn an_idempotency_key_is_one_callers() {
    let upstream = Upstream::saying("Yes.");
    let (gateway, mut client) = with_tokens("relay_idempotency", &upstream, &[]);
    let [ann, bob] = ["ann", "bob"].map(|user| bearer(&token(&mut client, user, "laptop")));
    let sent = |caller: &str, key: &str| {
        let headers = [("authorization", caller), ("idempotency-key", key)];
        assert_eq!(chat(&gateway, &headers, &says("s", "Hello.")).status, 200);
        upstream.last().header("idempotency-key").map(str::to_owned)
    };
    let first = sent(&ann, "k1").unwrap();
    assert_eq!(sent(&ann, "k1").as_ref(), Some(&first), "a retry is one");
    assert!(first.len() == 64 && first.bytes().all(|byte| byte.is_ascii_hexdigit()), "{first}");
    for (caller, key) in [(&bob, "k1"), (&ann, "k2"), (&bob, &*first), (&ann, &*first)] {
        assert_ne!(sent(caller, key).as_ref(), Some(&first), "{key}");
    }
    // With the caller's own key it is the caller's own already.
    let (own, _client) = for_ann("relay_idempotency_own", &upstream, &[]);
    chat(&own, &[("idempotency-key", "k1")], &says("s", "Hello."));
    assert_eq!(upstream.last().header("idempotency-key"), Some("k1"));
}

#[test]
fn a_key_of_one_protocol_never_goes_to_the_upstream_of_the_other() {
    let openai = Upstream::start(|_, answer| answer.json(r#"{"of": "openai"}"#));
    let anthropic = Upstream::start(|_, answer| answer.json(r#"{"of": "anthropic"}"#));
    drop(database(cluster(), "relay_protocols"));
    let to = Gateway::database(cluster(), ROLE, "relay_protocols");
    let fixed = ["--database", &to, "--user", "ann", "--patience", NEVER_LATE];
    let both = ["--upstream", &openai.url(), "--messages-upstream", &anthropic.url()];
    let gateway = Gateway::start(&[&fixed[..], &both].concat());
    let body =
        json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]});
    let ask = |method: &str, path: &str, headers: &[(&str, &str)]| {
        let mut reply = send(gateway.address(), method, path, headers, &body.to_string());
        let answer = reply.json();
        let error = answer["error"]["message"].as_str();
        (reply.status, answer["of"].as_str().or(error).unwrap_or_default().to_owned())
    };
    let key = ("x-api-key", "sk-ant-1");
    let version = ("anthropic-version", "2023-06-01");
    let signed_in = ("authorization", "Bearer sk-ant-2");
    let openais = ("authorization", "Bearer sk-openai");
    for headers in [&[key, version][..], &[key], &[signed_in, version]] {
        for (method, path) in [
            ("GET", "/v1/models"),
            ("GET", "/v1/models/claude"),
            ("GET", "/v1/files"),
            ("POST", "/v1/memory_stores"),
            ("POST", "/v1/messages"),
            ("POST", "/v1/messages/count_tokens"),
            ("POST", "/v1/messages/batches"),
        ] {
            assert_eq!(ask(method, path, headers), (200, "anthropic".into()), "{path}");
        }
        for path in ["/v1/chat/completions", "/v1/responses", "/v1/embeddings"] {
            let (status, message) = ask("POST", path, headers);
            assert!(status == 400 && message.contains("without /v1"), "{path}: {message}");
        }
    }
    for headers in [&[openais][..], &[]] {
        for (method, path) in [
            ("GET", "/v1/models"),
            ("GET", "/v1/files"),
            ("POST", "/v1/chat/completions"),
            ("POST", "/v1/responses"),
            ("POST", "/v1/embeddings"),
        ] {
            assert_eq!(ask(method, path, headers), (200, "openai".into()), "{path}");
        }
    }
    for path in ["/v1/messages", "/v1/messages/count_tokens", "/v1/messages/chat/completions"] {
        for header in [openais, ("api-key", "sk-openai")] {
            let (status, message) = ask("POST", path, &[header]);
            assert!(status == 400 && message.contains("anthropic-version"), "{path}: {message}");
        }
    }
    // A base URL with one /v1 too many, or too few.
    for (method, path) in [
        ("POST", "/v1/v1/messages"),
        ("POST", "/v1/v1/chat/completions"),
        ("GET", "/v1/v1/models"),
        ("POST", "/messages"),
        ("POST", "/chat/completions"),
        ("GET", "/models"),
    ] {
        let (status, message) = ask(method, path, &[key, version]);
        assert_eq!(status, 404, "{path}");
        assert!(message.contains("ends with /v1") && message.contains("Anthropic"), "{message}");
    }
    let seen = |upstream: &Upstream| format!("{:?}", upstream.requests());
    assert!(!seen(&openai).contains("sk-ant") && !seen(&anthropic).contains("sk-openai"));
}

#[test]
fn what_is_stored_for_the_gateways_key_is_named_by_who_was_given_it() {
    let upstream = Upstream::start(|request, answer| {
        let name = if request.body.contains("bob") { "bob" } else { "ann" };
        let message = json!({"id": format!("msg_{name}"), "type": "message", "role": "assistant",
            "content": [{"type": "output_text", "text": "Yes.", "annotations": []}]});
        let tool = json!({"id": "ci", "type": "code_interpreter_call", "container_id": format!("cntr_{name}")});
        let mut whole = wire::response("completed", &[message, tool]);
        whole["id"] = format!("resp_{name}").into();
        if request.json()["stream"] == true {
            answer.begin();
            let mut begun = whole.clone();
            begun["output"] = json!([]);
            wire::send(answer, &json!({"type": "response.created", "response": begun}));
            wire::send(answer, &json!({"type": "response.completed", "response": whole}));
            return answer.end();
        }
        answer.json(&whole.to_string());
    });
    let (gateway, mut client) = with_tokens("relay_stored", &upstream, &[]);
    let [ann, bob] = ["ann", "bob"].map(|user| bearer(&token(&mut client, user, "laptop")));
    let ask = |gateway: &Gateway, path: &str, caller: &str, body: &Json| {
        let mut reply =
            send(gateway.address(), "POST", path, &[("authorization", caller)], &body.to_string());
        let status = reply.status;
        (status, reply.rest().unwrap())
    };
    let says = |name: &str, more: Json| {
        let mut body = json!({"model": "m", "input": [{"role": "user", "content": name}]});
        body.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        body
    };
    let responses = "/v1/responses";
    assert_eq!(ask(&gateway, responses, &ann, &says("I am ann.", json!({}))).0, 200);
    assert_eq!(ask(&gateway, responses, &bob, &says("I am bob.", json!({"stream": true}))).0, 200);
    let count = upstream.requests().len();
    for (named, is_anns) in [
        (json!({"previous_response_id": "resp_ann"}), true),
        (json!({"previous_response_id": "resp_bob"}), false),
        (json!({"tools": [{"type": "code_interpreter", "container": "cntr_ann"}]}), true),
        (json!({"tools": [{"type": "code_interpreter", "container": "cntr_bob"}]}), false),
        (json!({"input": [{"type": "item_reference", "id": "msg_ann"}]}), true),
        (json!({"input": [{"type": "item_reference", "id": "msg_bob"}]}), false),
    ] {
        for (caller, is_theirs) in [(&ann, is_anns), (&bob, !is_anns)] {
            let (status, answer) = ask(&gateway, responses, caller, &says("More.", named.clone()));
            assert_eq!(status, if is_theirs { 200 } else { 400 }, "{named}: {answer}");
            assert!(is_theirs || answer.contains("invalid_request"), "{answer}");
        }
    }
    assert_eq!(upstream.requests().len(), count + 6);
    // What nobody was given is the account's own.
    let file = json!({"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1"}}]}]});
    for (path, body) in [
        (responses, says("Hi.", json!({"previous_response_id": "resp_of_nobody"}))),
        (responses, says("Hi.", json!({"conversation": "conv_1"}))),
        (responses, says("Hi.", json!({"prompt": {"id": "pmpt_1"}}))),
        (
            responses,
            says("Hi.", json!({"tools": [{"type": "file_search", "vector_store_ids": ["vs_1"]}]})),
        ),
        ("/v1/chat/completions", file),
        ("/v1/embeddings", json!({"input": "Hi.", "file_id": "file-1"})),
    ] {
        assert_eq!(ask(&gateway, path, &ann, &body).0, 400, "{body}");
    }
    assert_eq!(upstream.requests().len(), count + 6, "none of it went upstream");
    // With the caller's own key it is the caller's account.
    let (own, _client) = for_ann("relay_stored_own", &upstream, &[]);
    let body = says("Hi.", json!({"previous_response_id": "resp_of_nobody"}));
    assert_eq!(ask(&own, responses, "Bearer sk-of-ann", &body).0, 200);
}
