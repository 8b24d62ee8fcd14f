//! Whether storing a turn waits for an LLM: the same calls in three clusters, without an LLM, with one
//! that answers at once, and with one that takes ten seconds. In turn, a few calls at a time, so that a
//! busy moment of the machine falls on all of them.

use crate::Result;
use crate::arguments::Arguments;
use crate::environment::literal;
use crate::llm_scene;
use crate::report::{Bound, Report, Table, progress};
use crate::samples::Samples;
use crate::synthetic;
use memory_agent_e2e::{Client, Json, json};
use std::time::Duration;

/// Calls in one cluster before it is the next one's turn.
const IN_A_ROW: usize = 10;
const SESSIONS: usize = 8;
const WARM_UP: usize = 20;
const SLOW: Duration = Duration::from_secs(10);

pub fn run(arguments: &Arguments, report: &mut Report) -> Result<()> {
    let (quick, slow) = (llm_scene::stub(Duration::ZERO, true), llm_scene::stub(SLOW, true));
    let clusters = [None, Some(&quick), Some(&slow)].map(|stub| llm_scene::cluster(stub, &[]));
    let mut clients = clusters.each_ref().map(|cluster| llm_scene::database(cluster, "ingest"));
    let mut samples: [Samples; 3] = Default::default();
    let rounds = arguments.samples.div_ceil(IN_A_ROW).max(1);
    progress(format_args!("ingest with an LLM: {rounds} rounds"));
    let mut number = 0;
    while number < WARM_UP + rounds * IN_A_ROW {
        if number == WARM_UP {
            samples = Default::default();
        }
        for (index, client) in clients.iter_mut().enumerate() {
            for turn in number..number + IN_A_ROW {
                store(client, turn, &mut samples[index])?;
            }
            // What is left to do for the quick LLM would fall on the next cluster's calls.
            if index == 1 {
                client.query_one("SELECT memory_wait('60 s')", &[])?;
            }
        }
        number += IN_A_ROW;
    }

    let [without, quick, slow] = &samples;
    report.section(&format!("Ingest with an LLM: {} calls of one turn each", without.len()));
    let mut table = Table::new(&["", "p50 ms", "p95 ms", "to without, p50", "p95"]);
    let mut figures = Vec::new();
    let rows = [("without an LLM", without), ("it answers at once", quick), ("after 10 s", slow)];
    for (name, samples) in rows {
        let (p50, p95) = (samples.median(), samples.quantile(0.95));
        let ratios = (p50 / without.median(), p95 / without.quantile(0.95));
        table.row([
            name.to_owned(),
            format!("{p50:.2}"),
            format!("{p95:.2}"),
            format!("{:.2}", ratios.0),
            format!("{:.2}", ratios.1),
        ]);
        figures.push(json!({"llm": name, "milliseconds": samples.summary(), "to_without": ratios}));
        if name != "without an LLM" {
            let target = format!("memory_ingest, LLM {name}, to without, p50");
            report.target(target, ratios.0, Bound::AtMost(1.2));
        }
    }
    print!("{table}");
    report.add("ingest_with_llm", Json::from(figures));
    Ok(())
}

fn store(client: &mut Client, number: usize, samples: &mut Samples) -> Result<()> {
    let statement = format!(
        "SELECT memory_ingest('session {}', 'user', {})",
        number % SESSIONS,
        literal(&synthetic::sentence(number))
    );
    samples.time(|| client.simple_query(&statement))?;
    Ok(())
}
