//! Restores while a worker looks on: it neither gets in their way nor works on half a memory.

use memory_agent_e2e::llm::{LlmStub, ScriptedModel};
use memory_agent_e2e::memory::{ingest, run, value, values};
use memory_agent_e2e::{Builder, Cluster, Programs, wait_until};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

fn with_llm(stub: &LlmStub) -> Builder {
    Cluster::builder()
        .preload(true)
        .setting("memory_agent.llm_base_url", stub.base_url())
        .setting("memory_agent.llm_model", "stub-1")
        .setting("memory_agent.sweep_interval", "1s")
}

/// The sessions come last in every restore. A sweep in between finds turns and jobs without them.
#[test]
fn a_restore_in_two_steps_is_not_disturbed() {
    let stub = LlmStub::start(ScriptedModel::new().knows(
        "I live in Oslo.",
        "home",
        "Oslo",
        "The user lives in Oslo.",
    ));
    let source = with_llm(&stub).setting("memory_agent.worker", "off").start();
    let mut client = source.database("db").connect();
    ingest(&mut client, "s", "I live in Oslo.");
    ingest(&mut client, "t", "Nobody says a word here.");
    run(&mut client, "SELECT memory_add('Soon forgotten.', infer => false, ttl => '1 second')");
    let programs = Programs::of(&source);
    let archive = programs.file("archive");
    programs.dump("db", &["-Fc", "-f", &archive]);

    let target = with_llm(&stub).start();
    let mut client = target.plain_database("db");
    let programs = Programs::of(&target);
    let is_sessions = |line: &&str| line.contains("TABLE DATA memory_agent sessions ");
    let list = programs.list(&archive);
    let (last, first): (Vec<&str>, Vec<&str>) = list.lines().partition(is_sessions);
    assert_eq!(last.len(), 1, "{list}");
    let file = |name: &str, lines: Vec<&str>| {
        let path = programs.file(name);
        std::fs::write(&path, lines.join("\n")).unwrap();
        path
    };
    programs.restore("db", &["-L", &file("first", first)], &archive);
    let swept =
        "SELECT state = 'inactive' FROM memory_agent.entries WHERE content = 'Soon forgotten.'";
    wait_until(PATIENCE, "a sweep", || value(&mut client, swept, &[]));
    programs.restore("db", &["-L", &file("last", last)], &archive);

    // A job that was tried between the two steps waits a while.
    assert!(value::<bool>(&mut client, "SELECT memory_wait('150 s')", &[]));
    let facts: Vec<String> = values(
        &mut client,
        "SELECT content FROM memory_agent.entries WHERE kind = 'fact' AND state = 'active'",
        &[],
    );
    assert_eq!(facts, ["The user lives in Oslo."]);
    let jobs: Vec<String> =
        values(&mut client, "SELECT DISTINCT status FROM memory_agent.jobs", &[]);
    assert_eq!(jobs, ["done"]);
    let counters: Vec<String> = values(
        &mut client,
        "SELECT concat_ws('/', session_id, turn_count, active_entries) FROM memory_agent.sessions ORDER BY 1",
        &[],
    );
    assert_eq!(counters, ["s/1/2", "t/1/1"]);
}

#[test]
fn the_worker_rests_while_pg_restore_is_connected() {
    let cluster = Cluster::builder().preload(true).start();
    let mut client = cluster.database("db").connect();
    let restore =
        cluster.config("db").application_name("pg_restore").connect(postgres::NoTls).unwrap();
    run(&mut client, "SET memory_agent.embed_on_ingest = async");
    // What it knew before may be a moment old.
    wait_until(PATIENCE, "a job that is left alone", || {
        ingest(&mut client, "s", "The key is under the flowerpot.");
        !value::<bool>(&mut client, "SELECT memory_wait('3 s')", &[])
    });
    let told: String = value(
        &mut client,
        "SELECT concat_ws('/', state, detail, hint) FROM memory_status() WHERE component = 'worker'",
        &[],
    );
    let since: String = value(
        &mut client,
        "SELECT to_char(backend_start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') \
           FROM pg_stat_activity WHERE application_name = 'pg_restore'",
        &[],
    );
    assert!(told.starts_with("resting/"), "{told}");
    assert!(told.contains("role \"postgres\"") && told.contains(&since), "{told}");
    assert!(told.contains("pg_terminate_backend"), "{told}");
    drop(restore);
    assert!(value::<bool>(&mut client, "SELECT memory_wait('60 s')", &[]));
}

/// Any role can give its sessions any name. Only who could restore the extension's tables is believed.
#[test]
fn only_a_restore_of_the_owners_stops_work() {
    let cluster = Cluster::builder().preload(true).start();
    let mut client = cluster.database("db").connect();
    run(
        &mut client,
        "CREATE ROLE nobody LOGIN; CREATE ROLE boss LOGIN NOINHERIT; GRANT postgres TO boss; \
         CREATE ROLE manager LOGIN; SELECT memory_grant('manager', 'admin'); \
         SET memory_agent.embed_on_ingest = async",
    );
    let connect = |role: &str| {
        let mut config = cluster.config("db");
        config.user(role).application_name("pg_restore").connect(postgres::NoTls).unwrap()
    };
    let outsiders = [connect("nobody"), connect("manager")];
    for _ in 0..3 {
        ingest(&mut client, "s", "The key is under the flowerpot.");
        assert!(value::<bool>(&mut client, "SELECT memory_wait('60 s')", &[]));
    }
    let states =
        "SELECT string_agg(DISTINCT state, ',') FROM memory_status() WHERE component = 'worker'";
    assert_eq!(value::<String>(&mut client, states, &[]), "running");
    let member = connect("boss");
    wait_until(PATIENCE, "the worker to rest", || {
        value::<String>(&mut client, states, &[]) == "resting"
    });
    drop((member, outsiders));
    wait_until(PATIENCE, "the worker to go on", || {
        value::<String>(&mut client, states, &[]) == "running"
    });
}
