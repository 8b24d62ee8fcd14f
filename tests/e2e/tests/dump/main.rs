//! Memory that moves: dumps and restores, other schemas, dropping and creating again, logical
//! replication. What is compared is every row of every table, and what recall answers.

mod hostile;
mod placement;
mod replication;
mod restores;
mod snapshot;

use memory_agent_e2e::memory::{run, values};
use memory_agent_e2e::{
    Client, Cluster, Programs, expect_error, shared, shared_without_worker, wait_until,
};
use snapshot::{Snapshot, fill, recall};
use std::collections::BTreeSet;
use std::time::Duration;

/// Where nobody but the test changes a row.
fn cluster() -> &'static Cluster {
    shared_without_worker()
}

/// A database that holds at least one row in every table, and what it holds.
fn source(name: &str) -> Snapshot {
    let mut client = cluster().database(name).connect();
    fill(&mut client);
    let snapshot = Snapshot::take(&mut client);
    assert_eq!(snapshot.empty_tables(), BTreeSet::new(), "fill() has to reach each table");
    snapshot
}

/// The restored database has the same rows and gives the same answers.
#[track_caller]
fn assert_restored(database: &str, original: &Snapshot) {
    let mut client = cluster().connect(database);
    client.batch_execute("SET memory_agent.user_id = 'alice'").unwrap();
    let restored = Snapshot::take(&mut client);
    assert_eq!(restored, *original);
    // It goes on as before: the key of a fact is still held, the session still open.
    let before = recall(&mut client);
    run(&mut client, "SELECT memory_add('Ann lives in Oslo.', infer => false, fact_key => 'home')");
    run(&mut client, "SELECT memory_ingest('s1', 'user', 'Ann has moved to Oslo.')");
    assert_ne!(recall(&mut client), before);
    let homes =
        "SELECT count(*) FROM memory_agent.entries WHERE fact_key = 'home' AND state = 'active'";
    assert_eq!(client.query_one(homes, &[]).unwrap().get::<_, i64>(0), 1);
    // What was written for another database sends nothing from this one.
    let enabled: Vec<bool> =
        values(&mut client, "SELECT is_enabled FROM memory_list_endpoints()", &[]);
    assert_eq!(enabled, [false]);
}

/// An index over the embeddings is not part of a dump, for those of an extension's tables never are.
#[test]
fn custom_format() {
    let original = source("custom_source");
    run(&mut cluster().connect("custom_source"), "SELECT memory_create_vector_index()");
    cluster().plain_database("custom_target");
    let programs = Programs::of(cluster());
    let archive = programs.file("custom");
    programs.dump("custom_source", &["-Fc", "-f", &archive]);
    programs.restore("custom_target", &[], &archive);
    assert_restored("custom_target", &original);
    run(&mut cluster().connect("custom_target"), "SELECT memory_create_vector_index()");
}

/// The role for backups that docs/operations.md names; the database's owner is not enough.
#[test]
fn a_role_for_backups() {
    let original = source("backup");
    cluster().plain_database("backup_restored");
    let mut client = cluster().connect("backup");
    run(
        &mut client,
        "CREATE ROLE backup LOGIN BYPASSRLS IN ROLE pg_read_all_data; CREATE ROLE backup_owner LOGIN;
         ALTER DATABASE backup OWNER TO backup_owner",
    );
    let programs = Programs::of(cluster());
    let archive = programs.file("backup");
    programs.dump("backup", &["-U", "backup", "-Fc", "-f", &archive]);
    programs.restore("backup_restored", &[], &archive);
    assert_restored("backup_restored", &original);
    let error = expect_error(
        cluster().connect_as("backup", "backup_owner").batch_execute("TABLE memory_agent.entries"),
        "42501",
    );
    assert!(error.contains("permission denied"), "{error}");
}

#[test]
fn directory_format_in_parallel() {
    let original = source("parallel_source");
    cluster().plain_database("parallel_target");
    let programs = Programs::of(cluster());
    let archive = programs.file("parallel");
    programs.dump("parallel_source", &["-Fd", "-j", "2", "-f", &archive]);
    programs.restore("parallel_target", &["-j", "2"], &archive);
    assert_restored("parallel_target", &original);
}

#[test]
fn plain_text() {
    let original = source("plain_source");
    cluster().plain_database("plain_target");
    let programs = Programs::of(cluster());
    let script = programs.file("plain.sql");
    programs.dump("plain_source", &["-f", &script]);
    programs.execute("plain_target", &script);
    assert_restored("plain_target", &original);
}

/// Over what is there already: everything is dropped and made again.
#[test]
fn clean_restore_over_other_memory() {
    let original = source("clean_source");
    source("clean_target");
    let programs = Programs::of(cluster());
    let archive = programs.file("clean");
    programs.dump("clean_source", &["-Fc", "-f", &archive]);
    programs.restore("clean_target", &["--clean", "--if-exists"], &archive);
    assert_restored("clean_target", &original);
}

#[test]
fn data_only_into_a_database_with_the_extension() {
    let original = source("data_source");
    cluster().database("data_target");
    let programs = Programs::of(cluster());
    let archive = programs.file("data-only");
    programs.dump("data_source", &["-Fc", "--data-only", "-f", &archive]);
    programs.restore("data_target", &["--data-only"], &archive);
    assert_restored("data_target", &original);
}

/// A full dump: CREATE EXTENSION IF NOT EXISTS finds it there, the rows come.
#[test]
fn full_into_a_database_with_the_extension() {
    let original = source("present_source");
    cluster().database("present_target");
    let programs = Programs::of(cluster());
    let archive = programs.file("present");
    programs.dump("present_source", &["-Fc", "-f", &archive]);
    programs.restore("present_target", &[], &archive);
    assert_restored("present_target", &original);
}

/// Definitions first, rows later, as for a large database.
#[test]
fn schema_and_data_in_two_steps() {
    let original = source("steps_source");
    cluster().plain_database("steps_target");
    let programs = Programs::of(cluster());
    let archive = programs.file("steps");
    programs.dump("steps_source", &["-Fc", "-f", &archive]);
    programs.restore("steps_target", &["--schema-only"], &archive);
    programs.restore("steps_target", &["--data-only"], &archive);
    assert_restored("steps_target", &original);
}

/// The extension with its rows, and nothing else of the database.
#[test]
fn the_extension_alone() {
    let original = source("alone_source");
    run(&mut cluster().connect("alone_source"), "CREATE TABLE notes (body text)");
    cluster().plain_database("alone_target");
    let programs = Programs::of(cluster());
    let archive = programs.file("alone");
    let arguments = ["-e", "memory_agent", "-e", "vector", "-N", "public", "-Fc", "-f", &archive];
    programs.dump("alone_source", &arguments);
    programs.restore("alone_target", &[], &archive);
    assert_restored("alone_target", &original);
    let tables = "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'";
    assert_eq!(
        cluster().connect("alone_target").query_one(tables, &[]).unwrap().get::<_, i64>(0),
        0
    );
}

/// A job that waits is run where the dump arrives.
#[test]
fn jobs_travel_along() {
    source("jobs_source");
    let archive = Programs::of(cluster()).file("jobs");
    Programs::of(cluster()).dump("jobs_source", &["-Fc", "-f", &archive]);
    run(&mut shared().plain_database("jobs_target"), "CREATE ROLE dumped_reader");
    Programs::of(shared()).restore("jobs_target", &[], &archive);
    let mut client = shared().connect("jobs_target");
    let waited = "SELECT memory_wait('60 s') AND bool_and(embedding IS NOT NULL) AND count(*) > 5 \
                    FROM memory_agent.entries";
    wait_until(Duration::from_secs(60), "the entries to be embedded", || {
        client.query_one(waited, &[]).unwrap().get(0)
    });
    let status = "SELECT string_agg(status, ',') FROM memory_jobs WHERE kind = 'embed'";
    assert_eq!(client.query_one(status, &[]).unwrap().get::<_, String>(0), "done");
}

/// The rows alone, by the names of their tables. (`-n memory_agent` dumps nothing: pg_dump leaves out
/// what is in a schema that belongs to an extension.)
#[test]
fn the_tables_alone() {
    let original = source("tables_source");
    cluster().database("tables_target");
    let programs = Programs::of(cluster());
    let script = programs.file("tables.sql");
    programs.dump("tables_source", &["-t", "memory_agent.*", "-f", &script]);
    programs.execute("tables_target", &script);
    assert_restored("tables_target", &original);
}

/// Levels need both the table of levels and the privileges; a dump carries both.
#[test]
fn levels_survive() {
    let mut superuser = cluster().database("levels_source").connect();
    run(
        &mut superuser,
        "CREATE ROLE \"Dump User\" LOGIN; CREATE ROLE dump_reader LOGIN; CREATE ROLE dump_none LOGIN",
    );
    run(
        &mut superuser,
        "SELECT memory_grant('\"Dump User\"'), memory_grant('dump_reader', 'reader')",
    );
    cluster().plain_database("levels_target");
    cluster().plain_database("levels_without");
    let programs = Programs::of(cluster());
    let archive = programs.file("levels");
    programs.dump("levels_source", &["-Fc", "-f", &archive]);
    programs.restore("levels_target", &[], &archive);
    programs.restore("levels_without", &["--no-acl"], &archive);
    let may = |database: &str, role: &str, call: &str| -> bool {
        match cluster().connect_as(database, role).batch_execute(call) {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(memory_agent_e2e::sqlstate(&error), "42501", "{error:?}");
                false
            }
        }
    };
    let (read, write) =
        ("SELECT memory_stats()", "SELECT memory_ingest('s', 'user', 'still mine')");
    for (role, reads, writes) in
        [("Dump User", true, true), ("dump_reader", true, false), ("dump_none", false, false)]
    {
        assert_eq!(
            (may("levels_target", role, read), may("levels_target", role, write)),
            (reads, writes),
            "{role}"
        );
        // Without the privileges nobody has a level, whatever the table says.
        assert_eq!(
            (may("levels_without", role, read), may("levels_without", role, write)),
            (false, false),
            "{role}"
        );
    }
    let mut owner: Client = cluster().connect("levels_without");
    run(
        &mut owner,
        "SELECT memory_grant(role_name::text::regrole, level) FROM memory_agent.grants \
         WHERE role_name = 'dump_reader'",
    );
    assert!(may("levels_without", "dump_reader", read));
}

/// A role that is not there yet costs the restore its GRANTs, which pg_restore names, and no row.
#[test]
fn a_role_that_is_not_there() {
    let original = source("roleless_source");
    let mut client = cluster().connect("roleless_source");
    run(&mut client, "CREATE ROLE dump_absent LOGIN; SELECT memory_grant('dump_absent')");
    let programs = Programs::of(cluster());
    let archive = programs.file("roleless");
    programs.dump("roleless_source", &["-Fc", "-f", &archive]);
    run(&mut client, "SELECT memory_revoke('dump_absent'); DROP ROLE dump_absent");
    for name in ["roleless_with", "roleless_without"] {
        cluster().plain_database(name);
    }
    programs.restore("roleless_without", &["--no-acl"], &archive);
    let complaints = programs.restore_old("roleless_with", &archive);
    let errors = complaints.lines().filter(|line| line.contains("error: "));
    let others: Vec<&str> =
        errors.filter(|line| !line.ends_with("role \"dump_absent\" does not exist")).collect();
    assert_eq!(others, [""; 0], "{complaints}");

    for (name, others) in
        [("roleless_with", ""), ("roleless_without", "\"dumped_reader\" with \"reader\"")]
    {
        let mut client = cluster().connect(name);
        let told = "SELECT detail FROM memory_status() WHERE component = 'levels'";
        let detail: String = client.query_one(told, &[]).unwrap().get(0);
        assert!(detail.contains("\"dump_absent\" with \"user\""), "{detail}");
        assert!(detail.contains(others), "{detail}");
        run(&mut client, "SELECT memory_agent.renew_levels()");
    }
    run(&mut client, "CREATE ROLE dump_absent LOGIN");
    let call = "SELECT memory_stats()";
    for name in ["roleless_with", "roleless_without"] {
        let mut role = cluster().connect_as(name, "dump_absent");
        expect_error(role.batch_execute(call), "42501");
        let mut client = cluster().connect(name);
        run(
            &mut client,
            "SELECT memory_grant('dump_absent'); SELECT memory_grant('dumped_reader', 'reader')",
        );
        run(&mut role, call);
        // What was granted is the role's of this cluster: all else is as it was.
        run(&mut client, "SELECT memory_revoke('dump_absent'); SET memory_agent.user_id = 'alice'");
        let mut restored = Snapshot::take(&mut client);
        restored.forget("grants");
        let mut expected = original.clone();
        expected.forget("grants");
        assert_eq!(restored, expected);
    }
}

/// Two databases of one cluster: the OID in the dump is the role's, whatever it is called now.
#[test]
fn a_renamed_role_in_a_dump() {
    let mut client = cluster().database("renamed_source").connect();
    run(&mut client, "CREATE ROLE dump_shop LOGIN; SELECT memory_grant('dump_shop')");
    run(&mut client, "ALTER ROLE dump_shop RENAME TO dump_webshop; CREATE ROLE dump_shop LOGIN");
    cluster().plain_database("renamed_target");
    let programs = Programs::of(cluster());
    let archive = programs.file("renamed");
    programs.dump("renamed_source", &["-Fc", "-f", &archive]);
    programs.restore("renamed_target", &[], &archive);
    let call = "SELECT memory_ingest('s', 'user', 'still mine')";
    run(&mut cluster().connect_as("renamed_target", "dump_webshop"), call);
    expect_error(cluster().connect_as("renamed_target", "dump_shop").batch_execute(call), "42501");
}
