//! Whatever fails on the way: the episode stays closed, no fact that held before is ended, and the
//! reflection is made up for.

use crate::scene::{DATABASE, Job, PATIENCE, Scene};
use crate::script::{obedient, start_with};
use memory_agent_e2e::llm::{Fault, FaultPlan};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Uuid, processes, wait_until};
use std::collections::HashSet;
use std::time::Duration;

const LISBON: &str = "User lives in the city of Lisbon.";
const OSLO: &str = "User lives in the city of Oslo.";
const RENT: &str = "User's monthly rent is 810 euros.";
const TUTOR: &str = "Magda teaches the user to play the violin.";

/// What an episode that updates, removes and adds says.
fn changes() -> [String; 3] {
    [format!("Change: {LISBON} => {OSLO}"), format!("Forget: {RENT}"), format!("Note: {TUTOR}")]
}

/// A scene in which two facts are known.
fn start_with_facts(settings: &[(&str, &str)]) -> Scene {
    let mut scene = start_with(obedient, settings);
    scene.episode(&[&format!("Note: {LISBON}"), &format!("Note: {RENT}"), "Yes."]);
    assert_eq!(scene.facts(), [LISBON, RENT]);
    scene
}

/// Says the changes and ends the episode.
fn change(scene: &mut Scene) {
    let said = changes();
    scene.say_all(&said.each_ref().map(String::as_str));
    scene.end_episode();
}

/// The last reflect job, once `condition` holds for it.
#[track_caller]
fn wait_for_job(scene: &mut Scene, what: &str, condition: impl Fn(&Job) -> bool) -> Job {
    memory_agent_e2e::retry_until(PATIENCE, what, || {
        scene.jobs().into_iter().rfind(|job| job.kind == "reflect").filter(&condition)
    })
}

/// Everything is as if the last episode had not been reflected on.
#[track_caller]
fn expect_nothing_done(scene: &mut Scene, why: &str) {
    let facts: Vec<(String, String)> =
        scene.all_facts().into_iter().map(|fact| (fact.content, fact.state)).collect();
    let active = |text: &str| (text.to_owned(), "active".to_owned());
    assert_eq!(facts, [active(LISBON), active(RENT)], "{why}");
    assert_eq!(scene.episodes()[1..], ["3 closed manual"], "{why}");
    assert_eq!((scene.waiting_turns(), scene.traces().len()), (3, 1), "{why}");
    let ended: i64 = value(
        &mut scene.client,
        "SELECT count(*) FROM memory_agent.history WHERE op <> 'add'",
        &[],
    );
    assert_eq!(ended, 0, "{why}");
}

/// Everything was done, once.
#[track_caller]
fn expect_all_done(scene: &mut Scene, why: &str) {
    assert_eq!(scene.facts(), [TUTOR, OSLO], "{why}");
    assert_eq!(scene.all_facts().len(), 4, "{why}: {:#?}", scene.all_facts());
    assert_eq!(scene.episodes()[1..], ["3 reflected manual"], "{why}");
    assert_eq!((scene.waiting_turns(), scene.traces().len()), (0, 2), "{why}");
    let mut ops: Vec<String> =
        values(&mut scene.client, "SELECT op FROM memory_agent.history ORDER BY op", &[]);
    ops.dedup_by(|a, b| a == b && a != "add");
    assert_eq!(ops, ["add", "add", "add", "add", "delete", "supersede"], "{why}");
}

#[test]
fn no_fault_of_the_endpoint_costs_a_fact() {
    let settings = [("memory_agent.llm_timeout", "1500ms"), ("memory_agent.llm_max_attempts", "1")];
    let mut scene = start_with_facts(&settings);
    change(&mut scene);
    let faults = [
        Fault::Status(500),
        Fault::ResetInBody,
        Fault::HalfContent,
        Fault::GarbageContent,
        Fault::WrongSchema,
        Fault::InventedIds,
        Fault::EmptyContent,
        Fault::Delay(Duration::from_secs(4)),
    ];
    // The first reflection may have been made already: its job is run again.
    scene.drain();
    expect_all_done(&mut scene, "no fault");
    for (number, fault) in faults.into_iter().enumerate() {
        scene.stub.faults(FaultPlan::questions(fault));
        let before = (scene.all_facts().len(), scene.traces().len());
        let fact = format!("Note: Number {number} is a number.");
        scene.episode(&[&fact, &format!("Forget: {OSLO}"), "Yes."]);
        let job = wait_for_job(&mut scene, "a dead job", |job| job.status == "dead");
        assert!(job.error.is_some(), "{fault:?}");
        assert_eq!((scene.all_facts().len(), scene.traces().len()), before, "{fault:?}");
        assert_eq!(scene.facts(), [TUTOR, OSLO], "{fault:?}");
        assert_eq!(scene.episodes().last().map(String::as_str), Some("3 closed manual"));
        // Nobody but memory_retry runs it again; what comes later does not take its turns along.
        assert!(value::<bool>(&mut scene.client, "SELECT memory_retry($1)", &[&job.id]));
        scene.drain();
        assert_eq!(scene.facts(), [TUTOR, OSLO], "{fault:?}: it is dead again");
        run(&mut scene.client, "DELETE FROM memory_agent.jobs WHERE status = 'dead'");
        run(
            &mut scene.client,
            "UPDATE memory_agent.episodes SET wants_reflection = false WHERE status = 'closed';
             UPDATE memory_agent.entries SET extracted_at = now() WHERE extracted_at = 'infinity'",
        );
    }
}

#[test]
fn a_dead_reflection_is_made_up_for_by_a_retry() {
    let mut scene = start_with_facts(&[("memory_agent.llm_max_attempts", "2")]);
    scene.stub.faults(FaultPlan::always(Fault::WrongSchema));
    change(&mut scene);
    let job = wait_for_job(&mut scene, "a dead job", |job| job.status == "dead");
    assert_eq!(job.attempts, 2);
    expect_nothing_done(&mut scene, "dead");
    assert!(scene.status("queue").contains("1 dead"), "{}", scene.status("queue"));
    // A later episode is not held up, and leaves the dead one's turns alone.
    scene.stub.faults(FaultPlan::none());
    scene.episode(&["Note: Bread needs salt.", "Yes.", "Always."]);
    assert_eq!(scene.facts(), ["Bread needs salt.", LISBON, RENT]);
    assert_eq!(scene.episodes(), ["3 reflected manual", "3 closed manual", "3 reflected manual"]);
    assert!(value::<bool>(&mut scene.client, "SELECT memory_retry($1)", &[&job.id]));
    scene.drain();
    assert_eq!(scene.facts(), ["Bread needs salt.", TUTOR, OSLO]);
    assert_eq!(scene.episodes()[1], "3 reflected manual");
}

/// At temperature 0 the same question brings the same answer, so each is another one.
#[test]
fn an_episode_without_a_usable_answer_is_asked_about_in_halves_down_to_one_turn() {
    let mut scene = start_with(obedient, &[]);
    scene.stub.faults(FaultPlan::when(|call| {
        call.data().to_string().contains("Oslo").then_some(Fault::WrongSchema)
    }));
    scene.say_all(&[
        "Note: Bread needs salt.",
        &format!("Note: {OSLO}"),
        &format!("Note: {RENT}"),
        "Yes.",
    ]);
    scene.end_episode();
    let job = wait_for_job(&mut scene, "a dead job", |job| job.status == "dead");
    assert_eq!(job.attempts, 3, "four turns, two, one: {job:?}");
    assert_eq!(scene.facts(), ["Bread needs salt."]);
    let calls = scene.reflections();
    let asked: HashSet<String> = calls.iter().map(|call| call.body.to_string()).collect();
    // Two questions each about four turns, two, and the one; and one about the turn before it.
    assert_eq!((calls.len(), asked.len()), (7, 7), "{calls:#?}");

    // Another model may answer; what it asks about are the turns that are left.
    scene.stub.faults(FaultPlan::none());
    assert!(value::<bool>(&mut scene.client, "SELECT memory_retry($1)", &[&job.id]));
    scene.drain();
    assert_eq!(scene.facts(), ["Bread needs salt.", OSLO, RENT]);
    assert_eq!(scene.episodes(), ["4 reflected manual"]);
}

/// Each step of the transaction that stores a reflection fails in turn.
#[test]
fn no_step_of_storing_leaves_half_a_reflection() {
    const STEPS: [(&str, &str); 6] = [
        ("entries", "NOT (kind = 'fact' AND content LIKE '%Oslo%')"),
        ("entries", "NOT (kind = 'fact' AND state = 'inactive')"),
        (
            "entries",
            "NOT (kind = 'turn' AND content LIKE 'Note: Magda%' AND isfinite(extracted_at))",
        ),
        ("history", "op <> 'delete'"),
        ("episodes", "NOT (status = 'reflected' AND close_reason = 'manual')"),
        ("traces", "false"),
    ];
    let mut scene = start_with_facts(&[("memory_agent.llm_max_attempts", "1")]);
    let mut dead: Option<Uuid> = None;
    for (table, check) in STEPS {
        run(
            &mut scene.client,
            &format!(
                "ALTER TABLE memory_agent.{table} ADD CONSTRAINT broken CHECK ({check}) NOT VALID"
            ),
        );
        match dead {
            None => change(&mut scene),
            Some(job) => {
                assert!(value::<bool>(&mut scene.client, "SELECT memory_retry($1)", &[&job]));
            }
        }
        let job = wait_for_job(&mut scene, "a dead job", |job| job.status == "dead");
        dead = Some(job.id);
        assert!(
            job.error.as_deref().is_some_and(|error| error.contains("broken")),
            "{table}: {job:?}"
        );
        expect_nothing_done(&mut scene, &format!("{table}: {check}"));
        run(&mut scene.client, &format!("ALTER TABLE memory_agent.{table} DROP CONSTRAINT broken"));
    }
    assert!(value::<bool>(&mut scene.client, "SELECT memory_retry($1)", &[&dead]));
    scene.drain();
    expect_all_done(&mut scene, "in the end");
    assert_eq!(scene.reflections().len(), 2, "the answer was kept, nobody was asked again");
}

#[test]
fn a_killed_worker_is_made_up_for() {
    let mut scene = start_with_facts(&[]);
    scene.stub.hold(true);
    change(&mut scene);
    scene.wait_for_calls(2);
    let worker: i32 = value(
        &mut scene.client,
        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'memory_agent worker' AND datname = current_database()",
        &[],
    );
    processes::signal(worker, libc::SIGKILL);
    // All sessions of the cluster end with it, and nobody gets in before that.
    wait_until(PATIENCE, "the session to be ended", || {
        scene.client.batch_execute("SELECT 1").is_err()
    });
    wait_until(PATIENCE, "the cluster to be back", || {
        scene.cluster.config(DATABASE).connect(postgres::NoTls).is_ok_and(|client| {
            scene.client = client;
            scene.client.batch_execute("SET memory_agent.user_id = 'alice'").is_ok()
        })
    });
    expect_nothing_done(&mut scene, "killed while it asked");
    scene.stub.hold(false);
    scene.drain();
    expect_all_done(&mut scene, "after the kill");
}

#[test]
fn a_session_that_is_locked_is_waited_for_without_asking_again() {
    let mut scene = start_with_facts(&[]);
    let mut other = scene.cluster.connect(DATABASE);
    scene.stub.hold(true);
    change(&mut scene);
    scene.wait_for_calls(2);
    run(&mut other, "BEGIN; SELECT FROM memory_agent.sessions FOR UPDATE");
    scene.stub.hold(false);
    wait_until(PATIENCE, "the worker to meet the lock", || {
        scene.status("worker").contains("last error")
    });
    expect_nothing_done(&mut scene, "locked");
    run(&mut other, "ROLLBACK");
    scene.drain();
    expect_all_done(&mut scene, "after the lock");
    assert_eq!(scene.reflections().len(), 2);
}

#[test]
fn an_outage_costs_no_attempt() {
    let mut scene = start_with_facts(&[]);
    scene.stub.set_down(true);
    change(&mut scene);
    let job = wait_for_job(&mut scene, "a postponed job", |job| job.error.is_some());
    assert_eq!((job.attempts, job.status.as_str()), (0, "pending"));
    expect_nothing_done(&mut scene, "down");
    scene.stub.set_down(false);
    scene.drain();
    expect_all_done(&mut scene, "up again");
}

#[test]
fn facts_that_change_meanwhile_are_looked_at_again() {
    let mut scene = start_with_facts(&[]);
    scene.stub.hold(true);
    change(&mut scene);
    scene.wait_for_calls(2);
    // Somebody else replaces the fact that is being updated.
    run(
        &mut scene.client,
        "UPDATE memory_agent.entries SET state = 'inactive', state_reason = 'deleted', state_at = now() \
          WHERE kind = 'fact' AND content LIKE '%Lisbon%';
         SELECT memory_add('User lives in the city of Nairobi.', 's', infer => false)",
    );
    scene.stub.hold(false);
    scene.drain();
    assert_eq!(scene.reflections().len(), 3, "it was asked again");
    let facts = scene.facts();
    assert!(facts.contains(&"User lives in the city of Nairobi.".to_owned()), "{facts:?}");
    assert_eq!(scene.fact(LISBON).reason.as_deref(), Some("deleted"));
    assert_eq!(scene.fact(RENT).state, "inactive");
}

/// With two workers and several sessions, each reflection happens once.
#[test]
fn several_workers_and_sessions_do_not_get_into_each_others_way() {
    let mut scene = start_with(obedient, &[("memory_agent.job_workers", "2")]);
    scene.stub.hold(true);
    for session in 0..6 {
        for number in 0..2 {
            let text = format!("Note: Session {session} has number {number}.");
            run(
                &mut scene.client,
                &format!(
                    "SELECT memory_ingest('session {session}', 'user', '{text}');
                     SELECT memory_ingest('session {session}', 'user', 'Right.');
                     SELECT memory_ingest('session {session}', 'tool', 'done')"
                ),
            );
        }
    }
    scene.wait_for_calls(4);
    scene.stub.hold(false);
    scene.drain();
    assert_eq!(scene.facts().len(), 12);
    assert_eq!(scene.all_facts().len(), 12);
    assert_eq!((scene.reflections().len(), scene.traces().len()), (12, 12));
    assert!(scene.episodes().iter().all(|episode| episode == "3 reflected tool_result"));
}
