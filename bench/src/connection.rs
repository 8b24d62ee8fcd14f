//! The first calls of a connection beside later ones, in a small table and among many rows of others. PostgreSQL
//! changes to a generic plan at the sixth execution of a statement; such a plan, or what it reads of others, shows
//! in the ratios.

use crate::Result;
use crate::environment::{Environment, literal};
use crate::report::{Bound, Report, Table, progress};
use crate::samples::Samples;
use crate::synthetic::{self, FreshQuestions};
use memory_agent_e2e::{Client, Json, json};

/// Calls of one connection.
const CALLS: usize = 20;
/// Connections for each kind of call.
const CONNECTIONS: usize = 5;
/// Turns that the caller has before.
const ROWS: usize = 100;
/// Whose calls are measured.
const USER: &str = "caller";
/// No ratio may be larger.
const MOST: f64 = 1.5;

/// The one that counts what all have, up to a bound: its time may grow, but not above this.
const STATUS: &str = "memory_status";
const STATUS_MS: f64 = 50.0;

/// What is called, with `{text}` for a text or question that was not used before.
const KINDS: [(&str, &str); 6] = [
    ("memory_ingest", "SELECT memory_ingest('calls', 'user', {text}, user_id => 'caller')"),
    ("memory_add", "SELECT memory_add({text}, infer => false, user_id => 'caller')"),
    (
        "memory_recall, no reranker",
        "SELECT * FROM memory_recall({text}, user_id => 'caller', rerank => false)",
    ),
    ("memory_context", "SELECT memory_context('session 1', {text}, user_id => 'caller')"),
    (
        "memory_augment",
        "SELECT memory_augment(jsonb_build_array(jsonb_build_object('role', 'user', 'content', {text})), \
                               'session 1', user_id => 'caller')",
    ),
    (STATUS, "SELECT * FROM memory_status()"),
];

/// Times of calls 2 to 5 and 10 to 20 of connections, one for each of [`KINDS`].
pub struct Calls {
    early: Vec<Samples>,
    late: Vec<Samples>,
}

/// Measures in a database, to which the caller is added. The questions go on: the model server remembers those that
/// were asked, in any database.
pub fn measure(
    environment: &Environment,
    database: &str,
    client: &mut Client,
    questions: &mut FreshQuestions,
) -> Result<Calls> {
    progress(format_args!("calls of a connection in {database}"));
    let turns: Vec<Json> = (0..ROWS).map(synthetic::turn).collect();
    client.execute(
        "SELECT count(*) FROM memory_ingest_batch($1::text::jsonb, user_id => $2)",
        &[&Json::from(turns).to_string(), &USER],
    )?;
    client.batch_execute("VACUUM ANALYZE")?;
    let mut calls = Calls {
        early: vec![Samples::default(); KINDS.len()],
        late: vec![Samples::default(); KINDS.len()],
    };
    for _ in 0..CONNECTIONS {
        for (kind, (_, statement)) in KINDS.iter().enumerate() {
            let mut connection = environment.cluster.connect(database);
            for call in 1..=CALLS {
                let statement = statement.replace("{text}", &literal(&questions.another()));
                let mut time = Samples::default();
                time.time(|| connection.simple_query(&statement))?;
                match call {
                    2..=5 => calls.early[kind].extend(&time),
                    10.. => calls.late[kind].extend(&time),
                    _ => {}
                }
            }
        }
    }
    Ok(calls)
}

/// Both beside each other. Ratios above the bound fail the run.
pub fn show(report: &mut Report, small: &Calls, large: &Calls, rows: usize) {
    report.section(&format!(
        "Calls 2 to 5 and 10 to 20 of a connection: alone, and among {rows} rows of others, p50 in ms"
    ));
    let mut table = Table::new(&[
        "",
        "alone, early",
        "late",
        "ratio",
        "among others, early",
        "late",
        "ratio",
        "others, late",
    ]);
    let mut figures = Vec::new();
    for (kind, (name, _)) in KINDS.iter().enumerate() {
        let of = |samples: &[Samples]| samples[kind].median();
        let times = [of(&small.early), of(&small.late), of(&large.early), of(&large.late)];
        let [alone_early, alone_late, early, late] = times;
        let ratios = [alone_late / alone_early, late / early, late / alone_late];
        table.row([
            (*name).to_owned(),
            format!("{alone_early:.1}"),
            format!("{alone_late:.1}"),
            format!("{:.2}", ratios[0]),
            format!("{early:.1}"),
            format!("{late:.1}"),
            format!("{:.2}", ratios[1]),
            format!("{:.2}", ratios[2]),
        ]);
        let whats = ["late to early, alone", "late to early", "among others to alone"];
        for (what, ratio) in whats.into_iter().zip(ratios) {
            if *name != STATUS || what != whats[2] {
                report.requirement(format!("{name}: {what}"), ratio, Bound::AtMost(MOST));
            }
        }
        if *name == STATUS {
            report.target(format!("{name} among others, ms"), late, Bound::AtMost(STATUS_MS));
        }
        figures.push(json!({"call": name, "ms": times, "ratios": ratios}));
    }
    print!("{table}");
    report.add("connection", json!({"rows_of_others": rows, "calls": figures}));
}
