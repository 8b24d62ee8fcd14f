//! The filter of recall against a second reading of its documentation: which filters are refused, and
//! exactly which rows the others leave.

use crate::runner;
use memory_agent_e2e::{Client, DateTime, Json, Utc, Uuid, json, shared, sqlstate};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeSet;

const SESSIONS: [&str; 3] = ["s1", "s2", "other session"];
const AGENTS: [&str; 2] = ["default", "second"];
const ROLES: [&str; 5] = ["user", "assistant", "system", "tool", "memory"];
const KINDS: [&str; 3] = ["turn", "fact", "document"];
const MARKERS: [&str; 4] = ["decision", "goal", "custom:x", "custom:y"];
const DAYS: [&str; 4] = [
    "2026-01-01",
    "2026-01-02T12:00:00Z",
    "2026-01-02T12:00:00.000001+00:00",
    "2026-01-03T01:00:00+02:00",
];
const NO_DAYS: [&str; 7] =
    ["", "yesterday", "2026-02-30", "2026-1-1", "2026-01-01 10:00", "now", "infinity"];

/// Keys that get a value of any type, two of them unknown.
const ODD_KEYS: [&str; 7] =
    ["metadata", "role", "markers_any", "created_after", "episode_id", "nonsense", ""];

/// One value of each type of JSON.
fn odd_values() -> Vec<Json> {
    vec![
        Json::Null,
        json!(7),
        json!([]),
        json!([{"role": "user"}]),
        json!({}),
        json!(true),
        json!("x"),
    ]
}

/// Metadata over few keys and values, so that filters often hit.
fn metadata() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        (0..3i64).prop_map(Json::from),
        Just(json!(1.5)),
        prop::sample::select(vec!["", "a", "b", "1"]).prop_map(Json::from),
    ];
    let value = leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![prop::collection::vec(inner.clone(), 0..3).prop_map(Json::from), object(inner),]
    });
    object(value)
}

fn object(value: impl Strategy<Value = Json>) -> impl Strategy<Value = Json> {
    prop::collection::btree_map(prop::sample::select(vec!["k", "l", "m"]), value, 0..3)
        .prop_map(|pairs| pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// A value that a key may have, a value that it may not, or anything.
fn filter() -> impl Strategy<Value = Json> {
    let names = |known: &[&'static str]| {
        let known: Vec<&str> = known.iter().copied().chain(["unknown"]).collect();
        let one = prop::sample::select(known).prop_map(Json::from);
        prop_oneof![
            one.clone(),
            prop::collection::vec(one.clone(), 0..3).prop_map(Json::from),
            prop::collection::vec(prop_oneof![one, Just(Json::Null), Just(json!(1))], 0..3)
                .prop_map(Json::from),
        ]
    };
    let day = prop::sample::select(DAYS.iter().chain(&NO_DAYS).copied().collect::<Vec<_>>())
        .prop_map(Json::from);
    let episode = prop::sample::select(vec![
        Json::from("00000000-0000-0000-0000-000000000000"),
        Json::from("not-an-episode"),
        Json::from("00000000000000000000000000000000"),
    ]);
    let entry = prop_oneof![
        6 => metadata().prop_map(|value| ("metadata", value)),
        2 => names(&ROLES).prop_map(|value| ("role", value)),
        2 => names(&KINDS).prop_map(|value| ("kind", value)),
        2 => names(&MARKERS).prop_map(|value| ("markers_any", value)),
        2 => names(&MARKERS).prop_map(|value| ("markers_all", value)),
        2 => names(&SESSIONS).prop_map(|value| ("session_id", value)),
        2 => names(&AGENTS).prop_map(|value| ("agent_id", value)),
        2 => day.clone().prop_map(|value| ("created_after", value)),
        2 => day.prop_map(|value| ("created_before", value)),
        1 => episode.prop_map(|value| ("episode_id", value)),
        1 => (prop::sample::select(ODD_KEYS.to_vec()), prop::sample::select(odd_values())),
    ];
    let object = prop::collection::vec(entry, 0..4).prop_map(|entries| {
        entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Json>()
    });
    prop_oneof![
        20 => object,
        1 => prop::sample::select(odd_values()),
    ]
}

/// A stored row, as far as filters look at it.
struct Entry {
    id: Uuid,
    session: Option<String>,
    agent: String,
    kind: String,
    role: String,
    markers: Vec<String>,
    metadata: Json,
    created_at: DateTime<Utc>,
    episode: Option<Uuid>,
}

/// Whether the row passes; `None` when the filter has to be refused.
fn passes(filter: &Json, entry: &Entry) -> Option<bool> {
    let keys = match filter {
        Json::Null => return Some(true),
        Json::Object(keys) => keys,
        _ => return None,
    };
    let mut passes = true;
    for (key, value) in keys {
        // A wrong key is wrong with any value; a known key with null counts as not given.
        let known = [
            "metadata",
            "role",
            "kind",
            "markers_any",
            "markers_all",
            "created_after",
            "created_before",
            "session_id",
            "episode_id",
            "agent_id",
        ];
        if !known.contains(&key.as_str()) {
            return None;
        }
        if value.is_null() {
            continue;
        }
        passes &= match key.as_str() {
            "metadata" => value.is_object().then(|| contains(&entry.metadata, value))?,
            "role" => one_of(value, Some(&ROLES))?.contains(&entry.role),
            "kind" => one_of(value, Some(&KINDS))?.contains(&entry.kind),
            "session_id" => {
                let sessions = one_of(value, None)?;
                entry.session.as_ref().is_some_and(|session| sessions.contains(session))
            }
            "agent_id" => one_of(value, None)?.contains(&entry.agent),
            "markers_any" => {
                one_of(value, Some(&MARKERS))?.iter().any(|marker| entry.markers.contains(marker))
            }
            "markers_all" => {
                one_of(value, Some(&MARKERS))?.iter().all(|marker| entry.markers.contains(marker))
            }
            "created_after" => entry.created_at >= day(value)?,
            "created_before" => entry.created_at < day(value)?,
            _ => {
                let text = value.as_str().filter(|text| text.len() == 36)?;
                Uuid::parse_str(text).ok().map(|id| entry.episode == Some(id))?
            }
        };
    }
    Some(passes)
}

/// A string or a list of strings, all of them known.
fn one_of(value: &Json, known: Option<&[&str]>) -> Option<BTreeSet<String>> {
    let items = match value {
        Json::Array(items) => items.clone(),
        single => vec![single.clone()],
    };
    items
        .iter()
        .map(|item| {
            item.as_str()
                .filter(|text| known.is_none_or(|known| known.contains(text)))
                .map(str::to_owned)
        })
        .collect()
}

fn day(value: &Json) -> Option<DateTime<Utc>> {
    let text = value.as_str().filter(|text| DAYS.contains(text))?;
    let full = if text.len() == 10 { format!("{text}T00:00:00Z") } else { text.to_owned() };
    DateTime::parse_from_rfc3339(&full).ok().map(|time| time.with_timezone(&Utc))
}

/// jsonb's `@>` below the top level: objects by key, arrays by element in any order, equal scalars.
fn contains(whole: &Json, part: &Json) -> bool {
    match (whole, part) {
        (Json::Object(whole), Json::Object(part)) => {
            part.iter().all(|(key, value)| whole.get(key).is_some_and(|own| contains(own, value)))
        }
        (Json::Array(whole), Json::Array(part)) => {
            part.iter().all(|value| whole.iter().any(|own| contains(own, value)))
        }
        (Json::Number(whole), Json::Number(part)) => whole.as_f64() == part.as_f64(),
        (whole, part) => whole == part,
    }
}

/// Rows of all sessions, agents, roles and kinds; each contains the word that is asked for.
fn fill(client: &mut Client) -> Vec<Entry> {
    client.batch_execute("SET memory_agent.embed_on_ingest = off").unwrap();
    let turn = (
        metadata(),
        prop::sample::select(SESSIONS.to_vec()),
        prop::sample::select(ROLES.to_vec()),
        prop::sample::subsequence(MARKERS.to_vec(), 0..3),
        prop::sample::select(DAYS.to_vec()),
        any::<bool>(),
    );
    let made = RefCell::new(0usize);
    let client_cell = RefCell::new(client);
    runner("rows to filter", 60)
        .run(&turn, |(metadata, session, role, markers, day, is_fact)| {
            let client = &mut *client_cell.borrow_mut();
            *made.borrow_mut() += 1;
            let (content, agent) = (format!("word {}", made.borrow()), AGENTS[*made.borrow() % AGENTS.len()]);
            let markers: Vec<String> = markers.into_iter().map(str::to_owned).collect();
            let created_at = self::day(&Json::from(day)).unwrap();
            if is_fact {
                let session = (!made.borrow().is_multiple_of(3)).then_some(session);
                let add = "SELECT memory_add($1, $2, agent_id => $3, metadata => $4, markers => $5, \
                           created_at => $6, infer => false)";
                client.execute(add, &[&content, &session, &agent, &metadata, &markers, &created_at]).unwrap();
            } else {
                let ingest = "SELECT memory_ingest($1, $2, $3, agent_id => $4, metadata => $5, \
                              markers => $6, created_at => $7)";
                client
                    .execute(ingest, &[&session, &role, &content, &agent, &metadata, &markers, &created_at])
                    .unwrap();
            }
            Ok(())
        })
        .unwrap();
    let rows = "SELECT id, session_id, agent_id, kind, role, markers, metadata, created_at, episode_id \
                FROM memory_agent.entries";
    client_cell
        .into_inner()
        .query(rows, &[])
        .unwrap()
        .iter()
        .map(|row| Entry {
            id: row.get(0),
            session: row.get(1),
            agent: row.get(2),
            kind: row.get(3),
            role: row.get(4),
            markers: row.get(5),
            metadata: row.get(6),
            created_at: row.get(7),
            episode: row.get(8),
        })
        .collect()
}

#[test]
fn filters_leave_the_rows_they_describe() {
    let database = shared().database("filters");
    let mut client = database.connect();
    let entries = fill(&mut client);
    assert!(entries.len() >= 50);
    let client = RefCell::new(client);
    let counts = RefCell::new((0, 0, 0));
    let recall = "SELECT r.id FROM memory_recall('word', filter => $1, top_k => 500, \
                                                 score_threshold => 0, rerank => false) r";
    let outcome = runner("filters", 500).run(&filter(), |mut filter| {
        // Sometimes an episode that exists.
        if let Some(episode) = filter
            .get_mut("episode_id")
            .filter(|value| value.as_str() == Some("00000000-0000-0000-0000-000000000000"))
            && let Some(known) = entries.iter().find_map(|entry| entry.episode)
        {
            *episode = Json::from(known.to_string());
        }
        let answer = client.borrow_mut().query(recall, &[&filter]);
        let verdicts: Option<Vec<bool>> =
            entries.iter().map(|entry| passes(&filter, entry)).collect();
        let mut counts = counts.borrow_mut();
        match (answer, verdicts) {
            (Err(error), None) => {
                counts.0 += 1;
                prop_assert_eq!(sqlstate(&error), "22023");
            }
            (Ok(rows), Some(verdicts)) => {
                let found: BTreeSet<Uuid> = rows.iter().map(|row| row.get(0)).collect();
                let expected: BTreeSet<Uuid> = entries
                    .iter()
                    .zip(verdicts)
                    .filter(|(_, passes)| *passes)
                    .map(|(entry, _)| entry.id)
                    .collect();
                if expected.is_empty() {
                    counts.1 += 1
                } else {
                    counts.2 += 1
                }
                prop_assert_eq!(found, expected);
            }
            (answer, verdicts) => {
                prop_assert!(
                    false,
                    "refused: {:?}, by the reading: {}",
                    answer.err(),
                    verdicts.is_none()
                );
            }
        }
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    let (refused, empty, some) = *counts.borrow();
    assert!(
        refused > 20 && empty > 20 && some > 20,
        "too tame: {refused} refused, {empty} empty, {some} with rows"
    );
}
