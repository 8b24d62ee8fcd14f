//! How fast a full queue drains when the LLM needs some time for each answer, beside the rate at which
//! that LLM alone would answer with as many calls at once; and whether memory grows meanwhile.

use crate::Result;
use crate::arguments::Arguments;
use crate::llm_scene::{self, PATIENCE};
use crate::memory::Footprint;
use crate::report::{Bound, Report, Table, progress};
use crate::synthetic;
use memory_agent_e2e::{Client, Cluster, Json, json};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long the stand-in takes for an answer.
const LATENCY: Duration = Duration::from_millis(50);
/// Turns in one call of memory_ingest_batch.
const BATCH: usize = 1000;
/// Longest wait for one queue to drain.
const LONGEST_DRAIN: Duration = Duration::from_secs(1800);
const LOOK: Duration = Duration::from_millis(500);

/// One run.
struct Case {
    name: &'static str,
    concurrency: u32,
    workers: u32,
    finds_facts: bool,
}

const CASES: [Case; 5] = [
    Case { name: "4_1", concurrency: 4, workers: 1, finds_facts: false },
    Case { name: "4_2", concurrency: 4, workers: 2, finds_facts: false },
    Case { name: "32_1", concurrency: 32, workers: 1, finds_facts: false },
    Case { name: "32_2", concurrency: 32, workers: 2, finds_facts: false },
    Case { name: "4_1_facts", concurrency: 4, workers: 1, finds_facts: true },
];

/// What a run came to.
struct Outcome {
    jobs_per_second: f64,
    /// To the calls in flight of all workers, divided by the latency.
    to_ideal: f64,
    /// Kilobytes that the workers have more at the end than after a tenth of the jobs.
    worker_growth: f64,
    server_growth: f64,
    dead: i64,
    max_in_flight: usize,
}

pub fn run(arguments: &Arguments, report: &mut Report) -> Result<()> {
    let jobs = arguments.jobs;
    report.section(&format!(
        "Drain: {jobs} extract jobs, an LLM that answers after {} ms",
        LATENCY.as_millis()
    ));
    let header =
        ["calls, workers, facts a job", "jobs/s", "to ideal", "worker MB", "server MB", "dead"];
    let mut table = Table::new(&header);
    let mut figures = Vec::new();
    for case in CASES.iter().filter(|case| case.name.contains(&arguments.only)) {
        progress(format_args!("drain: {}", case.name));
        let outcome = drain(case, jobs)?;
        let Case { concurrency, workers, .. } = case;
        let facts = u32::from(case.finds_facts);
        let megabytes = |kilobytes: f64| format!("{:+.1}", kilobytes / 1024.0);
        table.row([
            format!("{concurrency}, {workers}, {facts}"),
            format!("{:.0}", outcome.jobs_per_second),
            format!("{:.2}", outcome.to_ideal),
            megabytes(outcome.worker_growth),
            megabytes(outcome.server_growth),
            outcome.dead.to_string(),
        ]);
        report.target(
            format!("drain {}, worker MB more", case.name),
            outcome.worker_growth / 1024.0,
            Bound::AtMost(5.0),
        );
        figures.push(json!({
            "concurrency": concurrency, "workers": workers, "facts": facts, "jobs": jobs,
            "jobs_per_second": outcome.jobs_per_second, "to_ideal": outcome.to_ideal,
            "worker_growth_kb": outcome.worker_growth, "server_growth_kb": outcome.server_growth,
            "dead": outcome.dead, "max_in_flight": outcome.max_in_flight,
        }));
    }
    print!("{table}");
    report.add("drain", figures.into());
    Ok(())
}

fn drain(case: &Case, jobs: usize) -> Result<Outcome> {
    let stub = llm_scene::stub(LATENCY, case.finds_facts);
    let (concurrency, workers) = (case.concurrency.to_string(), case.workers.to_string());
    let cluster = llm_scene::cluster(
        Some(&stub),
        &[
            ("memory_agent.worker", "off"),
            ("memory_agent.llm_concurrency", &concurrency),
            ("memory_agent.job_workers", &workers),
        ],
    );
    let mut client = llm_scene::database(&cluster, "drain");
    queue(&mut client, jobs)?;
    cluster.alter_system("memory_agent.worker", Some("on"));

    wait_for_done(&mut client, jobs / 10)?;
    let (worker_before, server_before) = footprints(&cluster, &mut client)?;
    wait_for_done(&mut client, jobs)?;
    let (worker_after, server_after) = footprints(&cluster, &mut client)?;

    let row = client.query_one(
        "SELECT extract(epoch FROM max(finished_at) - min(finished_at))::float8, \
                count(*) FILTER (WHERE status = 'done'), count(*) FILTER (WHERE status = 'dead') \
           FROM memory_agent.jobs WHERE kind = 'extract'",
        &[],
    )?;
    let (seconds, done): (f64, i64) = (row.get(0), row.get(1));
    let jobs_per_second = (done - 1) as f64 / seconds;
    let ideal = f64::from(case.concurrency * case.workers) / LATENCY.as_secs_f64();
    Ok(Outcome {
        jobs_per_second,
        to_ideal: jobs_per_second / ideal,
        worker_growth: worker_after - worker_before,
        server_growth: server_after - server_before,
        dead: row.get(2),
        max_in_flight: stub.max_in_flight(),
    })
}

/// One turn in each of so many sessions, without embeddings, so that only extraction has to be done.
fn queue(client: &mut Client, jobs: usize) -> Result<()> {
    client.batch_execute("SET memory_agent.embed_on_ingest = 'off'")?;
    for first in (0..jobs).step_by(BATCH) {
        let turns: Vec<Json> = (first..jobs.min(first + BATCH))
            .map(|number| {
                json!({
                    "session_id": format!("session {number}"), "role": "user",
                    "content": synthetic::sentence(number),
                })
            })
            .collect();
        client.execute(
            "SELECT count(*) FROM memory_ingest_batch($1::text::jsonb)",
            &[&Json::from(turns).to_string()],
        )?;
    }
    client.batch_execute("VACUUM ANALYZE memory_agent.jobs, memory_agent.entries")?;
    Ok(())
}

fn wait_for_done(client: &mut Client, jobs: usize) -> Result<()> {
    let begun = Instant::now();
    loop {
        let row = client.query_one(
            "SELECT count(*) FROM memory_agent.jobs WHERE status IN ('done', 'dead')",
            &[],
        )?;
        if row.get::<_, i64>(0) >= i64::try_from(jobs)? {
            return Ok(());
        }
        if begun.elapsed() > LONGEST_DRAIN {
            return Err("the queue does not drain".into());
        }
        sleep(LOOK);
    }
}

/// Kilobytes of the workers together, and of the model server, without the shared buffers: those that
/// only one process has read count as its private pages.
fn footprints(cluster: &Cluster, client: &mut Client) -> Result<(f64, f64)> {
    let begun = Instant::now();
    let pids = loop {
        let pids = llm_scene::workers(client)?;
        if !pids.is_empty() {
            break pids;
        }
        if begun.elapsed() > PATIENCE {
            return Err("there is no worker".into());
        }
        sleep(LOOK);
    };
    let mut workers = 0;
    for pid in pids {
        workers += Footprint::of(pid)?.anonymous;
    }
    Ok((workers as f64, Footprint::of(cluster.model_server_pid())?.anonymous as f64))
}
