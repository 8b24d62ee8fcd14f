//! Recall quality on labelled conversations, through the SQL functions: each conversation is the
//! memory of one user, each question one call of memory_recall. Configurations go from one arm
//! alone to the shipped defaults; docs/ranking.md explains the steps.

use crate::Result;
use crate::arguments::Arguments;
use crate::dataset::{ADVERSARIAL, Dataset, Document, Question};
use crate::environment::Environment;
use crate::metrics::{DEPTH, Measures, NAMES};
use crate::report::{Bound, Report, Table, progress};
use memory_agent_e2e::{Client, Json, json};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

/// Turns in one call of memory_ingest_batch.
const BATCH: usize = 200;

/// The moment a question is asked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// When the data says, through `as_of`.
    Then,
    /// Today: every row is equally old.
    Now,
}

/// One way of ranking.
struct Configuration {
    name: &'static str,
    /// Settings beside [`RELEVANCE_ONLY`], or beside the defaults if `is_default`.
    settings: &'static [(&'static str, &'static str)],
    is_default: bool,
    asked: Asked,
    /// The argument `score_threshold`: strict, other than the setting.
    threshold: Option<f32>,
    /// Recall at five of the same steps in a Python reference implementation, for parity.
    reference: Option<f64>,
}

impl Configuration {
    const fn relevance(
        name: &'static str,
        settings: &'static [(&'static str, &'static str)],
        reference: Option<f64>,
    ) -> Self {
        Self { name, settings, is_default: false, asked: Asked::Then, threshold: None, reference }
    }

    const fn default(
        name: &'static str,
        settings: &'static [(&'static str, &'static str)],
        asked: Asked,
    ) -> Self {
        Self { name, settings, is_default: true, asked, threshold: None, reference: None }
    }
}

/// What leaves nothing but the two arms, their fusion and the reranker.
const RELEVANCE_ONLY: &[(&str, &str)] = &[
    ("recency_weight", "0"),
    ("freshness_boost", "off"),
    ("marker_weight", "0"),
    ("mmr_lambda", "1"),
    ("score_threshold", "0"),
    ("neighbor_weight", "0"),
    ("bm25_length_floor", "0"),
    ("rerank", "off"),
];

const DENSE: &[(&str, &str)] = &[("dense_weight", "1")];
const BM25: &[(&str, &str)] = &[("dense_weight", "0")];
const BM25_FLOOR: &[(&str, &str)] = &[("dense_weight", "0"), ("bm25_length_floor", "64")];
const RRF: &[(&str, &str)] = &[("fusion", "rrf")];
const FUSED: &[(&str, &str)] = &[];
const SHIPPED_FUSION: &[(&str, &str)] = &[("neighbor_weight", "0.3"), ("bm25_length_floor", "64")];
const SHIPPED_BLEND: &[(&str, &str)] =
    &[("neighbor_weight", "0.3"), ("bm25_length_floor", "64"), ("rerank", "on")];
/// The reranker's order alone, over as many candidates as the reference had.
const CE_ORDER: &[(&str, &str)] = &[
    ("rerank", "on"),
    ("rerank_weight", "1"),
    ("score_normalization", "minmax"),
    ("max_candidates", "30"),
];
const SHIPPED_CE_ORDER: &[(&str, &str)] = &[
    ("neighbor_weight", "0.3"),
    ("bm25_length_floor", "64"),
    ("rerank", "on"),
    ("rerank_weight", "1"),
    ("score_normalization", "minmax"),
    ("max_candidates", "30"),
];
const NO_RERANKER: &[(&str, &str)] = &[("rerank", "off")];
const NO_NEIGHBORS: &[(&str, &str)] = &[("bm25_length_floor", "64")];

/// The shipped defaults with one step changed, for what each step gives or takes.
const WITHOUT_RECENCY: Configuration = Configuration::default(
    "defaults, recency 0",
    &[("recency_weight", "0"), ("freshness_boost", "off")],
    Asked::Then,
);
const WITHOUT_FRESHNESS: Configuration =
    Configuration::default("defaults, freshness off", &[("freshness_boost", "off")], Asked::Then);
const WITHOUT_MMR: Configuration =
    Configuration::default("defaults, MMR off", &[("mmr_lambda", "1")], Asked::Then);
const MIN_MAX_LOGITS: Configuration = Configuration::default(
    "defaults, logits by min-max",
    &[("score_normalization", "minmax")],
    Asked::Then,
);
const STRICT_THRESHOLD: Configuration = Configuration {
    threshold: Some(0.35),
    ..Configuration::default("defaults, threshold .35 strict", &[], Asked::Then)
};

/// The configurations of a labelled set. References are those of bge-small-en-v1.5 where there is
/// one; reciprocal rank fusion and the plain weighted fusion were made with all-MiniLM-L6-v2.
struct Plan {
    folder: &'static str,
    title: &'static str,
    /// Whether the speaker's name is part of what is embedded and indexed.
    named_speakers: bool,
    configurations: &'static [Configuration],
    /// Configuration, lowest recall at five.
    targets: &'static [(&'static str, f64)],
}

const PLANS: [Plan; 2] = [
    Plan {
        folder: "locomo-open",
        title: "LoCoMo (two people chat, turns)",
        named_speakers: true,
        configurations: &[
            Configuration::relevance("dense only", DENSE, Some(0.497)),
            Configuration::relevance("BM25 only", BM25, Some(0.522)),
            Configuration::relevance("BM25 only, length floor", BM25_FLOOR, None),
            Configuration::relevance("rrf", RRF, Some(0.500)),
            Configuration::relevance("weighted .5", FUSED, Some(0.567)),
            Configuration::relevance("weighted .5, CE order of 30", CE_ORDER, Some(0.667)),
            Configuration::relevance("shipped fusion, no neighbours", NO_NEIGHBORS, None),
            Configuration::relevance("shipped fusion", SHIPPED_FUSION, None),
            Configuration::relevance("shipped fusion, CE order of 30", SHIPPED_CE_ORDER, None),
            Configuration::relevance("shipped fusion + CE", SHIPPED_BLEND, None),
            Configuration::default("defaults, no reranker, now", NO_RERANKER, Asked::Now),
            Configuration::default("defaults, no reranker, as_of", NO_RERANKER, Asked::Then),
            Configuration::default("defaults, now", &[], Asked::Now),
            Configuration::default("defaults, as_of", &[], Asked::Then),
            WITHOUT_RECENCY,
            WITHOUT_FRESHNESS,
            WITHOUT_MMR,
            MIN_MAX_LOGITS,
            STRICT_THRESHOLD,
        ],
        targets: &[
            ("defaults, no reranker, now", 0.56),
            ("defaults, no reranker, as_of", 0.56),
            ("defaults, now", 0.63),
            ("defaults, as_of", 0.63),
        ],
    },
    Plan {
        folder: "realmem-open",
        title: "RealMem (an agent's memory points of projects)",
        named_speakers: false,
        configurations: &[
            Configuration::relevance("dense only", DENSE, Some(0.288)),
            Configuration::relevance("BM25 only", BM25, Some(0.273)),
            Configuration::relevance("BM25 only, length floor", BM25_FLOOR, None),
            Configuration::relevance("rrf", RRF, Some(0.335)),
            Configuration::relevance("weighted .5", FUSED, None),
            Configuration::relevance("shipped fusion, no neighbours", NO_NEIGHBORS, None),
            Configuration::relevance("shipped fusion", SHIPPED_FUSION, None),
            Configuration::relevance("shipped fusion + CE", SHIPPED_BLEND, None),
            Configuration::default("defaults, no reranker, as_of", NO_RERANKER, Asked::Then),
            Configuration::default("defaults, as_of", &[], Asked::Then),
            WITHOUT_RECENCY,
            WITHOUT_FRESHNESS,
            WITHOUT_MMR,
            MIN_MAX_LOGITS,
            STRICT_THRESHOLD,
        ],
        targets: &[("defaults, no reranker, as_of", 0.34), ("defaults, as_of", 0.34)],
    },
];

pub fn run(environment: &Environment, arguments: &Arguments, report: &mut Report) -> Result<()> {
    for plan in &PLANS {
        let directory = arguments.data.join(plan.folder);
        if !directory.is_dir() {
            report.section(&format!("Quality: {} left out", plan.title));
            println!("{} is not there; name its parent with --data", directory.display());
            continue;
        }
        let dataset = Dataset::read(&directory, arguments.limit)?;
        let mut client = environment.database(plan.folder)?;
        let ids = ingest(&mut client, plan, &dataset)?;
        let mut figures = Vec::new();
        for configuration in plan.configurations {
            let answers = ask_all(&mut client, configuration, &dataset, &ids)?;
            if let Some(directory) = &arguments.runs {
                write_run(directory, plan.folder, configuration.name, &dataset, &answers)?;
            }
            figures.push((configuration, score(&dataset, &answers)));
        }
        show(report, plan, &figures);
    }
    Ok(())
}

/// Stores all conversations; returns the dataset's id of each entry.
fn ingest(client: &mut Client, plan: &Plan, dataset: &Dataset) -> Result<HashMap<String, String>> {
    progress(format_args!("{}: storing {} rows", plan.folder, dataset.documents.len()));
    let mut ids = HashMap::new();
    for (conversation, documents) in dataset.conversations() {
        for batch in documents.chunks(BATCH) {
            let turns: Vec<Json> = batch.iter().map(|document| turn(document, plan)).collect();
            let stored = client.query(
                "SELECT id::text FROM memory_ingest_batch($1::text::jsonb, user_id => $2) AS id",
                &[&Json::from(turns).to_string(), &conversation],
            )?;
            for (row, document) in stored.iter().zip(batch) {
                ids.insert(row.get(0), document.id.clone());
            }
        }
    }
    let missing: i64 = client
        .query_one("SELECT count(*) FROM memory_agent.entries WHERE embedding IS NULL", &[])?
        .get(0);
    if missing > 0 || ids.len() != dataset.documents.len() {
        return Err(format!("{}: {missing} rows were stored without embedding", plan.folder).into());
    }
    Ok(ids)
}

fn turn(document: &Document, plan: &Plan) -> Json {
    json!({
        "session_id": document.session_id,
        "role": document.role,
        "content": document.content,
        "created_at": document.created_at,
        "metadata": if plan.named_speakers { json!({"name": document.speaker}) } else { json!({}) },
    })
}

/// The ranking of every question, as ids of the dataset.
fn ask_all(
    client: &mut Client,
    configuration: &Configuration,
    dataset: &Dataset,
    ids: &HashMap<String, String>,
) -> Result<Vec<Vec<String>>> {
    progress(format_args!("  {}", configuration.name));
    client.batch_execute("RESET ALL; SET client_min_messages = error")?;
    let base = if configuration.is_default { &[] } else { RELEVANCE_ONLY };
    for (name, value) in base.iter().chain(configuration.settings) {
        client.batch_execute(&format!("SET memory_agent.{name} = '{value}'"))?;
    }
    let recall = client.prepare(&format!(
        "SELECT id::text FROM memory_recall($1, user_id => $2, top_k => {DEPTH}, \
                                            as_of => $3::text::timestamptz, score_threshold => $4)"
    ))?;
    let mut answers = Vec::with_capacity(dataset.questions.len());
    for question in &dataset.questions {
        let Question { query, conversation_id, asked_at, .. } = question;
        let as_of = (configuration.asked == Asked::Then).then_some(asked_at);
        let rows =
            client.query(&recall, &[query, conversation_id, &as_of, &configuration.threshold])?;
        let known = |row: &memory_agent_e2e::Row| ids.get(row.get::<_, &str>(0)).cloned();
        let ranking: Option<Vec<String>> = rows.iter().map(known).collect();
        answers.push(ranking.ok_or("recall returned a row of another conversation's import")?);
    }
    Ok(answers)
}

/// Writes a ranking as lines of query_id and ids, best first.
fn write_run(
    directory: &Path,
    folder: &str,
    name: &str,
    dataset: &Dataset,
    answers: &[Vec<String>],
) -> Result<()> {
    fs::create_dir_all(directory)?;
    let words: Vec<&str> = name
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let lines: String = dataset
        .questions
        .iter()
        .zip(answers)
        .map(|(question, ids)| format!("{}\n", json!({"query_id": question.query_id, "ids": ids})))
        .collect();
    let path = directory.join(format!("{folder}.{}.jsonl", words.join("_").to_lowercase()));
    fs::write(&path, lines).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Measures per category, and of all but the adversarial questions under [`HEADLINE`].
type Scores = BTreeMap<String, (usize, Measures)>;

const HEADLINE: &str = "all but adversarial";

fn score(dataset: &Dataset, answers: &[Vec<String>]) -> Scores {
    let mut groups: BTreeMap<String, Vec<Measures>> = BTreeMap::new();
    for (question, answer) in dataset.questions.iter().zip(answers) {
        let measures = Measures::of(answer, &question.evidence);
        groups.entry(question.category.clone()).or_default().push(measures);
        if question.category != ADVERSARIAL {
            groups.entry(HEADLINE.to_owned()).or_default().push(measures);
        }
    }
    groups.into_iter().map(|(name, all)| (name, (all.len(), Measures::mean(&all)))).collect()
}

fn show(report: &mut Report, plan: &Plan, figures: &[(&Configuration, Scores)]) {
    let questions =
        figures.first().and_then(|(_, scores)| scores.get(HEADLINE)).map_or(0, |all| all.0);
    report.section(&format!("Quality: {}, n = {questions}, {HEADLINE}", plan.title));
    let mut header = vec!["configuration"];
    header.extend(NAMES);
    header.push("reference R@5");
    let mut table = Table::new(&header);
    for (configuration, scores) in figures {
        let Some((_, headline)) = scores.get(HEADLINE) else { continue };
        let reference =
            configuration.reference.map_or(String::new(), |value| format!("{value:.3}"));
        let name = configuration.name.to_owned();
        let values = headline.values().map(|value| format!("{value:.3}"));
        table.row([name].into_iter().chain(values).chain([reference]));
        if let Some((_, least)) = plan.targets.iter().find(|(name, _)| *name == configuration.name)
        {
            let name = format!("{}, {}: R@5", plan.folder, configuration.name);
            report.target(name, headline.recall_5, Bound::AtLeast(*least));
        }
    }
    print!("{table}");
    println!("\nR@5 by category");
    let categories: Vec<(&String, usize)> = figures
        .first()
        .map(|(_, scores)| scores.iter().map(|(name, (count, _))| (name, *count)).collect())
        .unwrap_or_default();
    let headings: Vec<String> =
        categories.iter().map(|(name, count)| format!("{name} ({count})")).collect();
    let header: Vec<&str> =
        ["configuration"].into_iter().chain(headings.iter().map(String::as_str)).collect();
    let mut table = Table::new(&header);
    for (configuration, scores) in figures {
        let values = categories.iter().map(|(name, _)| {
            scores.get(*name).map_or(String::new(), |(_, all)| format!("{:.3}", all.recall_5))
        });
        table.row([configuration.name.to_owned()].into_iter().chain(values));
    }
    print!("{table}");
    report.add(plan.folder, json(figures));
}

fn json(figures: &[(&Configuration, Scores)]) -> Json {
    figures
        .iter()
        .map(|(configuration, scores)| {
            let groups: serde_json::Map<String, Json> = scores
                .iter()
                .map(|(name, (count, measures))| {
                    let mut group = json!({"n": count});
                    for (name, value) in NAMES.iter().zip(measures.values()) {
                        group[*name] = value.into();
                    }
                    (name.clone(), group)
                })
                .collect();
            json!({
                "configuration": configuration.name,
                "reference R@5": configuration.reference,
                "groups": groups,
            })
        })
        .collect()
}
