//! The functions as drivers call them: with the types that each sends, unchanged, beside the settings that ship.

use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::programs_of_others::{has_their_python, installed};
use memory_agent_e2e::{Cluster, Json, expect_error, json, shared};
use std::process::Command;

/// A new database, whose worker has nothing to do, and a command that finds it as psql would.
fn command(program: &str, database: &str) -> Command {
    run(&mut shared().database(database).connect(), "SELECT 1");
    let mut command = Command::new(program);
    command
        .env("PGHOST", shared().socket_directory())
        .env("PGDATABASE", database)
        .env("PGUSER", "postgres")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env_remove("PGPORT");
    command
}

fn answers(command: &mut Command) -> Json {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

#[test]
fn psycopg() {
    let mut python = command("/usr/bin/python3", "drivers_psycopg");
    let answers = answers(python.arg("tests/drivers/psycopg_driver.py"));
    let expected = json!({
        "rows": ["The dog is called Rex."], "large": 1, "refused": "22023",
        "waits": [true, true, true, true], "tokens": true, "hits": 1, "archived": 0,
    });
    assert_eq!(answers, expected);
}

#[test]
fn asyncpg() {
    if !has_their_python() {
        return;
    }
    let mut python = command("/usr/bin/python3", "drivers_asyncpg");
    python.env("PYTHONPATH", installed("drivers-python", "tests/drivers/requirements.txt"));
    let answers = answers(python.arg("tests/drivers/asyncpg_driver.py"));
    let expected =
        json!({"rows": ["The dog is called Rex."], "waits": [true, true, true], "archived": 0});
    assert_eq!(answers, expected);
}

#[test]
fn node_postgres() {
    let mut node = command("node", "drivers_node");
    node.arg("tests/drivers/pg_driver.mjs");
    node.arg(installed("drivers-node", "tests/drivers/package-lock.json"));
    let answers = answers(&mut node);
    let expected =
        json!({"rows": ["The dog is called Rex."], "waits": [true, true], "archived": [0]});
    assert_eq!(answers, expected);
}

#[test]
fn pgx() {
    if !has_their_python() {
        return;
    }
    let program = installed("drivers-go", "tests/drivers/pgx_driver.go").join("pgx_driver");
    let answers = answers(&mut command(&program.to_string_lossy(), "drivers_pgx"));
    let dog = ["The dog is called Rex."];
    let expected = json!({
        "rows": dog, "simple": dog, "null": dog, "refused": "22023",
        "waits": [true, true, true], "tokens": true, "hits": 1, "archived": 0,
    });
    assert_eq!(answers, expected);
}

/// It reaches no Unix socket, so it has a server of its own.
#[test]
fn jdbc() {
    if !has_their_python() {
        return;
    }
    let id = std::process::id();
    let address = format!("127.{}.{}.{}", 192 + (id >> 16) % 48, (id >> 8) % 256, id % 256);
    let cluster = Cluster::builder().preload(true).setting("listen_addresses", &address).start();
    let mut client = cluster.database("jdbc").connect();
    let rules = "local all all trust\nhost all all 127.0.0.0/8 trust\n";
    std::fs::write(cluster.data().join("pg_hba.conf"), rules).unwrap();
    run(&mut client, "SELECT pg_reload_conf()");
    let classes = installed("drivers-java", "tests/drivers/JdbcDriver.java");
    let mut java = Command::new("java");
    java.arg("-cp").arg(format!("{}:/usr/share/java/postgresql.jar", classes.display()));
    java.arg("JdbcDriver").arg(format!("jdbc:postgresql://{address}/jdbc?user=postgres"));
    let answers = answers(&mut java);
    let dog = ["The dog is called Rex."];
    let expected = json!({
        "rows": dog, "nulls": dog, "called": [1], "refused": "22023",
        "waits": [true, true, true, true, true, true], "tokens": true, "hits": true, "archived": 0,
    });
    assert_eq!(answers, expected);
}

/// Whatever width a number has, and whether or not a literal or a parameter has a type.
#[test]
fn numbers_and_times_in_every_form() {
    let database = shared().database("drivers_forms");
    let mut client = database.connect();
    run(&mut client, "SELECT memory_ingest('s', 'user', 'The dog is called Rex.')");
    let numbers = ["3", "'3'", "3::smallint", "3::integer", "3::bigint"];
    for number in numbers {
        for call in ["memory_recall('dog', top_k => N)", "memory_recall('dog', rerank_rows => N)"] {
            let call = format!("SELECT count(*) FROM {}", call.replace('N', number));
            assert_eq!(value::<i64>(&mut client, &call, &[]), 1, "{call}");
        }
        for archive in ["'dog', N", "'dog', top_k => N", "'dog', \"limit\" => N"] {
            let call = archive.replace('N', number);
            let call = format!("SELECT count(*) FROM memory_search_archive({call})");
            assert_eq!(value::<i64>(&mut client, &call, &[]), 0, "{call}");
        }
    }
    for share in ["0", "'0'", "0.0", "0::real", "0::double precision", "0::numeric"] {
        let call = format!("SELECT count(*) FROM memory_recall('dog', score_threshold => {share})");
        assert_eq!(value::<i64>(&mut client, &call, &[]), 1, "{call}");
    }
    for timeout in ["", "20", "20.5", "'20 s'", "'20 s'::text", "interval '20 s'", "20::numeric"] {
        let call = format!("SELECT memory_wait({timeout})");
        assert!(value::<bool>(&mut client, &call, &[]), "{call}");
    }
    for timeout in ["-1", "'-1 s'", "'NaN'::float8", "1e12"] {
        let call = format!("SELECT memory_wait({timeout})");
        let error = expect_error(client.batch_execute(&call), "22023");
        assert!(error.contains("timeout must be an interval, or a number of seconds"), "{error}");
    }
    for timeout in ["'soon'", "'soon'::text"] {
        expect_error(client.batch_execute(&format!("SELECT memory_wait({timeout})")), "22007");
    }
}
