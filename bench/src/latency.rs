//! What a recall costs, in one run with what it cannot do without: the models alone, and a bare
//! pgvector query. Everything is measured in turn, sample after sample, so that a busy moment of
//! the machine falls on both sides of a ratio.

use crate::Result;
use crate::arguments::Arguments;
use crate::environment::{Environment, literal, vector_literal};
use crate::raw_model::RawModels;
use crate::report::{Bound, Report, Table, progress};
use crate::samples::Samples;
use crate::synthetic::{self, FreshQuestions};
use memory_agent_e2e::{Client, Json, json};

/// Rows of the user's memory: about a conversation of LoCoMo.
const ROWS: usize = 600;
/// Rows that the bare query fetches.
const NEAREST: usize = 15;
/// Samples before the first that counts.
const WARM_UP: usize = 5;
/// Of so many rounds one also asks for the times of the steps.
const STAGES_EVERY: usize = 4;
/// Memories of another user, each of so many turns: about 5 kB.
const LONG_ROWS: usize = 60;
const TURNS_OF_LONG: usize = 35;
const LONG_USER: &str = ", user_id => 'long'";
const DATABASE: &str = "latency";
const STEPS: [&str; 4] = ["embed", "search", "rerank", "rank"];
/// Set beside the defaults for "30 rows read".
const MORE_ROWS: &str = "30";

#[derive(Default)]
struct Figures {
    plain: Samples,
    plain_to_raw: Samples,
    reranked: Samples,
    reranked_to_raw: Samples,
    reranked_30: Samples,
    reranked_30_to_raw: Samples,
    prompts: Prompts,
    long_prompts: Prompts,
    first: Samples,
    embedding: Samples,
    nearest: Samples,
    raw_rerank: Samples,
    raw_rerank_30: Samples,
    pool: Samples,
    steps: [Samples; 4],
}

/// Prompts of a session in which nothing was said yet.
#[derive(Default)]
struct Prompts {
    context: Samples,
    context_to_recall: Samples,
    augment: Samples,
    augment_to_recall: Samples,
}

pub fn run(environment: &Environment, arguments: &Arguments, report: &mut Report) -> Result<()> {
    let models = RawModels::load(environment)?;
    let mut client = environment.database(DATABASE)?;
    fill(&mut client)?;
    let mut questions = FreshQuestions::default();
    let mut figures = Figures::default();
    progress(format_args!("latency: {} rounds", arguments.samples));
    for round in 0..arguments.samples + WARM_UP {
        if round == WARM_UP {
            figures = Figures::default();
        }
        without_reranker(&mut client, &models, &mut questions, &mut figures)?;
        with_reranker(&mut client, &models, &mut questions, &mut figures)?;
        prompts(&mut client, &mut questions, "", &mut figures.prompts)?;
        prompts(&mut client, &mut questions, LONG_USER, &mut figures.long_prompts)?;
        first_recall(environment, &mut questions, &mut figures)?;
        if round % STAGES_EVERY == 0 {
            steps(&mut client, &mut questions, &mut figures)?;
        }
    }
    show(report, &figures);
    Ok(())
}

fn fill(client: &mut Client) -> Result<()> {
    let turns: Vec<Json> = (0..ROWS).map(synthetic::turn).collect();
    client.execute(
        "SELECT count(*) FROM memory_ingest_batch($1::text::jsonb)",
        &[&Json::from(turns).to_string()],
    )?;
    let texts = |number: usize| {
        let turns =
            (0..TURNS_OF_LONG).map(|turn| synthetic::sentence(number * TURNS_OF_LONG + turn));
        format!("{}.", turns.collect::<Vec<_>>().join(". "))
    };
    let long: Vec<Json> = (0..LONG_ROWS)
        .map(|number| {
            let mut turn = synthetic::turn(number);
            turn["content"] = texts(number).into();
            turn
        })
        .collect();
    client.execute(
        &format!("SELECT count(*) FROM memory_ingest_batch($1::text::jsonb{LONG_USER})"),
        &[&Json::from(long).to_string()],
    )?;
    client.batch_execute("CREATE TABLE bare AS SELECT id, embedding FROM memory_agent.entries WHERE user_id <> 'long'")?;
    client.batch_execute("VACUUM ANALYZE bare, memory_agent.entries")?;
    Ok(())
}

fn recall(question: &str, rerank: bool) -> String {
    format!("SELECT * FROM memory_recall({}, rerank => {rerank})", literal(question))
}

/// * `user`: the argument that names the user, with a comma before it; empty for the client's own.
fn recall_of(user: &str, question: &str) -> String {
    format!("SELECT * FROM memory_recall({}{user})", literal(question))
}

/// The query that an application without us would send.
pub fn bare_query(table: &str, vector: &[f32]) -> String {
    format!(
        "SELECT id FROM {table} ORDER BY embedding <=> {} LIMIT {NEAREST}",
        vector_literal(vector)
    )
}

fn without_reranker(
    client: &mut Client,
    models: &RawModels,
    questions: &mut FreshQuestions,
    figures: &mut Figures,
) -> Result<()> {
    let question = questions.another();
    figures.plain.time(|| client.simple_query(&recall(&question, false)))?;
    let (vector, time) = models.embed_query(&question)?;
    figures.embedding.add(time);
    figures.nearest.time(|| client.simple_query(&bare_query("bare", &vector)))?;
    let raw = figures.embedding.last() + figures.nearest.last();
    figures.plain_to_raw.push(figures.plain.last() / raw);
    Ok(())
}

fn with_reranker(
    client: &mut Client,
    models: &RawModels,
    questions: &mut FreshQuestions,
    figures: &mut Figures,
) -> Result<()> {
    let question = questions.another();
    figures.reranked.time(|| client.simple_query(&recall(&question, true)))?;
    let batch = reranked_texts(client, &question)?;
    figures.pool.push(batch.len() as f64);
    figures.raw_rerank.add(rerank_raw(models, &question, &batch)?);
    figures.reranked_to_raw.push(figures.reranked.last() / figures.raw_rerank.last());

    let question = questions.another();
    client.batch_execute(&format!("SET memory_agent.rerank_rows = {MORE_ROWS}"))?;
    figures.reranked_30.time(|| client.simple_query(&recall(&question, true)))?;
    let batch = reranked_texts(client, &question)?;
    client.batch_execute("RESET memory_agent.rerank_rows")?;
    figures.raw_rerank_30.add(rerank_raw(models, &question, &batch)?);
    figures.reranked_30_to_raw.push(figures.reranked_30.last() / figures.raw_rerank_30.last());
    Ok(())
}

/// Prompts, each beside a recall of the same user's memory.
fn prompts(
    client: &mut Client,
    questions: &mut FreshQuestions,
    user: &str,
    figures: &mut Prompts,
) -> Result<()> {
    let mut recalled = Samples::default();
    let context = format!("SELECT memory_context('new', {}{user})", literal(&questions.another()));
    recalled.time(|| client.simple_query(&recall_of(user, &questions.another())))?;
    figures.context.time(|| client.simple_query(&context))?;
    figures.context_to_recall.push(figures.context.last() / recalled.last());
    let augment = format!(
        "SELECT memory_augment(jsonb_build_array(jsonb_build_object('role', 'user', 'content', {})), \
                               session_id => 'new'{user})",
        literal(&questions.another())
    );
    figures.augment.time(|| client.simple_query(&augment))?;
    recalled.time(|| client.simple_query(&recall_of(user, &questions.another())))?;
    figures.augment_to_recall.push(figures.augment.last() / recalled.last());
    Ok(())
}

/// The texts that a recall of this question let the reranker score. Its scores are remembered by
/// now, so that asking again costs the model server nothing.
fn reranked_texts(client: &mut Client, question: &str) -> Result<Vec<String>> {
    let rows = client.query(
        "SELECT (e.metadata->>'name') || ': ' || e.content \
           FROM jsonb_array_elements(memory_explain($1, rerank => true)->'candidates') AS candidate \
           JOIN memory_agent.entries e ON e.id = (candidate->>'id')::uuid \
          WHERE candidate->>'logit' IS NOT NULL",
        &[&question],
    )?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

fn rerank_raw(models: &RawModels, question: &str, texts: &[String]) -> Result<std::time::Duration> {
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    models.rerank(question, &texts)
}

/// The first recall of a connection: everything a backend loads or looks up once. Connecting itself
/// is PostgreSQL's and not counted.
fn first_recall(
    environment: &Environment,
    questions: &mut FreshQuestions,
    figures: &mut Figures,
) -> Result<()> {
    let mut client = environment.cluster.connect(DATABASE);
    let question = questions.another();
    figures.first.time(|| client.simple_query(&recall(&question, false)))?;
    Ok(())
}

fn steps(client: &mut Client, questions: &mut FreshQuestions, figures: &mut Figures) -> Result<()> {
    let row = client.query_one("SELECT memory_explain($1)::text", &[&questions.another()])?;
    let explained: Json = serde_json::from_str(row.get(0))?;
    for (samples, step) in figures.steps.iter_mut().zip(STEPS) {
        let time = explained["milliseconds"][step].as_f64();
        samples.push(time.ok_or("memory_explain does not tell the times of its steps")?);
    }
    Ok(())
}

fn show(report: &mut Report, figures: &Figures) {
    let Figures { plain, reranked, reranked_30, first, .. } = figures;
    report.section(&format!("Latency: one user, {ROWS} turns, {} samples, ms", plain.len()));
    let mut table = Table::new(&["", "p50", "p95", "to raw, p50"]);
    let mut row = |name: &str, samples: &Samples, ratio: Option<&Samples>| {
        let ratio = ratio.map_or(String::new(), |ratio| format!("{:.2}", ratio.median()));
        let (p50, p95) = (samples.median(), samples.quantile(0.95));
        table.row([name.to_owned(), format!("{p50:.2}"), format!("{p95:.2}"), ratio]);
    };
    row("recall without reranker", plain, Some(&figures.plain_to_raw));
    row("  raw: embedding the question", &figures.embedding, None);
    row("  raw: bare pgvector query", &figures.nearest, None);
    row("recall, 30 rows read", reranked_30, Some(&figures.reranked_30_to_raw));
    row("  raw: reranker on the same pairs", &figures.raw_rerank_30, None);
    let pool = format!("recall, defaults ({} candidates)", figures.pool.median());
    row(&pool, reranked, Some(&figures.reranked_to_raw));
    row("  raw: reranker on the same pairs", &figures.raw_rerank, None);
    let of_prompts = [("", &figures.prompts), (" from memories of 5 kB", &figures.long_prompts)];
    for (from, Prompts { context, context_to_recall, augment, augment_to_recall }) in of_prompts {
        let of = |what| format!("{what} of a new session{from}, to a recall");
        row(&of("context"), context, Some(context_to_recall));
        row(&of("augment"), augment, Some(augment_to_recall));
    }
    row("first recall of a connection, no reranker", first, None);
    for (step, samples) in STEPS.iter().zip(&figures.steps) {
        row(&format!("step of a default recall: {step}"), samples, None);
    }
    print!("{table}");
    report.target(
        "recall without reranker to embedding + pgvector",
        figures.plain_to_raw.median(),
        Bound::AtMost(1.5),
    );
    for (from, prompts) in of_prompts {
        let ratios =
            [("context", &prompts.context_to_recall), ("augment", &prompts.augment_to_recall)];
        for (what, ratio) in ratios {
            let name = format!("{what} of a new session{from} to a recall without a session");
            report.target(&name, ratio.median(), Bound::AtMost(1.2));
        }
    }
    report.target(
        "recall, 30 rows read, to raw reranker",
        figures.reranked_30_to_raw.median(),
        Bound::AtMost(1.3),
    );
    report.target(
        "first recall of a connection, ms more",
        first.median() - plain.median(),
        Bound::AtMost(20.0),
    );
    let steps: serde_json::Map<String, Json> = STEPS
        .iter()
        .zip(&figures.steps)
        .map(|(step, all)| ((*step).to_owned(), all.summary()))
        .collect();
    report.add(
        "latency",
        json!({
            "rows": ROWS,
            "recall_without_reranker": plain.summary(),
            "recall_without_reranker_to_raw": figures.plain_to_raw.summary(),
            "recall_30_candidates": reranked_30.summary(),
            "recall_30_candidates_to_raw": figures.reranked_30_to_raw.summary(),
            "recall": reranked.summary(),
            "recall_to_raw": figures.reranked_to_raw.summary(),
            "recall_candidates": figures.pool.summary(),
            "first_recall": first.summary(),
            "raw_embedding": figures.embedding.summary(),
            "raw_nearest": figures.nearest.summary(),
            "raw_rerank_30": figures.raw_rerank_30.summary(),
            "raw_rerank": figures.raw_rerank.summary(),
            "steps": steps,
        }),
    );
}
