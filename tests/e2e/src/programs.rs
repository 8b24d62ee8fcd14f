//! pg_dump and its kin, of the same installation as the server.

use crate::{Cluster, binaries};
use std::process::Command;

/// The client programs, ready to talk to one cluster. They may run as the user who runs the tests, for
/// the cluster trusts every client that reaches its socket.
#[derive(Clone, Copy, Debug)]
pub struct Programs<'a> {
    cluster: &'a Cluster,
}

impl<'a> Programs<'a> {
    /// Those of the installation that the cluster runs on.
    pub fn of(cluster: &'a Cluster) -> Self {
        Self { cluster }
    }

    /// A path in the cluster's directory, which is removed with it.
    pub fn file(&self, name: &str) -> String {
        self.cluster.socket_directory().join(name).to_string_lossy().into_owned()
    }

    /// `pg_dump` of a database.
    pub fn dump(&self, database: &str, arguments: &[&str]) {
        self.run("pg_dump", &[arguments, &["-d", database]].concat());
    }

    /// The table of contents of an archive, in the form that `pg_restore -L` reads.
    pub fn list(&self, archive: &str) -> String {
        let path = self.file("list");
        self.call("pg_restore", &["-l", "-f", &path, archive]);
        std::fs::read_to_string(path).expect("the table of contents")
    }

    /// Restores an archive to its first error.
    pub fn restore(&self, database: &str, arguments: &[&str], archive: &str) {
        self.run(
            "pg_restore",
            &[arguments, &["--exit-on-error", "-d", database, archive]].concat(),
        );
    }

    /// Restores an archive of a version whose functions are not all there any more, and returns what was wrong.
    pub fn restore_old(&self, database: &str, archive: &str) -> String {
        let host = self.cluster.socket_directory().to_string_lossy();
        let output = Command::new(binaries::bindir().join("pg_restore"))
            .env_clear()
            .args(["-h", &host, "-U", "postgres", "-d", database, archive])
            .output()
            .unwrap_or_else(|error| panic!("pg_restore: {error}"));
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Runs a script to its first error.
    pub fn execute(&self, database: &str, script: &str) {
        self.run("psql", &["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", database, "-f", script]);
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let host = self.cluster.socket_directory().to_string_lossy();
        self.call(program, &[&["-h", &host, "-U", "postgres"], arguments].concat());
    }

    fn call(&self, program: &str, arguments: &[&str]) {
        let output = Command::new(binaries::bindir().join(program))
            .env_clear()
            .args(arguments)
            .output()
            .unwrap_or_else(|error| panic!("{program}: {error}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {arguments:?}: {}\n{said}", output.status);
        assert!(said.is_empty(), "{program} {arguments:?} complains:\n{said}");
    }
}
