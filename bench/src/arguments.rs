//! The command line.

use std::path::PathBuf;

pub const USAGE: &str = "\
Usage: bench [SECTION ...] [OPTION ...]

Sections; without any, all of them:
  --quality       recall on labelled conversations, through memory_recall
  --latency       recall and ingest, as ratios to the raw models and to a bare pgvector query
  --load          recalls of 1, 8 and 32 connections that ask without pause: times and quality
  --memory        private memory of a backend, and the model server's
  --scale         recall and ingest while a user's memory grows
  --worker        embed jobs, and ingest while an LLM extracts facts
  --attach        writing a table that is attached, beside one that is not
  --drain         a full queue of extract jobs

Options:
  --data DIR      directory of the labelled data, with folders locomo-open and realmem-open
                  (MEMORY_AGENT_BENCH_DATA, or ../shared/eval beside the checkout)
  --limit N       only the first N questions of each conversation
  --only TEXT     only the configurations of --quality and --drain that have TEXT in their names
  --runs DIR      write the rankings there, one file per data set and configuration
  --samples N     measurements of each latency (200)
  --scale-rows N  largest memory of --scale (200000)
  --jobs N        jobs of each run of --drain (10000)
  --json FILE     write all figures there
";

/// What to measure, and how.
#[derive(Debug, PartialEq, Eq)]
pub struct Arguments {
    pub quality: bool,
    pub latency: bool,
    pub load: bool,
    pub memory: bool,
    pub scale: bool,
    pub worker: bool,
    pub attach: bool,
    pub drain: bool,
    pub data: PathBuf,
    /// Questions of each conversation; `None` is all.
    pub limit: Option<usize>,
    /// Part of the names of configurations; empty for all.
    pub only: String,
    pub runs: Option<PathBuf>,
    pub samples: usize,
    pub scale_rows: usize,
    pub jobs: usize,
    pub json: Option<PathBuf>,
}

impl Arguments {
    /// Reads the arguments after the program's name; `None` when help is asked for.
    pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut parsed = Self {
            quality: false,
            latency: false,
            load: false,
            memory: false,
            scale: false,
            worker: false,
            attach: false,
            drain: false,
            data: default_data(),
            limit: None,
            only: String::new(),
            runs: None,
            samples: 200,
            scale_rows: 200_000,
            jobs: 10_000,
            json: None,
        };
        let mut arguments = arguments;
        while let Some(name) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{name} needs a value"));
            match name.as_str() {
                "--help" | "-h" => return Ok(None),
                "--quality" => parsed.quality = true,
                "--latency" => parsed.latency = true,
                "--load" => parsed.load = true,
                "--memory" => parsed.memory = true,
                "--scale" => parsed.scale = true,
                "--worker" => parsed.worker = true,
                "--attach" => parsed.attach = true,
                "--drain" => parsed.drain = true,
                "--data" => parsed.data = value()?.into(),
                "--only" => parsed.only = value()?,
                "--runs" => parsed.runs = Some(value()?.into()),
                "--json" => parsed.json = Some(value()?.into()),
                "--limit" => parsed.limit = Some(number(&name, &value()?)?),
                "--samples" => parsed.samples = number(&name, &value()?)?,
                "--scale-rows" => parsed.scale_rows = number(&name, &value()?)?,
                "--jobs" => parsed.jobs = number(&name, &value()?)?,
                _ => return Err(format!("unknown argument {name}")),
            }
        }
        let sections = [
            &mut parsed.quality,
            &mut parsed.latency,
            &mut parsed.load,
            &mut parsed.memory,
            &mut parsed.scale,
            &mut parsed.worker,
            &mut parsed.attach,
            &mut parsed.drain,
        ];
        if sections.iter().all(|section| !**section) {
            sections.into_iter().for_each(|section| *section = true);
        }
        Ok(Some(parsed))
    }
}

fn default_data() -> PathBuf {
    match std::env::var_os("MEMORY_AGENT_BENCH_DATA") {
        Some(directory) => directory.into(),
        None => PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/eval")),
    }
}

fn number(name: &str, value: &str) -> Result<usize, String> {
    value
        .parse()
        .ok()
        .filter(|number| *number > 0)
        .ok_or_else(|| format!("{name} needs a positive number, not {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<Arguments>, String> {
        Arguments::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn no_section_means_all_of_them() {
        let all = parse("--limit 3").unwrap().unwrap();
        assert!(all.quality && all.latency && all.memory && all.scale && all.worker && all.drain);
        assert!(all.attach && all.load);
        assert_eq!(all.limit, Some(3));
        let one = parse("--memory").unwrap().unwrap();
        assert!(one.memory && !one.quality && !one.latency && !one.scale);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for line in ["--fast", "--limit", "--limit 0", "--samples many"] {
            assert!(parse(line).is_err(), "{line}");
        }
        assert_eq!(parse("--scale --help"), Ok(None));
    }
}
