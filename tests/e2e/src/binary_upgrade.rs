//! `pg_upgrade`: a new cluster takes over the files of an old one.

use crate::{Cluster, StopMode, binaries};

impl Cluster {
    /// Takes over everything that `old` holds; this one must be new. Stops both, starts this one.
    /// PostgreSQL upgrades to its own version too, so one installation is enough.
    pub fn upgrade_from(&self, old: &Cluster) {
        for cluster in [old, self] {
            cluster.stop(StopMode::Fast);
        }
        let mut command = binaries::command("pg_upgrade");
        command
            .args(["-U", "postgres", "-b"])
            .arg(binaries::bindir())
            .arg("-B")
            .arg(binaries::bindir())
            .arg("-d")
            .arg(old.data())
            .arg("-D")
            .arg(self.data())
            // It writes its log and its sockets where it is.
            .current_dir(self.socket_directory());
        binaries::run(&mut command);
        self.start();
    }
}
