//! memory_chat has nothing to give in place of an LLM's answer: what looks like an outage of the model server, or
//! is a short one, does not cost it.

use crate::failures::own_scene;
use crate::scene::{ANSWER, PATIENCE, Session, said};
use crate::supervisor::{self, Frozen};
use memory_agent_e2e::memory::value;
use memory_agent_e2e::processes::signal;
use memory_agent_e2e::{Cluster, Json, wait_until};
use std::os::unix::fs::PermissionsExt;
use std::thread::{self, JoinHandle, sleep};
use std::time::Duration;

/// By then a session that waits for an answer has asked the model server for a sign of life, which it does after
/// half a second, and has not given it up, which it does five seconds later.
const ASKED_FOR_A_SIGN: Duration = Duration::from_millis(900);
/// Longer than a session waits for such a sign.
const PAUSE: Duration = Duration::from_secs(7);

/// A chat of a new session, and the id of its process.
fn chat(cluster: &Cluster) -> (JoinHandle<Json>, i32) {
    let mut session = Session::connect(cluster, "agent");
    let pid = value(&mut session.client, "SELECT pg_backend_pid()", &[]);
    (thread::spawn(move || session.chat(&said("Are you there?"), "'s'")), pid)
}

#[track_caller]
fn expect_answer(document: &Json) {
    assert_eq!(document["choices"][0]["message"]["content"], ANSWER, "{document}");
}

/// As when a virtual machine stands still, or its host is busy: the clock goes on, and no process does.
#[test]
fn a_pause_of_the_machine_is_no_outage() {
    let (stub, cluster) = own_scene(&[("memory_agent.llm_timeout", "60s")]);
    let server = cluster.model_server_pid();
    drop(Session::open(&cluster, "agent"));
    stub.hold(true);
    let (running, pid) = chat(&cluster);
    wait_until(PATIENCE, "the LLM to be asked", || stub.in_flight() == 1);
    let supervisor = Frozen::new(supervisor::pid(&cluster));
    let frozen_server = Frozen::new(server);
    sleep(ASKED_FOR_A_SIGN);
    let backend = Frozen::new(pid);
    sleep(PAUSE);
    drop((backend, frozen_server, supervisor));
    stub.hold(false);
    expect_answer(&running.join().unwrap());
    assert_eq!(cluster.model_server_pid(), server, "the model server was restarted");
}

#[test]
fn a_recall_that_found_no_server_does_not_cost_the_answer() {
    let (_stub, cluster) = own_scene(&[]);
    let mut session = Session::open(&cluster, "agent");
    expect_answer(&session.chat(&said("Are you there?"), "'s'"));
    let supervisor = Frozen::new(supervisor::pid(&cluster));
    let server = Frozen::new(cluster.model_server_pid());
    session.augment(&said("Where is Anna?"), "'s'");
    drop((server, supervisor));
    // Within the second in which recall does not look for a server again.
    expect_answer(&session.chat(&said("Are you back?"), "'s'"));
    let warnings = session.take_warnings();
    assert!(warnings.iter().any(|one| one.contains("does not respond")), "{warnings:?}");
}

/// A session that looks for a server when it has just ended hears of the restart only later.
#[test]
fn a_restart_is_waited_for() {
    let (_stub, cluster) = own_scene(&[]);
    let mut observer = Session::open(&cluster, "agent");
    expect_answer(&observer.chat(&said("Are you there?"), "'s'"));
    let slow = cluster.data().join("slow_server");
    let server: String = value(
        &mut observer.client,
        "SELECT setting || '/memory_agent/memory_agent_model_server' FROM pg_config WHERE name = 'PKGLIBDIR'",
        &[],
    );
    std::fs::write(&slow, format!("#!/bin/sh\nsleep 1\nexec '{server}' \"$@\"\n")).unwrap();
    std::fs::set_permissions(&slow, std::fs::Permissions::from_mode(0o755)).unwrap();
    cluster.alter_system("memory_agent.model_server_path", Some(slow.to_str().unwrap()));
    wait_until(PATIENCE, "the slow server", || {
        observer.chat(&said("Are you there?"), "'s'").get("error").is_none()
    });
    let frozen = Frozen::new(supervisor::pid(&cluster));
    signal(cluster.model_server_pid(), libc::SIGKILL);
    let (running, pid) = chat(&cluster);
    wait_until(PATIENCE, "a session to look for the server", || {
        let waits = "SELECT coalesce(bool_or(wait_event_type = 'Extension'), false) FROM pg_stat_activity \
                      WHERE state = 'active' AND pid = $1";
        value(&mut observer.client, waits, &[&pid])
    });
    drop(frozen);
    expect_answer(&running.join().unwrap());
}
