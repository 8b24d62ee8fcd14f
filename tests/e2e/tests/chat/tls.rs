//! The LLM behind TLS: a certificate of one's own authority is believed when the server's environment names
//! that authority, and a server that cannot prove to be the endpoint gets neither key nor text.

use crate::scene::{ANSWER, PATIENCE, Session, said};
use memory_agent_e2e::llm::LlmStub;
use memory_agent_e2e::memory::values;
use memory_agent_e2e::{Certificates, Cluster, wait_until};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

const KEY: &str = "sk-e2e-tls-0123456789abcdef";
const TEXT: &str = "The code of the safe is 4711.";

/// Certificates of all kinds for this machine.
fn certificates() -> Certificates {
    let here = "IP:127.0.0.1";
    let certificates = Certificates::new();
    for (name, authority, alternative, days) in [
        ("good", "ca", here, 2),
        ("expired", "ca", here, 0),
        ("wrong_name", "ca", "DNS:llm.example.com", 2),
        ("unknown_authority", "other_ca", here, 2),
    ] {
        certificates.issue(name, authority, alternative, days);
    }
    certificates.issue_to_itself("self_signed", here);
    // One that ends before it begins is not to be had everywhere; this one has no day.
    let seconds = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let made = seconds();
    wait_until(PATIENCE, "a certificate to expire", || seconds() > made);
    certificates
}

/// `openssl s_server` in front of a stub. What it decrypts goes to the stub, and is kept.
struct Front {
    server: Child,
    port: u16,
    heard: Arc<Mutex<Vec<u8>>>,
}

impl Front {
    fn start(certificates: &Path, name: &str, options: &[&str], stub: &LlmStub) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let port = port.expect("a free port").port();
        let mut server = Command::new("openssl")
            .args(["s_server", "-quiet", "-accept", &format!("127.0.0.1:{port}")])
            .args(["-cert", &format!("{name}.pem"), "-key", &format!("{name}.key")])
            .args(options)
            .current_dir(certificates)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl s_server");
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (mut decrypted, mut to_client) =
            (server.stdout.take().expect("its output"), server.stdin.take().expect("its input"));
        let address = stub.base_url().replace("http://", "").replace("/v1", "");
        let mut to_stub = TcpStream::connect(address).expect("the stub");
        let mut from_stub = to_stub.try_clone().expect("the stub");
        // Not io::copy(): it splices, and holds the pipe's lock while it waits for the stub.
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = from_stub.read(&mut buffer) {
                if to_client.write_all(&buffer[..count]).is_err() {
                    return;
                }
            }
        });
        let kept = Arc::clone(&heard);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = decrypted.read(&mut buffer) {
                kept.lock().expect("the bytes").extend_from_slice(&buffer[..count]);
                let _ = to_stub.write_all(&buffer[..count]);
            }
        });
        wait_until(PATIENCE, "openssl s_server", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Self { server, port, heard }
    }

    fn base_url(&self) -> String {
        format!("https://127.0.0.1:{}/v1", self.port)
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Where TLS is expected, something that speaks plain HTTP; what it hears.
fn plain_http() -> (u16, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("the port").port();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&heard);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut buffer = [0; 4096];
            let count = stream.read(&mut buffer).unwrap_or(0);
            kept.lock().expect("the bytes").extend_from_slice(&buffer[..count]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    (port, heard)
}

#[test]
fn who_cannot_prove_to_be_the_endpoint_is_sent_nothing() {
    let certificates = certificates();
    let key = certificates.path("llm.key");
    std::fs::write(&key, format!("{KEY}\n")).expect("a key file");
    let stub = LlmStub::start(|_: &_| ANSWER);
    let good = Front::start(certificates.directory(), "good", &[], &stub);
    let cluster = Cluster::builder()
        .preload(true)
        .environment("SSL_CERT_FILE", certificates.path("ca.pem"))
        .setting("memory_agent.worker", "off")
        .setting("memory_agent.rerank_model", "")
        .setting("log_min_messages", "debug1")
        .setting("memory_agent.llm_base_url", good.base_url())
        .setting("memory_agent.llm_model", "stub")
        .setting("memory_agent.llm_timeout", "20s")
        .setting("memory_agent.llm_api_key_file", &key)
        .start();
    let mut session = Session::open(&cluster, "agent");
    let document = session.chat(&said(TEXT), "'good'");
    assert_eq!(document["choices"][0]["message"]["content"], ANSWER, "{document}");
    assert_eq!(stub.calls()[0].header("authorization"), Some(&*format!("Bearer {KEY}")));
    assert_eq!(stub.call_count(), 1);

    let mut refused = |case: &str, base_url: &str, words: &str, heard: &Mutex<Vec<u8>>| {
        cluster.alter_system("memory_agent.llm_base_url", Some(base_url));
        let document = session.chat(&said(TEXT), &format!("'{case}'"));
        assert_eq!(document["error"]["code"], "unavailable", "{case}: {document}");
        let message = document["error"]["message"].as_str().expect("a message");
        assert!(
            message.contains("cannot connect") && message.to_lowercase().contains(words),
            "{case}: {message}"
        );
        assert!(!message.contains("127.0.0.1:"), "{case} shows the address: {message}");
        let heard = String::from_utf8_lossy(&heard.lock().expect("the bytes")).into_owned();
        for secret in [KEY, TEXT, "POST", "authorization"] {
            assert!(!heard.contains(secret), "{case} heard {secret}: {heard:?}");
        }
        assert_eq!(stub.call_count(), 1, "{case}");
        // What the user said is stored all the same.
        assert_eq!(session.turns(case), [format!("user: {TEXT}")], "{case}");
        heard
    };
    for (case, options, words) in [
        ("expired", &[][..], "expired"),
        ("wrong_name", &[], "name"),
        ("unknown_authority", &[], "its issuer is not among"),
        ("self_signed", &[], "certificate"),
        ("good", &["-tls1", "-cipher", "ALL:@SECLEVEL=0"], ""),
        ("good", &["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], ""),
    ] {
        let front = Front::start(certificates.directory(), case, options, &stub);
        let named = format!("{case}{}", options.first().unwrap_or(&""));
        let heard = refused(&named, &front.base_url(), words, &front.heard);
        assert_eq!(heard, "", "{named}");
    }
    let (port, heard) = plain_http();
    let base_url = format!("https://127.0.0.1:{port}/v1");
    assert_ne!(refused("plain", &base_url, "", &heard), "", "nobody called");

    // An outage like any other: calls stop after some failures, and nothing shows a key.
    for number in 0..6 {
        refused_again(&mut session, number);
    }
    let status: Vec<String> = values(
        &mut session.client,
        "SELECT concat_ws(' ', state, detail, hint) FROM memory_status() WHERE component = 'llm'",
        &[],
    );
    assert!(
        status[0].starts_with("unavailable") && status[0].contains("breaker open"),
        "{status:?}"
    );
    let recorded = session.recorded();
    assert!(recorded[1..].iter().all(|call| call == "chat connection"), "{recorded:?}");
    let calls: Vec<String> =
        values(&mut session.client, "SELECT c::text FROM memory_agent.llm_calls c", &[]);
    let shown = format!("{} {calls:?} {status:?}", cluster.log());
    assert!(!shown.contains(KEY) && !shown.contains("0123456789abcdef"), "the key is shown");

    // When the endpoint is itself again, nothing has to be restarted.
    cluster.alter_system("memory_agent.llm_base_url", Some(&good.base_url()));
    let document = session.chat(&said(TEXT), "'good'");
    assert_eq!(document["choices"][0]["message"]["content"], ANSWER, "{document}");
}

fn refused_again(session: &mut Session, number: usize) {
    let document = session.chat(&said("Once more."), &format!("'again {number}'"));
    assert_eq!(document["error"]["code"], "unavailable", "{document}");
}
