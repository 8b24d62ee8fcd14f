//! The extension as an object of PostgreSQL: when it can be created, what its catalog entries
//! promise, and what happens to sessions when it goes.

#[path = "common/impostors.rs"]
mod impostors;

use impostors::IMPOSTORS;
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, expect_error, shared};

const CREATE: &str = "CREATE EXTENSION memory_agent CASCADE";

/// Members of the extension: `d.classid` and `d.objid`. Since PostgreSQL 17 the row types of tables and
/// views are members as well; they say nothing that the tables do not.
const MEMBERS: &str = "pg_depend d JOIN pg_extension x ON x.oid = d.refobjid AND x.extname = 'memory_agent' \
                        AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' \
                        AND NOT EXISTS (SELECT FROM pg_type t LEFT JOIN pg_type e ON e.oid = t.typelem \
                                         WHERE d.classid = 'pg_type'::regclass AND t.oid = d.objid \
                                           AND (t.typrelid <> 0 OR e.typrelid <> 0))";

/// The names that a query finds; each test says what it means that there is one.
fn found(client: &mut Client, query: &str) -> Vec<String> {
    values(client, &query.replace("{MEMBERS}", MEMBERS), &[])
}

#[test]
fn a_schema_of_its_name_is_not_adopted() {
    let mut client = shared().plain_database("extension_schema");
    run(&mut client, "CREATE ROLE squatter; CREATE SCHEMA memory_agent AUTHORIZATION squatter");
    expect_error(client.batch_execute(CREATE), "42P06");
    run(&mut client, "DROP SCHEMA memory_agent");
    run(&mut client, CREATE);
}

#[test]
fn other_encodings_are_refused() {
    let mut superuser = shared().connect("postgres");
    for encoding in ["LATIN1", "SQL_ASCII", "EUC_JP"] {
        let name = format!("extension_{}", encoding.to_lowercase());
        run(
            &mut superuser,
            &format!("CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"),
        );
        let message = expect_error(shared().connect(&name).batch_execute(CREATE), "0A000");
        assert!(message.contains(encoding) && message.contains("ENCODING 'UTF8'"), "{message}");
    }
}

#[test]
fn pgvector_is_needed_and_checked() {
    let mut client = shared().plain_database("extension_pgvector");
    let message = expect_error(client.batch_execute("CREATE EXTENSION memory_agent"), "42704");
    assert!(message.contains("vector") && message.contains("CASCADE"), "{message}");
    run(&mut client, "CREATE EXTENSION vector");
    let pretend = "UPDATE pg_extension SET extversion = $1 WHERE extname = 'vector'";
    for version in ["0.7.4", "0.5", "0"] {
        client.execute(pretend, &[&version]).unwrap();
        let message = expect_error(client.batch_execute(CREATE), "0A000");
        assert!(message.contains("0.8.0") && message.contains(version), "{message}");
    }
    for version in ["0.8.0", "0.10.0", "1.0", "0.8.1-beta"] {
        client.execute(pretend, &[&version]).unwrap();
        run(&mut client, CREATE);
        run(&mut client, "DROP EXTENSION memory_agent");
    }
    // A type of that name that is found before pgvector's must not become a column's type.
    run(&mut client, "CREATE SCHEMA other; CREATE DOMAIN other.vector AS text");
    expect_error(client.batch_execute("CREATE EXTENSION memory_agent SCHEMA other"), "42P17");
    run(&mut client, CREATE);
}

#[test]
fn a_hostile_search_path_changes_nothing() {
    run(&mut shared().plain_database("extension_path"), IMPOSTORS);
    run(
        &mut shared().connect("extension_path"),
        "ALTER DATABASE extension_path SET search_path = evil, pg_catalog, public",
    );
    let mut client = shared().connect("extension_path");
    run(&mut client, CREATE);
    run(&mut client, "SELECT evil.memory_ingest('s', 'user', 'The dog is called Rex.')");
    let dog: String = value(&mut client, "SELECT r.content FROM evil.memory_recall('dog') r", &[]);
    assert_eq!(dog, "The dog is called Rex.");
    // Columns, constraints, defaults, indexes and policies refer to nothing in that schema.
    run(&mut client, "SET search_path = pg_catalog");
    let dependent = "SELECT pg_describe_object(d.classid, d.objid, d.objsubid) || ' -> ' || \
                            pg_describe_object(d.refclassid, d.refobjid, d.refobjsubid) FROM pg_depend d \
                      WHERE pg_describe_object(d.refclassid, d.refobjid, d.refobjsubid) LIKE '% evil.%' \
                        AND pg_describe_object(d.classid, d.objid, d.objsubid) LIKE '%memory_agent.%'";
    assert_eq!(found(&mut client, dependent), [""; 0]);
    run(&mut client, "DROP EXTENSION memory_agent");
}

/// Two databases of a cluster are two installations.
#[test]
fn databases_share_nothing_but_the_models() {
    let (one, other) = (shared().database("extension_one"), shared().database("extension_other"));
    run(&mut one.connect(), "SELECT memory_ingest('s', 'user', 'only here')");
    let count = "SELECT count(*) FROM memory_agent.entries";
    assert_eq!(value::<i64>(&mut other.connect(), count, &[]), 0);
    run(&mut other.connect(), "DROP EXTENSION memory_agent");
    assert_eq!(value::<i64>(&mut one.connect(), count, &[]), 1);
}

/// Sessions that are open when the extension goes get an error, not a crash, and go on when it is back.
#[test]
fn open_sessions_survive_drop_extension() {
    let database = shared().database("extension_drop");
    let mut open = database.connect();
    run(&mut open, "SELECT memory_ingest('s', 'user', 'The dog is called Rex.')");
    let recall = "SELECT r.content FROM memory_recall('dog') r";
    let prepared = open.prepare(recall).unwrap();
    assert_eq!(open.query(&prepared, &[]).unwrap().len(), 1);
    let pid: i32 = value(&mut open, "SELECT pg_backend_pid()", &[]);
    let mut superuser = database.connect();
    run(&mut superuser, "DROP EXTENSION memory_agent");
    // The name is unknown; a function that is still there says what is missing.
    expect_error(open.query(&prepared, &[]), "42883");
    expect_error(open.query(recall, &[]), "42883");
    run(
        &mut superuser,
        "CREATE FUNCTION public.left_over() RETURNS TABLE (component text, state text, detail text, hint text) \
             LANGUAGE c AS '$libdir/memory_agent', 'memory_status_wrapper'",
    );
    let message = expect_error(open.query("SELECT * FROM left_over()", &[]), "42704");
    assert!(message.contains("not installed") && message.contains("CREATE EXTENSION"), "{message}");
    run(&mut superuser, "DROP FUNCTION left_over(); CREATE EXTENSION memory_agent");
    assert_eq!(open.query(recall, &[]).unwrap().len(), 0, "the memory is gone");
    run(&mut open, "SELECT memory_ingest('s', 'user', 'The dog is called Max.')");
    assert_eq!(value::<String>(&mut open, recall, &[]), "The dog is called Max.");
    assert_eq!(value::<i32>(&mut open, "SELECT pg_backend_pid()", &[]), pid);
}

#[test]
fn everything_has_a_comment() {
    let mut client = shared().database("extension_comments").connect();
    let uncommented = "SELECT pg_describe_object(d.classid, d.objid, 0) FROM {MEMBERS} \
                        WHERE obj_description(d.objid, d.classid::regclass::name) IS NULL";
    assert_eq!(found(&mut client, uncommented), [""; 0]);
    let description = "SELECT obj_description(oid, 'pg_extension') FROM pg_extension \
                        WHERE extname = 'memory_agent'";
    assert!(value::<Option<String>>(&mut client, description, &[]).is_some());
    // Columns whose name does not tell everything: units, what NULL means, who writes it.
    let columns = "SELECT c.relname || '.' || a.attname FROM pg_class c \
                     JOIN pg_attribute a ON a.attrelid = c.oid \
                    WHERE c.relnamespace = 'memory_agent'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 \
                      AND NOT a.attisdropped AND col_description(c.oid, a.attnum) IS NULL \
                      AND (c.relname, a.attname) IN ( \
                          ('entries', 'session_id'), ('entries', 'content_hash'), ('entries', 'token_count'), \
                          ('entries', 'token_count_exact'), ('entries', 'embedding'), ('entries', 'lexemes'), \
                          ('entries', 'doc_len'), ('entries', 'source_ids'), ('entries', 'fact_key'), \
                          ('entries', 'confidence'), ('entries', 'created_at'), ('entries', 'recorded_at'), \
                          ('entries', 'state'), ('entries', 'valid_to'), ('entries', 'replaced_by'), \
                          ('sessions', 'active_tokens'), ('sessions', 'settings'), ('history', 'commitment'), \
                          ('history', 'salt'), ('history', 'hash'), ('models', 'location'), \
                          ('entries', 'extracted_at'), ('jobs', 'payload'), ('jobs', 'attempts'), \
                          ('jobs', 'interrupted'), ('jobs', 'leased_until'), ('jobs', 'last_error'), \
                          ('llm_calls', 'status'), ('llm_calls', 'request'), ('llm_calls', 'response'))";
    assert_eq!(found(&mut client, columns), [""; 0]);
}

/// What psql shows fits on a screen; the page has the rest.
#[test]
fn comments_of_functions_are_short() {
    let mut client = shared().database("extension_short_comments").connect();
    let others = "SELECT p.oid::regprocedure::text FROM {MEMBERS} JOIN pg_proc p ON p.oid = d.objid \
                   WHERE d.classid = 'pg_proc'::regclass AND p.pronamespace = x.extnamespace \
                     AND (length(obj_description(p.oid, 'pg_proc')) > 500 \
                          OR obj_description(p.oid, 'pg_proc') NOT LIKE '% See docs/reference.md.')";
    assert_eq!(found(&mut client, others), [""; 0]);
}

/// Volatility, parallel safety and strictness of every function, as PostgreSQL prints them.
const FUNCTIONS: &[(&str, &str)] = &[
    ("memory_add", "volatile unsafe"),
    ("memory_add_document", "volatile unsafe"),
    ("memory_archive", "volatile unsafe"),
    ("memory_attach", "volatile unsafe"),
    ("memory_augment", "volatile unsafe"),
    ("memory_augment_block", "volatile unsafe"),
    ("memory_backfill", "volatile unsafe"),
    ("memory_chat", "volatile unsafe"),
    ("memory_clear", "volatile unsafe"),
    ("memory_close_episode", "volatile unsafe"),
    ("memory_compress", "volatile unsafe"),
    ("memory_configure", "volatile unsafe"),
    ("memory_context", "stable unsafe"),
    ("memory_count_tokens", "immutable unsafe strict"),
    ("memory_create_token", "volatile unsafe"),
    ("memory_create_vector_index", "volatile unsafe"),
    ("memory_detach", "volatile unsafe"),
    ("memory_drop_endpoint", "volatile unsafe"),
    ("memory_embed", "stable unsafe strict"),
    ("memory_enable_endpoint", "volatile unsafe"),
    ("memory_erase", "volatile unsafe"),
    ("memory_explain", "stable unsafe"),
    ("memory_export_json", "stable unsafe"),
    ("memory_export_markdown", "stable unsafe"),
    ("memory_forget", "volatile unsafe"),
    ("memory_grant", "volatile unsafe"),
    ("memory_history", "stable unsafe"),
    ("memory_import_json", "volatile unsafe"),
    ("memory_import_markdown", "volatile unsafe"),
    ("memory_ingest", "volatile unsafe"),
    ("memory_ingest_batch", "volatile unsafe"),
    ("memory_ingest_once", "volatile unsafe"),
    ("memory_list", "stable unsafe"),
    ("memory_list_documents", "stable unsafe"),
    ("memory_list_endpoints", "stable unsafe"),
    ("memory_list_quotas", "stable unsafe"),
    ("memory_list_tokens", "stable unsafe"),
    ("memory_load", "stable unsafe"),
    ("memory_originals", "stable unsafe"),
    ("memory_recall", "stable unsafe"),
    ("memory_recall_times", "volatile unsafe"),
    ("memory_register_model", "volatile unsafe"),
    ("memory_rerank", "stable unsafe strict"),
    ("memory_reserve_tokens", "volatile unsafe"),
    ("memory_restore", "volatile unsafe"),
    ("memory_retry", "volatile unsafe"),
    ("memory_revoke", "volatile unsafe"),
    ("memory_revoke_token", "volatile unsafe"),
    ("memory_search_archive", "stable unsafe"),
    ("memory_set_endpoint", "volatile unsafe"),
    ("memory_set_quota", "volatile unsafe"),
    ("memory_spend", "volatile unsafe"),
    ("memory_spent_today", "stable unsafe"),
    ("memory_state", "stable unsafe"),
    ("memory_stats", "stable unsafe"),
    ("memory_status", "stable unsafe"),
    ("memory_summarize", "volatile unsafe"),
    ("memory_token_user", "stable unsafe"),
    ("memory_update", "volatile unsafe"),
    ("memory_usage", "stable unsafe"),
    ("memory_use_embedding_model", "volatile unsafe"),
    ("memory_use_endpoint", "volatile unsafe"),
    ("memory_verify_history", "stable unsafe"),
    ("memory_wait", "volatile unsafe"),
    ("attached_rows", "volatile unsafe"),
    ("follow_roles", "volatile unsafe"),
    ("function_levels", "immutable safe"),
    ("history_is_open", "volatile unsafe"),
    ("public_schema", "stable unsafe"),
    ("refuse_history_change", "volatile unsafe"),
    ("renew_levels", "volatile unsafe"),
    ("require_owner", "stable unsafe"),
    ("require_role", "stable unsafe"),
    ("revoke_all", "volatile unsafe"),
    ("visible_users", "stable safe"),
];

#[test]
fn functions_are_marked() {
    let mut client = shared().database("extension_functions").connect();
    let marks = "SELECT DISTINCT p.proname || ': ' || \
                        CASE p.provolatile WHEN 'i' THEN 'immutable' WHEN 's' THEN 'stable' \
                        ELSE 'volatile' END || \
                        CASE p.proparallel WHEN 's' THEN ' safe' WHEN 'r' THEN ' restricted' \
                        ELSE ' unsafe' END || \
                        CASE WHEN p.proisstrict THEN ' strict' ELSE '' END \
                   FROM {MEMBERS} JOIN pg_proc p ON p.oid = d.objid \
                   WHERE d.classid = 'pg_proc'::regclass ORDER BY 1";
    let mut expected: Vec<String> =
        FUNCTIONS.iter().map(|(name, marks)| format!("{name}: {marks}")).collect();
    expected.sort();
    assert_eq!(found(&mut client, marks), expected, "FUNCTIONS has to name each function");

    let definers = "SELECT p.oid::regprocedure::text FROM {MEMBERS} JOIN pg_proc p ON p.oid = d.objid \
                     WHERE d.classid = 'pg_proc'::regclass AND p.prosecdef";
    assert_eq!(
        found(&mut client, definers),
        [""; 0],
        "identity is switched in C, after it was checked"
    );

    let unpinned = "SELECT p.oid::regprocedure::text FROM {MEMBERS} \
                      JOIN pg_proc p ON p.oid = d.objid JOIN pg_language l ON l.oid = p.prolang \
                     WHERE d.classid = 'pg_proc'::regclass AND l.lanname <> 'c' \
                       AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (p.proconfig), false)";
    assert_eq!(
        found(&mut client, unpinned),
        [""; 0],
        "functions in SQL and PL/pgSQL pin their search_path"
    );

    let outside = "SELECT p.oid::regprocedure::text FROM {MEMBERS} JOIN pg_proc p ON p.oid = d.objid \
                     JOIN pg_language l ON l.oid = p.prolang \
                    WHERE d.classid = 'pg_proc'::regclass AND l.lanname = 'c' \
                    AND p.probin <> '$libdir/memory_agent'";
    assert_eq!(found(&mut client, outside), [""; 0]);
}

/// Primary keys start with the user wherever there is one, so that tables can be distributed by it.
const PRIMARY_KEYS: &[(&str, &str)] = &[
    ("agents", "user_id, agent_id"),
    ("archives", "user_id, id"),
    ("attachments", "id"),
    ("endpoint_uses", "agent_id"),
    ("endpoints", "name"),
    ("entries", "user_id, id"),
    ("entry_windows", "user_id, entry_id, embedding_model, ordinal"),
    ("episodes", "user_id, id"),
    ("grants", "role_name"),
    ("history", "user_id, id"),
    ("jobs", "id"),
    ("llm_calls", "id"),
    ("llm_probes", "base_url, model, probe"),
    ("models", "name"),
    ("quota_counts", "user_id, id"),
    ("quotas", "user_id"),
    ("session_summaries", "user_id, id"),
    ("sessions", "user_id, agent_id, session_id"),
    ("spending", "token_hash"),
    ("tokens", "user_id, name"),
    ("traces", "user_id, id"),
];

#[test]
fn tables_keep_their_shape() {
    let mut client = shared().database("extension_tables").connect();
    let keys = "SELECT c.relname || ': ' || \
                       (SELECT string_agg(a.attname, ', ' ORDER BY k.place) \
                       FROM unnest(i.indkey) WITH ORDINALITY k(attnum, place) \
                          JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum) \
                  FROM {MEMBERS} JOIN pg_class c ON c.oid = d.objid \
                  LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary \
                 WHERE d.classid = 'pg_class'::regclass AND c.relkind IN ('r', 'p') ORDER BY 1";
    let expected: Vec<String> =
        PRIMARY_KEYS.iter().map(|(table, key)| format!("{table}: {key}")).collect();
    assert_eq!(found(&mut client, keys), expected, "PRIMARY_KEYS has to name each table");

    let local_times = "SELECT c.relname || '.' || a.attname FROM {MEMBERS} JOIN pg_class c ON c.oid = d.objid \
                         JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 \
                        WHERE d.classid = 'pg_class'::regclass AND format_type(a.atttypid, NULL) IN \
                              ('timestamp without time zone', 'date', 'time without time zone', \
                               'time with time zone')";
    // A day of spending is one in UTC, whatever the time zone.
    assert_eq!(found(&mut client, local_times), ["spending.day"], "all times are timestamptz");

    // pg_upgrade refuses columns of the reg types, and a dump carries OIDs to where they mean nothing.
    // That of an attached table is a help to see that it was renamed; its names count without it. That of a role
    // stands with the cluster in which it means something.
    let oids = "SELECT c.relname || '.' || a.attname FROM {MEMBERS} JOIN pg_class c ON c.oid = d.objid \
                  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 \
                 WHERE d.classid = 'pg_class'::regclass AND c.relkind = 'r' \
                   AND format_type(a.atttypid, NULL) ~ '^(oid|reg.*)(\\[\\])?$'";
    assert_eq!(found(&mut client, oids), ["attachments.relation_oid", "grants.role_oid"]);

    // Constraints between tables that a dump carries are checked before the rows are complete, and
    // triggers on INSERT would run once more on restore. Guards against UPDATE and DELETE may be.
    let constraints = "SELECT o.conname::text FROM pg_constraint o JOIN pg_class c ON c.oid = o.conrelid \
                        WHERE c.relnamespace = 'memory_agent'::regnamespace AND o.contype = 'f'";
    assert_eq!(found(&mut client, constraints), [""; 0]);
    let triggers = "SELECT t.tgname::text FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid \
                     WHERE c.relnamespace = 'memory_agent'::regnamespace AND NOT t.tgisinternal \
                       AND t.tgtype & 4 <> 0";
    assert_eq!(found(&mut client, triggers), [""; 0]);

    // Their readers may not read the tables, and see nothing through the planner (suite `security`).
    let views = "SELECT c.relname::text FROM {MEMBERS} JOIN pg_class c ON c.oid = d.objid \
                  WHERE d.classid = 'pg_class'::regclass AND c.relkind = 'v' \
                    AND NOT (coalesce(c.reloptions = '{security_barrier=true}', false) \
                             AND pg_get_viewdef(c.oid) ~ ' OFFSET 0;$')";
    assert_eq!(found(&mut client, views), [""; 0], "views with a fence");
}

#[test]
fn dumps_carry_every_table() {
    let mut client = shared().database("extension_dump").connect();
    let unmarked = "SELECT c.relname::text FROM {MEMBERS} JOIN pg_class c ON c.oid = d.objid \
                     WHERE d.classid = 'pg_class'::regclass AND c.relkind IN ('r', 'p', 'S') \
                       AND NOT c.oid = ANY (coalesce(x.extconfig, '{}'))";
    // What is known of an LLM is not true of another machine's, and counts are made again.
    assert_eq!(found(&mut client, unmarked), ["llm_probes", "quota_counts"]);
    // No filter, for the script ships no rows.
    let filters = "SELECT f FROM pg_extension x, unnest(x.extcondition) f \
                   WHERE x.extname = 'memory_agent' AND f <> ''";
    assert_eq!(found(&mut client, filters), [""; 0]);
    let tables = found(
        &mut client,
        "SELECT c.oid::regclass::text FROM {MEMBERS} JOIN pg_class c ON c.oid = d.objid \
          WHERE d.classid = 'pg_class'::regclass AND c.relkind = 'r'",
    );
    assert!(tables.contains(&"memory_agent.entries".to_owned()), "{tables:?}");
    for table in tables {
        let rows: i64 = value(&mut client, &format!("SELECT count(*) FROM {table}"), &[]);
        assert_eq!(rows, 0, "{table} is shipped with rows");
    }
}
