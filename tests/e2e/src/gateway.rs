//! The gateway, as a process of its own in front of a cluster.

use crate::expect::retry_until;
use crate::{Cluster, binaries, spawner};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// A running `memory-agent serve`, which ends with the test.
#[derive(Debug)]
pub struct Gateway {
    process: Child,
    log: Arc<Mutex<Vec<Value>>>,
    address: SocketAddr,
}

impl Gateway {
    /// How a role reaches a database of a cluster, as `--database` takes it.
    pub fn database(cluster: &Cluster, role: &str, database: &str) -> String {
        format!(
            "host={} user={role} dbname={database} connect_timeout=10",
            cluster.socket_directory().display()
        )
    }

    /// Starts it on a port of its own and waits until it listens.
    ///
    /// # Panics
    /// With its log, if it ends instead.
    pub fn start(arguments: &[&str]) -> Self {
        Self::try_start(arguments).unwrap_or_else(|log| panic!("it does not start: {log:#?}"))
    }

    /// The same; its log, if it ends instead.
    ///
    /// # Errors
    /// See above.
    pub fn try_start(arguments: &[&str]) -> Result<Self, Vec<Value>> {
        let mut command = Command::new(binaries::bindir().join("memory-agent"));
        command.arg("serve").args(arguments);
        if !arguments.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        command.env_clear().stdin(Stdio::null()).stderr(Stdio::piped());
        let mut process = spawner::spawn(command)
            .unwrap_or_else(|error| panic!("memory-agent: {error}. Run `make install`."));
        let lines = BufReader::new(process.stderr.take().expect("a pipe"));
        let log = Arc::new(Mutex::new(Vec::new()));
        let written = Arc::clone(&log);
        let reader = std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).unwrap_or(Value::String(line));
                written.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
        let mut reader = Some(reader);
        let found = retry_until(PATIENCE, "the gateway to listen", || {
            let address = entries(&log, "listening").first().map(|line| line["address"].clone());
            if let Some(address) = address {
                return Some(address.as_str().and_then(|address| address.parse().ok()));
            }
            let is_over = process.try_wait().ok().flatten().is_some();
            // What it wrote last is read before it is said that there is no more.
            let reader = if is_over { reader.take() } else { None };
            reader.map(|reader| {
                let _ = reader.join();
                None
            })
        });
        match found {
            Some(address) => Ok(Self { process, log, address }),
            None => Err(log.lock().unwrap_or_else(PoisonError::into_inner).clone()),
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process.
    pub fn pid(&self) -> i32 {
        self.process.id() as i32
    }

    /// What it logged of an event.
    pub fn logged(&self, event: &str) -> Vec<Value> {
        entries(&self.log, event)
    }

    /// Everything it logged, as text.
    pub fn log(&self) -> String {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.iter().map(|line| format!("{line}\n")).collect()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: i32) {
        spawner::signal(self.pid(), signal);
    }

    /// Waits for its end; whether it was a success.
    pub fn wait(&mut self) -> bool {
        retry_until(PATIENCE, "the gateway to end", || self.process.try_wait().ok().flatten())
            .success()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        spawner::signal(self.pid(), libc::SIGKILL);
        let _ = self.process.wait();
    }
}

fn entries(log: &Mutex<Vec<Value>>, event: &str) -> Vec<Value> {
    let log = log.lock().unwrap_or_else(PoisonError::into_inner);
    log.iter().filter(|line| line["event"] == event).cloned().collect()
}
