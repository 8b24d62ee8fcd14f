//! `make evaluate`: what is still known after long conversations. Scripted conversations with planted
//! facts, other talk and changes of mind are stored through SQL, the worker makes facts of them, and
//! every fact is asked for within a token budget; the six scenarios and the flags are those of the ACMS
//! evaluation harness. With `--kpi`, what the context window costs and holds. docs/evaluation.md has
//! figures and how to read them.

mod arguments;
mod conversation;
mod endpoint;
mod kpi;
mod random;
mod report;
mod run;
mod scenario;
mod scenarios;
mod session;
mod small_talk;
mod verdict;

use arguments::{Arguments, Llm};
use clap::Parser;
use endpoint::Endpoint;
use memory_agent_bench::Result;
use memory_agent_bench::environment::processor;
use report::Report;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.list_scenarios {
        for scenario in scenarios::SCENARIOS {
            println!("{:<26} {}", scenario.name, scenario.tests);
        }
        return ExitCode::SUCCESS;
    }
    let outcome = if arguments.kpi { kpi::run(&arguments) } else { play(&arguments) };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("evaluate: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Plays all sessions and writes the reports. False if a probe failed: with the scripted LLM none may,
/// a real one may be as good as it is.
fn play(arguments: &Arguments) -> Result<bool> {
    let endpoint = Endpoint::start(&arguments.llm(), &[]);
    let about = about(&endpoint)?;
    let sessions = run::run(&endpoint, arguments)?;
    let report = Report::of(&sessions, arguments, &about);
    report.finish(&arguments.output)?;
    Ok(report.failed() == 0 || arguments.llm() != Llm::Scripted)
}

/// The machine and the software, in one line.
fn about(endpoint: &Endpoint) -> Result<String> {
    let mut client = endpoint.cluster.connect("postgres");
    let version: String = client.query_one("SHOW server_version", &[])?.get(0);
    Ok(format!(
        "memory_agent {}, PostgreSQL {version}, {}, fsync off",
        env!("CARGO_PKG_VERSION"),
        processor()
    ))
}
