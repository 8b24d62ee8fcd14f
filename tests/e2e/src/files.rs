//! Directories of clusters: where they are, who owns them, and the data directory that all new
//! clusters of a test binary are copied from.

use crate::binaries::{self, run, server_user};
use crate::processes::Process;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Once, OnceLock};

/// Names of directories begin with this and the id of the process that made them.
const PREFIX: &str = "ma_e2e_";

/// A new directory of the server's user, readable by nobody else.
pub fn new_directory(purpose: &str) -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    static CLEANED: Once = Once::new();
    CLEANED.call_once(remove_abandoned);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    // Short, because the paths of Unix sockets are limited to 107 bytes.
    let name = format!("{PREFIX}{}_{purpose}{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    give_to_server(&path);
    path
}

/// Removes directories whose test binary was killed before it could. Where processes are counted anew each time, as in a
/// namespace, it may have had this one's id.
fn remove_abandoned() {
    let Ok(entries) = std::fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('_').next());
        let owner = owner.and_then(|pid| pid.parse().ok());
        if owner.is_some_and(|pid| {
            pid == std::process::id().cast_signed() || Process::find(pid).is_none()
        }) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Removes the directory of a cluster, or with `KEEP_CLUSTER` set puts it where it stays.
pub fn dispose(directory: &Path) {
    if std::env::var_os("KEEP_CLUSTER").is_none() {
        let _ = std::fs::remove_dir_all(directory);
        return;
    }
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let kept = directory.with_file_name(format!("kept_{name}"));
    match std::fs::rename(directory, &kept) {
        Ok(()) => eprintln!("kept {}", kept.display()),
        Err(error) => eprintln!("{} stays: {error}", directory.display()),
    }
}

/// Makes a file or directory the server's own.
pub fn give_to_server(path: &Path) {
    if let Some((uid, gid)) = server_user() {
        chown(path, Some(uid), Some(gid))
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

/// A fresh data directory at `target`: a copy of one that `initdb` made once for this process.
pub fn copy_initial_data(target: &Path) {
    let initial = INITIAL.get_or_init(|| {
        let directory = new_directory("initdb");
        run(binaries::command("initdb")
            .args(["--no-sync", "--auth=trust", "--username=postgres"])
            .args(["--encoding=UTF8", "--locale=C.UTF-8"])
            .arg("-D")
            .arg(directory.join("data")));
        directory
    });
    run(Command::new("cp").arg("-a").arg(initial.join("data")).arg(target));
}

static INITIAL: OnceLock<PathBuf> = OnceLock::new();

/// Removes what [`copy_initial_data`] copies from; for the end of the process.
pub fn remove_initial_data() {
    if let Some(directory) = INITIAL.get() {
        let _ = std::fs::remove_dir_all(directory);
    }
}
