//! Where things are measured: one private cluster with the installed extension, and what of the
//! installation the raw models need.

use crate::Result;
use memory_agent_e2e::{Client, Cluster, wait_until};
use std::path::PathBuf;
use std::thread::available_parallelism;
use std::time::Duration;

/// Loading the models takes a second or two, longer on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Most threads that the model server takes by default.
const MOST_THREADS: usize = 4;

/// A running cluster.
pub struct Environment {
    pub cluster: Cluster,
    /// Threads of the model server, and of the raw models it is compared with.
    pub threads: usize,
    pub model_directory: PathBuf,
    /// The name of the reranker.
    pub reranker: String,
    pub onnxruntime: PathBuf,
    server_version: String,
}

impl Environment {
    /// A cluster with the defaults, or with another reranker.
    pub fn start(reranker: Option<&str>) -> Result<Self> {
        let threads = available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
        let mut builder = Cluster::builder();
        if let Some(name) = reranker {
            builder = builder.setting("memory_agent.rerank_model", name);
        }
        let cluster = builder
            .preload(true)
            .setting("shared_buffers", "256MB")
            .setting("max_wal_size", "4GB")
            .setting("memory_agent.inference_threads", threads)
            .start();
        let mut client = cluster.connect("postgres");
        let directory = |client: &mut Client, name: &str| -> Result<PathBuf> {
            let row =
                client.query_one("SELECT setting FROM pg_config WHERE name = $1", &[&name])?;
            Ok(PathBuf::from(row.get::<_, String>(0)).join("memory_agent"))
        };
        let model_directory = directory(&mut client, "SHAREDIR")?.join("models");
        let onnxruntime = directory(&mut client, "PKGLIBDIR")?.join("libonnxruntime.so");
        let server_version = client.query_one("SHOW server_version", &[])?.get(0);
        let reranker = client.query_one("SHOW memory_agent.rerank_model", &[])?.get(0);
        Ok(Self { cluster, threads, model_directory, reranker, onnxruntime, server_version })
    }

    /// A new database with the extension, its models loaded, and a session in it.
    pub fn database(&self, name: &str) -> Result<Client> {
        self.cluster.database(name);
        let mut client = self.cluster.connect(name);
        wait_until(PATIENCE, "the models", || {
            let ready = "SELECT count(*) = 2 FROM memory_status() \
                          WHERE component IN ('embedder', 'reranker') AND state = 'loaded'";
            client.query_one(ready, &[]).is_ok_and(|row| row.get(0))
        });
        Ok(client)
    }

    /// The machine and the software, in one line.
    pub fn describe(&self) -> String {
        format!(
            "memory_agent {}, PostgreSQL {}, {}, {} on {} threads, fsync off",
            env!("CARGO_PKG_VERSION"),
            self.server_version,
            processor(),
            self.reranker,
            self.threads
        )
    }
}

/// The processor and the number of its cores.
pub fn processor() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown processor", |(_, name)| name);
    format!("{cpu}, {} cores", available_parallelism().map_or(1, usize::from))
}

/// A string as an SQL literal.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A vector as an SQL literal of pgvector.
pub fn vector_literal(vector: &[f32]) -> String {
    let numbers: Vec<String> = vector.iter().map(f32::to_string).collect();
    format!("'[{}]'", numbers.join(","))
}
