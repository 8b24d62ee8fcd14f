//! What a person does with memory in a terminal: `chat`, `add`, `recall`, `forget`, `export`, `import`.

mod chat;
mod export;
mod import;
mod import_sources;
mod single;

use crate::{ROLE, cluster};
use memory_agent_e2e::{Gateway, Json, bindir};
use std::io::Write;
use std::process::{Command, Stdio};

/// `memory-agent` with arguments, and nothing in its environment.
fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(bindir().join("memory-agent"));
    command.args(arguments).env_clear();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// `memory-agent` with arguments at a terminal, and what is done there, as `pty.py` says.
fn at_a_terminal(arguments: &[String], script: &[Json]) -> Ended {
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-c", include_str!("pty.py")]).arg(bindir().join("memory-agent"));
    python.args(arguments).env_clear().env("TERM", "xterm");
    python.stdout(Stdio::piped()).stderr(Stdio::piped());
    let script: Vec<String> = script.iter().map(Json::to_string).collect();
    ended(&mut python, &script.join("\n"))
}

/// How it ended: the exit status, standard output, standard error.
struct Ended {
    status: Option<i32>,
    out: String,
    said: String,
}

/// Runs it to its end over a database of this suite's cluster.
fn run_on(database: &str, arguments: &[&str], input: &str) -> Ended {
    let database = Gateway::database(cluster(), ROLE, database);
    ended(program(arguments).args(["--database", &database]), input)
}

fn ended(command: &mut Command, input: &str) -> Ended {
    let mut process = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = process.stdin.take().unwrap();
    let input = input.to_owned();
    // A program that reads nothing breaks the pipe.
    let writer = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    let output = process.wait_with_output().unwrap();
    writer.join().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    Ended { status: output.status.code(), out: text(&output.stdout), said: text(&output.stderr) }
}
