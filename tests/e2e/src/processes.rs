//! What runs on this machine, read from `/proc`.

use crate::spawner;
use std::path::Path;

/// A process as `/proc` shows it.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// Its parent's id.
    pub parent: i32,
    /// One letter, as in ps(1): `R`, `S`, `Z` (a zombie), ...
    pub state: char,
    /// Its command line; PostgreSQL's processes write their role here.
    pub command: String,
}

impl Process {
    /// The process with this id, unless there is none.
    pub fn find(pid: i32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name may contain blanks and parentheses; the fields begin after the last one.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&bytes).replace('\0', " ").trim_end().to_owned();
        Some(Self { pid, parent, state, command })
    }
}

/// All processes that can be seen.
pub fn all() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_string_lossy().parse().ok())
        .filter_map(Process::find)
        .collect()
}

/// Every live process that works in this data directory or names it: the postmaster, its backends
/// and workers, the model server. Empty when a cluster left no orphans.
pub fn of_data_directory(data: &Path) -> Vec<Process> {
    let name = data.to_string_lossy();
    let works_there = |process: &Process| {
        let working_directory = std::fs::read_link(format!("/proc/{}/cwd", process.pid));
        working_directory.is_ok_and(|path| path.starts_with(data))
            || process.command.contains(&*name)
    };
    let (mut found, others): (Vec<_>, Vec<_>) =
        all().into_iter().filter(|process| process.state != 'Z').partition(works_there);
    // Only root may see where a model server works; its parent says whose it is.
    let parents: Vec<i32> = found.iter().map(|process| process.pid).collect();
    found.extend(others.into_iter().filter(|process| parents.contains(&process.parent)));
    found
}

/// The model servers of a data directory; one, unless a test broke something.
pub fn model_servers(data: &Path) -> Vec<Process> {
    of_data_directory(data)
        .into_iter()
        .filter(|process| process.command.contains("memory_agent_model_server"))
        .collect()
}

/// Sends a signal (`libc::SIGKILL`, ...) to a process that the test's own cluster started.
pub fn signal(pid: i32, signal: i32) {
    spawner::signal(pid, signal);
}
