//! SIGKILL to gateway, database and upstream at random moments of a conversation. The client does what a
//! client does: it sends a request again, with the same key, until both turns were acknowledged. No turn that
//! was is lost, and none is there twice. `MEMORY_AGENT_KILLS` is how many there are, `MEMORY_AGENT_SEED` which.

use crate::failures::own_cluster;
use crate::http::{says, says_streaming, try_send};
use crate::{PATIENCE, ROLE, database};
use memory_agent_e2e::{Cluster, Gateway, Json, processes, retry_until, spawner, wait_until};
use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// How many things are killed where nobody says otherwise.
const KILLS: u64 = 6;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Numbers that look random, and are the same for the same seed (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// The upstream, as a process.
struct Upstream {
    process: Child,
    port: u16,
}

impl Upstream {
    fn start(port: u16) -> Self {
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", include_str!("kills_upstream.py"), &port.to_string()]);
        command.env_clear().stdin(Stdio::null());
        let process = spawner::spawn(command).expect("python3");
        retry_until(PATIENCE, "the upstream to listen", || {
            TcpStream::connect(("127.0.0.1", port)).ok()
        });
        Self { process, port }
    }

    fn kill_and_start(&mut self) {
        self.kill();
        *self = Self::start(self.port);
    }

    fn kill(&mut self) {
        processes::signal(self.process.id() as i32, libc::SIGKILL);
        let _ = self.process.wait();
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.kill();
    }
}

fn gateway(cluster: &Cluster, port: u16) -> Gateway {
    let to = Gateway::database(cluster, ROLE, "kills");
    let url = format!("http://127.0.0.1:{port}/v1");
    Gateway::start(&["--database", &to, "--upstream", &url, "--user", "ann"])
}

/// What a client was told of a turn of its own and the answer.
#[derive(Debug, Default)]
struct Told {
    heard: Option<String>,
    answered: Option<String>,
}

impl Told {
    /// Sends a request once and notes what is acknowledged.
    fn ask(&mut self, address: SocketAddr, number: u32) -> Option<()> {
        let text = format!("Turn {number} of the conversation.");
        let body =
            if number.is_multiple_of(2) { says("s", &text) } else { says_streaming("s", &text) };
        let key = format!("key {number}");
        let headers = [("idempotency-key", key.as_str())];
        let mut reply = try_send(address, "POST", "/v1/chat/completions", &headers, &body).ok()?;
        if let Some(id) = reply.header("x-memory-stored").map(str::to_owned) {
            let before = self.heard.get_or_insert_with(|| id.clone());
            assert_eq!(*before, id, "the user's turn {number} was stored twice");
        }
        // Of a stream that broke off, the end is missing.
        let read = reply.rest().ok()?;
        let stored = read
            .split("\n\n")
            .filter_map(|event| {
                let event = event.strip_prefix("data: ").unwrap_or(event);
                let event: Json = serde_json::from_str(event).ok()?;
                event["memory_stored"].as_str().map(str::to_owned)
            })
            .last();
        self.answered = stored;
        Some(())
    }
}

#[test]
fn no_turn_that_was_acknowledged_is_lost_and_none_is_there_twice() {
    let seed = number("MEMORY_AGENT_SEED", 14);
    let mut random = Random(seed);
    let cluster = own_cluster();
    drop(database(&cluster, "kills"));
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut upstream = Upstream::start(port);
    let mut running = gateway(&cluster, port);
    let address = Mutex::new(running.address());
    let (is_over, turns) = (AtomicBool::new(false), AtomicU32::new(0));
    let told: Vec<Told> = std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            let mut told = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let number = told.len() as u32;
                let mut one = Told::default();
                wait_until(PATIENCE, "a turn to be acknowledged", || {
                    let to = *address.lock().unwrap();
                    one.ask(to, number);
                    one.heard.is_some() && one.answered.is_some()
                });
                told.push(one);
                turns.store(told.len() as u32, Ordering::Relaxed);
            }
            told
        });
        for _ in 0..number("MEMORY_AGENT_KILLS", KILLS) {
            // Each kill finds a conversation that goes on.
            let before = turns.load(Ordering::Relaxed);
            wait_until(PATIENCE, "the conversation to go on", || {
                turns.load(Ordering::Relaxed) > before || client.is_finished()
            });
            std::thread::sleep(Duration::from_micros(random.below(100_000)));
            match random.below(3) {
                0 => {
                    running.signal(libc::SIGKILL);
                    running = gateway(&cluster, port);
                    *address.lock().unwrap() = running.address();
                }
                1 => {
                    cluster.kill_postmaster();
                    cluster.wait_for_no_processes();
                    cluster.start();
                }
                _ => upstream.kill_and_start(),
            }
        }
        is_over.store(true, Ordering::Relaxed);
        client.join().unwrap()
    });
    drop(running);
    let mut client = cluster.connect("kills");
    let rows = client
        .query(
            "SELECT e.id::text, e.role, e.content FROM memory_agent.entries e \
              WHERE e.kind = 'turn' AND e.state <> 'inactive'",
            &[],
        )
        .unwrap();
    let mut stored: HashMap<String, (String, String)> =
        rows.iter().map(|row| (row.get(0), (row.get(1), row.get(2)))).collect();
    for (number, told) in told.iter().enumerate() {
        let said = format!("Turn {number} of the conversation.");
        for (id, role, text) in [
            (&told.heard, "user", said.clone()),
            (&told.answered, "assistant", format!("Answer to {said}")),
        ] {
            let found = stored.remove(id.as_ref().unwrap());
            assert_eq!(found, Some((role.to_owned(), text)), "seed {seed}, turn {number}");
        }
    }
    assert!(stored.is_empty(), "seed {seed}: there is more than was said: {stored:?}");
    assert!(told.len() >= 2, "{} turns", told.len());
}
