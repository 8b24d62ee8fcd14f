//! `memory-agent mcp` and `/mcp`, as programs that speak MCP see them.

mod captured;
mod clients;
mod config;
mod http;
mod scenarios;
mod stdio;

use crate::cluster;
use memory_agent_e2e::{Cluster, Gateway, Json, bindir, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

/// The protocol before the current one.
const PREVIOUS: &str = "2025-11-25";

/// `memory-agent mcp` with arguments, and nothing in its environment.
fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(bindir().join("memory-agent"));
    command.arg("mcp").args(arguments).env_clear().stderr(Stdio::piped());
    command
}

/// The arguments for a database of this suite's cluster.
fn of_database(name: &str) -> [String; 2] {
    of_database_in(cluster(), name)
}

fn of_database_in(cluster: &Cluster, name: &str) -> [String; 2] {
    ["--database".to_owned(), Gateway::database(cluster, crate::ROLE, name)]
}

/// A call of a tool, as a request of JSON-RPC.
fn call(id: u32, tool: &str, arguments: &Json) -> Json {
    let params = json!({"name": tool, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

/// The beginning of a session.
fn initialize(version: &str) -> Json {
    let client = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
}

/// What a tool said: the text of its answer, and whether it failed.
#[track_caller]
fn said(answer: &Json) -> (String, bool) {
    let result = &answer["result"];
    let text = result["content"][0]["text"].as_str();
    (text.unwrap_or_else(|| panic!("{answer}")).to_owned(), result["isError"] == true)
}

/// A running `memory-agent mcp`, whose lines are read one by one.
struct Session {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    asked: u32,
}

impl Session {
    /// Starts it and begins a session.
    fn start(arguments: &[&str]) -> Self {
        let mut command = program(arguments);
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("memory-agent: {error}. Run `make install`."));
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut session = Self { process, input, output, asked: 0 };
        let begun = session.ask(&initialize(PREVIOUS));
        assert_eq!(begun["result"]["protocolVersion"], PREVIOUS, "{begun}");
        session.tell(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        session
    }

    fn tell(&mut self, message: &Json) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Sends a request; the next line is its answer.
    #[track_caller]
    fn ask(&mut self, request: &Json) -> Json {
        self.tell(request);
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let answer: Json = serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("{error}: {line:?}\n{}", self.end().1));
        assert_eq!(answer["id"], request["id"], "{answer}");
        answer
    }

    /// Calls a tool: the text of its answer, and whether it failed.
    #[track_caller]
    fn call(&mut self, tool: &str, arguments: &Json) -> (String, bool) {
        self.asked += 1;
        let request = call(self.asked, tool, arguments);
        said(&self.ask(&request))
    }

    /// Closes its input and waits for its end: its status, its log, and what else it wrote.
    fn end(&mut self) -> (ExitStatus, String, String) {
        drop(self.input.take());
        let (mut rest, mut log) = (String::new(), String::new());
        self.output.read_to_string(&mut rest).unwrap();
        self.process.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        (self.process.wait().unwrap(), log, rest)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // It is over already, or the test has failed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
