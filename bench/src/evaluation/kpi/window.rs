//! A session of 50 turns that is held below 3,000 tokens by itself: compression alone, without a call.

use super::figures::Figures;
use super::talk::{self, SESSION};
use crate::endpoint::Endpoint;
use memory_agent_bench::Result;
use memory_agent_bench::report::Bound;

const TURNS: usize = 50;
const SENTENCES: usize = 5;
const MOST_TOKENS: f64 = 3000.0;
/// What the window may hold before it is compressed: below the target by the summary and a turn.
const THRESHOLD: i32 = 2000;

pub fn measure(endpoint: &Endpoint, figures: &mut Figures) -> Result<()> {
    let mut client = endpoint.database("window");
    client
        .batch_execute(&format!("SET memory_agent.compression_threshold_tokens = {THRESHOLD}"))?;
    let mut largest = 0;
    for at in 0..TURNS {
        client.execute(
            "SELECT memory_ingest($1, $2, $3)",
            &[&SESSION, &talk::role(at), &talk::message(at, SENTENCES)],
        )?;
        talk::drain(&mut client)?;
        let tokens: i64 = client
            .query_one(
                "SELECT coalesce(sum(token_count + 4), 0) FROM memory_load($1)",
                &[&SESSION],
            )?
            .get(0);
        largest = largest.max(tokens);
    }
    let row = client.query_one(
        "SELECT sum(token_count)::bigint, count(*) FILTER (WHERE state = 'active'), \
                (SELECT count(*) FROM memory_agent.session_summaries WHERE level = 'L3') \
           FROM memory_agent.entries WHERE kind = 'turn'",
        &[],
    )?;
    let (all, in_window, summaries): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
    figures.target(
        "Tokens of a session of 50 turns, at most",
        largest as f64,
        Bound::AtMost(MOST_TOKENS),
        format!(
            "memory_load after each turn, {all} tokens in all; compression_threshold_tokens {THRESHOLD}"
        ),
    );
    figures.detail(
        "Turns in its window at the end",
        in_window as f64,
        format!("{summaries} L3 summaries were made, each from the one before"),
    );
    Ok(())
}
