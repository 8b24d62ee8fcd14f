//! The processes around the models: started when they are needed, one of each, cleanly apart from
//! PostgreSQL's own, idle when nobody asks, and gone with the cluster however it ends.

mod common;

use common::witness::Witness;
use common::{Session, slow, supervisor};
use memory_agent_e2e::processes::{self, Process};
use memory_agent_e2e::{Cluster, StopMode, expect_error, retry_until, wait_until};
use std::time::Duration;

/// How long a process may outlive its cluster.
const AT_THE_LATEST: Duration = Duration::from_secs(5);
/// For everything that only takes long on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug)]
enum End {
    FastStop,
    ImmediateStop,
    PostmasterKilled,
}

#[test]
fn nothing_outlives_the_cluster() {
    // A stopped model server cannot end by itself.
    for (preload, stopped) in [(true, false), (true, true), (false, false)] {
        let cluster = Cluster::builder().preload(preload).start();
        let mut session = Session::with_memories(&cluster, "ends");
        slow::prepare_recall(&mut session);
        for end in [End::FastStop, End::ImmediateStop, End::PostmasterKilled] {
            let mut busy = Session::open(&cluster, "ends");
            assert!(busy.is_whole(), "no models before the {end:?}");
            let pid = busy.pid;
            let call = std::thread::spawn(move || {
                busy.client.batch_execute(&slow::Slow::Recall.statement())
            });
            wait_for_a_call(&mut Session::open(&cluster, "ends"), pid);
            let (server, supervisor) = (cluster.model_server_pid(), supervisor::pid(&cluster));
            if preload {
                wait_until(PATIENCE, "launcher and worker", || {
                    let named = |name: &str| {
                        cluster.processes().iter().any(|process| process.command.contains(name))
                    };
                    named("memory_agent launcher") && named("memory_agent worker")
                });
            }
            if stopped {
                processes::signal(server, libc::SIGSTOP);
            }
            match end {
                End::FastStop => cluster.stop(StopMode::Fast),
                End::ImmediateStop => cluster.stop(StopMode::Immediate),
                End::PostmasterKilled => cluster.kill_postmaster(),
            }
            wait_until(AT_THE_LATEST, "every process to end with the cluster", || {
                cluster.processes().is_empty()
            });
            // A process that is ending has no data directory any more, and is not gone yet.
            for pid in [server, supervisor] {
                wait_until(AT_THE_LATEST, &format!("{end:?}: {pid} to be gone"), || {
                    Process::find(pid).is_none_or(|process| process.state == 'Z')
                });
            }
            assert!(call.join().unwrap().is_err(), "the call survived a {end:?}");
            cluster.start();
            let mut session = Session::open(&cluster, "ends");
            wait_until(PATIENCE, "recall to work after the restart", || session.is_whole());
        }
    }
}

/// Waits until a session waits for the model server.
fn wait_for_a_call(observer: &mut Session, pid: i32) {
    wait_until(PATIENCE, "a session to wait for the model server", || {
        observer
            .client
            .query_one(
                "SELECT coalesce(bool_or(state = 'active' AND wait_event_type = 'Extension'), false) \
                   FROM pg_stat_activity WHERE pid = $1",
                &[&pid],
            )
            .unwrap()
            .get(0)
    });
}

#[test]
fn terminated_supervisor_comes_back() {
    let cluster = Cluster::builder().preload(true).start();
    let mut session = Session::with_memories(&cluster, "supervisor");
    let mut witness = Witness::of(&cluster, "supervisor");
    for _ in 0..2 {
        let (ended, server) = (supervisor::pid(&cluster), cluster.model_server_pid());
        processes::signal(ended, libc::SIGTERM);
        let next = retry_until(PATIENCE, "another supervisor", || {
            supervisor::all(&cluster).iter().map(|process| process.pid).find(|pid| *pid != ended)
        });
        session.expect_an_answer();
        wait_until(PATIENCE, "recall to work in full", || session.is_whole());
        assert!(
            Process::find(server).is_none_or(|process| process.state == 'Z'),
            "two model servers"
        );
        assert_eq!(
            Process::find(cluster.model_server_pid()).map(|process| process.parent),
            Some(next)
        );
    }
    witness.confirm_no_restart();
}

/// PostgreSQL restarts all sessions when any of its processes is killed, the supervisor as any
/// other; what matters is that no model server is left behind and that there is a new one.
#[test]
fn crash_restart_leaves_no_orphan() {
    let cluster = Cluster::builder().preload(true).start();
    let mut session = Session::with_memories(&cluster, "orphan");
    for victim in ["supervisor", "backend"] {
        let server = cluster.model_server_pid();
        let killed = if victim == "supervisor" { supervisor::pid(&cluster) } else { session.pid };
        processes::signal(killed, libc::SIGKILL);
        wait_until(AT_THE_LATEST, "the orphaned model server to end", || {
            Process::find(server).is_none_or(|process| process.state == 'Z')
        });
        wait_until(PATIENCE, "PostgreSQL to end the session", || {
            session.client.batch_execute("SELECT 1").is_err()
        });
        wait_until(PATIENCE, "PostgreSQL to take sessions again", || {
            cluster.config("orphan").connect(postgres::NoTls).is_ok()
        });
        session = Session::open(&cluster, "orphan");
        wait_until(PATIENCE, "recall to work in full", || session.is_whole());
        let servers = processes::model_servers(&cluster.data());
        assert_eq!(
            (supervisor::all(&cluster).len(), servers.len()),
            (1, 1),
            "after the {victim}'s death"
        );
    }
}

#[test]
fn without_preload_the_first_call_starts_the_server() {
    let cluster = Cluster::builder().start();
    cluster.database("on_demand");
    assert!(processes::model_servers(&cluster.data()).is_empty(), "nobody asked for a model yet");
    let mut first = Session::open(&cluster, "on_demand");
    assert_eq!(first.status("library").state, "on demand");
    for content in common::MEMORIES {
        first.remember(content).unwrap();
    }
    assert!(first.take_warnings().is_empty(), "the call that starts the server waits for it");
    assert!(first.is_whole());
    let server = cluster.model_server_pid();

    let mut second = Session::open(&cluster, "on_demand");
    assert!(second.is_whole());
    assert_eq!(processes::model_servers(&cluster.data()).len(), 1);
    assert_eq!(
        cluster.model_server_pid(),
        server,
        "the second session did not use the first one's server"
    );

    drop(first);
    assert!(second.is_whole(), "the server ended with the session that started it");
    processes::signal(server, libc::SIGKILL);
    second.expect_an_answer();
    wait_until(PATIENCE, "recall to work in full", || second.is_whole());
    assert_ne!(cluster.model_server_pid(), server);
}

#[test]
fn sessions_that_start_at_once_start_one_server() {
    let cluster = Cluster::builder().start();
    Session::with_memories(&cluster, "rush");
    cluster.restart();
    assert!(processes::model_servers(&cluster.data()).is_empty());
    let sessions: Vec<_> = (0..10).map(|_| Session::open(&cluster, "rush")).collect();
    let threads: Vec<_> = sessions
        .into_iter()
        .map(|mut session| {
            std::thread::spawn(move || {
                let rows = session.recall(common::QUESTION).unwrap();
                (rows[0].similarity.is_some(), session.take_warnings())
            })
        })
        .collect();
    for thread in threads {
        let (is_whole, warnings) = thread.join().unwrap();
        assert!(is_whole && warnings.is_empty(), "answered by words: {warnings:?}");
    }
    assert_eq!(processes::model_servers(&cluster.data()).len(), 1);
    wait_until(PATIENCE, "the supervisors that came late to leave", || {
        supervisor::all(&cluster).len() == 1
    });
    let starts = cluster.log().matches("listens on").count();
    assert_eq!(starts, 2, "one server before the restart and one after it");
}

#[test]
fn no_worker_slot_leaves_words() {
    let cluster = Cluster::builder().setting("max_worker_processes", 0).start();
    cluster.database("no_slot");
    let mut session = Session::open(&cluster, "no_slot");
    for content in common::MEMORIES {
        session.remember(content).unwrap();
    }
    let warnings = session.take_warnings();
    let about_workers = warnings.iter().filter(|warning| warning.message().contains("a worker"));
    assert_eq!(about_workers.count(), 1, "told once in a session: {warnings:?}");
    session.expect_words_only();
    session.expect_stored_without_embedding();
    let status = session.status("model server");
    assert_eq!(status.state, "not running");
    assert!(status.hint.unwrap().contains("max_worker_processes"));
    assert_eq!(session.status("worker").state, "not running");
    assert!(session.status("queue").detail.starts_with("1 pending"));
    let message = expect_error(session.embed("any text"), "58000");
    assert!(message.contains("max_worker_processes"), "{message}");
    assert!(processes::model_servers(&cluster.data()).is_empty());
}

#[test]
fn changed_threads_mean_a_new_server() {
    let cluster =
        Cluster::builder().preload(true).setting("memory_agent.inference_threads", 1).start();
    let mut session = Session::with_memories(&cluster, "threads");
    let mut witness = Witness::of(&cluster, "threads");
    let one = cluster.model_server_pid();
    assert!(session.status("model server").detail.contains(" 1 threads"));
    cluster.alter_system("memory_agent.inference_threads", Some("3"));
    wait_until(PATIENCE, "the server with one thread to end", || {
        Process::find(one).is_none_or(|process| process.state == 'Z')
    });
    wait_until(PATIENCE, "recall to work in full", || session.is_whole());
    assert!(session.status("model server").detail.contains(" 3 threads"));

    let three = cluster.model_server_pid();
    cluster.alter_system("memory_agent.default_top_k", Some("4"));
    assert!(session.is_whole());
    assert_eq!(
        cluster.model_server_pid(),
        three,
        "a setting that is not the server's restarted it"
    );
    witness.confirm_no_restart();
}

#[test]
fn what_the_settings_switch_off_is_not_loaded_before_it_is_asked_for() {
    let cluster = Cluster::builder().preload(true).setting("memory_agent.rerank", "off").start();
    let command = Process::find(cluster.model_server_pid()).unwrap().command;
    assert!(command.contains("memory-embed-small") && !command.contains("ms-marco"), "{command}");
    let mut session = Session::with_memories(&cluster, "switched_off");
    session.client.batch_execute("SET memory_agent.rerank = on").unwrap();
    assert!(session.is_whole());
}

/// The model server shares nothing with PostgreSQL by which either could harm the other.
#[test]
fn model_server_is_a_process_apart() {
    let cluster = Cluster::builder().preload(true).start();
    let mut session = Session::with_memories(&cluster, "apart");
    assert!(session.is_whole());
    let (server, data) = (cluster.model_server_pid(), cluster.data());
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{server}/{name}")).unwrap();

    let group =
        read("stat").rsplit_once(')').unwrap().1.split_whitespace().nth(2).map(str::to_owned);
    assert_eq!(group, Some(server.to_string()), "it shares the process group of PostgreSQL");
    assert_eq!(read("oom_score_adj").trim(), "500");
    assert_eq!(field(&read("status"), "SigBlk"), 0, "signals are blocked");
    // Ignoring SIGPIPE is what Rust's programs do; 32 and 33 belong to the C library, which lets no
    // program set them, so they are what the whole process tree inherited.
    let apart: u64 = [libc::SIGPIPE, 32, 33].iter().map(|signal| 1 << (signal - 1)).sum();
    assert_eq!(field(&read("status"), "SigIgn") & !apart, 0, "signals are ignored");
    // Keys of endpoints are in it: no core is dumped, and its files in /proc are root's, not its user's.
    let owner = |name: &str| {
        let metadata = std::fs::metadata(format!("/proc/{server}/{name}")).unwrap();
        std::os::unix::fs::MetadataExt::uid(&metadata)
    };
    assert_eq!(owner("environ"), 0, "its user may read its memory");
    assert_ne!(owner(""), 0, "it runs as root");
    if let Ok(environment) = std::fs::read_to_string(format!("/proc/{server}/environ")) {
        assert_eq!(environment.matches("PG").count(), 0, "it has PostgreSQL's environment");
    }
    for (file, path) in open_files(server) {
        let own = path.starts_with(data.join("pg_stat_tmp").to_string_lossy().as_ref());
        let nameless =
            ["pipe:", "socket:", "anon_inode:"].iter().any(|kind| path.starts_with(kind));
        assert!(own || nameless || path == "/dev/null", "descriptor {file} is {path}");
    }
    let socket = std::fs::metadata(data.join("pg_stat_tmp/memory_agent.sock")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&socket.permissions()) & 0o777, 0o600);
}

/// ONNX Runtime keeps a file of what it would like to report to its maker, unless it is told not to.
#[test]
fn models_in_a_backend_write_nowhere() {
    let cluster =
        Cluster::builder().preload(true).setting("memory_agent.inference", "backend").start();
    let mut session = Session::with_memories(&cluster, "in_backend");
    assert!(session.is_whole());
    // The data directory, and the log beside it.
    let directory = cluster.socket_directory().to_string_lossy();
    for (file, path) in open_files(session.pid) {
        let own = path.starts_with(&*directory) || path.starts_with("/dev/");
        assert!(own || !path.starts_with('/'), "descriptor {file} is {path}");
    }
}

/// Descriptors of a process and what they are.
fn open_files(pid: i32) -> Vec<(String, String)> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let path = std::fs::read_link(entry.path()).ok()?;
            Some((
                entry.file_name().to_string_lossy().into_owned(),
                path.to_string_lossy().into_owned(),
            ))
        })
        .collect()
}

/// A bit mask of /proc/PID/status.
fn field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    u64::from_str_radix(line.trim_start_matches(':').trim(), 16).unwrap()
}

#[test]
fn idle_processes_use_no_time() {
    const WINDOW: Duration = Duration::from_secs(3);
    let cluster = Cluster::builder().preload(true).start();
    let mut session = Session::with_memories(&cluster, "idle");
    assert!(session.is_whole());
    let watched = [cluster.model_server_pid(), supervisor::pid(&cluster)];
    let ticks = || watched.map(|pid| ticks_of(pid).unwrap());
    // A reload or the end of a load may fall into one window, not into all of them.
    let mut used = Vec::new();
    for _ in 0..3 {
        let before = ticks();
        std::thread::sleep(WINDOW);
        let after = ticks();
        used.push([after[0] - before[0], after[1] - before[1]]);
        if used.last() == Some(&[0, 0]) {
            break;
        }
    }
    println!("ticks of 10 ms in {WINDOW:?}, model server and supervisor: {used:?}");
    assert_eq!(used.last(), Some(&[0, 0]), "they are never idle");
}

/// Time in user and system mode, in ticks of 10 ms.
fn ticks_of(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(fields[11].parse::<u64>().ok()? + fields[12].parse::<u64>().ok()?)
}
