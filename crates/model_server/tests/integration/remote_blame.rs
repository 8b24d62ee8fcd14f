//! Whose fault a failure is that can be the endpoint's or the request's: a harmless request decides.

use std::time::Duration;

use memory_agent_core::jobs::blame::HARMLESS;
use memory_agent_model_server::protocol::{
    BreakerState, ChatFailureKind, ChatOutcome, Endpoint, Request, Response,
};
use serde_json::json;

use crate::common::{Server, wait_until};
use crate::http_stub::{Asked, Reply, Stub};
use crate::remote::{FACTS, endpoint, facts_of, failure, statuses};

/// Failures that can be the endpoint's fault or the request's.
fn doubtful() -> Vec<(Reply, &'static str)> {
    vec![
        (Reply::error(403, "your input was flagged"), "http 403"),
        (Reply::error(404, "no route"), "http 404"),
        (Reply::error(405, "blocked"), "http 405"),
        (Reply::raw(302, "").header("location", "http://127.0.0.1:9/blocked"), "http 302"),
        (Reply::error(500, "boom"), "http 500"),
        (Reply::raw(502, "<html>bad gateway</html>"), "http 502"),
        (Reply::error(503, "overloaded"), "http 503"),
        (Reply::chat(FACTS).late(Duration::from_secs(5)), "timeout"),
        (Reply::chat(FACTS).drip(Duration::from_millis(200)), "timeout"),
        (Reply::never(), "timeout"),
        (Reply::chat(FACTS).half(), "connection"),
        (Reply::close(), "connection"),
        (Reply::raw(200, "{\"choices\": [{\"mess"), "malformed"),
        (Reply::raw(200, "<html>login</html>"), "malformed"),
        (Reply::raw(200, ""), "malformed"),
        (Reply::json(200, json!({"error": {"message": "upstream"}})), "malformed"),
    ]
}

fn is_status(status: &str) -> bool {
    ["http 302", "http 403", "http 404", "http 405"].contains(&status)
}

/// Asks a stub once, which does not take long to be too late.
fn ask(server: &Server, stub: &Stub, status: &str) -> ChatOutcome {
    let timeout_ms = if status == "timeout" { 400 } else { 20_000 };
    server.chat(facts_of(Endpoint { timeout_ms, ..endpoint(stub) }))
}

/// The body of the harmless request.
fn is_harmless(asked: &Asked) -> bool {
    asked.body["messages"] == json!([{"role": "user", "content": HARMLESS}])
        && asked.body["model"] == "stub"
        && asked.body.get("response_format").is_none()
}

/// More often than opens the breaker: it stays closed.
#[test]
fn what_fails_while_a_harmless_request_is_answered_is_charged_to_the_request() {
    for (reply, status) in doubtful() {
        let stub = Stub::play([]);
        let server = Server::start();
        for number in 1..=6 {
            stub.then(reply.clone());
            stub.then(Reply::chat("Yes."));
            let outcome = ask(&server, &stub, status);
            assert_eq!(statuses(&outcome), [status], "{reply:?}");
            let refused = is_status(status);
            let kind = if refused { ChatFailureKind::Refused } else { ChatFailureKind::Failed };
            failure(&outcome, kind);
            // A retry by the HTTP library itself would be a third call.
            let asked = stub.asked();
            assert_eq!(asked.len(), 2 * number, "{reply:?}");
            assert!(!is_harmless(&asked[asked.len() - 2]) && is_harmless(&asked[asked.len() - 1]));
            let known = server.endpoint();
            assert_eq!((known.failures, known.breaker), (0, BreakerState::Closed), "{reply:?}");
            assert_eq!((known.last_error, known.calls), (None, 2 * number as u64));
        }
    }
}

/// Its tokens are on the record of the call that was in doubt.
#[test]
fn a_harmless_request_costs_what_it_costs() {
    let server = Server::start();
    for (reply, tokens) in [
        (Reply::error(403, "your input was flagged"), (Some(12), Some(7))),
        (Reply::raw(200, "<html>login</html>"), (None, None)),
    ] {
        let stub = Stub::play([reply, Reply::chat("Yes.")]);
        let outcome = server.facts(&stub);
        let call = &outcome.calls[0];
        assert_eq!((call.prompt_tokens, call.completion_tokens), tokens, "{call:?}");
    }
}

/// What a filter says to one text is that text's failure, whatever else the harmless request is told.
#[test]
fn an_endpoint_that_refuses_the_harmless_request_for_what_it_is_works() {
    for answer in [Reply::error(400, "max_tokens is too small"), Reply::chat("")] {
        let stub = Stub::play([Reply::error(403, "your input was flagged"), answer]);
        let refused = failure(&Server::start().facts(&stub), ChatFailureKind::Refused);
        assert!(refused.message.contains("HTTP 403: your input was flagged"), "{refused:?}");
    }
}

#[test]
fn what_fails_as_the_harmless_request_does_is_an_outage() {
    for (reply, status) in doubtful() {
        let stub = Stub::always(reply.clone());
        let server = Server::start();
        let outcome = ask(&server, &stub, status);
        assert_eq!(statuses(&outcome), [status], "{reply:?}");
        let failed = failure(&outcome, ChatFailureKind::Unavailable);
        assert_eq!(stub.calls(), 2, "{reply:?}");
        let known = server.endpoint();
        let lasts = is_status(status);
        assert_eq!(known.breaker == BreakerState::Open, lasts, "{reply:?}");
        assert_eq!((failed.retry_after_ms.is_some(), known.failures), (lasts, 1), "{reply:?}");
        assert_eq!(known.last_error.as_deref(), Some(status));
    }
    let stub = Stub::always(Reply::json(200, json!({"error": {"message": "upstream is down"}})));
    let failed = failure(&Server::start().facts(&stub), ChatFailureKind::Unavailable);
    assert!(failed.message.contains("upstream is down"), "{failed:?}");
}

/// Some endpoints answer 400 to whatever names a wrong model: in every form, and to the harmless request too.
#[test]
fn what_is_refused_in_the_words_of_the_harmless_request_is_an_outage() {
    for status in [400, 422] {
        let stub = Stub::always(Reply::error(status, "invalid model: stub"));
        let server = Server::start();
        let label = format!("http {status}");
        let outcome = server.facts(&stub);
        assert_eq!(statuses(&outcome), [label.as_str(); 3]);
        let failed = failure(&outcome, ChatFailureKind::Unavailable);
        assert!(failed.message.contains("invalid model: stub"), "{failed:?}");
        assert!(failed.retry_after_ms.is_some(), "{failed:?}");
        let asked = stub.asked();
        assert_eq!((asked.len(), asked.iter().filter(|asked| is_harmless(asked)).count()), (4, 1));
        let known = server.endpoint();
        assert_eq!((known.breaker, known.last_error), (BreakerState::Open, Some(label)));
        assert!(server.facts(&stub).calls.is_empty());
    }
}

/// More often than opens the breaker: it stays closed, and only the last form of the request is in doubt.
#[test]
fn what_is_refused_while_a_harmless_request_is_not_is_the_requests_own() {
    for harmless in [Reply::chat("Yes."), Reply::error(400, "max_tokens is too small")] {
        let stub = Stub::play([]);
        let server = Server::start();
        for number in 1..=6 {
            (0..3).for_each(|_| stub.then(Reply::error(400, "your input was flagged")));
            stub.then(harmless.clone());
            let outcome = server.facts(&stub);
            assert_eq!(statuses(&outcome), ["http 400"; 3]);
            failure(&outcome, ChatFailureKind::Refused);
            assert_eq!(stub.calls(), 4 * number);
            let known = server.endpoint();
            assert_eq!((known.failures, known.breaker), (0, BreakerState::Closed));
        }
    }
}

/// The breaker tests the endpoint with a request that it refuses: whether it works, a harmless one tells.
#[test]
fn a_probe_that_is_refused_ends_the_outage_if_a_harmless_request_is_answered() {
    for (answer, breaker) in [
        (Reply::chat("Yes."), BreakerState::Closed),
        (Reply::error(502, "bad gateway"), BreakerState::Open),
    ] {
        let stub = Stub::play([Reply::error(403, "no access"), Reply::error(403, "no access")]);
        let server = Server::start();
        failure(&server.facts(&stub), ChatFailureKind::Unavailable);
        wait_until("the probe is due", || server.breaker() == BreakerState::HalfOpen);
        (0..3).for_each(|_| stub.then(Reply::error(400, "your input was flagged")));
        stub.then(answer);
        server.facts(&stub);
        assert_eq!(server.breaker(), breaker);
    }
}

/// A harmless request that is told to wait, or that the key is wrong, tells nothing against the text.
#[test]
fn what_the_harmless_request_is_told_of_the_endpoint_counts() {
    for reply in [
        Reply::error(429, "slow down").header("retry-after", "7"),
        Reply::error(401, "no such key"),
    ] {
        let stub = Stub::play([Reply::error(403, "your input was flagged"), reply]);
        let server = Server::start();
        let failed = failure(&server.facts(&stub), ChatFailureKind::Unavailable);
        assert!(failed.retry_after_ms.is_some(), "{failed:?}");
        assert!(server.endpoint().retry_in_ms > 0);
        assert!(server.facts(&stub).calls.is_empty());
    }
}

/// Requests that fail at once are told by one harmless request.
#[test]
fn requests_in_doubt_share_a_harmless_request() {
    let flagged = || Reply::error(403, "your input was flagged").late(Duration::from_secs(1));
    for (answer, kind) in [
        (Reply::chat("Yes."), ChatFailureKind::Refused),
        (Reply::error(403, "no access"), ChatFailureKind::Unavailable),
    ] {
        let stub = Stub::play((0..4).map(|_| flagged()));
        // Later than all four.
        stub.then(answer.late(Duration::from_secs(2)));
        let server = Server::start();
        let mut clients: Vec<_> = (0..4).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.send(&Request::Chat(Box::new(facts_of(endpoint(&stub))))).unwrap();
        }
        for client in &mut clients {
            let (_, response) = client.receive().unwrap();
            let Response::Chat(outcome) = response else { panic!("{response:?}") };
            failure(&outcome, kind);
        }
        assert_eq!(stub.asked().iter().filter(|asked| is_harmless(asked)).count(), 1);
    }
}

/// The breaker tests the endpoint with a request that a filter refuses: it closes all the same.
#[test]
fn a_probe_that_a_filter_refuses_ends_the_outage() {
    let outage = || Reply::error(403, "no access");
    let stub = Stub::play([outage(), outage()]);
    let server = Server::start();
    failure(&server.facts(&stub), ChatFailureKind::Unavailable);
    wait_until("the probe is due", || server.breaker() == BreakerState::HalfOpen);
    stub.then(Reply::error(403, "your input was flagged"));
    stub.then(Reply::chat("Yes."));
    failure(&server.facts(&stub), ChatFailureKind::Refused);
    assert_eq!(server.breaker(), BreakerState::Closed);
    stub.then(Reply::chat(FACTS));
    assert_eq!(statuses(&server.facts(&stub)), ["ok"]);
}
