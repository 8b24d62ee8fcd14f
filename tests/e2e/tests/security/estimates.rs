//! What the planner knows of others' rows is told to nobody. Its statistics hold values of all users, and
//! row-level security does not hide them: who may read a table has EXPLAIN estimate conditions from them,
//! and EXPLAIN ANALYZE count the rows that an index found. So levels read views that the planner neither
//! looks through nor moves conditions into. Here everything that a level may read is guessed at.

mod walk;
mod world;

use crate::{create_roles, grant};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, Cluster, Database, expect_error, shared_without_worker, sqlstate};
use std::collections::BTreeSet;
use walk::{Depth, Told, explain, in_utc, readable, walk};
use world::{PLANTED, World, fill, guarded_tables, literal};

const LEVELS: [&str; 3] = ["reader", "user", "admin"];

/// All of EXPLAIN that depends on rows, nothing that depends on time.
const ANALYZE: &str = "ANALYZE, TIMING OFF, SUMMARY OFF";

/// A role of each level, which is a user as well, and rows of theirs and of others. Returns the roles, and
/// the words that others stored where only some are taken.
fn prepare(superuser: &mut Client, world: World, prefix: &str) -> (Vec<String>, BTreeSet<String>) {
    let roles: Vec<String> = LEVELS.iter().map(|level| format!("{prefix}_{level}")).collect();
    let names: Vec<&str> = roles.iter().map(String::as_str).collect();
    // Roles belong to the cluster, rows to the database.
    if !value::<bool>(superuser, "SELECT to_regrole($1) IS NOT NULL", &[&names[0]]) {
        create_roles(superuser, &names);
    }
    for (level, role) in LEVELS.iter().zip(&names) {
        grant(superuser, role, level);
    }
    let words = fill(superuser, world, &roles);
    (roles, words)
}

fn session(cluster: &Cluster, database: &str, role: &str) -> Client {
    let mut client = cluster.connect_as(database, role);
    run(&mut client, &format!("SET memory_agent.user_id = '{role}'"));
    in_utc(&mut client);
    client
}

fn names(told: &[Told]) -> BTreeSet<&str> {
    told.iter().map(|told| told.what.as_str()).collect()
}

/// What others stored is estimated and counted like what nobody did, in every column.
#[test]
fn guesses_are_all_alike() {
    let cluster = Cluster::builder().preload(true).setting("memory_agent.worker", "off").start();
    let mut superuser = cluster.database("db").connect();
    let (roles, words) = prepare(&mut superuser, World::Planted, "guessing");
    for (mode, role) in ["setting", "required", "role"].into_iter().zip(&roles) {
        cluster.alter_system("memory_agent.identity", Some(mode));
        let mut client = session(&cluster, "db", role);
        let targets = readable(&mut superuser, &mut client, role);
        assert!(targets.len() > 80, "{role} reads {}", targets.len());
        for relation in targets.iter().map(|target| &target.relation).collect::<BTreeSet<_>>() {
            let own = format!("SELECT count(*) BETWEEN 1 AND 2 FROM {relation}");
            assert!(value::<bool>(&mut client, &own, &[]), "{role} sees her rows of {relation}");
        }
        // The last one reads all that the others do.
        let depth = if mode == "role" { Depth::All } else { Depth::Some };
        for (scan, depth) in [("on", depth), ("off", Depth::Some)] {
            run(&mut client, &format!("SET enable_seqscan = {scan}"));
            let told = walk(&mut client, ANALYZE, &targets, &words, depth);
            assert!(told.is_empty(), "{role}, mode {mode}: {:#?} of {}", told[0], told.len());
        }
    }
}

/// The walk finds what there is: in the tables, and in views that have part of the fence.
#[test]
fn without_the_fence_columns_tell() {
    let database = shared_without_worker().database("estimates_open");
    let mut superuser = database.connect();
    let (roles, words) = prepare(&mut superuser, World::Planted, "open");
    let role = &roles[0];
    let mut client = session(shared_without_worker(), database.name(), role);

    // Granted by hand, as levels had it before 0.3.0.
    let tables = guarded_tables(&mut superuser).join(", memory_agent.");
    run(&mut superuser, &format!("GRANT SELECT ON memory_agent.{tables} TO {role}"));
    let targets = readable(&mut superuser, &mut client, role);
    let told = walk(&mut client, "COSTS ON", &targets, &words, Depth::All);
    let told = names(&told);
    assert!(told.iter().all(|what| what.starts_with("memory_agent.")), "{told:?}");
    // Their operators are not leakproof, so nothing is estimated for them where there is a policy; an id is
    // there once, and so is a user with a quota; and the indexes on expressions are partial.
    let is_silent = |of_type: &str, expression: &str| {
        let is_column = expression.starts_with("r.");
        ["jsonb", "vector"].contains(&of_type) || expression == "r.id" || !is_column
    };
    let silent: Vec<String> = targets
        .iter()
        .filter(|target| target.relation.starts_with("memory_agent."))
        .filter(|target| !is_silent(&target.of_type, &target.expression))
        .map(|target| format!("{}: {}", target.relation, target.expression))
        .filter(|what| what != "memory_agent.quotas: r.user_id" && !told.contains(what.as_str()))
        .collect();
    assert_eq!(silent, [""; 0]);
    assert!(told.len() > 100, "{told:?}");
    run(&mut superuser, &format!("REVOKE ALL ON memory_agent.{tables} FROM {role}"));

    let rows = "SELECT id, content, lexemes FROM memory_agent.entries \
                WHERE user_id = ANY ((SELECT memory_agent.visible_users())::text[])";
    for (name, with, end, options) in [
        ("without_offset", "security_barrier = true", "", "COSTS ON"),
        ("without_offset_counted", "security_barrier = true", "", ANALYZE),
        ("without_barrier", "security_barrier = false", "OFFSET 0", "COSTS ON"),
    ] {
        run(
            &mut superuser,
            &format!(
                "CREATE VIEW public.{name} WITH ({with}) AS {rows} {end}; \
                 GRANT SELECT ON public.{name} TO {role}"
            ),
        );
        let mut targets = readable(&mut superuser, &mut client, role);
        targets.retain(|target| target.relation == name);
        assert_eq!(targets.len(), 3, "{name}");
        let told = walk(&mut client, options, &targets, &words, Depth::All);
        assert!(names(&told).contains(format!("{name}: r.content").as_str()), "{name}: {told:?}");
    }
}

/// Queries that show how many values there are, how often the commonest, which the first and the last, or
/// that carry statistics through another shape of query.
const SHAPES: &[&str] = &[
    "SELECT {c} FROM {r} r GROUP BY 1",
    "SELECT DISTINCT ON ({c}) * FROM {r} r",
    "SELECT min({c}), max({c}), count(DISTINCT {c}) FROM {r} r",
    "SELECT * FROM {r} r ORDER BY {c} LIMIT 1",
    "SELECT rank() OVER (PARTITION BY {c}) FROM {r} r",
    "SELECT FROM {r} r WHERE {c} IS NULL",
    "SELECT FROM {r} r WHERE {c} NOT IN (SELECT {c} FROM {r} r)",
    "SELECT FROM {r} r JOIN (SELECT {c} AS c FROM {r} r) s ON {c} = s.c",
    "SELECT FROM {r} r LEFT JOIN (SELECT {c} AS c FROM {r} r) s ON {c} > s.c",
    "SELECT FROM {r} r JOIN (VALUES ({v}), ({v})) s(c) ON {c} = s.c",
    "SELECT FROM {r} r, LATERAL (SELECT FROM {r} s WHERE s = r OFFSET 0) l WHERE {c} = {v}",
    "SELECT FROM ONLY {r} r WHERE {c} = {v}",
    "SELECT r FROM {r} r WHERE r IS NOT NULL GROUP BY r",
    "SELECT FROM (SELECT {c} AS c FROM {r} r UNION SELECT {c} FROM {r} r) u WHERE c = {v}",
    "SELECT FROM (SELECT DISTINCT {c} AS c FROM {r} r) u WHERE c = {v}",
    "WITH w AS MATERIALIZED (SELECT * FROM {r} r) SELECT FROM w r WHERE {c} = {v}",
    "WITH w AS NOT MATERIALIZED (SELECT * FROM {r} r) SELECT FROM w r WHERE {c} = {v}",
    "DECLARE c SCROLL CURSOR FOR SELECT FROM {r} r WHERE {c} = {v}",
];

/// Where others have the same value over and over, and where they have another one in each row, EXPLAIN
/// says the same of every query.
#[test]
fn plans_do_not_depend_on_what_others_stored() {
    let cluster = shared_without_worker();
    let mut told = Vec::new();
    for (world, name) in
        [(World::Planted, "estimates_planted"), (World::Varied, "estimates_varied")]
    {
        let database: Database<'_> = cluster.database(name);
        let mut superuser = database.connect();
        let (roles, _) = prepare(&mut superuser, world, "worlds");
        let mut client = session(cluster, name, &roles[2]);
        let targets = readable(&mut superuser, &mut client, &roles[2]);
        let plans: Vec<(String, Result<String, String>)> = targets
            .iter()
            .flat_map(|target| SHAPES.iter().map(move |shape| (target, shape)))
            .map(|(target, shape)| {
                let query = shape
                    .replace("{c}", &target.expression)
                    .replace("{r}", &target.relation)
                    .replace("{v}", &literal(&target.of_type, PLANTED));
                let plan = explain(&mut client, "COSTS ON", &query);
                (query, plan)
            })
            .collect();
        told.push((targets.len(), plans));
    }
    let (targets, planted) = &told[0];
    assert!(*targets > 120, "{targets}");
    assert!(planted.iter().filter(|(_, plan)| plan.is_ok()).count() > targets * (SHAPES.len() - 3));
    for (planted, varied) in planted.iter().zip(&told[1].1) {
        assert_eq!(planted, varied);
    }
}

/// Statistics can be read of what can be read, index expressions and extended ones included.
#[test]
fn statistics_are_not_shown() {
    let database = shared_without_worker().database("estimates_statistics");
    let mut superuser = database.connect();
    let (mut roles, _) = prepare(&mut superuser, World::Planted, "statistics");
    create_roles(&mut superuser, &["statistics_nothing"]);
    roles.push("statistics_nothing".to_owned());
    run(
        &mut superuser,
        "CREATE STATISTICS public.pairs (mcv, ndistinct) ON session_id, agent_id FROM memory_agent.entries; \
         CREATE STATISTICS public.expression ON (lower(content)) FROM memory_agent.entries; \
         ANALYZE memory_agent.entries",
    );
    let shown = "\
        SELECT (SELECT count(*) FROM pg_stats s WHERE s.schemaname = 'memory_agent' \
                   AND s.tablename NOT IN ('attachments', 'grants', 'models')), \
               (SELECT count(*) FROM pg_stats_ext), (SELECT count(*) FROM pg_stats_ext_exprs)";
    let counts = |client: &mut Client| -> [i64; 3] {
        let row = client.query_one(shown, &[]).unwrap();
        [row.get(0), row.get(1), row.get(2)]
    };
    assert!(counts(&mut superuser).iter().all(|count| *count > 0));
    for role in &roles {
        let mut client = session(shared_without_worker(), database.name(), role);
        assert_eq!(counts(&mut client), [0, 0, 0], "{role}");
        for catalog in ["pg_statistic", "pg_statistic_ext_data"] {
            expect_error(client.query(&format!("SELECT FROM {catalog}"), &[]), "42501");
        }
    }
}

/// No way of reading a table is open, and of locks on what can be read only the one that reading takes.
#[test]
fn tables_are_out_of_reach() {
    let database = shared_without_worker().database("estimates_tables");
    let mut superuser = database.connect();
    let (roles, _) = prepare(&mut superuser, World::Planted, "reach");
    for role in &roles {
        let mut client = session(shared_without_worker(), database.name(), role);
        for table in guarded_tables(&mut superuser) {
            let table = format!("memory_agent.{table}");
            let any = format!("SELECT has_any_column_privilege('{role}', '{table}', 'SELECT')");
            assert!(!value::<bool>(&mut superuser, &any, &[]), "{role} reads {table}");
            for statement in [
                format!("SELECT count(*) FROM {table}"),
                format!("SELECT ctid, tableoid FROM {table}"),
                format!("EXPLAIN SELECT FROM ONLY {table} WHERE user_id = '{PLANTED}'"),
                format!("EXPLAIN SELECT FROM {table} TABLESAMPLE SYSTEM (1)"),
                format!("COPY {table} TO STDOUT"),
                format!("LOCK TABLE {table} IN ACCESS SHARE MODE"),
                format!("ANALYZE {table}; SELECT FROM {table}"),
                format!("CREATE TEMP VIEW mine AS TABLE {table}; TABLE mine"),
                format!("DECLARE c CURSOR FOR TABLE {table}"),
            ] {
                run(&mut client, "BEGIN");
                let result = client.batch_execute(&statement);
                let state = result.as_ref().err().map(sqlstate);
                assert_eq!(state, Some("42501"), "{role}: {statement}");
                run(&mut client, "ROLLBACK");
            }
        }
        for view in views(&mut superuser, role) {
            for (mode, state) in [
                ("ACCESS SHARE", None),
                ("ROW SHARE", Some("42501")),
                ("ROW EXCLUSIVE", Some("42501")),
                ("ACCESS EXCLUSIVE", Some("42501")),
            ] {
                run(&mut client, "BEGIN");
                let result = client.batch_execute(&format!("LOCK TABLE {view} IN {mode} MODE"));
                assert_eq!(result.as_ref().err().map(sqlstate), state, "{role}: {view}, {mode}");
                run(&mut client, "ROLLBACK");
            }
        }
    }
}

/// The views that a role may read.
fn views(superuser: &mut Client, role: &str) -> BTreeSet<String> {
    let query = "SELECT c.oid::regclass::text FROM pg_class c \
                  WHERE c.relkind = 'v' AND c.relnamespace = 'public'::regnamespace \
                    AND has_table_privilege($1, c.oid, 'SELECT')";
    superuser.query(query, &[&role]).unwrap().iter().map(|row| row.get(0)).collect()
}
