//! Every table, view and function against every kind of role. The lists are the contract: an object
//! that is new in the catalog and not listed here fails the first test.

use crate::{create_roles, grant};
use memory_agent_e2e::{Client, Error, shared, sqlstate};
use std::collections::BTreeSet;

/// What a role was given; the lowest one that may do something is listed with each object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Nothing,
    Reader,
    User,
    Gateway,
    Admin,
    Superuser,
}
use Level::{Admin, Gateway, Nothing, Reader, Superuser, User};

/// Who may SELECT. Only the owner may do anything else.
const RELATIONS: &[(&str, Level)] = &[
    ("memory_agent.agents", Superuser),
    ("memory_agent.archives", Superuser),
    ("memory_agent.attachments", Admin),
    ("memory_agent.entries", Superuser),
    ("memory_agent.entry_windows", Superuser),
    ("memory_agent.episodes", Superuser),
    ("memory_agent.grants", Admin),
    ("memory_agent.history", Superuser),
    ("memory_agent.jobs", Superuser),
    ("memory_agent.llm_calls", Superuser),
    ("memory_agent.llm_probes", Superuser),
    ("memory_agent.models", Reader),
    ("memory_agent.quota_counts", Superuser),
    ("memory_agent.quotas", Superuser),
    ("memory_agent.session_summaries", Superuser),
    ("memory_agent.sessions", Superuser),
    ("memory_agent.endpoint_uses", Superuser),
    ("memory_agent.endpoints", Superuser),
    ("memory_agent.spending", Superuser),
    ("memory_agent.tokens", Superuser),
    ("memory_agent.traces", Superuser),
    ("public.memory_agents", Reader),
    ("public.memory_archives", Reader),
    ("public.memory_changes", Admin),
    ("public.memory_entries", Reader),
    ("public.memory_episodes", Reader),
    ("public.memory_jobs", Reader),
    ("public.memory_llm_calls", Admin),
    ("public.memory_session_summaries", Reader),
    ("public.memory_sessions", Reader),
    ("public.memory_traces", User),
];

/// Who may EXECUTE.
const FUNCTIONS: &[(&str, Level)] = &[
    ("memory_agent.attached_rows", Admin),
    ("memory_agent.follow_roles", Superuser),
    ("memory_agent.function_levels", Superuser),
    ("memory_agent.history_is_open", Superuser),
    ("memory_agent.public_schema", Superuser),
    ("memory_agent.renew_levels", Superuser),
    ("memory_agent.refuse_history_change", Superuser),
    ("memory_agent.require_owner", Superuser),
    ("memory_agent.require_role", Superuser),
    ("memory_agent.revoke_all", Superuser),
    ("memory_agent.visible_users", Reader),
    ("public.memory_add", User),
    ("public.memory_add_document", User),
    ("public.memory_attach", Admin),
    ("public.memory_augment", Reader),
    ("public.memory_augment_block", Reader),
    ("public.memory_chat", User),
    ("public.memory_backfill", User),
    ("public.memory_clear", User),
    ("public.memory_close_episode", User),
    ("public.memory_archive", User),
    ("public.memory_compress", User),
    ("public.memory_configure", User),
    ("public.memory_context", Reader),
    ("public.memory_count_tokens", Reader),
    ("public.memory_create_token", Admin),
    ("public.memory_create_vector_index", Admin),
    ("public.memory_detach", Admin),
    ("public.memory_drop_endpoint", Superuser),
    ("public.memory_embed", Reader),
    ("public.memory_enable_endpoint", Superuser),
    ("public.memory_erase", User),
    ("public.memory_explain", Reader),
    ("public.memory_export_markdown", Reader),
    ("public.memory_export_json", Reader),
    ("public.memory_forget", User),
    ("public.memory_grant", Superuser),
    ("public.memory_history", Reader),
    ("public.memory_import_markdown", User),
    ("public.memory_import_json", User),
    ("public.memory_ingest", User),
    ("public.memory_ingest_batch", User),
    ("public.memory_ingest_once", User),
    ("public.memory_list", Reader),
    ("public.memory_state", Reader),
    ("public.memory_recall_times", Reader),
    ("public.memory_list_documents", Reader),
    ("public.memory_list_endpoints", Admin),
    ("public.memory_list_quotas", Admin),
    ("public.memory_list_tokens", Admin),
    ("public.memory_load", Reader),
    ("public.memory_originals", Reader),
    ("public.memory_recall", Reader),
    ("public.memory_register_model", Admin),
    ("public.memory_rerank", Reader),
    ("public.memory_reserve_tokens", User),
    ("public.memory_restore", User),
    ("public.memory_retry", User),
    ("public.memory_revoke", Superuser),
    ("public.memory_revoke_token", Admin),
    ("public.memory_search_archive", Reader),
    ("public.memory_set_endpoint", Superuser),
    ("public.memory_set_quota", Admin),
    ("public.memory_spend", Gateway),
    ("public.memory_spent_today", Admin),
    ("public.memory_stats", Reader),
    ("public.memory_status", Reader),
    ("public.memory_summarize", User),
    ("public.memory_token_user", Gateway),
    ("public.memory_update", User),
    ("public.memory_usage", Reader),
    ("public.memory_use_embedding_model", Admin),
    ("public.memory_use_endpoint", Admin),
    ("public.memory_verify_history", Reader),
    ("public.memory_wait", User),
];

/// Triggers and rules on the extension's tables and views. What they run runs as the role that writes.
const TRIGGERS: &[&str] = &[
    "memory_agent.history history_is_append_only",
    "memory_agent.history history_is_not_truncated",
];

/// Table privileges of which no role has one.
const WRITING: [&str; 6] = ["INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"];

/// Members of the extension of one catalog.
fn members(client: &mut Client, catalog: &str, name: &str) -> BTreeSet<String> {
    let query = format!(
        "SELECT {name} FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid \
         AND e.extname = 'memory_agent' \
           JOIN {catalog} o ON o.oid = d.objid \
          WHERE d.deptype = 'e' AND d.classid = '{catalog}'::regclass"
    );
    client.query(&query, &[]).unwrap().iter().map(|row| row.get(0)).collect()
}

fn listed(objects: &[(&str, Level)]) -> BTreeSet<String> {
    objects.iter().map(|(name, _)| (*name).to_owned()).collect()
}

#[test]
fn every_object_is_listed() {
    let mut client = shared().database("matrix_listed").connect();
    let relations =
        members(&mut client, "pg_class", "o.relnamespace::regnamespace || '.' || o.relname");
    assert_eq!(relations, listed(RELATIONS), "RELATIONS has to name each table and view");
    let functions =
        members(&mut client, "pg_proc", "o.pronamespace::regnamespace || '.' || o.proname");
    assert_eq!(functions, listed(FUNCTIONS), "FUNCTIONS has to name each function");
    // Sequences, types and operators would need rows of their own. (Since PostgreSQL 17 the row types of
    // tables and views are members as well.)
    let kinds: Vec<String> = client
        .query(
            "SELECT DISTINCT d.classid::regclass::text FROM pg_depend d \
             JOIN pg_extension e ON e.oid = d.refobjid \
              WHERE d.deptype = 'e' AND e.extname = 'memory_agent' \
                AND NOT EXISTS (SELECT FROM pg_type t LEFT JOIN pg_type i ON i.oid = t.typelem \
                                 WHERE d.classid = 'pg_type'::regclass AND t.oid = d.objid \
                                   AND (t.typrelid <> 0 OR i.typrelid <> 0)) ORDER BY 1",
            &[],
        )
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert_eq!(kinds, ["pg_class", "pg_namespace", "pg_proc"]);
}

/// Triggers and rules belong to their tables, not to the extension.
#[test]
fn every_trigger_is_listed() {
    let mut client = shared().database("matrix_triggers").connect();
    let of_members = "SELECT o.oid, o.oid::regclass::text AS name FROM pg_class o \
                        JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = o.oid \
                        JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'memory_agent' \
                       WHERE d.deptype = 'e'";
    let query = format!(
        "WITH member AS ({of_members}) \
         SELECT m.name || ' ' || t.tgname FROM member m JOIN pg_trigger t ON t.tgrelid = m.oid \
          WHERE NOT t.tgisinternal \
         UNION ALL \
         SELECT m.name || ' ' || r.rulename FROM member m JOIN pg_rewrite r ON r.ev_class = m.oid \
          WHERE r.rulename <> '_RETURN' ORDER BY 1"
    );
    let found: Vec<String> =
        client.query(&query, &[]).unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(found, TRIGGERS, "TRIGGERS has to name each trigger and rule");
    let event_triggers = "SELECT count(*) FROM pg_event_trigger";
    assert_eq!(client.query_one(event_triggers, &[]).unwrap().get::<_, i64>(0), 0);
}

#[test]
fn relations_are_read_by_their_level_and_written_by_nobody() {
    let database = shared().database("matrix_relations");
    let mut superuser = database.connect();
    for (role, level) in &roles(&mut superuser, "relations") {
        let mut client = shared().connect_as(database.name(), role);
        for (relation, lowest) in RELATIONS {
            let may_read = level >= lowest;
            let read = client.execute(&format!("SELECT FROM {relation}"), &[]);
            assert_eq!(allowed(&read), may_read, "{role} reads {relation}: {read:?}");
            if *level == Superuser {
                continue;
            }
            for privilege in WRITING {
                let has =
                    format!("SELECT has_table_privilege('{role}', '{relation}', '{privilege}')");
                assert!(!flag(&mut superuser, &has), "{role} has {privilege} on {relation}");
            }
            for privilege in ["INSERT", "UPDATE", "REFERENCES"] {
                let has = format!(
                    "SELECT has_any_column_privilege('{role}', '{relation}', '{privilege}')"
                );
                assert!(
                    !flag(&mut superuser, &has),
                    "{role} has {privilege} on a column of {relation}"
                );
            }
            let is_table = relation.starts_with("memory_agent.");
            let statements = [
                format!("INSERT INTO {relation} DEFAULT VALUES"),
                format!("DELETE FROM {relation}"),
                format!("COPY {relation} FROM STDIN"),
                format!("SELECT FROM {relation} FOR UPDATE"),
                format!("BEGIN; LOCK TABLE {relation} IN SHARE MODE"),
            ];
            let of_tables = [format!("TRUNCATE {relation}")];
            for statement in statements.iter().chain(of_tables.iter().filter(|_| is_table)) {
                let result = client.batch_execute(statement);
                // That a view cannot be written at all is noticed first.
                let is_no_table = matches!(&result, Err(error) if sqlstate(error) == "55000");
                assert!(
                    !allowed(&result) || (is_no_table && !is_table),
                    "{role} may run {statement}: {result:?}"
                );
                client.batch_execute("ROLLBACK").unwrap();
            }
        }
        let creates = format!("SELECT has_schema_privilege('{role}', 'memory_agent', 'CREATE')");
        assert_eq!(
            flag(&mut superuser, &creates),
            *level == Superuser,
            "{role} creates in memory_agent"
        );
    }
}

#[test]
fn functions_are_called_by_their_level() {
    let database = shared().database("matrix_functions");
    let roles = roles(&mut database.connect(), "functions");
    let calls = calls(&mut database.connect(), "functions_nothing");
    for (role, level) in &roles {
        let mut client = shared().connect_as(database.name(), role);
        for (function, call) in &calls {
            let lowest = FUNCTIONS.iter().find(|(name, _)| name == function).unwrap().1;
            let result = client.query(call, &[]);
            assert_eq!(allowed(&result), *level >= lowest, "{role}, {call}: {result:?}");
        }
    }
}

/// EXECUTE that an administrator granted by hand gives nothing: functions ask for the level themselves.
#[test]
fn privileges_without_a_level_are_not_enough() {
    let database = shared().database("matrix_bare");
    let mut superuser = database.connect();
    create_roles(&mut superuser, &["bare"]);
    superuser
        .batch_execute(
            "GRANT USAGE ON SCHEMA memory_agent TO bare; \
             GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public, memory_agent TO bare",
        )
        .unwrap();
    let mut client = shared().connect_as(database.name(), "bare");
    // These look up what anyone may look up, or tell that nothing is open.
    let harmless = ["function_levels", "history_is_open", "public_schema", "require_role"];
    for (function, call) in calls(&mut superuser, "bare") {
        // An unknown level is noticed before the caller is asked for theirs.
        let call =
            if function == "public.memory_grant" { call.replace("'x'", "'user'") } else { call };
        let result = client.query(&call, &[]);
        let is_harmless =
            function.strip_prefix("memory_agent.").is_some_and(|name| harmless.contains(&name));
        assert_eq!(allowed(&result), is_harmless, "{call}: {result:?}");
    }
}

/// One role of each kind.
fn roles(superuser: &mut Client, test: &str) -> Vec<(String, Level)> {
    let mut roles = vec![("postgres".to_owned(), Superuser)];
    for (name, level) in [
        ("nothing", Nothing),
        ("reader", Reader),
        ("user", User),
        ("gateway", Gateway),
        ("admin", Admin),
    ] {
        let role = format!("{test}_{name}");
        create_roles(superuser, &[&role]);
        if level != Nothing {
            grant(superuser, &role, name);
        }
        roles.push((role, level));
    }
    roles
}

/// A call of each function with an argument for each parameter, so that no strict one is skipped.
/// Trigger functions cannot be called.
fn calls(client: &mut Client, role_argument: &str) -> Vec<(String, String)> {
    let query = "SELECT p.pronamespace::regnamespace || '.' || p.proname, \
                        ARRAY(SELECT format_type(t.oid, NULL) \
                        FROM unnest(p.proargtypes) WITH ORDINALITY t(oid, place) \
                               ORDER BY place) \
                   FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'memory_agent' \
                   JOIN pg_proc p ON p.oid = d.objid AND d.classid = 'pg_proc'::regclass \
                  WHERE d.deptype = 'e' AND p.prorettype <> 'trigger'::regtype ORDER BY 1";
    client
        .query(query, &[])
        .unwrap()
        .iter()
        .map(|row| {
            let function: String = row.get(0);
            let types: Vec<String> = row.get(1);
            let arguments: Vec<String> =
                types.iter().map(|of| argument(of, role_argument)).collect();
            let call = format!("SELECT * FROM {function}({})", arguments.join(", "));
            (function, call)
        })
        .collect()
}

fn argument(type_name: &str, role: &str) -> String {
    let value = match type_name {
        "text" => "'x'",
        "text[]" => "ARRAY['custom:x']",
        "jsonb" => "'{}'",
        "integer" | "bigint" => "1",
        "bytea" => "'\\x00'",
        "real" | "double precision" => "0.5",
        "boolean" => "false",
        "timestamp with time zone" => "now()",
        "interval" => "'1 second'",
        "uuid" => "gen_random_uuid()",
        "uuid[]" => "ARRAY[gen_random_uuid()]",
        "vector" | "regclass" => "NULL",
        "regrole" => return format!("'{role}'::regrole"),
        other => panic!("no argument of type {other} known: add one"),
    };
    format!("{value}::{type_name}")
}

/// Whether a statement was allowed, whatever else became of it.
fn allowed<T>(result: &Result<T, Error>) -> bool {
    !matches!(result, Err(error) if sqlstate(error) == "42501")
}

fn flag(client: &mut Client, query: &str) -> bool {
    client.query_one(query, &[]).unwrap().get(0)
}
