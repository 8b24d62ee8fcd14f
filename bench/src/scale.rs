//! Recall and ingest while one user's memory grows, exactly and through the vector index; and a
//! small user among many rows. Most rows are made by SQL out of a few thousand real ones: two turns
//! each, their lexemes and embeddings joined, so that words and vectors are spread as in real text.

use crate::Result;
use crate::arguments::Arguments;
use crate::connection;
use crate::environment::{Environment, literal};
use crate::latency::bare_query;
use crate::raw_model::RawModels;
use crate::report::{Report, Table, progress};
use crate::samples::Samples;
use crate::synthetic::{self, FreshQuestions};
use memory_agent_e2e::{Client, Json, json};
use std::time::Instant;

const DATABASE: &str = "scale";
/// Turns that are really ingested, and the others are made of.
const SEEDS: usize = 2000;
/// Rows of the users that are measured, up to the largest wanted.
const SIZES: [usize; 4] = [1_000, 10_000, 50_000, 200_000];
const SMALL: usize = 100;
const SAMPLES: usize = 30;
/// Turns stored in one call to measure ingest.
const BATCH: usize = 100;
const BATCHES: usize = 3;

struct Figures {
    name: String,
    rows: usize,
    mode: String,
    recall: Samples,
    search: Samples,
    bare: Samples,
    /// The recall to the raw embedding and the bare query together.
    to_raw: Samples,
    /// Turns a second.
    ingest: Option<f64>,
}

pub fn run(environment: &Environment, arguments: &Arguments, report: &mut Report) -> Result<()> {
    let models = RawModels::load(environment)?;
    let mut questions = FreshQuestions::default();
    let mut small = environment.database("calls")?;
    let alone = connection::measure(environment, "calls", &mut small, &mut questions)?;
    let mut client = environment.database(DATABASE)?;
    progress("scale: seeds");
    seed(&mut client)?;
    let mut figures = Vec::new();
    let mut next_turn = SEEDS;
    let sizes: Vec<usize> =
        SIZES.into_iter().filter(|rows| *rows <= arguments.scale_rows).collect();
    for rows in [SMALL].into_iter().chain(sizes.iter().copied()) {
        progress(format_args!("scale: {rows} rows"));
        add_user(&mut client, rows)?;
    }
    let others = SEEDS + SMALL + sizes.iter().sum::<usize>();
    let among_others = connection::measure(environment, DATABASE, &mut client, &mut questions)?;
    connection::show(report, &alone, &among_others, others);
    for rows in sizes.iter().copied() {
        progress(format_args!("scale: recall from {rows} rows"));
        let mut measured = recall(&mut client, &models, &mut questions, rows, "defaults")?;
        measured.ingest = Some(ingest(&mut client, rows, &mut next_turn)?);
        figures.push(measured);
    }
    figures.push(recall(&mut client, &models, &mut questions, SMALL, "small user among all")?);

    progress("scale: building the vector index");
    let started = Instant::now();
    client.batch_execute(
        "SET maintenance_work_mem = '1GB'; SELECT memory_create_vector_index(); ANALYZE memory_agent.entries",
    )?;
    let build_seconds = started.elapsed().as_secs_f64();
    for rows in sizes.iter().copied() {
        // Without this, memories of up to that many rows are searched exactly.
        client.batch_execute("SET memory_agent.exact_scan_rows = 0")?;
        figures.push(recall(&mut client, &models, &mut questions, rows, "vector index")?);
    }
    figures.push(recall(&mut client, &models, &mut questions, SMALL, "small user, vector index")?);
    client.batch_execute("RESET memory_agent.exact_scan_rows")?;
    if let Some(rows) = sizes.last() {
        let mut measured =
            recall(&mut client, &models, &mut questions, *rows, "defaults, vector index there")?;
        measured.ingest = Some(ingest(&mut client, *rows, &mut next_turn)?);
        figures.push(measured);
    }
    show(report, &figures, build_seconds);
    Ok(())
}

fn seed(client: &mut Client) -> Result<()> {
    let turns: Vec<Json> = (0..SEEDS).map(synthetic::turn).collect();
    client.execute(
        "SELECT count(*) FROM memory_ingest_batch($1::text::jsonb, user_id => 'seed')",
        &[&Json::from(turns).to_string()],
    )?;
    client.batch_execute(
        "CREATE TABLE seeds AS SELECT row_number() OVER (ORDER BY id) - 1 AS n, * FROM memory_agent.entries; \
         CREATE UNIQUE INDEX ON seeds (n); ANALYZE seeds",
    )?;
    Ok(())
}

fn user(rows: usize) -> String {
    format!("user of {rows}")
}

fn bare_table(rows: usize) -> String {
    format!("bare_{rows}")
}

/// Row i is made of the seeds i and 13 i + 37 (i / SEEDS) + 1, so that no pair comes twice.
fn add_user(client: &mut Client, rows: usize) -> Result<()> {
    let (user, bare) = (literal(&user(rows)), bare_table(rows));
    client.batch_execute(&format!(
        "INSERT INTO memory_agent.entries (id, user_id, agent_id, session_id, kind, role, content, token_count, \
                embedding, embedding_model, lexemes, lexeme_config, doc_len, created_at) \
         SELECT gen_random_uuid(), {user}, 'default', 'session ' || i / 20, 'turn', 'user', \
                a.content || ' ' || b.content, a.token_count + b.token_count, \
                l2_normalize(a.embedding + b.embedding), a.embedding_model, a.lexemes || b.lexemes, \
                a.lexeme_config, a.doc_len + b.doc_len, now() - i * interval '1 minute' \
           FROM generate_series(1, {rows}) AS i \
           JOIN seeds a ON a.n = i % {SEEDS} \
           JOIN seeds b ON b.n = (i * 13 + i / {SEEDS} * 37 + 1) % {SEEDS}; \
         CREATE TABLE {bare} AS SELECT id, embedding FROM memory_agent.entries WHERE user_id = {user}"
    ))?;
    client.batch_execute(&format!("VACUUM ANALYZE {bare}, memory_agent.entries"))?;
    Ok(())
}

fn recall(
    client: &mut Client,
    models: &RawModels,
    questions: &mut FreshQuestions,
    rows: usize,
    name: &str,
) -> Result<Figures> {
    let user = user(rows);
    let mut figures = Figures {
        name: name.to_owned(),
        rows,
        mode: String::new(),
        recall: Samples::default(),
        search: Samples::default(),
        bare: Samples::default(),
        to_raw: Samples::default(),
        ingest: None,
    };
    for _ in 0..SAMPLES {
        let question = questions.another();
        figures.recall.time(|| {
            client.simple_query(&format!(
                "SELECT * FROM memory_recall({}, user_id => {}, rerank => false)",
                literal(&question),
                literal(&user)
            ))
        })?;
        let (vector, embedding) = models.embed_query(&question)?;
        let nearest = bare_query(&bare_table(rows), &vector);
        figures.bare.time(|| client.simple_query(&nearest))?;
        let raw = figures.bare.last() + embedding.as_secs_f64() * 1000.0;
        figures.to_raw.push(figures.recall.last() / raw);
        let row = client.query_one(
            "SELECT memory_explain($1, user_id => $2, rerank => false)::text",
            &[&question, &user],
        )?;
        let explained: Json = serde_json::from_str(row.get(0))?;
        figures.search.push(explained["milliseconds"]["search"].as_f64().unwrap_or(f64::NAN));
        figures.mode = explained["mode"].as_str().unwrap_or_default().to_owned();
    }
    Ok(figures)
}

/// Turns stored in a second.
fn ingest(client: &mut Client, rows: usize, next_turn: &mut usize) -> Result<f64> {
    let mut samples = Samples::default();
    for _ in 0..BATCHES {
        let turns: Vec<Json> = (*next_turn..*next_turn + BATCH).map(synthetic::turn).collect();
        *next_turn += BATCH;
        let turns = Json::from(turns).to_string();
        samples.time(|| {
            client.execute(
                "SELECT count(*) FROM memory_ingest_batch($1::text::jsonb, user_id => $2)",
                &[&turns, &user(rows)],
            )
        })?;
    }
    Ok(BATCH as f64 * 1000.0 / samples.median())
}

fn show(report: &mut Report, figures: &[Figures], build_seconds: f64) {
    let total: usize = figures
        .iter()
        .map(|figures| figures.rows)
        .collect::<std::collections::BTreeSet<_>>()
        .iter()
        .sum();
    report.section(&format!("Scale: recall without reranker, {} rows in all, ms", total + SEEDS));
    let mut table = Table::new(&[
        "",
        "rows of the user",
        "search",
        "recall p50",
        "p95",
        "its search p50",
        "bare pgvector p50",
        "to raw, p50",
        "ingest/s",
    ]);
    for one in figures {
        table.row([
            one.name.clone(),
            one.rows.to_string(),
            one.mode.clone(),
            format!("{:.1}", one.recall.median()),
            format!("{:.1}", one.recall.quantile(0.95)),
            format!("{:.1}", one.search.median()),
            format!("{:.1}", one.bare.median()),
            format!("{:.2}", one.to_raw.median()),
            one.ingest.map_or(String::new(), |rate| format!("{rate:.0}")),
        ]);
    }
    print!("{table}");
    println!("The vector index took {build_seconds:.0} s to build.");
    let rows: Vec<Json> = figures
        .iter()
        .map(|one| {
            json!({
                "name": one.name, "rows": one.rows, "mode": one.mode, "recall": one.recall.summary(),
                "search": one.search.summary(), "bare": one.bare.summary(), "to_raw": one.to_raw.summary(), "ingest_per_second": one.ingest,
            })
        })
        .collect();
    report.add("scale", json!({"users": rows, "index_build_seconds": build_seconds}));
}
