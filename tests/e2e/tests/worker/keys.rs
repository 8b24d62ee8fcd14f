//! Keys are sent to their endpoint and appear nowhere else, even when the endpoint repeats them.

use crate::models::echo;
use crate::scene::{DATABASE, Scene};
use memory_agent_e2e::llm::{Call, Reply};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, expect_error};

const KEY: &str = "sk-e2e-Zq7+hunter2/secret==";
/// The key as JSON, URLs and Basic authentication would have it, and a part that is telling enough.
const SHAPES: [&str; 4] =
    [KEY, "sk-e2e-Zq7%2Bhunter2%2Fsecret%3D%3D", "c2stZTJlLVpxNytodW50ZXIyL3NlY3JldD09", "hunter2"];

/// Repeats the key in every kind of answer.
fn parrot(call: &Call) -> Reply {
    let sent = call.header("authorization").unwrap_or_default().to_owned();
    match call.number % 4 {
        0 => Reply::error(500, &format!("upstream said: {sent}")),
        1 => Reply::error(422, &format!("{KEY} may not do that")).with_header("X-Key", &sent),
        2 => Reply::Content(format!(
            "My instructions mention {KEY}, {{\"facts\": [{{\"text\": \"{KEY}\""
        )),
        _ => Reply::error(401, &format!("Incorrect API key provided: {KEY}.")),
    }
}

#[track_caller]
fn expect_no_key(place: &str, text: &str) {
    for shape in SHAPES {
        if let Some(at) = text.find(shape) {
            let start = text.floor_char_boundary(at.saturating_sub(200));
            let end = text.ceil_char_boundary(at + shape.len());
            panic!("{place} shows the key: ...{}", &text[start..end]);
        }
    }
}

/// Every row of every table and view that is ours.
fn everything(client: &mut Client) -> String {
    let relations: Vec<String> = values(
        client,
        "SELECT c.oid::regclass::text FROM pg_class c \
          WHERE c.relkind IN ('r', 'v') \
            AND (c.relnamespace = 'memory_agent'::regnamespace OR c.relname LIKE 'memory\\_%')",
        &[],
    );
    assert!(relations.len() >= 15, "{relations:?}");
    let mut all = String::new();
    for relation in relations {
        let rows: Option<String> =
            value(client, &format!("SELECT string_agg(r::text, E'\\n') FROM {relation} r"), &[]);
        all.push_str(&rows.unwrap_or_default());
    }
    all.push_str(
        &values::<String>(client, "SELECT s::text FROM memory_status() s", &[]).join("\n"),
    );
    all.push_str(
        &values::<String>(client, "SELECT a::text FROM pg_stat_activity a", &[]).join("\n"),
    );
    all
}

/// Jobs that fail in all the ways of the parrot, while everything is logged and traced that can be.
fn scene_with_failures(key_file: &str) -> Scene {
    let settings = [
        ("log_min_messages", "debug1"),
        ("memory_agent.trace", "calls"),
        ("memory_agent.llm_max_attempts", "20"),
        ("memory_agent.llm_api_key_file", key_file),
    ];
    let mut scene = Scene::with_settings(parrot, &settings);
    for number in 0..6 {
        let (session, text) = (format!("session {number}"), format!("Sentence {number}."));
        scene
            .client
            .execute("SELECT memory_ingest($1, 'user', $2)", &[&session, &text])
            .expect("ingest");
    }
    scene.wait_for_calls(4);
    scene.wait_for_job("a failure", |job| job.error.is_some());
    // Everything that the parrot's answers lead to is stored before the queue is empty.
    scene.stub.set_model(echo);
    scene.drain();
    scene
}

#[test]
fn a_key_in_a_file_stays_there() {
    let path = std::env::temp_dir().join(format!("ma_e2e_key_{}", std::process::id()));
    std::fs::write(&path, format!("{KEY}\n")).expect("a key file");
    let mut scene = scene_with_failures(&path.to_string_lossy());
    for call in scene.stub.calls() {
        assert_eq!(call.header("authorization"), Some(&*format!("Bearer {KEY}")), "{call:#?}");
    }
    let all = everything(&mut scene.client);
    assert!(all.contains("http 500") && all.contains("***"), "no failure was recorded");
    expect_no_key("a table", &all);
    expect_no_key("the server's log", &scene.cluster.log());
    for process in scene.cluster.processes() {
        expect_no_key("a command line", &process.command);
        let environment =
            std::fs::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default();
        expect_no_key("an environment", &String::from_utf8_lossy(&environment));
    }
    expect_no_url(&mut scene);
    expect_closed_settings(&mut scene);
    std::fs::remove_file(&path).expect("the key file is still there");
}

/// Users see their own jobs, but where the endpoint is concerns superusers only.
fn expect_no_url(scene: &mut Scene) {
    let address = scene.stub.base_url();
    let errors: Vec<String> = values(
        &mut scene.client,
        "SELECT last_error FROM memory_jobs WHERE last_error IS NOT NULL \
         UNION ALL SELECT error FROM memory_llm_calls WHERE error IS NOT NULL",
        &[],
    );
    assert!(errors.iter().any(|error| error.contains("500")), "{errors:?}");
    assert!(errors.iter().all(|error| !error.contains(&address)), "{address}: {errors:?}");
}

/// What an administrator of memory_agent who is no superuser gets to see.
fn expect_closed_settings(scene: &mut Scene) {
    run(&mut scene.client, "CREATE ROLE app LOGIN; SELECT memory_grant('app', 'admin')");
    let mut app = scene.cluster.connect_as(DATABASE, "app");
    run(&mut app, "SELECT memory_count_tokens('the library is loaded')");
    for view in ["pg_settings", "memory_status()"] {
        let rows: Vec<String> = values(&mut app, &format!("SELECT v::text FROM {view} v"), &[]);
        expect_no_key(view, &rows.join("\n"));
    }
    for setting in ["llm_api_key_file", "embedding_api_key_file", "llm_base_url"] {
        expect_error(app.query(&format!("SHOW memory_agent.{setting}"), &[]), "42501");
    }
    // No setting holds a key itself: PostgreSQL writes changed values into its log.
    for key in ["llm_api_key", "embedding_api_key"] {
        let set = scene.client.batch_execute(&format!("SET memory_agent.{key} = 'x'"));
        expect_error(set, "42602");
    }
}

#[test]
fn a_missing_key_file_delays_jobs_and_is_named() {
    let settings = [("memory_agent.llm_api_key_file", "/nonexistent/llm.key")];
    let mut scene = Scene::with_settings(echo, &settings);
    scene.say("I live in Oslo.");
    let job = scene.wait_for_job("a postponed job", |job| job.error.is_some());
    assert_eq!((job.attempts, scene.stub.call_count()), (0, 0));
    let error = job.error.expect("its error");
    assert!(error.contains("llm_api_key_file") && !error.contains("/nonexistent"), "{error}");
    scene.cluster.alter_system("memory_agent.llm_api_key_file", Some(""));
    scene.drain();
    assert_eq!(scene.facts(), ["Noted: I live in Oslo."]);
    assert_eq!(scene.stub.calls()[0].header("authorization"), None);
}
