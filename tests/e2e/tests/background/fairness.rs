//! One user's work and another's: whatever a user stores, and however long the models take for it, others
//! wait for a step or two of it, and never for all of it.

use crate::models::echo;
use crate::scene::{DATABASE, PATIENCE, Scene};
use memory_agent_e2e::llm::{Call, Fault, FaultPlan, LlmStub, Purpose, Reply};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, Cluster, wait_until};
use std::time::Duration;

const EMBEDDED: &str =
    "SELECT count(*) FROM memory_agent.entries WHERE user_id = $1 AND embedding IS NOT NULL";

fn embedded(client: &mut Client, user: &str) -> i64 {
    value(client, EMBEDDED, &[&user])
}

/// Stores a user's turns for the worker to embed, the n-th as SQL says, each in a session of that name.
fn store(client: &mut Client, user: &str, session: &str, content: &str, count: i32) {
    let sql = format!(
        "SET memory_agent.user_id = '{user}'; SET memory_agent.embed_on_ingest = async; \
         SELECT count(memory_ingest({session}, 'user', {content})) FROM generate_series(1, {count}) n"
    );
    run(client, &sql);
}

/// All jobs of a user, one line each.
fn jobs(client: &mut Client, user: &str) -> Vec<String> {
    values(
        client,
        "SELECT concat_ws('/', j.kind, j.status, j.attempts, j.last_error) FROM memory_agent.jobs j \
          WHERE j.user_id = $1 ORDER BY j.id",
        &[&user],
    )
}

/// A cluster that embeds by a stub, which does not answer in time what is longer than `slow` bytes.
fn with_slow_embedder(slow: usize) -> (LlmStub, Cluster) {
    let stub = LlmStub::start(|_: &Call| Reply::error(404, "no LLM"));
    stub.faults(FaultPlan::when(move |call| {
        let bytes: usize = inputs(call).iter().map(String::len).sum();
        (bytes > slow).then_some(Fault::Delay(Duration::from_secs(600)))
    }));
    let cluster = Cluster::builder()
        .preload(true)
        .setting("memory_agent.embedding_provider", "http")
        .setting("memory_agent.embedding_base_url", stub.base_url())
        .setting("memory_agent.embedding_model", "stub-embedder")
        .setting("memory_agent.inference_timeout", "1s")
        .setting("memory_agent.llm_max_attempts", "2")
        .setting("memory_agent.worker", "off")
        .start();
    (stub, cluster)
}

/// The texts that a call is to embed.
fn inputs(call: &Call) -> Vec<String> {
    let texts = call.body["input"].as_array().cloned().unwrap_or_default();
    texts.iter().filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

/// Whether a call quotes a text.
fn says(call: &Call, text: &str) -> bool {
    call.body.to_string().contains(text)
}

/// Calls before the first one about a text.
fn calls_before(stub: &LlmStub, text: &str) -> usize {
    let calls = stub.calls();
    let about = |call: &Call| inputs(call).iter().any(|input| input.contains(text));
    calls.iter().position(about).unwrap_or_else(|| panic!("{text} was never embedded"))
}

/// Of a user's jobs only so many are looked at. The one that may run, because it is the oldest of its scope, is
/// found behind more of them: a hundred and fifty writers queued theirs while it was postponed.
#[test]
fn the_oldest_job_of_a_scope_is_found_behind_many() {
    let (_stub, cluster) = with_slow_embedder(usize::MAX);
    let mut client = cluster.database("behind").connect();
    store(&mut client, "alice", "'s'", "'Alice talks.'", 1);
    run(
        &mut client,
        "UPDATE memory_agent.jobs SET run_after = now() + interval '3 s'; \
         INSERT INTO memory_agent.jobs (id, kind, user_id, agent_id, session_id, entry_id) \
         SELECT ('ffffffff-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, 'embed', 'alice', 'default', 's', \
                gen_random_uuid() FROM generate_series(1, 150) n",
    );
    cluster.alter_system("memory_agent.worker", Some("on"));
    wait_until(PATIENCE, "all jobs", || {
        jobs(&mut client, "alice").iter().all(|job| job.starts_with("embed/done"))
    });
    assert_eq!(embedded(&mut client, "alice"), 1);
}

/// Alice's turns are too much for one call, each of mallory's is too much by itself: alice's go on in
/// smaller steps, mallory's job alone is given up, and zoe has her turn between them.
#[test]
fn what_takes_too_long_is_halved_and_holds_up_nobody() {
    let (stub, cluster) = with_slow_embedder(20_000);
    let mut client = cluster.database("slow").connect();
    store(&mut client, "alice", "'s'", "repeat('Alice talks. ', 400) || n", 64);
    store(&mut client, "mallory", "'s'", "repeat('Mallory talks. ', 3500) || n", 3);
    store(&mut client, "mallory", "'s'", "'Mallory is short.'", 1);
    store(&mut client, "zoe", "'s'", "'Zoe skis.'", 1);
    cluster.alter_system("memory_agent.worker", Some("on"));
    wait_until(PATIENCE, "zoe's turn", || embedded(&mut client, "zoe") == 1);
    // A step of alice's, and one of mallory's with a look at whether the models are well.
    let before = calls_before(&stub, "Zoe skis.");
    assert!(before <= 3, "{before} calls before zoe's");
    wait_until(PATIENCE, "alice's turns", || embedded(&mut client, "alice") == 64);
    wait_until(PATIENCE, "alice's job", || jobs(&mut client, "alice") == ["embed/done/0"]);
    wait_until(PATIENCE, "mallory's job to be given up", || {
        jobs(&mut client, "mallory").iter().any(|job| job.starts_with("embed/dead/2"))
    });
    assert!(
        jobs(&mut client, "mallory")[0].contains("within"),
        "{:?}",
        jobs(&mut client, "mallory")
    );
    assert_eq!(embedded(&mut client, "mallory"), 1, "the short one of the same job");
}

/// As many long turns as filled the queue of the models for minutes, by the shipped model.
#[test]
fn long_turns_are_embedded_one_by_one() {
    // A busy machine may need minutes for one of them.
    let cluster = Cluster::builder()
        .preload(true)
        .setting("memory_agent.inference_timeout", "10min")
        .setting("memory_agent.worker", "off")
        .start();
    let mut client = cluster.database("long").connect();
    store(&mut client, "alice", "'s'", "repeat('word' || n || ' and so on, ', 2800)", 64);
    store(&mut client, "zoe", "'s'", "'Zoe skis.'", 1);
    cluster.alter_system("memory_agent.worker", Some("on"));
    wait_until(PATIENCE * 3, "zoe's turn", || embedded(&mut client, "zoe") == 1);
    let before = embedded(&mut client, "alice");
    assert!(before <= 4, "{before} turns of alice's before zoe's");
    wait_until(PATIENCE * 3, "some of alice's", || embedded(&mut client, "alice") > before);
    assert!(
        jobs(&mut client, "alice").iter().all(|job| job.contains("/0")),
        "no attempt is charged"
    );
}

/// Hundreds of jobs of one user's, one of another's.
#[test]
fn many_jobs_of_one_user_are_no_queue_for_another() {
    let cluster = Cluster::builder().preload(true).setting("memory_agent.worker", "off").start();
    let mut client = cluster.database("many").connect();
    store(&mut client, "mallory", "'s' || n", "'Number ' || n", 200);
    store(&mut client, "zoe", "'s'", "'Zoe skis.'", 1);
    cluster.alter_system("memory_agent.worker", Some("on"));
    wait_until(PATIENCE, "zoe's turn", || embedded(&mut client, "zoe") == 1);
    let before: i64 = value(
        &mut client,
        "SELECT count(*) FROM memory_agent.jobs m, memory_agent.jobs b \
          WHERE m.user_id = 'mallory' AND b.user_id = 'zoe' AND m.finished_at < b.finished_at",
        &[],
    );
    assert!(before <= 2, "{before} jobs before zoe's");
    wait_until(PATIENCE, "the others", || embedded(&mut client, "mallory") == 200);
}

/// The LLM never answers what one user says.
#[test]
fn an_llm_that_times_out_for_one_user_answers_the_other() {
    let settings = [
        ("memory_agent.llm_timeout", "1s"),
        ("memory_agent.llm_concurrency", "1"),
        ("memory_agent.llm_max_attempts", "2"),
        ("memory_agent.worker", "off"),
    ];
    let scene = Scene::with_settings(echo, &settings);
    scene.stub.faults(FaultPlan::when(|call| {
        let is_slow = call.purpose() == Purpose::Extract && says(call, "Mallory");
        is_slow.then_some(Fault::Delay(Duration::from_secs(600)))
    }));
    let cluster = &scene.cluster;
    let mut client = cluster.connect(DATABASE);
    store(&mut client, "mallory", "'s' || n", "'Mallory says ' || n", 8);
    store(&mut client, "zoe", "'s'", "'Zoe skis.'", 1);
    cluster.alter_system("memory_agent.worker", Some("on"));
    let facts = "SELECT count(*) FROM memory_agent.entries WHERE user_id = 'zoe' AND kind = 'fact'";
    wait_until(PATIENCE, "zoe's fact", || value::<i64>(&mut client, facts, &[]) == 1);
    let calls = scene.stub.calls();
    let before = calls.iter().take_while(|call| !says(call, "Zoe skis.")).count();
    assert!(before <= 1, "{before} calls before zoe's");
    // A second turn, while mallory's wait for the LLM again and again.
    store(&mut client, "zoe", "'t'", "'Zoe swims.'", 1);
    let made = scene.stub.call_count();
    wait_until(PATIENCE, "zoe's second fact", || value::<i64>(&mut client, facts, &[]) == 2);
    let calls = scene.stub.calls();
    let waited = calls[made..].iter().take_while(|call| !says(call, "Zoe swims.")).count();
    assert!(waited <= 2, "{waited} calls before zoe's second");
}

/// The table of a role whose cast never ends, and swallows what is to end it.
const FEELINGS: &str = "
    CREATE TYPE mood AS ENUM ('well');
    CREATE FUNCTION tell(mood) RETURNS json LANGUAGE plpgsql AS $$ BEGIN
        LOOP
            BEGIN
                SET statement_timeout = 0; SET lock_timeout = 0;
                PERFORM pg_advisory_lock(7); PERFORM pg_sleep(3600);
            EXCEPTION WHEN query_canceled OR admin_shutdown THEN NULL; END;
        END LOOP; END $$;
    CREATE CAST (mood AS json) WITH FUNCTION tell(mood);
    CREATE TABLE feelings (id int PRIMARY KEY, body text, owner text DEFAULT 'carl', mood mood);
    INSERT INTO feelings SELECT n, 'Feeling ' || n, 'carl', 'well' FROM generate_series(1, 300) n;
    CREATE TABLE notes (id int PRIMARY KEY, body text, owner text DEFAULT 'dora');
    INSERT INTO notes SELECT n, 'Note ' || n FROM generate_series(1, 300) n";

#[test]
fn a_table_that_cannot_be_read_to_its_end_holds_up_nobody() {
    let cluster = Cluster::builder()
        .preload(true)
        .setting("memory_agent.llm_max_attempts", "1")
        .setting("memory_agent.worker", "off")
        .start();
    let mut client = cluster.database("feelings").connect();
    run(&mut client, FEELINGS);
    run(
        &mut client,
        "SELECT memory_attach('feelings', 'body', user_id_column => 'owner', metadata_columns => '{mood}'); \
         SELECT memory_attach('notes', 'body', user_id_column => 'owner', embed => 'off')",
    );
    store(&mut client, "zoe", "'s'", "'Zoe skis.'", 1);
    cluster.alter_system("memory_agent.worker", Some("on"));
    wait_until(PATIENCE, "zoe's turn", || embedded(&mut client, "zoe") == 1);
    drop(client);
    cluster.restart();
    let mut client = cluster.connect("feelings");
    store(&mut client, "zoe", "'t'", "'Zoe swims.'", 1);
    wait_until(PATIENCE, "zoe's second turn", || embedded(&mut client, "zoe") == 2);
    let notes = "SELECT count(*) FROM memory_agent.entries WHERE user_id = 'dora'";
    wait_until(PATIENCE, "another table", || value::<i64>(&mut client, notes, &[]) == 300);
    let dead = "SELECT max(last_error) FROM memory_agent.jobs \
                 WHERE kind = 'attach' AND status = 'dead'";
    wait_until(PATIENCE, "the job to be given up", || {
        value::<Option<String>>(&mut client, dead, &[]).is_some()
    });
    let error = value::<Option<String>>(&mut client, dead, &[]).unwrap_or_default();
    assert!(error.contains("public.feelings") && error.contains("longer"), "{error}");
    let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";
    assert_eq!(value::<i64>(&mut client, locks, &[]), 0, "the cast's lock is not kept");
}
