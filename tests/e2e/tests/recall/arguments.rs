//! Arguments that cannot be meant, and that recall only reads.

use memory_agent_e2e::memory::{ingest_all, recall, run, try_recall, value};
use memory_agent_e2e::{expect_error, shared};

const REFUSED: [&str; 30] = [
    "''",
    "' '",
    "NULL",
    "repeat('word ', 300000)",
    "'q', session_id => ''",
    "'q', user_id => ''",
    "'q', agent_id => repeat('x', 513)",
    "'q', token_budget => -1",
    "'q', kinds => '{summary}'",
    "'q', kinds => '{turn,NULL}'",
    "'q', as_of => 'infinity'",
    "'q', as_of => '-infinity'",
    "'q', score_threshold => 1.5",
    "'q', score_threshold => -0.1",
    "'q', score_threshold => 'NaN'",
    "'q', recency_weight => 2",
    "'q', recency_weight => -1",
    "'q', recency_weight => 'NaN'",
    "'q', recency_weight => 'Infinity'",
    "'q', mmr_lambda => 1.01",
    "'q', mmr_lambda => 'NaN'",
    "'q', query_embedding => '[1,2,3]'",
    "'q', query_embedding => array_fill(0.1::real, ARRAY[385])::vector",
    "'', query_embedding => '[1]'",
    "'q', rewrites => '{a,b,c,d,e}'",
    "'q', rewrites => '{\" \"}'",
    "'q', rewrites => '{a,NULL}'",
    "'q', top_k => 2147483647",
    "'q', filter => '[]'",
    "'q', filter => '{\"unknown\": 1}'",
];

#[test]
fn refused_with_a_hint() {
    let mut client = shared().database("recall_refused").connect();
    ingest_all(&mut client, "s", &["q is a letter"]);
    for arguments in REFUSED {
        let code = if arguments.contains(",NULL}") { "22004" } else { "22023" };
        let message = expect_error(try_recall(&mut client, arguments), code);
        assert!(
            message.lines().nth(1).is_some_and(|hint| !hint.is_empty()),
            "{arguments}: {message}"
        );
        assert!(message.len() < 1000, "the message repeats the input: {arguments}");
        let explained = client.query(&format!("SELECT memory_explain({arguments})"), &[]);
        expect_error(explained, code);
    }
    // The session is usable afterwards, within the same transaction too.
    run(&mut client, "BEGIN; SAVEPOINT before");
    expect_error(try_recall(&mut client, "''"), "22023");
    run(&mut client, "ROLLBACK TO before");
    assert_eq!(recall(&mut client, "'letter'").len(), 1);
    run(&mut client, "COMMIT");
}

#[test]
fn weights_at_their_bounds_are_accepted() {
    let mut client = shared().database("recall_bounds").connect();
    ingest_all(&mut client, "s", &["one letter", "two letters", "three letters"]);
    for arguments in [
        "recency_weight => 0, mmr_lambda => 0, score_threshold => 0",
        "recency_weight => 1, mmr_lambda => 1",
        "token_budget => 2147483647",
        "token_budget => 2147483647, session_id => 's'",
        "rewrites => '{}'",
        "rewrites => '{a,b,c,d}'",
        "as_of => '9999-12-31'",
    ] {
        let rows = recall(&mut client, &format!("'letters', {arguments}"));
        assert_eq!(rows.len(), 3, "{arguments}");
        assert!(rows.iter().all(|row| row.score.is_finite()), "{arguments}");
    }
}

#[test]
fn all_arguments_null_is_the_default() {
    let mut client = shared().database("recall_nulls").connect();
    ingest_all(&mut client, "s", &["one letter", "two letters", "a parcel"]);
    // One transaction, one now(): ages are the same.
    run(&mut client, "BEGIN");
    let nulls = "'letters', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL";
    assert_eq!(recall(&mut client, nulls), recall(&mut client, "'letters'"));
}

#[test]
fn recall_only_reads() {
    let mut client = shared().database("recall_reads").connect();
    ingest_all(&mut client, "s", &["one letter", "two letters"]);
    run(&mut client, "SET default_transaction_read_only = on");
    let calls = "SELECT count(*) FROM memory_recall('letters', 's', token_budget => 100), \
                        memory_explain('letters'), memory_context('s', 'letters'), memory_stats(), memory_status()";
    run(&mut client, calls);
    run(&mut client, "SET default_transaction_read_only = off");
    let writes = "SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::int8 FROM pg_stat_xact_user_tables";
    run(&mut client, "BEGIN");
    // What the session wrote before and has not reported yet is among it.
    let before = value::<i64>(&mut client, writes, &[]);
    run(&mut client, calls);
    assert_eq!(value::<i64>(&mut client, writes, &[]), before);
    let id: Option<String> =
        value(&mut client, "SELECT pg_current_xact_id_if_assigned()::text", &[]);
    assert_eq!(id, None, "a recall takes no transaction id");
    run(&mut client, "COMMIT");
}

#[test]
fn recall_works_in_queries_with_other_tables() {
    let mut client = shared().database("recall_joins").connect();
    run(
        &mut client,
        "CREATE TABLE tickets (id int, title text);
         INSERT INTO tickets VALUES (1, 'printer'), (2, 'garden');
         SELECT memory_ingest('s', 'user', 'The printer is out of paper.');
         SELECT memory_ingest('s', 'user', 'The garden needs water.')",
    );
    let pairs: Vec<String> = memory_agent_e2e::memory::values(
        &mut client,
        "SELECT t.title || ' ' || m.content FROM tickets t, LATERAL memory_recall(t.title, top_k => 1) m ORDER BY t.id",
        &[],
    );
    assert_eq!(pairs, ["printer The printer is out of paper.", "garden The garden needs water."]);
    run(&mut client, "BEGIN; DECLARE c CURSOR FOR SELECT content FROM memory_recall('printer')");
    run(
        &mut client,
        "FETCH 1 FROM c; SELECT memory_ingest('s', 'user', 'between'); FETCH ALL FROM c; COMMIT",
    );
}

#[test]
fn operators_of_text_search_are_just_text() {
    let mut client = shared().database("recall_operators").connect();
    ingest_all(
        &mut client,
        "s",
        &["Rock & roll is here to stay.", "a:* <-> b | !c", "C:\\temp\\'quoted'"],
    );
    for query in [
        "rock & roll",
        "!rock",
        "rock:*",
        "rock <-> roll",
        "(rock",
        "'rock",
        "\\",
        "'''",
        "rock | ' & (",
        "%_$1",
    ] {
        let rows = client
            .query("SELECT content FROM memory_recall($1, rerank => false)", &[&query])
            .unwrap_or_else(|error| panic!("{query}: {error:?}"));
        assert_eq!(rows.len(), 3, "{query}");
        if query.contains("rock") {
            assert!(rows[0].get::<_, &str>(0).starts_with("Rock"), "{query}");
        }
    }
}

#[test]
fn a_very_long_question_is_answered() {
    let mut client = shared().database("recall_long_question").connect();
    ingest_all(&mut client, "s", &["The lighthouse keeper retired.", "Soup was served."]);
    // 3000 different words of 330 bytes: more than a query of PostgreSQL's text search can hold.
    let words: Vec<String> = (0..3000).map(|n| format!("{n}x{}", "y".repeat(324))).collect();
    let question = format!("lighthouse {}", words.join(" "));
    assert!(question.len() < 1_048_576);
    let rows =
        client.query("SELECT content, lexical FROM memory_recall($1)", &[&question]).unwrap();
    assert_eq!(rows.len(), 2);
    assert!(
        rows.iter().any(|row| row.get::<_, Option<f32>>(1).is_some()),
        "its first word is searched"
    );
}

#[test]
fn a_prepared_statement_follows_its_parameters_and_the_settings() {
    let mut client = shared().database("recall_prepared").connect();
    ingest_all(
        &mut client,
        "s",
        &["The lighthouse keeper retired.", "Soup was served.", "The violin broke."],
    );
    run(&mut client, "SET plan_cache_mode = force_generic_plan; SET memory_agent.rerank = off");
    let statement =
        client.prepare("SELECT content FROM memory_recall($1, top_k => $2::int4)").unwrap();
    for _ in 0..3 {
        for (question, answer) in
            [("soup", "Soup"), ("violin", "The violin"), ("lighthouse", "The lighthouse")]
        {
            let rows = client.query(&statement, &[&question, &1]).unwrap();
            assert!(rows.len() == 1 && rows[0].get::<_, &str>(0).starts_with(answer));
        }
    }
    assert_eq!(client.query(&statement, &[&"soup", &None::<i32>]).unwrap().len(), 3);
    run(&mut client, "SET memory_agent.default_top_k = 2");
    assert_eq!(client.query(&statement, &[&"soup", &None::<i32>]).unwrap().len(), 2);
    run(&mut client, "SET memory_agent.user_id = 'bob'");
    assert!(client.query(&statement, &[&"soup", &5]).unwrap().is_empty());
}
