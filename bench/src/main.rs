//! `make bench`: how good recall is on labelled conversations, and what it costs in time and memory
//! beside the models and a vector query alone. Every section starts from an empty database of one
//! private cluster and prints a table; see docs/ranking.md for figures and how to read them.

mod arguments;
mod attach;
mod configurations;
mod connection;
mod dataset;
mod drain;
mod embed_jobs;
mod everyday;
mod gateway;
mod ingest;
mod ingest_llm;
mod languages;
mod latency;
mod load;
mod long_turns;
mod memory;
mod metrics;
mod quality;
mod raw_model;
mod scale;
mod told;

use arguments::Arguments;
use clap::Parser;
use environment::Environment;
use memory_agent_bench::{Result, environment, llm_scene, report, samples, synthetic};
use report::Report;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::parse().with_sections();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprint!("bench: {error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                eprint!(": {error}");
                cause = error.source();
            }
            eprintln!();
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let environment = Environment::start(arguments.reranker.as_deref())?;
    let mut report = Report::new(&environment);
    if arguments.quality {
        quality::run(&environment, arguments, &mut report)?;
    }
    if arguments.latency {
        latency::run(&environment, arguments, &mut report)?;
        ingest::run(&environment, arguments, &mut report)?;
    }
    if arguments.load {
        load::run(&environment, arguments, &mut report)?;
    }
    if arguments.memory {
        memory::run(&environment, &mut report)?;
    }
    if arguments.scale {
        scale::run(&environment, arguments, &mut report)?;
    }
    if arguments.worker {
        embed_jobs::run(arguments, &mut report)?;
        long_turns::run(&environment, arguments, &mut report)?;
        ingest_llm::run(arguments, &mut report)?;
    }
    if arguments.attach {
        attach::run(&environment, arguments, &mut report)?;
    }
    if arguments.drain {
        drain::run(arguments, &mut report)?;
    }
    if arguments.gateway {
        gateway::run(&environment, arguments, &mut report)?;
    }
    if arguments.languages {
        languages::run(&environment, arguments, &mut report)?;
        everyday::run(&environment, &mut report)?;
    }
    report.finish(arguments.json.as_deref())
}
