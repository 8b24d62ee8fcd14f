//! Whose rows views show, row-level security on every table that holds content, and the known ways around
//! such views and policies.

use crate::{create_roles, grant, remember, set, users};
use memory_agent_e2e::memory::values;
use memory_agent_e2e::{Client, Database, expect_error, shared};
use std::collections::BTreeSet;
use std::io::Read;

/// Tables that hold nothing of a user.
const WITHOUT_USERS: [&str; 7] =
    ["attachments", "endpoint_uses", "endpoints", "grants", "llm_probes", "models", "spending"];
/// Of those, what no privilege makes readable either: addresses, and who has spent what.
const CLOSED: [&str; 4] = ["endpoint_uses", "endpoints", "llm_probes", "spending"];

/// One row in every table that has users, for `$user`.
const ROWS: &[(&str, &str)] = &[
    ("agents", "(user_id, agent_id) VALUES ($1, 'a')"),
    (
        "archives",
        "(id, user_id, agent_id, namespace, doc_type, content, content_hash) \
         VALUES (gen_random_uuid(), $1, 'a', 'n', 'd', 'c', '')",
    ),
    (
        "entries",
        "(id, user_id, agent_id, kind, role, content, token_count, lexemes, lexeme_config, \
          doc_len, created_at) \
         VALUES (gen_random_uuid(), $1, 'a', 'turn', 'user', 'of ' || $1, 1, '', 'english', 0, now())",
    ),
    (
        "entry_windows",
        "SELECT e.user_id, e.id, 1, '[1,2,3]', 'm' FROM memory_agent.entries e WHERE e.user_id = $1 LIMIT 1",
    ),
    (
        "episodes",
        "(id, user_id, agent_id, session_id, started_at, ended_at) \
         VALUES (gen_random_uuid(), $1, 'a', 's', now(), now())",
    ),
    ("history", "(id, user_id, op, commitment) VALUES (gen_random_uuid(), $1, 'add', '')"),
    ("jobs", "(id, user_id, kind) VALUES (gen_random_uuid(), $1, 'embed')"),
    (
        "llm_calls",
        "(id, user_id, purpose, model, status) VALUES (gen_random_uuid(), $1, 'p', 'm', 'ok')",
    ),
    ("quota_counts", "(user_id, id, entries, bytes) VALUES ($1, gen_random_uuid(), 1, 1)"),
    ("quotas", "(user_id, entries) VALUES ($1, 1)"),
    (
        "session_summaries",
        "(id, user_id, agent_id, session_id, level, content, method) \
         VALUES (gen_random_uuid(), $1, 'a', 's', 'L3', 'c', 'brief')",
    ),
    (
        "sessions",
        "(user_id, agent_id, session_id, created_at, last_turn_at) VALUES ($1, 'a', 's', now(), now())",
    ),
    ("tokens", "(user_id, name, hash) VALUES ($1, 't', sha256($1::text::bytea))"),
    (
        "traces",
        "(id, user_id, agent_id, session_id, body) VALUES (gen_random_uuid(), $1, 'a', 's', '{}')",
    ),
];

const VIEWS: [&str; 10] = [
    "memory_agents",
    "memory_archives",
    "memory_changes",
    "memory_entries",
    "memory_episodes",
    "memory_jobs",
    "memory_llm_calls",
    "memory_session_summaries",
    "memory_sessions",
    "memory_traces",
];

/// Where entries are read: where levels read them, and the table, whose policy stands behind that.
const ENTRIES: [&str; 2] = ["memory_entries", "memory_agent.entries"];

/// A database with rows of `alice`, `bob` and everyone in all tables, and a role of level admin, the only
/// one that reads all views. It was granted by hand what no level gives: SELECT on the tables.
fn filled(name: &'static str, role: &str) -> Database<'static> {
    let database = shared().database(name);
    let mut superuser = database.connect();
    create_roles(&mut superuser, &[role]);
    grant(&mut superuser, role, "admin");
    superuser
        .batch_execute(&format!("GRANT SELECT ON ALL TABLES IN SCHEMA memory_agent TO {role}"))
        .unwrap();
    for (table, row) in ROWS {
        for user in ["alice", "bob", "*"] {
            superuser
                .execute(&format!("INSERT INTO memory_agent.{table} {row}"), &[&user])
                .unwrap_or_else(|error| panic!("{table}: {error:?}"));
        }
    }
    database
}

#[test]
fn every_table_with_users_is_guarded() {
    let mut client = shared().database("visibility_policies").connect();
    let query = "\
        SELECT c.relname::text, c.relrowsecurity, \
               EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'user_id' \
               AND NOT a.attisdropped), \
               ARRAY(SELECT p.polcmd::text || ' ' || pg_get_expr(p.polqual, p.polrelid) \
               FROM pg_policy p WHERE p.polrelid = c.oid) \
          FROM pg_class c WHERE c.relnamespace = 'memory_agent'::regnamespace \
          AND c.relkind IN ('r', 'p') ORDER BY 1";
    let policy =
        "r (user_id = ANY (( SELECT memory_agent.visible_users() AS visible_users)::text[]))";
    let mut guarded = Vec::new();
    for row in client.query(query, &[]).unwrap() {
        let (table, is_enabled, has_users): (String, bool, bool) =
            (row.get(0), row.get(1), row.get(2));
        // The user of an attachment is what its rows are stored as. Only administrators read it.
        let has_users = has_users && table != "attachments";
        assert_eq!(
            has_users,
            !WITHOUT_USERS.contains(&table.as_str()),
            "WITHOUT_USERS and {table}"
        );
        // Without a policy for writers a privilege to write changes nothing.
        assert!(is_enabled, "row-level security of {table}");
        let policies: Vec<String> = row.get(3);
        let expected = if has_users { policy } else { "r true" };
        let expected = if CLOSED.contains(&table.as_str()) { &[][..] } else { &[expected][..] };
        assert_eq!(policies, expected, "policies of {table}");
        if has_users {
            guarded.push(table);
        }
    }
    let rows: Vec<&str> = ROWS.iter().map(|(table, _)| *table).collect();
    assert_eq!(guarded, rows, "ROWS has to name each table with users");
}

#[test]
fn tables_and_views_show_own_and_shared_rows() {
    let database = filled("visibility_rows", "rows_admin");
    let tables = ROWS.iter().map(|(table, _)| format!("memory_agent.{table}"));
    for relation in tables.chain(VIEWS.map(str::to_owned)) {
        let query = format!("SELECT DISTINCT user_id FROM {relation}");
        let mut client = shared().connect_as(database.name(), "rows_admin");
        assert_eq!(
            users(&mut client, &query).unwrap(),
            set(&["*"]),
            "{relation} without a setting"
        );
        for user in ["alice", "bob"] {
            client.batch_execute(&format!("SET memory_agent.user_id = '{user}'")).unwrap();
            assert_eq!(users(&mut client, &query).unwrap(), set(&["*", user]), "{relation}");
        }
        client.batch_execute("SET memory_agent.user_id = 'nobody'").unwrap();
        assert_eq!(users(&mut client, &query).unwrap(), set(&["*"]), "{relation}");
    }
}

/// Roles that row-level security does not hold see all rows, also those that belong to no user.
#[test]
fn superusers_see_every_row_of_a_view_once() {
    let database = filled("visibility_superuser", "superuser_admin");
    let mut superuser = database.connect();
    superuser
        .batch_execute(
            "INSERT INTO memory_agent.jobs (id, kind) VALUES (gen_random_uuid(), 'reembed'); \
             CREATE ROLE visibility_deputy LOGIN IN ROLE postgres; \
             CREATE ROLE visibility_auditor LOGIN BYPASSRLS; \
             GRANT SELECT ON ALL TABLES IN SCHEMA public TO visibility_auditor; \
             GRANT EXECUTE ON FUNCTION memory_agent.visible_users() TO visibility_auditor",
        )
        .unwrap();
    for role in ["postgres", "visibility_deputy", "visibility_auditor"] {
        let mut client = shared().connect_as(database.name(), role);
        for view in VIEWS {
            let query = format!(
                "SELECT array_agg(concat_ws('', user_id) ORDER BY user_id COLLATE \"C\") FROM {view}"
            );
            let users: Vec<String> = client.query_one(&query, &[]).unwrap().get(0);
            let nobodys = if view == "memory_jobs" { vec![""] } else { vec![] };
            assert_eq!(users, [vec!["*", "alice", "bob"], nobodys].concat(), "{role}: {view}");
        }
    }
}

/// A view, a table function or a COPY of one's own changes nothing about whose rows they are.
#[test]
fn detours_show_no_more() {
    let database = filled("visibility_detours", "detours_admin");
    database.connect().batch_execute("GRANT CREATE ON SCHEMA public TO detours_admin").unwrap();
    let mut client = database.connect_as("detours_admin");
    for (number, entries) in ENTRIES.into_iter().enumerate() {
        client.batch_execute("SET memory_agent.user_id = 'alice'").unwrap();
        client
            .batch_execute(&format!(
                "CREATE VIEW public.mine{number} AS SELECT * FROM {entries}; \
                 CREATE FUNCTION public.definer{number}() RETURNS SETOF text SECURITY DEFINER LANGUAGE sql \
                     AS 'SELECT user_id FROM {entries}'; \
                 CREATE MATERIALIZED VIEW public.kept{number} AS SELECT user_id FROM {entries}"
            ))
            .unwrap();
        for query in [
            format!("SELECT user_id FROM public.mine{number}"),
            format!("SELECT public.definer{number}()"),
            format!("WITH e AS MATERIALIZED (SELECT * FROM {entries}) SELECT user_id FROM e"),
            format!(
                "SELECT e.user_id FROM memory_archives w RIGHT JOIN {entries} e USING (user_id)"
            ),
            format!("SELECT (SELECT max(user_id) FROM {entries})"),
            format!("SELECT user_id FROM ONLY {entries}"),
            format!("SELECT (e).user_id FROM (SELECT e FROM {entries} e) e"),
            "SELECT user_id FROM memory_agent.entries TABLESAMPLE BERNOULLI (100)".to_owned(),
        ] {
            let seen =
                users(&mut client, &query).unwrap_or_else(|error| panic!("{query}: {error:?}"));
            assert!(seen.is_subset(&set(&["*", "alice"])), "{query}: {seen:?}");
        }
        // What was kept when alice asked holds what alice saw.
        client.batch_execute("SET memory_agent.user_id = 'bob'").unwrap();
        let kept = format!("SELECT user_id FROM public.kept{number}");
        assert!(!users(&mut client, &kept).unwrap().contains("bob"));
        let mut copied = String::new();
        client
            .copy_out(&format!("COPY (SELECT content FROM {entries}) TO STDOUT"))
            .unwrap()
            .read_to_string(&mut copied)
            .unwrap();
        assert!(copied.contains("of bob") && !copied.contains("of alice"), "{copied}");
    }
}

/// A cheap function in WHERE must not be shown rows that the view or the policy would remove.
#[test]
fn conditions_run_after_the_policy() {
    let database = filled("visibility_leak", "leak_admin");
    let mut client = database.connect_as("leak_admin");
    client
        .batch_execute(
            "CREATE TEMP TABLE shown (user_id text); \
             CREATE FUNCTION pg_temp.peek(u text) RETURNS boolean COST 0.0000001 LANGUAGE plpgsql \
                 AS 'BEGIN INSERT INTO shown VALUES (u); RETURN true; END'",
        )
        .unwrap();
    for entries in ENTRIES {
        client.execute(&format!("SELECT FROM {entries} WHERE pg_temp.peek(user_id)"), &[]).unwrap();
        let shown = users(&mut client, "SELECT user_id FROM shown").unwrap();
        assert_eq!(shown, set(&["*", "alice"]), "{entries}");
        // Errors of conditions name values: 'of bob' is no number, and is never tried.
        let conditional = format!(
            "SELECT FROM {entries} WHERE replace(content, 'of alice', '1')::int = 1 AND user_id <> '*'"
        );
        assert_eq!(client.execute(&conditional, &[]).unwrap(), 1);
    }
}

#[test]
fn parallel_workers_see_the_same() {
    let database = filled("visibility_parallel", "parallel_admin");
    let mut superuser = database.connect();
    let (table, row) = ROWS.iter().find(|(table, _)| *table == "entries").unwrap();
    for user in ["alice", "bob"] {
        let many = format!(
            "DO $$ BEGIN FOR i IN 1..2000 LOOP INSERT INTO memory_agent.{table} {}; END LOOP; END $$",
            row.replace("$1", &format!("'{user}'"))
        );
        superuser.batch_execute(&many).unwrap();
    }
    superuser.batch_execute("ANALYZE memory_agent.entries").unwrap();
    let mut client = database.connect_as("parallel_admin");
    client
        .batch_execute(
            "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; \
             SET max_parallel_workers_per_gather = 2; SET enable_indexscan = off; SET enable_bitmapscan = off; \
             SET enable_indexonlyscan = off",
        )
        .unwrap();
    for entries in ENTRIES {
        let query =
            format!("SELECT user_id, count(*) FROM {entries} GROUP BY user_id ORDER BY user_id");
        let plan: Vec<String> = client
            .query(&format!("EXPLAIN {query}"), &[])
            .unwrap()
            .iter()
            .map(|row| row.get(0))
            .collect();
        // A view's rows are found by one process.
        let is_parallel = plan.iter().any(|line| line.contains("Workers Planned"));
        assert!(is_parallel || entries == "memory_entries", "{plan:#?}");
        let rows = client.query(&query, &[]).unwrap();
        let counts: Vec<(String, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        assert_eq!(counts, [("*".to_owned(), 1), ("alice".to_owned(), 2001)], "{entries}");
    }
}

#[test]
fn prepared_statements_follow_the_identity() {
    let database = filled("visibility_prepared", "prepared_admin");
    let mut client = database.connect_as("prepared_admin");
    for entries in ENTRIES {
        let statement = client.prepare(&format!("SELECT user_id FROM {entries}")).unwrap();
        // More than the five executions after which PostgreSQL may settle on a generic plan.
        for user in ["alice", "bob", "alice", "bob", "alice", "bob", "alice", "bob"] {
            client.batch_execute(&format!("SET memory_agent.user_id = '{user}'")).unwrap();
            let seen: BTreeSet<String> =
                client.query(&statement, &[]).unwrap().iter().map(|row| row.get(0)).collect();
            assert_eq!(seen, set(&["*", user]), "{entries}");
        }
    }
}

/// Without its library the function that says whose rows are shown cannot answer, and then nobody sees
/// anything.
#[test]
fn a_missing_library_shows_nothing() {
    let database = filled("visibility_missing", "missing_admin");
    database
        .connect()
        .batch_execute(
            "UPDATE pg_proc SET probin = '$libdir/no_such_library' WHERE proname = 'visible_users'",
        )
        .unwrap();
    let mut client: Client = shared().connect_as(database.name(), "missing_admin");
    let tables = ROWS.iter().map(|(table, _)| format!("memory_agent.{table}"));
    for relation in tables.chain(VIEWS.map(str::to_owned)) {
        expect_error(client.query(&format!("SELECT user_id FROM {relation}"), &[]), "58P01");
    }
}

/// Who was given SELECT by hand, and also EXECUTE, but no level, has no answer from view and policy.
#[test]
fn select_without_a_level_shows_nothing() {
    let database = shared().database("visibility_bare");
    let mut superuser = database.connect();
    create_roles(&mut superuser, &["bare_reader"]);
    remember(&mut superuser, "alice", "of alice");
    for privileges in [
        "GRANT USAGE ON SCHEMA memory_agent TO bare_reader; \
         GRANT SELECT ON memory_agent.entries, memory_entries TO bare_reader",
        "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA memory_agent TO bare_reader",
    ] {
        superuser.batch_execute(privileges).unwrap();
        let mut client = database.connect_as("bare_reader");
        for entries in ENTRIES {
            expect_error(client.query(&format!("SELECT user_id FROM {entries}"), &[]), "42501");
        }
    }
}

#[test]
fn a_user_reads_their_own_traces() {
    let database = filled("visibility_traces", "traces_admin");
    let mut superuser = database.connect();
    create_roles(&mut superuser, &["traces_user", "traces_reader"]);
    grant(&mut superuser, "traces_user", "user");
    grant(&mut superuser, "traces_reader", "reader");
    let mut client = database.connect_as("traces_user");
    client.batch_execute("SET memory_agent.user_id = 'alice'").unwrap();
    let users: Vec<String> = values(
        &mut client,
        "SELECT user_id FROM memory_traces ORDER BY user_id COLLATE \"C\"",
        &[],
    );
    assert_eq!(users, ["*", "alice"]);
    let mut reader = database.connect_as("traces_reader");
    expect_error(reader.query("SELECT FROM memory_traces", &[]), "42501");
}
