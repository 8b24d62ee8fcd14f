//! A scripted upstream: a real HTTP server that remembers what it was sent, and answers as a test says.

use memory_agent_e2e::Json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

/// What came, as it came.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|header| header.0 == name).map(|header| header.1.as_str())
    }

    pub fn json(&self) -> Json {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The content of the last message, if it is a text.
    pub fn said(&self) -> String {
        let body = self.json();
        let messages = body["messages"].as_array().unwrap();
        messages.last().unwrap()["content"].as_str().unwrap_or_default().to_owned()
    }
}

/// Answers one request; the connection ends with it.
pub struct Answer(TcpStream);

impl Answer {
    /// A whole answer.
    pub fn whole(&mut self, status: u16, headers: &[(&str, &str)], body: &str) {
        let headers: String =
            headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let _ = write!(
            self.0,
            "HTTP/1.1 {status} Scripted\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
    }

    /// JSON with status 200.
    pub fn json(&mut self, body: &str) {
        self.whole(200, &[("content-type", "application/json")], body);
    }

    /// A whole answer of any bytes.
    pub fn bytes(&mut self, headers: &[(&str, &str)], body: &[u8]) {
        let length = body.len().to_string();
        let headers = [headers, &[("content-length", &length), ("connection", "close")]].concat();
        let headers: String =
            headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let _ = write!(self.0, "HTTP/1.1 200 Scripted\r\n{headers}\r\n");
        let _ = self.0.write_all(body);
    }

    /// The head of a stream in chunks.
    pub fn begin(&mut self) {
        self.begin_as("text/event-stream; charset=utf-8");
    }

    /// The head of an answer of this type, in chunks.
    pub fn begin_as(&mut self, kind: &str) {
        let _ = write!(
            self.0,
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\
             connection: close\r\n\r\n"
        );
    }

    /// The end of what is in chunks.
    pub fn end(&mut self) {
        let _ = self.0.write_all(b"0\r\n\r\n");
    }

    /// A piece of a stream. Nobody may listen any more.
    pub fn piece(&mut self, text: &str) {
        let _ = write!(self.0, "{:x}\r\n{text}\r\n", text.len());
        let _ = self.0.flush();
    }

    /// A chunk of an answer that says this.
    pub fn says(&mut self, text: &str) {
        self.piece(&format!("data: {}\n\n", chunk(text)));
    }

    /// The end of a stream, as OpenAI's end.
    pub fn done(&mut self) {
        let last = r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
        self.piece(&format!("data: {last}\n\ndata: [DONE]\n\n"));
        self.end();
    }

    /// Says the same again and again, until the gateway closes the connection.
    pub fn fill(&mut self, text: &str) {
        let piece = format!("{:x}\r\n{text}\r\n", text.len());
        while self.0.write_all(piece.as_bytes()).is_ok() {}
    }

    /// Waits until the gateway closes the connection.
    pub fn wait_until_left(&mut self) {
        let mut byte = [0];
        while self.0.read(&mut byte).is_ok_and(|count| count > 0) {}
    }
}

/// A chunk of OpenAI's that says something.
pub fn chunk(text: &str) -> String {
    let text = Json::from(text);
    format!(
        r#"{{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{{"index":0,"delta":{{"content":{text}}},"finish_reason":null}}]}}"#
    )
}

/// An answer of OpenAI's that says something.
pub fn completion(text: &str) -> String {
    let text = Json::from(text);
    format!(
        r#"{{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{{"index":0,"message":{{"role":"assistant","content":{text}}},"finish_reason":"stop"}}],"usage":{{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13}}}}"#
    )
}

/// The server.
pub struct Upstream {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Upstream {
    /// Answers every request by a script. It runs as long as the process.
    pub fn start(script: impl Fn(&Request, &mut Answer) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, script) = (Arc::clone(&requests), Arc::new(script));
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let (seen, script) = (Arc::clone(&seen), Arc::clone(&script));
                std::thread::spawn(move || {
                    let Some(request) = read(&connection) else { return };
                    seen.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
                    script(&request, &mut Answer(connection));
                });
            }
        });
        Self { address, requests }
    }

    /// Says the same to everybody, as a stream to who wants one.
    pub fn saying(text: &'static str) -> Self {
        Self::start(move |request, answer| {
            if request.method == "GET" {
                answer.json("{}");
            } else if request.json()["stream"] == true {
                answer.begin();
                for word in text.split_inclusive(' ') {
                    answer.says(word);
                }
                answer.done();
            } else {
                answer.json(&completion(text));
            }
        })
    }

    /// What `--upstream` takes.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// What came so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The last chat that came.
    #[track_caller]
    pub fn last(&self) -> Request {
        let chats = self.requests().into_iter().rfind(|request| request.method == "POST");
        chats.expect("a request")
    }
}

fn read(connection: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(connection);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|header| header.0 == "content-length");
    let length = length.and_then(|header| header.1.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { method, path, headers, body: String::from_utf8(body).ok()? })
}
