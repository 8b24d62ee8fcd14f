//! What the supervisor tells the other processes of the cluster: a small file beside the socket,
//! locked by the supervisor for as long as it lives. Without the lock the file means nothing.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::path::Path;

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
    if !is_locked(&file) {
        return None;
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
    /// Takes the lock; `None` when another supervisor has it.
    pub fn take() -> std::io::Result<Option<Self>> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(PATH)?;
        if !try_lock(&file) {
            return Ok(None);
        }
        let mut lock = Self { file, last: None };
        lock.write(&State::Starting);
        Ok(Some(lock))
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

/// A lock on the whole file that belongs to the open file description (fcntl(2), F_OFD_SETLK): it
/// can be looked at without being taken.
fn whole_file() -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

#[allow(unsafe_code)]
fn try_lock(file: &File) -> bool {
    // SAFETY: the descriptor is open, the structure is complete.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &whole_file()) == 0 }
}

#[allow(unsafe_code)]
fn is_locked(file: &File) -> bool {
    let mut lock = whole_file();
    // SAFETY: as above; the call fills the structure in.
    let asked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut lock) == 0 };
    asked && i32::from(lock.l_type) != libc::F_UNLCK
}
