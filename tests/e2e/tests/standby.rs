//! Recall never writes: it works on a standby and in every kind of read-only transaction, gives the
//! primary's rows there, and leaves no trace in the database that it reads.

mod common;

use common::{Memory, QUESTION, Session};
use memory_agent_e2e::llm::{LlmStub, ScriptedModel};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{
    Client, Cluster, Row, StopMode, expect_error, processes, shared, wait_until,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
/// A text, a session and a name of a speaker, none of which is more than a text.
const HOSTILE: &str =
    "\\.\n'); DROP SCHEMA memory_agent CASCADE; -- $$ \"\\\\\" \u{202e}\u{2028}\u{1F680}";

#[test]
fn standby_recalls_what_the_primary_recalls() {
    let primary = Cluster::builder().preload(true).start();
    let mut session = Session::with_memories(&primary, "replicated");
    let standby = primary.standby();
    let configured =
        "SELECT memory_configure(session_id => 's', settings => '{\"recency_weight\": 0.45}')";
    session.client.batch_execute(configured).unwrap();
    for n in 0..30 {
        session
            .remember(&format!("Note {n}: the {} was about food and travel.", topic(n)))
            .unwrap();
    }
    primary.wait_for_replay(&standby);
    let mut reader = Session::open(&standby, "replicated");
    assert_ne!(standby.model_server_pid(), primary.model_server_pid());
    let mut answered = 0;
    for question in [QUESTION, "Which notes are about travel?", "What did the meeting decide?"] {
        for arguments in
            ["", ", rerank => false", ", session_id => 's', token_budget => 60", ", top_k => 20"]
        {
            let rows = |client: &mut Client| everything(client, question, arguments);
            let on_primary = rows(&mut session.client);
            assert_eq!(rows(&mut reader.client), on_primary, "{question}{arguments}");
            answered += on_primary.len();
        }
    }
    assert!(answered > 20, "the comparison is about {answered} rows only");
    let weight = "SELECT memory_explain('food', 's')->>'recency_weight'";
    let weight: String = reader.client.query_one(weight, &[]).unwrap().get(0);
    assert_eq!(weight, "0.45", "what was configured for the session holds here too");
    for statement in [
        "SELECT memory_explain('food')",
        "SELECT memory_context('s', 'food')",
        "SELECT memory_context('s', 'What did we discuss about food?')",
        "SELECT memory_search_archive('food')",
        "SELECT memory_list()",
        "SELECT memory_list_documents()",
        "SELECT memory_augment('[{\"role\": \"user\", \"content\": \"food?\"}]', 's')",
        "SELECT memory_load('s'), memory_configure(session_id => 's')",
        "SELECT memory_state('[]', 's')",
        "SELECT memory_stats()",
        "SELECT memory_history(min(id::text)::uuid) FROM memory_agent.entries",
        "SELECT memory_status()",
        "SELECT memory_embed('food'), memory_rerank('food', '{a,b}'), memory_count_tokens('food')",
    ] {
        reader
            .client
            .batch_execute(statement)
            .unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    }
    assert_eq!(reader.status("model server").state, "running");
    assert_eq!(reader.status("launcher").state, "not running");
    assert_eq!(reader.status("worker").state, "not running");
    for statement in [
        "SELECT memory_ingest('s', 'user', 'no')",
        "SELECT memory_ingest_batch('[{\"role\": \"user\", \"content\": \"no\"}]', 's')",
        "SELECT memory_add('no', infer => false)",
        "SELECT memory_add_document('no')",
        "SELECT memory_close_episode('s')",
        "SELECT memory_clear('s')",
        "SELECT memory_update(min(id::text)::uuid, 'no') FROM memory_agent.entries WHERE kind = 'turn'",
        "SELECT memory_forget(min(id::text)::uuid) FROM memory_agent.entries",
        "SELECT memory_reserve_tokens('s', 0)",
        "SELECT memory_configure(settings => '{}')",
        "SELECT memory_summarize('no')",
        "SELECT memory_chat('[{\"role\": \"user\", \"content\": \"no\"}]', 's')",
    ] {
        expect_error(reader.client.batch_execute(statement), "25006");
    }
    assert!(reader.take_warnings().is_empty());
    model_server_of_the_standby_is_replaced(&standby, &mut reader);
    promotion_makes_it_writable(standby, reader);
}

fn topic(n: usize) -> &'static str {
    ["meeting", "holiday in Lisbon", "letter from Ana", "train timetable"][n % 4]
}

/// All columns of an answer; the ages are counted from one moment, so that they are the same.
fn everything(client: &mut Client, question: &str, arguments: &str) -> Vec<String> {
    let statement = format!(
        "SELECT r::text FROM memory_recall($1, as_of => date_trunc('day', now()) + interval '1 day' {arguments}) r"
    );
    client
        .query(&statement, &[&question])
        .unwrap_or_else(|error| panic!("{statement}: {error:?}"))
        .iter()
        .map(|row| row.get(0))
        .collect()
}

fn model_server_of_the_standby_is_replaced(standby: &Cluster, reader: &mut Session) {
    let killed = standby.model_server_pid();
    processes::signal(killed, libc::SIGKILL);
    reader.expect_an_answer();
    wait_until(PATIENCE, "recall on the standby to work in full", || reader.is_whole());
    assert_ne!(standby.model_server_pid(), killed);
}

fn promotion_makes_it_writable(standby: Cluster, mut reader: Session) {
    let promoted: bool = reader.client.query_one("SELECT pg_promote()", &[]).unwrap().get(0);
    assert!(promoted);
    let server = standby.model_server_pid();
    let id = reader.remember("After the promotion she took up pottery.").unwrap();
    assert!(reader.take_warnings().is_empty());
    let best = reader.recall("Which hobby did she take up?").unwrap().remove(0);
    assert_eq!((best.id, best.similarity.is_some()), (id, true));
    assert_eq!(standby.model_server_pid(), server, "the promotion cost the model server");
    // Launcher and worker start by themselves.
    wait_until(PATIENCE, "a launcher and a worker", || {
        ["launcher", "worker"].iter().all(|component| reader.status(component).state == "running")
    });
    reader.client.batch_execute("SET memory_agent.embed_on_ingest = async").unwrap();
    reader.remember("She sold her bicycle.").unwrap();
    let waited: bool = reader.client.query_one("SELECT memory_wait('60 s')", &[]).unwrap().get(0);
    let left = "SELECT count(*) FROM memory_agent.entries WHERE embedding IS NULL";
    let left: i64 = reader.client.query_one(left, &[]).unwrap().get(0);
    assert_eq!((waited, left), (true, 0));
}

/// Work that the primary had not done when it was lost is done where the standby takes over, though nobody
/// calls anything there: a job that a worker had at the LLM, one that waited, and an embedding.
#[test]
fn promotion_finishes_what_the_primary_left() {
    let stub = LlmStub::start(
        ScriptedModel::new()
            .knows("I live in Rome.", "home", "Rome", "The user lives in Rome.")
            .knows("My dog is called Rex.", "dog", "Rex", "The user's dog is called Rex."),
    );
    let primary = Cluster::builder()
        .preload(true)
        .setting("memory_agent.llm_base_url", stub.base_url())
        .setting("memory_agent.llm_model", "stub-1")
        .start();
    let mut client = primary.database("left").connect();
    let standby = primary.standby();
    stub.hold(true);
    run(&mut client, "SELECT memory_ingest('s', 'user', 'I live in Rome.')");
    wait_until(PATIENCE, "a job at the LLM", || stub.in_flight() > 0);
    run(&mut client, "SELECT memory_ingest('s', 'user', 'My dog is called Rex.')");
    primary.alter_system("memory_agent.worker", Some("off"));
    run(&mut client, "SET memory_agent.embed_on_ingest = async");
    let embedded_later = "SELECT memory_ingest('s', 'assistant', $1, metadata => jsonb_build_object('name', $1::text))";
    client.execute(embedded_later, &[&HOSTILE]).unwrap();
    let left = "SELECT string_agg(DISTINCT status, ',' ORDER BY status) FROM memory_agent.jobs";
    assert_eq!(value::<String>(&mut client, left, &[]), "pending,running");
    primary.wait_for_replay(&standby);
    drop(client);
    primary.stop(StopMode::Immediate);
    stub.hold(false);

    let mut promoted = standby.connect("left");
    assert!(value::<bool>(&mut promoted, "SELECT pg_promote()", &[]));
    wait_until(PATIENCE, "the jobs of the primary", || {
        value::<String>(&mut promoted, left, &[]) == "done"
    });
    let facts = "SELECT content FROM memory_agent.entries WHERE kind = 'fact' AND state = 'active' ORDER BY 1";
    assert_eq!(
        values::<String>(&mut promoted, facts, &[]),
        ["The user lives in Rome.", "The user's dog is called Rex."]
    );
    let embedded = "SELECT bool_and(embedding IS NOT NULL) FROM memory_agent.entries";
    assert!(value::<bool>(&mut promoted, embedded, &[]));
    let same = "SELECT content = $1 AND metadata->>'name' = $1 \
                  FROM memory_agent.entries WHERE role = 'assistant'";
    assert!(value::<bool>(&mut promoted, same, &[&HOSTILE]));
}

#[test]
fn standby_recalls_while_the_primary_writes() {
    let primary = Cluster::builder().preload(true).start();
    let mut writer = Session::with_memories(&primary, "busy");
    let standby = primary.standby();
    primary.wait_for_replay(&standby);
    let mut reader = Session::open(&standby, "busy");
    let stop = AtomicBool::new(false);
    let (written, read) = std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let mut count = 0;
            while !stop.load(Ordering::Relaxed) {
                writer.remember(&format!("Entry {count} of a long afternoon.")).unwrap();
                count += 1;
            }
            writer.client.batch_execute("VACUUM memory_agent.entries").unwrap();
            count
        });
        let start = Instant::now();
        let mut read = 0;
        while start.elapsed() < Duration::from_secs(4) || read < 20 {
            assert!(reader.is_whole());
            read += 1;
        }
        stop.store(true, Ordering::Relaxed);
        (writing.join().unwrap(), read)
    });
    println!("{read} recalls on the standby while the primary stored {written} turns");
    primary.wait_for_replay(&standby);
    let last = written - 1;
    let rows = reader.recall(&format!("Entry {last} of a long afternoon")).unwrap();
    assert!(rows.iter().any(|row| row.content.starts_with(&format!("Entry {last} "))), "{rows:?}");
}

#[test]
fn recall_works_in_every_read_only_transaction() {
    let mut session = Session::with_memories(shared(), "read_only");
    let expected = contents(&session.recall(QUESTION).unwrap());
    let mut answers = |begin: &str| {
        let mut transaction = session.client.build_transaction().start().unwrap();
        transaction.batch_execute(&format!("ROLLBACK; {begin}")).unwrap();
        let rows =
            transaction.query("SELECT content FROM memory_recall($1)", &[&QUESTION]).unwrap();
        let xid: Option<String> = transaction
            .query_one("SELECT pg_current_xact_id_if_assigned()::text", &[])
            .unwrap()
            .get(0);
        assert_eq!(xid, None, "{begin}: recall assigned a transaction id");
        transaction.commit().unwrap();
        rows.iter().map(|row| row.get(0)).collect::<Vec<String>>()
    };
    for begin in [
        "BEGIN READ ONLY",
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE",
        "BEGIN ISOLATION LEVEL SERIALIZABLE",
        "BEGIN; SAVEPOINT a",
    ] {
        assert_eq!(answers(begin), expected, "{begin}");
    }
    let mut transaction = session.client.build_transaction().read_only(true).start().unwrap();
    expect_error(transaction.batch_execute("SELECT memory_ingest('s', 'user', 'no')"), "25006");
}

fn contents(rows: &[Memory]) -> Vec<String> {
    rows.iter().map(|row| row.content.clone()).collect()
}

fn texts(rows: &[Row]) -> Vec<String> {
    rows.iter().map(|row| row.get(0)).collect()
}

#[test]
fn recall_works_wherever_a_function_may_stand() {
    let mut session = Session::with_memories(shared(), "places");
    let expected = contents(&session.recall(QUESTION).unwrap());
    session
        .client
        .batch_execute(
            "CREATE FUNCTION remembered(question text) RETURNS SETOF text LANGUAGE sql STABLE \
                 AS 'SELECT content FROM memory_recall(question)'; \
             CREATE FUNCTION remembered_in_a_loop(question text) RETURNS SETOF text LANGUAGE plpgsql STABLE AS \
                 'DECLARE r record; BEGIN FOR r IN SELECT * FROM memory_recall(question) LOOP \
                      RETURN NEXT r.content; END LOOP; END'; \
             CREATE TABLE questions AS SELECT n, 'What is her favourite food?' AS question \
                 FROM generate_series(1, 20000) n; \
             ALTER TABLE questions SET (parallel_workers = 2); ANALYZE questions; \
             CREATE VIEW answers AS SELECT r.content FROM memory_recall('What is her favourite food?') r",
        )
        .unwrap();
    for statement in [
        "SELECT remembered($1)",
        "SELECT remembered_in_a_loop($1)",
        "SELECT (memory_recall($1)).content",
        "SELECT content FROM answers WHERE $1::text IS NOT NULL",
        "WITH r AS MATERIALIZED (SELECT * FROM memory_recall($1)) SELECT content FROM r",
        "SELECT content FROM memory_recall($1) WITH ORDINALITY r ORDER BY ordinality",
        "SELECT content FROM memory_recall((SELECT max(question) FROM questions WHERE question = $1))",
    ] {
        let rows = session
            .client
            .query(statement, &[&QUESTION])
            .unwrap_or_else(|error| panic!("{statement}: {error:?}"));
        assert_eq!(texts(&rows), expected, "{statement}");
    }
    // As parallel as PostgreSQL can be made to plan; the scan may be, recall never.
    session
        .client
        .batch_execute(
            "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0",
        )
        .unwrap();
    let statement = "SELECT DISTINCT r.content FROM (SELECT question FROM questions WHERE n % 9999 = 0) q \
                       CROSS JOIN LATERAL memory_recall(q.question) r";
    let rows = texts(&session.client.query(statement, &[]).unwrap());
    assert_eq!(rows.len(), expected.len(), "{rows:?}");

    let mut transaction = session.client.transaction().unwrap();
    transaction
        .batch_execute(
            "DECLARE answers SCROLL CURSOR FOR SELECT content FROM memory_recall('What is her favourite food?')",
        )
        .unwrap();
    let mut fetched = texts(&transaction.query("FETCH 1 FROM answers", &[]).unwrap());
    transaction.query("SELECT * FROM memory_recall('a question in between')", &[]).unwrap();
    fetched.extend(texts(&transaction.query("FETCH ALL FROM answers", &[]).unwrap()));
    assert_eq!(fetched, expected);
    let again = texts(&transaction.query("FETCH ABSOLUTE 1 FROM answers", &[]).unwrap());
    assert_eq!(again, expected[..1]);
}

#[test]
fn recall_reads_one_snapshot() {
    let mut session = Session::with_memories(shared(), "snapshot");
    let mut other = Session::open(shared(), "snapshot");
    let mut transaction = session
        .client
        .build_transaction()
        .isolation_level(postgres::IsolationLevel::RepeatableRead)
        .start()
        .unwrap();
    let mut recall = || {
        texts(
            &transaction
                .query("SELECT content FROM memory_recall('favourite food', top_k => 50)", &[])
                .unwrap(),
        )
    };
    let before = recall();
    other.remember("Her favourite food is now a favourite food from Peru.").unwrap();
    assert_eq!(recall(), before, "a row that was committed later");
    // What the transaction itself stored is there; its transaction id changes nothing else.
    transaction
        .batch_execute("SELECT memory_ingest('own', 'user', 'My own favourite food is bread.')")
        .unwrap();
    let after = texts(
        &transaction
            .query("SELECT content FROM memory_recall('favourite food', top_k => 50)", &[])
            .unwrap(),
    );
    assert_eq!(after.len(), before.len() + 1);
    assert!(after.contains(&"My own favourite food is bread.".to_owned()));
    transaction.rollback().unwrap();
}

/// Positions in the write-ahead log, and rows inserted, updated and deleted by anybody.
#[derive(Debug, PartialEq)]
struct Written {
    log_position: String,
    rows: i64,
}

#[test]
fn recall_leaves_nothing_behind() {
    let cluster = Cluster::builder().preload(true).setting("autovacuum", "off").start();
    let mut session = Session::with_memories(&cluster, "traceless");
    // Reading a page for the first time may set hint bits and prune it.
    for statement in ["VACUUM FREEZE", "CHECKPOINT"] {
        session.client.batch_execute(statement).unwrap();
    }
    assert!(session.is_whole());
    // PostgreSQL itself logs something now and then, so an attempt without anything counts.
    let mut attempts = Vec::new();
    for _ in 0..4 {
        let before = written(&mut session.client);
        for n in 0..50 {
            let rows = session.recall(&format!("{QUESTION} ({n})")).unwrap();
            assert!(!rows.is_empty());
        }
        let after = written(&mut session.client);
        assert_eq!(after.rows, before.rows, "recall changed rows");
        if after == before {
            return;
        }
        attempts.push((before, after));
    }
    panic!("50 recalls wrote to the log: {attempts:?}");
}

fn written(client: &mut Client) -> Written {
    client.batch_execute("SELECT pg_stat_force_next_flush()").unwrap();
    let row = client
        .query_one(
            "SELECT pg_current_wal_insert_lsn()::text, \
                    (SELECT sum(n_tup_ins + n_tup_upd + n_tup_del)::bigint FROM pg_stat_all_tables)",
            &[],
        )
        .unwrap();
    Written { log_position: row.get(0), rows: row.get(1) }
}
