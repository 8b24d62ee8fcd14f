//! What leaves the window, when, and what it costs.

use crate::condenser::{condenser, wants_sections};
use crate::talk::{
    of_level, picture, run_again, scene, talk, talk_from, unsummarized, whole, window,
};
use memory_agent_e2e::memory::{recalled_texts, run, value, values};
use memory_agent_e2e::{Client, Uuid};

const SMALL: [(&str, &str); 2] = [
    ("memory_agent.compression_threshold_tokens", "1000"),
    ("memory_agent.recent_messages_to_keep", "3"),
];

/// `state reason` of an entry.
fn state(client: &mut Client, id: Uuid) -> String {
    let sql = "SELECT concat_ws(' ', state, state_reason) FROM memory_agent.entries WHERE id = $1";
    value(client, sql, &[&id])
}

#[track_caller]
fn expect_counters(client: &mut Client, session: &str) {
    let kept: String = value(
        client,
        "SELECT concat_ws('|', active_entries, active_tokens) FROM memory_agent.sessions WHERE session_id = $1",
        &[&session],
    );
    let counted: String = value(
        client,
        "SELECT concat_ws('|', count(*), sum(token_count)) FROM memory_agent.entries \
          WHERE session_id = $1 AND state = 'active'",
        &[&session],
    );
    assert_eq!(kept, counted, "entries|tokens of the window");
}

/// The target of a sliding window: 50 turns stay under 3,000 tokens by themselves, where the threshold is 2,000. With
/// the default a session of this length is kept whole.
#[test]
fn fifty_turns_stay_under_three_thousand_tokens_where_that_is_wanted() {
    let mut scene = scene(condenser, &[]);
    let loaded = "SELECT sum(memory_count_tokens(content) + 4), count(*) FILTER (WHERE role <> 'system') \
                    FROM memory_load($1)";
    let look = |client: &mut Client, session: &str| -> (i64, i64) {
        let row = client.query_one(loaded, &[&session]).unwrap();
        (row.get(0), row.get(1))
    };
    run(&mut scene.client, "SET memory_agent.compression_threshold_tokens = 2000");
    for turn in 0..50 {
        talk_from(&mut scene.client, "small", turn, 1, 109);
        scene.drain();
        let (tokens, _) = look(&mut scene.client, "small");
        assert!(tokens < 3000, "{tokens} tokens after turn {turn}");
    }
    assert!(look(&mut scene.client, "small").1 < 30);
    run(&mut scene.client, "RESET memory_agent.compression_threshold_tokens");
    talk(&mut scene.client, "default", 50, 109);
    scene.drain();
    let (tokens, turns) = look(&mut scene.client, "default");
    assert!(turns == 50 && (5000..6500).contains(&tokens), "{tokens} tokens, {turns} turns");
}

#[test]
fn a_full_window_is_compressed() {
    let mut scene = scene(condenser, &SMALL);
    let ids = talk(&mut scene.client, "s", 12, 100);
    scene.drain();
    assert_eq!(window(&mut scene.client, "s"), ids[9..], "the newest three stay");
    for id in &ids[..9] {
        assert_eq!(state(&mut scene.client, *id), "archived compressed");
    }
    expect_counters(&mut scene.client, "s");
    let calls = scene.stub.calls();
    assert_eq!(calls.len(), 1);
    assert!(wants_sections(&calls[0]));
    let summary = whole(&mut scene.client, "s");
    assert_eq!(summary.sources, ids);
    assert_eq!(summary.topics, ["bikes", "trains"]);
    assert_eq!(summary.entities, ["Anna", "Oslo"]);
    assert_eq!(summary.decisions, ["Take the train."]);
    assert!(summary.questions.is_empty(), "{:?}", summary.questions);
    assert!(!summary.content.contains("##"), "{}", summary.content);
    // Leaving the window is not leaving memory.
    let found = recalled_texts(&mut scene.client, "'Note 0', 's', top_k => 3");
    assert!(found.iter().any(|text| text.starts_with("Note 0.")), "{found:?}");
    let kinds: Vec<String> =
        values(&mut scene.client, "SELECT DISTINCT kind FROM memory_jobs ORDER BY kind", &[]);
    assert_eq!(kinds, ["compress"], "what compresses summarises too");
    // The window is not full any more: the job has nothing to do.
    let before = picture(&mut scene.client, "s");
    run_again(&mut scene, "compress", "s");
    assert_eq!(picture(&mut scene.client, "s"), before);
    assert_eq!(scene.stub.call_count(), 1);
}

#[test]
fn the_summary_is_ready_before_the_window_is_full() {
    let mut settings = SMALL.to_vec();
    settings.push(("memory_agent.summarization", "off"));
    let mut scene = scene(condenser, &settings);
    let first = talk(&mut scene.client, "s", 5, 160);
    scene.drain();
    assert_eq!(scene.stub.call_count(), 0, "under 90 %, with summarization off");
    let second = talk_from(&mut scene.client, "s", 5, 1, 120);
    scene.drain();
    assert_eq!(scene.stub.call_count(), 1);
    assert!(wants_sections(&scene.stub.calls()[0]));
    let summary = whole(&mut scene.client, "s");
    assert_eq!(summary.topics, ["bikes", "trains"]);
    let third = talk_from(&mut scene.client, "s", 6, 1, 120);
    scene.drain();
    assert_eq!(scene.stub.call_count(), 1, "the turns that leave are covered already");
    assert_eq!(window(&mut scene.client, "s"), [first[4], second[0], third[0]]);
    assert_eq!(whole(&mut scene.client, "s"), summary);
    assert!(unsummarized(&mut scene.client, "s") > 100);
    expect_counters(&mut scene.client, "s");
}

#[test]
fn a_summary_without_sections_gets_them_when_its_turns_leave() {
    let mut scene = scene(condenser, &SMALL);
    let ids = talk(&mut scene.client, "s", 6, 100);
    scene.drain();
    let before = whole(&mut scene.client, "s");
    assert!(before.topics.is_empty());
    let job: Option<Uuid> = value(&mut scene.client, "SELECT memory_compress('s')", &[]);
    assert!(job.is_some());
    scene.drain();
    let calls = scene.stub.calls();
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[1].data()["text"], before.content.as_str());
    let after = whole(&mut scene.client, "s");
    assert_eq!((after.id, &after.content), (before.id, &before.content), "nothing else changed");
    assert_eq!(after.topics, ["bikes", "trains"]);
    assert_eq!(window(&mut scene.client, "s"), ids[3..]);
    // Nothing is left to be compressed.
    let job: Option<Uuid> = value(&mut scene.client, "SELECT memory_compress('s')", &[]);
    assert_eq!(job, None);
}

#[test]
fn a_window_is_compressed_again_and_again() {
    let mut scene = scene(condenser, &SMALL);
    let mut ids = Vec::new();
    for number in 0..40 {
        ids.extend(talk_from(&mut scene.client, "s", number, 1, 100));
        if number % 4 == 3 {
            scene.drain();
            let tokens: i64 = value(
                &mut scene.client,
                "SELECT active_tokens FROM memory_agent.sessions WHERE session_id = 's'",
                &[],
            );
            assert!(tokens <= 1000, "{tokens} tokens in the window");
        }
    }
    let summary = whole(&mut scene.client, "s");
    let behind: Vec<Uuid> =
        values(&mut scene.client, "SELECT id FROM memory_originals($1)", &[&summary.id]);
    let window = window(&mut scene.client, "s");
    assert!(window.len() >= 3);
    assert_eq!(window, ids[ids.len() - window.len()..], "the window has no holes");
    for id in &ids {
        assert!(behind.contains(id) || window.contains(id), "a turn is nowhere");
    }
    assert_eq!(behind, ids[..behind.len()], "each turn once, in order");
    let chain = of_level(&mut scene.client, "s", "L3");
    assert_eq!(chain.iter().filter(|summary| summary.is_active).count(), 1);
    expect_counters(&mut scene.client, "s");
}

#[test]
fn what_one_job_does_not_take_is_left_to_the_next() {
    let mut scene = scene(condenser, &[]);
    run(
        &mut scene.client,
        "SET memory_agent.summary_chunk_tokens = 200; \
         SET memory_agent.compression_threshold_tokens = 5000",
    );
    // More than thirty chunks of 200 tokens.
    let ids = talk(&mut scene.client, "s", 120, 60);
    scene.drain();
    let active = whole(&mut scene.client, "s").id;
    let behind: Vec<Uuid> =
        values(&mut scene.client, "SELECT id FROM memory_originals($1)", &[&active]);
    assert_eq!(behind, ids);
    assert_eq!(of_level(&mut scene.client, "s", "L3").len(), 2);
    let window = window(&mut scene.client, "s");
    assert!((10..40).contains(&window.len()), "{} turns", window.len());
    assert_eq!(window, ids[120 - window.len()..]);
    assert_eq!(unsummarized(&mut scene.client, "s"), 0);
}

#[test]
fn a_window_that_the_newest_turns_fill_is_summarised() {
    let settings = [
        ("memory_agent.compression_threshold_tokens", "300"),
        ("memory_agent.recent_messages_to_keep", "10"),
    ];
    let mut scene = scene(condenser, &settings);
    let ids = talk(&mut scene.client, "s", 5, 100);
    scene.drain();
    assert_eq!(window(&mut scene.client, "s"), ids, "none of them may leave");
    assert_eq!(whole(&mut scene.client, "s").messages, 5);
    let waiting: i64 = value(
        &mut scene.client,
        "SELECT unsummarized_tokens FROM memory_agent.sessions WHERE session_id = 's'",
        &[],
    );
    assert_eq!(waiting, 0);
}

/// Turns that have expired are shown to nobody: they do not count among those that are kept.
#[test]
fn expired_turns_do_not_take_the_place_of_those_that_stay() {
    let settings =
        [("memory_agent.recent_messages_to_keep", "3"), ("memory_agent.sweep_interval", "1h")];
    let mut scene = scene(condenser, &settings);
    let ids = talk(&mut scene.client, "s", 8, 100);
    scene.drain();
    scene
        .client
        .execute(
            "UPDATE memory_agent.entries SET expires_at = now() - interval '1 minute' WHERE id = ANY ($1)",
            &[&&ids[6..]],
        )
        .unwrap();
    run(&mut scene.client, "SELECT memory_compress('s')");
    scene.drain();
    let shown: Vec<Uuid> =
        values(&mut scene.client, "SELECT id FROM memory_load('s') WHERE role <> 'system'", &[]);
    assert_eq!(shown, ids[3..6]);
}
