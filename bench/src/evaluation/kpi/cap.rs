//! A prompt of at most 38,000 tokens over a history that is several times as long.

use super::figures::Figures;
use super::talk::{self, SESSION};
use crate::endpoint::Endpoint;
use memory_agent_bench::Result;
use memory_agent_bench::report::Bound;
use memory_agent_bench::synthetic::FreshQuestions;
use memory_agent_e2e::Json;

const CAP: i32 = 38_000;
const TURNS: usize = 900;
const SENTENCES: usize = 6;
const BATCH: usize = 100;
const CONTEXTS: usize = 20;

pub fn measure(endpoint: &Endpoint, figures: &mut Figures) -> Result<()> {
    let mut client = endpoint.database("cap");
    // The history is to stay as verbose as it is: nothing but the cap may hold it.
    client.batch_execute(
        "SET memory_agent.compression = off; SET memory_agent.summarization = off; \
         SET memory_agent.extraction = off; SET memory_agent.embed_on_ingest = off",
    )?;
    let messages: Vec<String> = (0..TURNS).map(|at| talk::message(at, SENTENCES)).collect();
    for batch in messages.chunks(BATCH) {
        talk::store(&mut client, SESSION, batch)?;
    }
    talk::drain(&mut client)?;
    let history: i64 =
        client.query_one("SELECT sum(token_count)::bigint FROM memory_agent.entries", &[])?.get(0);
    let mut questions = FreshQuestions::default();
    let mut largest = 0;
    for _ in 0..CONTEXTS {
        let context: Json = client
            .query_one(
                "SELECT memory_context($1, $2, token_budget => $3::int4)",
                &[&SESSION, &questions.another(), &CAP],
            )?
            .get(0);
        largest = largest.max(context["token_count"].as_i64().ok_or("no token_count")?);
    }
    figures.target(
        "Tokens of a prompt over a long history, at most",
        largest as f64,
        Bound::AtMost(f64::from(CAP)),
        format!("memory_context over {history} tokens, {CONTEXTS} times"),
    );
    // Without a budget it is context_limit less the margin: 40,000 less 5 %.
    let row = client.query_one(
        "SELECT tokens_before::bigint, tokens_after::bigint, dropped::bigint FROM memory_reserve_tokens($1)",
        &[&SESSION],
    )?;
    let (before, after, dropped): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
    figures.target(
        "Tokens of its window after memory_reserve_tokens",
        after as f64,
        Bound::AtMost(f64::from(CAP)),
        format!("{before} before, {dropped} turns left the window and stay in recall"),
    );
    Ok(())
}
