//! The kernel ends a process for want of memory, each kind in turn: what was committed stays, and everything
//! comes back by itself. Where this machine lets the tests make a memory cgroup, it is the kernel that does
//! it; elsewhere SIGKILL stands in, which is what the kernel sends.

use crate::activity::{drain, launcher, reconnect, start, worker};
use crate::models::echo;
use crate::scene::{DATABASE, PATIENCE, Scene};
use memory_agent_e2e::memory::value;
use memory_agent_e2e::processes::{self, Process};
use memory_agent_e2e::{retry_until, wait_until};
use postgres::NoTls;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A cgroup for one process at a time.
struct Cgroup {
    directory: PathBuf,
    limit: &'static str,
}

impl Cgroup {
    /// Version 1 or 2, whichever this machine has; `None` where no cgroup can be made.
    fn new() -> Option<Self> {
        [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")]
            .into_iter()
            .find_map(|(root, limit)| {
                let name = format!("ma_e2e_{}", std::process::id());
                let directory = Path::new(root).join(name);
                std::fs::create_dir(&directory).ok()?;
                let own = Self { directory, limit };
                own.directory.join(limit).exists().then_some(own)
            })
    }

    fn set(&self, bytes: u64) -> bool {
        std::fs::write(self.directory.join(self.limit), bytes.to_string()).is_ok()
    }

    /// Puts a process in and leaves it no memory.
    fn starve(&self, pid: i32) -> bool {
        self.set(1 << 30)
            && std::fs::write(self.directory.join("cgroup.procs"), pid.to_string()).is_ok()
            && self.set(4096)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Whatever is still in it has to leave before.
        self.set(1 << 40);
        let held = std::fs::read_to_string(self.directory.join("cgroup.procs")).unwrap_or_default();
        for pid in held.lines() {
            let parent = self.directory.with_file_name("cgroup.procs");
            let _ = std::fs::write(parent, pid);
        }
        let _ = std::fs::remove_dir(&self.directory);
    }
}

fn is_alive(pid: i32) -> bool {
    Process::find(pid).is_some_and(|process| process.state != 'Z')
}

/// Gives every process something to do, in a session that may end with it.
fn nudge(scene: &Scene, pid: i32) {
    processes::signal(pid, libc::SIGHUP);
    if let Ok(mut client) = scene.cluster.config(DATABASE).connect(NoTls) {
        let words = "some words that were never said before ".repeat(300);
        let text = format!("{words} {:?}", Instant::now());
        let _ = client.execute("SELECT memory_embed($1)", &[&text]);
        let _ = client.batch_execute("SELECT pg_reload_conf()");
    }
}

#[test]
fn whoever_is_ended_for_want_of_memory_comes_back() {
    let mut scene = start(echo);
    let cgroup = Cgroup::new();
    scene.say_and_wait("Said before.");
    worker(&mut scene.client, DATABASE);
    let (mut said, mut by_the_kernel) = (1, Vec::new());
    for kind in ["backend", "worker", "launcher", "supervisor", "model server"] {
        let text = format!("Said before the {kind} ended.");
        scene.say(&text);
        said += 1;
        let pid = match kind {
            "backend" => value(&mut scene.client, "SELECT pg_backend_pid()", &[]),
            "worker" => worker(&mut scene.client, DATABASE),
            "launcher" => launcher(&mut scene.client),
            "supervisor" => retry_until(PATIENCE, "the supervisor", || {
                let all = scene.cluster.processes();
                let found = all.iter().find(|one| one.command.contains("model supervisor"))?;
                Some(found.pid)
            }),
            _ => scene.cluster.model_server_pid(),
        };
        if cgroup.as_ref().is_some_and(|cgroup| cgroup.starve(pid)) {
            let started = Instant::now();
            while is_alive(pid) && started.elapsed() < Duration::from_secs(20) {
                if kind == "backend" {
                    let _ = scene.client.batch_execute("SELECT length(repeat('x', 200000000))");
                } else {
                    nudge(&scene, pid);
                }
            }
            if !is_alive(pid) {
                by_the_kernel.push(kind);
            }
        }
        processes::signal(pid, libc::SIGKILL);
        wait_until(PATIENCE, "the process to end", || !is_alive(pid));
        // The postmaster ends everybody else's session as well, unless it was the model server.
        wait_until(PATIENCE, "PostgreSQL to take sessions", || {
            scene.cluster.config(DATABASE).connect(NoTls).is_ok()
        });
        wait_until(PATIENCE, "a session that lasts", || {
            reconnect(&mut scene);
            scene.client.batch_execute("SELECT 1").is_ok()
        });
        let stored: i64 = value(
            &mut scene.client,
            "SELECT count(*) FROM memory_agent.entries WHERE kind = 'turn'",
            &[],
        );
        assert_eq!(stored, said, "after the {kind}");
        assert_ne!(scene.cluster.model_server_pid(), 0, "after the {kind}");
        drain(&mut scene.client);
        worker(&mut scene.client, DATABASE);
    }
    println!("ended by the kernel: {by_the_kernel:?}; the others by SIGKILL");
    assert_eq!(scene.facts().len() as i64, said, "{:?}", scene.facts());
    wait_until(PATIENCE, "everything to run", || {
        ["model server", "launcher", "worker"]
            .iter()
            .all(|one| scene.status(one).contains(": running"))
    });
}
