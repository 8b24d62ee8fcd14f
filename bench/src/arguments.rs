//! The command line.

use clap::Parser;
use memory_agent_bench::positive;
use std::path::PathBuf;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/eval");

/// How good recall is, and what it costs in time and memory. Without a section, all of them.
#[derive(Debug, Parser)]
#[command(name = "bench", next_help_heading = "Sections")]
pub struct Arguments {
    /// Recall on labelled conversations, through memory_recall
    #[arg(long)]
    pub quality: bool,
    /// Recall and ingest, as ratios to the raw models and to a bare pgvector query
    #[arg(long)]
    pub latency: bool,
    /// Recalls of 1, 8 and 32 connections that ask without pause: times and quality
    #[arg(long)]
    pub load: bool,
    /// Private memory of a backend, and the model server's
    #[arg(long)]
    pub memory: bool,
    /// Recall and ingest while a user's memory grows
    #[arg(long)]
    pub scale: bool,
    /// Embed jobs, long turns, and ingest while an LLM extracts facts
    #[arg(long)]
    pub worker: bool,
    /// Writing a table that is attached, beside one that is not
    #[arg(long)]
    pub attach: bool,
    /// A full queue of extract jobs
    #[arg(long)]
    pub drain: bool,
    /// Chats through the gateway, and many streams at once
    #[arg(long)]
    pub gateway: bool,
    /// Recall in six languages
    #[arg(long)]
    pub languages: bool,

    /// Directory of the labelled data, with folders such as locomo-open
    #[arg(long, value_name = "DIR", env = "MEMORY_AGENT_BENCH_DATA", default_value = DATA, help_heading = "Options")]
    pub data: PathBuf,
    /// Only the first N questions of each conversation
    #[arg(long, value_name = "N", value_parser = positive, help_heading = "Options")]
    pub limit: Option<usize>,
    /// Only the configurations of --quality and --drain that have TEXT in their names; --quality takes several, A|B
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        help_heading = "Options"
    )]
    pub only: String,
    /// Embedder for --languages instead of the default one: a folder with a model of that name
    #[arg(long, value_name = "DIR", help_heading = "Options")]
    pub embedder: Option<PathBuf>,
    /// Installed reranker instead of the default one
    #[arg(long, value_name = "NAME", help_heading = "Options")]
    pub reranker: Option<String>,
    /// Write the rankings there, one file per data set and configuration
    #[arg(long, value_name = "DIR", help_heading = "Options")]
    pub runs: Option<PathBuf>,
    /// Measurements of each latency
    #[arg(long, value_name = "N", value_parser = positive, default_value = "200", help_heading = "Options")]
    pub samples: usize,
    /// Largest memory of --scale
    #[arg(long, value_name = "N", value_parser = positive, default_value = "200000", help_heading = "Options")]
    pub scale_rows: usize,
    /// Jobs of each run of --drain
    #[arg(long, value_name = "N", value_parser = positive, default_value = "10000", help_heading = "Options")]
    pub jobs: usize,
    /// Write all figures there
    #[arg(long, value_name = "FILE", help_heading = "Options")]
    pub json: Option<PathBuf>,
}

impl Arguments {
    /// All sections, if the command line names none.
    pub fn with_sections(mut self) -> Self {
        let sections = [
            &mut self.quality,
            &mut self.latency,
            &mut self.load,
            &mut self.memory,
            &mut self.scale,
            &mut self.worker,
            &mut self.attach,
            &mut self.drain,
            &mut self.gateway,
            &mut self.languages,
        ];
        if sections.iter().all(|section| !**section) {
            sections.into_iter().for_each(|section| *section = true);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, clap::Error> {
        let words = ["bench"].into_iter().chain(line.split_whitespace());
        Arguments::try_parse_from(words).map(Arguments::with_sections)
    }

    #[test]
    fn no_section_means_all_of_them() {
        let all = parse("--limit 3").unwrap();
        assert!(all.quality && all.latency && all.memory && all.scale && all.worker && all.drain);
        assert!(all.attach && all.load && all.gateway && all.languages);
        assert_eq!(all.limit, Some(3));
        let one = parse("--memory").unwrap();
        assert!(one.memory && !one.quality && !one.latency && !one.scale);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for line in ["--fast", "--limit", "--limit 0", "--samples many"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
