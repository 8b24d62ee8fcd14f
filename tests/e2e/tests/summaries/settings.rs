//! What each setting of summaries does. A job keeps the values of the session that queued it.

use crate::condenser::{condenser, turns};
use crate::scene::{DATABASE, Scene};
use crate::talk::{of_level, scene, summaries, talk, whole, window};
use memory_agent_e2e::memory::run;

/// Stores turns in a session of their own under a setting, and waits.
fn with(scene: &mut Scene, set: &str, session: &str, turns: usize, tokens: usize) {
    run(&mut scene.client, &format!("SET {set}"));
    talk(&mut scene.client, session, turns, tokens);
    run(&mut scene.client, "RESET ALL; SET memory_agent.user_id = 'alice'");
    scene.drain();
}

#[test]
fn when_sessions_are_summarised() {
    let mut scene = scene(condenser, &[]);
    with(&mut scene, "memory_agent.summarization = off", "off", 5, 100);
    assert!(summaries(&mut scene.client, "off").is_empty());
    with(&mut scene, "memory_agent.summarization = on", "on", 5, 100);
    whole(&mut scene.client, "on");
    with(&mut scene, "memory_agent.summary_min_tokens = 1000", "later", 5, 100);
    assert!(summaries(&mut scene.client, "later").is_empty());
    with(&mut scene, "memory_agent.summary_min_tokens = 400", "now", 5, 100);
    whole(&mut scene.client, "now");
}

#[test]
fn how_much_goes_into_one_call() {
    let mut scene = scene(condenser, &[]);
    with(&mut scene, "memory_agent.summary_chunk_tokens = 5000", "one", 20, 150);
    assert!(of_level(&mut scene.client, "one", "L1").is_empty());
    let before = scene.stub.call_count();
    with(&mut scene, "memory_agent.summary_chunk_tokens = 1000", "chunks", 20, 150);
    let chunks = of_level(&mut scene.client, "chunks", "L1");
    assert!((3..=5).contains(&chunks.len()), "{} chunks", chunks.len());
    let places = chunks.iter().map(|chunk| chunk.sources.len()).sum::<usize>();
    assert_eq!(places, 20 + chunks.len() - 1, "each chunk begins with the end of the one before");
    let calls = &scene.stub.calls()[before..];
    assert_eq!(turns(&calls[0]).last(), turns(&calls[1]).first());
}

#[test]
fn when_windows_are_compressed() {
    let mut scene = scene(condenser, &[]);
    let threshold = "memory_agent.compression_threshold_tokens";
    with(&mut scene, &format!("{threshold} = 1000"), "full", 15, 100);
    assert_eq!(window(&mut scene.client, "full").len(), 10);
    with(&mut scene, &format!("{threshold} = 5000"), "not full", 15, 100);
    assert_eq!(window(&mut scene.client, "not full").len(), 15);
    with(&mut scene, &format!("{threshold} = 0"), "never", 15, 100);
    assert_eq!(window(&mut scene.client, "never").len(), 15);
    let off = format!("{threshold} = 1000; SET memory_agent.compression = off");
    with(&mut scene, &off, "off", 15, 100);
    assert_eq!(window(&mut scene.client, "off").len(), 15);
    let keep = format!("{threshold} = 1000; SET memory_agent.recent_messages_to_keep = 4");
    with(&mut scene, &keep, "four", 15, 100);
    assert_eq!(window(&mut scene.client, "four").len(), 4);
    let none = format!("{threshold} = 1000; SET memory_agent.recent_messages_to_keep = 0");
    with(&mut scene, &none, "none", 15, 100);
    assert!(window(&mut scene.client, "none").is_empty());
}

#[test]
fn another_model_may_summarise() {
    let mut scene = scene(condenser, &[("memory_agent.summary_model", "stub-2")]);
    talk(&mut scene.client, "s", 5, 100);
    scene.drain();
    assert_eq!(scene.stub.calls()[0].model(), "stub-2");
    assert_eq!(whole(&mut scene.client, "s").model, "stub-2");
}

#[test]
fn the_prompt_is_that_of_the_content() {
    let mut scene = scene(condenser, &[]);
    let mut other = scene.cluster.connect(DATABASE);
    let mut instructions = |session: &str, content_type: &str| {
        run(
            &mut scene.client,
            &format!(
                "SET memory_agent.summarization = off; SELECT memory_ingest('{session}', 'user', 'Hello.'); \
                 UPDATE memory_agent.sessions SET content_type = {content_type} WHERE session_id = '{session}'; \
                 SET memory_agent.summarization = on"
            ),
        );
        talk(&mut scene.client, session, 5, 100);
        scene.drain();
        whole(&mut scene.client, session);
        scene.stub.calls().last().expect("a call").system()
    };
    let conversation = instructions("a", "'conversation'");
    let journal = instructions("b", "'journal'");
    let document = instructions("c", "'document'");
    assert!(conversation != journal && journal != document && document != conversation);
    assert_eq!(instructions("d", "NULL"), conversation);
    // A session that says nothing is what its agent says, and that what the agent of all users says.
    let mut agent = |user: &str, content_type: &str| {
        let sql = "INSERT INTO memory_agent.agents (user_id, agent_id, content_type) VALUES ($1, 'default', $2)";
        other.execute(sql, &[&user, &content_type]).expect("an agent");
    };
    agent("*", "journal");
    assert_eq!(instructions("e", "NULL"), journal);
    agent("alice", "document");
    assert_eq!(instructions("f", "NULL"), document);
    assert_eq!(instructions("g", "'conversation'"), conversation);
}
