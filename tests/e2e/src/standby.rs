//! Streaming replication: a standby made from a base backup of a running cluster.

use crate::expect::wait_until;
use crate::{Builder, Cluster, binaries};
use std::path::Path;
use std::time::Duration;

impl Cluster {
    /// Copies the running cluster with `pg_basebackup` into a new directory `target`.
    /// `arguments` are added, `-R` say.
    pub fn base_backup(&self, target: &Path, arguments: &[&str]) {
        binaries::run(
            binaries::command("pg_basebackup")
                .arg("-h")
                .arg(self.socket_directory())
                .args(["-U", "postgres", "-X", "stream", "-c", "fast", "--no-sync"])
                .args(arguments)
                .arg("-D")
                .arg(target),
        );
    }

    /// Starts a cluster of its own on a base backup of this one, with this one's settings.
    pub fn clone_running(&self, change: impl FnOnce(Builder) -> Builder) -> Cluster {
        change(self.builder_with_same_settings()).start_from(|data| self.base_backup(data, &[]))
    }

    /// Starts a hot standby that follows this cluster.
    pub fn standby(&self) -> Cluster {
        self.builder_with_same_settings()
            .setting("hot_standby", "on")
            .start_from(|data| self.base_backup(data, &["-R"]))
    }

    /// Waits until `standby` has replayed everything that this cluster has written so far.
    pub fn wait_for_replay(&self, standby: &Cluster) {
        let position: String = self
            .connect("postgres")
            .query_one("SELECT pg_current_wal_flush_lsn()::text", &[])
            .expect("the position in the log")
            .get(0);
        let mut reader = standby.connect("postgres");
        let reached = format!("SELECT pg_last_wal_replay_lsn() >= '{position}'::pg_lsn");
        wait_until(Duration::from_secs(60), "the standby to catch up", || {
            reader.query_one(&reached, &[]).expect("the standby's position").get(0)
        });
    }
}
