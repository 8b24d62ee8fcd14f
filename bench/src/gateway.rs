//! What the gateway adds: to a request that it forwards, to a chat without memory and to one with it; and many streams
//! at once. The upstream is a stand-in on this machine, which answers at once.

use crate::Result;
use crate::arguments::Arguments;
use crate::environment::Environment;
use crate::memory::Footprint;
use crate::report::{Bound, Report, Table, progress};
use crate::samples::Samples;
use crate::synthetic::{self, FreshQuestions};
use memory_agent_e2e::{Gateway, Json, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Turns stored before the first chat.
const ROWS: usize = 600;
/// Streams at once, each so far after the one before.
const STREAMS: usize = 200;
const APART: Duration = Duration::from_millis(40);
/// Pieces of a streamed answer, and how long each takes: all streams go on at the same time.
const PIECES: usize = 60;
const PIECE: Duration = Duration::from_millis(200);
const LOOK: Duration = Duration::from_millis(50);
const CHATS: &str = "/v1/chat/completions";
/// With the caller's own key, memory has nothing to do with it.
const FORWARDED: &str = "/v1/completions";

pub fn run(environment: &Environment, arguments: &Arguments, report: &mut Report) -> Result<()> {
    let mut client = environment.database("gateway")?;
    client.batch_execute("CREATE ROLE gateway LOGIN; SELECT memory_grant('gateway')")?;
    client.batch_execute("SET memory_agent.user_id = 'ann'")?;
    let turns: Vec<Json> = (0..ROWS)
        .map(|number| json!({"session_id": "s", "role": "user", "content": synthetic::sentence(number)}))
        .collect();
    client.execute("SELECT memory_ingest_batch($1)", &[&Json::from(turns)])?;
    client.batch_execute("SELECT memory_wait('10 min')")?;
    let upstream = upstream()?;
    let to = Gateway::database(&environment.cluster, "gateway", "gateway");
    let url = format!("http://{upstream}/v1");
    let gateway = Gateway::start(&["--database", &to, "--upstream", &url, "--user", "ann"]);

    let rounds = arguments.samples;
    progress(format_args!("gateway: {rounds} chats"));
    let mut questions = FreshQuestions::default();
    let (mut direct, mut forwarded, mut without) =
        (Samples::default(), Samples::default(), Samples::default());
    let (mut with, mut recall) = (Samples::default(), Samples::default());
    let (mut to_upstream, mut to_gateway) =
        (Connection::open(upstream)?, Connection::open(gateway.address())?);
    // Connections, caches and plans are there.
    for _ in 0..5 {
        to_upstream.chat(&nothing_said())?;
        to_gateway.chat(&says(&questions.another(), false))?;
    }
    for _ in 0..rounds {
        direct.time(|| to_upstream.chat(&nothing_said()))?;
        forwarded.time(|| to_gateway.post(FORWARDED, &nothing_said()))?;
        without.time(|| to_gateway.chat(&nothing_said()))?;
        with.time(|| to_gateway.chat(&says(&questions.another(), false)))?;
        let messages = json!([{"role": "user", "content": questions.another()}]);
        recall.time(|| client.query_one("SELECT memory_augment($1, 's')", &[&messages]))?;
    }
    report.section(&format!("Gateway: {rounds} chats, {ROWS} turns stored"));
    let mut table = Table::new(&["", "p50 ms", "p95 ms"]);
    for (name, samples) in [
        ("upstream alone", &direct),
        ("gateway, forwarded unchanged", &forwarded),
        ("gateway, nothing to remember", &without),
        ("gateway with memory", &with),
        ("memory_augment alone", &recall),
    ] {
        let figures = [samples.median(), samples.quantile(0.95)].map(|time| format!("{time:.2}"));
        table.row([&[name.to_owned()][..], &figures].concat());
    }
    print!("{table}");
    for (name, samples) in [("forwarded unchanged", &forwarded), ("nothing to remember", &without)]
    {
        let added = samples.median() - direct.median();
        report.target(format!("ms added, {name}, p50"), added, Bound::AtMost(2.0));
    }
    let beside = with.median() - direct.median() - recall.median();
    report.target("ms added beside recall, with memory, p50", beside, Bound::AtMost(5.0));

    let streams = streams(&gateway)?;
    report.section(&format!("Gateway: {STREAMS} streams at once"));
    let mut table = Table::new(&["errors", "with memory", "kB a stream"]);
    let share = streams.with_memory as f64 / STREAMS as f64;
    table.row([
        streams.errors.to_string(),
        format!("{:.1} %", share * 100.0),
        format!("{:.0}", streams.kilobytes),
    ]);
    print!("{table}");
    report.target("streams that failed", streams.errors as f64, Bound::AtMost(0.0));
    report.target("share of streams with memory", share, Bound::AtLeast(0.95));
    report.target("kB a stream", streams.kilobytes, Bound::AtMost(200.0));
    report.add(
        "gateway",
        json!({
            "direct_milliseconds": direct.summary(),
            "forwarded_milliseconds": forwarded.summary(),
            "without_memory_milliseconds": without.summary(),
            "with_memory_milliseconds": with.summary(),
            "recall_milliseconds": recall.summary(),
            "streams": STREAMS,
            "stream_errors": streams.errors,
            "streams_with_memory": streams.with_memory,
            "kilobytes_a_stream": streams.kilobytes,
        }),
    );
    Ok(())
}

/// A chat in which nothing was said that could be remembered.
fn nothing_said() -> String {
    json!({"messages": [{"role": "system", "content": "Say something."}]}).to_string()
}

fn says(text: &str, streams: bool) -> String {
    let messages = [json!({"role": "user", "content": text})];
    json!({"messages": messages, "stream": streams, "memory_id": "s"}).to_string()
}

/// What came of many streams at once.
struct Streams {
    errors: usize,
    with_memory: usize,
    /// That the gateway had more of while they went on, for each.
    kilobytes: f64,
}

fn streams(gateway: &Gateway) -> Result<Streams> {
    progress(format_args!("gateway: {STREAMS} streams"));
    let resident = || Footprint::of(gateway.pid()).map(|footprint| footprint.resident);
    let before = resident()?;
    let is_over = AtomicBool::new(false);
    let (outcomes, most) = thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut most = before;
            while !is_over.load(Ordering::Relaxed) {
                most = most.max(resident().unwrap_or(0));
                thread::sleep(LOOK);
            }
            most
        });
        let mut questions = FreshQuestions::default();
        let threads: Vec<_> = (0..STREAMS)
            .map(|_| {
                let body = says(&questions.another(), true);
                thread::sleep(APART);
                let stream = move || Connection::open(gateway.address())?.stream(&body);
                scope.spawn(move || stream().ok())
            })
            .collect();
        let outcomes: Vec<Option<bool>> =
            threads.into_iter().map(|thread| thread.join().ok().flatten()).collect();
        is_over.store(true, Ordering::Relaxed);
        (outcomes, watcher.join().unwrap_or(before))
    });
    Ok(Streams {
        errors: outcomes.iter().filter(|outcome| outcome.is_none()).count(),
        with_memory: outcomes.iter().filter(|outcome| **outcome == Some(true)).count(),
        kilobytes: most.saturating_sub(before) as f64 / STREAMS as f64,
    })
}

/// A connection of a client, which is kept.
struct Connection {
    address: SocketAddr,
    reader: BufReader<TcpStream>,
}

impl Connection {
    fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { address, reader: BufReader::new(stream) })
    }

    fn send(&mut self, path: &str, body: &str) -> Result<Vec<String>> {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        self.reader.get_mut().write_all(format!("{head}{body}").as_bytes())?;
        let head = read_head(&mut self.reader)?;
        if head.first().is_none_or(|line| !line.contains(" 200 ")) {
            return Err(format!("{head:?}").into());
        }
        Ok(head)
    }

    /// A chat, to the last byte of the answer.
    fn chat(&mut self, body: &str) -> Result<()> {
        self.post(CHATS, body)
    }

    fn post(&mut self, path: &str, body: &str) -> Result<()> {
        let head = self.send(path, body)?;
        if head.iter().any(|line| line == "transfer-encoding: chunked") {
            self.chunks()?;
        } else {
            let mut answer = vec![0; length(&head)];
            self.reader.read_exact(&mut answer)?;
        }
        Ok(())
    }

    /// A body in chunks, with the lines that part them.
    fn chunks(&mut self) -> Result<String> {
        let mut body = String::new();
        // A chunk of no bytes and an empty line end it.
        while !body.ends_with("\r\n0\r\n\r\n") {
            if self.reader.read_line(&mut body)? == 0 {
                return Err("the answer broke off".into());
            }
        }
        Ok(body)
    }

    /// A chat whose answer streams; whether memory was there for both turns.
    fn stream(&mut self, body: &str) -> Result<bool> {
        let head = self.send(CHATS, body)?;
        let failed = head.iter().any(|line| line.starts_with("x-memory-failed"));
        let answer = self.chunks()?;
        if !answer.contains("[DONE]") {
            return Err("the stream has no end".into());
        }
        Ok(!failed && answer.contains("memory_stored"))
    }
}

/// The lines of a head, in lower case.
fn read_head(reader: &mut impl BufRead) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err("the connection ended".into());
        }
        if line.trim_end().is_empty() {
            return Ok(lines);
        }
        lines.push(line.trim_end().to_lowercase());
    }
}

fn length(head: &[String]) -> usize {
    let length = head.iter().find_map(|line| line.strip_prefix("content-length: "));
    length.and_then(|length| length.parse().ok()).unwrap_or(0)
}

/// Starts the stand-in, which lives as long as the program.
fn upstream() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            thread::spawn(move || {
                // It ends with the client, or the gateway.
                let _ = answer_all(connection);
            });
        }
    });
    Ok(address)
}

fn answer_all(connection: TcpStream) -> Result<()> {
    connection.set_nodelay(true)?;
    let mut reader = BufReader::new(connection);
    loop {
        let head = read_head(&mut reader)?;
        let mut body = vec![0; length(&head)];
        reader.read_exact(&mut body)?;
        let body: Json = serde_json::from_slice(&body).unwrap_or_default();
        let connection = reader.get_mut();
        if body["stream"] == true {
            connection.write_all(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
            )?;
            for number in 0..PIECES {
                let choice = json!({"index": 0, "delta": {"content": format!("word {number} ")}});
                piece(connection, &json!({"id": "c", "choices": [choice]}).to_string())?;
                thread::sleep(PIECE);
            }
            piece(connection, "[DONE]")?;
            connection.write_all(b"0\r\n\r\n")?;
        } else {
            let message = json!({"role": "assistant", "content": "Something."});
            let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
            let answer = json!({"id": "c", "choices": [choice]}).to_string();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length:";
            connection.write_all(format!("{head} {}\r\n\r\n{answer}", answer.len()).as_bytes())?;
        }
    }
}

fn piece(connection: &mut TcpStream, data: &str) -> Result<()> {
    let event = format!("data: {data}\n\n");
    connection.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes())?;
    Ok(())
}
