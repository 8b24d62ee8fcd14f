//! What memory_add was told reaches the summary of its session, as something that the user said.

use crate::condenser::{condenser, turns};
use crate::talk::{scene, talk, text, unsummarized, whole, window};
use memory_agent_e2e::llm::{Call, Purpose, Reply};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Uuid, json};

/// Condenses, and finds no facts.
fn model(call: &Call) -> Reply {
    match call.purpose() {
        Purpose::Extract => json!({"facts": []}).into(),
        _ => condenser(call).into(),
    }
}

#[test]
fn what_was_added_is_summarised_once() {
    let mut scene = scene(model, &[]);
    let said = talk(&mut scene.client, "s", 4, 60);
    scene.drain();
    let before = whole(&mut scene.client, "s");
    let add = |client: &mut memory_agent_e2e::Client, number: usize| -> Uuid {
        value(client, "SELECT memory_add($1, 's', infer => true)", &[&text(number, 120)])
    };
    let added = add(&mut scene.client, 100);
    scene.drain();
    let after = whole(&mut scene.client, "s");
    assert_eq!((after.previous, &after.sources), (Some(before.id), &vec![added]));
    assert_eq!(after.messages, 5);
    assert_eq!(unsummarized(&mut scene.client, "s"), 0);
    let calls = scene.stub.calls();
    let last = calls.iter().rev().find(|call| matches!(call.purpose(), Purpose::Summary(_)));
    assert_eq!(turns(last.unwrap()), [text(100, 120)]);
    // It is in no window, as ever, and an original of the summary.
    assert_eq!(window(&mut scene.client, "s"), said);
    let original = "SELECT count(*) FROM memory_originals($1) o WHERE o.id = $2";
    assert_eq!(value::<i64>(&mut scene.client, original, &[&after.id, &added]), 1);

    // Forgotten before its turn has come, it is in no summary; brought back, it is in the next. It is too short
    // for the worker, whose sweep renews summaries by the worker's own setting.
    let short = "SELECT memory_add($1, 's', infer => true)";
    let forgotten: Uuid = value(&mut scene.client, short, &[&text(101, 60)]);
    scene.drain();
    let waiting = unsummarized(&mut scene.client, "s");
    assert!(0 < waiting && waiting < 100, "{waiting}");
    assert!(value::<bool>(&mut scene.client, "SELECT memory_forget($1)", &[&forgotten]));
    assert_eq!(unsummarized(&mut scene.client, "s"), 0);
    run(&mut scene.client, "SET memory_agent.summary_min_tokens = 10");
    assert!(value::<bool>(&mut scene.client, "SELECT memory_restore($1)", &[&forgotten]));
    scene.drain();
    run(&mut scene.client, "RESET memory_agent.summary_min_tokens");
    assert_eq!(whole(&mut scene.client, "s").sources, [forgotten]);
    assert_eq!(unsummarized(&mut scene.client, "s"), 0);

    // What is stored as it is, and what belongs to no session, is in no summary.
    run(
        &mut scene.client,
        "SELECT memory_add(repeat('The user owns a boat. ', 30), 's', infer => false);
         SELECT memory_add(repeat('The user owns a car. ', 30), infer => true)",
    );
    scene.drain();
    assert_eq!(whole(&mut scene.client, "s").sources, [forgotten]);
}
