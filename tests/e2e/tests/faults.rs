//! Inference that is broken in every way we could think of: files missing or wrong, the model server
//! killed, stopped, hung, without its socket, or replaced by something that talks nonsense. Whatever
//! it is, no session is lost, turns are stored, recall answers by words, `memory_status()` names the
//! problem, and once the fault is over everything is back within moments.

mod common;
#[path = "common/fake_server.rs"]
mod fake_server;

use common::random::Random;
use common::supervisor::{self, Frozen};
use common::witness::Witness;
use common::{QUESTION, Session};
use fake_server::{Behaviour, FakeServer};
use memory_agent_e2e::processes::{self, Process};
use memory_agent_e2e::{Cluster, expect_error, wait_until};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// So long after a fault recall works in full: 2 seconds are promised for an idle machine, where half of
/// them pass while the models are loaded. The best of some rounds has to keep to twice of it anywhere.
const BACK: Duration = Duration::from_secs(4);
/// What a machine that is busy otherwise may take, before something else than load must be the reason.
const BACK_UNDER_LOAD: Duration = Duration::from_secs(15);
/// A call without models must not keep its caller waiting for longer.
const FEW_SECONDS: Duration = Duration::from_secs(5);

/// Without workers: they would embed what was stored without, and tests could not see it.
fn cluster() -> Cluster {
    Cluster::builder().preload(true).setting("memory_agent.worker", "off").start()
}

fn socket(cluster: &Cluster) -> PathBuf {
    cluster.data().join("pg_stat_tmp/memory_agent.sock")
}

/// What holds as long as the models cannot be used; `component` is where memory_status() says so.
fn expect_degraded(session: &mut Session, component: &str) {
    let start = Instant::now();
    session.expect_words_only();
    assert!(start.elapsed() < FEW_SECONDS, "recall took {:?}", start.elapsed());
    let start = Instant::now();
    session.expect_stored_without_embedding();
    assert!(start.elapsed() < FEW_SECONDS, "ingest took {:?}", start.elapsed());
    let message = expect_error(session.embed("what no model can embed"), "58000");
    assert!(message.lines().nth(1).is_some_and(|hint| !hint.is_empty()), "no hint: {message}");
    let status = session.status(component);
    assert!(
        !["running", "found", "ready", "loaded"].contains(&status.state.as_str()),
        "{component}: {status:?}"
    );
    assert!(
        status.hint.is_some_and(|hint| !hint.is_empty()),
        "{component}: nothing says what to do"
    );
}

/// Waits until a session has everything back, and returns how long that took.
fn time_until_whole(session: &mut Session) -> Duration {
    let start = Instant::now();
    wait_until(BACK_UNDER_LOAD, "recall to work in full again", || session.is_whole());
    let took = start.elapsed();
    assert_eq!(session.status("model server").state, "running");
    took
}

#[test]
fn unusable_files_are_named_and_repaired_by_a_reload() {
    let cluster = cluster();
    let mut session = Session::with_memories(&cluster, "files");
    let mut witness = Witness::of(&cluster, "files");
    let directory = cluster.socket_directory().join("broken");
    std::fs::create_dir(&directory).unwrap();
    let empty = directory.join("no_models");
    std::fs::create_dir(&empty).unwrap();
    let models = models_with_a_broken_graph(&mut session, &directory.join("models"));
    let hangs = program(&directory.join("hangs"), "exec sleep 1000");
    let fails = program(&directory.join("fails"), "echo no such luck >&2; exit 3");
    let text = directory.join("text.so");
    std::fs::write(&text, "not a library").unwrap();
    make_readable(&directory);

    let nowhere = directory.join("nowhere");
    let cases: [(&str, &str, &Path, &str); 8] = [
        ("no models", "memory_agent.model_dir", &empty, "embedder"),
        ("a broken graph", "memory_agent.model_dir", &models, "embedder"),
        ("no runtime", "memory_agent.onnxruntime_path", &nowhere, "onnxruntime"),
        ("no library", "memory_agent.onnxruntime_path", &text, "onnxruntime"),
        ("no program", "memory_agent.model_server_path", &nowhere, "model server"),
        ("no executable", "memory_agent.model_server_path", &text, "model server"),
        ("a failing program", "memory_agent.model_server_path", &fails, "model server"),
        ("a program that hangs", "memory_agent.model_server_path", &hangs, "model server"),
    ];
    for (case, setting, value, component) in cases {
        println!("{case}");
        cluster.alter_system(setting, Some(&value.to_string_lossy()));
        wait_until(BACK_UNDER_LOAD, "the fault to be noticed", || !session.is_whole());
        // A program that hangs is given its time before it counts as failing.
        wait_until(BACK_UNDER_LOAD, "a state with a hint", || {
            let status = session.status(component);
            status.hint.is_some() && status.state != "starting"
        });
        session.take_warnings();
        expect_degraded(&mut session, component);
        cluster.alter_system(setting, None);
        println!("{case}: back after {:?}", time_until_whole(&mut session));
    }
    witness.confirm_no_restart();
    let reason = "echo no such luck";
    assert!(
        !session.status("model server").detail.contains(reason),
        "an old failure is still shown"
    );
}

/// A copy of the installed models in which the embedder's graph is no graph.
fn models_with_a_broken_graph(session: &mut Session, target: &Path) -> PathBuf {
    let share: String = session
        .client
        .query_one("SELECT setting FROM pg_config() WHERE name = 'SHAREDIR'", &[])
        .unwrap()
        .get(0);
    let installed = Path::new(&share).join("memory_agent/models");
    std::fs::create_dir(target).unwrap();
    for model in
        std::fs::read_dir(&installed).expect("models are installed: make install").flatten()
    {
        let copy = target.join(model.file_name());
        std::fs::create_dir(&copy).unwrap();
        for file in std::fs::read_dir(model.path()).unwrap().flatten() {
            std::os::unix::fs::symlink(file.path(), copy.join(file.file_name())).unwrap();
        }
    }
    let graph = target.join("memory-embed-small/model.onnx");
    std::fs::remove_file(&graph).unwrap();
    std::fs::write(&graph, "not a graph").unwrap();
    target.to_owned()
}

fn program(path: &Path, script: &str) -> PathBuf {
    std::fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    path.to_owned()
}

/// Lets the server's user read what the test made.
fn make_readable(path: &Path) {
    let mode = std::fs::metadata(path).unwrap().permissions().mode();
    let extra = if path.is_dir() { 0o555 } else { 0o444 };
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode | extra)).unwrap();
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        if !entry.path().is_symlink() {
            make_readable(&entry.path());
        }
    }
}

#[test]
fn killed_model_server_costs_moments() {
    let cluster = cluster();
    let mut session = Session::with_memories(&cluster, "killed");
    let mut witness = Witness::of(&cluster, "killed");
    let mut times = Vec::new();
    for _ in 0..5 {
        let killed = cluster.model_server_pid();
        let start = Instant::now();
        processes::signal(killed, libc::SIGKILL);
        session.expect_an_answer();
        time_until_whole(&mut session);
        times.push(start.elapsed());
        assert_ne!(cluster.model_server_pid(), killed);
    }
    println!("killed while idle: back after {times:?}");
    assert!(
        times.iter().min().is_some_and(|best| *best <= BACK),
        "never back within {BACK:?}: {times:?}"
    );

    let mut random = Random::seeded("killed in the middle of calls");
    for _ in 0..10 {
        let delay = random.time_below(Duration::from_millis(150));
        let pid = cluster.model_server_pid();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(delay);
            processes::signal(pid, libc::SIGKILL);
        });
        let mut calls = 0;
        while !killer.is_finished() || calls < 3 {
            session.expect_an_answer();
            let stored = session.remember(&format!("Said {calls} calls after the start.")).unwrap();
            assert!(!stored.is_nil());
            session.take_warnings();
            calls += 1;
        }
        killer.join().unwrap();
        time_until_whole(&mut session);
    }
    // What was stored without embedding gets it from the worker.
    cluster.alter_system("memory_agent.worker", Some("on"));
    let row = session
        .client
        .query_one("SELECT memory_wait('60 s')", &[])
        .and_then(|waited| {
            let left = "SELECT count(*) FROM memory_agent.entries \
                         WHERE embedding IS NULL OR NOT token_count_exact";
            Ok((waited.get::<_, bool>(0), session.client.query_one(left, &[])?.get::<_, i64>(0)))
        })
        .unwrap();
    assert_eq!(row, (true, 0));
    witness.confirm_no_restart();
}

#[test]
fn stopped_model_server_is_replaced() {
    let cluster = cluster();
    let mut session = Session::with_memories(&cluster, "stopped");
    let mut witness = Witness::of(&cluster, "stopped");
    let (mut answered, mut times) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let stopped = cluster.model_server_pid();
        processes::signal(stopped, libc::SIGSTOP);
        let start = Instant::now();
        session.expect_an_answer();
        answered.push(start.elapsed());
        wait_until(BACK_UNDER_LOAD, "the stopped server to be replaced", || {
            Process::find(stopped).is_none_or(|process| process.state == 'Z')
        });
        time_until_whole(&mut session);
        times.push(start.elapsed());
    }
    // A recall may meet the restart, which takes as long as it takes on a busy machine.
    assert!(answered.iter().min().is_some_and(|best| *best < FEW_SECONDS), "{answered:?}");
    println!("stopped: replaced and back after {times:?}");
    // The supervisor waits a second before it gives a stopped server up.
    let limit = BACK + Duration::from_secs(1);
    assert!(
        times.iter().min().is_some_and(|best| *best <= limit),
        "never back within {limit:?}: {times:?}"
    );
    witness.confirm_no_restart();
}

#[test]
fn hung_or_unreachable_model_server_leaves_words() {
    let cluster = cluster();
    let mut session = Session::with_memories(&cluster, "hung");
    let mut witness = Witness::of(&cluster, "hung");

    let frozen_supervisor = Frozen::new(supervisor::pid(&cluster));
    let frozen_server = Frozen::new(cluster.model_server_pid());
    expect_degraded(&mut session, "model server");
    drop((frozen_server, frozen_supervisor));
    println!("hung: back after {:?}", time_until_whole(&mut session));

    let frozen_supervisor = Frozen::new(supervisor::pid(&cluster));
    processes::signal(cluster.model_server_pid(), libc::SIGKILL);
    expect_degraded(&mut session, "model server");
    drop(frozen_supervisor);
    println!("dead: back after {:?}", time_until_whole(&mut session));

    // Sessions that are connected keep their connection, others find no socket.
    let frozen_supervisor = Frozen::new(supervisor::pid(&cluster));
    std::fs::remove_file(socket(&cluster)).unwrap();
    let mut stranger = Session::open(&cluster, "hung");
    expect_degraded(&mut stranger, "model server");
    drop(frozen_supervisor);
    println!("without socket: back after {:?}", time_until_whole(&mut stranger));
    time_until_whole(&mut session);
    witness.confirm_no_restart();
}

#[test]
fn nonsense_from_the_socket_leaves_words() {
    let cluster = cluster();
    let mut session = Session::with_memories(&cluster, "nonsense");
    let mut witness = Witness::of(&cluster, "nonsense");
    for behaviour in Behaviour::ALL {
        let frozen_supervisor = Frozen::new(supervisor::pid(&cluster));
        let fake = FakeServer::replace(&socket(&cluster), behaviour);
        let mut victim = Session::open(&cluster, "nonsense");
        expect_degraded(&mut victim, "model server");
        drop((fake, frozen_supervisor));
        println!("{behaviour:?}: back after {:?}", time_until_whole(&mut victim));
        time_until_whole(&mut session);
        witness.confirm_no_restart();
    }
}

#[test]
fn nonsense_to_the_socket_harms_nobody() {
    let cluster = cluster();
    let mut session = Session::with_memories(&cluster, "garbage");
    let mut witness = Witness::of(&cluster, "garbage");
    assert!(session.is_whole());
    let (path, server) = (socket(&cluster), cluster.model_server_pid());
    let mut random = Random::seeded("garbage to the socket");
    let frame = |length: u32, version: u8, body: &[u8]| {
        [&length.to_le_bytes(), &[version][..], &1u64.to_le_bytes(), body].concat()
    };
    let mut messages = vec![
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        frame(4, 99, b"abcd"),
        frame(u32::MAX, 1, b""),
        frame(64 * 1024 * 1024, 1, b"the beginning of very much"),
        frame(100, 1, b"half of it"),
        frame(3, 1, &[255, 255, 255]),
        // A request that says it brings very many texts.
        frame(8, 1, &[0, 0, 0, 255, 255, 255, 255, 15]),
        frame(0, 1, b""),
        b"\x01".to_vec(),
        Vec::new(),
    ];
    messages.extend((0..20).map(|_| random.bytes(4096)));
    // Held open to the end, so that unfinished frames stay unfinished.
    let mut held = Vec::new();
    for message in &messages {
        for leaves in [true, false] {
            let mut stream = UnixStream::connect(&path).unwrap();
            // The server may have closed the connection already.
            let _ = stream.write_all(message);
            if !leaves {
                held.push(stream);
            }
        }
        assert!(session.is_whole(), "after {:?}", &message[..message.len().min(20)]);
    }
    held.extend((0..200).map(|_| UnixStream::connect(&path).unwrap()));
    assert!(session.is_whole());
    assert!(Session::open(&cluster, "garbage").is_whole());
    assert_eq!(cluster.model_server_pid(), server, "the model server did not survive");
    witness.confirm_no_restart();
}

#[test]
fn fault_in_a_transaction_keeps_it() {
    let cluster = cluster();
    let mut session = Session::with_memories(&cluster, "transaction");
    let frozen_supervisor = Frozen::new(supervisor::pid(&cluster));
    let mut transaction = session.client.transaction().unwrap();
    transaction
        .execute("SELECT memory_ingest('t', 'user', 'Before: the food was Thai.')", &[])
        .unwrap();
    processes::signal(cluster.model_server_pid(), libc::SIGKILL);
    transaction
        .execute("SELECT memory_ingest('t', 'user', 'After: the food was Greek.')", &[])
        .unwrap();
    let found =
        transaction.query("SELECT content FROM memory_recall($1, 't')", &[&QUESTION]).unwrap();
    assert_eq!(found.len(), 2);
    transaction.commit().unwrap();
    drop(frozen_supervisor);
    session.take_warnings();
    time_until_whole(&mut session);
    let embedded = session
        .client
        .query("SELECT embedding IS NOT NULL FROM memory_agent.entries WHERE session_id = 't' ORDER BY id", &[])
        .unwrap();
    assert_eq!(embedded.iter().map(|row| row.get::<_, bool>(0)).collect::<Vec<_>>(), [true, false]);
}
