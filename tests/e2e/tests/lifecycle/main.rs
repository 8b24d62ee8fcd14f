//! One memory at a time: its text is changed, it is forgotten, it is brought back, and its history is
//! told. What recall says of any moment is what held then.

mod documents;
mod forget;
mod history;
mod model;
mod past;
#[path = "../common/random.rs"]
#[allow(dead_code, reason = "every suite uses its own part of this module")]
mod random;
mod restore;
mod running;
#[path = "../worker/scene.rs"]
#[allow(dead_code, reason = "every suite uses its own part of this module")]
mod scene;
mod state;
mod update;

use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, DateTime, Utc, Uuid, shared_without_worker};

/// A database of its own in which jobs stay queued and ranking is only by words.
fn quiet(name: &str) -> Client {
    let mut client = shared_without_worker().database(name).connect();
    run(&mut client, "SET memory_agent.rerank = off; SET memory_agent.embed_on_ingest = off");
    client
}

/// Stores a turn of the user and returns its id.
#[track_caller]
fn say(client: &mut Client, session: &str, content: &str) -> Uuid {
    value(client, "SELECT memory_ingest($1, 'user', $2)", &[&session, &content])
}

/// Stores a fact and returns its id.
#[track_caller]
fn fact(client: &mut Client, session: Option<&str>, content: &str) -> Uuid {
    value(client, "SELECT memory_add($1, $2, infer => false)", &[&content, &session])
}

#[track_caller]
fn update(client: &mut Client, id: Uuid, content: &str) -> Uuid {
    value(client, "SELECT memory_update($1, $2)", &[&id, &content])
}

#[track_caller]
fn forget(client: &mut Client, id: Uuid) -> bool {
    value(client, "SELECT memory_forget($1)", &[&id])
}

#[track_caller]
fn restore(client: &mut Client, id: Uuid) -> bool {
    value(client, "SELECT memory_restore($1)", &[&id])
}

/// A moment between what was done before and what is done after.
fn moment(client: &mut Client) -> DateTime<Utc> {
    value(client, "SELECT clock_timestamp()", &[])
}

/// State, reason and whether it has an end, of an entry.
#[track_caller]
fn state(client: &mut Client, id: Uuid) -> String {
    value(
        client,
        "SELECT concat_ws(' ', state, state_reason, CASE WHEN valid_to IS NOT NULL THEN 'ended' END) \
           FROM memory_agent.entries WHERE id = $1",
        &[&id],
    )
}

/// The texts of the window of a session, oldest first.
#[track_caller]
fn window(client: &mut Client, session: &str) -> Vec<String> {
    memory_agent_e2e::memory::values(client, "SELECT content FROM memory_load($1)", &[&session])
}

/// The counters of a session are what counting its rows comes to.
#[track_caller]
fn expect_counters(client: &mut Client, session: &str) {
    let kept: String = value(
        client,
        "SELECT concat_ws('|', active_entries, active_tokens, unsummarized_tokens) \
           FROM memory_agent.sessions WHERE session_id = $1",
        &[&session],
    );
    let counted: String = value(
        client,
        "SELECT concat_ws('|', count(*) FILTER (WHERE e.state = 'active'), \
                coalesce(sum(e.token_count) FILTER (WHERE e.state = 'active' AND e.kind = 'turn'), 0), \
                coalesce(sum(e.token_count) FILTER (WHERE e.state <> 'inactive' AND e.kind = 'turn' \
                    AND NOT EXISTS (SELECT FROM memory_agent.session_summaries u \
                                     WHERE u.session_id = $1 AND u.is_active AND e.id = ANY (u.source_ids))), 0)) \
           FROM memory_agent.entries e WHERE e.session_id = $1 AND e.kind IN ('turn', 'fact')",
        &[&session],
    );
    assert_eq!(kept, counted, "entries|tokens|unsummarised tokens");
}

/// A summary of a session, as the worker would have stored it, that covers these turns.
#[track_caller]
fn summarise(client: &mut Client, session: &str, turns: &[Uuid]) {
    let sql = "INSERT INTO memory_agent.session_summaries \
                  (id, user_id, agent_id, session_id, level, content, method, source_ids, output_tokens, model) \
               VALUES (gen_random_uuid(), 'alice', 'default', $1, 'L3', 'So they said.', 'brief', $2, 4, 'stub')";
    client.execute(sql, &[&session, &turns]).expect("a summary");
    let sql = "UPDATE memory_agent.sessions SET unsummarized_tokens = unsummarized_tokens - \
                      (SELECT sum(token_count) FROM memory_agent.entries WHERE id = ANY ($2)) \
                WHERE session_id = $1";
    client.execute(sql, &[&session, &turns]).expect("the session");
}
