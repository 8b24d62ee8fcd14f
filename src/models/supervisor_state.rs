//! What the supervisor tells the other processes of the cluster: a small file beside the socket,
//! locked by the supervisor for as long as it lives. Without the lock the file means nothing.

use crate::pg::locked_file::{self, LockedFile};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Relative to the data directory, the working directory of every process of the cluster.
const PATH: &str = "pg_stat_tmp/memory_agent.supervisor";

/// How the model server is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// It was started, or is about to be.
    Starting,
    /// It listens; the supervisor's pid, for [`ask_to_check`].
    Running(i32),
    /// It failed more than once; the reason.
    Failing(String),
}

/// The state, or `None` when no supervisor is alive.
pub fn read() -> Option<State> {
    let content = locked_file::read(Path::new(PATH))?;
    content.is_locked.then(|| serde_json::from_str(&content.text).unwrap_or(State::Starting))
}

/// Asks the supervisor to look whether its server answers: for a process that could not reach one
/// that is said to run. The signal is the one that also reloads settings; the lock proves that the
/// pid is the supervisor's.
pub fn ask_to_check() {
    if let Some(State::Running(pid)) = read()
        && let Some(pid) = Pid::from_raw(pid)
    {
        let _ = kill_process(pid, Signal::HUP);
    }
}

/// The supervisor's hold on the file.
pub struct Lock(LockedFile);

impl Lock {
    /// Takes the lock; `None` when another supervisor has it.
    pub fn take() -> std::io::Result<Option<Self>> {
        Ok(LockedFile::take(Path::new(PATH))?.map(|file| {
            let mut lock = Self(file);
            lock.write(&State::Starting);
            lock
        }))
    }

    /// Publishes a state.
    pub fn write(&mut self, state: &State) {
        self.0.write(&serde_json::to_string(state).unwrap_or_default());
    }
}
