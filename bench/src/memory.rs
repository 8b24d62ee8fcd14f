//! Memory that is each backend's own, after it recalled and stored, beside that of a backend that
//! did neither; and the model server's.

use crate::Result;
use crate::environment::{Environment, literal};
use crate::report::{Bound, Report, Table, progress};
use crate::synthetic::{self, FreshQuestions};
use memory_agent_e2e::{Client, Json, json};
use std::fs;

/// Turns stored before the first recall.
const ROWS: usize = 600;
const RECALLS: usize = 50;
/// Recalls between the second and the third measurement, to see growth.
const MORE_RECALLS: usize = 1000;
const INGESTS: usize = 50;

/// Kilobytes of a process, from `/proc`.
#[derive(Debug, Clone, Copy)]
pub struct Footprint {
    /// Pages that no other process has.
    private: u64,
    /// Of the resident pages, those that are no file's.
    pub anonymous: u64,
    pub resident: u64,
}

impl Footprint {
    pub fn of(pid: i32) -> Result<Self> {
        let path = format!("/proc/{pid}/smaps_rollup");
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let field = |name: &str| {
            text.lines()
                .find_map(|line| {
                    line.strip_prefix(name)?.split_whitespace().next()?.parse::<u64>().ok()
                })
                .ok_or_else(|| format!("{path} has no {name}"))
        };
        Ok(Self {
            private: field("Private_Clean:")? + field("Private_Dirty:")?,
            anonymous: field("Anonymous:")?,
            resident: field("Rss:")?,
        })
    }

    fn of_backend(client: &mut Client) -> Result<Self> {
        Self::of(client.query_one("SELECT pg_backend_pid()", &[])?.get(0))
    }

    fn row(self, name: &str) -> [String; 4] {
        let megabytes = |kilobytes: u64| format!("{:.1}", kilobytes as f64 / 1024.0);
        [
            name.to_owned(),
            megabytes(self.private),
            megabytes(self.anonymous),
            megabytes(self.resident),
        ]
    }

    fn json(self) -> Json {
        json!({"private_kb": self.private, "anonymous_kb": self.anonymous, "resident_kb": self.resident})
    }
}

pub fn run(environment: &Environment, report: &mut Report) -> Result<()> {
    progress("memory");
    const DATABASE: &str = "memory";
    let mut filler = environment.database(DATABASE)?;
    let turns: Vec<Json> = (0..ROWS).map(synthetic::turn).collect();
    filler.execute(
        "SELECT count(*) FROM memory_ingest_batch($1::text::jsonb)",
        &[&Json::from(turns).to_string()],
    )?;
    drop(filler);

    let mut plain = environment.cluster.connect(DATABASE);
    // What psql asks when it starts and when its user looks around.
    plain.simple_query(
        "SELECT c.relname, n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace",
    )?;
    let plain = Footprint::of_backend(&mut plain)?;

    let mut client = environment.cluster.connect(DATABASE);
    let mut questions = FreshQuestions::default();
    for number in 0..RECALLS {
        let question = literal(&questions.another());
        client.simple_query(&format!(
            "SELECT * FROM memory_recall({question}, rerank => {})",
            number % 5 == 0
        ))?;
        client.simple_query(&format!("SELECT memory_context('session 1', {question})"))?;
    }
    for number in ROWS..ROWS + INGESTS {
        let text = literal(&synthetic::sentence(number));
        client.simple_query(&format!("SELECT memory_ingest('s', 'user', {text})"))?;
    }
    let used = Footprint::of_backend(&mut client)?;
    for _ in 0..MORE_RECALLS {
        let question = literal(&questions.another());
        client
            .simple_query(&format!("SELECT * FROM memory_recall({question}, rerank => false)"))?;
    }
    let later = Footprint::of_backend(&mut client)?;
    let server = Footprint::of(environment.cluster.model_server_pid())?;

    report.section("Memory, MB");
    let mut table = Table::new(&["", "private", "anonymous", "resident"]);
    table.row(plain.row("backend, catalog queries only"));
    table.row(used.row(&format!("backend, {RECALLS} recalls and contexts, {INGESTS} ingests")));
    table.row(later.row(&format!("the same, {MORE_RECALLS} recalls later")));
    table.row(server.row("model server"));
    print!("{table}");
    let more = |kilobytes: u64, than: u64| (kilobytes as f64 - than as f64) / 1024.0;
    report.target(
        "backend, private MB more",
        more(later.private, plain.private),
        Bound::AtMost(15.0),
    );
    report.target(
        // Not what is private: pages of a library's code are that while no other process has them mapped.
        "growth by 1000 recalls, MB",
        more(later.anonymous, used.anonymous),
        Bound::AtMost(1.0),
    );
    report.add(
        "memory",
        json!({
            "plain_backend": plain.json(),
            "used_backend": used.json(),
            "used_backend_later": later.json(),
            "model_server": server.json(),
        }),
    );
    Ok(())
}
