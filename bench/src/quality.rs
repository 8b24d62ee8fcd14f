//! Recall quality on labelled conversations, through the SQL functions: each conversation is the
//! memory of one user, each question one call of memory_recall in every configuration.

use crate::Result;
use crate::arguments::Arguments;
use crate::configurations::{ARMS, AS_SHIPPED, Asked, CONFIGURATIONS, Configuration, PLANS, Plan};
use crate::dataset::{ADVERSARIAL, Dataset, Document, Question};
use crate::environment::Environment;
use crate::metrics::{DEPTH, Measures, NAMES};
use crate::report::{Bound, Report, Table, progress};
use crate::told;
use memory_agent_e2e::{Client, Json, json};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

/// Turns in one call of memory_ingest_batch.
const BATCH: usize = 200;
/// How far the defaults may be below a single arm, in recall at five.
const REGRET: f64 = -0.01;

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
        let parts: Vec<&str> = arguments.only.split('|').collect();
        let wanted = |one: &&Configuration| parts.iter().any(|part| one.name.contains(part));
        for configuration in CONFIGURATIONS.iter().filter(wanted) {
            let answers = ask_all(&mut client, configuration, &dataset, &ids)?;
            if let Some(directory) = &arguments.runs {
                write_run(directory, plan.folder, configuration.name, &dataset, &answers)?;
            }
            figures.push(Figure::of(configuration, &dataset, &answers));
        }
        show(report, plan, &figures);
        show_regret(report, plan, &figures, arguments.limit.is_none());
        if parts.contains(&"") {
            told::show(report, &mut client, plan, &dataset, &ids)?;
        }
    }
    Ok(())
}

/// Stores all conversations; returns the dataset's id of each entry.
pub fn ingest(
    client: &mut Client,
    plan: &Plan,
    dataset: &Dataset,
) -> Result<HashMap<String, String>> {
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
    for (name, value) in configuration.settings() {
        client.batch_execute(&format!("SET memory_agent.{name} = '{value}'"))?;
    }
    let recall = client.prepare(&format!(
        "SELECT id::text FROM memory_recall($1, user_id => $2, top_k => {DEPTH}, \
                                            as_of => $3::text::timestamptz, score_threshold => $4::float4)"
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

/// What a configuration gave.
struct Figure<'a> {
    configuration: &'a Configuration,
    scores: Scores,
    /// Recall at five of each question but the adversarial ones, in the order of the data.
    recalls: Vec<f64>,
}

impl<'a> Figure<'a> {
    fn of(configuration: &'a Configuration, dataset: &Dataset, answers: &[Vec<String>]) -> Self {
        let mut groups: BTreeMap<String, Vec<Measures>> = BTreeMap::new();
        for (question, answer) in dataset.questions.iter().zip(answers) {
            let measures = Measures::of(answer, &question.evidence);
            groups.entry(question.category.clone()).or_default().push(measures);
            if question.category != ADVERSARIAL {
                groups.entry(HEADLINE.to_owned()).or_default().push(measures);
            }
        }
        let recalls = groups.get(HEADLINE).into_iter().flatten().map(|all| all.recall_5).collect();
        let means = groups.into_iter().map(|(name, all)| (name, (all.len(), Measures::mean(&all))));
        Self { configuration, scores: means.collect(), recalls }
    }
}

/// The mean of paired differences with half of its 95 % interval, by their standard error.
fn difference(ours: &[f64], theirs: &[f64]) -> (f64, f64) {
    let differences: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| a - b).collect();
    let count = differences.len() as f64;
    let mean = differences.iter().sum::<f64>() / count;
    let variance =
        differences.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    (mean, 1.96 * (variance / count).sqrt())
}

/// The defaults beside each single arm. A default that is worse than what it is made of is a fault, if all questions
/// were asked.
fn show_regret(report: &mut Report, plan: &Plan, figures: &[Figure<'_>], is_whole: bool) {
    let of = |name: &str| figures.iter().find(|figure| figure.configuration.name == name);
    let Some(ours) = of(AS_SHIPPED) else { return };
    println!("\nThe defaults beside the single arms, R@5");
    let mut table = Table::new(&["arm", "R@5", "the defaults over it", "95 %"]);
    for theirs in ARMS.iter().filter_map(|name| of(name)) {
        let (mean, half) = difference(&ours.recalls, &theirs.recalls);
        let arm = theirs.recalls.iter().sum::<f64>() / theirs.recalls.len() as f64;
        let interval = format!("{:+.3} to {:+.3}", mean - half, mean + half);
        let name = theirs.configuration.name;
        table.row([name.to_owned(), format!("{arm:.3}"), format!("{mean:+.3}"), interval]);
        let name = format!("{}: the defaults over {name}, R@5", plan.folder);
        match is_whole {
            true => report.requirement(name, mean, Bound::AtLeast(REGRET)),
            false => report.target(name, mean, Bound::AtLeast(REGRET)),
        }
    }
    print!("{table}");
}

fn show(report: &mut Report, plan: &Plan, figures: &[Figure<'_>]) {
    let questions = figures.first().and_then(|one| one.scores.get(HEADLINE)).map_or(0, |all| all.0);
    report.section(&format!("Quality: {}, n = {questions}, {HEADLINE}", plan.title));
    let mut header = vec!["configuration"];
    header.extend(NAMES);
    let mut table = Table::new(&header);
    for Figure { configuration, scores, .. } in figures {
        let Some((_, headline)) = scores.get(HEADLINE) else { continue };
        let name = configuration.name.to_owned();
        let values = headline.values().map(|value| format!("{value:.3}"));
        table.row([name].into_iter().chain(values));
        if let Some(least) = plan.target(configuration.name) {
            let name = format!("{}, {}: R@5", plan.folder, configuration.name);
            report.target(name, headline.recall_5, Bound::AtLeast(least));
        }
    }
    print!("{table}");
    println!("\nR@5 by category");
    let categories: Vec<(&String, usize)> = figures
        .first()
        .map(|one| one.scores.iter().map(|(name, (count, _))| (name, *count)).collect())
        .unwrap_or_default();
    let headings: Vec<String> =
        categories.iter().map(|(name, count)| format!("{name} ({count})")).collect();
    let header: Vec<&str> =
        ["configuration"].into_iter().chain(headings.iter().map(String::as_str)).collect();
    let mut table = Table::new(&header);
    for Figure { configuration, scores, .. } in figures {
        let values = categories.iter().map(|(name, _)| {
            scores.get(*name).map_or(String::new(), |(_, all)| format!("{:.3}", all.recall_5))
        });
        table.row([configuration.name.to_owned()].into_iter().chain(values));
    }
    print!("{table}");
    report.add(plan.folder, json(figures));
}

fn json(figures: &[Figure<'_>]) -> Json {
    figures
        .iter()
        .map(|Figure { configuration, scores, .. }| {
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
                "groups": groups,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_paired() {
        let (mean, half) = difference(&[1.0, 1.0, 0.0, 0.0], &[0.0, 1.0, 0.0, 1.0]);
        assert_eq!(mean, 0.0);
        // The standard error of 1, 0, 0, -1: the root of 2/3 over 4.
        assert!((half - 1.96 * (2.0f64 / 12.0).sqrt()).abs() < 1e-12, "{half}");
        assert_eq!(difference(&[0.5, 0.25], &[0.25, 0.0]), (0.25, 0.0));
    }
}
