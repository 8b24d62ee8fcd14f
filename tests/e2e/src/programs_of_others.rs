//! Clients and drivers that others wrote, which `scripts/setup --tests` fetches by files with their pins.

use std::path::PathBuf;
use std::process::Command;

/// Where one is, by the file with its pins.
///
/// # Panics
/// If it is missing.
pub fn installed(folder: &str, pins: &str) -> PathBuf {
    let sum = Command::new("sha256sum").arg(pins).output().expect("sha256sum");
    let sum = String::from_utf8_lossy(&sum.stdout).into_owned();
    let cache = match (std::env::var_os("MEMORY_AGENT_CACHE"), std::env::var_os("HOME")) {
        (Some(cache), _) => PathBuf::from(cache),
        (None, home) => PathBuf::from(home.unwrap_or_default()).join(".cache/memory_agent"),
    };
    let home = cache.join(format!("{folder}-{}", &sum[..12]));
    assert!(home.is_dir(), "{} is missing: run `scripts/setup --tests`", home.display());
    home
}

/// Whether the pinned wheels are for this machine's Python, which is Debian 12's.
#[must_use]
pub fn has_their_python() -> bool {
    let version = Command::new("/usr/bin/python3").arg("--version").output();
    let version = version.map(|output| output.stdout).unwrap_or_default();
    let is_theirs = String::from_utf8_lossy(&version).starts_with("Python 3.11.");
    if !is_theirs {
        eprintln!("left out: the clients' wheels are for Python 3.11");
    }
    is_theirs
}
