//! PgBouncer in front of a cluster, in transaction mode: clients share its few connections to the server.

use crate::expect::wait_until;
use crate::{Cluster, binaries, files, spawner};
use postgres::Client;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
/// Where Debian puts it; `PGBOUNCER` names another one.
const DEFAULT_PROGRAM: &str = "/usr/sbin/pgbouncer";

/// A pooler, which ends with the test.
#[derive(Debug)]
pub struct Pooler {
    directory: PathBuf,
    process: Child,
}

impl Pooler {
    /// Starts PgBouncer with at most `connections` to each database of the cluster. It takes these
    /// roles without a password.
    ///
    /// # Panics
    /// If there is no PgBouncer, with the target that installs it.
    pub fn start(cluster: &Cluster, connections: usize, roles: &[&str]) -> Self {
        let directory = files::new_directory("p");
        let write = |name: &str, text: &str| {
            let path = directory.join(name);
            std::fs::write(&path, text).unwrap_or_else(|error| panic!("{name}: {error}"));
            files::give_to_server(&path);
            path
        };
        let users: String = roles.iter().map(|role| format!("\"{role}\" \"\"\n")).collect();
        let users = write("users", &users);
        let configuration = write(
            "pgbouncer.ini",
            &format!(
                "[databases]\n* = host={} port=5432\n[pgbouncer]\nlisten_port = 6432\nunix_socket_dir = {}\n\
                 auth_type = trust\nauth_file = {}\npool_mode = transaction\n\
                 default_pool_size = {connections}\nmax_client_conn = 100\nlogfile = {}\n",
                cluster.socket_directory().display(),
                directory.display(),
                users.display(),
                directory.join("log").display(),
            ),
        );
        let program = std::env::var("PGBOUNCER").unwrap_or_else(|_| DEFAULT_PROGRAM.to_owned());
        let mut command = Command::new(&program);
        binaries::as_server_user(&mut command);
        command.arg("-q").arg(configuration);
        let process = spawner::spawn(command)
            .unwrap_or_else(|error| panic!("{program}: {error}. Run `scripts/setup --tests`."));
        let pooler = Self { directory, process };
        wait_until(PATIENCE, "the pooler to take connections", || {
            pooler.config("postgres", roles[0]).connect(postgres::NoTls).is_ok()
        });
        pooler
    }

    /// How to connect through it.
    pub fn config(&self, database: &str, role: &str) -> postgres::Config {
        let mut config = Client::configure();
        config.host_path(&self.directory).port(6432).user(role).dbname(database);
        config
    }

    /// A client of the pooler. PgBouncer before 1.21 knows no prepared statements in transaction mode:
    /// use `simple_query`, `batch_execute` and `query_typed`.
    pub fn connect(&self, database: &str, role: &str) -> Client {
        self.config(database, role)
            .connect(postgres::NoTls)
            .unwrap_or_else(|error| panic!("{role} cannot connect to {database}: {error:?}"))
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        spawner::signal(self.process.id() as i32, libc::SIGKILL);
        let _ = self.process.wait();
        files::dispose(&self.directory);
    }
}
