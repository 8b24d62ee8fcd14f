//! Levels reach what an update brings, no role gains more, and a dump carries them afterwards.

use crate::catalog::{assert_same, describe};
use crate::{RELEASED, older_database, update};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, Programs, expect_error, shared};

const LEVELS: [&str; 3] = ["reader", "user", "admin"];

/// One role a level, made by the first test that asks.
fn grant_levels(client: &mut Client) {
    for level in LEVELS {
        run(
            client,
            &format!(
                "DO $$ BEGIN CREATE ROLE upgrade_{level} LOGIN; \
                 EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$"
            ),
        );
        run(client, &format!("SELECT memory_grant('upgrade_{level}', '{level}')"));
    }
}

#[test]
fn levels_reach_what_is_new() {
    let mut client = shared().database("privileges_fresh").connect();
    grant_levels(&mut client);
    let fresh = describe(&mut client);
    assert!(
        fresh.iter().any(|line| line.contains("upgrade_reader=r/")),
        "privileges are described"
    );
    for version in RELEASED {
        let name = format!("privileges_{version}");
        let mut client = older_database(shared(), &name, version);
        grant_levels(&mut client);
        update(&mut client);
        assert_same(&describe(&mut client), &fresh);
        let target = format!("{name}_restored");
        shared().plain_database(&target);
        let programs = Programs::of(shared());
        let archive = programs.file(&name);
        programs.dump(&name, &["-Fc", "-f", &archive]);
        programs.restore(&target, &[], &archive);
        assert_same(&describe(&mut shared().connect(&target)), &fresh);
    }
}

/// What `memory_status()` says of levels that give more than they do today.
const STATUS_OF_LEVELS: &str = "SELECT state FROM memory_status() WHERE component = 'levels'";

/// A dump of a database that was not updated brings the grants of its version, on tables too. They are
/// set right by hand.
#[test]
fn grants_of_an_old_dump_are_renewed() {
    let mut client = shared().database("privileges_renewed_fresh").connect();
    grant_levels(&mut client);
    let fresh = describe(&mut client);
    for version in RELEASED {
        let name = format!("privileges_dump_{version}");
        let mut client = older_database(shared(), &name, version);
        grant_levels(&mut client);
        let target = format!("{name}_restored");
        shared().plain_database(&target);
        let programs = Programs::of(shared());
        let archive = programs.file(&name);
        programs.dump(&name, &["-Fc", "-f", &archive]);
        let wrong = programs.restore_old(&target, &archive);
        let errors: Vec<&str> = wrong.lines().filter(|line| line.contains("ERROR:")).collect();
        let is_grant =
            |error: &&str| error.contains("function") && error.contains("does not exist");
        assert!(!errors.is_empty() && errors.iter().all(is_grant), "{wrong}");
        let mut restored = shared().connect(&target);
        assert_ne!(describe(&mut restored), fresh);
        assert_eq!(values::<String>(&mut restored, STATUS_OF_LEVELS, &[]), ["older"], "{version}");
        run(&mut restored, "SELECT memory_agent.renew_levels()");
        assert_same(&describe(&mut restored), &fresh);
        assert_eq!(values::<String>(&mut restored, STATUS_OF_LEVELS, &[]), [""; 0], "{version}");
        // Into the version that it is of, a dump is restored without an error.
        let target = format!("{name}_restored_as_it_was");
        let mut restored = older_database(shared(), &target, version);
        programs.restore(&target, &[], &archive);
        update(&mut restored);
        assert_same(&describe(&mut restored), &fresh);
    }
}

/// Default privileges of the database give nothing away, and what was granted by hand stays.
#[test]
fn privileges_by_hand_and_by_default() {
    let mut client = older_database(shared(), "privileges_default", "0.1.0");
    run(
        &mut client,
        "CREATE ROLE upgrade_auditor; CREATE ROLE upgrade_by_default; \
         GRANT USAGE ON SCHEMA memory_agent TO upgrade_auditor; \
         GRANT SELECT ON memory_agent.entries TO upgrade_auditor; \
         ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO upgrade_by_default; \
         ALTER DEFAULT PRIVILEGES GRANT ALL ON FUNCTIONS TO upgrade_by_default; \
         ALTER DEFAULT PRIVILEGES GRANT ALL ON TYPES TO upgrade_by_default; \
         ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO upgrade_by_default",
    );
    update(&mut client);
    let sentences = describe(&mut client);
    let given = |role: &str| -> Vec<&String> {
        sentences.iter().filter(|line| line.contains(&format!("{role}="))).collect()
    };
    assert_eq!(given("upgrade_by_default"), [""; 0]);
    let auditor = given("upgrade_auditor");
    assert!(
        auditor.len() == 2
            && auditor.iter().any(|line| line.starts_with("relation memory_agent.entries ")
                && line.contains("upgrade_auditor=r/"))
            && auditor.iter().any(|line| line.starts_with("schema ")),
        "{auditor:#?}"
    );
}

/// A role that only has the name of one with a level gets nothing from an update.
#[test]
fn a_level_is_not_inherited_by_name() {
    let mut client = older_database(shared(), "privileges_name", "0.1.0");
    run(&mut client, "CREATE ROLE upgrade_gone; SELECT memory_grant('upgrade_gone', 'admin')");
    run(
        &mut client,
        "DROP OWNED BY upgrade_gone; DROP ROLE upgrade_gone; CREATE ROLE upgrade_gone",
    );
    update(&mut client);
    let sentences = describe(&mut client);
    assert!(!sentences.iter().any(|line| line.contains("upgrade_gone=")));
}

/// New objects belong to the owner of the old ones.
#[test]
fn another_superuser_may_update() {
    let mut client = older_database(shared(), "privileges_owner", "0.1.0");
    run(&mut client, "CREATE ROLE upgrade_other SUPERUSER LOGIN");
    let mut other = shared().connect_as("privileges_owner", "upgrade_other");
    update(&mut other);
    let foreign = "SELECT count(*) FROM pg_shdepend s JOIN pg_roles r ON r.oid = s.refobjid \
                    WHERE r.rolname = 'upgrade_other' AND s.dbid = \
                          (SELECT oid FROM pg_database WHERE datname = current_database())";
    assert_eq!(value::<i64>(&mut client, foreign, &[]), 0);
    let fresh = describe(&mut shared().database("privileges_owner_fresh").connect());
    assert_same(&describe(&mut client), &fresh);
}

#[test]
fn levels_are_renewed_by_the_owner_alone() {
    let mut client = shared().database("privileges_renew").connect();
    grant_levels(&mut client);
    let before = describe(&mut client);
    run(
        &mut client,
        "REVOKE ALL ON memory_sessions FROM upgrade_reader; \
                      REVOKE ALL ON FUNCTION memory_stats FROM upgrade_reader",
    );
    assert_ne!(describe(&mut client), before);
    run(&mut client, "SELECT memory_agent.renew_levels()");
    assert_same(&describe(&mut client), &before);
    let mut admin = shared().connect_as("privileges_renew", "upgrade_admin");
    expect_error(admin.batch_execute("SELECT memory_agent.renew_levels()"), "42501");
    run(&mut client, "GRANT EXECUTE ON FUNCTION memory_agent.renew_levels() TO upgrade_admin");
    expect_error(admin.batch_execute("SELECT memory_agent.renew_levels()"), "42501");
}
