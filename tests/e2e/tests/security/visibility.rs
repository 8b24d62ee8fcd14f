//! Row-level security on every table that holds content, and the known ways around such policies.

use crate::{create_roles, grant, remember, set, users};
use memory_agent_e2e::{Client, Database, expect_error, shared};
use std::collections::BTreeSet;
use std::io::Read;

/// Tables that hold nothing of a user.
const WITHOUT_USERS: [&str; 3] = ["attachments", "grants", "models"];

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
    (
        "session_summaries",
        "(id, user_id, agent_id, session_id, level, content, method) \
         VALUES (gen_random_uuid(), $1, 'a', 's', 'L3', 'c', 'brief')",
    ),
    (
        "sessions",
        "(user_id, agent_id, session_id, created_at, last_turn_at) VALUES ($1, 'a', 's', now(), now())",
    ),
    (
        "traces",
        "(id, user_id, agent_id, session_id, body) VALUES (gen_random_uuid(), $1, 'a', 's', '{}')",
    ),
];

const VIEWS: [&str; 5] = [
    "memory_entries",
    "memory_jobs",
    "memory_llm_calls",
    "memory_session_summaries",
    "memory_traces",
];

/// A database with rows of `alice`, `bob` and everyone in all tables, and a role of level admin: the
/// only one that may read them all.
fn filled(name: &'static str, role: &str) -> Database<'static> {
    let database = shared().database(name);
    let mut superuser = database.connect();
    create_roles(&mut superuser, &[role]);
    grant(&mut superuser, role, "admin");
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
        assert_eq!(policies, [expected], "policies of {table}");
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

/// A view, a table function or a COPY of one's own changes nothing about whose rows they are.
#[test]
fn detours_show_no_more() {
    let database = filled("visibility_detours", "detours_admin");
    database.connect().batch_execute("GRANT CREATE ON SCHEMA public TO detours_admin").unwrap();
    let mut client = database.connect_as("detours_admin");
    client
        .batch_execute(
            "CREATE VIEW public.mine AS SELECT * FROM memory_agent.entries; \
             CREATE FUNCTION public.definer() RETURNS SETOF text SECURITY DEFINER LANGUAGE sql \
                 AS 'SELECT user_id FROM memory_agent.entries'; \
             CREATE MATERIALIZED VIEW public.kept AS SELECT user_id FROM memory_agent.entries",
        )
        .unwrap();
    for query in [
        "SELECT user_id FROM public.mine",
        "SELECT public.definer()",
        "WITH e AS MATERIALIZED (SELECT * FROM memory_agent.entries) SELECT user_id FROM e",
        "SELECT e.user_id FROM memory_agent.entry_windows w RIGHT JOIN memory_agent.entries e USING (user_id)",
        "SELECT (SELECT max(user_id) FROM memory_agent.entries)",
        "SELECT user_id FROM memory_agent.entries TABLESAMPLE BERNOULLI (100)",
    ] {
        let seen = users(&mut client, query).unwrap_or_else(|error| panic!("{query}: {error:?}"));
        assert!(seen.is_subset(&set(&["*", "alice"])), "{query}: {seen:?}");
    }
    // What was kept when alice asked holds what alice saw.
    client.batch_execute("SET memory_agent.user_id = 'bob'").unwrap();
    assert!(!users(&mut client, "SELECT user_id FROM public.kept").unwrap().contains("bob"));
    let mut copied = String::new();
    client
        .copy_out("COPY memory_agent.entries (content) TO STDOUT")
        .unwrap()
        .read_to_string(&mut copied)
        .unwrap();
    assert!(copied.contains("of bob") && !copied.contains("of alice"), "{copied}");
    // Statistics hold values of rows; PostgreSQL hides those of guarded tables.
    database.connect().batch_execute("ANALYZE memory_agent.entries").unwrap();
    let statistics =
        "SELECT count(*) FROM pg_stats WHERE schemaname = 'memory_agent' AND tablename = 'entries'";
    assert_eq!(client.query_one(statistics, &[]).unwrap().get::<_, i64>(0), 0);
}

/// A cheap function in WHERE must not be shown rows that the policy would remove.
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
    client.execute("SELECT FROM memory_agent.entries WHERE pg_temp.peek(user_id)", &[]).unwrap();
    client.execute("SELECT FROM memory_entries WHERE pg_temp.peek(user_id)", &[]).unwrap();
    assert_eq!(users(&mut client, "SELECT user_id FROM shown").unwrap(), set(&["*", "alice"]));
    // Errors of conditions name values: 'of bob' is no number, and is never tried.
    let conditional = "SELECT FROM memory_agent.entries \
                       WHERE replace(content, 'of alice', '1')::int = 1 AND user_id <> '*'";
    assert_eq!(client.execute(conditional, &[]).unwrap(), 1);
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
    let query =
        "SELECT user_id, count(*) FROM memory_agent.entries GROUP BY user_id ORDER BY user_id";
    let plan: Vec<String> = client
        .query(&format!("EXPLAIN {query}"), &[])
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert!(plan.iter().any(|line| line.contains("Workers Planned")), "{plan:#?}");
    let rows = client.query(query, &[]).unwrap();
    let counts: Vec<(String, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(counts, [("*".to_owned(), 1), ("alice".to_owned(), 2001)]);
}

#[test]
fn prepared_statements_follow_the_identity() {
    let database = filled("visibility_prepared", "prepared_admin");
    let mut client = database.connect_as("prepared_admin");
    let statement = client.prepare("SELECT user_id FROM memory_agent.entries").unwrap();
    // More than the five executions after which PostgreSQL may settle on a generic plan.
    for user in ["alice", "bob", "alice", "bob", "alice", "bob", "alice", "bob"] {
        client.batch_execute(&format!("SET memory_agent.user_id = '{user}'")).unwrap();
        let seen: BTreeSet<String> =
            client.query(&statement, &[]).unwrap().iter().map(|row| row.get(0)).collect();
        assert_eq!(seen, set(&["*", user]));
    }
}

/// Without its library the policy's function cannot answer, and then nobody sees anything.
#[test]
fn a_missing_library_shows_nothing() {
    let database = filled("visibility_missing", "missing_admin");
    database
        .connect()
        .batch_execute(
            "UPDATE pg_proc SET probin = '$libdir/no_such_library' WHERE proname = 'visible_users'",
        )
        .unwrap();
    let mut client = shared().connect_as(database.name(), "missing_admin");
    for (table, _) in ROWS {
        expect_error(
            client.query(&format!("SELECT user_id FROM memory_agent.{table}"), &[]),
            "58P01",
        );
    }
    let mut reader: Client = database.connect_as("missing_admin");
    expect_error(reader.query("SELECT user_id FROM memory_entries", &[]), "58P01");
}

/// Who was given SELECT by hand, but no level, has no answer from the policy either.
#[test]
fn select_without_a_level_shows_nothing() {
    let database = shared().database("visibility_bare");
    let mut superuser = database.connect();
    create_roles(&mut superuser, &["bare_reader"]);
    remember(&mut superuser, "alice", "of alice");
    superuser
        .batch_execute(
            "GRANT USAGE ON SCHEMA memory_agent TO bare_reader; \
             GRANT SELECT ON memory_agent.entries TO bare_reader",
        )
        .unwrap();
    let mut client = database.connect_as("bare_reader");
    expect_error(client.query("SELECT user_id FROM memory_agent.entries", &[]), "42501");
}
