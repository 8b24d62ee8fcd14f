//! PostgreSQL's programs, and the user that may run them.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const DEFAULT_PG_CONFIG: &str = "/usr/lib/postgresql/15/bin/pg_config";

/// The directory of `initdb`, `postgres` and the clients: of the `pg_config` that `PG_CONFIG`
/// names, by default Debian's 15.
///
/// # Panics
/// If there is no such server, with the target that installs it.
pub fn bindir() -> &'static Path {
    static BINDIR: OnceLock<PathBuf> = OnceLock::new();
    BINDIR.get_or_init(|| {
        let pg_config = std::env::var("PG_CONFIG").unwrap_or_else(|_| DEFAULT_PG_CONFIG.to_owned());
        let output = Command::new(&pg_config).arg("--bindir").output().unwrap_or_else(|error| {
            panic!("{pg_config}: {error}. Run `make setup`, or set PG_CONFIG.")
        });
        PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
    })
}

/// User and group that run servers: root may not, so `postgres` stands in; `None` is oneself.
pub fn server_user() -> Option<(u32, u32)> {
    static USER: OnceLock<Option<(u32, u32)>> = OnceLock::new();
    *USER.get_or_init(|| {
        let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        if !is_root() {
            return None;
        }
        let ids = passwd.lines().find_map(|line| {
            let mut fields = line.split(':');
            let (name, _, uid, gid) =
                (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
            (name == "postgres").then_some((uid.parse().ok()?, gid.parse().ok()?))
        });
        Some(
            ids.expect(
                "root may not run PostgreSQL, and there is no user postgres: run `make setup`",
            ),
        )
    })
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// A program of PostgreSQL, to be run as the server's user. The caller's PG* variables are for some
/// other server, and `RUST_BACKTRACE` is for tests that say so.
pub fn command(program: &str) -> Command {
    let mut command = Command::new(bindir().join(program));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PG") || name == "RUST_BACKTRACE" {
            command.env_remove(name);
        }
    }
    as_server_user(&mut command);
    command
}

/// Lets a program run as the server's user, in a directory that this user may enter.
pub fn as_server_user(command: &mut Command) {
    if let Some((uid, gid)) = server_user() {
        command.uid(uid).gid(gid);
    }
    command.current_dir("/");
}

/// Runs a program to its end.
///
/// # Panics
/// With what it wrote to standard error, if it fails.
pub fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?} failed, {}:\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}
