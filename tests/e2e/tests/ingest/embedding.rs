//! Embedding while storing: now, by a job, or not; and texts longer than the model reads at once.

use memory_agent_e2e::memory::{
    explain, ingest, ingest_all, recall, recalled_texts, run, value, values,
};
use memory_agent_e2e::{Client, shared, shared_without_worker};

/// All jobs as `kind user/agent/session`.
fn jobs(client: &mut Client) -> Vec<String> {
    values(
        client,
        "SELECT concat(kind, ' ', user_id, '/', agent_id, '/', coalesce(session_id, '-')) \
           FROM memory_agent.jobs ORDER BY 1",
        &[],
    )
}

fn embedded(client: &mut Client) -> i64 {
    value(client, "SELECT count(embedding) FROM memory_agent.entries", &[])
}

#[test]
fn sync_embeds_and_queues_nothing() {
    let mut client = shared().database("embed_sync").connect();
    ingest(&mut client, "s", "one");
    run(&mut client, "SELECT memory_add('two', infer => false)");
    assert_eq!((embedded(&mut client), jobs(&mut client)), (2, vec![]));
}

#[test]
fn async_queues_one_job_for_a_scope() {
    let mut client = shared_without_worker().database("embed_async").connect();
    run(&mut client, "SET memory_agent.embed_on_ingest = async");
    for turn in ["Blue whales sing.", "Green parrots talk."] {
        ingest(&mut client, "s", turn);
    }
    ingest_all(&mut client, "t", &["one", "two"]);
    run(&mut client, "SELECT memory_add('Anna likes tea', infer => false)");
    let expected = ["embed alice/default/-", "embed alice/default/s", "embed alice/default/t"];
    assert_eq!(jobs(&mut client), expected);
    run(&mut client, "BEGIN");
    ingest(&mut client, "u", "rolled back");
    run(&mut client, "ROLLBACK");
    assert_eq!(jobs(&mut client), expected, "a job is rolled back with its turn");

    assert_eq!(embedded(&mut client), 0);
    let estimated: bool = value(
        &mut client,
        "SELECT bool_and(token_count > 0 AND NOT token_count_exact AND embedding_model IS NULL) \
           FROM memory_agent.entries",
        &[],
    );
    assert!(estimated, "nobody waits for the model server");
    assert_eq!(recalled_texts(&mut client, "'whale'")[0], "Blue whales sing.");
}

#[test]
fn what_was_stored_async_is_embedded_by_the_worker() {
    let mut client = shared().database("embed_by_worker").connect();
    run(&mut client, "SET memory_agent.embed_on_ingest = async");
    let long = "The gardener planted lavender and roses behind the cottage. ".repeat(100);
    ingest_all(&mut client, "s", &["Blue whales sing.", &long]);
    run(&mut client, "SELECT memory_add('Anna likes tea', infer => false)");
    let waited: bool = value(&mut client, "SELECT memory_wait('60 s')", &[]);
    assert!(waited, "the queue does not drain");
    let row: String = value(
        &mut client,
        "SELECT concat_ws('/', count(embedding), count(DISTINCT embedding_model), \
                          (SELECT count(*) > 0 FROM memory_agent.entry_windows), \
                          bool_and(token_count_exact AND token_count = memory_count_tokens(content))) \
           FROM memory_agent.entries",
        &[],
    );
    assert_eq!(row, "3/1/t/t");
    let jobs: Vec<String> = values(
        &mut client,
        "SELECT concat_ws(' ', kind, status, attempts, done, total) FROM memory_jobs ORDER BY total",
        &[],
    );
    assert_eq!(jobs, ["embed done 0 1 1", "embed done 0 2 2"]);
    // The same embedding as if it had been stored at once.
    let same: bool = value(
        &mut client,
        "SELECT embedding <=> memory_embed(content, 'document') < 1e-6 \
           FROM memory_agent.entries WHERE content = 'Blue whales sing.'",
        &[],
    );
    assert!(same);
}

#[test]
fn off_queues_nothing_and_words_still_find_the_turn() {
    let mut client = shared().database("embed_off").connect();
    run(&mut client, "SET memory_agent.embed_on_ingest = off");
    ingest_all(&mut client, "s", &["Blue whales sing.", "Green parrots talk."]);
    assert_eq!((embedded(&mut client), jobs(&mut client)), (0, vec![]));
    let rows = recall(&mut client, "'whale', rerank => false");
    assert_eq!(rows.len(), 1, "only the row that has the word");
    assert_eq!((rows[0].content.as_str(), rows[0].similarity), ("Blue whales sing.", None));
}

#[test]
fn concurrent_turns_of_a_session_are_all_counted_and_queue_one_job() {
    let database = shared_without_worker().database("embed_concurrent");
    std::thread::scope(|scope| {
        for writer in 0..3 {
            scope.spawn(move || {
                let mut client = database.connect();
                run(&mut client, "SET memory_agent.embed_on_ingest = async");
                for turn in 0..20 {
                    ingest(&mut client, "s", &format!("writer {writer} turn {turn}"));
                }
            });
        }
    });
    let mut client = database.connect();
    let counters: String = value(
        &mut client,
        "SELECT concat_ws('/', turn_count, active_entries, (SELECT sum(turn_count) FROM memory_agent.episodes)) \
           FROM memory_agent.sessions",
        &[],
    );
    assert_eq!(counters, "60/60/60");
    assert_eq!(jobs(&mut client), ["embed alice/default/s"]);
}

#[test]
fn a_job_that_runs_already_does_not_swallow_the_next_one() {
    let mut client = shared_without_worker().database("embed_job_running").connect();
    run(&mut client, "SET memory_agent.embed_on_ingest = async");
    ingest(&mut client, "s", "one");
    run(&mut client, "UPDATE memory_agent.jobs SET status = 'running', leased_by = 'somebody'");
    ingest(&mut client, "s", "two");
    let states = "SELECT status FROM memory_agent.jobs ORDER BY status";
    assert_eq!(values::<String>(&mut client, states, &[]), ["pending", "running"]);
    // The same when it went back to the queue: it may have read the rows already.
    run(&mut client, "UPDATE memory_agent.jobs SET status = 'pending' WHERE status = 'running'");
    ingest(&mut client, "s", "three");
    assert_eq!(values::<String>(&mut client, states, &[]), ["pending", "pending"]);
}

/// About 1300 tokens: three windows of a model that reads 512.
fn long_text() -> String {
    let mut text: String = (0..120)
        .map(|n| format!("Paragraph {n} of the annual report discusses quarterly sales figures. "))
        .collect();
    text.push_str("In spring the gardener planted lavender and roses behind the cottage.");
    text
}

#[test]
fn a_long_text_is_found_by_its_end() {
    let mut client = shared().database("long_text").connect();
    let id = ingest(&mut client, "s", &long_text());
    ingest_all(
        &mut client,
        "s",
        &[
            "The meeting starts at nine.",
            "My bicycle has a flat tyre.",
            "The printer is out of paper.",
        ],
    );
    let windows: Vec<i32> = values(
        &mut client,
        "SELECT ordinal FROM memory_agent.entry_windows WHERE entry_id = $1 ORDER BY ordinal",
        &[&id],
    );
    assert!(windows.len() >= 2 && windows[0] == 2, "{windows:?}");

    // No word in common, so that only the embedding of the last window can find it.
    let question = "'Which flowers grow outside?'";
    run(&mut client, "SET memory_agent.neighbor_weight = 0; SET memory_agent.recency_weight = 0");
    let rows = recall(&mut client, &format!("{question}, rerank => false, top_k => 1"));
    assert_eq!((rows[0].id, rows[0].lexical), (id, None));
    let (first, best): (f64, f64) = {
        let row = client
            .query_one(
                "SELECT 1 - (e.embedding <=> q.v), 1 - least(e.embedding <=> q.v, min(w.embedding <=> q.v)) \
                   FROM memory_agent.entries e \
                   JOIN memory_agent.entry_windows w ON w.entry_id = e.id, \
                        memory_embed('Which flowers grow outside?') q(v) \
                  WHERE e.id = $1 GROUP BY e.embedding, q.v",
                &[&id],
            )
            .unwrap();
        (row.get(0), row.get(1))
    };
    let similarity = f64::from(rows[0].similarity.unwrap());
    assert!(
        (similarity - best).abs() < 1e-5,
        "{similarity} is not that of the best window, {best}"
    );
    assert!(best > first + 0.05, "the first window alone would not do: {first} {best}");
}

#[test]
fn windows_stay_with_their_user() {
    let mut client = shared().database("long_text_users").connect();
    ingest(&mut client, "s", &long_text());
    let question = "'Which flowers grow outside?', user_id => 'bob'";
    run(&mut client, "SELECT memory_ingest('s', 'user', 'unrelated', user_id => 'bob')");
    let rows = recall(&mut client, question);
    assert_eq!(rows.len(), 1);
    assert_eq!(explain(&mut client, question)["rows"]["scope"], 1);
}
