//! TLS between the gateway and the database: a real server with `ssl = on`, and the words of libpq.

use crate::http::{chat, says};
use crate::leaving::call;
use crate::upstream::Upstream;
use crate::{NEVER_LATE, PATIENCE, ROLE, database};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Certificates, Cluster, Gateway, bindir, json, wait_until};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

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
        /// The second number of the next address.
        static NUMBER: AtomicU32 = AtomicU32::new(64);
        let certificates = Certificates::new();
        certificates.issue("good", "ca", &format!("DNS:{NAME}"), 2);
        certificates.give_to_server("good");
        // A port of a test's own would change how everything else reaches it.
        let (id, number) = (std::process::id(), NUMBER.fetch_add(64, Ordering::Relaxed));
        let address = format!("127.{}.{}.{}", number + (id >> 16) % 64, (id >> 8) % 256, id % 256);
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
