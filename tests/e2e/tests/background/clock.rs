//! The server's clock is put forward by a year and back to yesterday while everything runs, as a machine's
//! may be that wakes from a suspension or believes a wrong time server. It is the clock of this cluster's
//! processes alone (`clock.c`); the machine's stays as it is.

use crate::activity::drain;
use crate::models::echo;
use crate::scene::{PATIENCE, Scene};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Uuid, wait_until};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// In days.
const YESTERDAY: i64 = -1;
const IN_A_YEAR: i64 = 365;

/// A directory with the library that is preloaded, and with the file that it reads.
struct Clock(PathBuf);

impl Clock {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("ma_e2e_clock_{}_{number}", std::process::id());
        let clock = Self(std::env::temp_dir().join(name));
        std::fs::create_dir(&clock.0).expect("a directory");
        clock.put(0);
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/background/clock.c");
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([&clock.path("clock.so"), source])
            .status()
            .expect("a C compiler is missing: run `make setup`");
        assert!(compiled.success());
        clock
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }

    fn put(&self, days: i64) {
        std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(self.path("offset"))
            .and_then(|file| {
                let seconds = (days * 86_400).to_ne_bytes();
                std::os::unix::fs::FileExt::write_all_at(&file, &seconds, 0)
            })
            .expect("the clock's file");
    }

    fn scene(&self, settings: &[(&str, &str)]) -> Scene {
        let mut all = vec![
            ("memory_agent.rerank_model", ""),
            ("memory_agent.sweep_interval", "1s"),
            ("memory_agent.llm_timeout", "60s"),
        ];
        all.extend_from_slice(settings);
        Scene::built(echo, &all, |builder| {
            builder
                .environment("LD_PRELOAD", self.path("clock.so"))
                .environment("CLOCK_OFFSET_FILE", self.path("offset"))
        })
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Puts the clock, and shows that PostgreSQL has the new time.
fn put(scene: &mut Scene, clock: &Clock, days: i64) {
    clock.put(days);
    let now: i64 = value(&mut scene.client, "SELECT extract(epoch FROM now())::int8", &[]);
    let ahead = now - memory_agent_e2e::Utc::now().timestamp() - days * 86_400;
    assert!(ahead.abs() < 60, "{ahead} s");
}

/// Work goes on when the clock was put forward and back again: what was queued, leased, counted and
/// finished in the year ahead does not wait for that year to come.
#[test]
fn work_that_was_queued_a_year_ahead_is_done_after_the_clock_is_put_back() {
    let clock = Clock::new();
    let mut scene = clock.scene(&[("memory_agent.job_workers", "2")]);
    scene.say_and_wait("I live in Oslo.");
    let spent = "SELECT sum(prompt_tokens + completion_tokens)::int8 FROM memory_llm_calls";

    // Its lease runs out a year early; the answer counts once, whichever worker got it.
    scene.stub.hold(true);
    scene.say("I like tea.");
    wait_until(PATIENCE, "a call", || scene.stub.in_flight() > 0);
    put(&mut scene, &clock, IN_A_YEAR);
    scene.stub.hold(false);
    scene.drain();
    assert_eq!(scene.facts(), ["Noted: I like tea.", "Noted: I live in Oslo."]);

    // One job of the session is at the LLM, the other one waits for it, both in a year.
    scene.stub.hold(true);
    let ahead = scene.say("My dog is called Rex.");
    wait_until(PATIENCE, "a call", || scene.stub.in_flight() > 0);
    scene.say("My cat is called Tom.");
    run(&mut scene.client, "SET memory_agent.embed_on_ingest = async");
    scene.cluster.alter_system("memory_agent.worker", Some("off"));
    scene.stub.hold(false);
    wait_until(PATIENCE, "the workers to leave", || {
        let sql =
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'memory_agent worker'";
        value::<i64>(&mut scene.client, sql, &[]) == 0
    });
    value::<Uuid>(&mut scene.client, "SELECT memory_ingest('t', 'user', 'Embed me.')", &[]);
    let waiting = "SELECT count(*) FROM memory_jobs WHERE status = 'pending' AND run_after > now()";
    put(&mut scene, &clock, YESTERDAY);
    assert!(value::<i64>(&mut scene.client, waiting, &[]) > 0, "nothing was queued a year ahead");
    let queue = scene.status("queue");
    // All tokens were used on other days.
    let used: i64 = value(&mut scene.client, spent, &[]);
    scene.cluster.alter_system("memory_agent.llm_daily_tokens", Some(&used.to_string()));
    scene.cluster.alter_system("memory_agent.worker", Some("on"));
    assert!(!scene.status("llm").contains("limited"), "{}", scene.status("llm"));
    drain(&mut scene.client);
    assert_eq!(scene.facts().len(), 5, "{:?}", scene.facts());
    let unembedded =
        "SELECT count(*) FROM memory_agent.entries WHERE embedding IS NULL AND kind = 'turn'";
    assert_eq!(value::<i64>(&mut scene.client, unembedded, &[]), 0);

    assert!(!queue.contains("oldest -"), "an age below zero: {queue}");
    // Ids of a session go up whatever the clock does; ages are never below zero.
    let later = scene.say("I work at the harbour.");
    assert!(later > ahead, "{later} after {ahead}");
    let recency: Vec<f32> = values(
        &mut scene.client,
        "SELECT recency FROM memory_recall('Where do I live, and what do I like?', top_k => 50)",
        &[],
    );
    assert!(
        recency.len() > 5 && recency.iter().all(|one| (0.0..=1.0).contains(one)),
        "{recency:?}"
    );
    // History is sealed in the order of the clock's readings, and intact.
    wait_until(PATIENCE, "history to be sealed", || {
        let sql = "SELECT count(*) FROM memory_agent.history WHERE seq IS NULL";
        value::<i64>(&mut scene.client, sql, &[]) == 0
    });
    let states: Vec<String> =
        values(&mut scene.client, "SELECT state FROM memory_verify_history('alice')", &[]);
    assert_eq!(states, ["intact"]);
}

/// What expired in a year that did not come stays: inactive, with its text. Only purge_after deletes.
#[test]
fn a_clock_that_was_ahead_expires_entries_and_loses_none() {
    let clock = Clock::new();
    let mut scene = clock.scene(&[("memory_agent.llm_base_url", "")]);
    let ingest =
        "SELECT memory_ingest('s', 'user', 'The code of the day is 1234.', ttl => '1 day')";
    let entry: Uuid = value(&mut scene.client, ingest, &[]);
    scene.drain();
    put(&mut scene, &clock, IN_A_YEAR);
    let state = "SELECT concat_ws(' ', state, state_reason, content) FROM memory_agent.entries WHERE id = $1";
    let expired = "inactive expired The code of the day is 1234.";
    wait_until(PATIENCE, "the entry to expire", || {
        value::<String>(&mut scene.client, state, &[&entry]) == expired
    });
    // A wait is counted by a clock that nobody puts. Without an LLM the job stays.
    let mut other = scene.cluster.connect(crate::scene::DATABASE);
    run(&mut other, "SET memory_agent.user_id = 'alice'");
    let waiting = std::thread::spawn(move || {
        let started = Instant::now();
        let sql = "INSERT INTO memory_agent.jobs (id, kind, user_id, agent_id, session_id, run_after) \
                   VALUES (gen_random_uuid(), 'extract', 'alice', 'default', 's', now() + interval '10 min')";
        run(&mut other, sql);
        let waited = value::<bool>(&mut other, "SELECT memory_wait('3 s')", &[]);
        (waited, started.elapsed())
    });
    std::thread::sleep(Duration::from_millis(500));
    clock.put(YESTERDAY);
    let (waited, took) = waiting.join().expect("memory_wait");
    assert!(!waited && took >= Duration::from_secs(3), "{took:?}");
    run(&mut scene.client, "DELETE FROM memory_agent.jobs");
    put(&mut scene, &clock, YESTERDAY);
    assert_eq!(value::<String>(&mut scene.client, state, &[&entry]), expired);
    let restored = "SELECT memory_restore($1) IS NOT NULL";
    assert!(value::<bool>(&mut scene.client, restored, &[&entry]));
    let state = value::<String>(&mut scene.client, state, &[&entry]);
    assert!(state.starts_with("active"), "{state}");
}
