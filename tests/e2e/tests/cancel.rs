//! Interrupts: a client that stops a statement that waits for the models gets the connection back at once,
//! the model server forgets what no client waits for, and no answer reaches the wrong question.

mod common;

use common::random::Random;
use common::slow::{self, Slow};
use common::supervisor::{self, Frozen};
use common::witness::Witness;
use common::{MEMORIES, QUESTION, Session};
use memory_agent_e2e::processes::{self, Process};
use memory_agent_e2e::{
    Cluster, Error, let_cancel_pass, retry_until, shared, sqlstate, wait_until,
};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// What the project promises, in the default mode of inference.
const AT_ONCE: Duration = Duration::from_millis(100);
/// The promise is about an idle machine, so the best of some attempts counts.
const ATTEMPTS: usize = 5;
const PATIENCE: Duration = Duration::from_secs(60);
/// What loading the models and one batch of them may take in a backend, on a busy machine.
const A_BATCH: Duration = Duration::from_secs(5);

/// Who stops a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// A cancel request of the client: what Ctrl-C sends in psql.
    CancelRequest,
    PgCancelBackend,
    StatementTimeout,
    PgTerminateBackend,
}

#[test]
fn every_interrupt_stops_every_call_at_once() {
    let cluster = shared();
    let mut observer = Session::with_memories(cluster, "interrupts");
    slow::prepare_recall(&mut observer);
    let mut witness = Witness::of(cluster, "interrupts");
    for call in Slow::ALL {
        for stop in [
            Stop::CancelRequest,
            Stop::PgCancelBackend,
            Stop::StatementTimeout,
            Stop::PgTerminateBackend,
        ] {
            let mut times = Vec::new();
            for _ in 0..ATTEMPTS {
                times.push(time_to_stop(cluster, &mut observer, call, stop));
                if times.last().is_some_and(|last| *last <= AT_ONCE / 2) {
                    break;
                }
            }
            println!("{call:?} stopped by {stop:?}: {times:?}");
            assert!(
                times.iter().min().is_some_and(|best| *best <= AT_ONCE),
                "{call:?}, {stop:?}: {times:?}"
            );
        }
    }
    let kept: i64 = observer
        .client
        .query_one("SELECT count(*) FROM memory_agent.entries WHERE session_id = 'cancelled'", &[])
        .unwrap()
        .get(0);
    assert_eq!(kept, 0, "a cancelled batch was stored in part");
    witness.confirm_no_restart();
}

/// Starts a call in a session of its own, stops it, and returns how long the stop took.
fn time_to_stop(cluster: &Cluster, observer: &mut Session, call: Slow, stop: Stop) -> Duration {
    const TIMEOUT: Duration = Duration::from_millis(400);
    let mut session = Session::open(cluster, "interrupts");
    let (pid, token) = (session.pid, session.client.cancel_token());
    if stop == Stop::StatementTimeout {
        session
            .client
            .batch_execute(&format!("SET statement_timeout = {}", TIMEOUT.as_millis()))
            .unwrap();
    }
    let statement = call.statement();
    let start = Instant::now();
    let running = std::thread::spawn(move || {
        let result = session.client.batch_execute(&statement);
        (session, result, Instant::now())
    });
    let stopped_at = match stop {
        Stop::StatementTimeout => start + TIMEOUT,
        other => {
            wait_for_the_models(observer, pid);
            let stopped_at = Instant::now();
            match other {
                Stop::CancelRequest => token.cancel_query(postgres::NoTls).unwrap(),
                Stop::PgCancelBackend => send(observer, "pg_cancel_backend", pid),
                _ => send(observer, "pg_terminate_backend", pid),
            }
            stopped_at
        }
    };
    let (mut session, result, ended_at) = running.join().unwrap();
    if stop == Stop::PgTerminateBackend {
        // The client may see the end of the connection before it reads the reason.
        let error = result.unwrap_err();
        assert!(error.is_closed() || sqlstate(&error) == "57P01", "{error:?}");
        session = Session::open(cluster, "interrupts");
    } else {
        assert_eq!(sqlstate(&result.unwrap_err()), "57014");
        if stop == Stop::CancelRequest {
            let_cancel_pass(&mut session.client);
        }
        session.client.batch_execute("RESET statement_timeout").unwrap();
    }
    assert!(session.is_whole(), "the next call of the session is not answered well");
    ended_at.saturating_duration_since(stopped_at)
}

fn send(observer: &mut Session, function: &str, pid: i32) {
    let sent: bool =
        observer.client.query_one(&format!("SELECT {function}({pid})"), &[]).unwrap().get(0);
    assert!(sent, "{function}({pid})");
}

/// Waits until a session waits for the model server.
fn wait_for_the_models(observer: &mut Session, pid: i32) {
    wait_until(PATIENCE, "a session to wait for the model server", || {
        observer
            .client
            .query_one(
                "SELECT coalesce(bool_or(state = 'active' AND wait_event_type = 'Extension'), false) \
                   FROM pg_stat_activity WHERE pid = $1",
                &[&pid],
            )
            .unwrap()
            .get(0)
    });
}

#[test]
fn waiting_for_a_model_server_that_is_not_there_can_be_stopped() {
    let cluster = Cluster::builder().preload(true).start();
    let mut session = Session::with_memories(&cluster, "absent");
    let frozen_supervisor = Frozen::new(supervisor::pid(&cluster));
    let server = cluster.model_server_pid();
    let frozen_server = Frozen::new(server);
    expect_timeout_to_work(&cluster, "hung");
    processes::signal(server, libc::SIGKILL);
    wait_until(PATIENCE, "the model server to die", || {
        Process::find(server).is_some_and(|process| process.state == 'Z')
    });
    // The socket goes with the last thread, a moment after the process counts as dead.
    wait_until(PATIENCE, "the socket to be closed", || {
        UnixStream::connect(cluster.data().join("pg_stat_tmp/memory_agent.sock")).is_err()
    });
    expect_timeout_to_work(&cluster, "dead");
    drop((frozen_server, frozen_supervisor));
    wait_until(PATIENCE, "recall to work in full", || session.is_whole());
}

/// Recalls into a statement_timeout, each time in a new session that has no reason to give up early.
fn expect_timeout_to_work(cluster: &Cluster, state: &str) {
    const TIMEOUT: Duration = Duration::from_millis(150);
    let mut times = Vec::new();
    for _ in 0..ATTEMPTS {
        let mut session = Session::open(cluster, "absent");
        session
            .client
            .batch_execute(&format!("SET statement_timeout = {}", TIMEOUT.as_millis()))
            .unwrap();
        let start = Instant::now();
        let error = session.recall(QUESTION).unwrap_err();
        assert_eq!(sqlstate(&error), "57014");
        times.push(start.elapsed().saturating_sub(TIMEOUT));
    }
    println!("waiting for a {state} server, stopped by StatementTimeout: {times:?}");
    assert!(times.iter().min().is_some_and(|best| *best <= AT_ONCE), "{state}: {times:?}");
}

/// Where the backend runs the models itself, it looks for interrupts between batches only.
#[test]
fn models_in_a_backend_finish_their_batch_first() {
    let cluster =
        Cluster::builder().preload(true).setting("memory_agent.inference", "backend").start();
    let mut observer = Session::with_memories(&cluster, "interrupts");
    slow::prepare_recall(&mut observer);
    let mut witness = Witness::of(&cluster, "interrupts");
    for call in Slow::ALL {
        let took = time_to_stop(&cluster, &mut observer, call, Stop::StatementTimeout);
        println!("{call:?} in the backend: {took:?}");
        assert!(took < A_BATCH, "{call:?}: {took:?}");
    }
    witness.confirm_no_restart();
}

#[test]
fn answers_belong_to_their_questions_after_interrupts() {
    let cluster = shared();
    let mut session = Session::with_memories(cluster, "mixed");
    let texts: Vec<String> =
        (0..20).map(|n| format!("text number {n}{}", " and more".repeat(n))).collect();
    let expected: Vec<String> = texts.iter().map(|text| session.embed(text).unwrap()).collect();
    let scores = rerank(&mut session).unwrap();
    let mut random = Random::seeded("interrupted at random");
    let mut interrupted = 0;
    while interrupted < 50 {
        let limit = 1 + random.below(60);
        let call = [Slow::Rerank, Slow::Embed][random.below(2) as usize];
        session.client.batch_execute(&format!("SET statement_timeout = {limit}")).unwrap();
        let result = session.client.batch_execute(&call.statement());
        // RESET may come too late for a timeout of one millisecond, so it has none.
        session.client.batch_execute("SET statement_timeout = 0").unwrap();
        assert_eq!(sqlstate(&result.unwrap_err()), "57014");
        interrupted += 1;
        let at = random.below(texts.len() as u64) as usize;
        assert_eq!(
            session.embed(&texts[at]).unwrap(),
            expected[at],
            "the answer to another question"
        );
        if interrupted % 5 == 0 {
            assert_eq!(rerank(&mut session).unwrap(), scores);
            assert!(session.is_whole());
        }
    }
    assert!(session.take_warnings().is_empty());
}

fn rerank(session: &mut Session) -> Result<Vec<f32>, Error> {
    let documents = MEMORIES.to_vec();
    let row = session
        .client
        .query_one("SELECT memory_rerank('Who sleeps under the desk?', $1)", &[&documents])?;
    Ok(row.get(0))
}

#[test]
fn nobody_waiting_means_nothing_queued() {
    let cluster = shared();
    let mut observer = Session::with_memories(cluster, "queue");
    for call in [Slow::Rerank, Slow::Embed] {
        // Cancelled by another session.
        let mut session = Session::open(cluster, "queue");
        let pid = session.pid;
        let statement = call.statement();
        let running = std::thread::spawn(move || session.client.batch_execute(&statement));
        let queued = self::queued(&mut observer);
        send(&mut observer, "pg_cancel_backend", pid);
        assert_eq!(sqlstate(&running.join().unwrap().unwrap_err()), "57014");
        expect_forgotten(&mut observer, call, queued);

        // Left by its client without a word; PostgreSQL looks for that only when it is told to.
        let stream = start_without_waiting(cluster, "queue", &call.statement());
        let queued = self::queued(&mut observer);
        drop(stream);
        expect_forgotten(&mut observer, call, queued);
    }
}

/// Sends a statement in a new session and returns the connection, to be closed without a farewell.
fn start_without_waiting(cluster: &Cluster, database: &str, statement: &str) -> UnixStream {
    const PROTOCOL_3: i32 = 196_608;
    let options = "-c client_connection_check_interval=100ms";
    let parameters = format!("user\0postgres\0database\0{database}\0options\0{options}\0\0");
    let startup = [&PROTOCOL_3.to_be_bytes()[..], parameters.as_bytes()].concat();
    let query = [statement.as_bytes(), b"\0"].concat();
    let with_length = |body: &[u8]| [&(body.len() as i32 + 4).to_be_bytes()[..], body].concat();
    let mut stream = UnixStream::connect(cluster.socket_directory().join(".s.PGSQL.5432")).unwrap();
    stream
        .write_all(&[with_length(&startup), b"Q".to_vec(), with_length(&query)].concat())
        .unwrap();
    stream
}

/// How many sequences wait, as soon as many do.
fn queued(observer: &mut Session) -> u64 {
    retry_until(PATIENCE, "sequences to queue", || {
        Some(observer.waiting_sequences()).filter(|&waiting| waiting > 100)
    })
}

/// Most of the queue goes at once, which no model can do, however fast it is. Other tests may have a few waiting too.
fn expect_forgotten(observer: &mut Session, call: Slow, queued: u64) {
    let mut before = queued;
    let mut at_once = 0;
    wait_until(PATIENCE, "the queue to be empty", || {
        let waiting = observer.waiting_sequences();
        at_once = at_once.max(before.saturating_sub(waiting));
        before = waiting;
        waiting == 0
    });
    assert!(2 * at_once > queued, "{call:?}: {at_once} of {queued} were forgotten at once");
    assert!(observer.is_whole());
}
