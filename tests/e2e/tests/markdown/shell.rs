//! The scripts of docs/migrating.md write files to disk and bring them back.

use crate::{database, export};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, shared_without_worker};
use std::path::Path;
use std::process::Command;

/// The blocks for a shell, in their order.
fn scripts() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/migrating.md");
    let page = std::fs::read_to_string(page).expect("docs/migrating.md");
    page.split("\n```sh\n")
        .skip(1)
        .filter_map(|rest| rest.split("\n```").next())
        .map(str::to_owned)
        .collect()
}

/// Runs a script in a directory, as alice of a database.
fn shell(client: &mut Client, database: &str, directory: &Path, script: &str) {
    let bindir: String = value(client, "SELECT setting FROM pg_config WHERE name = 'BINDIR'", &[]);
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", script])
        .current_dir(directory)
        .env("PATH", format!("{bindir}:{path}"))
        .env("PGHOST", shared_without_worker().socket_directory())
        .env("PGUSER", "postgres")
        .env("PGDATABASE", database)
        .env("PGOPTIONS", "-c memory_agent.user_id=alice")
        .output()
        .expect("bash");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn files_go_to_disk_and_back() {
    let (_, mut from) = database("to_disk");
    let (_, mut into) = database("from_disk");
    run(
        &mut from,
        "SELECT memory_ingest('trip', 'user', E'It''s \\\\ odd:\\n\\n---\\n$(false) `x` é\\n\\n');
         SELECT memory_ingest('trip', 'assistant', repeat('A long answer. ', 20000));
         SELECT memory_add('Ada lives in Paris.', 'trip', infer => false, fact_key => 'home');
         SELECT memory_add('Ada lives in Rome.', 'trip', infer => false, fact_key => 'home')",
    );
    let scripts = scripts();
    let [to_disk, and_back, _, _] = scripts.as_slice() else { panic!("{scripts:?}") };
    // Removed with the cluster.
    let directory = shared_without_worker().socket_directory().join("markdown");
    std::fs::create_dir(&directory).unwrap();
    shell(&mut from, "to_disk", &directory, to_disk);
    shell(&mut into, "from_disk", &directory, and_back);
    let exported = export(&mut from, Some("trip"));
    for (path, content) in &exported {
        assert_eq!(&std::fs::read_to_string(directory.join(path)).unwrap(), content, "{path}");
    }
    assert_eq!(exported.len(), 4);
    assert_eq!(export(&mut into, Some("trip")), exported);
}

#[test]
fn records_go_to_a_file_and_back() {
    let (_, mut from) = database("to_records");
    let (_, mut into) = database("from_records");
    run(
        &mut from,
        "SELECT memory_ingest('trip', 'user', E'It''s \\\\ odd, \"very\":\\n\\t$(false) `x` é\\n\\\\.\\n');
         SELECT memory_add('Ada lives in Rome.', infer => false);
         SELECT memory_add_document('# Tea', 'Tea')",
    );
    let scripts = scripts();
    let [.., to_file, and_back] = scripts.as_slice() else { panic!("{scripts:?}") };
    let directory = shared_without_worker().socket_directory().join("json");
    std::fs::create_dir(&directory).unwrap();
    shell(&mut from, "to_records", &directory, to_file);
    shell(&mut into, "from_records", &directory, and_back);
    // That it came by an import, which ends an episode, happened to the second database alone.
    let all = "SELECT jsonb_agg(r) FROM memory_export_json() r \
                WHERE r ->> 'op' IS DISTINCT FROM 'import' AND r ->> 'role' <> 'episode'";
    let exported: serde_json::Value = value(&mut from, all, &[]);
    assert_eq!(exported.as_array().map(Vec::len), Some(5));
    assert_eq!(value::<serde_json::Value>(&mut into, all, &[]), exported);
}
