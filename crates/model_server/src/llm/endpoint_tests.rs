//! Tests of an endpoint's bookkeeping. Its clock starts a minute ago where a test needs a past.

use super::*;
use crate::protocol::ApiKey;

fn settings(model: &str, key: &str) -> Endpoint {
    Endpoint {
        provider: Provider::OpenAi,
        base_url: "http://localhost/v1".to_owned(),
        model: model.to_owned(),
        api_key: ApiKey::new(key),
        api_version: String::new(),
        timeout_ms: 1000,
        calls_per_minute: 0,
        max_response_bytes: 1000,
    }
}

fn get(endpoints: &Endpoints, model: &str, key: &str) -> Arc<EndpointState> {
    endpoints.get(&settings(model, key), &BaseUrl::parse("http://localhost/v1/").unwrap())
}

/// An endpoint that tripped a minute ago, so a probe is due.
fn half_open() -> Arc<EndpointState> {
    let started = Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
    let id = EndpointId {
        provider: Provider::OpenAi,
        base_url: "http://localhost/v1".to_owned(),
        model: "m".to_owned(),
    };
    let state = Arc::new(EndpointState::new(id, [0; 32], started, Arc::default()));
    state.lock().breaker.trip(0);
    assert_eq!(state.status().breaker, BreakerState::HalfOpen);
    state
}

#[test]
fn requests_share_what_is_known_until_the_credentials_change() {
    let endpoints = Endpoints::new();
    let first = get(&endpoints, "m", "key");
    assert!(Arc::ptr_eq(&first, &get(&endpoints, "m", "key")));
    assert!(!Arc::ptr_eq(&first, &get(&endpoints, "other", "key")));
    let retry_in = first.begin(0).unwrap().trip("http 401");
    assert!(retry_in > 0);
    assert!(get(&endpoints, "m", "key").begin(0).is_err());
    assert!(get(&endpoints, "m", "corrected").begin(0).is_ok());
    let mut versioned = settings("m", "corrected");
    versioned.api_version = "2".to_owned();
    let base = BaseUrl::parse("http://localhost/v1").unwrap();
    let current = get(&endpoints, "m", "corrected");
    assert!(!Arc::ptr_eq(&current, &endpoints.get(&versioned, &base)));
    assert_eq!(endpoints.status().len(), 2);
}

#[test]
fn the_models_of_an_address_share_its_calls_per_minute() {
    let endpoints = Endpoints::new();
    drop(get(&endpoints, "m", "key").begin(2).unwrap());
    drop(get(&endpoints, "other", "key").begin(2).unwrap());
    for (model, key) in [("m", "key"), ("other", "key"), ("third", "key"), ("m", "another key")] {
        let blocked = get(&endpoints, model, key).begin(2).unwrap_err();
        assert!(blocked.message.contains("2 calls per minute"), "{model}: {blocked:?}");
    }
    let elsewhere = BaseUrl::parse("http://localhost:8080/v1").unwrap();
    assert!(endpoints.get(&settings("m", "key"), &elsewhere).begin(2).is_ok());
}

#[test]
fn the_endpoint_used_least_recently_is_forgotten() {
    let endpoints = Endpoints::new();
    for number in 0..MAX_ENDPOINTS {
        let state = get(&endpoints, &number.to_string(), "");
        state.lock().last_use_ms = 1000 + number as u64;
    }
    get(&endpoints, "7", "").lock().last_use_ms = 1;
    get(&endpoints, "one more", "");
    let status = endpoints.status();
    assert_eq!(status.len(), MAX_ENDPOINTS);
    assert!(status.iter().all(|endpoint| endpoint.model != "7"));
}

#[test]
fn one_probe_at_a_time_and_its_success_closes_the_breaker() {
    let state = half_open();
    let probe = state.begin(0).unwrap();
    assert!(state.begin(0).is_err());
    assert_eq!(state.status().in_flight, 1);
    probe.success();
    let status = state.status();
    assert_eq!((status.breaker, status.failures), (BreakerState::Closed, 0));
    assert_eq!((status.in_flight, status.calls), (0, 1));
}

#[test]
fn a_probe_without_a_result_gives_its_place_back() {
    let state = half_open();
    drop(state.begin(0).unwrap());
    let probe = state.begin(0).unwrap();
    // A pause is no result either.
    probe.throttled(Some(Duration::ZERO), "slow down");
    let probe = state.begin(0).unwrap();
    assert!(probe.failure("timeout").is_some());
    assert_eq!(state.status().breaker, BreakerState::Open);
}

#[test]
fn a_probe_over_the_limit_of_calls_is_not_taken() {
    let state = half_open();
    state.limiter.lock().unwrap().take(state.now(), 1).unwrap();
    let blocked = state.begin(1).unwrap_err();
    assert!(blocked.message.contains("1 calls per minute"), "{blocked:?}");
    assert!(blocked.retry_after_ms > 50_000);
    assert!(state.begin(0).is_ok());
}

#[test]
fn pauses_nobody_asked_for_grow_until_a_success() {
    let state = half_open();
    let pauses: Vec<u64> = (0..3)
        .map(|_| {
            state.lock().paused_until_ms = 0;
            state.begin(0).unwrap().throttled(None, "slow down")
        })
        .collect();
    assert!(pauses.is_sorted_by(|a, b| a < b), "{pauses:?}");
    assert!(state.begin(0).is_err());
    state.lock().paused_until_ms = 0;
    state.begin(0).unwrap().success();
    assert_eq!(state.begin(0).unwrap().throttled(None, "slow down"), pauses[0]);
    // A short pause does not end a longer one.
    state.lock().paused_until_ms = state.now() + 60_000;
    assert!(state.begin(0).unwrap_err().retry_after_ms > 50_000);
}

#[test]
fn calls_under_way_when_a_pause_begins_do_not_make_it_longer() {
    let state = get(&Endpoints::new(), "m", "key");
    let (first, second) = (state.begin(0).unwrap(), state.begin(0).unwrap());
    let pause = first.throttled(None, "slow down");
    assert_eq!(second.throttled(None, "slow down"), pause);
    state.lock().paused_until_ms = 0;
    assert!(state.begin(0).unwrap().throttled(None, "slow down") > pause);
}

#[test]
fn a_learned_dialect_is_forgotten_after_an_hour() {
    let started = Instant::now().checked_sub(Duration::from_secs(3700)).unwrap();
    let state = EndpointState::new(half_open().id.clone(), [0; 32], started, Arc::default());
    let dialect = Dialect { temperature: false, ..Dialect::default() };
    state.learn(dialect);
    assert_eq!(state.dialect(), dialect);
    state.lock().dialect_ms = 0;
    assert_eq!(state.dialect(), Dialect::default());
}

/// What requests that fail in turn are told, while others are answered in between.
#[test]
fn a_failure_is_the_requests_own_if_another_is_answered_after_it() {
    let state = get(&Endpoints::new(), "m", "key");
    for _ in 0..20 {
        let failed = state.begin(0).unwrap();
        let since = state.evidence();
        assert_eq!(state.blame(since), None, "no request was answered since");
        state.begin(0).unwrap().success();
        assert_eq!(state.blame(since), Some(Blame::Request));
        drop(failed);
    }
    assert_eq!((state.status().breaker, state.status().failures), (BreakerState::Closed, 0));
    // What was answered before tells nothing of now.
    let since = state.evidence();
    assert_eq!(state.blame(since), None);
    state.test_failed();
    assert_eq!(state.blame(since), Some(Blame::Endpoint));
    assert_eq!(state.blame(state.evidence()), None);
}

/// One user's calls that take too long do not stop those of others while these are answered.
#[test]
fn an_answer_while_a_call_waits_for_its_own_tells_as_much() {
    let state = get(&Endpoints::new(), "m", "key");
    let slow = state.begin(0).unwrap();
    state.begin(0).unwrap().success();
    assert_eq!(state.blame(slow.began), Some(Blame::Request));
    let slow = state.begin(0).unwrap();
    assert_eq!(state.blame(slow.began), None);
}

#[test]
fn while_the_breaker_is_open_the_endpoint_is_to_blame() {
    let state = get(&Endpoints::new(), "m", "key");
    let (first, second) = (state.begin(0).unwrap(), state.begin(0).unwrap());
    first.trip("http 403");
    let since = state.evidence();
    assert_eq!(state.blame(since), Some(Blame::Endpoint));
    // One that was under way is answered all the same: so much for the outage.
    second.success();
    assert_eq!(state.blame(since), Some(Blame::Request));
}

/// A request that is to blame says nothing of the endpoint, neither for it nor against it.
#[test]
fn a_request_that_is_to_blame_is_no_evidence() {
    let state = half_open();
    let since = state.evidence();
    drop(state.begin(0).unwrap());
    assert_eq!((state.blame(since), state.status().breaker), (None, BreakerState::HalfOpen));
    assert!(state.begin(0).is_ok(), "the next one may decide");
}

#[test]
fn a_test_is_made_at_the_limit_of_calls_and_counted() {
    let state = get(&Endpoints::new(), "m", "key");
    drop(state.begin(1).unwrap());
    state.count_test(1);
    assert_eq!(state.status().calls, 2);
    assert!(state.begin(1).unwrap_err().retry_after_ms > 50_000);
}
