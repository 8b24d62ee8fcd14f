//! TLS between the gateway and the database: a real server with `ssl = on`, and the words of libpq.

use crate::http::{chat, says, send};
use crate::leaving::{ALL, CONNECTIONS, RUNNING, backends, call, wire};
use crate::random::Random;
use crate::upstream::Upstream;
use crate::{NEVER_LATE, PATIENCE, ROLE, database};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Certificates, Cluster, Gateway, bindir, json, wait_until};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The name in the server's certificate.
const NAME: &str = "db.example";

/// A server of its own address on this machine, which lets nobody in without TLS once it has it.
struct Server {
    cluster: Cluster,
    certificates: Certificates,
    address: String,
}

impl Server {
    fn start() -> Self {
        /// The second number of the next address, of four.
        static NUMBER: AtomicU32 = AtomicU32::new(64);
        let certificates = Certificates::new();
        certificates.issue("good", "ca", &format!("DNS:{NAME}"), 2);
        certificates.give_to_server("good");
        // A port of a test's own would change how everything else reaches it.
        let (id, number) = (std::process::id(), NUMBER.fetch_add(48, Ordering::Relaxed));
        let address = format!("127.{}.{}.{}", number + (id >> 16) % 48, (id >> 8) % 256, id % 256);
        let cluster = Cluster::builder()
            .preload(true)
            .setting("memory_agent.worker", "off")
            .setting("memory_agent.identity", "required")
            .setting("listen_addresses", &address)
            .start();
        run(&mut cluster.connect("postgres"), &format!("CREATE ROLE {ROLE} LOGIN"));
        drop(database(&cluster, "tls"));
        run(
            &mut cluster.connect("tls"),
            "CREATE ROLE secretive LOGIN PASSWORD 'p'; SELECT memory_grant('secretive')",
        );
        let rules = "local all all trust\nhostssl all secretive 127.0.0.0/8 scram-sha-256\n\
                     hostssl all all 127.0.0.0/8 trust\nhostnossl all all 127.0.0.0/8 reject\n";
        std::fs::write(cluster.data().join("pg_hba.conf"), rules).unwrap();
        cluster.alter_system("ssl_cert_file", Some(&certificates.path("good.pem")));
        cluster.alter_system("ssl_key_file", Some(&certificates.path("good.key")));
        Self { cluster, certificates, address }
    }

    /// Where it is, under a name.
    fn place(&self, name: &str, words: &str) -> String {
        let address = &self.address;
        format!("host={name} hostaddr={address} user={ROLE} dbname=tls connect_timeout=10 {words}")
    }

    fn authority(&self, name: &str) -> String {
        format!("sslrootcert={}", self.certificates.path(name))
    }

    /// What `doctor` says through a connection; the authorities of the system are `ca` alone.
    fn doctor(&self, connection: &str) -> (Option<i32>, String) {
        let mut program = Command::new(bindir().join("memory-agent"));
        program.env_clear().env("SSL_CERT_FILE", self.certificates.path("ca.pem"));
        let output = program.args(["doctor", "--database", connection]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    }
}

#[test]
fn a_server_is_believed_as_far_as_sslmode_says() {
    let server = Server::start();
    let (ca, other) = (server.authority("ca.pem"), server.authority("other_ca.pem"));
    // Nothing is encrypted yet, and nobody is let in without.
    let (code, said) = server.doctor(&server.place(NAME, "sslmode=require"));
    let missing = "TLS with the database failed: server does not support TLS.\n";
    assert_eq!((code, said.as_str()), (Some(2), missing));
    server.cluster.alter_system("ssl", Some("on"));
    let reached = |name: &str, words: &str| {
        let (code, said) = server.doctor(&server.place(name, words));
        (code != Some(2), said)
    };
    for (name, words) in [
        (NAME, ""),
        (NAME, "sslmode=prefer"),
        ("other.example", "sslmode=require"),
        (NAME, &format!("sslmode=require {ca}")),
        ("other.example", &format!("sslmode=verify-ca {ca}")),
        (NAME, "sslmode=verify-ca"),
        (NAME, &format!("sslmode=verify-full {ca}")),
        (NAME, "sslmode=verify-full sslrootcert=system"),
        (NAME, "sslmode=verify-full user=secretive password=p channel_binding=require"),
    ] {
        let (reached, said) = reached(name, words);
        assert!(reached, "{name} {words}: {said}");
    }
    for (name, words, problem) in [
        (NAME, "sslmode=disable", "the database cannot be reached"),
        ("other.example", "sslmode=verify-full", "not valid for name"),
        (NAME, &format!("sslmode=verify-full {other}"), "UnknownIssuer"),
        (NAME, &format!("sslmode=verify-ca {other}"), "UnknownIssuer"),
        (NAME, &format!("sslmode=require {other}"), "UnknownIssuer"),
    ] {
        let (reached, said) = reached(name, words);
        assert!(!reached && said.contains(problem), "{name} {words}: {said}");
    }
    // A URL says the same.
    let url = |name: &str| {
        let place = format!("postgresql://{ROLE}@{name}/tls?hostaddr={}", server.address);
        format!("{place}&sslmode=verify-full&sslrootcert={}", server.certificates.path("ca.pem"))
    };
    assert_ne!(server.doctor(&url(NAME)).0, Some(2));
    assert_eq!(server.doctor(&url("other.example")).0, Some(2));
}

#[test]
fn a_chat_goes_over_tls() {
    let server = Server::start();
    server.cluster.alter_system("ssl", Some("on"));
    let words = format!("sslmode=verify-full {}", server.authority("ca.pem"));
    let to = server.place(NAME, &words);
    let upstream = Upstream::saying("Noted.");
    let url = upstream.url();
    let gateway = Gateway::start(&[
        "--database",
        &to,
        "--upstream",
        &url,
        "--user",
        "ann",
        "--patience",
        NEVER_LATE,
    ]);
    assert!(chat(&gateway, &[], &says("s", "Hello.")).header("x-memory-stored").is_some());
    let mut superuser = server.cluster.connect("tls");
    let used: Vec<String> = values(
        &mut superuser,
        "SELECT DISTINCT concat_ws(' ', a.usename, s.ssl, s.version) FROM pg_stat_ssl s \
           JOIN pg_stat_activity a USING (pid) WHERE a.application_name = 'memory-agent'",
        &[],
    );
    assert_eq!(used, [format!("{ROLE} t TLSv1.3")]);
    // A new authority: what is connected goes on, and nothing new is believed.
    server.certificates.issue("foreign", "other_ca", &format!("DNS:{NAME}"), 2);
    server.certificates.give_to_server("foreign");
    server.cluster.alter_system("ssl_cert_file", Some(&server.certificates.path("foreign.pem")));
    server.cluster.alter_system("ssl_key_file", Some(&server.certificates.path("foreign.key")));
    run(
        &mut superuser,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
          WHERE application_name = 'memory-agent'",
    );
    wait_until(PATIENCE, "the new certificate to be refused", || {
        let reply = chat(&gateway, &[], &says("s", "Again."));
        assert_eq!(reply.status, 200);
        gateway.log().contains("TLS with the database failed: invalid peer certificate")
    });
    let reply = chat(&gateway, &[], &says("s", "And again."));
    assert_eq!((reply.status, reply.header("x-memory-failed")), (200, Some("recall,store")));
}

#[test]
fn a_statement_is_cancelled_over_tls() {
    let server = Server::start();
    server.cluster.alter_system("ssl", Some("on"));
    let words = format!("sslmode=verify-full {}", server.authority("ca.pem"));
    let gateway = Gateway::start(&["--database", &server.place(NAME, &words), "--user", "ann"]);
    let mut superuser = server.cluster.connect("tls");
    let mut lock = superuser.transaction().unwrap();
    lock.batch_execute("LOCK TABLE memory_agent.entries IN ACCESS EXCLUSIVE MODE").unwrap();
    let search = json!({"query": "anything"});
    let connection = call(&gateway, None, "search_memories", &search);
    let mut watcher = server.cluster.connect("tls");
    wait_until(PATIENCE, "the search to wait for the lock", || {
        let waits = "SELECT count(*) FROM pg_stat_activity \
                      WHERE application_name = 'memory-agent' AND wait_event_type = 'Lock'";
        value::<i64>(&mut watcher, waits, &[]) > 0
    });
    drop(connection);
    // The lock is still held, and a lost connection would be told otherwise.
    wait_until(PATIENCE, "the search to be cancelled", || {
        server.cluster.log().contains("canceling statement due to user request")
    });
}

/// Clients at once, and calls of each in a round.
const CLIENTS: u64 = 6;
const CALLS: u64 = 40;
/// What the program may have grown by after two more rounds, in kilobytes: it takes memory in larger pieces.
const GROWN: u64 = 24 * 1_024;

/// Calls tools and cuts each call off: in the middle of what is sent, while it is answered, or in the middle of the
/// answer.
fn cut_off(gateway: &Gateway, random: &mut Random) {
    for number in 0..CALLS {
        let call = match random.below(4) {
            0 => wire(
                gateway,
                None,
                "add_memory",
                &json!({"text": format!("Parcel {number} is here.")}),
            ),
            1 => wire(gateway, None, "list_memories", &json!({})),
            _ => wire(gateway, None, "search_memories", &json!({"query": "Where is the parcel?"})),
        };
        let mut connection = TcpStream::connect(gateway.address()).unwrap();
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        let cut = random.below(3);
        let sent = if cut == 0 { random.below(call.len() as u64) as usize } else { call.len() };
        connection.write_all(&call.as_bytes()[..sent]).unwrap();
        match cut {
            1 => std::thread::sleep(Duration::from_micros(random.below(20_000))),
            2 => {
                let mut some = vec![0; 1 + random.below(200) as usize];
                assert!(connection.read(&mut some).unwrap() > 0);
            }
            _ => {}
        }
    }
}

/// What a process holds in memory, in kilobytes.
fn resident(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn calls_that_are_cut_off_leave_nothing_behind() {
    let server = Server::start();
    server.cluster.alter_system("ssl", Some("on"));
    let words = format!("sslmode=verify-full {}", server.authority("ca.pem"));
    let to = server.place(NAME, &words);
    let gateway = Gateway::start(&["--database", &to, "--user", "ann", "--patience", NEVER_LATE]);
    let mut superuser = server.cluster.connect("tls");
    let mut random = Random::seeded("calls that are cut off");
    let held: Vec<u64> = (0..3)
        .map(|_| {
            std::thread::scope(|scope| {
                for _ in 0..CLIENTS {
                    let mut random = Random::of(random.below(u64::MAX));
                    let gateway = &gateway;
                    scope.spawn(move || cut_off(gateway, &mut random));
                }
            });
            wait_until(PATIENCE, "all statements to end", || {
                backends(&mut superuser, RUNNING) == 0
            });
            wait_until(PATIENCE, "all requests to end", || {
                let metrics = send(gateway.address(), "GET", "/metrics", &[], "").rest().unwrap();
                metrics.lines().any(|line| line == "memory_gateway_in_flight 0")
            });
            assert!(backends(&mut superuser, ALL) <= CONNECTIONS);
            resident(gateway.pid())
        })
        .collect();
    assert!(held[2] <= held[0] + GROWN, "{held:?} kB");
    // Every place is free again, or the last of these would wait for ever.
    let search = json!({"query": "Where is the parcel?", "limit": 1});
    let asked: Vec<TcpStream> =
        (0..2 * CONNECTIONS).map(|_| call(&gateway, None, "search_memories", &search)).collect();
    for mut connection in asked {
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        let (mut answer, mut piece) = (String::new(), [0; 4096]);
        while !answer.contains("Parcel") {
            let read = connection.read(&mut piece).unwrap();
            assert!(read > 0, "{answer}");
            answer.push_str(&String::from_utf8_lossy(&piece[..read]));
        }
    }
}
