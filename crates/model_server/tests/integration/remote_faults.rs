//! Endpoints that fail, in every way they do, and what a failure says about the next call.

use std::time::{Duration, Instant, SystemTime};

use memory_agent_model_server::protocol::{
    ApiKey, BreakerState, ChatFailureKind, Endpoint, Purpose, Request, Response,
};

use crate::common::{Server, embed_request, single_windows, wait_until};
use crate::http_stub::{Reply, Stub};
use crate::remote::{FACTS, KEY, endpoint, endpoint_at, facts_of, failure, statuses, text};

#[test]
fn an_answer_that_is_too_long_is_not_read() {
    // More than the buffers of two sockets hold, so that the stub notices.
    let body = vec![b' '; 64 * 1024 * 1024];
    let stub = Stub::play([Reply::raw(200, body.clone()), Reply::raw(200, body).unannounced()]);
    let server = Server::start();
    // A shorter one is asked for, once.
    let outcome = server.facts(&stub);
    let failed = failure(&outcome, ChatFailureKind::BadAnswer);
    assert!(failed.message.contains("longer than"), "{failed:?}");
    assert_eq!(statuses(&outcome), ["too large", "too large"]);
    wait_until("the stub cannot write", || stub.abandoned() == 2);
    assert_eq!((server.endpoint().failures, stub.calls()), (0, 2));
}

#[test]
fn nobody_there_is_an_outage() {
    let server = Server::start();
    for (base_url, message) in
        [("http://127.0.0.1:9/v1", "cannot connect"), ("http://name.invalid/v1", "cannot connect")]
    {
        let outcome = server.chat(facts_of(endpoint_at(base_url)));
        let failure = failure(&outcome, ChatFailureKind::Unavailable);
        assert!(failure.message.contains(message), "{failure:?}");
        assert_eq!(statuses(&outcome), ["connection"]);
    }
}

#[test]
fn tls_with_somebody_who_has_none_is_an_outage() {
    let stub = Stub::always(Reply::chat(FACTS));
    let server = Server::start();
    let base_url = stub.url().replace("http://", "https://");
    let outcome = server.chat(facts_of(endpoint_at(&base_url)));
    let failure = failure(&outcome, ChatFailureKind::Unavailable);
    assert!(failure.message.contains("cannot connect"), "{failure:?}");
    assert_eq!(statuses(&outcome), ["connection"]);
}

#[test]
fn addresses_that_make_no_sense_are_not_called() {
    let server = Server::start();
    for base_url in ["", "llm.example.com", "ftp://host/v1", "https://user:geheim@127.0.0.1:9/v1"] {
        let outcome = server.chat(facts_of(endpoint_at(base_url)));
        let failure = failure(&outcome, ChatFailureKind::Unavailable);
        assert!(failure.message.starts_with("base_url"), "{failure:?}");
        assert!(!failure.message.contains("geheim"), "{failure:?}");
        assert!(outcome.calls.is_empty());
    }
    assert!(server.status().endpoints.is_empty());
}

#[test]
fn redirects_are_not_followed() {
    let other = Stub::always(Reply::chat(FACTS));
    let target = format!("{}/v1/chat/completions", other.url());
    let stub = Stub::always(Reply::raw(307, "").header("location", &target));
    let server = Server::start();
    let outcome = server.facts(&stub);
    let failure = failure(&outcome, ChatFailureKind::Unavailable);
    assert!(failure.message.contains("HTTP 307") && failure.message.contains("not followed"));
    // Where it leads to may be an address that is not for every user.
    assert!(!failure.message.contains(&target), "{}", failure.message);
    assert_eq!((stub.calls(), other.calls()), (2, 0));
    assert_eq!(server.breaker(), BreakerState::Open);
}

#[test]
fn a_requested_pause_is_kept_and_is_no_failure() {
    let in_an_hour = httpdate(SystemTime::now() + Duration::from_secs(1800));
    for (status, header, value, least, most) in [
        (429, "retry-after", "7", 1_000, 7_000),
        (429, "retry-after", in_an_hour.as_str(), 1_700_000, 1_800_000),
        (429, "retry-after-ms", "2500", 500, 2_500),
        (503, "retry-after", "600", 590_000, 600_000),
        (429, "x-nothing", "", 500, 60_000),
    ] {
        let stub = Stub::always(Reply::error(status, "slow down").header(header, value));
        let server = Server::start();
        let outcome = server.facts(&stub);
        let paused = failure(&outcome, ChatFailureKind::Unavailable);
        let pause = paused.retry_after_ms.unwrap();
        assert!((least..=most).contains(&pause), "{header}: {value} became {pause} ms");
        assert_eq!(statuses(&outcome), [format!("http {status}")]);
        let outcome = server.facts(&stub);
        let blocked = failure(&outcome, ChatFailureKind::Unavailable);
        assert!(blocked.retry_after_ms.unwrap() <= pause);
        assert!(outcome.calls.is_empty());
        assert_eq!(stub.calls(), 1);
        let known = server.endpoint();
        assert_eq!((known.breaker, known.failures), (BreakerState::Closed, 0));
        assert!(known.retry_in_ms > 0);
    }
}

#[test]
fn after_the_pause_calls_go_on() {
    let stub = Stub::play([Reply::error(429, "slow").header("retry-after", "1")]);
    stub.then(Reply::chat(FACTS));
    let server = Server::start();
    failure(&server.facts(&stub), ChatFailureKind::Unavailable);
    wait_until("the pause is over", || server.facts(&stub).result.is_ok());
    assert_eq!(stub.calls(), 2);
    assert_eq!(server.endpoint().last_error, None);
}

#[test]
fn the_breaker_opens_and_one_call_closes_it_again() {
    // Each call, and the harmless one after it.
    let stub = Stub::play(vec![Reply::error(500, "boom"); 10]);
    stub.then(Reply::chat(FACTS));
    let server = Server::start();
    for _ in 0..4 {
        let failed = failure(&server.facts(&stub), ChatFailureKind::Unavailable);
        assert_eq!(failed.retry_after_ms, None, "the breaker is closed");
    }
    assert_eq!(server.breaker(), BreakerState::Closed);
    let opened = failure(&server.facts(&stub), ChatFailureKind::Unavailable);
    let pause = opened.retry_after_ms.unwrap();
    assert!((1..=10_000).contains(&pause), "{pause}");
    let known = server.endpoint();
    assert_eq!((known.breaker, known.failures), (BreakerState::Open, 5));
    assert!(known.retry_in_ms <= pause);

    let outcome = server.facts(&stub);
    failure(&outcome, ChatFailureKind::Unavailable);
    assert!(outcome.calls.is_empty());
    assert_eq!(stub.calls(), 10);

    wait_until("the breaker lets a call through", || server.facts(&stub).result.is_ok());
    assert_eq!(stub.calls(), 11);
    let known = server.endpoint();
    assert_eq!((known.breaker, known.failures), (BreakerState::Closed, 0));
    assert!(server.log().contains("is not called for"), "{}", server.log());
    assert!(server.log().contains("works again"), "{}", server.log());
}

#[test]
fn a_probe_that_is_cancelled_leaves_its_place_to_the_next() {
    let unknown = || Reply::error(404, "no such model");
    let stub = Stub::play([unknown(), unknown(), Reply::never()]);
    stub.then(Reply::chat(FACTS));
    let server = Server::start();
    failure(&server.facts(&stub), ChatFailureKind::Unavailable);
    assert_eq!(server.breaker(), BreakerState::Open);
    wait_until("the probe is due", || server.breaker() == BreakerState::HalfOpen);
    let mut client = server.connect();
    client.send(&Request::Chat(Box::new(facts_of(endpoint(&stub))))).unwrap();
    wait_until("the probe arrives", || stub.calls() == 3);
    // Only one probe at a time.
    let outcome = server.facts(&stub);
    failure(&outcome, ChatFailureKind::Unavailable);
    assert!(outcome.calls.is_empty());
    drop(client);
    wait_until("the probe ends", || stub.abandoned() == 1 && server.endpoint().in_flight == 0);
    assert_eq!(statuses(&server.facts(&stub)), ["ok"]);
    assert_eq!(server.breaker(), BreakerState::Closed);
}

#[test]
fn a_wrong_key_stops_all_calls_until_it_is_another() {
    for status in [401, 403] {
        let echo = format!("Incorrect API key provided: {KEY}. Authorization: Bearer {KEY}");
        let stub = Stub::play([Reply::error(status, &echo)]);
        if status == 403 {
            stub.then(Reply::error(status, &echo));
        }
        stub.then(Reply::chat(FACTS));
        let server = Server::start();
        let outcome = server.facts(&stub);
        let refused = failure(&outcome, ChatFailureKind::Unavailable);
        assert!(refused.message.contains(&format!("HTTP {status}")), "{refused:?}");
        assert!(refused.retry_after_ms.unwrap() > 0);
        assert_eq!(statuses(&outcome), [format!("http {status}")]);
        let known = server.status();
        assert_eq!(known.endpoints[0].breaker, BreakerState::Open);
        for seen in [format!("{outcome:?}"), format!("{known:?}"), server.log()] {
            assert!(!seen.contains(KEY), "{seen}");
        }
        let mut corrected = facts_of(endpoint(&stub));
        corrected.endpoint.api_key = ApiKey::new("another");
        assert_eq!(statuses(&server.chat(corrected)), ["ok"]);
    }
}

#[test]
fn a_key_is_shown_nowhere() {
    let request = facts_of(endpoint_at("http://127.0.0.1:9/v1"));
    assert!(!format!("{request:?}").contains(KEY));
    assert!(format!("{request:?}").contains("***"));

    let fact = format!("{{\"facts\":[{{\"turn\":1,\"text\":\"The key is {KEY}.\"}}]}}");
    let stub = Stub::play([
        Reply::chat(&fact),
        Reply::error(400, &format!("bad {KEY}")),
        Reply::error(400, &format!("bad {KEY}")),
        Reply::error(400, &format!("bad {KEY}")),
        Reply::chat("Yes."),
        Reply::raw(500, format!("{KEY} {KEY}")),
    ]);
    let server = Server::start();
    let mut outcomes: Vec<_> = (0..3).map(|_| server.facts(&stub)).collect();
    let redirect = format!("http://127.0.0.1:9/?key={KEY}");
    stub.then(Reply::raw(302, "").header("location", &redirect));
    outcomes.push(server.facts(&stub));
    assert!(text(&outcomes[0]).contains("The key is ***."));
    // The last three requests, and the harmless ones after them.
    assert_eq!(stub.calls(), 9);
    for seen in [format!("{outcomes:?}"), format!("{:?}", server.status()), server.log()] {
        assert!(!seen.contains(KEY) && !seen.contains("geheim"), "{seen}");
    }
}

#[test]
fn the_limit_of_calls_is_kept_without_calling() {
    let stub = Stub::always(Reply::chat(FACTS));
    let server = Server::start();
    let request = || facts_of(Endpoint { calls_per_minute: 2, ..endpoint(&stub) });
    let outcomes: Vec<_> = (0..4).map(|_| server.chat(request())).collect();
    let calls = outcomes.iter().filter(|outcome| outcome.result.is_ok()).count();
    assert_eq!((calls, stub.calls()), (2, 2));
    let limited = failure(&outcomes[3], ChatFailureKind::Unavailable);
    assert!((1..=60_000).contains(&limited.retry_after_ms.unwrap()), "{limited:?}");
    assert!(outcomes[3].calls.is_empty());
    assert_eq!(server.breaker(), BreakerState::Closed);
}

#[test]
fn a_client_that_leaves_ends_its_calls() {
    let stub = Stub::always(Reply::never());
    let server = Server::start();
    let mut client = server.connect();
    for _ in 0..3 {
        client.send(&Request::Chat(Box::new(facts_of(endpoint(&stub))))).unwrap();
    }
    wait_until("the calls arrive", || stub.calls() == 3 && server.endpoint().in_flight == 3);
    let left = Instant::now();
    drop(client);
    wait_until("the calls end", || stub.abandoned() == 3 && server.endpoint().in_flight == 0);
    assert!(left.elapsed() < Duration::from_secs(10));
    assert_eq!(server.endpoint().failures, 0);
}

#[test]
fn waiting_chats_do_not_delay_models() {
    let stub = Stub::always(Reply::never());
    let server = Server::start();
    // One sequence may wait and more are refused, so a chat that took a place would be seen.
    let mut clients: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for client in &mut clients {
        for _ in 0..60 {
            let mut request = facts_of(endpoint(&stub));
            // Above what is planned where the sockets are served.
            request.messages[1].content = "word ".repeat(5_000);
            client.send(&Request::Chat(Box::new(request))).unwrap();
        }
    }
    wait_until("the calls arrive", || stub.calls() == 180);
    assert_eq!(server.status().queue_items, 0);
    let words = "word ".repeat(5_000);
    for text in ["short", words.as_str()] {
        let answer = server.connect().call(&embed_request(Purpose::Query, &[text])).unwrap();
        assert_eq!(single_windows(answer).len(), 1);
    }
    assert_eq!(server.endpoint().in_flight, 180);
}

#[test]
fn unanswered_chats_are_limited_per_connection_and_in_all() {
    let stub = Stub::always(Reply::never());
    let server = Server::start();
    let request = Request::Chat(Box::new(facts_of(endpoint(&stub))));
    let mut clients: Vec<_> = (0..5).map(|_| server.connect()).collect();
    for client in &mut clients[..4] {
        for _ in 0..64 {
            client.send(&request).unwrap();
        }
    }
    wait_until("the calls arrive", || stub.calls() == 256);
    for client in [0, 4] {
        let sent = clients[client].send(&request).unwrap();
        let (answered, response) = clients[client].receive().unwrap();
        assert_eq!(answered, sent);
        let Response::Error { message, .. } = response else { panic!("{response:?}") };
        assert!(message.contains("unanswered"), "{message}");
    }
    assert_eq!(stub.calls(), 256);
    drop(clients.remove(0));
    wait_until("places are free", || server.endpoint().in_flight == 192);
    clients[3].send(&request).unwrap();
    wait_until("the call arrives", || stub.calls() == 257);
}

#[test]
fn proxies_of_the_environment_are_not_used() {
    let proxy = Stub::always(Reply::chat(FACTS));
    let stub = Stub::always(Reply::chat(FACTS));
    for environment in [vec![], vec![("HTTP_PROXY", proxy.url()), ("ALL_PROXY", proxy.url())]] {
        let server = Server::start_in(environment);
        assert_eq!(statuses(&server.facts(&stub)), ["ok"]);
    }
    assert_eq!((stub.calls(), proxy.calls()), (2, 0));
}

/// A date as HTTP writes it, for example `Sun, 06 Nov 1994 08:49:37 GMT`.
fn httpdate(time: SystemTime) -> String {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let format = ["-u", "-d", &format!("@{seconds}"), "+%a, %d %b %Y %H:%M:%S GMT"];
    let output = std::process::Command::new("date").env("LC_ALL", "C").args(format).output();
    String::from_utf8(output.unwrap().stdout).unwrap().trim().to_owned()
}
