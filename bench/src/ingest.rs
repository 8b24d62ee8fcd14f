//! What storing turns costs, one by one and in batches, beside embedding the same texts with the
//! raw model and inserting the vectors into a plain table.

use crate::Result;
use crate::arguments::Arguments;
use crate::environment::{Environment, literal, vector_literal};
use crate::raw_model::RawModels;
use crate::report::{Report, Table, progress};
use crate::samples::Samples;
use crate::synthetic;
use memory_agent_e2e::{Client, Json, json};

/// Turns in one batch.
const BATCH: usize = 100;

/// One way of storing turns.
#[derive(Default)]
struct Figures {
    /// Milliseconds of a call.
    ours: Samples,
    /// Milliseconds of the same texts through the raw model and into a plain table.
    raw: Samples,
    ratio: Samples,
}

impl Figures {
    /// `turns` is the number of turns of each call.
    fn row(&self, name: &str, turns: usize) -> [String; 5] {
        let per_second =
            |samples: &Samples| format!("{:.0}", turns as f64 * 1000.0 / samples.median());
        [
            name.to_owned(),
            per_second(&self.ours),
            per_second(&self.raw),
            format!("{:.2}", self.ours.quantile(0.95) / turns as f64),
            format!("{:.2}", self.ratio.median()),
        ]
    }

    fn json(&self, turns: usize) -> Json {
        json!({
            "turns": turns,
            "milliseconds": self.ours.summary(),
            "raw_milliseconds": self.raw.summary(),
            "to_raw": self.ratio.summary(),
        })
    }
}

pub fn run(environment: &Environment, arguments: &Arguments, report: &mut Report) -> Result<()> {
    let models = RawModels::load(environment)?;
    let mut client = environment.database("ingest")?;
    client.batch_execute("CREATE TABLE bare (embedding vector)")?;
    let rounds = (arguments.samples / 20).max(1);
    progress(format_args!("ingest: {rounds} rounds"));
    let (mut single, mut batch) = (Figures::default(), Figures::default());
    let mut stored = 0;
    for _ in 0..rounds {
        for _ in 0..20 {
            store(&mut client, &models, &mut single, stored, 1)?;
            stored += 1;
        }
        store(&mut client, &models, &mut batch, stored, BATCH)?;
        stored += BATCH;
    }
    report.section(&format!(
        "Ingest: {} calls of one turn, {} of {BATCH}",
        single.ours.len(),
        batch.ours.len()
    ));
    let mut table = Table::new(&["", "turns/s", "raw turns/s", "p95 ms a turn", "to raw, p50"]);
    table.row(single.row("memory_ingest", 1));
    table.row(batch.row("memory_ingest_batch", BATCH));
    print!("{table}");
    report.add("ingest", json!({"single": single.json(1), "batch": batch.json(BATCH)}));
    Ok(())
}

/// Stores `count` turns from `first` on, both ways.
fn store(
    client: &mut Client,
    models: &RawModels,
    figures: &mut Figures,
    first: usize,
    count: usize,
) -> Result<()> {
    let numbers = first..first + count;
    let turns: Vec<Json> = numbers.clone().map(synthetic::turn).collect();
    let statement = match turns.as_slice() {
        [turn] => format!(
            "SELECT memory_ingest({}, 'user', {}, metadata => {})",
            literal(turn["session_id"].as_str().unwrap_or_default()),
            literal(turn["content"].as_str().unwrap_or_default()),
            literal(&turn["metadata"].to_string()),
        ),
        _ => format!("SELECT memory_ingest_batch({})", literal(&Json::from(turns).to_string())),
    };
    figures.ours.time(|| client.simple_query(&statement))?;

    let texts: Vec<String> = numbers.map(synthetic::indexed_text).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let (vectors, time) = models.embed_documents(&texts)?;
    let rows: Vec<String> =
        vectors.iter().map(|vector| format!("({})", vector_literal(vector))).collect();
    let insert = format!("INSERT INTO bare VALUES {}", rows.join(", "));
    let mut inserting = Samples::default();
    inserting.time(|| client.simple_query(&insert))?;
    figures.raw.push(time.as_secs_f64() * 1000.0 + inserting.last());
    figures.ratio.push(figures.ours.last() / figures.raw.last());
    Ok(())
}
