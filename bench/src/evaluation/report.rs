//! The reports of a run: one document of all sessions (JSON), and tables to read (Markdown, which is
//! printed too).

use crate::arguments::{Arguments, Llm};
use crate::session::{Played, Probed};
use crate::verdict::PromptVerdict;
use memory_agent_bench::Result;
use memory_agent_bench::samples::Samples;
use memory_agent_e2e::{Json, json};
use std::fmt::Write;
use std::path::Path;

/// Most failed probes that the Markdown report lists.
const MOST_FAILURES: usize = 50;

/// Sessions of one scenario and length, or of all.
struct Group<'a> {
    sessions: Vec<&'a Played>,
}

/// The share of probes for which something holds, in percent.
fn percent(probes: &[&Probed], holds: impl Fn(&Probed) -> bool) -> f64 {
    let count = probes.iter().filter(|probe| holds(probe)).count();
    if probes.is_empty() { f64::NAN } else { 100.0 * count as f64 / probes.len() as f64 }
}

/// The same of what chats sent; null where that is not known.
fn of_chats(probes: &[&Probed], holds: impl Fn(&PromptVerdict) -> bool) -> f64 {
    let known: Vec<&Probed> = probes.iter().copied().filter(|probe| probe.chat.is_some()).collect();
    percent(&known, |probe| probe.chat.as_ref().is_some_and(&holds))
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len();
    values.sum::<f64>() / count as f64
}

impl<'a> Group<'a> {
    fn probes(&self) -> Vec<&'a Probed> {
        self.sessions.iter().flat_map(|session| &session.probes).collect()
    }

    fn samples(&self, of: impl Fn(&Played) -> &Samples) -> Samples {
        let mut all = Samples::default();
        self.sessions.iter().for_each(|session| all.extend(of(session)));
        all
    }

    fn accuracy(&self) -> Json {
        let probes = self.probes();
        json!({
            "sessions": self.sessions.len(),
            "probes": probes.len(),
            "replaced": probes.iter().filter(|probe| !probe.superseded.is_empty()).count(),
            "pass": percent(&probes, Probed::passes),
            "found": percent(&probes, |probe| probe.recall.is_found()),
            "stale_as_true": percent(&probes, |probe| probe.recall.misleads()),
            "stale_marked": percent(&probes, |probe| probe.recall.stale > probe.recall.stale_unmarked),
            "found_hide": percent(&probes, |probe| probe.hidden.is_found()),
            "stale_hide": percent(&probes, |probe| probe.hidden.stale > 0),
            "found_facts": percent(&probes, |probe| probe.facts.is_found()),
            "stale_facts": percent(&probes, |probe| probe.facts.stale > 0),
            "found_in_context": percent(&probes, |probe| probe.context.is_found),
            "stale_in_context": percent(&probes, |probe| probe.context.stale_unmarked > 0),
            "found_in_augment": percent(&probes, |probe| probe.augment.is_found),
            "stale_in_augment": percent(&probes, |probe| probe.augment.stale_unmarked > 0),
            "found_in_chat": of_chats(&probes, |chat| chat.is_found),
            "stale_in_chat": of_chats(&probes, |chat| chat.stale_unmarked > 0),
            "over_budget": percent(&probes, Probed::is_over_budget),
            "mean_reciprocal_rank": mean(
                probes.iter().map(|probe| probe.recall.rank.map_or(0.0, |rank| 1.0 / rank as f64)),
            ),
            "mean_tokens": mean(probes.iter().map(|probe| probe.recall.tokens as f64)),
            "dead_jobs": self.sessions.iter().map(|session| session.dead_jobs).sum::<i64>(),
        })
    }

    fn latency(&self) -> Json {
        json!({
            "ingest": self.samples(|session| &session.ingest).summary(),
            "recall": self.samples(|session| &session.recall).summary(),
            "context": self.samples(|session| &session.context).summary(),
            "drained": self.samples(|session| &session.drained).summary(),
        })
    }
}

/// What a run came to.
pub struct Report {
    document: Json,
    markdown: String,
    failed: usize,
}

impl Report {
    /// Of all sessions of a run; `about` is one line about machine and software.
    pub fn of(sessions: &[Played], arguments: &Arguments, about: &str) -> Self {
        let mut groups: Vec<((&str, usize), Group<'_>)> = Vec::new();
        for session in sessions {
            let key = (session.scenario, session.turns);
            match groups.last_mut().filter(|(last, _)| *last == key) {
                Some((_, group)) => group.sessions.push(session),
                None => groups.push((key, Group { sessions: vec![session] })),
            }
        }
        let all = Group { sessions: sessions.iter().collect() };
        let rows: Vec<Json> = groups
            .iter()
            .map(|((scenario, turns), group)| {
                json!({
                    "scenario": scenario, "turns": turns,
                    "accuracy": group.accuracy(), "latency_ms": group.latency(),
                })
            })
            .collect();
        let failures: Vec<Json> = sessions
            .iter()
            .flat_map(|session| session.probes.iter().map(move |probe| (session, probe)))
            .filter(|(_, probe)| !probe.passes())
            .map(|(session, probe)| {
                json!({
                    "scenario": session.scenario, "turns": session.turns,
                    "iteration": session.iteration, "probe": probe,
                })
            })
            .collect();
        let failed = failures.len();
        let document = json!({
            "about": about,
            "run": {
                "extraction": arguments.extraction.as_str(),
                "llm": match &arguments.llm() { Llm::Scripted => "scripted", Llm::Real { model, .. } => model },
                "recall_budget": arguments.recall_budget,
                "context_budget": arguments.context_budget,
                "iterations": arguments.iterations(), "seed": arguments.seed, "echo": arguments.echo,
                "max_concurrent": arguments.max_concurrent,
            },
            "all": {"accuracy": all.accuracy(), "latency_ms": all.latency()},
            "groups": rows,
            "failures": failures,
        });
        let markdown = markdown(&document);
        Self { document, markdown, failed }
    }

    /// Probes that did not pass.
    pub fn failed(&self) -> usize {
        self.failed
    }

    /// Prints the tables, and writes `report.json` and `report.md` into a directory.
    pub fn finish(&self, directory: &Path) -> Result<()> {
        print!("{}", self.markdown);
        write(directory, "report.json", &(serde_json::to_string_pretty(&self.document)? + "\n"))?;
        write(directory, "report.md", &self.markdown)
    }
}

/// Writes a file, and the directory if it is not there.
pub fn write(directory: &Path, name: &str, text: &str) -> Result<()> {
    let path = directory.join(name);
    std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::write(&path, text))
        .map_err(|error| format!("{}: {error}", path.display()).into())
}

fn markdown(document: &Json) -> String {
    let mut text = String::from("# Evaluation of memory on scripted conversations\n\n");
    let run = &document["run"];
    let _ = writeln!(
        text,
        "{}. Extraction `{}`, LLM {}, {} sessions at a time{}. Each fact was asked for with \
         `memory_recall` within {} tokens and `memory_context` within {}.\n",
        document["about"].as_str().unwrap_or_default(),
        run["extraction"].as_str().unwrap_or_default(),
        run["llm"].as_str().unwrap_or_default(),
        run["max_concurrent"],
        if run["echo"] == true { ", the assistant repeats what it is told" } else { "" },
        run["recall_budget"],
        run["context_budget"],
    );
    text.push_str(
        "## Accuracy\n\n\
         Percent of the probes. *stale as true*: a row with a superseded fact that does not say so, or \
         stands before the current one. *stale, marked*: one behind the current fact whose metadata \
         says `superseded_by`. *hide*: with `stale_sources = hide`; *facts*: with `kinds => '{fact}'`. \
         *Context*, *augment*, *chat*: what `memory_context`, `memory_augment` and `memory_chat` put \
         into a prompt; stale is a statement with a superseded fact that is not marked. Only the scripted \
         LLM tells what it was sent by chats.\n\n\
         | Scenario | Turns | Probes | Replaced | Found | Stale as true | Stale, marked | Found, hide \
         | Stale, hide | Found, facts | Stale, facts | In context | Stale, context | In augment \
         | Stale, augment | In chat | Stale, chat | Over budget | MRR | Tokens |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for (name, turns, group) in groups(document) {
        let of = |key: &str| group["accuracy"][key].as_f64().unwrap_or(f64::NAN);
        let _ = writeln!(
            text,
            "| {name} | {turns} | {} | {} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.3} | {:.0} |",
            of("probes"),
            of("replaced"),
            of("found"),
            of("stale_as_true"),
            of("stale_marked"),
            of("found_hide"),
            of("stale_hide"),
            of("found_facts"),
            of("stale_facts"),
            of("found_in_context"),
            of("stale_in_context"),
            of("found_in_augment"),
            of("stale_in_augment"),
            of("found_in_chat"),
            of("stale_in_chat"),
            of("over_budget"),
            of("mean_reciprocal_rank"),
            of("mean_tokens"),
        );
    }
    text.push_str(
        "\n## Latency\n\n\
         Milliseconds, p50 and p95. *Drained*: from the last message until the worker had nothing left \
         to do. Sessions share questions and sentences, and the model server remembers scores: with many \
         sessions recall and context are faster here than for new questions, which --kpi asks.\n\n\
         | Scenario | Turns | Ingest p50 | p95 | Recall p50 | p95 | Context p50 | p95 | Drained p50 | p95 |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for (name, turns, group) in groups(document) {
        let mut row = format!("| {name} | {turns} |");
        for what in ["ingest", "recall", "context", "drained"] {
            for share in ["p50", "p95"] {
                // A probe times recall or context, so a group of one probe has no latency of the other.
                let value = group["latency_ms"][what][share].as_f64();
                let value = value.map_or("-".to_owned(), |value| format!("{value:.1}"));
                let _ = write!(row, " {value} |");
            }
        }
        let _ = writeln!(text, "{row}");
    }
    let failures = document["failures"].as_array().map_or(&[][..], Vec::as_slice);
    let _ = writeln!(text, "\n## Failed probes\n\n{} probes did not pass.", failures.len());
    for failure in failures.iter().take(MOST_FAILURES) {
        let probe = &failure["probe"];
        let _ = writeln!(
            text,
            "- {}, {} turns, {}: {} Expected {}, not {}. Recall {}, with hide {}, context {}, augment {}, chat {}.",
            failure["scenario"].as_str().unwrap_or_default(),
            failure["turns"],
            failure["iteration"],
            probe["question"].as_str().unwrap_or_default(),
            probe["current"],
            probe["superseded"],
            probe["recall"],
            probe["hidden"],
            probe["context"],
            probe["augment"],
            probe["chat"],
        );
    }
    text
}

/// The groups with their names and lengths, and all sessions together as the last.
fn groups(document: &Json) -> impl Iterator<Item = (&str, String, &Json)> {
    let groups = document["groups"].as_array().map_or(&[][..], Vec::as_slice);
    groups
        .iter()
        .map(|group| {
            (group["scenario"].as_str().unwrap_or_default(), group["turns"].to_string(), group)
        })
        .chain(std::iter::once(("all", String::new(), &document["all"])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Verdict;
    use clap::Parser;

    fn probed(rank: Option<usize>, stale_unmarked: usize) -> Probed {
        let recall = Verdict { rank, stale: stale_unmarked, stale_unmarked, ..Verdict::default() };
        Probed {
            topic: "t",
            question: "Where?",
            current: "Ghent",
            superseded: vec!["Porto"],
            hidden: Verdict { rank, ..Verdict::default() },
            facts: Verdict { rank, ..Verdict::default() },
            recall,
            context: PromptVerdict { is_found: true, stale_unmarked: 0, is_told: true },
            augment: PromptVerdict { is_found: true, stale_unmarked: 0, is_told: true },
            chat: Some(PromptVerdict { is_found: true, stale_unmarked: 0, is_told: true }),
            context_tokens: 10,
            context_over_budget: false,
            is_apart: false,
        }
    }

    #[test]
    fn a_session_by_itself_is_told_nothing() {
        let apart = |prompt| Probed {
            is_apart: true,
            context: prompt,
            augment: PromptVerdict::default(),
            chat: None,
            ..probed(None, 1)
        };
        assert!(apart(PromptVerdict::default()).passes());
        assert!(!apart(PromptVerdict { is_told: true, ..PromptVerdict::default() }).passes());
    }

    #[test]
    fn a_chat_is_judged_as_other_prompts() {
        let stale = PromptVerdict { is_found: true, stale_unmarked: 1, is_told: true };
        let sent = Probed { chat: Some(stale), ..probed(Some(1), 0) };
        let unknown = Probed { chat: None, ..probed(Some(1), 0) };
        assert!(!sent.passes() && unknown.passes());
        let judged = |probes: Vec<Probed>| {
            let report = Report::of(
                &[played(10, probes)],
                &Arguments::parse_from(["evaluate"]),
                "a machine",
            );
            report.document["all"]["accuracy"]["stale_in_chat"].clone()
        };
        assert_eq!(judged(vec![sent, probed(Some(1), 0), unknown.clone()]), 50.0);
        assert!(judged(vec![unknown]).is_null());
    }

    fn played(turns: usize, probes: Vec<Probed>) -> Played {
        let mut ingest = Samples::default();
        ingest.push(turns as f64);
        Played {
            scenario: "s",
            turns,
            iteration: 0,
            probes,
            ingest,
            recall: Samples::default(),
            context: Samples::default(),
            drained: Samples::default(),
            facts: 1,
            dead_jobs: 0,
        }
    }

    #[test]
    fn shares_are_of_the_probes_of_a_group() {
        let sessions = [
            played(10, vec![probed(Some(1), 0), probed(Some(2), 1)]),
            played(10, vec![probed(None, 0), probed(Some(1), 0)]),
            played(20, vec![probed(Some(1), 0)]),
        ];
        let report = Report::of(&sessions, &Arguments::parse_from(["evaluate"]), "a machine");
        assert_eq!(report.failed(), 2);
        let first = &report.document["groups"][0];
        assert_eq!(first["turns"], 10);
        assert_eq!(first["accuracy"]["found"], 75.0);
        assert_eq!(first["accuracy"]["stale_as_true"], 25.0);
        assert_eq!(first["accuracy"]["pass"], 50.0);
        assert_eq!(first["accuracy"]["mean_reciprocal_rank"], 0.625);
        assert_eq!(report.document["groups"][1]["accuracy"]["pass"], 100.0);
        assert_eq!(report.document["all"]["accuracy"]["probes"], 5);
        assert_eq!(report.document["all"]["latency_ms"]["ingest"]["p50"], 10.0);
        assert!(report.markdown.contains("2 probes did not pass."));
        assert!(report.markdown.contains("| s | 20 | 1 | 1 | 100.0 | 0.0 |"));
        assert!(report.markdown.contains("| s | 20 | 20.0 | 20.0 | - | - | - | - | - | - |"));
    }
}
