//! A stream of 200 turns with 60 changes: whatever the endpoint does meanwhile, in the end exactly
//! what still holds is active, and history tells how it came to that.

use crate::scene::{Fact, Scene};
use memory_agent_e2e::llm::{Conversation, Fault, FaultPlan, Outcome, ScriptedModel};
use memory_agent_e2e::memory::{trust_llm, value};
use memory_agent_e2e::{Client, Uuid, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Of the conversation and of the faults, unless `MEMORY_AGENT_TEST_SEED` gives another one.
const SEED: u64 = 20_260_311;

fn seed() -> u64 {
    std::env::var("MEMORY_AGENT_TEST_SEED")
        .map_or(SEED, |seed| seed.parse().expect("MEMORY_AGENT_TEST_SEED is a number"))
}

/// The sessions of a conversation are different people, who contradict each other.
const APART: (&str, &str) = ("memory_agent.session_recall", "session");

#[test]
fn a_stream_of_changes_leaves_exactly_what_holds() {
    let conversation = Conversation::generate(seed());
    let mut scene = Scene::with_settings(ScriptedModel::of(&conversation), &[APART]);
    ingest(&mut scene.client, &conversation);
    scene.drain();
    expect_outcome(&mut scene, &conversation.outcome());
    never_recalls_what_is_stale(&mut scene, &conversation.outcome());
    old_turns_rank_below_what_replaced_them(&mut scene, &conversation.outcome());
    let recorded = scene.recorded_calls();
    assert_eq!(recorded, [("ok".to_owned(), scene.stub.call_count() as i64)]);
}

#[test]
fn faults_of_every_kind_change_nothing_but_the_time() {
    let conversation = Conversation::generate(seed() + 1);
    let settings = [
        ("memory_agent.llm_timeout", "1s"),
        ("memory_agent.llm_max_attempts", "50"),
        ("memory_agent.job_workers", "2"),
        APART,
    ];
    let mut scene = Scene::with_settings(ScriptedModel::of(&conversation), &settings);
    // A probe that is not answered has what the LLM changes doubted for an hour.
    trust_llm(&mut scene.client);
    let mut kinds = Fault::every_kind(Duration::from_millis(300));
    kinds.push(Fault::Delay(Duration::from_secs(3)));
    kinds.push(Fault::Drip(Duration::from_secs(3)));
    scene.stub.faults(FaultPlan::random(seed(), 0.3, kinds).sparing_last_words());
    ingest(&mut scene.client, &conversation);
    scene.drain();
    let faults = scene.stub.calls().iter().filter(|call| call.fault.is_some()).count();
    assert!(faults >= 10, "only {faults} faults in {} calls", scene.stub.call_count());
    scene.stub.faults(FaultPlan::none());
    expect_outcome(&mut scene, &conversation.outcome());
}

/// Each turn by itself, as an agent does.
fn ingest(client: &mut Client, conversation: &Conversation) {
    for turn in &conversation.turns {
        client
            .execute("SELECT memory_ingest($1, 'user', $2)", &[&turn.session, &turn.text])
            .expect("a turn is stored whatever the LLM does");
    }
}

/// Nothing lost, nothing twice, every change explained.
fn expect_outcome(scene: &mut Scene, outcome: &Outcome) {
    let dead: Vec<_> = scene.jobs().into_iter().filter(|job| job.status != "done").collect();
    assert!(dead.is_empty(), "{dead:#?}");
    let waiting: i64 = value(
        &mut scene.client,
        "SELECT count(*) FROM memory_agent.entries \
          WHERE kind = 'turn' AND (extracted_at IS NULL OR NOT isfinite(extracted_at))",
        &[],
    );
    assert_eq!(waiting, 0, "turns that no fact was extracted from");
    let facts = scene.all_facts();
    let mut active: Vec<(String, String)> = facts
        .iter()
        .filter(|fact| fact.state == "active")
        .map(|fact| (fact.session.clone().unwrap_or_default(), fact.content.clone()))
        .collect();
    active.sort();
    assert_eq!(
        differences(&active, &outcome.active),
        ([].into(), [].into()),
        "(too many, missing)"
    );
    expect_each_change(scene, outcome, &facts);
    expect_sources_and_history(scene, &facts);
}

/// The facts by session and text, of which there is one row each.
fn by_text(facts: &[Fact]) -> BTreeMap<(&str, &str), &Fact> {
    let mut found = BTreeMap::new();
    for fact in facts {
        let key = (fact.session.as_deref().unwrap_or_default(), fact.content.as_str());
        if let Some(twin) = found.insert(key, fact) {
            panic!("stored twice: {twin:#?}\n{fact:#?}");
        }
    }
    found
}

fn expect_each_change(scene: &mut Scene, outcome: &Outcome, facts: &[Fact]) {
    let found = by_text(facts);
    let fact = |session: &str, text: &str| {
        *found.get(&(session, text)).unwrap_or_else(|| panic!("lost: {session}: {text}"))
    };
    for change in &outcome.superseded {
        let old = fact(&change.session, &change.fact);
        let new = fact(&change.session, &change.by);
        assert_eq!(old.state, "inactive", "{change:?}");
        let reason = if change.contradicted { "contradicted" } else { "superseded" };
        assert_eq!(old.reason.as_deref(), Some(reason), "{change:?}");
        assert_eq!(old.replaced_by, Some(new.id), "{change:?}");
        let op = if change.contradicted { "delete" } else { "supersede" };
        assert_eq!(scene.history(old.id), ["add", op], "{change:?}");
    }
    assert_eq!(
        facts.len(),
        outcome.active.len() + outcome.superseded.len(),
        "more rows than facts"
    );
}

fn expect_sources_and_history(scene: &mut Scene, facts: &[Fact]) {
    let strays: i64 = value(
        &mut scene.client,
        "SELECT count(*) FROM memory_agent.entries f \
          WHERE f.kind = 'fact' \
            AND (cardinality(f.source_ids) IS NULL OR cardinality(f.source_ids) = 0 \
                 OR EXISTS (SELECT FROM unnest(f.source_ids) s(id) \
                             WHERE NOT EXISTS (SELECT FROM memory_agent.entries t \
                                                WHERE t.id = s.id AND t.kind = 'turn' AND t.role = 'user' \
                                                  AND t.session_id = f.session_id)))",
        &[],
    );
    assert_eq!(strays, 0, "facts without the turns they are from");
    let unexplained: i64 = value(
        &mut scene.client,
        "SELECT count(*) FROM memory_agent.entries f \
          WHERE f.kind = 'fact' \
            AND NOT EXISTS (SELECT FROM memory_agent.history h \
                             WHERE h.entry_id = f.id AND h.op = 'add' AND h.job_id IS NOT NULL)",
        &[],
    );
    assert_eq!(unexplained, 0, "of {} facts, without history", facts.len());
}

/// Asked in the very words of what no longer holds, recall answers with what holds now.
fn never_recalls_what_is_stale(scene: &mut Scene, outcome: &Outcome) {
    let current: BTreeMap<(&str, &str), &str> = outcome
        .superseded
        .iter()
        .map(|change| ((change.session.as_str(), change.fact.as_str()), change.by.as_str()))
        .collect();
    for change in &outcome.superseded {
        let rows = scene
            .client
            .query(
                "SELECT content FROM memory_recall($1, $2, kinds => '{fact}', top_k => 10, \
                                                   rerank => false)",
                &[&change.fact, &change.session],
            )
            .expect("recall");
        let found: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
        let stale =
            found.iter().find(|text| current.contains_key(&(change.session.as_str(), **text)));
        assert_eq!(stale, None, "{}", json!({"asked": change.fact, "found": found}));
        // What replaced it may have been replaced in turn.
        let mut now = change.by.as_str();
        while let Some(next) = current.get(&(change.session.as_str(), now)) {
            now = next;
        }
        assert!(
            found.contains(&now),
            "{}",
            json!({"asked": change.fact, "expected": now, "found": found})
        );
    }
}

/// Old turns may still be found, for what their facts left out. None that lost a fact comes before what
/// took its place, and each says that it is out of date.
fn old_turns_rank_below_what_replaced_them(scene: &mut Scene, outcome: &Outcome) {
    let mut seen = 0;
    for change in &outcome.superseded {
        let rows = scene
            .client
            .query(
                "SELECT r.id, r.metadata->>'superseded_by', array_remove(array_agg(f.replaced_by), NULL) \
                   FROM memory_recall($1, $2, top_k => 10, rerank => false) WITH ORDINALITY r \
                   LEFT JOIN memory_agent.entries f \
                     ON r.kind = 'turn' AND f.source_ids @> ARRAY[r.id] AND f.state = 'inactive' \
                  GROUP BY r.ordinality, r.id, r.metadata ORDER BY r.ordinality",
                &[&change.fact, &change.session],
            )
            .expect("recall");
        let found: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
        for (place, row) in rows.iter().enumerate() {
            let (mark, replaced_by): (Option<String>, Vec<Uuid>) = (row.get(1), row.get(2));
            assert_eq!(mark.is_some(), !replaced_by.is_empty(), "{change:?}: row {place}");
            seen += replaced_by.len();
            for by in replaced_by {
                let after = found[place..].contains(&by);
                assert!(!after, "{change:?}: row {place} comes before what replaced it");
            }
        }
    }
    assert!(seen > 20, "only {seen} old turns were found at all");
}

/// What is only in the first, and only in the second list.
fn differences<T: Ord + Clone>(found: &[T], expected: &[T]) -> (Vec<T>, Vec<T>) {
    let only = |left: &[T], right: &[T]| -> Vec<T> {
        let mut rest = right.to_vec();
        left.iter()
            .filter(|item| match rest.iter().position(|other| other == *item) {
                Some(index) => {
                    rest.swap_remove(index);
                    false
                }
                None => true,
            })
            .cloned()
            .collect()
    };
    (only(found, expected), only(expected, found))
}
