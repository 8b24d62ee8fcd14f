//! What the supervisor tells the other processes of the cluster: a small file beside the socket,
//! locked by the supervisor for as long as it lives. Without the lock the file means nothing.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// Relative to the data directory, the working directory of every process of the cluster.
const PATH: &str = "pg_stat_tmp/memory_agent.supervisor";

/// How the model server is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It was started, or is about to be.
    Starting,
    /// It listens; the supervisor's pid, for [`ask_to_check`].
    Running(u32),
    /// It failed more than once; the reason.
    Failing(String),
}

impl State {
    fn to_text(&self) -> String {
        match self {
            Self::Starting => "starting".into(),
            Self::Running(pid) => format!("running {pid}"),
            Self::Failing(reason) => format!("failing {reason}"),
        }
    }

    fn from_text(text: &str) -> Self {
        match text.split_once(' ') {
            Some(("running", pid)) => pid.parse().map_or(Self::Starting, Self::Running),
            Some(("failing", reason)) => Self::Failing(reason.to_owned()),
            _ => Self::Starting,
        }
    }
}

/// The state, or `None` when no supervisor is alive.
pub fn read() -> Option<State> {
    let mut file = File::open(Path::new(PATH)).ok()?;
    if try_lock(&file, libc::LOCK_SH) {
        return None; // closing the file gives the lock back
    }
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    Some(State::from_text(&text))
}

/// Asks the supervisor to look whether its server answers: for a process that could not reach one
/// that is said to run. The signal is the one that also reloads settings; the lock proves that the
/// pid is the supervisor's.
#[allow(unsafe_code)]
pub fn ask_to_check() {
    if let Some(State::Running(pid)) = read() {
        // SAFETY: a signal to a process of the same cluster.
        unsafe { libc::kill(pid as i32, libc::SIGHUP) };
    }
}

/// The supervisor's hold on the file.
pub struct Lock {
    file: File,
    last: Option<State>,
}

impl Lock {
    /// Takes the lock; a reader may hold it for a moment, so this tries for a while.
    pub fn take(patience: Duration) -> Option<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(PATH).ok()?;
        let deadline = Instant::now() + patience;
        while !try_lock(&file, libc::LOCK_EX) {
            if Instant::now() >= deadline {
                return None;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut lock = Self { file, last: None };
        lock.write(&State::Starting);
        Some(lock)
    }

    /// Publishes a state. A full disk only costs the message.
    pub fn write(&mut self, state: &State) {
        if self.last.as_ref() == Some(state) {
            return;
        }
        let text = state.to_text();
        let written = self
            .file
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.file.write_all(text.as_bytes()))
            .and_then(|()| self.file.set_len(text.len() as u64));
        if written.is_ok() {
            self.last = Some(state.clone());
        }
    }
}

#[allow(unsafe_code)]
fn try_lock(file: &File, mode: i32) -> bool {
    // SAFETY: the descriptor is open.
    unsafe { libc::flock(file.as_raw_fd(), mode | libc::LOCK_NB) == 0 }
}
