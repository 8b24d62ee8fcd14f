//! Predefined roles of PostgreSQL and privileges that an administrator granted by hand: none of them makes an
//! administrator of memory_agent.

use crate::{create_roles, grant, remember};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{expect_error, shared, sqlstate};

/// Who may write every table of the database could otherwise give themselves the level of an administrator,
/// at the latest with the next update, which gives each role the privileges of its level again; or name a
/// file as a model, which is a program.
#[test]
fn who_may_write_all_tables_is_no_administrator() {
    let database = shared().database("predefined_write");
    let mut owner = database.connect();
    create_roles(&mut owner, &["predefined_writer", "predefined_other"]);
    grant(&mut owner, "predefined_writer", "user");
    grant(&mut owner, "predefined_other", "user");
    run(&mut owner, "GRANT pg_write_all_data TO predefined_writer");
    remember(&mut owner, "bob", "The code is 1234.");
    let mut writer = database.connect_as("predefined_writer");
    for statement in [
        "INSERT INTO memory_agent.grants (role_name, level) VALUES ('pg_write_all_data', 'admin')",
        "INSERT INTO memory_agent.models (name, kind, dimension, location, active) \
         VALUES ('evil', 'embedder', 384, '/tmp/evil', true)",
        "INSERT INTO memory_agent.attachments (id, relation, content_column) \
         VALUES (gen_random_uuid(), 'public.notes', 'body')",
        "INSERT INTO memory_agent.jobs (id, kind, user_id, agent_id) \
         VALUES (gen_random_uuid(), 'embed', 'bob', 'default')",
        "INSERT INTO memory_agent.history (id, user_id, op, commitment) \
         VALUES (gen_random_uuid(), 'bob', 'add', '')",
    ] {
        expect_error(writer.batch_execute(statement), "42501");
    }
    // Where there are rows, none of them is seen, or the statement is refused.
    let tables: Vec<String> = values(
        &mut owner,
        "SELECT c.relname::text FROM pg_class c \
          WHERE c.relnamespace = 'memory_agent'::regnamespace AND c.relkind IN ('r', 'p')",
        &[],
    );
    assert!(tables.len() >= 14, "{tables:?}");
    for table in &tables {
        match writer.execute(&format!("DELETE FROM memory_agent.{table}"), &[]) {
            Ok(rows) => assert_eq!(rows, 0, "{table}"),
            Err(error) => assert_eq!(sqlstate(&error), "42501", "{table}: {error:?}"),
        }
    }
    for change in
        ["grants SET level = 'admin'", "models SET active = true", "entries SET content = ''"]
    {
        assert_eq!(
            writer.execute(&format!("UPDATE memory_agent.{change}"), &[]).unwrap(),
            0,
            "{change}"
        );
    }
    run(&mut owner, "SELECT memory_agent.renew_levels()");
    let recall = "SELECT content FROM memory_recall('Which code?', user_id => 'bob')";
    expect_error(writer.query(recall, &[]), "42501");
    let levels: Vec<String> = values(
        &mut owner,
        "SELECT concat(role_name, ' ', level) FROM memory_agent.grants ORDER BY 1",
        &[],
    );
    assert_eq!(levels, ["predefined_other user", "predefined_writer user"]);
    // A table without it would be open to the next such role.
    let open: Vec<String> = values(
        &mut owner,
        "SELECT c.relname::text FROM pg_class c \
          WHERE c.relnamespace = 'memory_agent'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relrowsecurity",
        &[],
    );
    assert_eq!(open, Vec::<String>::new(), "tables without row-level security");
}

/// Reading all tables is not reading all rows.
#[test]
fn who_may_read_all_tables_sees_no_memory_of_others() {
    let database = shared().database("predefined_read");
    let mut owner = database.connect();
    create_roles(&mut owner, &["predefined_reader", "predefined_monitor"]);
    run(
        &mut owner,
        "GRANT pg_read_all_data TO predefined_reader; GRANT pg_monitor TO predefined_monitor; \
         GRANT USAGE ON SCHEMA memory_agent TO predefined_monitor",
    );
    remember(&mut owner, "bob", "The code is 1234.");
    run(&mut owner, "ANALYZE memory_agent.entries");
    let mut reader = database.connect_as("predefined_reader");
    // Without a level the policy's own function is not theirs to call.
    expect_error(reader.query("SELECT content FROM memory_agent.entries", &[]), "42501");
    grant(&mut owner, "predefined_reader", "reader");
    let rows: Vec<String> = values(&mut reader, "SELECT content FROM memory_agent.entries", &[]);
    assert_eq!(rows, Vec::<String>::new());
    for role in ["predefined_reader", "predefined_monitor"] {
        let known: i64 = value(
            &mut database.connect_as(role),
            "SELECT count(*) FROM pg_stats WHERE schemaname = 'memory_agent' AND tablename = 'entries'",
            &[],
        );
        assert_eq!(known, 0, "{role}");
    }
}

/// A privilege on a setting that only the files can change is none; on ALTER SYSTEM it is the superuser's to
/// give. The launcher and the workers are a superuser's processes.
#[test]
fn privileges_on_settings_and_processes_open_nothing() {
    let database = shared().database("predefined_settings");
    let mut owner = database.connect();
    create_roles(&mut owner, &["predefined_setter", "predefined_killer"]);
    run(
        &mut owner,
        "GRANT SET ON PARAMETER memory_agent.identity, memory_agent.llm_base_url, \
                                memory_agent.trace TO predefined_setter; \
         GRANT pg_signal_backend TO predefined_killer",
    );
    let mut setter = database.connect_as("predefined_setter");
    for setting in
        ["identity = 'setting'", "llm_base_url = 'http://127.0.0.1:9'", "trace = 'calls'"]
    {
        expect_error(setter.batch_execute(&format!("SET memory_agent.{setting}")), "55P02");
        let system = format!("ALTER SYSTEM SET memory_agent.{setting}");
        expect_error(setter.batch_execute(&system), "42501");
    }
    let pids: Vec<i32> = memory_agent_e2e::retry_until(
        std::time::Duration::from_secs(60),
        "launcher and worker",
        || {
            let sql = "SELECT pid FROM pg_stat_activity WHERE backend_type LIKE 'memory\\_agent%'";
            Some(values(&mut owner, sql, &[])).filter(|pids: &Vec<i32>| pids.len() >= 2)
        },
    );
    let mut killer = database.connect_as("predefined_killer");
    for pid in pids {
        let ended = killer.query("SELECT pg_terminate_backend($1)", &[&pid]);
        // One that went by itself meanwhile is answered by a warning and false.
        match ended {
            Ok(rows) => assert!(!rows[0].get::<_, bool>(0), "it was ended"),
            Err(error) => assert_eq!(sqlstate(&error), "42501", "{error:?}"),
        }
    }
    run(
        &mut owner,
        "REVOKE ALL ON PARAMETER memory_agent.identity, memory_agent.llm_base_url, \
                                 memory_agent.trace FROM predefined_setter",
    );
}
