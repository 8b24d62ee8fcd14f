//! The command line: the flags of the ACMS harness, and those that a database needs beside them.

use crate::scenario::Scenario;
use crate::scenarios::{self, SCENARIOS};
use clap::{Parser, ValueEnum};
use memory_agent_bench::positive;
use std::path::PathBuf;

/// Who makes facts of what is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Llm {
    /// Understands exactly what the scenarios say.
    Scripted,
    /// An endpoint in OpenAI's protocol.
    Real { base_url: String, model: String, key_file: Option<String> },
}

/// A value of `memory_agent.extraction`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Extraction {
    Turn,
    Episode,
    Off,
}

impl Extraction {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Episode => "episode",
            Self::Off => "off",
        }
    }
}

/// A value of `memory_agent.session_recall`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SessionRecall {
    User,
    Session,
}

impl SessionRecall {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Session => "session",
        }
    }
}

/// Plays conversations into memory_ingest, lets the worker make facts of them, and asks for each fact
/// within a token budget.
///
/// Without options: 80 sessions of decision_tracking, 10 for each of 8 lengths.
#[derive(Debug, Clone, PartialEq, Eq, Parser)]
#[command(name = "evaluate", max_term_width = 100)]
pub struct Arguments {
    /// One conversation of 10 turns
    #[arg(long)]
    quick: bool,
    /// The scenarios to play, or 'all'
    #[arg(long, value_name = "NAME,...", default_value = SCENARIOS[0].name, value_delimiter = ',')]
    #[arg(value_parser = scenario_name)]
    scenario: Vec<&'static str>,
    /// Lengths of conversations in messages
    #[arg(
        long,
        value_name = "N,...",
        default_value = "10,20,30,40,50,60,70,80",
        value_delimiter = ','
    )]
    #[arg(value_parser = positive)]
    turns: Vec<usize>,
    /// Conversations of each length
    #[arg(long, value_name = "N", default_value = "10", value_parser = positive)]
    iterations: usize,
    /// Another number gives other conversations
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// The assistant repeats what it is told
    #[arg(long)]
    pub echo: bool,
    /// Sessions of the user that a conversation is spread over; the questions are asked in another one
    #[arg(long, value_name = "N", default_value = "1", value_parser = positive)]
    pub sessions: usize,
    /// The setting memory_agent.session_recall; with 'session', prompts must have nothing of other sessions
    #[arg(long, value_name = "MODE", value_enum, default_value = "user")]
    pub session_recall: SessionRecall,
    /// Print the scenarios and stop
    #[arg(long)]
    pub list_scenarios: bool,
    /// Measure window, budgets, latency and storage instead
    #[arg(long)]
    pub kpi: bool,
    /// Sessions at a time
    #[arg(long, value_name = "N", default_value = "4", value_parser = positive)]
    pub max_concurrent: usize,
    /// The setting memory_agent.extraction
    #[arg(long, value_name = "MODE", value_enum, default_value = "turn")]
    pub extraction: Extraction,
    /// Tokens of each memory_recall
    #[arg(long, value_name = "N", default_value = "300")]
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    pub recall_budget: i32,
    /// Tokens of each memory_context
    #[arg(long, value_name = "N", default_value = "600")]
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    pub context_budget: i32,
    /// A real LLM in OpenAI's protocol, instead of the scripted one
    #[arg(long, value_name = "URL", requires = "llm_model")]
    llm_base_url: Option<String>,
    /// Its model
    #[arg(long, value_name = "NAME", requires = "llm_base_url")]
    llm_model: Option<String>,
    /// File with its key
    #[arg(long, value_name = "FILE", requires = "llm_base_url")]
    llm_key_file: Option<String>,
    /// Where the reports go
    #[arg(long, value_name = "DIR", default_value = "evaluation_output")]
    pub output: PathBuf,
    /// Print every session and every probe that failed
    #[arg(long)]
    pub verbose: bool,
}

/// Stands for all scenarios.
const ALL: &str = "all";

impl Arguments {
    /// The scenarios to play; of several sessions, those whose facts are about the user. What "the database" is,
    /// each conversation says for itself.
    pub fn scenarios(&self) -> impl Iterator<Item = &'static Scenario> {
        let all = self.scenario.contains(&ALL);
        SCENARIOS
            .iter()
            .copied()
            .filter(move |one| all || self.scenario.contains(&one.name))
            .filter(|one| self.sessions == 1 || one.is_about_user())
    }

    /// Whether prompts may have nothing of what is asked about.
    pub fn is_apart(&self) -> bool {
        self.sessions > 1 && self.session_recall == SessionRecall::Session
    }

    /// Lengths of conversations in messages.
    pub fn turns(&self) -> &[usize] {
        if self.quick { &[10] } else { &self.turns }
    }

    /// Conversations of each length.
    pub fn iterations(&self) -> usize {
        if self.quick { 1 } else { self.iterations }
    }

    pub fn llm(&self) -> Llm {
        match (self.llm_base_url.clone(), self.llm_model.clone()) {
            (Some(base_url), Some(model)) => {
                Llm::Real { base_url, model, key_file: self.llm_key_file.clone() }
            }
            _ => Llm::Scripted,
        }
    }
}

fn scenario_name(name: &str) -> Result<&'static str, String> {
    let found = scenarios::find(name.trim()).map(|scenario| scenario.name);
    let all = (name == ALL).then_some(ALL);
    found.or(all).ok_or_else(|| format!("there is no scenario {name}; see --list-scenarios"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from(["evaluate"].into_iter().chain(line.split_whitespace()))
    }

    #[test]
    fn the_default_run_has_eighty_sessions_of_one_scenario() {
        let run = parse("").unwrap();
        assert_eq!(run.scenarios().map(|one| one.name).collect::<Vec<_>>(), ["decision_tracking"]);
        assert_eq!(run.turns(), [10, 20, 30, 40, 50, 60, 70, 80]);
        assert_eq!(run.turns().len() * run.iterations(), 80);
        assert_eq!(run.llm(), Llm::Scripted);
    }

    #[test]
    fn the_flags_of_the_harness_are_understood() {
        let line = "--scenario progressive_requirements --turns 10,20,30,40 --iterations 5 \
                    --max-concurrent 3 --verbose";
        let run = parse(line).unwrap();
        assert_eq!(run.scenario, ["progressive_requirements"]);
        assert_eq!((run.turns(), run.iterations()), (&[10, 20, 30, 40][..], 5));
        assert_eq!((run.max_concurrent, run.verbose), (3, true));
        let run = parse("--quick --scenario all").unwrap();
        assert_eq!((run.turns(), run.iterations()), (&[10][..], 1));
        assert_eq!(run.scenarios().count(), 6);
        assert!(parse("--list-scenarios").unwrap().list_scenarios);
        assert!(parse("--kpi").unwrap().kpi);
    }

    #[test]
    fn several_sessions_are_asked_about_the_user() {
        let names = |line| parse(line).unwrap().scenarios().map(|one| one.name).collect::<Vec<_>>();
        assert_eq!(names("--sessions 3 --scenario all"), ["multi_fact_tracking"]);
        assert_eq!(names("--sessions 3"), [""; 0]);
        assert!(parse("--sessions 3 --session-recall session").unwrap().is_apart());
        assert!(!parse("--session-recall session").unwrap().is_apart());
    }

    #[test]
    fn a_real_endpoint_needs_a_model() {
        let real = "--llm-base-url http://localhost:11434/v1 --llm-model qwen2.5:7b";
        let Llm::Real { base_url, key_file, .. } = parse(real).unwrap().llm() else {
            panic!("scripted")
        };
        assert_eq!((base_url.as_str(), key_file), ("http://localhost:11434/v1", None));
        assert!(parse("--llm-base-url http://localhost:11434/v1").is_err());
        assert!(parse("--llm-key-file x").is_err());
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for line in [
            "--fast",
            "--turns",
            "--turns 10,x",
            "--turns 0",
            "--iterations -1",
            "--scenario none",
            "--extraction all",
            "--recall-budget 99999999999",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
