//! Random sessions and budgets: whether memory_context ever gives a token too many, by a count of its
//! messages that it takes no part in.

use super::figures::Figures;
use super::talk;
use crate::endpoint::Endpoint;
use crate::random::Random;
use memory_agent_bench::Result;
use memory_agent_bench::report::Bound;
use memory_agent_bench::synthetic::FreshQuestions;
use memory_agent_e2e::Client;

const SESSIONS: usize = 100;
const CONTEXTS: usize = 1000;
const LONGEST_SESSION: usize = 40;
const MOST_SENTENCES: usize = 12;
const LARGEST_BUDGET: usize = 4000;

/// One context.
struct Adherence {
    claimed: i64,
    counted: i64,
    budget: i32,
}

pub fn measure(endpoint: &Endpoint, seed: u64, figures: &mut Figures) -> Result<()> {
    let mut client = endpoint.database("budgets");
    // Neither changes what fits, and a thousand contexts are many.
    client
        .batch_execute("SET memory_agent.rerank = off; SET memory_agent.embed_on_ingest = off")?;
    let mut random = Random::new(seed);
    let mut number = 0;
    for session in 0..SESSIONS {
        let length = 1 + random.below(LONGEST_SESSION);
        let messages: Vec<String> = (0..length)
            .map(|_| {
                number += 1;
                talk::message(number, 1 + random.below(MOST_SENTENCES))
            })
            .collect();
        talk::store(&mut client, &name(session), &messages)?;
    }
    talk::drain(&mut client)?;

    let mut questions = FreshQuestions::default();
    let mut contexts = Vec::with_capacity(CONTEXTS);
    let mut refused = 0;
    while contexts.len() < CONTEXTS {
        // Small budgets are where a token is soonest too many.
        let largest = [60, 400, LARGEST_BUDGET][random.below(3)];
        let budget = 1 + random.below(largest) as i32;
        let session = name(random.below(SESSIONS));
        match context(&mut client, &session, &questions.another(), budget)? {
            Some(context) => contexts.push(context),
            None => refused += 1,
        }
    }
    let kept = contexts
        .iter()
        .filter(|one| one.counted <= i64::from(one.budget) && one.claimed <= i64::from(one.budget));
    let exact = contexts.iter().filter(|one| one.counted == one.claimed).count();
    figures.target(
        "Contexts within their budget, percent",
        100.0 * kept.count() as f64 / CONTEXTS as f64,
        Bound::AtLeast(100.0),
        format!(
            "{CONTEXTS} random budgets over {SESSIONS} sessions; {refused} more were refused, for the \
             message alone was too long"
        ),
    );
    figures.detail(
        "Contexts whose token_count is the count of their messages, percent",
        100.0 * exact as f64 / CONTEXTS as f64,
        "cl100k_base and 4 tokens a message",
    );
    Ok(())
}

fn name(session: usize) -> String {
    format!("session {session}")
}

/// `None` when the message alone does not fit.
fn context(
    client: &mut Client,
    session: &str,
    question: &str,
    budget: i32,
) -> Result<Option<Adherence>> {
    let counted = client.query_one(
        "WITH made AS MATERIALIZED (SELECT memory_context($1, $2, token_budget => $3::int4) AS context) \
         SELECT (context ->> 'token_count')::bigint, \
                (SELECT sum(memory_count_tokens(m ->> 'content') + 4) \
                   FROM jsonb_array_elements(context -> 'messages') m) \
           FROM made",
        &[&session, &question, &budget],
    );
    match counted {
        Ok(row) => Ok(Some(Adherence { claimed: row.get(0), counted: row.get(1), budget })),
        Err(error) if error.code().is_some_and(|code| code.code() == "22023") => Ok(None),
        Err(error) => Err(error.into()),
    }
}
