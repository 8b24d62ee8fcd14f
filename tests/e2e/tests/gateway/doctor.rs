//! `memory-agent doctor`: what it prints of a real database, and how it ends.

use crate::failures::own_cluster;
use crate::{ROLE, database};
use memory_agent_e2e::memory::run;
use memory_agent_e2e::{Cluster, Gateway, StopMode, bindir};
use std::process::{Command, Output};

fn doctor(connection: &str) -> (Option<i32>, String) {
    doctor_in(&[], &["--database", connection])
}

/// The same with variables of the environment.
fn doctor_in(environment: &[(&str, &str)], arguments: &[&str]) -> (Option<i32>, String) {
    let mut program = Command::new(bindir().join("memory-agent"));
    program.env_clear().envs(environment.iter().copied()).arg("doctor").args(arguments);
    let Output { status, stdout, .. } = program.output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap())
}

#[test]
fn a_healthy_database_needs_nothing() {
    let cluster = Cluster::builder().preload(true).start();
    run(&mut cluster.connect("postgres"), &format!("CREATE ROLE {ROLE} LOGIN"));
    drop(database(&cluster, "doctor_healthy"));
    let (code, report) = doctor(&Gateway::database(&cluster, ROLE, "doctor_healthy"));
    assert_eq!(code, Some(0), "{report}");
    assert!(report.contains("  library") && report.ends_with("\n\nNothing to do.\n"), "{report}");
    assert!(report.contains("preloaded") && !report.contains("\n!"), "{report}");
}

/// It may be enough: nothing has to be done.
#[test]
fn a_role_that_looks_no_tokens_up_is_told() {
    let mut client = database(crate::cluster(), "doctor_role");
    run(&mut client, "CREATE ROLE doctor_user LOGIN; SELECT memory_grant('doctor_user')");
    let (_, report) = doctor(&Gateway::database(crate::cluster(), "doctor_user", "doctor_role"));
    assert!(report.contains("\n  role ") && !report.contains("\n! role"), "{report}");
    assert!(report.contains("SELECT memory_grant('ROLE', 'gateway')"), "{report}");
    let (_, report) = doctor(&Gateway::database(crate::cluster(), ROLE, "doctor_role"));
    assert!(!report.contains("\n  role "), "{report}");
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    let cluster = own_cluster();
    drop(database(&cluster, "doctor_ill"));
    let to = Gateway::database(&cluster, ROLE, "doctor_ill");
    cluster.alter_system("memory_agent.model_server_path", Some("/nowhere/model_server"));
    memory_agent_e2e::wait_until(crate::PATIENCE, "the model server to be missed", || {
        let (code, report) = doctor(&to);
        code == Some(1) && report.contains("\n! model server") && report.contains("\n  ")
    });
    let (_, report) = doctor(&to);
    assert!(report.contains("  -> ") && report.contains("attention."), "{report}");
    run(&mut cluster.connect("doctor_ill"), &format!("SELECT memory_revoke('{ROLE}')"));
    let (code, report) = doctor(&to);
    assert_eq!(code, Some(2), "{report}");
    assert!(report.contains("42501") && report.contains("memory_grant"), "{report}");
    cluster.stop(StopMode::Fast);
    let (code, report) = doctor(&to);
    assert_eq!(code, Some(2));
    assert!(
        report.starts_with("the database cannot be reached: ") && report.contains(" (host="),
        "{report}"
    );
    assert_eq!(doctor("no address").0, Some(2));
}

/// A wrong host, database or role is told from a server that is down.
#[test]
fn the_servers_own_words_are_said() {
    let mut client = database(crate::cluster(), "doctor_words");
    let to = |role: &str, name: &str| Gateway::database(crate::cluster(), role, name);
    let (code, report) = doctor(&to(ROLE, "nowhere"));
    assert_eq!(code, Some(2), "{report}");
    assert!(report.contains("FATAL: database \"nowhere\" does not exist (host="), "{report}");
    assert!(report.contains(&format!("dbname=nowhere user={ROLE}")), "{report}");
    let (code, report) = doctor(&to("nobody", "doctor_words"));
    assert_eq!(code, Some(2), "{report}");
    assert!(report.contains("FATAL: role \"nobody\" does not exist"), "{report}");
    let (_, report) = doctor("host=/nowhere user=x");
    assert!(
        report.contains("No such file or directory") && report.contains("/nowhere"),
        "{report}"
    );

    run(&mut client, "CREATE DATABASE doctor_empty");
    let (code, report) = doctor(&to(ROLE, "doctor_empty"));
    assert_eq!(code, Some(2), "{report}");
    let expected = "the database doctor_empty has no extension memory_agent: run CREATE EXTENSION";
    assert!(report.starts_with(expected), "{report}");
    let mut empty = crate::cluster().connect("doctor_empty");
    run(&mut empty, "CREATE SCHEMA hidden; CREATE EXTENSION memory_agent SCHEMA hidden CASCADE");
    let (_, report) = doctor(&to(ROLE, "doctor_empty"));
    assert!(
        report.contains("is in the schema hidden, which is not in the search_path"),
        "{report}"
    );
}

#[test]
fn a_connection_is_completed_as_in_psql() {
    drop(database(crate::cluster(), "doctor_variables"));
    let connection = Gateway::database(crate::cluster(), ROLE, "doctor_variables");
    let word = |name: &str| {
        let value = connection.split(' ').find_map(|word| word.strip_prefix(&format!("{name}=")));
        value.unwrap_or_else(|| panic!("{connection}"))
    };
    let environment = [
        ("PGHOST", word("host")),
        ("PGPORT", "5432"),
        ("PGUSER", word("user")),
        ("PGDATABASE", word("dbname")),
    ];
    let (_, report) = doctor_in(&environment, &[]);
    assert!(report.contains("  library"), "{report}");
    let (code, report) = doctor_in(&environment, &["--database", "dbname=nowhere"]);
    assert!(code == Some(2) && report.contains("database \"nowhere\" does not exist"), "{report}");
}
