//! Runs the code blocks of a page in their order, as a reader would, in a database of its own.
//!
//! | Block | What is done |
//! |---|---|
//! | `sql` | run; every statement succeeds without a WARNING |
//! | `sql error=42501` | run; the last statement fails with that SQLSTATE |
//! | `sql llm` | run where an LLM is configured |
//! | `sql beside`, `sql managed` | run on the memory server of docs/managed.md, on the server without the extension |
//! | `text` after `sql` or `python` | is the output of its last statement, of the program |
//! | `json` after `sql` | is the one value of its last statement |
//! | `python` | run with psycopg, as the role `app` |
//! | `js` | its statements are prepared by the server |
//! | `ini` | its names are known settings |

use crate::beside::{self, Beside};
use crate::llm::{self, WithLlm};
use crate::markdown::{Block, Document};
use crate::output::{Output, statements};
use memory_agent_e2e::{Client, Cluster, Error, Json, retry_until, shared};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Blocks that are for the reader only.
const NOT_RUN: [&str; 3] = ["sh", "math", ""];

/// Runs all blocks of a page; returns what is wrong with them, each with its place. One page after the
/// other: among many recalls some go on without the reranker, and a reader is alone.
pub fn problems(page: &Document) -> Vec<String> {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    models_are_loaded();
    let mut reader = Reader::new(page);
    let blocks = page.blocks();
    let mut problems = Vec::new();
    for (at, block) in blocks.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| &blocks[at]).filter(|_| block.follows_directly);
        if let Err(problem) = reader.read(block, before) {
            problems.push(format!("{}: {problem}", page.place(block.line)));
        }
    }
    problems
}

/// What is stored while the models are being loaded has no embedding, which no page is about.
fn models_are_loaded() {
    static LOADED: OnceLock<()> = OnceLock::new();
    LOADED.get_or_init(|| {
        models_are_loaded_in(&mut shared().database("models_are_loaded").connect());
    });
}

/// Waits until a cluster has its models.
pub fn models_are_loaded_in(client: &mut Client) {
    retry_until(Duration::from_secs(120), "the models to be loaded", || {
        client.batch_execute("SELECT memory_embed('a'), memory_rerank('a', '{b}')").ok()
    });
}

/// What the server said, with its SQLSTATE.
fn message(error: &Error) -> String {
    match error.as_db_error() {
        Some(error) => format!("{} {}", error.code().code(), error.message()),
        None => error.to_string(),
    }
}

/// A superuser's session whose WARNINGs are collected.
fn connect(cluster: &Cluster, database: &str, warnings: &Arc<Mutex<Vec<String>>>) -> Client {
    let seen = Arc::clone(warnings);
    cluster
        .config(database)
        .notice_callback(move |notice| {
            if notice.severity() == "WARNING" {
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.push(notice.message().to_owned());
            }
        })
        .connect(postgres::NoTls)
        .expect("the database was just made")
}

/// Someone who follows a page.
struct Reader {
    client: Client,
    database: String,
    /// A session where an LLM is configured, and what it needs; made when it is first wanted.
    with_llm: Option<(Client, WithLlm)>,
    /// Sessions on a memory server and on a managed one, and these servers; made when they are first wanted.
    beside: Option<(Client, Client, Beside)>,
    warnings: Arc<Mutex<Vec<String>>>,
    output: Option<Output>,
    printed: String,
}

impl Reader {
    fn new(page: &Document) -> Self {
        let database = format!("docs_{}", page.name());
        drop(shared().plain_database(&database));
        let warnings = Arc::default();
        let mut client = connect(shared(), &database, &warnings);
        // The README shows how to create it.
        if page.name() != "readme" {
            client
                .batch_execute("CREATE EXTENSION memory_agent CASCADE")
                .expect("make install was run");
        }
        Self {
            client,
            database,
            with_llm: None,
            beside: None,
            warnings,
            output: None,
            printed: String::new(),
        }
    }

    fn read(&mut self, block: &Block, before: Option<&Block>) -> Result<(), String> {
        let after = before.map_or("", |before| before.language.as_str());
        match (block.language.as_str(), after) {
            ("sql", _) => self.run_sql(block),
            ("python", _) => self.run_python(&block.body),
            ("js", _) => self.prepare_statements(&block.body),
            ("ini", _) => self.look_up_settings(&block.body),
            ("text", "sql") => self.compare_rows(&block.body),
            ("json", "sql") => self.compare_json(&block.body),
            ("text", "python") if block.body.trim() == self.printed.trim() => Ok(()),
            ("text", "python") => Err(format!("the program prints {:?}", self.printed)),
            ("json", _) => serde_json::from_str::<Json>(&block.body)
                .map(drop)
                .map_err(|error| error.to_string()),
            (language, _) if NOT_RUN.contains(&language) => Ok(()),
            (language, _) => {
                Err(format!("nobody knows what to do with a block of {language:?} here"))
            }
        }
    }

    fn run_sql(&mut self, block: &Block) -> Result<(), String> {
        let (place, expected) = match block.info.rsplit_once("error=") {
            Some((place, state)) => (place.trim_end(), Some(state)),
            None => (block.info.as_str(), None),
        };
        let mut body = block.body.clone();
        let client = match place {
            "llm" => {
                let warnings = &self.warnings;
                let (client, _) = self.with_llm.get_or_insert_with(|| {
                    let with_llm = WithLlm::start();
                    (connect(&with_llm.cluster, llm::DATABASE, warnings), with_llm)
                });
                client
            }
            "beside" | "managed" => {
                let warnings = &self.warnings;
                let (memory, managed, servers) = self.beside.get_or_insert_with(|| {
                    let servers = Beside::start();
                    let memory = connect(&servers.memory, beside::MEMORY, warnings);
                    let managed = connect(&servers.managed, beside::MANAGED, warnings);
                    (memory, managed, servers)
                });
                body = servers.here(&body);
                if place == "beside" { memory } else { managed }
            }
            "" => &mut self.client,
            info => return Err(format!("unknown info {info:?}")),
        };
        let statements = statements(&body);
        let last = statements.len().checked_sub(1).ok_or("the block is empty")?;
        for (at, statement) in statements.iter().enumerate() {
            let expected = expected.filter(|_| at == last);
            match (client.simple_query(statement), expected) {
                (Ok(messages), None) => self.output = Output::last_of(&messages),
                (Ok(_), Some(state)) => {
                    return Err(format!("succeeds, but {state} is announced: {statement}"));
                }
                (Err(error), Some(state))
                    if error.code().is_some_and(|code| code.code() == state) => {}
                (Err(error), _) => return Err(format!("{}: {statement}", message(&error))),
            }
        }
        let warnings =
            std::mem::take(&mut *self.warnings.lock().unwrap_or_else(PoisonError::into_inner));
        if warnings.is_empty() { Ok(()) } else { Err(format!("warnings: {warnings:?}")) }
    }

    fn compare_rows(&self, shown: &str) -> Result<(), String> {
        let actual = self.output.as_ref().ok_or("the statement before has no result")?;
        Output::of_psql(shown).difference(actual).map_or(Ok(()), Err)
    }

    fn compare_json(&self, shown: &str) -> Result<(), String> {
        let value = match self.output.as_ref().map(|output| output.rows.as_slice()) {
            Some([row]) if row.len() == 1 => &row[0],
            other => return Err(format!("the statement before has not one value, but {other:?}")),
        };
        let parse = |text: &str| {
            serde_json::from_str::<Json>(text).map_err(|error| format!("{error}: {text}"))
        };
        if parse(shown)? == parse(value)? { Ok(()) } else { Err(format!("the value is {value}")) }
    }

    /// The system's Python, for which `make setup` installs psycopg.
    fn run_python(&mut self, program: &str) -> Result<(), String> {
        let output = Command::new("/usr/bin/python3")
            .args(["-c", program])
            .env("PGHOST", shared().socket_directory())
            .env("PGDATABASE", &self.database)
            .env("PGUSER", "app")
            .env_remove("PGPORT")
            .output()
            .map_err(|error| format!("/usr/bin/python3: {error}; run make setup"))?;
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("{message} (make setup installs psycopg)"));
        }
        self.printed = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(())
    }

    /// Everything in double quotes that begins with a verb of SQL.
    fn prepare_statements(&mut self, program: &str) -> Result<(), String> {
        let is_statement =
            |text: &&str| ["SELECT ", "BEGIN", "COMMIT"].iter().any(|verb| text.starts_with(verb));
        let statements: Vec<&str> =
            program.split('"').skip(1).step_by(2).filter(is_statement).collect();
        if statements.is_empty() {
            return Err("there is no statement in it".to_owned());
        }
        for statement in statements {
            self.client
                .prepare(statement)
                .map_err(|error| format!("{}: {statement}", message(&error)))?;
        }
        Ok(())
    }

    fn look_up_settings(&mut self, lines: &str) -> Result<(), String> {
        for line in lines.lines().filter(|line| line.contains('.')) {
            let name = line.split('=').next().unwrap_or_default().trim();
            let known = self
                .client
                .query_opt("SELECT FROM pg_settings WHERE name = $1", &[&name])
                .map_err(|error| error.to_string())?;
            if known.is_none() {
                return Err(format!("there is no setting {name}"));
            }
        }
        Ok(())
    }
}
