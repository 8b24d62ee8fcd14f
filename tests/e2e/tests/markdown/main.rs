//! Memories as Markdown files: what is exported is there again after an import, files of agent-cli
//! and of people are read, and nothing that is wrong is stored.

mod edits;
mod foreign;
mod json;
mod json_history;
mod refusals;
mod round_trip;
mod shell;

use memory_agent_e2e::{Client, Database, retry_until, shared_without_worker};
use std::time::Duration;
use uuid::Uuid;

/// A path and its text.
type File = (String, String);

/// A database in which nobody but the test changes a row, with its models loaded: what is stored is
/// embedded at once.
fn database(name: &str) -> (Database<'_>, Client) {
    let database = shared_without_worker().database(name);
    let mut client = database.connect();
    retry_until(Duration::from_secs(120), "the models to be loaded", || {
        client.batch_execute("SELECT memory_embed('a')").ok()
    });
    (database, client)
}

fn export(client: &mut Client, session: Option<&str>) -> Vec<File> {
    let files = client.query("SELECT * FROM memory_export_markdown($1)", &[&session]).unwrap();
    files.iter().map(|row| (row.get("path"), row.get("content"))).collect()
}

#[track_caller]
fn import(client: &mut Client, (path, content): &File) -> Uuid {
    match client.query_one("SELECT memory_import_markdown($1, $2)", &[path, content]) {
        Ok(row) => row.get(0),
        Err(error) => panic!("{path}: {error:?}\n{content}"),
    }
}

/// All rows of a table as JSON, with every column, by id.
fn rows(client: &mut Client, table: &str) -> Vec<serde_json::Value> {
    let query = format!("SELECT to_jsonb(t) FROM memory_agent.{table} t ORDER BY t.id");
    client.query(&query, &[]).unwrap().iter().map(|row| row.get(0)).collect()
}
