//! `memory_clear`: a session is forgotten, and what was there can still be accounted for.

use crate::{load, say, summarised};
use memory_agent_e2e::memory::{recalled_texts, run, value, values};
use memory_agent_e2e::{Client, Uuid, expect_error, shared, shared_without_worker};

fn clear(client: &mut Client, arguments: &str) -> i32 {
    value(client, &format!("SELECT memory_clear({arguments})"), &[])
}

/// What is stored of a session: counts of what is active or archived, and of its jobs.
fn left(client: &mut Client, session: &str) -> Vec<i64> {
    values(
        client,
        "SELECT count(*) FROM memory_agent.entries WHERE session_id = $1 AND state <> 'inactive' \
         UNION ALL SELECT count(*) FROM memory_agent.session_summaries WHERE session_id = $1 AND is_active \
         UNION ALL SELECT count(*) FROM memory_agent.episodes WHERE session_id = $1 AND status = 'open' \
         UNION ALL SELECT count(*) FROM memory_agent.jobs \
                    WHERE session_id = $1 AND status IN ('pending', 'running', 'dead') \
         UNION ALL SELECT active_tokens + active_entries + unsummarized_tokens + \
                          (open_episode_id IS NOT NULL)::int FROM memory_agent.sessions WHERE session_id = $1",
        &[&session],
    )
}

/// Three turns, one of them archived, two facts, summaries of two levels, and jobs.
fn conversation(client: &mut Client, session: &str) -> Vec<Uuid> {
    run(client, "SET memory_agent.embed_on_ingest = async");
    let turns: Vec<Uuid> =
        [("user", "My ferry is at nine."), ("assistant", "Noted."), ("user", "Bye.")]
            .iter()
            .map(|(role, content)| say(client, session, role, content))
            .collect();
    for fact in ["The ferry is at nine.", "The user likes ferries."] {
        client.execute("SELECT memory_add($1, $2, infer => false)", &[&fact, &session]).unwrap();
    }
    client
        .execute(
            "UPDATE memory_agent.entries SET state = 'archived', state_reason = 'evicted' WHERE id = $1",
            &[&turns[0]],
        )
        .unwrap();
    summarised(client, session, "A ferry at nine.", &turns[..1]);
    client
        .execute(
            "INSERT INTO memory_agent.session_summaries (id, user_id, agent_id, session_id, level, content, method) \
             VALUES (gen_random_uuid(), 'alice', 'default', $1, 'L1', 'A ferry.', 'brief')",
            &[&session],
        )
        .unwrap();
    turns
}

#[test]
fn everything_of_the_session_ends_and_nothing_else() {
    let mut client = shared_without_worker().database("clear_all").connect();
    let turns = conversation(&mut client, "s");
    let other = conversation(&mut client, "other");
    run(&mut client, "SELECT memory_add('Global: the user has a boat.', infer => false)");
    let before = left(&mut client, "other");
    assert!(before[..3] == [5, 2, 1] && before[3] > 0 && before[4] > 0, "{before:?}");

    assert_eq!(clear(&mut client, "'s'"), 3);
    // What documents wait for stays: the job that embeds what the session's scope lacks.
    assert_eq!(left(&mut client, "s"), [0, 0, 0, 1, 0]);
    assert_eq!(left(&mut client, "other"), before);
    assert!(load(&mut client, "s").is_empty());
    run(&mut client, "SET memory_agent.rerank = off");
    assert_eq!(
        recalled_texts(&mut client, "'ferry boat', session_id => 's'"),
        ["Global: the user has a boat."]
    );
    let reasons: Vec<String> = values(
        &mut client,
        "SELECT DISTINCT concat_ws('|', state_reason, valid_to = state_at, valid_to IS NOT NULL) \
           FROM memory_agent.entries WHERE session_id = 's'",
        &[],
    );
    assert_eq!(reasons, ["deleted|t|t"]);
    let episode: String = value(
        &mut client,
        "SELECT concat_ws('|', status, close_reason) FROM memory_agent.episodes WHERE session_id = 's'",
        &[],
    );
    assert_eq!(episode, "closed|cleared");
    assert_eq!(turns.len(), other.len());
    assert_eq!(clear(&mut client, "'s'"), 0, "it is empty by now");
    let history: i64 = value(
        &mut client,
        "SELECT count(*) FROM memory_agent.history WHERE reason = 'cleared'",
        &[],
    );
    assert_eq!(history, 7, "three turns, two facts and two summaries, once each");

    // The session goes on.
    say(&mut client, "s", "user", "Hello again.");
    assert_eq!(load(&mut client, "s").len(), 1);
    let open: i64 = value(
        &mut client,
        "SELECT count(*) FROM memory_agent.episodes WHERE session_id = 's' AND status = 'open'",
        &[],
    );
    assert_eq!(open, 1);
}

#[test]
fn history_has_what_was_there() {
    let mut client = shared_without_worker().database("clear_history").connect();
    conversation(&mut client, "s");
    clear(&mut client, "'s'");
    let missing: Vec<String> = values(
        &mut client,
        "SELECT c.content FROM (SELECT id, content FROM memory_agent.entries WHERE session_id = 's' \
                                UNION ALL SELECT id, content FROM memory_agent.session_summaries) c \
          WHERE NOT EXISTS (SELECT FROM memory_agent.history h \
                             WHERE h.entry_id = c.id AND h.op = 'delete' AND h.reason = 'cleared' \
                               AND h.body->>'content' = c.content AND h.user_id = 'alice' \
                               AND h.commitment = sha256(h.salt || convert_to(h.body::text, 'UTF8') \
                                                   || '\\x00'::bytea || convert_to(h.reason, 'UTF8')))",
        &[],
    );
    assert!(missing.is_empty(), "{missing:?}");
    let salts: i64 =
        value(&mut client, "SELECT count(DISTINCT salt) FROM memory_agent.history", &[]);
    let rows: i64 = value(&mut client, "SELECT count(*) FROM memory_agent.history", &[]);
    assert_eq!(salts, rows);
}

#[test]
fn questions_about_the_past_are_still_answered() {
    let mut client = shared().database("clear_past").connect();
    run(
        &mut client,
        "SET memory_agent.rerank = off;
         SELECT memory_ingest('s', 'user', 'The key is under the mat.', created_at => '2025-01-01')",
    );
    clear(&mut client, "'s'");
    assert!(recalled_texts(&mut client, "'key mat'").is_empty());
    assert_eq!(
        recalled_texts(&mut client, "'key mat', as_of => '2025-06-01'"),
        ["The key is under the mat."]
    );
}

#[test]
fn a_rollback_brings_everything_back() {
    let mut client = shared_without_worker().database("clear_rollback").connect();
    conversation(&mut client, "s");
    let before = left(&mut client, "s");
    run(&mut client, "BEGIN");
    assert_eq!(clear(&mut client, "'s'"), 3);
    run(&mut client, "ROLLBACK");
    assert_eq!(left(&mut client, "s"), before);
}

#[test]
fn only_the_named_session_of_user_and_agent_is_cleared() {
    let mut client = shared_without_worker().database("clear_scope").connect();
    run(
        &mut client,
        "SELECT memory_ingest('s', 'user', 'Alice.'), \
                memory_ingest('s', 'user', 'Of the planner.', agent_id => 'planner'), \
                memory_ingest('s', 'user', 'Bob.', user_id => 'bob')",
    );
    assert_eq!(clear(&mut client, "'s', agent_id => 'nobody'"), 0);
    assert_eq!(clear(&mut client, "'s', agent_id => 'planner'"), 1);
    assert_eq!(clear(&mut client, "'s', 'bob'"), 1);
    let left: String = value(
        &mut client,
        "SELECT string_agg(content, ' ') FROM memory_agent.entries WHERE state = 'active'",
        &[],
    );
    assert_eq!(left, "Alice.");
    for call in ["memory_clear('')", "memory_clear(NULL)"] {
        expect_error(client.query(&format!("SELECT {call}"), &[]), "22023");
    }
    run(&mut client, "BEGIN READ ONLY");
    expect_error(client.query("SELECT memory_clear('s')", &[]), "25006");
    run(&mut client, "ROLLBACK");
}

#[test]
fn documents_of_the_session_get_their_embeddings_all_the_same() {
    let mut client = shared().database("clear_documents").connect();
    run(&mut client, "SET memory_agent.embed_on_ingest = async");
    run(
        &mut client,
        "BEGIN; SELECT memory_ingest('s', 'user', 'Hello.');
         SELECT memory_add_document('The gate code is 4711.', session_id => 's');
         SELECT memory_clear('s'); COMMIT",
    );
    assert!(value::<bool>(&mut client, "SELECT memory_wait('90 s')", &[]));
    let embedded: bool = value(
        &mut client,
        "SELECT embedding IS NOT NULL FROM memory_agent.entries WHERE kind = 'document'",
        &[],
    );
    assert!(embedded);
}
