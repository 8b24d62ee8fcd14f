//! Recalls of many connections that ask without pause: how long they take, and how good the answers are
//! that came under that load. Questions are asked once in each configuration, with the model server's
//! caches emptied before.

use crate::Result;
use crate::arguments::Arguments;
use crate::configurations::{Asked, PLANS, Plan};
use crate::dataset::{ADVERSARIAL, Dataset, Question};
use crate::environment::Environment;
use crate::metrics::{DEPTH, Measures};
use crate::quality;
use crate::report::{Report, Table, progress};
use crate::samples::Samples;
use memory_agent_e2e::{Client, json};
use memory_agent_model_server::BlockingClient;
use memory_agent_model_server::protocol::Request;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Connections that ask at the same time.
const CONNECTIONS: [usize; 3] = [1, 8, 32];
/// A step between two questions of a run that no number of questions is a multiple of, so that those that
/// come together are of different conversations.
const STRIDE: usize = 7919;
const EVERY_ROW: &str = "every candidate read";
const CONFIGURATIONS: [(&str, &str); 3] =
    [("defaults", ""), (EVERY_ROW, ""), ("without reranker", ", rerank => false")];

pub fn run(environment: &Environment, arguments: &Arguments, report: &mut Report) -> Result<()> {
    for plan in &PLANS {
        let directory = arguments.data.join(plan.folder);
        if !directory.is_dir() {
            report.section(&format!("Load: {} left out", plan.title));
            println!("{} is not there; name its parent with --data", directory.display());
            continue;
        }
        let mut dataset = Dataset::read(&directory, arguments.limit)?;
        dataset.questions.retain(|question| question.category != ADVERSARIAL);
        let database = format!("load_{}", plan.folder);
        let mut client = environment.database(&database)?;
        let ids = quality::ingest(&mut client, plan, &dataset)?;
        let mut runs = Vec::new();
        for connections in CONNECTIONS {
            for (name, arguments) in CONFIGURATIONS {
                progress(format_args!("  {connections} connections, {name}"));
                forget(environment)?;
                let scene = Scene {
                    environment,
                    database: &database,
                    dataset: &dataset,
                    ids: &ids,
                    reads_every_row: name == EVERY_ROW,
                };
                let before = refused(&mut client)?;
                let mut run = scene.ask(plan, connections, arguments)?;
                run.refused = refused(&mut client)? - before;
                runs.push((connections, name, run));
            }
        }
        show(report, plan, &runs);
    }
    Ok(())
}

/// Empties the model server's caches: a remembered answer measures nothing.
fn forget(environment: &Environment) -> Result<()> {
    let directory = environment.cluster.data().join("pg_stat_tmp");
    for file in std::fs::read_dir(&directory)? {
        let path = file?.path();
        if path.to_string_lossy().contains("memory_agent")
            && let Ok(mut server) = BlockingClient::connect(&path)
        {
            server.call(&Request::FlushCaches).map_err(|error| format!("flush: {error}"))?;
            return Ok(());
        }
    }
    Err(format!("no model server listens in {}", directory.display()).into())
}

/// Reranks that were refused so far.
fn refused(client: &mut Client) -> Result<i64> {
    let row = client.query_one(
        "SELECT (regexp_match(detail, '(\\d+) reranks refused'))[1]::bigint \
           FROM memory_status() WHERE component = 'model server'",
        &[],
    )?;
    Ok(row.get(0))
}

struct Scene<'a> {
    environment: &'a Environment,
    database: &'a str,
    dataset: &'a Dataset,
    ids: &'a HashMap<String, String>,
    reads_every_row: bool,
}

#[derive(Default)]
struct Run {
    times: Samples,
    measures: Vec<Measures>,
    /// Answers a second.
    rate: f64,
    refused: i64,
}

impl Scene<'_> {
    /// Asks every question once, in an order of no meaning.
    fn ask(&self, plan: &Plan, connections: usize, arguments: &str) -> Result<Run> {
        let next = AtomicUsize::new(0);
        let began = Instant::now();
        let parts: Vec<std::result::Result<Run, String>> = std::thread::scope(|scope| {
            let askers: Vec<_> = (0..connections)
                .map(|_| {
                    scope.spawn(|| self.one(plan, arguments, &next).map_err(|e| e.to_string()))
                })
                .collect();
            let join = |asker: std::thread::ScopedJoinHandle<'_, _>| {
                asker.join().unwrap_or_else(|_| Err("an asker panicked".to_owned()))
            };
            askers.into_iter().map(join).collect()
        });
        let mut whole = Run::default();
        for part in parts {
            let part = part?;
            whole.times.extend(&part.times);
            whole.measures.extend(part.measures);
        }
        whole.rate = whole.times.len() as f64 / began.elapsed().as_secs_f64();
        Ok(whole)
    }

    fn one(&self, plan: &Plan, arguments: &str, next: &AtomicUsize) -> Result<Run> {
        let mut client = self.environment.cluster.connect(self.database);
        client.batch_execute("SET client_min_messages = error")?;
        if self.reads_every_row {
            client.batch_execute("SET memory_agent.rerank_rows = 100")?;
        }
        let recall = client.prepare(&format!(
            "SELECT id::text FROM memory_recall($1, user_id => $2, top_k => {DEPTH}, \
                                                as_of => $3::text::timestamptz{arguments})"
        ))?;
        // The first recall of a connection loads what every other one finds loaded.
        client.simple_query("SELECT FROM memory_recall('Are you there?', rerank => false)")?;
        let mut run = Run::default();
        let questions = &self.dataset.questions;
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= questions.len() {
                return Ok(run);
            }
            let Question { query, conversation_id, asked_at, evidence, .. } =
                &questions[number.wrapping_mul(STRIDE) % questions.len()];
            let as_of = (plan.asked == Asked::Then).then_some(asked_at);
            let rows =
                run.times.time(|| client.query(&recall, &[query, conversation_id, &as_of]))?;
            let answer: Vec<String> = rows
                .iter()
                .filter_map(|row| self.ids.get(row.get::<_, &str>(0)).cloned())
                .collect();
            run.measures.push(Measures::of(&answer, evidence));
        }
    }
}

fn show(report: &mut Report, plan: &Plan, runs: &[(usize, &str, Run)]) {
    let questions = runs.first().map_or(0, |(_, _, run)| run.times.len());
    report.section(&format!("Load: {}, n = {questions}, ms", plan.title));
    let header = ["connections", "", "p50", "p95", "a second", "refused", "R@5", "R@10", "nDCG@10"];
    let mut table = Table::new(&header);
    let mut figures = Vec::new();
    for (connections, name, run) in runs {
        let mean = Measures::mean(&run.measures);
        let (p50, p95) = (run.times.median(), run.times.quantile(0.95));
        let cells = [
            connections.to_string(),
            (*name).to_owned(),
            format!("{p50:.1}"),
            format!("{p95:.1}"),
            format!("{:.1}", run.rate),
            run.refused.to_string(),
            format!("{:.3}", mean.recall_5),
            format!("{:.3}", mean.recall_10),
            format!("{:.3}", mean.ndcg_10),
        ];
        table.row(cells);
        figures.push(json!({
            "connections": connections, "configuration": name, "ms": run.times.summary(),
            "a second": run.rate, "refused": run.refused, "R@5": mean.recall_5,
            "R@10": mean.recall_10, "nDCG@10": mean.ndcg_10,
        }));
    }
    print!("{table}");
    report.add(&format!("load {}", plan.folder), figures.into());
}
