//! Code that the owner of a table brings along with a column's type: as whom it runs, whichever way the rows
//! are read, and what it does to the statement of ours that runs it.

use crate::{PATIENCE, cluster, contents};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, Cluster, shared, wait_until};

/// Types whose casts and checks tell in `ran` who runs them and whether that is a security-restricted
/// operation, in which UNLISTEN is refused.
const TELLING: &str = "
    CREATE TABLE ran (path text, hook text, who text, is_restricted boolean); GRANT INSERT ON ran TO PUBLIC;
    CREATE FUNCTION tell(hook text) RETURNS void LANGUAGE plpgsql AS $$
        DECLARE is_restricted boolean := false;
        BEGIN
            BEGIN EXECUTE 'UNLISTEN nothing'; EXCEPTION WHEN insufficient_privilege THEN is_restricted := true; END;
            INSERT INTO public.ran
                VALUES (coalesce(pg_catalog.current_setting('code.path', true), ''), hook, current_user, is_restricted);
        END $$;
    CREATE TYPE tag AS ENUM ('x', 'y');
    CREATE FUNCTION tag_json(tag) RETURNS json LANGUAGE plpgsql AS
        $$ BEGIN PERFORM public.tell('json'); RETURN '\"told\"'; END $$;
    CREATE FUNCTION tag_text(tag) RETURNS text LANGUAGE plpgsql AS
        $$ BEGIN PERFORM public.tell('text'); RETURN pg_catalog.format('The tag %s', $1); END $$;
    CREATE CAST (tag AS json) WITH FUNCTION tag_json(tag);
    CREATE CAST (tag AS text) WITH FUNCTION tag_text(tag);
    CREATE FUNCTION is_code(int) RETURNS boolean LANGUAGE plpgsql AS
        $$ BEGIN PERFORM public.tell('domain'); RETURN true; END $$;
    CREATE DOMAIN code AS int CHECK (public.is_code(VALUE));
    CREATE TABLE plain (id code PRIMARY KEY, body tag, owner text DEFAULT 'alice', tag tag);
    CREATE TABLE swaps (id code PRIMARY KEY DEFERRABLE, body tag, owner text DEFAULT 'alice', tag tag);
    CREATE TABLE parts (region tag, id int, body tag, owner text DEFAULT 'alice', PRIMARY KEY (region, id))
        PARTITION BY LIST (region);
    CREATE TABLE parts_x PARTITION OF parts FOR VALUES IN ('x');
    GRANT ALL ON plain, swaps, parts, parts_x TO code_writer;
    INSERT INTO plain VALUES (0, 'x', 'alice', 'y');
    SELECT memory_attach('plain', 'body', user_id_column => 'owner', metadata_columns => '{tag}'),
           memory_attach('swaps', 'body', user_id_column => 'owner', metadata_columns => '{tag}', backfill => false),
           memory_attach('parts', 'body', user_id_column => 'owner', backfill => false)";

/// A database with an administrator who may create tables, and a session of theirs.
fn builder(cluster: &Cluster, name: &str, role: &str) -> (Client, Client) {
    let mut superuser = cluster.database(name).connect();
    run(
        &mut superuser,
        &format!(
            "CREATE ROLE {role} LOGIN; SELECT memory_grant('{role}', 'admin'); \
             GRANT CREATE ON SCHEMA public TO {role}"
        ),
    );
    let mut builder = cluster.connect_as(name, role);
    run(&mut builder, "SET memory_agent.user_id = 'alice'");
    (superuser, builder)
}

/// Whether code ran on a path, as `who` says.
fn ran(client: &mut Client, path: &str, who: &str) -> bool {
    let query = format!("SELECT EXISTS (SELECT FROM ran WHERE path = '{path}' AND {who})");
    value(client, &query, &[])
}

#[test]
fn code_of_others_runs_as_the_writer_or_restricted_as_the_tables_owner() {
    let cluster = shared();
    let (mut superuser, mut owner) = builder(cluster, "attach_foreign", "code_builder");
    run(&mut superuser, "CREATE ROLE code_writer LOGIN");
    run(&mut owner, TELLING);
    assert!(value::<bool>(&mut superuser, "SELECT memory_wait('60 s')", &[]));
    let of_owner = "who = 'code_builder' AND is_restricted";
    assert!(ran(&mut superuser, "", of_owner), "the worker took in what was there");

    let mut writer = cluster.connect_as("attach_foreign", "code_writer");
    let of_writer = "who = 'code_writer' AND NOT is_restricted AND hook <> 'domain'";
    for (path, statement, is_looked_up) in [
        ("insert", "INSERT INTO plain VALUES (1, 'x', 'alice', 'y'), (2, 'y', '*', 'x')", false),
        ("update", "UPDATE plain SET body = 'y', tag = 'x' WHERE id = 1", false),
        ("rekey", "UPDATE parts SET id = id + 1", false),
        ("swap in", "INSERT INTO swaps VALUES (1, 'x', 'alice', 'y')", true),
        ("swap", "UPDATE swaps SET id = 3 - id, tag = 'x'", true),
        ("swap out", "DELETE FROM swaps", true),
        ("truncate", "TRUNCATE parts_x", true),
    ] {
        if path == "rekey" || path == "truncate" {
            run(&mut writer, "RESET code.path; INSERT INTO parts VALUES ('x', 1, 'y')");
        }
        run(&mut writer, &format!("SET code.path = '{path}'"));
        run(&mut writer, statement);
        if !matches!(path, "truncate" | "swap out") {
            assert!(ran(&mut superuser, path, of_writer), "{path}: rows are read as the writer");
        }
        // A key's domain is checked, and so on, when its row is looked up.
        assert_eq!(ran(&mut superuser, path, of_owner), is_looked_up, "{path}: as the owner");
    }

    nobody_else(&mut superuser);

    // A row that was refused is read again by the worker, and so are the keys that it looks for.
    run(&mut superuser, "DELETE FROM ran");
    retry(&mut superuser);
    for hook in ["json", "text", "domain"] {
        assert!(ran(&mut superuser, "", &format!("{of_owner} AND hook = '{hook}'")), "{hook}");
    }
    nobody_else(&mut superuser);
}

/// What the owner inserts before the table is attached is checked by the domain, as ever.
#[track_caller]
fn nobody_else(client: &mut Client) {
    let query = "SELECT coalesce(string_agg(DISTINCT ran::text, ' '), '') FROM ran \
                  WHERE NOT (who = 'code_writer' AND NOT is_restricted \
                             OR who = 'code_builder' AND (is_restricted OR hook = 'domain'))";
    assert_eq!(value::<String>(client, query, &[]), "", "who else ran code of others");
}

/// Has the worker read the rows again that were refused, and waits until it did.
fn retry(client: &mut Client) {
    run(client, "SELECT memory_retry(id, user_id) FROM memory_agent.jobs WHERE status = 'dead'");
    wait_until(PATIENCE, "the worker to have read it again", || {
        let idle = "SELECT NOT EXISTS (SELECT FROM memory_agent.jobs WHERE status IN ('pending', 'running'))";
        value(client, idle, &[])
    });
}

/// A type whose cast asks memory more questions than plans are kept, each by a plan of its own, and tells
/// in `seen` how many plans are there then of those that read rows: the one that runs the cast is.
const STORMY: &str = "
    CREATE TABLE seen (plans bigint); GRANT INSERT ON seen TO PUBLIC;
    CREATE TYPE tag AS ENUM ('x');
    CREATE FUNCTION storm(tag) RETURNS json LANGUAGE plpgsql AS $$ BEGIN
        PERFORM (SELECT count(*) FROM public.memory_recall('harbour', rerank => false,
                     query_embedding => pg_catalog.array_fill(0.1::pg_catalog.float4, ARRAY[384])::public.vector,
                     filter => pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object(
                         'metadata', CASE WHEN i & 1 > 0 THEN '{}'::pg_catalog.jsonb END,
                         'role', CASE WHEN i & 2 > 0 THEN 'user' END,
                         'kind', CASE WHEN i & 4 > 0 THEN 'turn' END,
                         'markers_any', CASE WHEN i & 8 > 0 THEN 'decision' END,
                         'created_after', CASE WHEN i & 16 > 0 THEN '2020-01-01' END,
                         'created_before', CASE WHEN i & 32 > 0 THEN '2100-01-01' END,
                         'session_id', CASE WHEN i & 64 > 0 THEN 'one' END))))
           FROM pg_catalog.generate_series(0, 127) i;
        INSERT INTO public.seen SELECT count(*) FROM pg_catalog.pg_backend_memory_contexts c
            WHERE c.name = 'CachedPlanSource' AND c.ident LIKE '%SELECT pg_catalog.jsonb_build_array(_.id)%';
        RETURN '\"calm\"'; END $$;
    CREATE CAST (tag AS json) WITH FUNCTION storm(tag);
    CREATE TABLE stormy (id int PRIMARY KEY DEFERRABLE, body text, owner text, tag tag);";

/// How often the cast ran so far; whenever it did, the plan that ran it was there.
#[track_caller]
fn storms(client: &mut Client) -> i64 {
    let row = client.query_one("SELECT count(*), coalesce(min(plans), 1) FROM seen", &[]);
    let row = row.expect("what the cast saw");
    assert!(row.get::<_, i64>(1) >= 1, "a plan was freed while it ran");
    row.get(0)
}

#[test]
fn a_cast_that_needs_more_plans_than_are_kept() {
    let (mut superuser, mut owner) = builder(cluster(), "attach_storm", "storm_builder");
    run(&mut superuser, "GRANT pg_read_all_stats TO storm_builder");
    run(
        &mut owner,
        &format!(
            "{STORMY} SELECT memory_attach('stormy', 'body', user_id_column => 'owner', metadata_columns => '{{tag}}', \
                                           backfill => false)"
        ),
    );
    for (statement, expected) in [
        ("INSERT INTO stormy VALUES (1, 'one', 'alice', 'x')", vec!["one"]),
        ("UPDATE stormy SET id = 2, body = 'two'", vec!["two"]),
        ("DELETE FROM stormy", vec![]),
    ] {
        run(&mut owner, statement);
        assert_eq!(contents(&mut superuser), expected, "{statement}");
    }
    // Where the transition tables are read, and where the row is looked up.
    assert!(storms(&mut superuser) >= 4);
}

/// The same where the worker reads rows: those that are there, and one again that was refused.
#[test]
fn a_cast_that_needs_more_plans_than_a_worker_keeps() {
    let cluster = shared();
    let (mut superuser, mut owner) = builder(cluster, "attach_storm_worker", "storm_worker");
    run(&mut superuser, "GRANT pg_read_all_stats TO storm_worker");
    let worker = "SELECT pid FROM pg_stat_activity \
                   WHERE datname = current_database() AND backend_type = 'memory_agent worker'";
    wait_until(PATIENCE, "a worker", || {
        superuser.query_opt(worker, &[]).expect("workers").is_some()
    });
    let before: i32 = value(&mut superuser, worker, &[]);
    run(
        &mut owner,
        &format!(
            "{STORMY} INSERT INTO stormy VALUES (1, 'one', 'alice', 'x'), (2, 'of everybody', '*', 'x'); \
             SELECT memory_attach('stormy', 'body', user_id_column => 'owner', metadata_columns => '{{tag}}')"
        ),
    );
    assert!(value::<bool>(&mut superuser, "SELECT memory_wait('60 s')", &[]));
    assert_eq!(contents(&mut superuser), ["one"]);
    assert_eq!(storms(&mut superuser), 2);
    retry(&mut superuser);
    let refused: String = value(
        &mut superuser,
        "SELECT last_error FROM memory_agent.jobs WHERE status = 'dead'",
        &[],
    );
    assert!(refused.contains("not taken into memory"), "{refused}");
    assert_eq!(storms(&mut superuser), 3);
    assert_eq!(value::<i32>(&mut superuser, worker, &[]), before, "it is still the same worker");
}
