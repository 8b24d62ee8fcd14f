//! The command line: the flags of the ACMS harness, and those that a database needs beside them.

use crate::scenario::Scenario;
use crate::scenarios::{self, SCENARIOS};
use std::path::PathBuf;

pub const USAGE: &str = "\
Usage: make evaluate ARGS='[OPTION ...]'

Plays conversations into memory_ingest, lets the worker make facts of them, and asks for each fact
within a token budget. Without options: 80 sessions of decision_tracking, 10 for each of 8 lengths.

What:
  --quick               one conversation of 10 turns
  --scenario NAME,...   the scenarios to play, or 'all' (decision_tracking)
  --turns N,...         lengths of conversations in messages (10,20,30,40,50,60,70,80)
  --iterations N        conversations of each length (10)
  --seed N              other conversations (1)
  --echo                the assistant repeats what it is told
  --list-scenarios      print the scenarios and stop
  --kpi                 measure window, budgets, latency and storage instead

How:
  --max-concurrent N    sessions at a time (4)
  --extraction MODE     turn, episode or off: memory_agent.extraction (turn)
  --recall-budget N     tokens of each memory_recall (300)
  --context-budget N    tokens of each memory_context (600)
  --llm-base-url URL    a real LLM in OpenAI's protocol, instead of the scripted one
  --llm-model NAME      its model
  --llm-key-file FILE   file with its key
  --output DIR          where the reports go (./evaluation_output)
  --verbose             print every session and every probe that failed
";

/// Who makes facts of what is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Llm {
    /// Understands exactly what the scenarios say.
    Scripted,
    /// An endpoint in OpenAI's protocol.
    Real { base_url: String, model: String, key_file: Option<String> },
}

/// A value of `memory_agent.extraction`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    Help,
    ListScenarios,
    Kpi(Arguments),
    Play(Arguments),
}

/// What to play, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arguments {
    /// Names of scenarios, each of which exists.
    pub scenarios: Vec<&'static str>,
    pub turns: Vec<usize>,
    pub iterations: usize,
    pub seed: u64,
    pub echo: bool,
    pub max_concurrent: usize,
    pub extraction: Extraction,
    pub recall_budget: i32,
    pub context_budget: i32,
    pub llm: Llm,
    pub output: PathBuf,
    pub verbose: bool,
}

impl Default for Arguments {
    fn default() -> Self {
        Self {
            scenarios: vec![SCENARIOS[0].name],
            turns: (10..=80).step_by(10).collect(),
            iterations: 10,
            seed: 1,
            echo: false,
            max_concurrent: 4,
            extraction: Extraction::Turn,
            recall_budget: 300,
            context_budget: 600,
            llm: Llm::Scripted,
            output: PathBuf::from("evaluation_output"),
            verbose: false,
        }
    }
}

impl Arguments {
    /// The scenarios to play.
    pub fn scenarios(&self) -> impl Iterator<Item = &'static Scenario> + '_ {
        self.scenarios.iter().filter_map(|name| scenarios::find(name))
    }
}

impl Task {
    /// Reads the arguments after the program's name.
    pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut parsed = Arguments::default();
        let (mut base_url, mut model, mut key_file) = (None, None, None);
        let (mut kpi, mut list) = (false, false);
        let mut arguments = arguments;
        while let Some(name) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{name} needs a value"));
            match name.as_str() {
                "--help" | "-h" => return Ok(Self::Help),
                "--list-scenarios" => list = true,
                "--kpi" => kpi = true,
                "--quick" => (parsed.turns, parsed.iterations) = (vec![10], 1),
                "--echo" => parsed.echo = true,
                "--verbose" => parsed.verbose = true,
                "--scenario" => parsed.scenarios = scenario_names(&value()?)?,
                "--turns" => {
                    let lengths = value()?;
                    let lengths = lengths.split(',').map(|length| number(&name, length.trim()));
                    parsed.turns = lengths.collect::<Result<_, _>>()?;
                }
                "--iterations" => parsed.iterations = number(&name, &value()?)?,
                "--seed" => parsed.seed = number(&name, &value()?)? as u64,
                "--max-concurrent" => parsed.max_concurrent = number(&name, &value()?)?,
                "--recall-budget" => parsed.recall_budget = budget(&name, &value()?)?,
                "--context-budget" => parsed.context_budget = budget(&name, &value()?)?,
                "--extraction" => {
                    parsed.extraction = match value()?.as_str() {
                        "turn" => Extraction::Turn,
                        "episode" => Extraction::Episode,
                        "off" => Extraction::Off,
                        other => {
                            return Err(format!("{name} is turn, episode or off, not {other}"));
                        }
                    }
                }
                "--llm-base-url" => base_url = Some(value()?),
                "--llm-model" => model = Some(value()?),
                "--llm-key-file" => key_file = Some(value()?),
                "--output" => parsed.output = value()?.into(),
                _ => return Err(format!("unknown argument {name}")),
            }
        }
        parsed.llm = match (base_url, model, key_file) {
            (Some(base_url), Some(model), key_file) => Llm::Real { base_url, model, key_file },
            (None, None, None) => Llm::Scripted,
            _ => return Err("a real LLM needs --llm-base-url and --llm-model".to_owned()),
        };
        Ok(match (list, kpi) {
            (true, _) => Self::ListScenarios,
            (_, true) => Self::Kpi(parsed),
            _ => Self::Play(parsed),
        })
    }
}

fn scenario_names(list: &str) -> Result<Vec<&'static str>, String> {
    if list == "all" {
        return Ok(SCENARIOS.iter().map(|scenario| scenario.name).collect());
    }
    let find = |name: &str| {
        let found = scenarios::find(name.trim()).map(|scenario| scenario.name);
        found.ok_or_else(|| format!("there is no scenario {name}; see --list-scenarios"))
    };
    list.split(',').map(find).collect()
}

fn number(name: &str, value: &str) -> Result<usize, String> {
    let number = value.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("{name} needs a positive number, not {value}"))
}

fn budget(name: &str, value: &str) -> Result<i32, String> {
    i32::try_from(number(name, value)?).map_err(|_| format!("{name}: {value} is too much"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Task, String> {
        Task::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn the_default_run_has_eighty_sessions_of_one_scenario() {
        let Ok(Task::Play(run)) = parse("") else { panic!("not a run") };
        assert_eq!(run.scenarios, ["decision_tracking"]);
        assert_eq!(run.turns, [10, 20, 30, 40, 50, 60, 70, 80]);
        assert_eq!(run.turns.len() * run.iterations, 80);
        assert_eq!(run.llm, Llm::Scripted);
    }

    #[test]
    fn the_flags_of_the_seed_are_understood() {
        let line = "--scenario progressive_requirements --turns 10,20,30,40 --iterations 5 \
                    --max-concurrent 3 --verbose";
        let Ok(Task::Play(run)) = parse(line) else { panic!("not a run") };
        assert_eq!(run.scenarios, ["progressive_requirements"]);
        assert_eq!((run.turns.as_slice(), run.iterations), (&[10, 20, 30, 40][..], 5));
        assert_eq!((run.max_concurrent, run.verbose), (3, true));
        let Ok(Task::Play(run)) = parse("--quick --scenario all") else { panic!("not a run") };
        assert_eq!((run.turns.as_slice(), run.iterations), (&[10][..], 1));
        assert_eq!(run.scenarios.len(), 6);
        assert_eq!(parse("--list-scenarios"), Ok(Task::ListScenarios));
        assert!(matches!(parse("--kpi"), Ok(Task::Kpi(_))));
    }

    #[test]
    fn a_real_endpoint_needs_a_model() {
        let real = "--llm-base-url http://localhost:11434/v1 --llm-model qwen2.5:7b";
        let Ok(Task::Play(run)) = parse(real) else { panic!("not a run") };
        let Llm::Real { base_url, key_file, .. } = run.llm else { panic!("scripted") };
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
