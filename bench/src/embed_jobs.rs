//! How fast an embed job goes through a session's rows, beside `memory_embed` of as many texts of the
//! same kind: other texts, for the model server remembers those it has seen.

use crate::Result;
use crate::arguments::Arguments;
use crate::llm_scene;
use crate::report::{Bound, Report, Table, progress};
use crate::samples::Samples;
use crate::synthetic;
use memory_agent_e2e::{Client, Json, json};

/// Rows of one job.
const ROWS: usize = 512;
const ROUNDS: usize = 6;

pub fn run(_arguments: &Arguments, report: &mut Report) -> Result<()> {
    let cluster = llm_scene::cluster(None, &[]);
    let mut client = llm_scene::database(&cluster, "embed");
    client.batch_execute("SET memory_agent.embed_on_ingest = 'async'")?;
    progress(format_args!("embed jobs: {ROUNDS} rounds"));
    let (mut job, mut raw, mut ratio) =
        (Samples::default(), Samples::default(), Samples::default());
    for round in 0..ROUNDS {
        let first = round * 2 * ROWS;
        job.push(ROWS as f64 / seconds_of_job(&mut client, round, first)?);
        raw.push(ROWS as f64 / seconds_of_call(&mut client, first + ROWS)?);
        ratio.push(job.last() / raw.last());
    }
    report.section(&format!("Embed jobs: {ROUNDS} of {ROWS} rows"));
    let mut table = Table::new(&["", "rows/s, p50"]);
    table.row(["embed job".into(), format!("{:.0}", job.median())]);
    table.row(["memory_embed(text[])".into(), format!("{:.0}", raw.median())]);
    table.row(["job to memory_embed".into(), format!("{:.2}", ratio.median())]);
    print!("{table}");
    report.target("embed job to memory_embed", ratio.median(), Bound::AtLeast(0.8));
    report.add(
        "embed_jobs",
        json!({"rows": ROWS, "job": job.summary(), "memory_embed": raw.summary(), "to_call": ratio.summary()}),
    );
    Ok(())
}

/// From the commit of the rows to the end of the job that embeds them.
fn seconds_of_job(client: &mut Client, round: usize, first: usize) -> Result<f64> {
    let turns: Vec<Json> = (first..first + ROWS)
        .map(|number| json!({"role": "user", "content": synthetic::sentence(number)}))
        .collect();
    let session = format!("session {round}");
    client.execute(
        "SELECT count(*) FROM memory_ingest_batch($1::text::jsonb, $2)",
        &[&Json::from(turns).to_string(), &session],
    )?;
    let stored: f64 =
        client.query_one("SELECT extract(epoch FROM clock_timestamp())::float8", &[])?.get(0);
    let done: bool = client.query_one("SELECT memory_wait('300 s')", &[])?.get(0);
    if !done {
        return Err("the embed job does not end".into());
    }
    let row = client.query_one(
        "SELECT extract(epoch FROM max(finished_at))::float8 FROM memory_agent.jobs \
          WHERE kind = 'embed' AND session_id = $1",
        &[&session],
    )?;
    let finished: Option<f64> = row.get(0);
    Ok(finished.ok_or("there was no embed job")? - stored)
}

fn seconds_of_call(client: &mut Client, first: usize) -> Result<f64> {
    let texts: Vec<String> = (first..first + ROWS).map(synthetic::sentence).collect();
    let mut samples = Samples::default();
    samples.time(|| {
        client.query_one("SELECT count(memory_embed($1::text[], purpose => 'document'))", &[&texts])
    })?;
    Ok(samples.last() / 1000.0)
}
