//! `memory-agent doctor`: what it prints of a real database, and how it ends.

use crate::failures::own_cluster;
use crate::{ROLE, database};
use memory_agent_e2e::memory::run;
use memory_agent_e2e::{Cluster, Gateway, StopMode, bindir};
use std::process::{Command, Output};

fn doctor(connection: &str) -> (Option<i32>, String) {
    let mut program = Command::new(bindir().join("memory-agent"));
    program.env_clear().args(["doctor", "--database", connection]);
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
    assert_eq!((code, report.as_str()), (Some(2), "the database cannot be reached.\n"));
    assert_eq!(doctor("no address").0, Some(2));
}
