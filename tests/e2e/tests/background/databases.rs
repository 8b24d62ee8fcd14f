//! Commands that need a database to be unused (DROP, RENAME, TEMPLATE, SET TABLESPACE) work while its
//! worker is idle and while it waits for the LLM, and cost no job.

use crate::activity::{drain, facts, in_session, start, worker};
use crate::models::echo;
use crate::scene::{DATABASE, PATIENCE, Scene};
use memory_agent_e2e::llm::LlmStub;
use memory_agent_e2e::memory::run;
use memory_agent_e2e::{Client, Cluster, retry_until, wait_until};
use std::time::{Duration, Instant};

/// PostgreSQL itself gives up after five seconds.
const IN_TIME: Duration = Duration::from_secs(4);

struct Site {
    cluster: Cluster,
    stub: LlmStub,
    admin: Client,
    turns: usize,
}

impl Site {
    fn new() -> Self {
        let Scene { client, cluster, stub } = start(echo);
        drop(client);
        let mut admin = cluster.connect("postgres");
        run(&mut admin, "SET allow_in_place_tablespaces = on");
        run(&mut admin, "CREATE TABLESPACE elsewhere LOCATION ''");
        Self { cluster, stub, admin, turns: 0 }
    }

    /// Brings the database's worker into the state in which the command is to find it.
    fn prepare(&mut self, database: &str, busy: bool) {
        if busy {
            self.stub.hold(true);
            self.turns += 1;
            let text = format!("Turn {}.", self.turns);
            in_session(&self.cluster, database, |client| {
                client.execute("SELECT memory_ingest('s', 'user', $1)", &[&text]).expect("ingest");
            });
            wait_until(PATIENCE, "a call", || self.stub.in_flight() == 1);
        } else {
            in_session(&self.cluster, database, drain);
            worker(&mut self.admin, database);
        }
    }

    fn command(&mut self, command: &str) {
        let started = Instant::now();
        run(&mut self.admin, command);
        assert!(started.elapsed() < IN_TIME, "{command}: {:?}", started.elapsed());
        println!("{command}: {:?}", started.elapsed());
    }

    /// The jobs of a database are done, its worker is there, and nothing is there twice.
    fn goes_on(&mut self, database: &str) {
        self.stub.hold(false);
        let found = in_session(&self.cluster, database, |client| {
            drain(client);
            facts(client)
        });
        let expected: Vec<String> =
            (1..=self.turns).map(|turn| format!("Noted: Turn {turn}.")).collect();
        assert_eq!(found, expected, "in {database}");
        worker(&mut self.admin, database);
    }
}

fn unused_for_commands(busy: bool) {
    let mut site = Site::new();
    site.prepare(DATABASE, busy);
    site.command("CREATE DATABASE copy TEMPLATE agent");
    // The copy has the same job, and a worker for it.
    site.goes_on("copy");
    site.goes_on(DATABASE);

    site.prepare(DATABASE, busy);
    site.command("ALTER DATABASE agent RENAME TO renamed");
    site.goes_on("renamed");

    site.prepare("renamed", busy);
    site.command("ALTER DATABASE renamed SET TABLESPACE elsewhere");
    site.goes_on("renamed");

    site.prepare("renamed", busy);
    site.command("DROP DATABASE renamed");
    wait_until(PATIENCE, "the call to be given up", || site.stub.in_flight() == 0);
    site.stub.hold(false);
    worker(&mut site.admin, "copy");
    assert!(!site.cluster.log().contains("PANIC"));
}

#[test]
fn an_idle_worker_makes_room_for_commands_on_its_database() {
    unused_for_commands(false);
}

#[test]
fn a_busy_worker_makes_room_for_commands_on_its_database() {
    unused_for_commands(true);
}

/// Before the commit the database is still to be seen; the launcher has to look after it. The commit is
/// held up by a standby that never comes.
#[test]
fn nothing_stays_of_a_dropped_database() {
    let mut site = Site::new();
    site.prepare(DATABASE, false);
    site.cluster.alter_system("synchronous_commit", Some("local"));
    site.cluster.alter_system("synchronous_standby_names", Some("nobody"));
    let files = |cluster: &Cluster| -> Vec<String> {
        let directory = std::fs::read_dir(cluster.data().join("pg_stat_tmp")).expect("its files");
        let names = directory.map(|file| file.expect("a file").file_name());
        names.filter_map(|name| name.into_string().ok()).collect()
    };
    let oid: String = site
        .admin
        .query_one("SELECT oid::text FROM pg_database WHERE datname = 'agent'", &[])
        .expect("the database")
        .get(0);
    let of_database = move |name: &String| name.split('.').any(|part| *part == oid);
    assert!(files(&site.cluster).iter().any(&of_database), "{:?}", files(&site.cluster));
    let mut dropping = site.cluster.connect("postgres");
    std::thread::scope(|scope| {
        let drop = scope.spawn(|| {
            run(&mut dropping, "SET synchronous_commit = on");
            run(&mut dropping, "DROP DATABASE agent");
        });
        let waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        let pid: i32 = retry_until(PATIENCE, "the commit to wait", || {
            site.admin.query_opt(waiting, &[]).expect("sessions").map(|row| row.get(0))
        });
        site.admin.execute("SELECT pg_cancel_backend($1)", &[&pid]).expect("a cancel");
        drop.join().expect("the database to be dropped");
    });
    wait_until(PATIENCE, "the files of the database to be gone", || {
        !files(&site.cluster).iter().any(&of_database)
    });
}

/// A command that fails leaves the database as it was: with a worker, and soon.
#[test]
fn a_command_that_fails_brings_the_worker_back() {
    let mut site = Site::new();
    site.prepare(DATABASE, false);
    let mut visitor = site.cluster.connect(DATABASE);
    let result = site.admin.batch_execute("DROP DATABASE agent");
    memory_agent_e2e::expect_error(result, "55006");
    run(&mut visitor, "SET memory_agent.user_id = 'alice'");
    visitor.execute("SELECT memory_ingest('s', 'user', 'Turn 1.')", &[]).expect("ingest");
    site.turns = 1;
    site.goes_on(DATABASE);
}

#[test]
fn who_may_not_drop_a_database_disturbs_nobody() {
    let mut site = Site::new();
    run(&mut site.admin, "CREATE ROLE stranger LOGIN");
    // A worker that has done something: the first one may end because it came before the extension.
    site.prepare(DATABASE, true);
    site.goes_on(DATABASE);
    let before = worker(&mut site.admin, DATABASE);
    let mut stranger = site.cluster.connect_as("postgres", "stranger");
    for command in ["DROP DATABASE agent", "ALTER DATABASE agent RENAME TO mine"] {
        memory_agent_e2e::expect_error(stranger.batch_execute(command), "42501");
    }
    assert_eq!(worker(&mut site.admin, DATABASE), before);
}
