//! What the supervisor tells the other processes of the cluster: a small file beside the socket,
//! locked by the supervisor for as long as it lives. Without the lock the file means nothing.

use crate::pg::locked_file::{self, LockedFile};
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;

/// Relative to the data directory, the working directory of every process of the cluster.
const PATH: &str = "pg_stat_tmp/memory_agent.supervisor";

/// How the model server is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It was started, or is about to be.
    Starting,
    /// It listens; the supervisor's pid, for [`ask_to_check`].
    Running(Pid),
    /// It failed more than once; the reason.
    Failing(String),
}

impl State {
    fn to_text(&self) -> String {
        match self {
            Self::Starting => "starting".into(),
            Self::Running(pid) => format!("running {}", pid.as_raw_nonzero()),
            Self::Failing(reason) => format!("failing {reason}"),
        }
    }

    fn from_text(text: &str) -> Self {
        match text.split_once(' ') {
            Some(("running", pid)) => {
                pid.parse().ok().and_then(Pid::from_raw).map_or(Self::Starting, Self::Running)
            }
            Some(("failing", reason)) => Self::Failing(reason.to_owned()),
            _ => Self::Starting,
        }
    }
}

/// The state, or `None` when no supervisor is alive.
pub fn read() -> Option<State> {
    let content = locked_file::read(Path::new(PATH))?;
    content.is_locked.then(|| State::from_text(&content.text))
}

/// Asks the supervisor to look whether its server answers: for a process that could not reach one
/// that is said to run. The signal is the one that also reloads settings; the lock proves that the
/// pid is the supervisor's.
pub fn ask_to_check() {
    if let Some(State::Running(pid)) = read() {
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
        self.0.write(&state.to_text());
    }
}
