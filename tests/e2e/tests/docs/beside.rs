//! The two servers of docs/managed.md: the memory server, which the other one reaches with a password, and one that
//! stands for a managed PostgreSQL, where nothing of the extension is loaded or created.

use crate::blocks::models_are_loaded_in;
use memory_agent_e2e::Cluster;

/// The database with memory, and that of the application.
pub const MEMORY: &str = "memory";
pub const MANAGED: &str = "app";
/// What the page calls the memory server, and the role that comes in there.
const HOST: &str = "memory.example.com";
const CALLER: &str = "memory_caller";

/// For the blocks `sql beside` and `sql managed`.
pub struct Beside {
    pub memory: Cluster,
    pub managed: Cluster,
}

impl Beside {
    pub fn start() -> Self {
        let memory = Cluster::builder().preload(true);
        let memory = memory.setting("memory_agent.identity", "required").start();
        models_are_loaded_in(&mut memory.database("models").connect());
        ask_for_a_password(&memory);
        drop(memory.plain_database(MEMORY));
        let managed = Cluster::builder().start();
        drop(managed.plain_database(MANAGED));
        Self { memory, managed }
    }

    /// A block whose memory server is this one.
    pub fn here(&self, block: &str) -> String {
        block.replace(HOST, &self.memory.socket_directory().to_string_lossy())
    }
}

/// dblink and postgres_fdw let a role that is no superuser connect only where a password is asked for.
fn ask_for_a_password(cluster: &Cluster) {
    let path = cluster.data().join("pg_hba.conf");
    let rules = std::fs::read_to_string(&path).expect("pg_hba.conf");
    let rules = format!("local all {CALLER} scram-sha-256\n{rules}");
    std::fs::write(&path, rules).expect("pg_hba.conf can be written");
    cluster.connect("postgres").batch_execute("SELECT pg_reload_conf()").expect("a reload");
}
