//! How long memory_context takes, and whether that grows with the conversation.

use super::figures::Figures;
use super::talk::{self, SESSION};
use crate::endpoint::Endpoint;
use memory_agent_bench::Result;
use memory_agent_bench::report::Bound;
use memory_agent_bench::samples::Samples;
use memory_agent_bench::synthetic::FreshQuestions;
use memory_agent_e2e::Client;

const SHORT: usize = 20;
const LONG: usize = 500;
const SENTENCES: usize = 2;
const SAMPLES: usize = 60;
const WARM_UP: usize = 5;

pub fn measure(endpoint: &Endpoint, figures: &mut Figures) -> Result<()> {
    let mut client = endpoint.database("latency");
    for turns in [SHORT, LONG] {
        talk::become_user(&mut client, &user(turns))?;
        let messages: Vec<String> =
            (0..turns).map(|at| talk::message(turns + at, SENTENCES)).collect();
        for batch in messages.chunks(SHORT) {
            talk::store(&mut client, SESSION, batch)?;
        }
        talk::drain(&mut client)?;
    }
    client.batch_execute("VACUUM ANALYZE memory_agent.entries")?;

    let mut questions = FreshQuestions::default();
    for rerank in ["on", "off"] {
        client.batch_execute(&format!("SET memory_agent.rerank = {rerank}"))?;
        let mut samples: [Samples; 2] = Default::default();
        // In turn, so that a busy moment of the machine falls on both.
        for number in 0..WARM_UP + SAMPLES {
            for (turns, samples) in [SHORT, LONG].into_iter().zip(&mut samples) {
                talk::become_user(&mut client, &user(turns))?;
                let mut one = Samples::default();
                one.time(|| context(&mut client, &questions.another()))?;
                if number >= WARM_UP {
                    samples.extend(&one);
                }
            }
        }
        let [short, long] = &samples;
        let (p95, median) = (long.quantile(0.95) / short.quantile(0.95), long.median());
        let figure = format!(
            "p95 {:.0} ms against {:.0} ms, medians {median:.0} and {:.0} ms",
            long.quantile(0.95),
            short.quantile(0.95),
            short.median()
        );
        let name = "p95 of memory_context at 500 turns, to 20 turns";
        match rerank {
            "on" => {
                figures.target(name, p95, Bound::AtMost(1.5), figure);
                figures.target(
                    "Median overhead of a prompt at 500 turns, ms",
                    median,
                    Bound::AtMost(400.0),
                    "memory_context, everything as shipped",
                );
            }
            _ => figures.detail(&format!("{name}, without reranking"), p95, figure),
        }
    }
    Ok(())
}

fn user(turns: usize) -> String {
    format!("user of {turns}")
}

fn context(client: &mut Client, question: &str) -> Result<()> {
    client.query_one("SELECT memory_context($1, $2)", &[&SESSION, &question])?;
    Ok(())
}
