//! Directories of clusters: where they are, who owns them, and the data directory that all new
//! clusters of a test binary are copied from.

use crate::binaries::{self, run, server_user};
use std::os::unix::fs::{DirBuilderExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// A new directory of the server's user, readable by nobody else.
pub fn new_directory(purpose: &str) -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    // Short, because the paths of Unix sockets are limited to 107 bytes.
    let path =
        std::env::temp_dir().join(format!("ma_e2e_{}_{purpose}{number}", std::process::id()));
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    give_to_server(&path);
    path
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
