//! A client that stops a statement that waits for the LLM gets the connection back at once, the LLM's
//! endpoint is left, and nothing is stored.

use crate::scene::{ANSWER, PATIENCE, Session, said};
use memory_agent_e2e::llm::LlmStub;
use memory_agent_e2e::memory::value;
use memory_agent_e2e::{Cluster, let_cancel_pass, sqlstate, wait_until};
use std::time::{Duration, Instant};

/// What the project promises.
const AT_ONCE: Duration = Duration::from_millis(100);
/// The promise is about an idle machine, so the best of some attempts counts.
const ATTEMPTS: usize = 8;
const TIMEOUT: Duration = Duration::from_millis(400);

const CHAT: &str =
    "SELECT memory_chat('[{\"role\": \"user\", \"content\": \"Where is Anna?\"}]', 's')";
const REWRITE: &str = "SET memory_agent.query_rewrite = on; \
     SELECT memory_augment('[{\"role\": \"user\", \"content\": \"Where is Anna?\"}]', 's')";

/// Who stops a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    CancelRequest,
    PgCancelBackend,
    StatementTimeout,
    PgTerminateBackend,
}

#[test]
fn every_interrupt_stops_a_chat_at_once() {
    let stub = LlmStub::start(|_: &_| ANSWER);
    let cluster = Cluster::builder()
        .preload(true)
        .setting("memory_agent.worker", "off")
        .setting("memory_agent.llm_base_url", stub.base_url())
        .setting("memory_agent.llm_model", "stub")
        .start();
    let mut observer = Session::open(&cluster, "agent");
    observer.know("s", "Anna lives in Lisbon.");
    let server = cluster.model_server_pid();
    stub.hold(true);
    let stops = [
        Stop::CancelRequest,
        Stop::PgCancelBackend,
        Stop::StatementTimeout,
        Stop::PgTerminateBackend,
    ];
    for (statement, stop) in
        stops.map(|stop| (CHAT, stop)).into_iter().chain([(REWRITE, Stop::PgCancelBackend)])
    {
        let mut times = Vec::new();
        for _ in 0..ATTEMPTS {
            times.push(time_to_stop(&cluster, &stub, &mut observer, statement, stop));
            if times.last().is_some_and(|last| *last <= AT_ONCE / 2) {
                break;
            }
        }
        println!("stopped by {stop:?}: {times:?}");
        assert!(times.iter().min().is_some_and(|best| *best <= AT_ONCE), "{stop:?}: {times:?}");
    }
    stub.hold(false);
    assert!(observer.turns("s").is_empty(), "a turn of a chat that was stopped is stored");
    assert!(observer.recorded().is_empty());
    assert_eq!(cluster.model_server_pid(), server, "the model server was restarted");
    let answered = observer.chat(&said("Where is Anna?"), "'s'");
    assert_eq!(answered["choices"][0]["message"]["content"], ANSWER);
}

/// Starts a statement in a session of its own, stops it, and returns how long the stop took.
fn time_to_stop(
    cluster: &Cluster,
    stub: &LlmStub,
    observer: &mut Session,
    statement: &'static str,
    stop: Stop,
) -> Duration {
    let mut session = Session::connect(cluster, "agent");
    let pid: i32 = value(&mut session.client, "SELECT pg_backend_pid()", &[]);
    let token = session.client.cancel_token();
    // Models are loaded and the connection to the model server is made before time counts.
    session.augment(&said("Where is Anna?"), "'s'");
    if stop == Stop::StatementTimeout {
        let set = format!("SET statement_timeout = {}", TIMEOUT.as_millis());
        session.client.batch_execute(&set).unwrap();
    }
    let started = Instant::now();
    let running = std::thread::spawn(move || {
        let result = session.client.batch_execute(statement);
        (session, result, Instant::now())
    });
    let stopped_at = if stop == Stop::StatementTimeout {
        started + TIMEOUT
    } else {
        wait_until(PATIENCE, "the LLM to be asked", || stub.in_flight() == 1);
        let stopped_at = Instant::now();
        match stop {
            Stop::CancelRequest => token.cancel_query(postgres::NoTls).unwrap(),
            Stop::PgCancelBackend => signal(observer, "pg_cancel_backend", pid),
            _ => signal(observer, "pg_terminate_backend", pid),
        }
        stopped_at
    };
    let (mut session, result, ended_at) = running.join().unwrap();
    let error = result.unwrap_err();
    if stop == Stop::PgTerminateBackend {
        // The client may see the end of the connection before it reads the reason.
        assert!(error.is_closed() || sqlstate(&error) == "57P01", "{error:?}");
    } else {
        assert_eq!(sqlstate(&error), "57014");
        if stop == Stop::CancelRequest {
            let_cancel_pass(&mut session.client);
        }
        session.client.batch_execute("SET statement_timeout = 0").unwrap();
        let document = session.augment(&said("Where is Anna?"), "'s', top_k => 1");
        assert_eq!(document["memory_hits"].as_array().map(Vec::len), Some(1), "{document}");
    }
    // No client waits for the LLM any more, so neither does the model server.
    wait_until(PATIENCE, "the endpoint to be left", || stub.in_flight() == 0);
    ended_at.saturating_duration_since(stopped_at)
}

fn signal(observer: &mut Session, function: &str, pid: i32) {
    let sent: bool = value(&mut observer.client, &format!("SELECT {function}({pid})"), &[]);
    assert!(sent, "{function}({pid})");
}
