//! What released versions wrote. `rows_0.1.0.dump` is a pg_dump of a database that 0.1.0 filled: turns of
//! several sessions and users, windows of a long text, a fact that was replaced, shared memory, a document,
//! a cleared session, a summary, settings, a job that waits. `rows_0.2.0.dump` is the same database after
//! 0.2.0 worked in it: history is sealed, and a turn was changed, one forgotten, one brought back, one
//! erased.

use crate::{older_database, update};
use memory_agent_e2e::memory::{recalled_texts, run, value, values};
use memory_agent_e2e::{
    Client, Cluster, Programs, Uuid, expect_error, shared, shared_without_worker,
};
use std::collections::BTreeMap;

/// Every version that was released, and what it wrote.
const DUMPS: [(&str, &str); 2] =
    [("0.1.0", include_str!("rows_0.1.0.dump")), ("0.2.0", include_str!("rows_0.2.0.dump"))];

/// What the update stores for an agent that has sessions.
const OF_THE_UPDATE: &str = "'{\"session_recall\": \"session\"}'";

/// Per table the number of rows, and a digest of the columns that the version knew, jobs aside: a worker
/// does the one that waits.
fn rows(client: &mut Client, columns: &[(String, String)]) -> BTreeMap<String, String> {
    let digest = |(table, columns): &(String, String)| {
        let others = match table.as_str() {
            "agents" => format!("WHERE settings <> {OF_THE_UPDATE}"),
            _ => String::new(),
        };
        let query = format!(
            "SELECT count(*) || ' ' || md5(string_agg(md5(t::text), '' ORDER BY t::text)) \
               FROM (SELECT {columns} FROM memory_agent.{table} {others}) t"
        );
        (table.clone(), value::<Option<String>>(client, &query, &[]).unwrap_or_default())
    };
    columns.iter().map(digest).collect()
}

fn columns(client: &mut Client) -> Vec<(String, String)> {
    let query = "SELECT ARRAY[c.relname::text, string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum)] \
                   FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 \
                  WHERE c.relnamespace = 'memory_agent'::regnamespace AND c.relkind = 'r' \
                    AND c.relname <> 'jobs' GROUP BY c.relname";
    values::<Vec<String>>(client, query, &[])
        .into_iter()
        .map(|pair| (pair[0].clone(), pair[1].clone()))
        .collect()
}

/// A database with the rows of a version, not updated yet.
fn filled(cluster: &Cluster, name: &str, (version, dump): (&str, &str)) -> Client {
    let client = older_database(cluster, name, version);
    let programs = Programs::of(cluster);
    let script = programs.file(&format!("{name}.sql"));
    std::fs::write(&script, dump).unwrap();
    programs.execute(name, &script);
    client
}

#[track_caller]
fn answers_as_before(client: &mut Client) {
    let best = |client: &mut Client, arguments: &str| {
        recalled_texts(client, &format!("{arguments}, top_k => 1")).remove(0)
    };
    assert_eq!(best(client, "'Where does Ann live now?'"), "Ann lives in Paris.");
    assert_eq!(
        best(client, "'Where did Ann live?', as_of => '2026-02-15', kinds => '{fact}'"),
        "Ann lives in Rome."
    );
    // It has no embedding where no worker runs, and then need not come first.
    let key = recalled_texts(client, "'Where is the key?', top_k => 2");
    assert!(key.iter().any(|text| text == "The key is under the flowerpot."), "{key:?}");
    assert!(best(client, "'a river', session_id => 's2'").starts_with("The long story of a river"));
    assert_eq!(
        best(client, "'Rex the dog', session_id => 's1', kinds => '{turn}'"),
        "Ann: I have a small dog.\nIt is called Rex."
    );
    assert_eq!(
        best(client, "'of whom?', user_id => 'bob', kinds => '{turn}', session_id => 's1'"),
        "of another user"
    );
    let loaded: Vec<String> = values(client, "SELECT content FROM memory_load('s1')", &[]);
    assert_eq!(loaded.first().map(String::as_str), Some("Of dogs and budgets."));
    assert_eq!(loaded.len(), 4);
    assert_eq!(value::<i64>(client, "SELECT count(*) FROM memory_load('gone')", &[]), 0);
}

/// What was changed, forgotten and brought back with 0.2.0, and the history of it.
#[track_caller]
fn lifecycle_is_as_it_was(client: &mut Client) {
    let session: Vec<String> = values(client, "SELECT content FROM memory_load('s3')", &[]);
    for (content, is_there) in [
        ("The bike is green.", true),
        ("The bike is red.", false),
        ("The attic door squeaks.", false),
        ("The cellar is dry.", true),
        ("A secret that went away.", false),
    ] {
        assert_eq!(session.iter().any(|turn| turn == content), is_there, "{content}");
    }
    let history = "SELECT string_agg(h.op, ' ' ORDER BY h.at) \
                     FROM memory_agent.entries e, memory_history(e.id) h WHERE e.content = 'The cellar is dry.'";
    assert_eq!(value::<String>(client, history, &[]), "ingest delete restore");
    let states: Vec<String> = values(client, "SELECT state FROM memory_verify_history()", &[]);
    assert_eq!(states, ["intact"]);
}

#[test]
fn rows_of_0_1_0_stay_and_are_found() {
    rows_stay_and_are_found(DUMPS[0]);
}

#[test]
fn rows_of_0_2_0_stay_and_are_found() {
    lifecycle_is_as_it_was(&mut rows_stay_and_are_found(DUMPS[1]));
}

fn rows_stay_and_are_found(dump: (&str, &str)) -> Client {
    let mut client = filled(shared(), &format!("rows_stay_{}", dump.0), dump);
    let columns = columns(&mut client);
    // The worker goes on meanwhile. What it does is not seen in this snapshot.
    run(&mut client, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    let before = rows(&mut client, &columns);
    for table in ["entries", "entry_windows", "episodes", "history", "session_summaries", "traces"]
    {
        assert_ne!(before[table], "", "the dump has rows of {table}");
    }
    // Nothing but the columns that the update changed would have a reason to differ.
    crate::update(&mut client);
    assert_eq!(rows(&mut client, &columns), before);
    run(&mut client, "COMMIT");
    assert!(
        value::<bool>(&mut client, "SELECT memory_wait('90 s')", &[]),
        "a job of {} is done",
        dump.0
    );
    answers_as_before(&mut client);

    // They are lived with as with new ones: the key is held, duplicates are known, sessions go on.
    let paris: Uuid = value(
        &mut client,
        "SELECT id FROM memory_agent.entries WHERE content = 'Ann lives in Paris.'",
        &[],
    );
    let add = "SELECT memory_add('Ann lives in Paris.', infer => false, fact_key => 'home')";
    assert_eq!(value::<Uuid>(&mut client, add, &[]), paris);
    run(&mut client, "SELECT memory_add('Ann lives in Oslo.', infer => false, fact_key => 'home')");
    let state = "SELECT state_reason FROM memory_agent.entries WHERE id = $1";
    assert_eq!(value::<String>(&mut client, state, &[&paris]), "superseded");
    run(&mut client, "SELECT memory_ingest('s1', 'user', 'Rex is asleep.')");
    let turns: i64 = value(&mut client, "SELECT memory_clear('s1')::int8", &[]);
    assert_eq!(turns, 4);
    client
}

#[test]
fn an_updated_database_is_dumped_and_restored() {
    let cluster = shared_without_worker();
    let mut client = filled(cluster, "rows_dumped", DUMPS[0]);
    update(&mut client);
    answers_as_before(&mut client);
    let columns = columns(&mut client);
    let programs = Programs::of(cluster);
    let archive = programs.file("rows_dumped");
    programs.dump("rows_dumped", &["-Fc", "-f", &archive]);
    cluster.plain_database("rows_restored");
    programs.restore("rows_restored", &[], &archive);
    let mut restored = cluster.connect("rows_restored");
    assert_eq!(rows(&mut restored, &columns), rows(&mut client, &columns));
    run(&mut restored, "SET memory_agent.user_id = 'alice'");
    answers_as_before(&mut restored);
}

/// A dump of an older database creates the version of the server that it is restored into.
#[test]
fn an_older_dump_is_restored_into_the_newest() {
    let cluster = shared_without_worker();
    for dump in DUMPS {
        let (old, new) = (format!("rows_dump_{}", dump.0), format!("rows_restored_{}", dump.0));
        filled(cluster, &old, dump);
        let programs = Programs::of(cluster);
        let archive = programs.file(&old);
        programs.dump(&old, &["-Fc", "-f", &archive]);
        cluster.plain_database(&new);
        programs.restore(&new, &[], &archive);
        let mut restored = cluster.connect(&new);
        let version = crate::schema_version(&mut restored);
        assert_eq!(version, crate::newest_version(&mut restored));
        run(&mut restored, "SET memory_agent.user_id = 'alice'");
        answers_as_before(&mut restored);
        let back = "ALTER EXTENSION memory_agent UPDATE TO '0.1.0'";
        expect_error(restored.batch_execute(back), "22023");
    }
}
