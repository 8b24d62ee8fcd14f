//! Web pages of other origins, and addresses that are nearly right.

use crate::for_ann;
use crate::http::{Reply, chat, says, send};
use crate::upstream::Upstream;
use memory_agent_e2e::Gateway;

const ORIGIN: &str = "http://localhost:3000";

fn preflight(gateway: &Gateway, path: &str, origin: &str) -> Reply {
    let headers = [
        ("origin", origin),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization,content-type,x-memory-id"),
        ("access-control-request-private-network", "true"),
    ];
    send(gateway.address(), "OPTIONS", path, &headers, "")
}

#[test]
fn a_page_of_an_origin_that_is_named_may_ask() {
    let upstream = Upstream::saying("Yes.");
    let named = ["--allow-origin", ORIGIN, "--allow-origin", "app://obsidian.md"];
    let (gateway, _client) = for_ann("browsers_allowed", &upstream, &named);
    for origin in [ORIGIN, "app://obsidian.md"] {
        let reply = preflight(&gateway, "/v1/chat/completions", origin);
        assert_eq!(reply.status, 204);
        for (name, value) in [
            ("access-control-allow-origin", origin),
            ("access-control-allow-headers", "authorization,content-type,x-memory-id"),
            ("access-control-allow-private-network", "true"),
            ("vary", "Origin"),
        ] {
            assert_eq!(reply.header(name), Some(value), "{name}");
        }
        assert!(reply.header("access-control-allow-methods").unwrap().contains("POST"));
        assert_eq!(reply.header("access-control-allow-credentials"), None);
        let of_a_page =
            [("origin", origin), ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "cors")];
        let mut reply = chat(&gateway, &of_a_page, &says("s", "Hello."));
        assert_eq!(reply.status, 200);
        assert_eq!(reply.header("access-control-allow-origin"), Some(origin));
        assert_eq!(reply.header("access-control-expose-headers"), Some("*"));
        assert_eq!(reply.json()["choices"][0]["message"]["content"], "Yes.");
        assert_eq!(upstream.last().header("origin"), None);
        // A page reads errors too.
        let reply = chat(&gateway, &of_a_page, "{}");
        assert_eq!(
            (reply.status, reply.header("access-control-allow-origin")),
            (400, Some(origin))
        );
    }
    for other in ["http://localhost:3001", "https://localhost:3000", "null", "http://evil.example"]
    {
        let reply = preflight(&gateway, "/v1/chat/completions", other);
        assert_eq!(
            (reply.status, reply.header("access-control-allow-origin")),
            (405, None),
            "{other}"
        );
        let reply = chat(&gateway, &[("origin", other)], &says("s", "Hello."));
        assert_eq!(
            (reply.status, reply.header("access-control-allow-origin")),
            (403, None),
            "{other}"
        );
        assert_eq!(reply.header("vary"), Some("Origin"));
    }
    // The gateway's own page is for no other origin.
    let reply = send(gateway.address(), "GET", "/ui", &[("origin", ORIGIN)], "");
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (403, None));
}

#[test]
fn without_the_option_no_page_may_ask() {
    let upstream = Upstream::saying("Yes.");
    let (gateway, _client) = for_ann("browsers_refused", &upstream, &[]);
    assert_eq!(preflight(&gateway, "/v1/chat/completions", ORIGIN).status, 405);
    let reply = chat(&gateway, &[("origin", ORIGIN)], &says("s", "Hello."));
    assert_eq!((reply.status, reply.header("vary")), (403, None));
}

#[test]
fn a_wrong_address_leads_to_the_right_one() {
    let upstream = Upstream::saying("Yes.");
    let (gateway, _client) = for_ann("browsers_paths", &upstream, &[]);
    let front = send(gateway.address(), "GET", "/", &[("sec-fetch-mode", "navigate")], "");
    assert_eq!((front.status, front.header("location")), (303, Some("/ui")));
    let (with, without) = ("with one /v1", "without /v1");
    let mem0 = "2.2.1";
    for (method, path, hint) in [
        ("POST", "/chat/completions", with),
        ("POST", "/v1/v1/chat/completions", with),
        ("GET", "/models", with),
        ("POST", "/v1/v1/v1/responses", with),
        ("POST", "/messages", without),
        ("POST", "/v1/v1/messages", without),
        ("POST", "/v1/v1/messages/count_tokens", without),
        // What mem0ai 0.1.118 and 1.0.0 ask.
        ("POST", "/v1/memories/", mem0),
        ("GET", "/v1/memories/?user_id=ann", mem0),
        ("POST", "/v1/memories/search/", mem0),
        ("POST", "/v2/memories/", mem0),
        ("POST", "/v2/memories/search/", mem0),
        ("GET", "/v1/entities/", mem0),
    ] {
        let mut reply = send(gateway.address(), method, path, &[], "{}");
        assert!(matches!(reply.status, 404 | 405), "{path}: {}", reply.status);
        let message = reply.json()["error"]["message"].to_string();
        assert!(message.contains(hint), "{path}: {message}");
    }
    assert!(upstream.requests().is_empty());
}
