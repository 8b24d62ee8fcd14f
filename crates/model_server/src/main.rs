//! The model server's command line. PostgreSQL's supervisor process starts it; by hand it serves
//! for measuring and debugging.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use memory_agent_model_server::socket::server::{self, ServerOptions};
use memory_agent_model_server::work::service::ServiceOptions;

const USAGE: &str = "\
Usage: memory_agent_model_server --socket PATH --onnxruntime PATH [OPTION ...]

Runs embedding and rerank models for the PostgreSQL extension memory_agent, and calls the
HTTP services that its settings name.

  --socket PATH        Unix socket to listen on (at most 107 bytes); PATH.lock is locked
  --onnxruntime PATH   libonnxruntime.so
  --threads N          threads that run models (2)
  --queue-items N      most sequences waiting for a thread (16384)
  --queue-bytes N      most bytes of requests held at once (134217728)
  --cache-entries N    remembered question embeddings, and 16 times as many scores (4096);
                       0 switches caching off
  --lifetime-fd N      end when this pipe closes (0, standard input)
  --parent PID         do not start unless PID is the parent process
  --preload DIRECTORY  load this model at once; may be repeated
";

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).peekable();
    if arguments.peek().is_some_and(|first| first == "--help") {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let options = match parse(arguments) {
        Ok(options) => options,
        Err(message) => {
            eprint!("memory_agent_model_server: {message}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match server::run(options) {
        Ok(never) => match never {},
        Err(error) => {
            eprintln!("memory_agent_model_server: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<ServerOptions, String> {
    let mut socket = None;
    let mut onnxruntime_path = None;
    let mut options = ServerOptions {
        socket: PathBuf::new(),
        service: ServiceOptions {
            onnxruntime_path: PathBuf::new(),
            threads: 2,
            queue_items: 16_384,
            cache_entries: 4096,
        },
        queue_bytes: 128 * 1024 * 1024,
        preload: Vec::new(),
        lifetime_fd: 0,
        parent: None,
    };
    while let Some(name) = arguments.next() {
        let name = name.to_string_lossy().into_owned();
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--socket" => socket = Some(PathBuf::from(value)),
            "--onnxruntime" => onnxruntime_path = Some(PathBuf::from(value)),
            "--threads" => options.service.threads = number(&name, &value, 1)?,
            "--queue-items" => options.service.queue_items = number(&name, &value, 1)?,
            "--queue-bytes" => options.queue_bytes = number(&name, &value, 1)?,
            "--cache-entries" => options.service.cache_entries = number(&name, &value, 0)?,
            "--lifetime-fd" => options.lifetime_fd = number(&name, &value, 0)?,
            "--parent" => options.parent = Some(number(&name, &value, 1)?),
            "--preload" => options.preload.push(PathBuf::from(value)),
            _ => return Err(format!("unknown option {name}")),
        }
    }
    options.socket = socket.ok_or("--socket is missing")?;
    options.service.onnxruntime_path = onnxruntime_path.ok_or("--onnxruntime is missing")?;
    Ok(options)
}

fn number<T>(name: &str, value: &OsString, least: T) -> Result<T, String>
where
    T: std::str::FromStr + PartialOrd + std::fmt::Display,
{
    value
        .to_str()
        .and_then(|text| text.parse().ok())
        .filter(|number| *number >= least)
        .ok_or_else(|| format!("{name} needs a number of at least {least}, not {value:?}"))
}
