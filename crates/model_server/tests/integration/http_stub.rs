//! An HTTP server that plays an LLM or an embedding service from a script, faults included. It
//! answers one request per connection and remembers what it was asked.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// What the stub does with one request.
#[derive(Debug, Clone)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    delivery: Delivery,
}

#[derive(Debug, Clone)]
enum Delivery {
    AtOnce,
    /// After a pause.
    Late(Duration),
    /// In small pieces with pauses between them.
    Drip(Duration),
    /// Half of the body, then the connection is closed.
    Half,
    /// Without saying how long it is.
    Unannounced,
    /// Nothing, the connection is closed.
    Close,
    /// Nothing, until the client leaves.
    Never,
}

impl Reply {
    pub fn json(status: u16, body: Value) -> Self {
        Self::raw(status, body.to_string())
    }

    pub fn raw(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into(), delivery: Delivery::AtOnce }
    }

    /// A chat completion of OpenAI's form.
    pub fn chat(content: &str) -> Self {
        Self::finished(json!({ "role": "assistant", "content": content }), "stop")
    }

    /// A chat completion with any message and reason for its end.
    pub fn finished(message: Value, finish_reason: &str) -> Self {
        Self::json(
            200,
            json!({
                "model": "stub-1",
                "choices": [{ "index": 0, "message": message, "finish_reason": finish_reason }],
                "usage": { "prompt_tokens": 12, "completion_tokens": 7, "total_tokens": 19 },
            }),
        )
    }

    /// An error of OpenAI's form.
    pub fn error(status: u16, message: &str) -> Self {
        Self::json(status, json!({ "error": { "message": message, "type": "stub" } }))
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn late(self, pause: Duration) -> Self {
        Self { delivery: Delivery::Late(pause), ..self }
    }

    pub fn drip(self, pause: Duration) -> Self {
        Self { delivery: Delivery::Drip(pause), ..self }
    }

    pub fn half(self) -> Self {
        Self { delivery: Delivery::Half, ..self }
    }

    pub fn unannounced(self) -> Self {
        Self { delivery: Delivery::Unannounced, ..self }
    }

    pub fn close() -> Self {
        Self { delivery: Delivery::Close, ..Self::raw(200, "") }
    }

    pub fn never() -> Self {
        Self { delivery: Delivery::Never, ..Self::raw(200, "") }
    }

    fn send(&self, stream: &mut TcpStream, abandoned: &AtomicUsize) -> std::io::Result<()> {
        let mut head = format!("HTTP/1.1 {} Stub\r\nconnection: close\r\n", self.status);
        if !matches!(self.delivery, Delivery::Unannounced) {
            head.push_str(&format!("content-length: {}\r\n", self.body.len()));
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        match self.delivery {
            Delivery::Close => return Ok(()),
            Delivery::Never => {
                let mut byte = [0];
                while stream.read(&mut byte).is_ok_and(|count| count > 0) {}
                abandoned.fetch_add(1, Ordering::SeqCst);
                return Ok(());
            }
            Delivery::Late(pause) => thread::sleep(pause),
            _ => {}
        }
        stream.write_all(head.as_bytes())?;
        match self.delivery {
            Delivery::Drip(pause) => {
                for piece in self.body.chunks(8) {
                    thread::sleep(pause);
                    stream.write_all(piece)?;
                }
                Ok(())
            }
            Delivery::Half => stream.write_all(&self.body[..self.body.len() / 2]),
            _ => stream.write_all(&self.body).inspect_err(|_| {
                abandoned.fetch_add(1, Ordering::SeqCst);
            }),
        }
    }
}

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Method and path with query.
    pub line: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Value,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

#[derive(Debug, Default)]
struct Shared {
    script: Mutex<VecDeque<Reply>>,
    /// The answer when the script is over.
    usual: Mutex<Option<Reply>>,
    asked: Mutex<Vec<Asked>>,
    abandoned: AtomicUsize,
    stopped: AtomicBool,
}

/// A running stub. It stops when it is dropped.
#[derive(Debug)]
pub struct Stub {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Stub {
    /// Answers the first requests by the script, and further ones with 500.
    pub fn play(script: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        shared.script.lock().unwrap().extend(script);
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if serving.stopped.load(Ordering::SeqCst) {
                    return;
                }
                let (stream, serving) = (stream.unwrap(), Arc::clone(&serving));
                // A client that leaves in the middle is no error here.
                thread::spawn(move || serve(stream, &serving).unwrap_or_default());
            }
        });
        Self { address, shared }
    }

    /// Answers every request the same way.
    pub fn always(reply: Reply) -> Self {
        let stub = Self::play([]);
        *stub.shared.usual.lock().unwrap() = Some(reply);
        stub
    }

    /// Adds to the script.
    pub fn then(&self, reply: Reply) {
        self.shared.script.lock().unwrap().push_back(reply);
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap().clone()
    }

    /// Number of requests so far.
    pub fn calls(&self) -> usize {
        self.shared.asked.lock().unwrap().len()
    }

    /// Requests that their client gave up.
    pub fn abandoned(&self) -> usize {
        self.shared.abandoned.load(Ordering::SeqCst)
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(mut stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut headers = Vec::new();
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header)? == 0 || header.trim().is_empty() {
            break;
        }
        let (name, value) = header.split_once(':').unwrap_or_default();
        headers.push((name.trim().to_lowercase(), value.trim().to_owned()));
    }
    let length = headers
        .iter()
        .find(|(name, _)| name == "content-length")
        .map_or(0, |(_, value)| value.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let line = line.trim().trim_end_matches(" HTTP/1.1").to_owned();
    if line.is_empty() {
        return Ok(());
    }
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    shared.asked.lock().unwrap().push(Asked { line, headers, body });
    let next = shared.script.lock().unwrap().pop_front();
    let usual = shared.usual.lock().unwrap().clone();
    let reply = next.or(usual).unwrap_or_else(|| Reply::error(500, "the script is over"));
    reply.send(&mut stream, &shared.abandoned)
}
