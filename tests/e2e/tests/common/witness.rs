//! Proof that a fault cost no session: PostgreSQL answers the crash of one of its processes by
//! ending all sessions, so a session that lives on has seen no crash.

use super::Session;
use memory_agent_e2e::Cluster;

/// An idle session and a place in the server's log.
pub struct Witness<'a> {
    cluster: &'a Cluster,
    session: Session,
    postmaster: i32,
    log_length: usize,
}

impl<'a> Witness<'a> {
    pub fn of(cluster: &'a Cluster, database: &str) -> Self {
        Self {
            cluster,
            session: Session::open(cluster, database),
            postmaster: cluster.postmaster_pid(),
            log_length: cluster.log().len(),
        }
    }

    /// # Panics
    /// If a process of PostgreSQL crashed since the witness was made.
    pub fn confirm_no_restart(&mut self) {
        let pid: i32 = self
            .session
            .client
            .query_one("SELECT pg_backend_pid()", &[])
            .expect("an idle session was lost")
            .get(0);
        assert_eq!(pid, self.session.pid);
        assert_eq!(self.cluster.postmaster_pid(), self.postmaster);
        let log = self.cluster.log();
        for sign in
            ["terminating any other active server processes", "was terminated by signal", "PANIC:"]
        {
            let line = log[self.log_length..].lines().find(|line| line.contains(sign));
            assert_eq!(line, None, "a process of PostgreSQL crashed");
        }
    }
}
