//! One long conversation that is compressed again and again with the settings as shipped: what the
//! window and the tables take, and how many of its facts can still be answered.

use super::figures::Figures;
use super::talk::{self, SESSION};
use crate::endpoint::Endpoint;
use crate::random::Random;
use crate::scenario::Topic;
use crate::scenarios;
use memory_agent_bench::Result;
use memory_agent_bench::report::Bound;
use memory_agent_e2e::{Client, Json};

const TURNS: usize = 400;
const SENTENCES: usize = 5;
/// Turns between two looks at the queue: an application's pace, not a bulk import.
const STRIDE: usize = 10;
/// Scenarios whose values do not occur in each other.
const SCENARIOS: [&str; 3] = ["decision_tracking", "multi_fact_tracking", "goal_tracking"];
/// Of the facts, every so manieth is replaced later.
const REPLACED: usize = 3;

/// A fact of the conversation.
struct Known {
    topic: &'static Topic,
    current: &'static str,
}

pub fn measure(endpoint: &Endpoint, seed: u64, figures: &mut Figures) -> Result<()> {
    let mut client = endpoint.database("compressed");
    let empty = Sizes::read(&mut client)?;
    let known = converse(&mut client, seed)?;
    client.batch_execute("VACUUM ANALYZE memory_agent.entries")?;
    report_storage(&mut client, empty, figures)?;
    report_knowledge(&mut client, &known, figures)
}

/// Plays the conversation; returns what is to be known of it.
fn converse(client: &mut Client, seed: u64) -> Result<Vec<Known>> {
    let mut random = Random::new(seed);
    let mut topics: Vec<&Topic> = SCENARIOS
        .iter()
        .filter_map(|name| scenarios::find(name))
        .flat_map(|scenario| scenario.topics)
        .collect();
    random.shuffle(&mut topics);
    let known: Vec<Known> = topics
        .into_iter()
        .enumerate()
        .map(|(number, topic)| {
            let replaced = usize::from(number % REPLACED == 0);
            Known { topic, current: topic.values[replaced] }
        })
        .collect();
    let firsts = known.iter().map(|fact| fact.topic.said(fact.topic.values[0]));
    let replacements = known
        .iter()
        .filter(|fact| fact.current != fact.topic.values[0])
        .map(|fact| fact.topic.changed(fact.current));
    // In the first three quarters, so that the window at the end does not know them.
    let statements: Vec<String> = firsts.chain(replacements).collect();
    let spoken = TURNS / 2;
    let places = random.choose(spoken * 3 / 4, statements.len());
    let mut statements = statements.into_iter();
    for at in 0..TURNS {
        let is_statement = at % 2 == 0 && places.binary_search(&(at / 2)).is_ok();
        let statement = if is_statement { statements.next() } else { None };
        let text = statement.unwrap_or_else(|| talk::message(at, SENTENCES));
        client.execute("SELECT memory_ingest($1, $2, $3)", &[&SESSION, &talk::role(at), &text])?;
        if at % STRIDE == STRIDE - 1 {
            talk::drain(client)?;
        }
    }
    talk::drain(client)?;
    Ok(known)
}

/// Bytes of tables with their indexes.
#[derive(Clone, Copy)]
struct Sizes {
    entries: f64,
    summaries: f64,
    /// Jobs, calls of the LLM, history and what else there is.
    others: f64,
}

impl Sizes {
    fn read(client: &mut Client) -> Result<Self> {
        let row = client.query_one(
            "SELECT pg_total_relation_size('memory_agent.entries')::float8, \
                    pg_total_relation_size('memory_agent.session_summaries')::float8, \
                    sum(pg_total_relation_size(oid))::float8 \
               FROM pg_class WHERE relnamespace = 'memory_agent'::regnamespace AND relkind = 'r'",
            &[],
        )?;
        let (entries, summaries, all): (f64, f64, f64) = (row.get(0), row.get(1), row.get(2));
        Ok(Self { entries, summaries, others: all - entries - summaries })
    }

    fn all(self) -> f64 {
        self.entries + self.summaries + self.others
    }
}

fn report_storage(client: &mut Client, empty: Sizes, figures: &mut Figures) -> Result<()> {
    let row = client.query_one(
        "SELECT sum(octet_length(content)) FILTER (WHERE kind = 'turn')::float8, \
                sum(octet_length(content)) FILTER (WHERE kind = 'turn' AND state = 'active')::float8, \
                (SELECT coalesce(sum(octet_length(content)), 0)::float8 \
                   FROM memory_agent.session_summaries WHERE level = 'L3' AND is_active), \
                (SELECT coalesce(sum(octet_length(content)), 0)::float8 \
                   FROM memory_agent.session_summaries), \
                (sum(token_count) FILTER (WHERE kind = 'turn'))::float8, \
                sum(pg_column_size(embedding))::float8 \
           FROM memory_agent.entries",
        &[],
    )?;
    let of = |column: usize| row.get::<_, f64>(column);
    let (raw, window, summary, summaries, tokens, vectors) =
        (of(0), of(1), of(2), of(3), of(4), of(5));
    figures.target(
        "Active content after compression, percent of the raw log",
        100.0 * (window + summary) / raw,
        Bound::AtMost(10.0),
        format!(
            "{:.0} kB of turns and {:.1} kB of summary, of {:.0} kB ({tokens:.0} tokens) that were said",
            window / 1e3,
            summary / 1e3,
            raw / 1e3
        ),
    );
    let full = Sizes::read(client)?;
    figures.detail(
        "All tables and indexes, percent of the raw log",
        100.0 * (full.all() - empty.all()) / raw,
        format!(
            "originals are kept. Entries {:.0} kB (of them {:.0} kB embeddings), summaries of all levels \
             {:.0} kB ({:.0} kB text), jobs, calls and history {:.0} kB",
            (full.entries - empty.entries) / 1e3,
            vectors / 1e3,
            (full.summaries - empty.summaries) / 1e3,
            summaries / 1e3,
            (full.others - empty.others) / 1e3,
        ),
    );
    Ok(())
}

fn report_knowledge(client: &mut Client, known: &[Known], figures: &mut Figures) -> Result<()> {
    let summary: Option<String> = client
        .query_opt(
            "SELECT content FROM memory_agent.session_summaries WHERE level = 'L3' AND is_active",
            &[],
        )?
        .map(|row| row.get(0));
    let summary = summary.unwrap_or_default();
    let (mut by_summary, mut by_recall, mut by_either, mut in_context) = (0, 0, 0, 0);
    for fact in known {
        let in_summary = summary.contains(fact.current);
        let rows = client.query(
            "SELECT content FROM memory_recall($1, session_id => $2)",
            &[&fact.topic.question, &SESSION],
        )?;
        let recalled = rows.iter().any(|row| row.get::<_, &str>(0).contains(fact.current));
        let context: Json = client
            .query_one("SELECT memory_context($1, $2)", &[&SESSION, &fact.topic.question])?
            .get(0);
        by_summary += usize::from(in_summary);
        by_recall += usize::from(recalled);
        by_either += usize::from(in_summary || recalled);
        in_context += usize::from(context["messages"].to_string().contains(fact.current));
    }
    let percent = |count: usize| 100.0 * count as f64 / known.len() as f64;
    figures.target(
        "Questions answerable from summary and recall, percent",
        percent(by_either),
        Bound::AtLeast(90.0),
        format!("{} facts, every third replaced once; top_k 5", known.len()),
    );
    figures.detail("... from the summary alone", percent(by_summary), "the active L3");
    figures.detail("... from recall alone", percent(by_recall), "");
    figures.detail("... from memory_context within 2,000 tokens", percent(in_context), "");
    Ok(())
}
