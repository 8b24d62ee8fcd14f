//! Where the time of storing long turns goes, and whether recall waits while they are embedded: an assistant's
//! turns, embedded by the statement that stores them (`sync`) or by a job (`async`), beside the raw model on the
//! same texts; and recalls of another user alone, while a job embeds, and while a statement does.

use crate::Result;
use crate::arguments::Arguments;
use crate::dataset::Dataset;
use crate::environment::Environment;
use crate::raw_model::{Cost, RawModels};
use crate::report::{Bound, Report, Table, progress};
use crate::samples::Samples;
use crate::synthetic;
use memory_agent_e2e::{Client, Json, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The set with an assistant's long answers.
const FOLDER: &str = "beam-open";
/// Turns of one statement.
const TURNS: usize = 64;
const ROUNDS: usize = 4;
/// Recalls of a round while nothing is embedded.
const ALONE: usize = 100;
/// Turns of the user who recalls meanwhile.
const READER_TURNS: usize = 600;
/// Of which the number makes a sentence that no turn has: its question is not in a cache.
const FIRST_QUESTION: usize = 1_000_000;
/// A recall may take this many times as long while a job embeds.
const WAIT: f64 = 3.0;

/// What one way of storing costs, a sample a round, in milliseconds of a statement's turns.
#[derive(Default)]
struct Way {
    /// Until the statement returns.
    stored: Samples,
    /// Until recall finds all turns by their meaning.
    embedded: Samples,
    raw: Samples,
    /// `embedded` to `raw`.
    ratio: Samples,
    /// Recalls of the other user meanwhile.
    recalls: Samples,
}

/// The other user's recalls.
struct Reader {
    client: Client,
    question: usize,
}

impl Reader {
    fn recall(&mut self, samples: &mut Samples) -> Result<()> {
        self.question += 1;
        let question = synthetic::sentence(FIRST_QUESTION + self.question);
        let statement =
            "SELECT count(*) FROM memory_recall($1, user_id => 'reader', rerank => false)";
        samples.time(|| self.client.query_one(statement, &[&question]))?;
        Ok(())
    }
}

pub fn run(environment: &Environment, arguments: &Arguments, report: &mut Report) -> Result<()> {
    let directory = arguments.data.join(FOLDER);
    if !directory.is_dir() {
        report.section("Long turns: left out");
        println!("{} is not there; name its parent with --data", directory.display());
        return Ok(());
    }
    let dataset = Dataset::read(&directory, None)?;
    let mut texts = dataset.documents.iter().map(|document| document.content.as_str());
    let models = RawModels::load(environment)?;
    let mut client = environment.database("long_turns")?;
    let mut reader = Reader { client: environment.cluster.connect("long_turns"), question: 0 };
    let turns: Vec<Json> = (0..READER_TURNS).map(synthetic::turn).collect();
    reader.client.execute(
        "SELECT count(*) FROM memory_ingest_batch($1::text::jsonb, user_id => 'reader')",
        &[&Json::from(turns).to_string()],
    )?;
    progress(format_args!("long turns: {ROUNDS} rounds"));
    let (mut sync, mut queued) = (Way::default(), Way::default());
    let (mut cost, mut alone) = (Cost::default(), Samples::default());
    for _ in 0..ROUNDS {
        for _ in 0..ALONE {
            reader.recall(&mut alone)?;
        }
        for (way, setting) in [(&mut sync, "sync"), (&mut queued, "async")] {
            let texts: Vec<&str> = texts.by_ref().take(TURNS).collect();
            client.batch_execute(&format!("SET memory_agent.embed_on_ingest = '{setting}'"))?;
            store(&mut client, &mut reader, way, &texts)?;
            let raw = models.cost_of_documents(&texts)?;
            way.raw.push(raw.milliseconds());
            way.ratio.push(way.embedded.last() / way.raw.last());
            cost.add(&raw);
        }
    }
    show(report, &cost, &alone, [("sync", &sync), ("async", &queued)]);
    Ok(())
}

/// Stores turns, and lets the other user recall until they are embedded.
fn store(client: &mut Client, reader: &mut Reader, way: &mut Way, texts: &[&str]) -> Result<()> {
    let turns: Vec<Json> =
        texts.iter().map(|text| json!({"role": "assistant", "content": text})).collect();
    let turns = Json::from(turns).to_string();
    let is_over = AtomicBool::new(false);
    let recalls = &mut way.recalls;
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| -> std::result::Result<(), String> {
            while !is_over.load(Ordering::Relaxed) {
                reader.recall(recalls).map_err(|error| error.to_string())?;
            }
            Ok(())
        });
        let mut writing = || -> Result<(f64, f64)> {
            let started = Instant::now();
            let milliseconds = || started.elapsed().as_secs_f64() * 1000.0;
            client.execute(
                "SELECT count(*) FROM memory_ingest_batch($1::text::jsonb, 'session', user_id => 'writer')",
                &[&turns],
            )?;
            let stored = milliseconds();
            let done: bool = client.query_one("SELECT memory_wait('300 s')", &[])?.get(0);
            if !done {
                return Err("the embed job does not end".into());
            }
            Ok((stored, milliseconds()))
        };
        let times = writing();
        is_over.store(true, Ordering::Relaxed);
        reading.join().map_err(|_| "the reader panicked")??;
        let (stored, embedded) = times?;
        way.stored.push(stored);
        way.embedded.push(embedded);
        Ok(())
    })
}

fn show(report: &mut Report, cost: &Cost, alone: &Samples, ways: [(&str, &Way); 2]) {
    report.section(&format!("Long turns: {ROUNDS} statements of {TURNS} turns each way"));
    let of_turn = |amount: f64| format!("{:.1}", amount / cost.texts as f64);
    println!(
        "A turn: {} tokens in {} windows; raw, {} ms of the tokenizer and {} ms of the model",
        of_turn(cost.tokens as f64),
        of_turn(cost.windows as f64),
        of_turn(cost.tokenising.as_secs_f64() * 1000.0),
        of_turn(cost.running.as_secs_f64() * 1000.0),
    );
    let mut table = Table::new(&[
        "",
        "returns, ms a turn",
        "embedded",
        "raw",
        "to raw, p50",
        "recall p50",
        "p95",
    ]);
    let recalls = |samples: &Samples| {
        [samples.median(), samples.quantile(0.95)].map(|value| format!("{value:.1}"))
    };
    let mut row = vec!["alone".to_owned()];
    row.extend(std::iter::repeat_n(String::new(), 4));
    row.extend(recalls(alone));
    table.row(row);
    let mut figures = json!({"alone": alone.summary()});
    for (name, way) in ways {
        let ms = |samples: &Samples| format!("{:.1}", samples.median() / TURNS as f64);
        let mut row = vec![name.to_owned(), ms(&way.stored), ms(&way.embedded), ms(&way.raw)];
        row.push(format!("{:.2}", way.ratio.median()));
        row.extend(recalls(&way.recalls));
        table.row(row);
        let ratio = way.recalls.median() / alone.median();
        report.target(
            format!("recall while long turns are embedded, {name}, to alone, p50"),
            ratio,
            Bound::AtMost(WAIT),
        );
        figures[name] = json!({
            "stored": way.stored.summary(), "embedded": way.embedded.summary(), "raw": way.raw.summary(),
            "to_raw": way.ratio.summary(), "recalls": way.recalls.summary(), "recalls_to_alone": ratio,
        });
    }
    print!("{table}");
    report.add("long_turns", figures);
}
