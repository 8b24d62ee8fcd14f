//! What is asked of the database ends with who asked, and what one user or a language model keeps waiting leaves
//! room for everything else.

use crate::http::{Reply, chat, says, send};
use crate::people::{bearer, token};
use crate::upstream::Upstream;
use crate::{PATIENCE, ROLE, cluster, database};
use memory_agent_e2e::llm::LlmStub;
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, Cluster, Gateway, Json, json, wait_until};
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

/// The default of `--connections`.
pub const CONNECTIONS: i64 = 8;
/// The lock that bob's new memories wait for, once [`hold_up_bob`] was called.
const LOCK: i64 = 4711;

/// A gateway with a key, tokens and a limit of spending.
fn gateway(cluster: &Cluster, name: &str, upstream: &Upstream) -> Gateway {
    let key = cluster.socket_directory().join(format!("{name}.key"));
    std::fs::write(&key, "sk-of-the-gateway\n").unwrap();
    let key = key.to_string_lossy().into_owned();
    let (to, url) = (Gateway::database(cluster, ROLE, name), upstream.url());
    let to = ["--database", &to, "--upstream", &url, "--upstream-key-file", &key];
    Gateway::start(&[&to[..], &["--daily-tokens", "1000000", "--patience", "10000"]].concat())
}

/// A call of a tool that was sent.
pub fn call(gateway: &Gateway, token: Option<&str>, tool: &str, arguments: &Json) -> TcpStream {
    let mut connection = TcpStream::connect(gateway.address()).unwrap();
    connection.write_all(wire(gateway, token, tool, arguments).as_bytes()).unwrap();
    connection
}

/// A call of a tool, as it goes over the wire.
pub fn wire(gateway: &Gateway, token: Option<&str>, tool: &str, arguments: &Json) -> String {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                      "params": {"name": tool, "arguments": arguments}});
    let body = body.to_string();
    let authorization = token.map(|token| format!("authorization: Bearer {token}\r\n"));
    let (host, authorization) = (gateway.address(), authorization.unwrap_or_default());
    format!(
        "POST /mcp HTTP/1.1\r\nhost: {host}\r\n{authorization}content-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: 2025-11-25\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Connections of gateways to a database: all, or those that do something.
pub fn backends(superuser: &mut Client, of: &str) -> i64 {
    let query = format!(
        "SELECT count(*) FROM pg_stat_activity \
          WHERE application_name = 'memory-agent' AND datname = current_database() AND {of}"
    );
    value(superuser, &query, &[])
}

pub const ALL: &str = "true";
pub const RUNNING: &str = "state <> 'idle'";

/// From now on bob's new memories wait for a lock that the second session holds.
fn hold_up_bob(superuser: &mut Client, holder: &mut Client) {
    run(
        superuser,
        &format!(
            "CREATE FUNCTION hold_up() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                 IF NEW.user_id = 'bob' THEN PERFORM pg_advisory_xact_lock_shared({LOCK}); END IF; \
                 RETURN NEW; END $$; \
             CREATE TRIGGER hold_up BEFORE INSERT ON memory_agent.entries \
                 FOR EACH ROW EXECUTE FUNCTION hold_up()"
        ),
    );
    run(holder, &format!("SELECT pg_advisory_lock({LOCK})"));
}

fn remember(gateway: &Gateway, token: Option<&str>, number: usize) -> TcpStream {
    call(gateway, token, "add_memory", &json!({"text": format!("Number {number} is remembered.")}))
}

/// A server with a language model that says nothing for now.
fn with_model(name: &str) -> (LlmStub, Cluster, Client) {
    let stub = LlmStub::start(|_: &_| "It is condensed.");
    stub.hold(true);
    let cluster = Cluster::builder()
        .preload(true)
        .setting("memory_agent.worker", "off")
        .setting("memory_agent.llm_base_url", stub.base_url())
        .setting("memory_agent.llm_model", "m")
        .start();
    run(&mut cluster.connect("postgres"), &format!("CREATE ROLE {ROLE} LOGIN"));
    let superuser = database(&cluster, name);
    (stub, cluster, superuser)
}

fn condense(gateway: &Gateway, token: &str, number: usize) -> TcpStream {
    let text =
        format!("Summary {number}. ") + &"It rained all day, and the train was late. ".repeat(40);
    call(gateway, Some(token), "summarize_text", &json!({"text": text}))
}

/// A chat of somebody whom nobody holds up.
fn is_answered(gateway: &Gateway, token: &str) {
    let mut reply: Reply =
        chat(gateway, &[("authorization", &bearer(token))], &says("s", "Hello."));
    let failed = reply.header("x-memory-failed").map(str::to_owned);
    let (status, said) = (reply.status, reply.rest());
    assert_eq!((status, failed), (200, None), "{said:?}");
    let mut health = send(gateway.address(), "GET", "/health", &[], "");
    assert_eq!(health.json()["database"], "ok");
}

#[test]
fn a_statement_ends_with_its_client_though_a_model_is_asked() {
    let (stub, cluster, mut superuser) = with_model("leaving_model");
    let upstream = Upstream::saying("Yes.");
    let gateway = gateway(&cluster, "leaving_model", &upstream);
    let bob = token(&mut superuser, "bob", "phone");
    for number in 0..12 {
        let asked = stub.call_count();
        let connection = condense(&gateway, &bob, number);
        wait_until(PATIENCE, "the model to be asked", || stub.call_count() > asked);
        drop(connection);
        let all = backends(&mut superuser, ALL);
        assert!(all <= CONNECTIONS, "{all} connections after {number} who left");
    }
    wait_until(PATIENCE, "all statements to end", || backends(&mut superuser, RUNNING) == 0);
    assert_eq!(stub.answered(), 0);
    is_answered(&gateway, &bob);
}

#[test]
fn who_waits_for_a_model_leaves_room_for_everything_else() {
    let (stub, cluster, mut superuser) = with_model("leaving_room");
    let upstream = Upstream::saying("Yes.");
    let gateway = gateway(&cluster, "leaving_room", &upstream);
    let [ann, bob, eve] = ["ann", "bob", "eve"].map(|user| token(&mut superuser, user, "phone"));
    let waiting: Vec<TcpStream> = (0..12)
        .map(|number| condense(&gateway, if number % 2 == 0 { &bob } else { &eve }, number))
        .collect();
    wait_until(PATIENCE, "the model to be asked by both", || stub.in_flight() >= 2);
    for _ in 0..3 {
        is_answered(&gateway, &ann);
        is_answered(&gateway, &bob);
    }
    assert_eq!(stub.max_in_flight(), 2, "a quarter of the places, half of them for each");
    // Nobody was refused: they take turns.
    stub.hold(false);
    for mut connection in waiting {
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        let (mut answer, mut piece) = (String::new(), [0; 4096]);
        while !answer.contains("It is condensed.") {
            let read = std::io::Read::read(&mut connection, &mut piece).unwrap();
            assert!(read > 0, "{answer}");
            answer.push_str(&String::from_utf8_lossy(&piece[..read]));
        }
    }
}

#[test]
fn one_user_leaves_places_to_others_and_nothing_running() {
    let mut superuser = database(cluster(), "leaving_share");
    let mut holder = cluster().connect("leaving_share");
    let upstream = Upstream::saying("Yes.");
    let gateway = gateway(cluster(), "leaving_share", &upstream);
    let [ann, bob] = ["ann", "bob"].map(|user| token(&mut superuser, user, "phone"));
    hold_up_bob(&mut superuser, &mut holder);
    let waiting: Vec<TcpStream> =
        (0..12).map(|number| remember(&gateway, Some(&bob), number)).collect();
    wait_until(PATIENCE, "bob to be held up", || backends(&mut superuser, RUNNING) >= 3);
    for _ in 0..3 {
        is_answered(&gateway, &ann);
    }
    assert_eq!(backends(&mut superuser, RUNNING), 3, "half of five");
    drop(waiting);
    wait_until(PATIENCE, "all statements to end", || backends(&mut superuser, RUNNING) == 0);
    // The lock is still held: they did not end by themselves.
    let stored: i64 = value(
        &mut superuser,
        "SELECT count(*) FROM memory_agent.entries WHERE user_id = 'bob'",
        &[],
    );
    assert_eq!(stored, 0);
}

#[test]
fn a_gateway_that_is_killed_leaves_nothing_running() {
    let upstream = Upstream::saying("Yes.");
    let mut superuser = database(cluster(), "leaving_killed");
    let mut holder = cluster().connect("leaving_killed");
    hold_up_bob(&mut superuser, &mut holder);
    let to = Gateway::database(cluster(), ROLE, "leaving_killed");
    let gateway =
        Gateway::start(&["--database", &to, "--upstream", &upstream.url(), "--user", "bob"]);
    let waiting = remember(&gateway, None, 1);
    wait_until(PATIENCE, "bob to be held up", || backends(&mut superuser, RUNNING) == 1);
    gateway.signal(libc::SIGKILL);
    // Well before the time is over that the statement may take.
    let soon = Duration::from_secs(20);
    wait_until(soon, "the statement to end", || backends(&mut superuser, ALL) == 0);
    drop(waiting);
}
