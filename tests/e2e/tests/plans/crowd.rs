//! What other users have: thousands of rows in every table, made by SQL, with statistics.

use memory_agent_e2e::Client;
use memory_agent_e2e::memory::run;

/// Rows of others in each large table.
pub const ROWS: usize = 24_000;
/// Tables that hold rows of many users, and so have to be read through an index.
pub const LARGE: [&str; 12] = [
    "agents",
    "archives",
    "entries",
    "entry_windows",
    "episodes",
    "history",
    "jobs",
    "llm_calls",
    "session_summaries",
    "sessions",
    "spending",
    "traces",
];

/// Statements over `n`, a number of a row; `{user}` and `{session}` are whose it is. The columns that matter to an
/// index are as they are in a database that has been in use for a while: what is done is done.
const TABLES: [(&str, &str); 13] = [
    (
        "sessions (user_id, agent_id, session_id, created_at, last_turn_at, turn_count)",
        "{user}, 'default', {session} || ' ' || n, {at}, {at}, 10",
    ),
    (
        "agents (user_id, agent_id, settings)",
        "{user} || ' ' || n, 'default', '{\"default_top_k\": 4}'",
    ),
    (
        "entries (id, user_id, agent_id, session_id, kind, role, content, token_count, embedding, embedding_model, \
                  lexemes, lexeme_config, doc_len, created_at, metadata, source_ids, content_hash, extracted_at, \
                  episode_id)",
        "gen_random_uuid(), {user}, 'default', {session}, {kind}, {role}, {text}, 10, {vector}, {model}, \
         to_tsvector('simple', {text}), 'simple', 8, {at}, {metadata}, \
         CASE {kind} WHEN 'fact' THEN ARRAY[gen_random_uuid()] END, \
         CASE {kind} WHEN 'fact' THEN sha256(n::text::bytea) END, \
         CASE {kind} WHEN 'turn' THEN {at} END, gen_random_uuid()",
    ),
    // Versions of facts that were replaced.
    (
        "entries (id, user_id, agent_id, session_id, kind, role, content, token_count, embedding, embedding_model, \
                  lexemes, lexeme_config, doc_len, created_at, state, state_reason, state_at, valid_to, replaced_by, \
                  fact_key)",
        "gen_random_uuid(), {user}, 'default', {session}, 'fact', 'memory', {text}, 10, {vector}, {model}, \
         to_tsvector('simple', {text}), 'simple', 8, {at}, 'inactive', 'superseded', {at}, {at}, \
         gen_random_uuid(), CASE n % 2 WHEN 0 THEN 'key ' || n END",
    ),
    (
        "entry_windows (user_id, entry_id, ordinal, embedding, embedding_model)",
        "{user}, gen_random_uuid(), 1, {vector}, {model}",
    ),
    (
        "session_summaries (id, user_id, agent_id, session_id, level, content, method, is_active)",
        "gen_random_uuid(), {user}, 'default', {session} || ' ' || n, \
         CASE n % 3 WHEN 0 THEN 'L3' WHEN 1 THEN 'L2' ELSE 'L1' END, {text}, 'window', n % 3 = 0",
    ),
    (
        "episodes (id, user_id, agent_id, session_id, status, started_at, ended_at, turn_count)",
        "gen_random_uuid(), {user}, 'default', {session}, CASE n % 2 WHEN 0 THEN 'closed' ELSE 'reflected' END, \
         {at}, {at}, 10",
    ),
    (
        "jobs (id, kind, user_id, agent_id, session_id, status, finished_at, created_at)",
        "gen_random_uuid(), CASE n % 2 WHEN 0 THEN 'extract' ELSE 'embed' END, {user}, 'default', {session}, \
         CASE n % 20 WHEN 0 THEN 'dead' ELSE 'done' END, now(), {at}",
    ),
    (
        "history (id, user_id, entry_id, op, commitment, salt, body, seq, hash, at)",
        "gen_random_uuid(), {user}, gen_random_uuid(), 'add', '\\x00', '\\x00', '{}', n, '\\x00', {at}",
    ),
    (
        "llm_calls (id, user_id, purpose, model, status, at, prompt_tokens)",
        "gen_random_uuid(), {user}, 'extract', 'stub-1', 'ok', {at}, 10",
    ),
    (
        "traces (id, user_id, agent_id, session_id, at, body)",
        "gen_random_uuid(), {user}, 'default', {session}, {at}, '{}'",
    ),
    (
        "archives (id, user_id, agent_id, session_id, namespace, doc_type, content, content_hash)",
        "gen_random_uuid(), {user}, 'default', {session} || ' ' || n, 'default', \
         CASE n % 2 WHEN 0 THEN 'document' ELSE 'conversation' END, {text}, sha256(n::text::bytea)",
    ),
    (
        "spending (token_hash, day, tokens, reserved)",
        "sha256(n::text::bytea), current_date - 2, 10, 0",
    ),
];

/// Users among whom the rows are: with a few of them a user's share of a table is large, as the planner sees it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Users {
    Few,
    Many,
}

/// Adds the rows. They are committed with statistics, and no trigger is asked.
pub fn add(client: &mut Client, users: Users) {
    let among = match users {
        Users::Few => 3,
        Users::Many => ROWS / 12,
    };
    // That of new databases.
    let model = "'memory-embed-small'";
    run(client, "SET session_replication_role = replica; SET synchronous_commit = off");
    for (table, values) in TABLES {
        let values = values
            .replace("{kind}", "CASE n % 4 WHEN 0 THEN 'fact' WHEN 1 THEN 'document' ELSE 'turn' END")
            .replace("{role}", "CASE n % 4 WHEN 0 THEN 'memory' WHEN 1 THEN 'system' WHEN 2 THEN 'user' ELSE 'assistant' END")
            .replace("{metadata}", "CASE n % 4 WHEN 1 THEN jsonb_build_object('parent_id', gen_random_uuid()) ELSE '{}' END")
            .replace("{user}", &format!("'user ' || n % {among}"))
            .replace("{session}", "'session ' || n % 100")
            .replace("{text}", "('the dog ' || n || ' sleeps in Lisbon')")
            .replace("{at}", "now() - interval '2 days' - n * interval '1 second'")
            .replace("{vector}", "'[1,0,0]'::vector")
            .replace("{model}", model);
        run(
            client,
            &format!(
                "INSERT INTO memory_agent.{table} SELECT {values} FROM generate_series(1, {ROWS}) n"
            ),
        );
    }
    run(
        client,
        &format!(
            "INSERT INTO memory_agent.tokens (user_id, name, hash) \
             SELECT 'user ' || n % {among}, 'token ' || n, sha256(n::text::bytea) FROM generate_series(1, {ROWS}) n; \
             RESET session_replication_role; RESET synchronous_commit"
        ),
    );
    run(client, "VACUUM ANALYZE");
}
