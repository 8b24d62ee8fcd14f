//! Random statements of random roles, in transactions with savepoints and rollbacks that run side by side:
//! whenever one commits, the active entries of a table are its rows, no more and no less.

use crate::count;
use crate::random::Random;
use crate::random_statements::{CHECKS, SETUP, Table};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, shared, sqlstate};
use std::time::{Duration, Instant};

/// How long statements are made up.
const TIME: Duration = Duration::from_secs(15);
/// How long at most, while there are too few commits and entries that ended to say anything.
const PATIENCE: Duration = Duration::from_secs(180);
const ENOUGH: i64 = 25;
/// The errors that the statements have coming by themselves: double keys, waits, serialization, policies,
/// a row that is of another partition, TRUNCATE while a key is still to be checked, a row that is changed
/// twice by one statement or by a trigger meanwhile.
const EXPECTED: [&str; 10] =
    ["23505", "23503", "23514", "55006", "40001", "40P01", "55P03", "42501", "21000", "27000"];

/// A role's session, and how many savepoints its transaction has.
struct Session {
    client: Client,
    savepoints: Option<usize>,
}

impl Session {
    /// Runs a statement; false if it failed as statements may.
    fn execute(&mut self, statement: &str) -> bool {
        match self.client.batch_execute(statement) {
            Ok(()) => true,
            Err(error) => {
                let code = sqlstate(&error).to_owned();
                assert!(EXPECTED.contains(&code.as_str()), "{statement}: {error:?}");
                false
            }
        }
    }

    /// Ends the transaction, if one is open; true if something was committed.
    fn commit(&mut self) -> bool {
        if self.savepoints.take().is_none() {
            return false;
        }
        let is_committed = self.execute("COMMIT");
        if !is_committed {
            // A deferred error has ended it; this is for one that left it open.
            run(&mut self.client, "ROLLBACK");
        }
        is_committed
    }

    /// One step of the session's life; true if it committed.
    fn step(&mut self, random: &mut Random, table: Table) -> bool {
        let Some(savepoints) = self.savepoints else {
            let level = ["READ COMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];
            let level = level[random.below(4) as usize];
            run(&mut self.client, &format!("BEGIN ISOLATION LEVEL {level}"));
            self.savepoints = Some(0);
            return false;
        };
        match random.below(20) {
            0..4 => return self.commit(),
            4 => {
                run(&mut self.client, "ROLLBACK");
                self.savepoints = None;
            }
            5..7 => {
                run(&mut self.client, &format!("SAVEPOINT s{savepoints}"));
                self.savepoints = Some(savepoints + 1);
            }
            7 if savepoints > 0 => {
                let target = random.below(savepoints as u64) as usize;
                run(&mut self.client, &format!("ROLLBACK TO s{target}"));
                self.savepoints = Some(target + 1);
            }
            _ => {
                let statement = table.statement(random);
                if !self.execute(&statement) {
                    let back = savepoints.checked_sub(1);
                    let undo =
                        back.map_or("ROLLBACK".to_owned(), |last| format!("ROLLBACK TO s{last}"));
                    run(&mut self.client, &undo);
                    self.savepoints = back.map(|last| last + 1);
                }
            }
        }
        false
    }
}

/// Keys and contents in which a table and memory differ.
fn differences(judge: &mut Client) -> String {
    let each = CHECKS.map(|(table, rows)| {
        format!(
            "SELECT format('%s %s: %s, memory %s', '{table}', coalesce(r.key, e.source_key), to_jsonb(r), \
                           jsonb_build_array(e.content, e.user_id, e.session_id, e.metadata)) AS difference \
               FROM ({rows}) r(key, content, user_id, session_id, metadata) \
               FULL JOIN (SELECT * FROM memory_agent.entries \
                           WHERE source_relation = 'public.{table}' AND state = 'active') e ON e.source_key = r.key \
              WHERE (r.content, r.user_id, r.session_id, r.metadata) \
                    IS DISTINCT FROM (e.content, e.user_id, e.session_id, e.metadata)"
        )
    });
    let sql = format!(
        "SELECT coalesce(string_agg(difference, E'\\n'), '') FROM ({}) d",
        each.join(" UNION ALL ")
    );
    value(judge, &sql, &[])
}

/// Whether the judge has to wait: for the lock of a TRUNCATE, or for the worker, which waits for others.
fn has_to_wait(judge: &mut Client) -> bool {
    count(judge, "memory_agent.jobs WHERE kind = 'attach' AND status IN ('pending', 'running')") > 0
        || count(judge, "pg_locks WHERE mode = 'AccessExclusiveLock' AND locktype = 'relation'") > 0
}

#[test]
fn memory_says_what_the_tables_say() {
    let mut random = Random::seeded("attached tables");
    let database = shared().database("attach_agreement");
    let mut judge = database.connect();
    run(&mut judge, SETUP);
    run(&mut judge, "SELECT memory_grant('agree_user', 'user')");
    let mut sessions = ["postgres", "agree_user", "agree_plain"].map(|role| {
        let mut client = shared().connect_as("attach_agreement", role);
        run(&mut client, "SET lock_timeout = '20ms'");
        Session { client, savepoints: None }
    });
    let (begun, mut commits, mut ended) = (Instant::now(), 0, 0);
    // On a busy machine it takes longer until enough has happened.
    let is_over = |commits, ended| {
        let is_enough = commits > ENOUGH && ended > ENOUGH;
        begun.elapsed() > if is_enough { TIME } else { PATIENCE }
    };
    while !is_over(commits, ended) {
        let who = random.below(3) as usize;
        let table = Table::any(&mut random);
        if !sessions[who].step(&mut random, table) {
            continue;
        }
        commits += 1;
        if has_to_wait(&mut judge) {
            // A transaction with an old snapshot left something to the worker, or one emptied a table.
            for session in &mut sessions {
                session.commit();
            }
            assert!(value::<bool>(&mut judge, "SELECT memory_wait('60 s')", &[]));
        }
        let jobs = "SELECT coalesce(string_agg(concat_ws(' ', status, payload, last_error), '; '), 'none') \
                      FROM memory_agent.jobs WHERE kind = 'attach' AND status <> 'done'";
        let found = differences(&mut judge);
        let jobs: String = value(&mut judge, jobs, &[]);
        assert_eq!(found, "", "after commit {commits} by {who}; jobs: {jobs}");
        ended = count(&mut judge, "memory_agent.entries WHERE state = 'inactive'");
    }
    println!("{commits} commits, {ended} entries that ended");
    assert!(commits > ENOUGH && ended > ENOUGH, "{commits} commits, {ended} entries that ended");
    let dead = "memory_agent.jobs WHERE kind = 'attach' AND status = 'dead'";
    assert_eq!(count(&mut judge, dead), 0);
}
