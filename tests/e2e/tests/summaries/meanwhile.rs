//! What happens to a session while its summary is being made.

use crate::condenser::condenser;
use crate::scene::{DATABASE, PATIENCE};
use crate::talk::{of_level, scene, talk, talk_from, unsummarized, whole, window};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Uuid, wait_until};

#[test]
fn turns_that_come_meanwhile_join_the_next_summary() {
    let mut scene = scene(condenser, &[]);
    scene.stub.hold(true);
    let first = talk(&mut scene.client, "s", 4, 100);
    scene.wait_for_calls(1);
    let second = talk_from(&mut scene.client, "s", 4, 4, 100);
    scene.stub.hold(false);
    scene.drain();
    let chain = of_level(&mut scene.client, "s", "L3");
    assert_eq!(chain.len(), 2);
    assert_eq!((&chain[0].sources, &chain[1].sources), (&first, &second));
    assert_eq!(whole(&mut scene.client, "s").messages, 8);
    assert_eq!(unsummarized(&mut scene.client, "s"), 0);
}

#[test]
fn what_is_deleted_meanwhile_is_not_in_the_summary() {
    let mut scene = scene(condenser, &[]);
    scene.stub.hold(true);
    let ids = talk(&mut scene.client, "s", 6, 100);
    scene.wait_for_calls(1);
    run(
        &mut scene.client,
        "UPDATE memory_agent.entries SET state = 'inactive', state_reason = 'deleted', state_at = now() \
          WHERE content LIKE 'Note 2.%'",
    );
    scene.stub.hold(false);
    scene.drain();
    assert_eq!(scene.stub.call_count(), 2, "it was made anew");
    let asked = crate::condenser::turns(&scene.stub.calls()[1]);
    assert_eq!(asked.len(), 5);
    assert!(asked.iter().all(|text| !text.starts_with("Note 2.")), "{asked:?}");
    let summary = whole(&mut scene.client, "s");
    assert_eq!(summary.sources.len(), 5);
    assert!(!summary.sources.contains(&ids[2]));
}

#[test]
fn a_job_that_was_cancelled_stores_nothing() {
    let mut scene = scene(condenser, &[]);
    scene.stub.hold(true);
    let ids = talk(&mut scene.client, "s", 6, 100);
    scene.wait_for_calls(1);
    run(&mut scene.client, "DELETE FROM memory_agent.jobs");
    scene.stub.hold(false);
    // The worker is there for other sessions as soon as it has dropped the answer.
    talk(&mut scene.client, "other", 3, 100);
    scene.drain();
    assert!(of_level(&mut scene.client, "s", "L3").is_empty());
    assert_eq!(window(&mut scene.client, "s"), ids);
}

#[test]
fn a_session_that_is_locked_has_its_summary_later_without_another_call() {
    let mut scene = scene(condenser, &[]);
    scene.stub.hold(true);
    talk(&mut scene.client, "s", 6, 100);
    scene.wait_for_calls(1);
    let mut other = scene.cluster.connect(DATABASE);
    let mut transaction = other.transaction().expect("a transaction");
    transaction.execute("SELECT FROM memory_agent.sessions FOR UPDATE", &[]).expect("the lock");
    scene.stub.hold(false);
    wait_until(PATIENCE, "an attempt to store it", || {
        scene.status("worker").contains("last error")
    });
    assert!(of_level(&mut scene.client, "s", "L3").is_empty());
    transaction.rollback().expect("rollback");
    scene.drain();
    whole(&mut scene.client, "s");
    assert_eq!(scene.stub.call_count(), 1);
}

#[test]
fn two_workers_make_one_chain_of_summaries() {
    let settings = [
        ("memory_agent.job_workers", "2"),
        ("memory_agent.compression_threshold_tokens", "1500"),
        ("memory_agent.recent_messages_to_keep", "4"),
    ];
    let mut scene = scene(condenser, &settings);
    let sessions = ["a", "b", "c"];
    for round in 0..10 {
        for session in sessions {
            talk_from(&mut scene.client, session, round * 3, 3, 80);
        }
    }
    scene.drain();
    for session in sessions {
        let chain = of_level(&mut scene.client, session, "L3");
        let previous: Vec<Option<Uuid>> = chain.iter().map(|summary| summary.previous).collect();
        let mut expected = vec![None];
        expected.extend(chain.iter().map(|summary| Some(summary.id)));
        expected.pop();
        assert_eq!(previous, expected, "each summary rests on the one before it");
        let mut sources: Vec<Uuid> =
            chain.iter().flat_map(|summary| summary.sources.clone()).collect();
        let count = sources.len();
        sources.sort_unstable();
        sources.dedup();
        assert_eq!(sources.len(), count, "no turn is in two of them");
        let tokens: i64 = value(
            &mut scene.client,
            "SELECT active_tokens FROM memory_agent.sessions WHERE session_id = $1",
            &[&session],
        );
        assert!(tokens <= 1500, "{tokens} tokens in the window of {session}");
    }
    let dead: Vec<String> = values(
        &mut scene.client,
        "SELECT last_error FROM memory_jobs WHERE status = 'dead' OR attempts > 0",
        &[],
    );
    assert!(dead.is_empty(), "{dead:?}");
}

#[test]
fn the_sweep_takes_up_what_no_job_knows_of() {
    let mut scene = scene(condenser, &[("memory_agent.sweep_interval", "1s")]);
    talk(&mut scene.client, "s", 4, 100);
    scene.drain();
    run(&mut scene.client, "SET memory_agent.summarization = off");
    talk_from(&mut scene.client, "s", 4, 4, 100);
    wait_until(PATIENCE, "a summary of all turns", || {
        let sql = "SELECT coalesce(max(message_count), 0) FROM memory_agent.session_summaries";
        value::<i32>(&mut scene.client, sql, &[]) == 8
    });
    assert_eq!(unsummarized(&mut scene.client, "s"), 0);
}

#[test]
fn facts_stand_for_turns_that_are_gone() {
    let mut scene = scene(condenser, &[("memory_agent.compression", "off")]);
    run(&mut scene.client, "SET memory_agent.summarization = off");
    let turns = talk(&mut scene.client, "s", 2, 50);
    run(
        &mut scene.client,
        "SELECT memory_add('The bikes of Anna are ' || n || ' years old' || repeat(' and red', 20), 's', \
                           infer => false) FROM generate_series(1, 6) n",
    );
    let by_hand = "UPDATE memory_agent.entries SET source_ids = $1 WHERE kind = 'fact'";
    scene.client.execute(by_hand, &[&turns]).expect("sources");
    // While the turns are there, they speak for themselves.
    crate::talk::run_again(&mut scene, "summarize", "s");
    let summary = whole(&mut scene.client, "s");
    assert_eq!((summary.sources, summary.messages), (turns, 2));
    let other = talk(&mut scene.client, "t", 2, 50);
    run(
        &mut scene.client,
        "SELECT memory_add('The bikes of Bert are ' || n || ' years old' || repeat(' and red', 20), 't', \
                           infer => false) FROM generate_series(1, 6) n",
    );
    let by_hand =
        "UPDATE memory_agent.entries SET source_ids = $1 WHERE kind = 'fact' AND session_id = 't'";
    scene.client.execute(by_hand, &[&other]).expect("sources");
    run(
        &mut scene.client,
        "DELETE FROM memory_agent.entries WHERE kind = 'turn' AND session_id = 't'",
    );
    crate::talk::run_again(&mut scene, "summarize", "t");
    let calls = scene.stub.calls();
    let data = calls.last().expect("a call").data();
    assert_eq!(data["facts"].as_array().map(Vec::len), Some(6), "{data}");
    let summary = whole(&mut scene.client, "t");
    assert_eq!((summary.sources.len(), summary.messages), (6, 0));
    // They are covered now.
    let count = scene.stub.call_count();
    crate::talk::run_again(&mut scene, "summarize", "t");
    assert_eq!(scene.stub.call_count(), count);
}
