//! What is done without a call: entries expire, full windows shrink, inactive rows are deleted,
//! forgotten turns and abandoned jobs are taken up again.

use crate::activity::start_with;
use crate::models::echo;
use crate::scene::{DATABASE, PATIENCE};
use memory_agent_e2e::memory::{recalled_texts, run, value, values};
use memory_agent_e2e::{Client, Uuid, wait_until};

const OFTEN: (&str, &str) = ("memory_agent.sweep_interval", "1s");

/// The session's counters, and what they should be.
fn counters(client: &mut Client, session: &str) -> (String, String) {
    let kept = "SELECT concat_ws('|', turn_count, active_entries, active_tokens) \
                  FROM memory_agent.sessions WHERE session_id = $1";
    let counted = "SELECT concat_ws('|', count(*) FILTER (WHERE kind = 'turn'), \
                                    count(*) FILTER (WHERE state = 'active'), \
                                    coalesce(sum(token_count) FILTER (WHERE state = 'active' AND kind = 'turn'), 0)) \
                     FROM memory_agent.entries WHERE session_id = $1 AND kind IN ('turn', 'fact')";
    (value(client, kept, &[&session]), value(client, counted, &[&session]))
}

#[track_caller]
fn expect_counters(client: &mut Client, session: &str) {
    let (kept, counted) = counters(client, session);
    assert_eq!(kept, counted, "turns|entries|tokens");
}

fn state(client: &mut Client, id: Uuid) -> String {
    value(
        client,
        "SELECT concat_ws(' ', state, state_reason) FROM memory_agent.entries WHERE id = $1",
        &[&id],
    )
}

/// No client calls the extension while the sweep works: the observer only reads tables.
#[test]
fn entries_expire() {
    let settings = [OFTEN, ("memory_agent.default_ttl", "1h"), ("memory_agent.llm_base_url", "")];
    let mut scene = start_with(echo, &settings);
    let stays = scene.say("Said with the default time to live.");
    let turn: Uuid = value(
        &mut scene.client,
        "SELECT memory_ingest('s', 'user', 'A turn for a day.', ttl => '1 day')",
        &[],
    );
    let fact: Uuid = value(
        &mut scene.client,
        "SELECT memory_add('A fact of the session.', 's', infer => false)",
        &[],
    );
    let global: Uuid =
        value(&mut scene.client, "SELECT memory_add('A global fact.', infer => false)", &[]);
    let lifetimes: Vec<String> = values(
        &mut scene.client,
        "SELECT (expires_at - recorded_at)::text FROM memory_agent.entries ORDER BY id",
        &[],
    );
    assert_eq!(lifetimes, ["01:00:00", "1 day", "01:00:00", "01:00:00"]);
    scene.drain();
    expect_counters(&mut scene.client, "s");
    let expired = [turn, fact, global];
    scene
        .client
        .execute(
            "UPDATE memory_agent.entries SET expires_at = now() - interval '1 minute' WHERE id = ANY ($1)",
            &[&&expired[..]],
        )
        .unwrap();
    for id in expired {
        wait_until(PATIENCE, "the entry to expire", || {
            state(&mut scene.client, id) == "inactive expired"
        });
    }
    assert_eq!(state(&mut scene.client, stays), "active");
    expect_counters(&mut scene.client, "s");
    assert_eq!(counters(&mut scene.client, "s").0.split('|').nth(1), Some("1"));
    for id in [fact, global] {
        assert_eq!(scene.history(id), ["add", "expire"]);
    }
    let ended: bool = value(
        &mut scene.client,
        "SELECT bool_and(valid_to = expires_at AND state_at > expires_at) FROM memory_agent.entries \
          WHERE state = 'inactive'",
        &[],
    );
    assert!(ended);
}

#[test]
fn inactive_entries_are_deleted_when_their_time_has_come() {
    let settings = [OFTEN, ("memory_agent.purge_after", "1d"), ("memory_agent.llm_base_url", "")];
    let mut scene = start_with(echo, &settings);
    // Longer than its model reads at once, so that it has several windows.
    let long = "The ship left the harbour in the morning and came back at night. ".repeat(80);
    let [purged, waits, active] = ["purged", "waits", "active"].map(|session| {
        value::<Uuid>(&mut scene.client, "SELECT memory_ingest($1, 'user', $2)", &[&session, &long])
    });
    scene.drain();
    let windows = |client: &mut Client| {
        values::<Uuid>(client, "SELECT DISTINCT entry_id FROM memory_agent.entry_windows", &[])
    };
    assert_eq!(windows(&mut scene.client).len(), 3);
    let mut expire = |id: Uuid, age: &str| {
        let sql = format!(
            "UPDATE memory_agent.entries SET state = 'inactive', state_reason = 'expired', \
                    state_at = now() - interval '{age}' WHERE id = $1"
        );
        scene.client.execute(&sql, &[&id]).unwrap();
    };
    expire(waits, "23 hours");
    expire(purged, "25 hours");
    let exists = |client: &mut Client, id: Uuid| {
        value::<bool>(
            client,
            "SELECT EXISTS (SELECT FROM memory_agent.entries WHERE id = $1)",
            &[&id],
        )
    };
    wait_until(PATIENCE, "the entry to be deleted", || !exists(&mut scene.client, purged));
    assert!(exists(&mut scene.client, waits) && exists(&mut scene.client, active));
    let left = windows(&mut scene.client);
    assert!(!left.contains(&purged) && left.contains(&waits) && left.contains(&active));
}

/// Of all users (`*`) or of one: the nearest counts, and 0 is forever.
#[test]
fn an_agent_keeps_inactive_entries_for_a_time_of_its_own() {
    let settings = [OFTEN, ("memory_agent.purge_after", "1d"), ("memory_agent.llm_base_url", "")];
    let mut scene = start_with(echo, &settings);
    run(
        &mut scene.client,
        "SELECT memory_configure('short', settings => '{\"purge_after\": \"1h\"}', user_id => '*'),
                memory_configure('long', settings => '{\"purge_after\": 604800}', user_id => '*'),
                memory_configure('long', settings => '{\"purge_after\": 0}', user_id => 'ann'),
                memory_configure('other', settings => '{\"recency_weight\": 0.5}', user_id => '*');
         SELECT memory_ingest('s', 'user', concat_ws(' ', user_id, agent_id, age), agent_id => agent_id,
                              user_id => user_id)
           FROM unnest(ARRAY['ann', 'ben']) user_id, unnest(ARRAY['short', 'long', 'other']) agent_id,
                unnest(ARRAY['2h', '2d', '8d']) age;
         SELECT memory_add('ann short fact', infer => false, agent_id => 'short', user_id => 'ann')",
    );
    scene.drain();
    run(
        &mut scene.client,
        "UPDATE memory_agent.entries
            SET state = 'inactive', state_reason = 'expired',
                state_at = now() - CASE kind WHEN 'fact' THEN '2h' ELSE split_part(content, ' ', 3) END::interval",
    );
    let kept = [
        "ann long 2d",
        "ann long 2h",
        "ann long 8d",
        "ann other 2h",
        "ben long 2d",
        "ben long 2h",
        "ben other 2h",
    ];
    wait_until(PATIENCE, "the entries to be deleted", || {
        values::<String>(
            &mut scene.client,
            "SELECT content FROM memory_agent.entries ORDER BY content COLLATE \"C\"",
            &[],
        ) == kept
    });
}

/// Records of calls and traces hold texts of users too. Calls of today stay: they are counted by
/// memory_agent.llm_daily_tokens.
#[test]
fn old_calls_and_traces_are_deleted_when_their_time_has_come() {
    let settings = [OFTEN, ("memory_agent.purge_after", "1h"), ("memory_agent.llm_base_url", "")];
    let mut scene = start_with(echo, &settings);
    run(
        &mut scene.client,
        "INSERT INTO memory_agent.llm_calls (id, user_id, purpose, model, status, at)
         SELECT gen_random_uuid(), 'alice', name, 'm', 'ok', at
           FROM (VALUES ('yesterday', now() - interval '25 hours'),
                        ('today', date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'),
                        ('now', now())) c(name, at);
         INSERT INTO memory_agent.traces (id, user_id, agent_id, session_id, body, at)
         SELECT gen_random_uuid(), 'alice', 'default', name, '{}', at
           FROM (VALUES ('old', now() - interval '2 hours'), ('young', now() - interval '59 minutes')) t(name, at)",
    );
    let calls = "SELECT purpose FROM memory_agent.llm_calls ORDER BY at";
    wait_until(PATIENCE, "the old call to be deleted", || {
        values::<String>(&mut scene.client, calls, &[]) == ["today", "now"]
    });
    let traces = "SELECT session_id FROM memory_agent.traces";
    wait_until(PATIENCE, "the old trace to be deleted", || {
        values::<String>(&mut scene.client, traces, &[]) == ["young"]
    });
    assert_eq!(values::<String>(&mut scene.client, calls, &[]), ["today", "now"]);
}

#[test]
fn a_full_window_keeps_the_newest() {
    const LIMIT: usize = 10;
    let settings = [("memory_agent.max_entries", "10"), ("memory_agent.llm_base_url", "")];
    let mut scene = start_with(echo, &settings);
    let mut ids = vec![scene.say("The password of the harbour is swordfish.")];
    for number in 1..25 {
        ids.push(scene.say(&format!("Sentence number {number}.")));
    }
    scene.say_and_wait("The last sentence.");
    let active: Vec<Uuid> = values(
        &mut scene.client,
        "SELECT id FROM memory_agent.entries WHERE state = 'active' ORDER BY created_at, id",
        &[],
    );
    assert_eq!(active.len(), LIMIT);
    assert_eq!(active[..LIMIT - 1], ids[ids.len() - (LIMIT - 1)..]);
    assert_eq!(state(&mut scene.client, ids[0]), "archived evicted");
    expect_counters(&mut scene.client, "s");
    let found = recalled_texts(&mut scene.client, "'What is the password of the harbour?', 's'");
    assert_eq!(found[0], "The password of the harbour is swordfish.");
}

/// As after a restore without the jobs. What was asked for the job that is gone is dropped.
#[test]
fn turns_without_a_job_are_taken_up() {
    let mut scene = start_with(echo, &[OFTEN]);
    scene.stub.hold(true);
    scene.say("I live in Oslo.");
    wait_until(PATIENCE, "a call", || scene.stub.in_flight() == 1);
    run(&mut scene.client, "DELETE FROM memory_agent.jobs");
    wait_until(PATIENCE, "another job", || scene.jobs().iter().any(|job| job.kind == "extract"));
    scene.stub.hold(false);
    scene.drain();
    assert_eq!(scene.all_facts().len(), 1);
    assert_eq!(scene.facts(), ["Noted: I live in Oslo."]);
}

#[test]
fn done_jobs_are_kept_for_a_day_and_dead_ones_for_ever() {
    let mut scene = start_with(echo, &[OFTEN]);
    for number in 0..3 {
        scene.say_and_wait(&format!("Sentence {number}."));
    }
    let mut jobs = scene.jobs();
    jobs.retain(|job| job.kind == "extract");
    let [old, young, dead] = [0, 1, 2].map(|index: usize| jobs[index].id);
    let sql = "UPDATE memory_agent.jobs SET finished_at = now() - interval '1 hour' * $2::int, \
                      status = CASE WHEN id = $3 THEN 'dead' ELSE status END WHERE id = $1";
    scene.client.execute(sql, &[&young, &23, &dead]).unwrap();
    scene.client.execute(sql, &[&dead, &2500, &dead]).unwrap();
    scene.client.execute(sql, &[&old, &25, &dead]).unwrap();
    wait_until(PATIENCE, "the old job to be forgotten", || {
        scene.jobs().iter().all(|job| job.id != old)
    });
    let left: Vec<Uuid> = scene.jobs().iter().map(|job| job.id).collect();
    assert!(left.contains(&young) && left.contains(&dead));
}

/// The worker that held the job is alive and gets its answer too, but the job is not its any more.
#[test]
fn a_job_whose_lease_ran_out_is_done_once() {
    let mut scene = start_with(echo, &[OFTEN]);
    scene.stub.hold(true);
    scene.say("I live in Oslo.");
    wait_until(PATIENCE, "a call", || scene.stub.in_flight() == 1);
    run(
        &mut scene.client,
        "UPDATE memory_agent.jobs SET leased_until = now() - interval '1 second'",
    );
    wait_until(PATIENCE, "the job to be claimed again", || scene.stub.in_flight() == 2);
    scene.stub.hold(false);
    scene.drain();
    // The late answer comes and goes without a trace.
    wait_until(PATIENCE, "both answers", || scene.stub.in_flight() == 0);
    scene.say_and_wait("I like tea.");
    assert_eq!(scene.facts(), ["Noted: I like tea.", "Noted: I live in Oslo."]);
    assert_eq!(scene.all_facts().len(), 2);
    let jobs = scene.jobs();
    assert!(jobs.iter().all(|job| job.attempts == 0 && job.status == "done"), "{jobs:#?}");
}

/// Leases of 5 minutes are not waited for when it is known that the worker is gone.
#[test]
fn jobs_of_a_worker_that_died_are_free_when_its_slot_is_taken_again() {
    let mut scene = start_with(echo, &[("memory_agent.worker", "off")]);
    scene.say("I live in Oslo.");
    run(
        &mut scene.client,
        "UPDATE memory_agent.jobs SET status = 'running', leased_by = 'slot 0 of a dead worker', \
                leased_until = now() + interval '1 hour'",
    );
    scene.cluster.alter_system("memory_agent.worker", Some("on"));
    scene.drain();
    assert_eq!(scene.facts(), ["Noted: I live in Oslo."]);
    let interrupted: i32 =
        value(&mut scene.client, "SELECT interrupted FROM memory_jobs WHERE kind = 'extract'", &[]);
    assert_eq!(interrupted, 1);
}

/// With fewer workers than before, the last slots are not taken again: their leases run out.
#[test]
fn jobs_of_a_slot_that_is_no_more_are_free_when_their_leases_run_out() {
    let mut scene = start_with(echo, &[OFTEN]);
    scene.stub.hold(true);
    scene.say("I live in Oslo.");
    wait_until(PATIENCE, "a call", || scene.stub.in_flight() == 1);
    run(
        &mut scene.client,
        "UPDATE memory_agent.jobs SET leased_by = 'slot 7 of a dead worker', \
                leased_until = now() + interval '2 seconds'",
    );
    scene.stub.hold(false);
    scene.drain();
    assert_eq!(scene.facts(), ["Noted: I live in Oslo."]);
    assert_eq!(scene.all_facts().len(), 1);
    assert!(!scene.cluster.connect(DATABASE).is_closed());
}

/// Times that nothing but a clock that was ahead can have made: the lease of a worker that nobody follows, a
/// job that waits for next year, a failure of the future.
#[test]
fn times_that_lie_too_far_ahead_are_mended() {
    let mut scene = start_with(echo, &[OFTEN]);
    scene.say_and_wait("I live in Oslo.");
    run(
        &mut scene.client,
        "INSERT INTO memory_agent.jobs (id, kind, user_id, agent_id, session_id, status, leased_by, leased_until, \
                                        run_after, created_at, finished_at) \
         SELECT gen_random_uuid(), 'embed', 'alice', 'default', 'of ' || status, status, \
                CASE status WHEN 'running' THEN 'slot 7 of a dead worker' END, \
                CASE status WHEN 'running' THEN now() + interval '1 year' END, \
                now() + interval '1 year', now() + interval '1 year', \
                CASE status WHEN 'dead' THEN now() + interval '1 year' END \
           FROM unnest(ARRAY['pending', 'running', 'dead']) status",
    );
    let mended = "SELECT bool_and(created_at <= now() AND run_after <= now() + interval '2 hours' \
                                  AND coalesce(finished_at <= now(), true) \
                                  AND coalesce(leased_until <= now() + interval '5 minutes', true)) \
                    FROM memory_agent.jobs WHERE session_id LIKE 'of %'";
    wait_until(PATIENCE, "the times", || value(&mut scene.client, mended, &[]));
    // An alive worker's job, and a pause that was asked for, are left alone.
    let lease = "SELECT leased_by = 'slot 7 of a dead worker' FROM memory_agent.jobs WHERE session_id = 'of running'";
    assert!(value::<bool>(&mut scene.client, lease, &[]));
    let pause = "UPDATE memory_agent.jobs SET run_after = now() + interval '1 hour', status = 'pending' \
                  WHERE session_id = 'of dead' RETURNING run_after";
    let asked: memory_agent_e2e::DateTime<memory_agent_e2e::Utc> =
        value(&mut scene.client, pause, &[]);
    scene.say("I like tea.");
    wait_until(PATIENCE, "another sweep", || scene.facts().len() == 2);
    let left = "SELECT run_after = $1 FROM memory_agent.jobs WHERE session_id = 'of dead'";
    assert!(value::<bool>(&mut scene.client, left, &[&asked]));
}

#[test]
fn conversations_that_fell_silent_are_archived() {
    let settings =
        [OFTEN, ("memory_agent.archive_idle_after", "1h"), ("memory_agent.llm_base_url", "")];
    let mut scene = start_with(echo, &settings);
    let say = "SELECT memory_ingest($1, 'user', $2, created_at => now() - $3::text::interval)";
    for (session, text, ago) in [
        ("silent", "Authentication tokens last one hour.", "2 hours"),
        ("awake", "We are still talking.", "1 minute"),
    ] {
        scene.client.execute(say, &[&session, &text, &ago]).expect("ingest");
    }
    let archived = |client: &mut Client| {
        let sql = "SELECT session_id || ' ' || (content LIKE '%last%') FROM memory_agent.archives";
        values::<String>(client, sql, &[])
    };
    wait_until(PATIENCE, "the archive", || !archived(&mut scene.client).is_empty());
    scene.drain();
    assert_eq!(archived(&mut scene.client), ["silent true"]);
    let embedded =
        "SELECT bool_and(embedding IS NOT NULL) FROM memory_agent.entries WHERE kind = 'document'";
    assert!(value::<bool>(&mut scene.client, embedded, &[]));
    // What comes later is archived too, under the same id, when it is silent again.
    let before: Uuid = value(&mut scene.client, "SELECT id FROM memory_agent.archives", &[]);
    run(
        &mut scene.client,
        "UPDATE memory_agent.archives SET updated_at = now() - interval '100 minutes'; \
         UPDATE memory_agent.entries SET recorded_at = created_at WHERE session_id = 'silent'",
    );
    scene.client.execute(say, &[&"silent", &"They last long.", &"90 minutes"]).expect("ingest");
    wait_until(PATIENCE, "the archive of both", || {
        let sql = "SELECT content LIKE '%They last long.' FROM memory_agent.archives WHERE id = $1";
        value(&mut scene.client, sql, &[&before])
    });
    assert_eq!(archived(&mut scene.client).len(), 1);
}

/// Sessions of which there is nothing to archive do not hold up the others, and the user's global memory is no
/// conversation.
#[test]
fn sessions_without_turns_hold_up_no_archive() {
    let mut scene = start_with(echo, &[OFTEN, ("memory_agent.llm_base_url", "")]);
    run(
        &mut scene.client,
        "SELECT memory_add('Fact ' || n, 'facts ' || n, infer => false, created_at => now() - interval '3 days') \
           FROM generate_series(1, 1000) n;
         SELECT memory_ingest('global', 'user', 'Everybody may know this.', created_at => now() - interval '2 days');
         SELECT memory_ingest('silent', 'user', 'Authentication tokens last one hour.', created_at => now() - interval '1 day');
         UPDATE memory_agent.sessions SET last_turn_at = now() - interval '3 days' WHERE session_id LIKE 'facts %'",
    );
    scene.cluster.alter_system("memory_agent.archive_idle_after", Some("1h"));
    let archived = |client: &mut Client| {
        values::<String>(client, "SELECT session_id FROM memory_agent.archives", &[])
    };
    wait_until(PATIENCE, "the archive", || !archived(&mut scene.client).is_empty());
    scene.drain();
    assert_eq!(archived(&mut scene.client), ["silent"]);
}
