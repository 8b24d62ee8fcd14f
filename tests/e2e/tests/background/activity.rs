//! What `pg_stat_activity` shows of the launcher and the job workers, and steps that several modules
//! share.

use crate::scene::{DATABASE, PATIENCE, Scene};
use memory_agent_e2e::llm::Model;
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, Cluster, DateTime, Utc, retry_until, wait_until};

/// A scene without a reranker, which nothing here needs and every server would load.
pub fn start(model: impl Model) -> Scene {
    start_with(model, &[])
}

/// Such a scene with settings.
pub fn start_with(model: impl Model, settings: &[(&str, &str)]) -> Scene {
    let mut all = vec![("memory_agent.rerank_model", "")];
    all.extend_from_slice(settings);
    Scene::with_settings(model, &all)
}

/// The ids of the workers of a database, first the one that started first.
pub fn workers(client: &mut Client, database: &str) -> Vec<i32> {
    values(
        client,
        "SELECT pid FROM pg_stat_activity \
          WHERE backend_type = 'memory_agent worker' AND datname = $1 ORDER BY backend_start, pid",
        &[&database],
    )
}

/// The ids of the launchers that there are.
pub fn launchers(client: &mut Client) -> Vec<i32> {
    values(
        client,
        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'memory_agent launcher'",
        &[],
    )
}

/// The id of the launcher, which is waited for.
pub fn launcher(client: &mut Client) -> i32 {
    retry_until(PATIENCE, "a launcher", || launchers(client).first().copied())
}

/// The id of a worker of a database that is none of `others`, which is waited for.
pub fn worker_other_than(client: &mut Client, database: &str, others: &[i32]) -> i32 {
    retry_until(PATIENCE, "a worker", || {
        workers(client, database).into_iter().find(|pid| !others.contains(pid))
    })
}

/// The id of a worker of a database, which is waited for.
pub fn worker(client: &mut Client, database: &str) -> i32 {
    worker_other_than(client, database, &[])
}

/// When a process last began or ended a transaction.
pub fn last_change(client: &mut Client, pid: i32) -> DateTime<Utc> {
    value(client, "SELECT state_change FROM pg_stat_activity WHERE pid = $1", &[&pid])
}

/// A session of the identity `alice`, whose backend is gone when `body` is done.
pub fn in_session<T>(cluster: &Cluster, database: &str, body: impl FnOnce(&mut Client) -> T) -> T {
    let mut client = cluster.connect(database);
    run(&mut client, "SET memory_agent.user_id = 'alice'");
    let pid: i32 = value(&mut client, "SELECT pg_backend_pid()", &[]);
    let result = body(&mut client);
    drop(client);
    let mut observer = cluster.connect("postgres");
    wait_until(PATIENCE, "the session to end", || {
        let sql = "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)";
        value(&mut observer, sql, &[&pid])
    });
    result
}

/// Stores one turn in each of so many sessions.
pub fn say_in_sessions(client: &mut Client, sessions: usize) {
    for number in 0..sessions {
        let (session, text) = (format!("session {number}"), format!("Sentence {number}."));
        if let Err(error) =
            client.execute("SELECT memory_ingest($1, 'user', $2)", &[&session, &text])
        {
            panic!("{session}: {error:?}");
        }
    }
}

/// Waits until the queue of a database is empty; panics with what is in it.
#[track_caller]
pub fn drain(client: &mut Client) {
    if value::<bool>(client, "SELECT memory_wait('90 s')", &[]) {
        return;
    }
    let jobs: Vec<String> = values(client, "SELECT j::text FROM memory_jobs j ORDER BY id", &[]);
    panic!("the queue does not drain: {jobs:#?}");
}

/// The texts of the active facts, sorted.
pub fn facts(client: &mut Client) -> Vec<String> {
    values(
        client,
        "SELECT content FROM memory_agent.entries WHERE kind = 'fact' AND state = 'active' ORDER BY 1",
        &[],
    )
}

/// The facts that [`crate::models::echo`] makes of [`say_in_sessions`].
pub fn noted_sentences(count: usize) -> Vec<String> {
    let mut facts: Vec<String> =
        (0..count).map(|number| format!("Noted: Sentence {number}.")).collect();
    facts.sort();
    facts
}

/// Gives a scene whose server was restarted a new session.
pub fn reconnect(scene: &mut Scene) {
    scene.client = scene.cluster.connect(DATABASE);
    run(&mut scene.client, "SET memory_agent.user_id = 'alice'");
}
