//! Attacks on name resolution. A role that may create things puts its own before PostgreSQL's: if any
//! statement of the extension, which runs as its owner, resolved a name through the caller's
//! search_path, the impostor would run as a superuser.

use crate::{create_roles, grant, remember};
use memory_agent_e2e::{Client, Row, shared, sqlstate};

/// Impostors for every function and operator that SQL can have impostors for. Each tells who it runs
/// as; none of them is ever wanted.
const IMPOSTORS: &str = r#"
    SET check_function_bodies = off;
    DO $do$
    DECLARE
        target record;
        made int := 0;
        body constant text := ' LANGUAGE plpgsql AS $body$
            BEGIN RAISE EXCEPTION ''hijacked as %'', current_user; END $body$';
    BEGIN
        FOR target IN
            SELECT p.proname AS name, pg_catalog.oidvectortypes(p.proargtypes) AS arguments,
                   p.proretset AS is_set, p.prorettype::regtype AS result
              FROM pg_catalog.pg_proc p
             WHERE p.prokind = 'f' AND p.pronamespace IN ('pg_catalog'::regnamespace, 'public'::regnamespace)
               AND p.proname NOT LIKE 'memory\_%'
        LOOP
            BEGIN
                EXECUTE format('CREATE FUNCTION evil.%I(%s) RETURNS %s %s', target.name, target.arguments,
                               CASE WHEN target.is_set THEN 'SETOF ' ELSE '' END || target.result, body);
                made := made + 1;
            EXCEPTION WHEN OTHERS THEN NULL; -- internal types, which SQL cannot name either
            END;
        END LOOP;
        FOR target IN
            SELECT o.oid, o.oprname AS name, o.oprleft::regtype AS l, o.oprright::regtype AS r,
                   o.oprresult::regtype AS result
              FROM pg_catalog.pg_operator o WHERE o.oprleft <> 0
        LOOP
            BEGIN
                EXECUTE format('CREATE FUNCTION evil.%I(%s, %s) RETURNS %s %s', 'operator_' || target.oid,
                               target.l, target.r, target.result, body);
                EXECUTE format('CREATE OPERATOR evil.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = evil.%I)',
                               target.name, target.l, target.r, 'operator_' || target.oid);
                made := made + 1;
            EXCEPTION WHEN OTHERS THEN NULL;
            END;
        END LOOP;
        IF made < 2000 THEN
            RAISE EXCEPTION 'only % impostors', made;
        END IF;
    END $do$;
    -- Objects that are looked up by name: types, a text search configuration, relations.
    CREATE TEXT SEARCH CONFIGURATION evil.english (COPY = pg_catalog.simple);
    CREATE DOMAIN evil.jsonb AS pg_catalog.text CHECK (false);
    CREATE DOMAIN evil.timestamptz AS pg_catalog.text CHECK (false);
    CREATE DOMAIN evil.regconfig AS pg_catalog.text CHECK (false);
    CREATE DOMAIN evil.vector AS pg_catalog.text CHECK (false);
    CREATE DOMAIN evil.uuid AS pg_catalog.text CHECK (false);
    CREATE DOMAIN evil.text AS pg_catalog.text CHECK (false);
    CREATE TABLE evil.entries (); CREATE TABLE evil.grants ();
"#;

/// PostgreSQL looks into a session's temporary schema even before pg_catalog.
const TEMPORARY_IMPOSTORS: &str = r#"
    CREATE TEMP TABLE pg_class (LIKE pg_catalog.pg_class);
    CREATE TEMP TABLE pg_namespace (LIKE pg_catalog.pg_namespace);
    CREATE TEMP TABLE pg_proc (LIKE pg_catalog.pg_proc);
    CREATE TEMP TABLE pg_extension (LIKE pg_catalog.pg_extension);
    CREATE TEMP TABLE pg_depend (LIKE pg_catalog.pg_depend);
    CREATE TEMP TABLE pg_roles (LIKE pg_catalog.pg_roles);
    CREATE TEMP TABLE pg_index (LIKE pg_catalog.pg_index);
    CREATE TEMP TABLE entries ();
    CREATE TEMP TABLE grants ();
    CREATE TEMP TABLE models ();
    CREATE TEMP TABLE sessions ();
"#;

/// One call of every function that a level allows, with all kinds of arguments. No operator and no
/// implicit cast stands in them: what the caller writes is resolved as the caller says.
const CALLS: &[&str] = &[
    r#"SELECT public.memory_ingest('s', 'user', 'We decided: the dogs are running at noon.',
              metadata => '{"name": "Ann"}')"#,
    r#"SELECT public.memory_ingest_batch('[{"role": "user", "content": "The cats were sleeping.",
              "session_id": "s", "created_at": "2026-01-31T10:00:00Z", "ttl": "90 years",
              "markers": ["goal"], "metadata": {"a": 1}}]')"#,
    "SELECT public.memory_add('Ann has a dog.', infer => false, fact_key => 'dog')",
    "SELECT public.memory_add('Ann has two dogs.', infer => false, fact_key => 'dog')",
    "SELECT public.memory_recall('running dog', 's', top_k => 3)",
    r#"SELECT public.memory_recall('running dog', token_budget => 50, kinds => '{turn,fact}',
              as_of => '2100-01-01', rewrites => '{cat}',
              filter => '{"role": "user", "metadata": {"a": 1}, "markers_any": ["goal"], "markers_all": [],
                          "created_after": "2020-01-01", "session_id": "s", "agent_id": "default"}')"#,
    "SELECT public.memory_explain('running dog', 's')",
    "SELECT public.memory_context('s', 'running dog')",
    "SELECT public.memory_stats('s')",
    "SELECT public.memory_usage()",
    "SELECT public.memory_status()",
    "SELECT public.memory_embed('dog')",
    "SELECT public.memory_embed('{dog,cat}'::pg_catalog.text[])",
    "SELECT public.memory_rerank('dog', '{a dog,a cat}')",
    "SELECT public.memory_ingest_once('s', 'user', 'a parrot that talks once', 'k')",
    "SELECT public.memory_token_user('\\x00')",
    "SELECT public.memory_spend(pg_catalog.sha256('\\x00'), 1, 2)",
    "SELECT public.memory_count_tokens('dog')",
    "SELECT public.memory_close_episode('s')",
    // Files: of a turn, of a fact, of a summary.
    r"SELECT public.memory_import_markdown('s/a.md', E'---\nid: 00000000-0000-7000-8000-000000000001\nrole: user
kind: turn\ncreated_at: 2001-01-01T00:00:00Z\nexpires_at: 2101-01-01T00:00:00Z\n---\nThe parrot talks.')",
    r"SELECT public.memory_import_markdown(NULL, E'---\nid: 00000000-0000-7000-8000-000000000002\nrole: memory
kind: fact\nfact_key: parrot\nstate: inactive\n---\nAnn had a parrot.')",
    r"SELECT public.memory_import_markdown(NULL, E'---\nid: 00000000-0000-7000-8000-000000000003\nsession_id: s
role: summary\nsummary_kind: L3\ncreated_at: 2001-01-01T00:00:00Z\n---\nAll about a parrot.')",
    "SELECT public.memory_originals('00000000-0000-7000-8000-000000000003')",
    "SELECT public.memory_export_markdown('s')",
    r#"SELECT public.memory_import_json('{"role": "archive", "id": "00000000-0000-7000-8000-000000000004",
       "doc_type": "conversation", "session_id": "s", "content": "All about a parrot.", "metadata": {"a": 1}}')"#,
    r#"SELECT public.memory_import_json('{"role": "settings", "session_id": "s", "settings": {"default_top_k": 4}}')"#,
    "SELECT public.memory_export_json()",
    "SELECT public.memory_forget('00000000-0000-7000-8000-000000000001', 'wrong')",
    "SELECT public.memory_restore('00000000-0000-7000-8000-000000000001')",
    "SELECT public.memory_update('00000000-0000-7000-8000-000000000001', 'The parrot sings.')",
    "SELECT public.memory_history('00000000-0000-7000-8000-000000000001')",
    "SELECT public.memory_erase(id => '00000000-0000-7000-8000-000000000001', reason => 'ticket 7')",
    "SELECT public.memory_verify_history()",
    "SELECT public.memory_add_document('All about parrots.', title => 'Parrots', session_id => 'd')",
    "SELECT public.memory_archive('s')",
    "SELECT public.memory_list()",
    "SELECT public.memory_recall_times()",
    r#"SELECT public.memory_state('[{"id": "00000000-0000-7000-8000-000000000001"}]', 's')"#,
    "SELECT public.memory_list_documents()",
    "SELECT public.memory_search_archive('parrots', doc_type => 'document')",
    r#"SELECT public.memory_augment('[{"role": "user", "content": "What of the parrot?"}]', 's')"#,
    r#"SELECT public.memory_augment_block('[{"role": "user", "content": "What of the parrot?"}]', 's')"#,
    r#"SELECT public.memory_configure('default', 's', '{"memory_agent.default_top_k": 3}', 'journal')"#,
    "SELECT public.memory_load('s')",
    "SELECT public.memory_reserve_tokens('s', 100000)",
    "SELECT public.memory_ingest('cleared', 'user', 'Forget it.')",
    "SELECT public.memory_clear('cleared')",
    "SELECT public.memory_wait('1 s')",
    "SELECT public.memory_retry('00000000-0000-7000-8000-000000000001')",
    "SELECT memory_agent.visible_users()",
    "SELECT content FROM public.memory_entries",
    "SELECT session_id FROM public.memory_sessions",
];

const ADMIN_CALLS: &[&str] = &[
    "SELECT public.memory_register_model('ms-marco-MiniLM-L-12-v2', 'reranker', activate => true)",
    "SELECT public.memory_register_model('memory-embed-small', 'embedder', activate => true)",
    "SELECT public.memory_use_embedding_model('memory-embed-small')",
    "SELECT public.memory_create_token('ann', 'laptop')",
    "SELECT public.memory_list_tokens()",
    "SELECT public.memory_spent_today()",
    "SELECT public.memory_use_endpoint(NULL, 'ann')",
    "SELECT public.memory_list_endpoints()",
    "SELECT public.memory_set_quota('ann', entries => 1000000)",
    "SELECT public.memory_list_quotas()",
    "SELECT public.memory_revoke_token('ann', 'laptop')",
    "SELECT public.memory_create_vector_index()",
    "SELECT public.memory_attach('public.tickets', 'body', user_id => 'nobody', created_at_column => 'at')",
    "INSERT INTO public.tickets VALUES (1, 'a parrot', pg_catalog.now())",
    "UPDATE public.tickets SET body = 'a cat', at = '2030-01-01'",
    "DELETE FROM public.tickets",
    "TRUNCATE public.tickets",
    "SELECT public.memory_detach('public.tickets', forget => true)",
    // Asks the index, now that there is one.
    "SET memory_agent.exact_scan_rows = 0",
    "SELECT public.memory_recall('running dog', 's')",
];

/// Calls that cannot do without an LLM.
const CALLS_OF_AN_LLM: &[&str] = &[
    r#"SELECT public.memory_chat('[{"role": "user", "content": "What of the parrot?"}]', 's')"#,
    "SELECT public.memory_summarize('All about parrots.')",
    "SELECT public.memory_compress('s')",
    "SELECT public.memory_backfill()",
    "SELECT public.memory_add('Ann has a parrot.', infer => true)",
];

const OWNER_CALLS: &[&str] = &[
    "SELECT public.memory_grant('attacks_friend', 'admin')",
    "SELECT public.memory_revoke('attacks_friend')",
    "SELECT public.memory_grant('attacks_friend')",
    "SELECT memory_agent.renew_levels()",
];

/// A commit that adds a function adds a call.
#[test]
fn every_function_is_called() {
    let mut client = shared().database("attacks_calls").connect();
    let query = "SELECT function_name::text FROM memory_agent.function_levels()";
    let calls = [CALLS, ADMIN_CALLS, CALLS_OF_AN_LLM].concat().join("\n");
    for row in client.query(query, &[]).unwrap() {
        let function: String = row.get(0);
        // The triggers of attached tables call it.
        let is_called = function == "attached_rows" || calls.contains(&format!("{function}("));
        assert!(is_called, "CALLS has no call of {function}");
    }
}

/// First the attacker calls: nothing of theirs may run, as whoever. Then an admin and a superuser
/// call with the same search_path, set for them by a careless ALTER ROLE.
#[test]
fn no_name_is_resolved_through_the_callers_search_path() {
    let database = shared().database("attacks_path");
    let mut superuser = database.connect();
    create_roles(&mut superuser, &["attacks_mallory", "attacks_admin", "attacks_friend"]);
    grant(&mut superuser, "attacks_mallory", "gateway");
    grant(&mut superuser, "attacks_admin", "admin");
    superuser
        .batch_execute(
            "CREATE SCHEMA evil AUTHORIZATION attacks_mallory; \
             GRANT USAGE ON SCHEMA evil TO PUBLIC; \
             GRANT TEMPORARY ON DATABASE attacks_path TO PUBLIC; \
             CREATE TABLE public.tickets (id int PRIMARY KEY, body text, at timestamptz); \
             ALTER TABLE public.tickets OWNER TO attacks_admin",
        )
        .unwrap();
    for (role, calls) in
        [("attacks_mallory", [CALLS].as_slice()), ("attacks_admin", &[CALLS, ADMIN_CALLS])]
    {
        let mut client = hostile_session(database.name(), role);
        for call in calls.concat() {
            client.batch_execute(call).unwrap_or_else(|error| panic!("{role}, {call}: {error:?}"));
        }
        refuse_without_llm(&mut client);
    }
    let mut client = hostile_session(database.name(), "postgres");
    for call in [CALLS, ADMIN_CALLS, OWNER_CALLS].concat() {
        // The superuser's index exists already.
        match client.batch_execute(call) {
            Err(error) if call.contains("vector_index") => {
                assert_eq!(sqlstate(&error), "42710", "{error:?}")
            }
            result => result.unwrap_or_else(|error| panic!("postgres, {call}: {error:?}")),
        }
    }
    refuse_without_llm(&mut client);
    // The names that are looked up in dictionaries were PostgreSQL's too: words are stemmed.
    let stemmed = "SELECT pg_catalog.count(*) FROM memory_agent.entries \
                   WHERE lexemes OPERATOR(pg_catalog.@@) 'run'::pg_catalog.tsquery \
                     AND (source_relation IS NULL \
                          OR source_relation OPERATOR(pg_catalog.<>) 'memory_agent.archives')";
    assert_eq!(client.query_one(stemmed, &[]).unwrap().get::<_, i64>(0), 3);
}

fn refuse_without_llm(client: &mut Client) {
    for call in CALLS_OF_AN_LLM {
        let error = client.batch_execute(call).expect_err("there is no LLM");
        assert_eq!(sqlstate(&error), "55000", "{call}: {error:?}");
    }
}

/// A session that looks into the attacker's schema and its own temporary one first.
fn hostile_session(database: &str, role: &str) -> Client {
    let mut client = shared().connect_as(database, role);
    if role == "attacks_mallory" {
        client.batch_execute(IMPOSTORS).unwrap_or_else(|error| panic!("the impostors: {error:?}"));
    }
    client
        .batch_execute(TEMPORARY_IMPOSTORS)
        .unwrap_or_else(|error| panic!("temporary impostors: {error:?}"));
    client.batch_execute("SET search_path = evil, pg_temp, pg_catalog, public").unwrap();
    // The trap is armed: an ordinary statement of this session falls into it.
    let trapped = client.simple_query("SELECT 1 = 1").expect_err("the impostors come first");
    assert_eq!(sqlstate(&trapped), "P0001", "{trapped:?}");
    client
}

/// The same rows in the same order, whatever the search_path.
#[test]
fn recall_does_not_depend_on_the_search_path() {
    let database = shared().database("attacks_results");
    let mut superuser = database.connect();
    create_roles(&mut superuser, &["results_mallory"]);
    grant(&mut superuser, "results_mallory", "user");
    superuser.batch_execute("CREATE SCHEMA evil AUTHORIZATION results_mallory").unwrap();
    for content in
        ["The dogs are running.", "A cat sleeps all day.", "Paris is in France.", "Ann likes tea."]
    {
        remember(&mut superuser, "alice", content);
    }
    let mut client = database.connect_as("results_mallory");
    let recall = |client: &mut Client| -> Vec<(String, f32)> {
        let call = "SELECT r.content, r.score \
                    FROM public.memory_recall('Which animal runs?', as_of => '2100-01-01') r";
        client.query(call, &[]).unwrap().iter().map(|row: &Row| (row.get(0), row.get(1))).collect()
    };
    let before = recall(&mut client);
    assert!(!before.is_empty());
    client.batch_execute(IMPOSTORS).unwrap();
    client.batch_execute(TEMPORARY_IMPOSTORS).unwrap();
    client.batch_execute("SET search_path = evil, pg_temp, pg_catalog, public").unwrap();
    assert_eq!(recall(&mut client), before);
    client.batch_execute("SET search_path = ''").unwrap();
    assert_eq!(recall(&mut client), before);
}

/// Functions of the same name in the public schema are not the extension's: no level covers them.
#[test]
fn overloads_are_not_granted() {
    let database = shared().database("attacks_overload");
    let mut superuser = database.connect();
    create_roles(&mut superuser, &["overload_mallory", "overload_victim"]);
    superuser.batch_execute("GRANT CREATE ON SCHEMA public TO overload_mallory").unwrap();
    let mut mallory = database.connect_as("overload_mallory");
    mallory
        .batch_execute(
            "CREATE FUNCTION public.memory_recall(query text, session_id text) RETURNS text \
             LANGUAGE sql AS 'SELECT $1'; \
             CREATE FUNCTION public.visible_users() RETURNS text[] LANGUAGE sql AS 'SELECT NULL::text[]'; \
             REVOKE ALL ON FUNCTION public.memory_recall(text, text), public.visible_users() FROM PUBLIC",
        )
        .unwrap();
    grant(&mut superuser, "overload_victim", "admin");
    let granted = "SELECT has_function_privilege('overload_victim', f, 'EXECUTE') \
                     FROM unnest(ARRAY['public.memory_recall(text, text)', 'public.visible_users()']) f";
    for row in superuser.query(granted, &[]).unwrap() {
        assert!(!row.get::<_, bool>(0));
    }
}
