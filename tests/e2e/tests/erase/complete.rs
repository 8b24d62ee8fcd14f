//! Everything of a user: in every table, in a dump, in the data files.

use crate::scene::Scene;
use crate::{SECRET, digest, erase, tables_with, talkative, verified};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, Cluster, Programs, wait_until};
use std::path::Path;
use std::time::Duration;

/// Puts the secret wherever a text can be, as far as possible through the functions.
fn plant(scene: &mut Scene) {
    let client = &mut scene.client;
    for statement in [
        "SELECT memory_ingest('talk-zzqx77', 'user', 'My code is zzqx77. ' || repeat('It opens doors. ', 60), \
                              metadata => '{\"name\": \"zzqx77\", \"k\": [\"zzqx77\"]}')",
        "SELECT memory_ingest('talk-zzqx77', 'assistant', 'So zzqx77 it is.')",
        "SELECT memory_add('The code is zzqx77.', infer => false, fact_key => 'code zzqx77')",
        "SELECT memory_add('The code zzqx77 is old.', infer => false, fact_key => 'code zzqx77')",
        "SELECT memory_add_document('# Codes' || chr(10) || chr(10) || 'One is zzqx77.', 'On zzqx77')",
        "SELECT memory_configure(session_id => 'talk-zzqx77', settings => '{\"cross_session_triggers\": \"zzqx77\"}')",
        "SELECT memory_configure(settings => '{\"cross_session_triggers\": \"zzqx77\"}')",
        "SELECT memory_summarize(repeat('The code zzqx77 opens doors. ', 60))",
        "SELECT memory_create_token('alice', 'zzqx77')",
        "SELECT memory_ingest('of bob', 'user', 'Bob likes tea.', user_id => 'bob')",
        "SELECT memory_add('Bob has a boat.', infer => false, fact_key => 'boat', user_id => 'bob')",
    ] {
        run(client, statement);
    }
    scene.drain();
    // What only failures and other settings leave behind.
    run(
        &mut scene.client,
        "INSERT INTO memory_agent.traces (id, user_id, agent_id, session_id, body) \
             VALUES (gen_random_uuid(), 'alice', 'default', 'talk-zzqx77', '{\"raw_output\": \"zzqx77\"}'); \
         INSERT INTO memory_agent.jobs (id, kind, user_id, agent_id, session_id, status, payload, last_error) \
             VALUES (gen_random_uuid(), 'extract', 'alice', 'default', 'other', 'dead', \
                     '{\"answer\": \"zzqx77\"}', 'the answer was: zzqx77'); \
         INSERT INTO memory_agent.llm_calls (id, user_id, purpose, model, status, error) \
             VALUES (gen_random_uuid(), 'alice', 'extract', 'm', 'http 400', 'refused: zzqx77'); \
         INSERT INTO memory_agent.archives \
             (id, user_id, agent_id, session_id, namespace, doc_type, content, content_hash) \
             VALUES (gen_random_uuid(), 'alice', 'default', 'talk-zzqx77', 'conversations:alice', 'conversation', \
                     '# zzqx77', sha256('# zzqx77'))",
    );
}

/// Whether the whole database, as pg_dump writes it, contains the secret.
fn is_in_dump(cluster: &Cluster, database: &str) -> bool {
    let programs = Programs::of(cluster);
    let path = programs.file("erase.sql");
    programs.dump(database, &["-f", &path]);
    let dump = std::fs::read(&path).expect("the dump");
    assert!(dump.len() > 10_000, "the dump is empty");
    contains(&dump)
}

fn contains(bytes: &[u8]) -> bool {
    bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes())
}

/// The files below a directory that contain the secret.
fn files_with(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).expect("the data directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_with(&path));
        } else if std::fs::read(&path).is_ok_and(|bytes| contains(&bytes)) {
            found.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    found
}

#[test]
fn nothing_of_a_user_is_left_in_tables_dumps_and_files() {
    let mut scene = Scene::with_settings(
        talkative,
        &[
            ("memory_agent.trace", "calls"),
            ("memory_agent.summarization", "on"),
            ("autovacuum", "off"),
        ],
    );
    plant(&mut scene);
    let client = &mut scene.client;
    assert_eq!(
        tables_with(client, SECRET),
        [
            "agents",
            "archives",
            "entries",
            "episodes",
            "history",
            "jobs",
            "llm_calls",
            "session_summaries",
            "sessions",
            "tokens",
            "traces"
        ]
    );
    let planted: bool = value(
        client,
        "SELECT (SELECT bool_or(body::text ~ 'zzqx77') AND bool_or(reason ~ 'zzqx77') \
                        AND bool_or(op = 'summarize' AND body::text ~ 'zzqx77') FROM memory_agent.history) \
            AND (SELECT bool_or(request::text ~ 'zzqx77') AND bool_or(response::text ~ 'zzqx77') \
                   FROM memory_agent.llm_calls) \
            AND EXISTS (SELECT FROM memory_agent.entries WHERE kind = 'fact' AND content ~ 'Noted: .*zzqx77')",
        &[],
    );
    assert!(planted, "not everything was planted");
    let cost = "SELECT concat(count(*), ' ', sum(prompt_tokens)) FROM memory_agent.llm_calls";
    let cost_before: String = value(client, cost, &[]);
    let of_bob = digest(client, "user_id = 'bob'");
    run(client, "ANALYZE; CHECKPOINT");
    let base = scene.cluster.data().join("base");
    assert!(!files_with(&base).is_empty() && is_in_dump(&scene.cluster, crate::scene::DATABASE));

    let counts = erase(client, "user_id => 'alice', reason => 'ticket 42'");
    for table in [
        "entries",
        "session_summaries",
        "archives",
        "traces",
        "episodes",
        "sessions",
        "agents",
        "tokens",
        "jobs",
        "llm_calls",
        "history",
    ] {
        assert!(counts[table].as_u64() > Some(0), "{table}: {counts}");
    }
    assert_eq!(tables_with(client, SECRET), Vec::<String>::new());
    assert!(!is_in_dump(&scene.cluster, crate::scene::DATABASE));
    assert_eq!(digest(client, "user_id = 'bob'"), of_bob);
    assert_eq!(value::<String>(client, cost, &[]), cost_before, "what calls cost stays");
    expect_tombstone(client);

    // The files follow when dead rows and old statistics are gone.
    for statement in [
        // ANALYZE keeps the statistics of a table that became empty.
        "DELETE FROM pg_statistic s USING pg_class c \
          WHERE c.oid = s.starelid AND c.relnamespace = 'memory_agent'::regnamespace",
        "ANALYZE",
        "VACUUM FULL",
        "CHECKPOINT",
    ] {
        run(client, statement);
    }
    let left: Vec<String> = values(
        client,
        "SELECT format('%s: %s', n, pg_filenode_relation(0, n::oid)) FROM unnest($1::text[]) n",
        &[&files_with(&base)],
    );
    assert_eq!(left, Vec::<String>::new());

    // Nothing more to erase, and nothing more is written down about it.
    let rows: i64 = value(client, "SELECT count(*) FROM memory_agent.history", &[]);
    let again = erase(client, "user_id => 'alice'");
    assert!(again.as_object().unwrap().values().all(|count| count == 0), "{again}");
    assert_eq!(value::<i64>(client, "SELECT count(*) FROM memory_agent.history", &[]), rows);
    // The user may begin anew.
    run(client, "SELECT memory_ingest('talk', 'user', 'Hello again.')");
    assert_eq!(value::<i64>(client, "SELECT count(*) FROM memory_recall('hello')", &[]), 1);
}

/// One row says what happened; the others keep their places in the chain, without their texts.
fn expect_tombstone(client: &mut Client) {
    wait_until(Duration::from_secs(60), "the seals", || {
        value::<i64>(client, "SELECT count(*) FROM memory_agent.history WHERE seq IS NULL", &[])
            == 0
    });
    assert_eq!(verified(client), ["intact"]);
    let tombstone: bool = value(
        client,
        "SELECT t.reason = 'ticket 42' AND t.actor = session_user AND t.body ->> 'scope' = 'user' \
                AND (t.body #>> '{counts,history}')::int8 = (SELECT count(*) FROM memory_agent.history h \
                        WHERE h.erased_by = t.id AND h.body IS NULL AND h.salt IS NULL AND h.reason IS NULL) \
                AND NOT EXISTS (SELECT FROM memory_agent.history h \
                                 WHERE h.user_id = 'alice' AND h.op <> 'erase' AND h.erased_by IS NULL) \
           FROM memory_agent.history t WHERE t.user_id = 'alice' AND t.op = 'erase'",
        &[],
    );
    assert!(tombstone);
    // A change that takes one more body away in its name is found out.
    run(
        client,
        "SELECT memory_add('A fact.', infer => false); SET session_replication_role = replica; \
         UPDATE memory_agent.history h SET body = NULL, salt = NULL, \
                erased_by = (SELECT id FROM memory_agent.history WHERE op = 'erase') \
          WHERE user_id = 'alice' AND op = 'add' AND erased_by IS NULL; \
         RESET session_replication_role",
    );
    assert_eq!(verified(client), ["broken", "body gone"]);
    run(
        client,
        "SET session_replication_role = replica; \
         DELETE FROM memory_agent.history h USING memory_agent.entries e WHERE h.entry_id = e.id AND e.user_id = 'alice'; \
         DELETE FROM memory_agent.entries WHERE user_id = 'alice'; \
         RESET session_replication_role",
    );
}
