//! The supervisor of the model server, found and frozen. While it is frozen nothing repairs the
//! model server, so that a fault lasts as long as a test needs it.

use memory_agent_e2e::processes::{self, Process};
use memory_agent_e2e::{Cluster, retry_until};
use std::time::Duration;

/// The supervisors of a cluster; one, unless it just crashed or starts.
pub fn all(cluster: &Cluster) -> Vec<Process> {
    let mut found = cluster.processes();
    found.retain(|process| process.command.contains("memory_agent model supervisor"));
    found
}

/// The id of the supervisor, which is waited for.
pub fn pid(cluster: &Cluster) -> i32 {
    retry_until(Duration::from_secs(30), "a supervisor", || match all(cluster).as_slice() {
        [one] => Some(one.pid),
        _ => None,
    })
}

/// A process that is stopped until this is dropped.
pub struct Frozen(i32);

impl Frozen {
    /// Stops a process and waits until it is.
    pub fn new(pid: i32) -> Self {
        processes::signal(pid, libc::SIGSTOP);
        retry_until(Duration::from_secs(10), "a process to stop", || {
            Process::find(pid).filter(|process| process.state == 'T')
        });
        Self(pid)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        processes::signal(self.0, libc::SIGCONT);
    }
}
