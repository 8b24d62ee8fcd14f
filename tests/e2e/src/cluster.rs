//! A private PostgreSQL cluster: made, started, stopped, killed and removed.

use crate::expect::{retry_until, wait_until};
use crate::processes::{self, Process};
use crate::{binaries, files, spawner};
use postgres::Client;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A loaded machine needs a while to start a server, and nobody waits longer than needed.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a server is stopped; see `pg_ctl stop`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopMode {
    /// Waits for the clients to leave.
    Smart,
    /// Ends sessions, then shuts down in order.
    Fast,
    /// Ends at once and leaves recovery to the next start.
    Immediate,
}

/// What every cluster of the tests differs in from a server that somebody installs. None is the
/// extension's, but for the threads of [`tests_at_once`]: what decides what a recall returns is what ships, in every
/// suite that says nothing else.
const HARNESS_SETTINGS: [(&str, &str); 7] = [
    // Reached through the socket alone, so that two runs share no port.
    ("listen_addresses", ""),
    // A cluster lasts as long as its test; the machine's crashes are not tested.
    ("fsync", "off"),
    ("full_page_writes", "off"),
    // Many clusters run side by side.
    ("shared_buffers", "32MB"),
    ("max_connections", "60"),
    // What tests look for in the log: the process, the database, and what workers report.
    ("log_line_prefix", "%m [%p] %q%d "),
    ("log_min_messages", "info"),
];

/// How many tests run side by side. The model server gets as many threads, and so has a place for the rerank of each:
/// no test is refused one because of the others.
fn tests_at_once() -> usize {
    let chosen = std::env::var("RUST_TEST_THREADS").ok().and_then(|threads| threads.parse().ok());
    chosen.unwrap_or_else(|| std::thread::available_parallelism().map_or(2, Into::into))
}

/// What a cluster is made with.
#[derive(Clone, Debug)]
pub struct Builder {
    settings: BTreeMap<String, String>,
    environment: BTreeMap<String, String>,
}

impl Builder {
    /// Whether `memory_agent` is in `shared_preload_libraries`; by default it is not.
    #[must_use]
    pub fn preload(self, preload: bool) -> Self {
        self.setting("shared_preload_libraries", if preload { "memory_agent" } else { "" })
    }

    /// A line of postgresql.conf, the value unquoted.
    #[must_use]
    pub fn setting(mut self, name: &str, value: impl ToString) -> Self {
        self.settings.insert(name.to_owned(), value.to_string());
        self
    }

    /// A variable of the server's environment.
    #[must_use]
    pub fn environment(mut self, name: &str, value: impl ToString) -> Self {
        self.environment.insert(name.to_owned(), value.to_string());
        self
    }

    /// Makes a new cluster and starts it.
    pub fn start(self) -> Cluster {
        self.start_from(files::copy_initial_data)
    }

    /// Starts a cluster on the data directory that `make` makes at the path it is given.
    pub(crate) fn start_from(self, make: impl FnOnce(&Path)) -> Cluster {
        let directory = files::new_directory("c");
        let Self { settings, environment } = self;
        let cluster = Cluster { directory, settings, environment, server: Mutex::new(None) };
        make(&cluster.data());
        cluster.write_settings();
        cluster.start();
        cluster
    }
}

/// A cluster of one test, or the one that the tests of a binary share. Reached through a socket in
/// its own directory; durable enough for crashes of its processes, not for those of the machine.
#[derive(Debug)]
pub struct Cluster {
    directory: PathBuf,
    settings: BTreeMap<String, String>,
    environment: BTreeMap<String, String>,
    server: Mutex<Option<Child>>,
}

impl Cluster {
    /// A cluster with the settings that ship, but for what `HARNESS_SETTINGS` has of the server's own.
    /// What a suite sets of the extension's stands in a table of reasons, `tests/settings/deviations.rs`.
    pub fn builder() -> Builder {
        let settings = HARNESS_SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let builder = Builder { settings: settings.into(), environment: BTreeMap::new() };
        builder.setting("memory_agent.inference_threads", tests_at_once())
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// The directory of the server's socket.
    pub fn socket_directory(&self) -> &Path {
        &self.directory
    }

    /// Everything that the server and its workers logged so far, over all its starts.
    pub fn log(&self) -> String {
        let bytes = std::fs::read(self.directory.join("log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// How to connect as the superuser `postgres`; change what differs.
    pub fn config(&self, database: &str) -> postgres::Config {
        let mut config = Client::configure();
        config.host_path(&self.directory).user("postgres").dbname(database).application_name("e2e");
        config
    }

    /// A superuser's session.
    pub fn connect(&self, database: &str) -> Client {
        self.connect_as(database, "postgres")
    }

    /// A session of any role; all are trusted.
    pub fn connect_as(&self, database: &str, role: &str) -> Client {
        self.config(database)
            .user(role)
            .connect(postgres::NoTls)
            .unwrap_or_else(|error| panic!("{role} cannot connect to {database}: {error:?}"))
    }

    /// The postmaster's id.
    ///
    /// # Panics
    /// If the server does not run.
    pub fn postmaster_pid(&self) -> i32 {
        let server = self.server();
        server.as_ref().map(|child| child.id() as i32).expect("the server is stopped")
    }

    /// All processes of this cluster; see [`processes::of_data_directory`].
    pub fn processes(&self) -> Vec<Process> {
        processes::of_data_directory(&self.data())
    }

    /// The id of the model server, which is waited for.
    pub fn model_server_pid(&self) -> i32 {
        retry_until(PATIENCE, "a model server", || {
            processes::model_servers(&self.data()).first().map(|process| process.pid)
        })
    }

    /// Starts the server after a stop or a crash, and waits until it takes connections.
    pub fn start(&self) {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.directory.join("log"))
            .unwrap_or_else(|error| panic!("the log: {error}"));
        let mut command = binaries::command("postgres");
        command.arg("-D").arg(self.data()).envs(&self.environment);
        command.stdin(std::process::Stdio::null());
        command
            .stdout(log.try_clone().unwrap_or_else(|error| panic!("the log: {error}")))
            .stderr(log);
        let child = spawner::spawn(command).unwrap_or_else(|error| panic!("postgres: {error}"));
        *self.server() = Some(child);
        wait_until(PATIENCE, "the server to take connections", || {
            if let Some(status) = self.exit_status() {
                panic!("the server ended, {status}:\n{}", self.log());
            }
            self.config("postgres").connect(postgres::NoTls).is_ok()
        });
    }

    /// Stops the server and waits for it; nothing happens if it does not run.
    pub fn stop(&self, mode: StopMode) {
        self.end_with(match mode {
            StopMode::Smart => libc::SIGTERM,
            StopMode::Fast => libc::SIGINT,
            StopMode::Immediate => libc::SIGQUIT,
        });
    }

    /// A fast stop and a start; sessions are lost.
    pub fn restart(&self) {
        self.stop(StopMode::Fast);
        self.start();
    }

    /// Kills the postmaster alone, as the out-of-memory killer would; its children are left to find
    /// out by themselves. [`Cluster::start`] needs [`Cluster::wait_for_no_processes`] first.
    pub fn kill_postmaster(&self) {
        self.end_with(libc::SIGKILL);
    }

    /// Waits until no process of this cluster is left.
    pub fn wait_for_no_processes(&self) {
        wait_until(PATIENCE, "all processes of the cluster to end", || self.processes().is_empty());
    }

    /// Sets or (with `None`) resets a setting for the whole cluster, and waits until new sessions see it.
    pub fn alter_system(&self, name: &str, value: Option<&str>) {
        let mut client = self.connect("postgres");
        // The library has to define its settings before the server takes their names.
        client
            .batch_execute("LOAD 'memory_agent'")
            .expect("the extension is installed: make install");
        let change = match value {
            Some(value) => format!("SET {name} = '{}'", value.replace('\'', "''")),
            None => format!("RESET {name}"),
        };
        let generation = "SELECT pg_conf_load_time()::text";
        let before: String = client.query_one(generation, &[]).expect("reload time").get(0);
        client.batch_execute(&format!("ALTER SYSTEM {change}")).expect("ALTER SYSTEM");
        client.batch_execute("SELECT pg_reload_conf()").expect("reload");
        wait_until(PATIENCE, "the new configuration", || {
            let after: String =
                self.connect("postgres").query_one(generation, &[]).expect("reload time").get(0);
            after != before
        });
    }

    fn server(&self) -> MutexGuard<'_, Option<Child>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn exit_status(&self) -> Option<std::process::ExitStatus> {
        self.server().as_mut().and_then(|child| child.try_wait().ok().flatten())
    }

    fn end_with(&self, signal: i32) {
        let Some(pid) = self.server().as_ref().map(|child| child.id() as i32) else { return };
        spawner::signal(pid, signal);
        wait_until(PATIENCE, "the server to end", || self.exit_status().is_some());
        *self.server() = None;
    }

    /// The last value of a setting counts, so copies of other clusters are overruled too.
    fn write_settings(&self) {
        let mut lines = String::from("\n# Of the tests\n");
        let socket = self.directory.to_string_lossy().into_owned();
        let own = [("unix_socket_directories".to_owned(), socket)];
        for (name, value) in self.settings.iter().map(|(n, v)| (n.clone(), v.clone())).chain(own) {
            lines.push_str(&format!("{name} = '{}'\n", value.replace('\'', "''")));
        }
        OpenOptions::new()
            .append(true)
            .open(self.data().join("postgresql.conf"))
            .and_then(|mut file| file.write_all(lines.as_bytes()))
            .unwrap_or_else(|error| panic!("postgresql.conf: {error}"));
    }

    /// Ends the server and whatever outlives it, and removes the directory. Never panics, for it
    /// runs while a failed test unwinds and at exit.
    pub(crate) fn dispose(&self) {
        let server = self.server().take();
        if let Some(child) = &server {
            spawner::signal(child.id() as i32, libc::SIGQUIT);
            // A test may have stopped it.
            spawner::signal(child.id() as i32, libc::SIGCONT);
        }
        // The server gives its own children five seconds. What is left then was stopped, or hangs.
        for _ in 0..200 {
            if self.processes().is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        for orphan in self.processes() {
            eprintln!("had to kill {orphan:?}");
            spawner::signal(orphan.pid, libc::SIGKILL);
        }
        if let Some(mut child) = server {
            let _ = child.wait();
        }
        files::dispose(&self.directory);
    }

    pub(crate) fn builder_with_same_settings(&self) -> Builder {
        Builder { settings: self.settings.clone(), environment: self.environment.clone() }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.dispose();
    }
}
