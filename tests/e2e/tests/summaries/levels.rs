//! What a session is condensed to, by its length.

use crate::condenser::{Prompt, chatterbox, condenser, prompt, target, turns, wants_sections};
use crate::talk::{
    of_level, picture, run_again, scene, summaries, talk, talk_from, tokens_of, unsummarized, whole,
};
use memory_agent_e2e::Uuid;
use memory_agent_e2e::memory::{run, values};
use std::collections::BTreeSet;

/// By how much a summary may be longer than its target.
const TOLERANCE: f32 = 1.2;

#[test]
fn the_level_follows_the_length() {
    let mut scene = scene(condenser, &[("memory_agent.compression", "off")]);
    // (session, turns, tokens of each, level, share of the tokens, prompt)
    for (session, count, tokens, method, share, asked) in [
        ("brief", 3, 50, "brief", 0.20, Prompt::Brief),
        ("standard", 8, 100, "standard", 0.12, Prompt::Standard),
        ("long paragraph", 14, 200, "standard", 0.12, Prompt::Standard),
    ] {
        let before = scene.stub.call_count();
        let ids = talk(&mut scene.client, session, count, tokens);
        scene.drain();
        let calls = &scene.stub.calls()[before..];
        assert_eq!(calls.len(), 1, "{session}");
        assert_eq!(prompt(&calls[0]), asked, "{session}");
        assert!(!wants_sections(&calls[0]), "{session}: nothing is compressed soon");
        let summary = whole(&mut scene.client, session);
        assert_eq!(summary.method, method);
        assert_eq!(summary.sources, ids, "{session}");
        assert_eq!((summary.first, summary.last), (ids.first().copied(), ids.last().copied()));
        assert_eq!(summary.messages as usize, count);
        assert_eq!(i64::from(summary.input), tokens_of(&mut scene.client, &ids));
        assert!(summary.ratio <= share * TOLERANCE, "{session}: {summary:?}");
        assert!(summary.ratio >= share * 0.5, "{session}: {summary:?}");
        assert_eq!(summary.model, "stub-1");
        assert_eq!(summaries(&mut scene.client, session).len(), 1);
        assert_eq!(unsummarized(&mut scene.client, session), 0);
    }
    // Under 100 tokens the turns themselves are shorter than a summary would be.
    talk(&mut scene.client, "short", 2, 30);
    run(&mut scene.client, "SET memory_agent.summary_min_tokens = 10");
    talk(&mut scene.client, "short too", 1, 30);
    let before = scene.stub.call_count();
    scene.drain();
    assert_eq!(scene.stub.call_count(), before);
    assert!(summaries(&mut scene.client, "short").is_empty());
    assert!(summaries(&mut scene.client, "short too").is_empty());
}

#[test]
fn long_sessions_are_condensed_in_steps_and_doing_it_again_changes_nothing() {
    let settings = [("memory_agent.compression", "off"), ("memory_agent.max_entries", "0")];
    let mut scene = scene(condenser, &settings);
    let ids = talk(&mut scene.client, "long", 36, 200);
    scene.drain();
    let summary = whole(&mut scene.client, "long");
    assert_eq!(summary.method, "detailed");
    assert!(summary.ratio <= 0.07 * TOLERANCE && summary.ratio > 0.04, "{summary:?}");
    let chunks = of_level(&mut scene.client, "long", "L1");
    assert!((3..=4).contains(&chunks.len()), "{} chunks", chunks.len());
    assert!(of_level(&mut scene.client, "long", "L2").is_empty(), "so few need no groups");
    assert_eq!(summary.sources, ids);

    let before = scene.stub.call_count();
    let ids = talk(&mut scene.client, "very long", 100, 200);
    scene.drain();
    let covered = tokens_of(&mut scene.client, &ids);
    assert!((19_000..22_000).contains(&covered), "{covered} tokens");
    let (l1, l2) = (
        of_level(&mut scene.client, "very long", "L1"),
        of_level(&mut scene.client, "very long", "L2"),
    );
    assert!((7..=9).contains(&l1.len()), "{} chunks", l1.len());
    assert_eq!(l2.len(), 2);
    let calls = &scene.stub.calls()[before..];
    assert_eq!(calls.len(), l1.len() + l2.len() + 1, "each text was asked for once");
    for part in &l1 {
        assert!(part.input <= 3000, "{part:?}");
        assert!(part.ratio <= 0.12 * TOLERANCE && part.ratio > 0.08, "{part:?}");
    }
    for group in &l2 {
        assert!(group.ratio <= 0.5 * TOLERANCE && group.ratio > 0.3, "{group:?}");
    }
    for level in [&l1, &l2] {
        let parts: BTreeSet<Uuid> = level.iter().flat_map(|part| part.sources.clone()).collect();
        assert_eq!(parts, ids.iter().copied().collect(), "every turn is in one");
        assert!(level.iter().all(|part| part.is_active && part.method == "hierarchical"));
        let places: Vec<i32> = level.iter().map(|part| part.ordinal).collect();
        assert_eq!(places, (0..level.len() as i32).collect::<Vec<_>>());
    }
    let summary = whole(&mut scene.client, "very long");
    assert_eq!(summary.method, "hierarchical");
    assert_eq!(i64::from(summary.input), covered);
    assert!((700..=1260).contains(&summary.output), "{summary:?}");
    assert!(summary.ratio <= 0.07 * TOLERANCE, "{summary:?}");

    let (before, calls) = (picture(&mut scene.client, "very long"), scene.stub.call_count());
    run_again(&mut scene, "summarize", "very long");
    assert_eq!(picture(&mut scene.client, "very long"), before);
    assert_eq!(scene.stub.call_count(), calls);
    let purposes: Vec<String> =
        values(&mut scene.client, "SELECT DISTINCT purpose FROM memory_llm_calls", &[]);
    assert_eq!(purposes, ["summarize"]);
}

#[test]
fn a_summary_is_brought_up_to_date_with_what_came_after_it() {
    let mut scene = scene(condenser, &[]);
    let first = talk(&mut scene.client, "s", 4, 100);
    scene.drain();
    let earlier = whole(&mut scene.client, "s");
    let second = talk_from(&mut scene.client, "s", 4, 3, 100);
    scene.drain();
    let calls = scene.stub.calls();
    assert_eq!(calls.len(), 2);
    assert_eq!(prompt(&calls[1]), Prompt::Rolling);
    assert_eq!(calls[1].data()["previous_summary"], earlier.content.as_str());
    let asked = turns(&calls[1]);
    assert_eq!(asked.len(), 3, "only what is new: {asked:?}");
    assert!(asked[0].starts_with("Note 4."));
    let later = whole(&mut scene.client, "s");
    assert_eq!((later.previous, &later.sources), (Some(earlier.id), &second));
    assert_eq!((later.first, later.last), (Some(first[0]), Some(second[2])));
    assert_eq!(later.messages, 7);
    let all: Vec<Uuid> = first.iter().chain(&second).copied().collect();
    assert_eq!(i64::from(later.input), tokens_of(&mut scene.client, &all));
    assert_eq!(later.method, "standard", "the level is that of all it covers");
    let l3s = of_level(&mut scene.client, "s", "L3");
    assert_eq!(l3s.len(), 2);
    assert!(!l3s[0].is_active, "the earlier one stays, inactive");
    let originals: Vec<Uuid> =
        values(&mut scene.client, "SELECT id FROM memory_originals($1)", &[&later.id]);
    assert_eq!(originals, all);
    // What was said before and is recorded only now joins the next summary, and nothing twice.
    let older: Uuid = memory_agent_e2e::memory::value(
        &mut scene.client,
        "SELECT memory_ingest('s', 'user', $1, created_at => '2024-12-31')",
        &[&crate::talk::text(99, 120)],
    );
    scene.drain();
    let last = whole(&mut scene.client, "s");
    assert_eq!((last.sources, last.first, last.last), (vec![older], Some(older), later.last));
}

/// A job reads what comes after the summary; what was said before its end, or in the same moment, is not
/// lost for that, nor when the session's count of it is wrong.
#[test]
fn every_turn_is_summarised_once_whenever_it_was_said() {
    let mut scene = scene(condenser, &[]);
    talk(&mut scene.client, "s", 4, 120);
    scene.drain();
    let mut number = 100;
    for (times, count) in [
        (vec!["2025-01-01 00:03+00"], "unsummarized_tokens"),
        (vec!["2025-01-01 00:01+00"], "unsummarized_tokens"),
        (vec!["2025-01-01 00:05+00"], "unsummarized_tokens"),
        (vec!["2025-01-01 00:05+00", "2025-01-01 00:06+00"], "unsummarized_tokens"),
        (vec!["2025-01-01 00:02+00", "2025-01-01 00:07+00"], "unsummarized_tokens + 70"),
        (vec!["2025-01-01 00:04+00", "2025-01-01 00:08+00"], "unsummarized_tokens - 1"),
        (vec!["2025-01-01 00:09+00"], "unsummarized_tokens"),
    ] {
        run(
            &mut scene.client,
            &format!("UPDATE memory_agent.sessions SET unsummarized_tokens = {count}"),
        );
        let turns: Vec<memory_agent_e2e::Json> = times
            .iter()
            .map(|at| {
                number += 1;
                let content = crate::talk::text(number, 120);
                memory_agent_e2e::json!({"role": "user", "content": content, "created_at": at})
            })
            .collect();
        let ids: Vec<Uuid> = values(
            &mut scene.client,
            "SELECT memory_ingest_batch($1, 's')",
            &[&memory_agent_e2e::Json::from(turns)],
        );
        scene.drain();
        assert_eq!(whole(&mut scene.client, "s").sources, ids, "{times:?}");
        assert_eq!(unsummarized(&mut scene.client, "s"), 0, "{times:?}");
    }
}

#[test]
fn a_summary_that_is_too_long_is_asked_for_twice_more_and_then_cut() {
    let mut scene = scene(chatterbox(2), &[]);
    talk(&mut scene.client, "s", 10, 100);
    scene.drain();
    let calls = scene.stub.calls();
    assert_eq!(calls.len(), 3);
    let limit = target(&calls[0]);
    for call in &calls[1..] {
        let asked = call.messages("user").last().copied().unwrap_or_default().to_owned();
        assert!(asked.starts_with("Your answer is too long"), "{asked}");
        assert!(asked.contains(&limit.to_string()), "{asked}");
    }
    let summary = whole(&mut scene.client, "s");
    assert!(summary.output as f32 <= limit as f32 * TOLERANCE, "{summary:?}");
    assert!(summary.output as f32 > limit as f32 * 0.9, "{summary:?}");
    assert!(summary.content.ends_with('.'), "it is cut at a sentence: {}", summary.content);
    let counted: i32 = memory_agent_e2e::memory::value(
        &mut scene.client,
        "SELECT memory_count_tokens($1)",
        &[&summary.content],
    );
    assert_eq!(counted, summary.output);
}

#[test]
fn one_huge_turn_is_condensed_in_chunks() {
    let mut scene = scene(condenser, &[("memory_agent.compression", "off")]);
    let ids = talk(&mut scene.client, "s", 1, 20_000);
    scene.drain();
    let l1 = of_level(&mut scene.client, "s", "L1");
    assert!(l1.len() >= 7, "{} chunks", l1.len());
    assert!(l1.iter().all(|part| part.sources == ids && part.input <= 3000));
    let summary = whole(&mut scene.client, "s");
    assert_eq!((summary.sources, summary.messages), (ids, 1));
    assert_eq!(summary.method, "hierarchical");
}
