//! Every argument of every function has a limit, in the table of the core crate: what is over it is
//! refused by name and nothing is stored; the largest that is allowed can be stopped at any time.

use memory_agent_core::limits::{self, Limit};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, Database, Error, Row, expect_error, shared, sqlstate, wait_until};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// `memory_agent.max_content_bytes` by default.
const CONTENT_BYTES: usize = 1 << 20;
/// What a statement may go on after it was stopped, on a busy machine.
const STOPPED: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(60);

/// An argument of variable length.
struct Given {
    function: String,
    name: String,
    kind: String,
    /// The arguments before it and behind it that have no default, as SQL.
    others: String,
}

/// Those of all functions of the extension, asked of the catalog.
fn arguments(client: &mut Client) -> Vec<Given> {
    let rows = client
        .query(
            "SELECT p.oid::regproc::text, coalesce(p.proargnames[n], ''), format_type(t.oid, NULL), \
                    coalesce((SELECT string_agg(quote_ident(p.proargnames[o]) || ' => ' || \
                                  CASE WHEN NOT p.proisstrict THEN 'NULL' \
                                       WHEN p.proargtypes[o - 1] = 'text[]'::regtype THEN '''{x}''' \
                                       ELSE '''x''' END || '::' || format_type(p.proargtypes[o - 1], NULL), ', ') \
                                FROM generate_series(1, p.pronargs - p.pronargdefaults) o WHERE o <> n), '') \
               FROM pg_extension e \
               JOIN pg_depend d ON d.refobjid = e.oid AND d.deptype = 'e' AND d.classid = 'pg_proc'::regclass \
               JOIN pg_proc p ON p.oid = d.objid \
               CROSS JOIN generate_series(1, p.pronargs) n \
               JOIN pg_type t ON t.oid = p.proargtypes[n - 1] AND t.typlen = -1 \
              WHERE e.extname = 'memory_agent' ORDER BY 1, 2",
            &[],
        )
        .unwrap();
    let given = |row: &Row| Given {
        function: row.get::<_, String>(0).rsplit('.').next().unwrap_or_default().to_owned(),
        name: row.get(1),
        kind: row.get(2),
        others: row.get(3),
    };
    rows.iter().map(given).collect()
}

#[test]
fn every_argument_of_every_function_has_a_limit() {
    let mut client = shared().database("sizes").connect();
    let arguments = arguments(&mut client);
    assert!(arguments.len() > 100, "{} arguments found", arguments.len());
    let without: Vec<String> = arguments
        .iter()
        .filter(|given| limits::of_argument(&given.function, &given.name).is_none())
        .map(|given| format!("{}({} {})", given.function, given.name, given.kind))
        .collect();
    assert!(without.is_empty(), "no row in crates/core/src/limits.rs for {without:#?}");

    // And no row for what there is not.
    let functions: BTreeSet<String> = value::<Vec<String>>(
        &mut client,
        "SELECT array_agg(DISTINCT function_name::text) FROM memory_agent.function_levels()",
        &[],
    )
    .into_iter()
    .collect();
    for row in limits::ARGUMENTS {
        let unknown = row.functions.iter().find(|name| !functions.contains(**name));
        assert_eq!(unknown, None, "{row:?}");
        let is_number = matches!(row.limit, Limit::Most(_));
        let is_used = arguments.iter().any(|given| {
            limits::of_argument(&given.function, &given.name)
                == limits::of_argument(row.functions.first().unwrap_or(&"every function"), row.name)
        });
        assert!(is_number || is_used, "no function has the argument of {row:?}");
    }
    for part in limits::PARTS {
        let unknown = part.functions.iter().find(|name| !functions.contains(**name));
        assert_eq!(unknown, None, "{part:?}");
    }
}

/// Values of a type that are one byte, or one element, over the limit; each with what the message says.
fn too_large(kind: &str, limit: Limit) -> Vec<(String, usize)> {
    let (Some(bytes), elements) = limit.most(CONTENT_BYTES) else { return Vec::new() };
    match kind {
        "text" => vec![(format!("repeat('x', {})", bytes + 1), bytes)],
        // With its quotes.
        "jsonb" => vec![(format!("to_jsonb(repeat('x', {}))", bytes - 1), bytes)],
        "bytea" => vec![(format!("decode(repeat('00', {}), 'hex')", bytes + 1), bytes)],
        "uuid[]" => {
            let elements = elements.unwrap();
            vec![
                (format!("array_fill(gen_random_uuid(), ARRAY[{}])", elements + 1), elements),
                (format!("array_fill(NULL::uuid, ARRAY[{}])", elements + 1), elements),
            ]
        }
        "text[]" => {
            let elements = elements.unwrap();
            vec![
                (format!("array_fill('x'::text, ARRAY[{}])", elements + 1), elements),
                (format!("array_fill(NULL::text, ARRAY[{}])", elements + 1), elements),
                (format!("ARRAY[repeat('x', {})]", bytes + 8 * elements + 100), bytes),
            ]
        }
        other => panic!("no value of the type {other} here"),
    }
}

#[test]
fn what_is_over_a_limit_is_refused_by_name_and_nothing_is_stored() {
    let mut client = shared().database("too_large").connect();
    let before = super::row_counts(&mut client);
    for given in arguments(&mut client) {
        let row = limits::of_argument(&given.function, &given.name).unwrap();
        if given.function == "memory_grant" {
            let call = "SELECT memory_grant('postgres', repeat('x', 101))";
            expect_error(client.query(call, &[]), "22023");
            continue;
        }
        for (literal, most) in too_large(&given.kind, row.limit) {
            let separator = if given.others.is_empty() { "" } else { ", " };
            let call = format!(
                "SELECT {}({}{separator}\"{}\" => {literal})",
                given.function, given.others, given.name
            );
            let message = expect_error(client.query(&call, &[]), "22023");
            assert!(message.contains(&given.name), "{call}: {message}");
            assert!(message.contains(&most.to_string()), "{call}: {message}");
            assert!(message.lines().nth(1).is_some_and(|hint| !hint.is_empty()), "{call}");
            assert!(message.len() < 1_000, "{call}: the message repeats the input");
        }
    }
    assert_eq!(super::row_counts(&mut client), before);
}

#[test]
fn what_has_too_many_parts_is_refused() {
    let mut client = shared().database("too_many").connect();
    let before = super::row_counts(&mut client);
    let file = |front: &str| {
        format!(
            "memory_import_markdown('x.md', E'---\\nrole: user\\nkind: turn\\n' || {front} || E'\\n---\\nx')"
        )
    };
    let ids = |name: &str, count: usize| {
        format!(
            "'{name}: ' || (SELECT jsonb_agg(gen_random_uuid())::text FROM generate_series(1, {count}))"
        )
    };
    for (call, named) in [
        ("memory_ingest('s', 'user', 'x', markers => array_fill('goal'::text, ARRAY[101]))".into(), "markers"),
        // Stored in 16 bytes each, printed in 131,072.
        (
            "memory_recall('x', filter => ('{\"metadata\": {\"a\": [' || \
                 (SELECT string_agg('1e131071', ',') FROM generate_series(1, 2500)) || ']}}')::jsonb)"
                .into(),
            "filter",
        ),
        (
            "memory_ingest_batch(jsonb_build_array(jsonb_build_object('role', 'user', 'content', 'x', \
                 'markers', (SELECT jsonb_agg('custom:' || n) FROM generate_series(1, 120000) n))), 's')"
                .into(),
            "markers",
        ),
        (
            "memory_ingest_batch((SELECT jsonb_agg(jsonb_build_object('role', 'user', 'content', 'x')) \
                 FROM generate_series(1, 10001)), 's')"
                .into(),
            "turns",
        ),
        (
            "memory_augment((SELECT jsonb_agg(jsonb_build_object('role', 'user', 'content', 'x')) \
                 FROM generate_series(1, 10001)))"
                .into(),
            "messages",
        ),
        (
            "memory_explain('q', filter => jsonb_build_object('session_id', \
                 (SELECT jsonb_agg(n::text) FROM generate_series(1, 1001) n)))"
                .into(),
            "session_id",
        ),
        (
            "memory_explain('q', filter => ('{\"metadata\": {\"a\": ' || repeat('[', 70) || repeat(']', 70) || '}}')::jsonb)"
                .into(),
            "metadata",
        ),
        (
            "memory_configure(settings => jsonb_build_object('cross_session_triggers', repeat('x, ', 5000)))".into(),
            "cross_session_triggers",
        ),
        (file("(SELECT string_agg('k' || n || ': 1', E'\\n') FROM generate_series(1, 90000) n)"), "keys"),
        (file(&ids("source_ids", 10_001)), "source_ids"),
        (file(&ids("markers", 101)), "markers"),
        (file(&format!("'role: summary' || E'\\n' || {}", ids("topics", 10_001))), "role"),
        (
            format!(
                "memory_import_markdown('x.md', E'---\\nrole: summary\\n' || {} || E'\\n---\\nx')",
                ids("topics", 10_001)
            ),
            "topics",
        ),
    ] {
        let message = expect_error(client.query(&format!("SELECT {call}"), &[]), "22023");
        assert!(message.contains(named), "{call}: {message}");
        assert!(message.len() < 1_000, "{call}: the message repeats the input");
    }
    let set =
        "SELECT set_config('memory_agent.cross_session_triggers', repeat('x, ', 5000), false)";
    let message = expect_error(client.query(set, &[]), "22023");
    assert!(message.contains("cross_session_triggers"));
    assert_eq!(super::row_counts(&mut client), before);
}

/// A call with arguments as large as they may be, of the kind that costs most.
fn largest() -> Vec<(&'static str, String)> {
    let lines = "repeat(E'a\\n', 524287)";
    let words = "(SELECT left(string_agg('abc' || n || ' ', ''), 1048576) FROM generate_series(1, 110000) n)";
    let markers = "(SELECT array_agg('custom:' || n) FROM generate_series(1, 100) n)";
    let turns = |count: usize, content: &str| {
        format!(
            "(SELECT jsonb_agg(jsonb_build_object('role', 'user', 'content', {content} || n)) \
                FROM generate_series(1, {count}) n)"
        )
    };
    let file = format!(
        "E'---\\nrole: memory\\nkind: fact\\nsource_ids: ' \
             || (SELECT jsonb_agg(gen_random_uuid())::text FROM generate_series(1, 10000)) || E'\\n' \
             || (SELECT string_agg('k' || n || ': ' || repeat('x', 900), E'\\n') FROM generate_series(1, 990) n) \
             || E'\\n---\\n' || {lines}"
    );
    vec![
        ("memory_ingest", format!("memory_ingest('l', 'user', {words}, markers => {markers}, \
             metadata => jsonb_build_object('k', repeat('x', 1048000)))")),
        ("memory_ingest_batch of many", format!("count(*) FROM memory_ingest_batch({}, 'l')", turns(10_000, "'turn '"))),
        ("memory_ingest_batch of long", format!("count(*) FROM memory_ingest_batch({}, 'l')", turns(31, "repeat('We decided. ', 86000)"))),
        ("memory_add", format!("memory_add({words}, infer => false)")),
        ("memory_add_document of lines", format!("memory_add_document({lines})")),
        ("memory_add_document of headings", "memory_add_document(repeat(E'# a\\n\\nb. C.\\n', 74000))".into()),
        ("memory_import_markdown", format!("memory_import_markdown('x.md', {file})")),
        ("memory_recall", format!("count(*) FROM memory_recall({words}, top_k => 1000, \
             rewrites => ARRAY[repeat('word ', 50000), repeat('ab ', 60000), 'a', 'b'], \
             filter => jsonb_build_object('session_id', (SELECT jsonb_agg('s' || n) FROM generate_series(1, 1000) n)))")),
        ("memory_explain", format!("memory_explain({lines})")),
        ("memory_context", format!("memory_context('l', {words}, token_budget => 1000000)")),
        ("memory_augment", "memory_augment((SELECT jsonb_agg(jsonb_build_object('role', 'user', 'content', \
             repeat('word ', 600) || n)) FROM generate_series(1, 10000) n))".into()),
        ("memory_search_archive", format!("count(*) FROM memory_search_archive({words}, 1000)")),
        ("memory_embed of one", format!("memory_embed({words})")),
        ("memory_embed of many", "memory_embed((SELECT array_agg(repeat('word ', 600) || n) FROM generate_series(1, 10000) n))".into()),
        ("memory_rerank", "memory_rerank(repeat('q ', 500000), (SELECT array_agg(repeat('word ', 600) || n) FROM generate_series(1, 10000) n))".into()),
        ("memory_count_tokens of words", "memory_count_tokens(repeat('word and 7 ', 1525000))".into()),
        ("memory_count_tokens of one word", "memory_count_tokens(repeat('a', 16777216))".into()),
        ("memory_configure", "memory_configure(settings => jsonb_build_object('cross_session_triggers', repeat('x, ', 3300)))".into()),
        ("memory_update", format!("memory_update((SELECT id FROM memory_agent.entries WHERE session_id = 'seed'), {words})")),
        ("memory_forget", "memory_forget((SELECT id FROM memory_agent.entries WHERE session_id = 'seed' AND state = 'active'), repeat('r', 1000))".into()),
    ]
}

fn with_a_seed(name: &'static str) -> (Database<'static>, Client) {
    let database = shared().database(name);
    let mut client = database.connect();
    run(&mut client, "SELECT memory_ingest('seed', 'user', 'The seed.')");
    (database, client)
}

#[test]
fn the_largest_arguments_end_in_time_or_can_be_timed_out() {
    let (_database, mut client) = with_a_seed("largest");
    let mut wrong = Vec::new();
    for (name, call) in largest() {
        client
            .batch_execute(
                "SET memory_agent.context_limit = 10000000; SET statement_timeout = '1s'",
            )
            .unwrap();
        let start = Instant::now();
        let result = client.batch_execute(&format!("SELECT {call}"));
        let taken = start.elapsed();
        // A timer that went off when the call had just finished ends this instead.
        if client.batch_execute("RESET statement_timeout").is_err() {
            run(&mut client, "RESET statement_timeout");
        }
        let how = match &result {
            Ok(()) => "finished",
            Err(error) => sqlstate(error),
        };
        println!("{name}: {how} after {taken:.2?}");
        if !["finished", "57014"].contains(&how) {
            wrong.push(format!("{name}: {result:?}"));
        }
        assert!(taken < STOPPED, "{name} could not be stopped for {taken:?}");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_largest_arguments_can_be_cancelled_and_terminated() {
    let (database, mut observer) = with_a_seed("largest_stopped");
    let hard = [
        "memory_ingest_batch of long",
        "memory_import_markdown",
        "memory_count_tokens of one word",
    ];
    for (name, call) in largest().into_iter().filter(|(name, _)| hard.contains(name)) {
        for (stop, code) in [("pg_cancel_backend", "57014"), ("pg_terminate_backend", "57P01")] {
            let mut client = database.connect();
            let pid: i32 = value(&mut client, "SELECT pg_backend_pid()", &[]);
            let statement = format!("SELECT {call}");
            let running = std::thread::spawn(move || {
                let result = client.batch_execute(&statement);
                (result, Instant::now())
            });
            wait_until(PATIENCE, "the statement to run, or to be over", || {
                running.is_finished()
                    || value::<bool>(
                        &mut observer,
                        "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1 AND state = 'active' \
                                           AND query LIKE 'SELECT %memory_%')",
                        &[&pid],
                    )
            });
            let stopped_at = Instant::now();
            observer.execute(&format!("SELECT {stop}($1)"), &[&pid]).unwrap();
            let (result, ended_at) = running.join().unwrap();
            let taken = ended_at.saturating_duration_since(stopped_at);
            println!(
                "{name}, {stop}: {:?} after {taken:.2?}",
                result.as_ref().err().and_then(Error::code)
            );
            assert!(taken < STOPPED, "{name} could not be stopped for {taken:?}");
            if let Err(error) = result {
                assert!(error.is_closed() || sqlstate(&error) == code, "{name}, {stop}: {error:?}");
            }
        }
    }
}
