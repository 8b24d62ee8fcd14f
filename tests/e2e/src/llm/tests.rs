//! The stub is what other tests rely on, so what it promises is tested without the extension.

use super::*;
use serde_json::{Value, json};
use std::io::{BufRead, ErrorKind, Read, Write};
use std::time::Instant;

const GOOD: &str = r#"{"facts": [{"turn": 1, "text": "User lives in Rome."}]}"#;

/// What a client sees of an answer: status, headers and body, as far as they came.
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
    error: Option<ErrorKind>,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    fn content(&self) -> String {
        self.json()["choices"][0]["message"]["content"].as_str().expect("content").to_owned()
    }
}

struct Client(BufReader<TcpStream>);

impl Client {
    fn of(stub: &LlmStub) -> Self {
        Self::try_of(stub).expect("a connection")
    }

    fn try_of(stub: &LlmStub) -> std::io::Result<Self> {
        TcpStream::connect(stub.address).map(|stream| Self(BufReader::new(stream)))
    }

    fn send(&mut self, path: &str, body: &Value) {
        let body = body.to_string();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: stub\r\nAuthorization: Bearer key\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.0.get_mut().write_all(request.as_bytes()).expect("the request is taken");
    }

    fn receive(&mut self) -> Answer {
        let mut answer = Answer { status: 0, head: String::new(), body: Vec::new(), error: None };
        if let Err(error) = self.receive_into(&mut answer) {
            answer.error = Some(error.kind());
        }
        answer
    }

    fn receive_into(&mut self, answer: &mut Answer) -> std::io::Result<()> {
        while !answer.head.ends_with("\r\n\r\n") {
            if self.0.read_line(&mut answer.head)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        answer.status = answer.head[9..12].parse().expect("a status");
        let length = answer.head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let length: u64 = length.expect("a length").parse().expect("a number");
        (&mut self.0).take(length).read_to_end(&mut answer.body)?;
        if (answer.body.len() as u64) < length {
            Err(ErrorKind::UnexpectedEof.into())
        } else {
            Ok(())
        }
    }

    fn chat(&mut self) -> Answer {
        self.send("/v1/chat/completions", &chat());
        self.receive()
    }
}

fn chat() -> Value {
    json!({
        "model": "m",
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
        "response_format": {"type": "json_schema"},
    })
}

fn good(_: &Call) -> &'static str {
    GOOD
}

#[test]
fn answers_and_records() {
    let stub = LlmStub::start(good);
    let mut client = Client::of(&stub);
    for _ in 0..2 {
        let answer = client.chat();
        assert_eq!((answer.status, answer.content().as_str()), (200, GOOD));
        assert_eq!(answer.json()["choices"][0]["finish_reason"], "stop");
        assert!(answer.json()["usage"]["prompt_tokens"].as_u64() > Some(0));
    }
    let calls = stub.calls();
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[1].number, 1);
    assert!(calls[0].is_chat() && !calls[0].is_repair());
    assert_eq!(calls[0].header("authorization"), Some("Bearer key"));
    assert_eq!((calls[0].model(), calls[0].system().as_str()), ("m", "s"));
    assert_eq!(calls[0].response_format(), Some("json_schema"));
    assert_eq!((stub.in_flight(), stub.max_in_flight()), (0, 1));
}

#[test]
fn embeds_every_text() {
    let stub = LlmStub::start(good);
    let mut client = Client::of(&stub);
    client.send("/v1/embeddings", &json!({"model": "e", "input": ["Rome", "rome!", "Oslo"]}));
    let answer = client.receive().json();
    let embedding = |index: usize| answer["data"][index]["embedding"].clone();
    assert_eq!(embedding(0), embedding(1));
    assert_ne!(embedding(0), embedding(2));
    assert_eq!(embedding(0).as_array().map(Vec::len), Some(64));
}

#[test]
fn faults_of_the_connection() {
    let stub = LlmStub::start(good);
    let fault = |fault| {
        stub.faults(FaultPlan::always(fault));
        Client::of(&stub).chat()
    };
    let answer = fault(Fault::ResetBeforeHeaders);
    assert_eq!((answer.status, answer.error), (0, Some(ErrorKind::ConnectionReset)));
    let answer = fault(Fault::ResetInBody);
    // The reset may overtake what was sent before it.
    assert!(matches!(answer.error, Some(ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof)));
    let answer = fault(Fault::HalfBody);
    assert_eq!((answer.status, answer.error), (200, Some(ErrorKind::UnexpectedEof)));
    assert!(!answer.body.is_empty());
    for slow in [Fault::Delay(Duration::from_millis(100)), Fault::Drip(Duration::from_millis(100))]
    {
        let start = Instant::now();
        assert_eq!(fault(slow).content(), GOOD);
        assert!(start.elapsed() >= Duration::from_millis(90), "{slow:?}");
    }
}

#[test]
fn faults_of_the_status() {
    let stub = LlmStub::start(good);
    let mut client = Client::of(&stub);
    stub.faults(FaultPlan::script([
        Some(Fault::TooManyRequests { retry_after: Some(7) }),
        Some(Fault::TooManyRequests { retry_after: None }),
        Some(Fault::Status(500)),
        Some(Fault::NoResponseFormat),
        None,
    ]));
    let answer = client.chat();
    assert_eq!(answer.status, 429);
    assert!(answer.head.contains("Retry-After: 7\r\n"), "{}", answer.head);
    let answer = client.chat();
    assert_eq!(answer.status, 429);
    assert!(!answer.head.contains("Retry-After"), "{}", answer.head);
    assert_eq!(client.chat().status, 500);
    assert_eq!(client.chat().status, 400);
    assert_eq!(client.chat().content(), GOOD);
    // After the script nothing goes wrong.
    assert_eq!(client.chat().content(), GOOD);
}

#[test]
fn faults_of_the_content() {
    let stub = LlmStub::start(good);
    let mut client = Client::of(&stub);
    let mut content = |fault| {
        stub.faults(FaultPlan::always(fault));
        client.chat().content()
    };
    assert!(GOOD.starts_with(&content(Fault::HalfContent)));
    assert!(content(Fault::Prose).contains(GOOD));
    assert!(content(Fault::Fenced).contains(&format!("```json\n{GOOD}\n```")));
    assert_eq!(content(Fault::EmptyContent), "");
    assert!(content(Fault::InventedIds).contains("4711"));
    for no_json in [Fault::HalfContent, Fault::GarbageContent, Fault::Prose] {
        assert!(serde_json::from_str::<Value>(&content(no_json)).is_err(), "{no_json:?}");
    }
    assert!(!content(Fault::WrongSchema).contains("facts"));
    stub.faults(FaultPlan::always(Fault::GarbageBody));
    assert!(serde_json::from_slice::<Value>(&client.chat().body).is_err());
    stub.faults(FaultPlan::always(Fault::HugeBody));
    let answer = client.chat();
    assert!(answer.body.len() > HUGE);
    assert_eq!(answer.content(), GOOD);
}

#[test]
fn random_faults_follow_the_seed_and_the_share() {
    let kinds = Fault::every_kind(Duration::ZERO);
    let stub = LlmStub::start(good);
    let mut client = Client::of(&stub);
    client.chat();
    let mut call = stub.calls().remove(0);
    let mut faults = |seed| -> Vec<Option<Fault>> {
        let plan = FaultPlan::random(seed, 0.3, kinds.clone());
        (0..2000)
            .map(|number| {
                call.number = number;
                plan.fault(&call)
            })
            .collect()
    };
    let once = faults(1);
    assert_eq!(once, faults(1));
    assert_ne!(once, faults(2));
    let count = once.iter().flatten().count();
    assert!((500..700).contains(&count), "{count} of 2000");
    for kind in &kinds {
        assert!(once.contains(&Some(*kind)), "never {kind:?}");
    }
}

#[test]
fn an_outage_refuses_connections_and_ends() {
    let stub = LlmStub::start(good);
    let mut client = Client::of(&stub);
    client.chat();
    stub.set_down(true);
    assert_eq!(
        Client::try_of(&stub).err().map(|error| error.kind()),
        Some(ErrorKind::ConnectionRefused)
    );
    assert!(client.receive().error.is_some());
    stub.set_down(false);
    assert_eq!(Client::of(&stub).chat().content(), GOOD);
    assert_eq!(stub.call_count(), 2);
}

#[test]
fn held_answers_are_in_flight_until_their_clients_leave() {
    let stub = LlmStub::start(good);
    stub.hold(true);
    let mut clients: Vec<Client> = (0..3).map(|_| Client::of(&stub)).collect();
    for client in &mut clients {
        client.send("/v1/chat/completions", &chat());
    }
    let patience = Duration::from_secs(10);
    wait_until(patience, "three calls", || stub.in_flight() == 3);
    clients.pop();
    wait_until(patience, "a client to leave", || stub.in_flight() == 2);
    stub.hold(false);
    for client in &mut clients {
        assert_eq!(client.receive().content(), GOOD);
    }
    assert_eq!(stub.max_in_flight(), 3);
}
