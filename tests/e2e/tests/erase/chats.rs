//! Erasing while a chat waits for an answer that is made of what is erased.

use crate::scene::{DATABASE, PATIENCE, Scene};
use crate::{SECRET, erase, tables_with};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, expect_error, wait_until};

const CHAT: &str =
    "SELECT memory_chat('[{\"role\": \"user\", \"content\": \"What is my code?\"}]', 'chat')::text";
const KNOW: &str =
    "SELECT memory_add('The code of alice is zzqx77.', session_id => 's', infer => false)";

/// An LLM that repeats what it is told.
fn scene() -> Scene {
    let repeat = |call: &memory_agent_e2e::llm::Call| call.body["messages"].to_string();
    Scene::with_settings(
        repeat,
        &[("memory_agent.trace", "calls"), ("memory_agent.extraction", "off")],
    )
}

fn connect(scene: &Scene) -> Client {
    let mut client = scene.cluster.connect(DATABASE);
    run(&mut client, "SET memory_agent.user_id = 'alice'");
    client
}

/// Sends the chat in a session of its own, does something while the LLM is asked, and returns the outcome.
fn chat_while(
    scene: &mut Scene,
    begin: &'static str,
    meanwhile: impl FnOnce(&mut Scene),
) -> Result<String, memory_agent_e2e::Error> {
    let calls = scene.stub.call_count();
    let mut chatting = connect(scene);
    scene.stub.hold(true);
    let running = std::thread::spawn(move || {
        run(&mut chatting, begin);
        let document = chatting.query_one(CHAT, &[]).map(|row| row.get(0));
        run(&mut chatting, "COMMIT");
        document
    });
    scene.wait_for_calls(calls + 1);
    meanwhile(scene);
    scene.stub.hold(false);
    running.join().expect("the chat")
}

#[test]
fn an_answer_made_of_what_is_erased_is_not_stored() {
    let mut scene = scene();
    for (begin, what) in [
        ("BEGIN", "user_id => 'alice'"),
        ("BEGIN", "session_id => 's'"),
        ("BEGIN ISOLATION LEVEL REPEATABLE READ", "user_id => 'alice'"),
    ] {
        run(&mut scene.client, KNOW);
        // Without session, as the chat is in another one than the fact.
        run(&mut scene.client, &KNOW.replace("'s'", "'chat'"));
        let outcome = chat_while(&mut scene, begin, |scene| {
            erase(&mut scene.client, "session_id => 'chat'");
            erase(&mut scene.client, what);
            assert_eq!(tables_with(&mut scene.client, SECRET), Vec::<String>::new(), "{what}");
        });
        let message = expect_error(outcome, "40001");
        assert!(message.contains("erased"), "{message}");
        assert_eq!(tables_with(&mut scene.client, SECRET), Vec::<String>::new(), "{what}");
        let turns: i64 = value(&mut scene.client, "SELECT count(*) FROM memory_agent.entries", &[]);
        assert_eq!(turns, 0, "{what}: nothing is stored");
    }
    // The same again finds nothing, and is stored.
    let document = chat_while(&mut scene, "BEGIN", |_| {}).expect("an answer");
    assert!(!document.contains(SECRET), "{document}");
}

/// The erasure has begun, and nobody sees it yet.
#[test]
fn an_erasure_under_way_counts_and_those_of_others_do_not() {
    let mut scene = scene();
    run(&mut scene.client, KNOW);
    let mut eraser = connect(&scene);
    let outcome = chat_while(&mut scene, "BEGIN", |_| {
        run(&mut eraser, "BEGIN; SELECT memory_erase(user_id => 'alice')");
    });
    expect_error(outcome, "40001");
    run(&mut eraser, "ROLLBACK");

    let outcome = chat_while(&mut scene, "BEGIN", |scene| {
        run(
            &mut scene.client,
            "SELECT memory_ingest('s', 'user', 'I like tea.', user_id => 'bob')",
        );
        erase(&mut scene.client, "user_id => 'bob'");
    });
    outcome.expect("an answer");
}

/// An erasure waits for a chat that has stored its answer and is not committed, and finds it.
#[test]
fn an_erasure_waits_for_an_answer_that_is_being_stored() {
    let mut scene = scene();
    run(&mut scene.client, &KNOW.replace("'s'", "'chat'"));
    let mut chatting = connect(&scene);
    run(&mut chatting, "BEGIN");
    chatting.query_one(CHAT, &[]).expect("an answer");
    let mut eraser = connect(&scene);
    let pid: i32 = value(&mut eraser, "SELECT pg_backend_pid()", &[]);
    let erased = std::thread::spawn(move || erase(&mut eraser, "user_id => 'alice'"));
    wait_until(PATIENCE, "the erasure to wait", || {
        value(
            &mut scene.client,
            "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted)",
            &[&pid],
        )
    });
    run(&mut chatting, "COMMIT");
    let counts = erased.join().expect("the erasure");
    assert_eq!(counts["entries"], 3, "{counts}");
    assert_eq!(tables_with(&mut scene.client, SECRET), Vec::<String>::new());
}

/// What an LLM was shown of it is not traced afterwards.
#[test]
fn what_was_shown_to_the_llm_is_not_traced() {
    let mut scene = scene();
    for fact in ["The code of alice is zzqx77.", "The code of alice was zzqx77 and is abc."] {
        run(
            &mut scene.client,
            &format!("SELECT memory_add('{fact}', session_id => 'chat', infer => false)"),
        );
    }
    let calls = scene.stub.call_count();
    let mut asking = connect(&scene);
    scene.stub.hold(true);
    let running = std::thread::spawn(move || {
        run(&mut asking, "SET memory_agent.read_contradiction_check = on");
        run(&mut asking, &CHAT.replace("memory_chat", "memory_augment"));
    });
    scene.wait_for_calls(calls + 1);
    erase(&mut scene.client, "user_id => 'alice'");
    scene.stub.hold(false);
    running.join().expect("the messages");
    assert_eq!(tables_with(&mut scene.client, SECRET), Vec::<String>::new());
    let recorded: i64 = value(
        &mut scene.client,
        "SELECT count(*) FROM memory_agent.llm_calls WHERE purpose = 'contradictions' AND request IS NULL",
        &[],
    );
    assert!(recorded > 0, "what it cost is recorded");
}
