//! Tests of the filter grammar.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn error(filter: Value) -> String {
    Filter::parse(&filter).unwrap_err().to_string()
}

fn list(values: &[&str]) -> Option<Vec<String>> {
    Some(values.iter().map(|value| (*value).to_owned()).collect())
}

#[test]
fn all_keys_are_read() {
    let filter = Filter::parse(&json!({
        "metadata": {"project": "x", "tags": ["a"]},
        "role": ["user", "assistant"],
        "kind": "fact",
        "markers_any": ["decision", "custom:budget"],
        "markers_all": "goal",
        "created_after": "2025-03-01",
        "created_before": "2025-03-31T23:30:00.250+02:00",
        "session_id": ["s1", "s2"],
        "episode_id": "018f4d2e-7c3a-7b1e-9a52-3f6d2c1b0a99",
        "agent_id": "planner",
        "trust": "unverified"
    }))
    .unwrap();
    let expected = Filter {
        metadata: Some(json!({"project": "x", "tags": ["a"]})),
        roles: list(&["user", "assistant"]),
        kinds: list(&["fact"]),
        markers_any: list(&["decision", "custom:budget"]),
        markers_all: list(&["goal"]),
        created_after: Some("2025-03-01T00:00:00Z".to_owned()),
        created_before: Some("2025-03-31T21:30:00.250Z".to_owned()),
        session_ids: list(&["s1", "s2"]),
        episode_id: Some("018f4d2e-7c3a-7b1e-9a52-3f6d2c1b0a99".to_owned()),
        agent_ids: list(&["planner"]),
        trust: list(&["unverified"]),
    };
    assert_eq!(filter, expected);
}

#[test]
fn null_and_nothing_are_no_restriction() {
    for filter in
        [json!(null), json!({}), json!({"role": null, "metadata": null, "episode_id": null})]
    {
        assert_eq!(Filter::parse(&filter), Ok(Filter::default()));
    }
    // An empty list is one.
    assert_eq!(Filter::parse(&json!({"role": []})).unwrap().roles, Some(vec![]));
}

#[test]
fn an_unknown_key_is_named_with_the_known_ones() {
    assert_eq!(
        error(json!({"roles": "user"})),
        "unknown filter key \"roles\": expected one of metadata, role, kind, markers_any, \
         markers_all, created_after, created_before, session_id, episode_id, agent_id, trust"
    );
    assert!(error(json!({"x".repeat(100_000): 1})).len() < 400);
}

#[test]
fn wrong_types_say_what_is_expected() {
    assert_eq!(error(json!([1])), "filter must be a JSON object, not an array");
    assert_eq!(
        error(json!({"metadata": "x"})),
        "filter key \"metadata\" must be an object, not a string"
    );
    assert_eq!(
        error(json!({"session_id": 7})),
        "filter key \"session_id\" must be a string or an array of strings, not a number"
    );
    assert_eq!(
        error(json!({"role": ["user", null]})),
        "filter key \"role\" must be a string or an array of strings, not an array with null"
    );
    assert_eq!(
        error(json!({"created_after": 1700000000})),
        "filter key \"created_after\" must be a time like 2025-03-01T09:30:00Z or a day like \
         2025-03-01, not a number"
    );
}

#[test]
fn values_outside_their_set_are_refused() {
    assert_eq!(
        error(json!({"role": "bot"})),
        "invalid value \"bot\" for filter key \"role\": expected one of user, assistant, \
         system, tool, memory"
    );
    assert_eq!(
        error(json!({"kind": ["turn", "chunk"]})),
        "invalid value \"chunk\" for filter key \"kind\": expected one of turn, fact, document"
    );
    assert_eq!(
        error(json!({"markers_any": ["decision", "todo"]})),
        "invalid value \"todo\" for filter key \"markers_any\": expected decision, \
         constraint, failure, goal, or custom:name"
    );
    for id in ["", "1", "018f4d2e7c3a7b1e9a523f6d2c1b0a99", "018f4d2e-7c3a-7b1e-9a52-3f6d2c1b0a9g"]
    {
        assert!(error(json!({"episode_id": id})).contains("expected a UUID like"), "{id}");
    }
}

#[test]
fn times_are_normalised_to_utc() {
    let after = |text: &str| {
        Filter::parse(&json!({"created_after": text})).map(|filter| filter.created_after)
    };
    let times = [
        ("2024-02-29", "2024-02-29T00:00:00Z"),
        ("2024-01-01T00:30:00+01:00", "2023-12-31T23:30:00Z"),
        ("2024-01-01t00:30:00z", "2024-01-01T00:30:00Z"),
        ("2024-01-01 00:30:00Z", "2024-01-01T00:30:00Z"),
        ("2024-01-01T00:30:00.123456-08:00", "2024-01-01T08:30:00.123456Z"),
    ];
    for (given, normalised) in times {
        assert_eq!(after(given), Ok(Some(normalised.to_owned())), "{given}");
    }
    let no_times = [
        "",
        "today",
        "2023-02-29",
        "2024-1-5",
        "2024-01-01T00:30:00",
        "2024-01-01T25:00:00Z",
        "0000-05-05",
        "0001-01-01T00:00:00+05:00",
        "+12024-01-01",
        "2024-01-01; DROP TABLE x",
    ];
    for given in no_times {
        assert!(after(given).is_err(), "{given}");
    }
}

#[test]
fn nul_characters_are_refused_everywhere() {
    for filter in [
        json!({"metadata": {"a": ["b\u{0}"]}}),
        json!({"metadata": {"a\u{0}": 1}}),
        json!({"session_id": "a\u{0}"}),
        json!({"agent_id": ["ok", "\u{0}"]}),
    ] {
        assert!(error(filter).contains("NUL character"));
    }
    assert!(Filter::parse(&json!({"role": "\u{0}"})).is_err());
    assert!(Filter::parse(&json!({"episode_id": "\u{0}"})).is_err());
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        prop::sample::select(vec!["user", "fact", "goal", "2024-05-06", "a\u{0}"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        let key = prop_oneof![
            4 => prop::sample::select(KEYS.to_vec()).prop_map(str::to_owned),
            1 => "\\PC{0,8}",
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..5)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

/// The strings that a list key of the filter was given.
fn given_strings(filter: &Value, key: &str) -> Option<Vec<String>> {
    match filter.get(key)? {
        Value::Null => None,
        Value::Array(items) => {
            Some(items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect())
        }
        single => single.as_str().map(|text| vec![text.to_owned()]),
    }
}

proptest! {
    #[test]
    fn any_json_is_parsed_or_refused_and_nothing_is_altered(filter in any_json()) {
        match Filter::parse(&filter) {
            Err(error) => prop_assert!(!error.to_string().is_empty()),
            Ok(parsed) => {
                let given = |key| given_strings(&filter, key);
                prop_assert_eq!(parsed.roles, given("role"));
                prop_assert_eq!(parsed.kinds, given("kind"));
                prop_assert_eq!(parsed.markers_any, given("markers_any"));
                prop_assert_eq!(parsed.markers_all, given("markers_all"));
                prop_assert_eq!(parsed.session_ids, given("session_id"));
                prop_assert_eq!(parsed.agent_ids, given("agent_id"));
                prop_assert_eq!(
                    parsed.metadata.as_ref(),
                    filter.get("metadata").filter(|value| !value.is_null())
                );
            }
        }
    }

    #[test]
    fn well_formed_filters_are_accepted(
        sessions in prop::collection::vec("[^\0]{0,20}", 0..4),
        days in 0..36500u64,
    ) {
        let day = NaiveDate::MIN.with_year(1950).and_then(|day| day.checked_add_days(chrono::Days::new(days)));
        let day = day.unwrap().to_string();
        let parsed = Filter::parse(&json!({"session_id": sessions, "created_before": day})).unwrap();
        prop_assert_eq!(parsed.session_ids, Some(sessions));
        prop_assert_eq!(parsed.created_before, Some(format!("{day}T00:00:00Z")));
    }
}
