//! Recall in several languages: the same 24 memories and 20 questions in each, once indexed as English, as a
//! server without settings does it, and once by the text search configuration of the language; then with the
//! questions in the other languages. The texts in `bench/languages` were written for this comparison.

use crate::Result;
use crate::arguments::Arguments;
use crate::environment::{Environment, literal};
use crate::metrics::{DEPTH, Measures};
use crate::report::{Report, Table, progress};
use memory_agent_e2e::{Client, Json, json};
use std::path::Path;

const LANGUAGES: [(&str, &str); 6] = [
    ("english", include_str!("../languages/english.tsv")),
    ("german", include_str!("../languages/german.tsv")),
    ("french", include_str!("../languages/french.tsv")),
    ("spanish", include_str!("../languages/spanish.tsv")),
    ("italian", include_str!("../languages/italian.tsv")),
    ("portuguese", include_str!("../languages/portuguese.tsv")),
];

/// How the questions are asked.
#[derive(Clone, Copy)]
enum Arm {
    /// BM25 alone.
    Words,
    WithoutReranker,
    Defaults,
}

const ARMS: [(Arm, &str); 3] = [
    (Arm::Words, "words alone"),
    (Arm::WithoutReranker, "without reranker"),
    (Arm::Defaults, "defaults"),
];

impl Arm {
    fn sql(self, question: &str) -> String {
        let question = literal(question);
        match self {
            Self::Words => format!(
                "SELECT id::text FROM memory_recall({question}, top_k => 50, rerank => false) \
                  WHERE lexical IS NOT NULL ORDER BY lexical DESC, id LIMIT {DEPTH}"
            ),
            Self::WithoutReranker => format!(
                "SELECT id::text FROM memory_recall({question}, top_k => {DEPTH}, rerank => false)"
            ),
            Self::Defaults => {
                format!("SELECT id::text FROM memory_recall({question}, top_k => {DEPTH})")
            }
        }
    }
}

/// Questions, each with the number of the memory that answers it.
type Questions = Vec<(usize, &'static str)>;

/// Memories in the order of their numbers, and the questions.
struct Texts {
    memories: Vec<&'static str>,
    questions: Questions,
}

impl Texts {
    fn parse(source: &'static str) -> Result<Self> {
        let (mut memories, mut questions) = (Vec::new(), Vec::new());
        for line in source.lines().filter(|line| !line.starts_with('#')) {
            match line.split_once('\t') {
                Some((number, question)) => {
                    questions.push((number.parse::<usize>()? - 1, question))
                }
                None => memories.push(line),
            }
        }
        Ok(Self { memories, questions })
    }
}

pub fn run(environment: &Environment, arguments: &Arguments, report: &mut Report) -> Result<()> {
    progress("languages");
    report.section("Languages: nDCG@10 and hits among the first five of 20 questions");
    let mut table = Table::new(&["", "indexed as", "words alone", "without reranker", "defaults"]);
    let mut foreign = Table::new(&["memories in", "words alone", "without reranker", "defaults"]);
    let mut figures = Vec::new();
    for (language, source) in LANGUAGES {
        let texts = Texts::parse(source)?;
        let configurations: &[&str] =
            if language == "english" { &["english"] } else { &["english", language] };
        for &configuration in configurations {
            let mut client =
                environment.database(&format!("languages_{language}_{configuration}"))?;
            if let Some(folder) = &arguments.embedder {
                activate(&mut client, folder)?;
            }
            let ids = store(&mut client, &texts, configuration)?;
            let mut record = |asked_in: &str, questions: &Questions| -> Result<[String; 3]> {
                let measured = ask(&mut client, &ids, questions)?;
                for ((_, arm), of) in ARMS.iter().zip(measured) {
                    figures.push(json!({
                        "language": language, "indexed_as": configuration, "asked_in": asked_in,
                        "arm": arm, "ndcg_10": of.ndcg_10, "hit_5": of.hit_5,
                    }));
                }
                Ok(measured.map(|of| format!("{:.3}, {:.0} %", of.ndcg_10, of.hit_5 * 100.0)))
            };
            let shown = record(language, &texts.questions)?;
            table.row([language.to_owned(), configuration.to_owned()].into_iter().chain(shown));
            if configuration == language {
                let shown = record("others", &questions_in_others(language)?)?;
                foreign.row([language.to_owned()].into_iter().chain(shown));
            }
        }
    }
    print!("{table}");
    report.section("Languages: the questions in the other five languages");
    print!("{foreign}");
    report.add("languages", figures.into());
    Ok(())
}

/// Uses the embedder in a folder instead of the default one.
fn activate(client: &mut Client, folder: &Path) -> Result<()> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let location = folder.to_string_lossy();
    client.execute(
        "SELECT memory_register_model($1, 'embedder', location => $2, activate => true)",
        &[&name, &location],
    )?;
    Ok(())
}

fn questions_in_others(language: &str) -> Result<Questions> {
    let mut questions = Vec::new();
    for (_, source) in LANGUAGES.iter().filter(|(other, _)| *other != language) {
        questions.extend(Texts::parse(source)?.questions);
    }
    Ok(questions)
}

/// Stores the memories; their ids come in the order of the texts.
fn store(client: &mut Client, texts: &Texts, configuration: &str) -> Result<Vec<String>> {
    client.batch_execute(&format!(
        "SELECT memory_configure(settings => '{{\"text_search_config\": \"{configuration}\"}}')"
    ))?;
    let turns: Vec<Json> = texts
        .memories
        .iter()
        .map(|memory| json!({"session_id": "s", "role": "user", "content": memory}))
        .collect();
    let rows = client.query(
        "SELECT id::text FROM memory_ingest_batch($1::text::jsonb) id",
        &[&Json::from(turns).to_string()],
    )?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

fn ask(client: &mut Client, ids: &[String], questions: &Questions) -> Result<[Measures; 3]> {
    let mut measured = [Measures::default(); 3];
    for ((arm, _), mean) in ARMS.iter().zip(&mut measured) {
        let mut all = Vec::new();
        for (relevant, question) in questions {
            let rows = client.query(&arm.sql(question), &[])?;
            let found: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
            all.push(Measures::of(&found, &[ids[*relevant].clone()]));
        }
        *mean = Measures::mean(&all);
    }
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_languages_have_the_same_memories_and_questions() {
        let english = Texts::parse(LANGUAGES[0].1).unwrap();
        let answers = |texts: &Texts| -> Vec<usize> {
            texts.questions.iter().map(|(memory, _)| *memory).collect()
        };
        for (language, source) in LANGUAGES {
            let texts = Texts::parse(source).unwrap();
            assert_eq!((texts.memories.len(), texts.questions.len()), (24, 20), "{language}");
            assert_eq!(answers(&texts), answers(&english), "{language}");
            assert_eq!(questions_in_others(language).unwrap().len(), 100, "{language}");
        }
    }
}
