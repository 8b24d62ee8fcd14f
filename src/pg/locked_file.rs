//! A line of text in a small file that belongs to one process for as long as that lives: the process holds a lock
//! on it, so that others can tell what a living process says from what a dead one left behind. The
//! kernel drops the lock with the process, however that ends.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Where these files are, relative to the data directory, the working directory of every process of the
/// cluster.
pub const DIRECTORY: &str = "pg_stat_tmp";

/// Ends the text: a shorter text is written over a longer one in one write, without truncation, so
/// that a reader never sees parts of both.
const END: u8 = b'\n';

/// What a file says, and whether its owner is alive.
pub struct Content {
    pub text: String,
    pub is_locked: bool,
}

/// Seconds since 1970, for what the files say of times.
pub fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// What follows a prefix in the names of the files that have it.
pub fn names(prefix: &str) -> Vec<String> {
    let Ok(directory) = std::fs::read_dir(DIRECTORY) else { return Vec::new() };
    let names = directory.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| Some(name.strip_prefix(prefix)?.to_owned())).collect()
}

/// Reads a file; `None` when there is none.
pub fn read(path: &Path) -> Option<Content> {
    let mut file = File::open(path).ok()?;
    let is_locked = is_locked(&file);
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    let end = bytes.iter().position(|&byte| byte == END).unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(&bytes[..end]).into_owned();
    Some(Content { text, is_locked })
}

/// The owner's hold on a file.
pub struct LockedFile {
    file: File,
    written: Option<String>,
}

impl LockedFile {
    /// Makes the file if there is none and locks it; `None` when another process has it locked.
    pub fn take(path: &Path) -> io::Result<Option<Self>> {
        loop {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(path)?;
            if !try_lock(&file)? {
                return Ok(None);
            }
            // Another process may have removed the file between opening and locking it.
            let locked = file.metadata()?;
            match std::fs::metadata(path) {
                Ok(there) if (there.dev(), there.ino()) == (locked.dev(), locked.ino()) => {
                    return Ok(Some(Self { file, written: None }));
                }
                _ => {}
            }
        }
    }

    /// The file once more, for a process that has it locked already.
    pub fn again(path: &Path) -> io::Result<Self> {
        Ok(Self { file: OpenOptions::new().write(true).open(path)?, written: None })
    }

    /// Replaces the text. A full disk only costs the message.
    pub fn write(&mut self, text: &str) {
        if self.written.as_deref() == Some(text) {
            return;
        }
        let mut bytes = text.replace('\n', " ").into_bytes();
        bytes.push(END);
        if self.file.write_all_at(&bytes, 0).is_ok() {
            self.written = Some(text.to_owned());
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

fn try_lock(file: &File) -> io::Result<bool> {
    // SAFETY: the descriptor is open, the structure is complete.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &whole_file()) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => Ok(false),
        _ => Err(error),
    }
}

fn is_locked(file: &File) -> bool {
    let mut lock = whole_file();
    // SAFETY: as above; the call fills the structure in.
    let asked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut lock) == 0 };
    asked && i32::from(lock.l_type) != libc::F_UNLCK
}
