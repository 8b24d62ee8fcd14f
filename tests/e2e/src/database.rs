//! A database with the extension, one per test.

use crate::Cluster;
use postgres::Client;

/// A database of a cluster in which `memory_agent` was created.
#[derive(Clone, Copy, Debug)]
pub struct Database<'a> {
    cluster: &'a Cluster,
    name: &'a str,
}

impl Cluster {
    /// Creates a database with the extension and what it needs. With `SCHEMA_VERSION` in the environment
    /// it gets that version's schema: a suite that is older than the newest one has to pass there too.
    ///
    /// # Panics
    /// If the extension is not installed, or the name is taken: use the test's name.
    pub fn database<'a>(&'a self, name: &'a str) -> Database<'a> {
        let version = std::env::var("SCHEMA_VERSION")
            .map_or_else(|_| String::new(), |version| format!("VERSION '{version}'"));
        self.plain_database(name)
            .batch_execute(&format!("CREATE EXTENSION memory_agent {version} CASCADE"))
            .unwrap_or_else(|error| panic!("CREATE EXTENSION: {error:?}. Run `make install`."));
        Database { cluster: self, name }
    }

    /// Creates a database without the extension and connects to it.
    pub fn plain_database(&self, name: &str) -> Client {
        self.connect("postgres")
            .batch_execute(&format!("CREATE DATABASE \"{}\"", name.replace('"', "\"\"")))
            .unwrap_or_else(|error| panic!("CREATE DATABASE {name}: {error:?}"));
        self.connect(name)
    }
}

impl Database<'_> {
    /// The database's name.
    pub fn name(&self) -> &str {
        self.name
    }

    /// A superuser's session, its identity `alice`.
    pub fn connect(&self) -> Client {
        self.connect_as("postgres")
    }

    /// A session of any role, its identity `alice`.
    pub fn connect_as(&self, role: &str) -> Client {
        let mut client = self.cluster.connect_as(self.name, role);
        client
            .batch_execute("SET memory_agent.user_id = 'alice'")
            .expect("the identity can be set");
        client
    }
}
