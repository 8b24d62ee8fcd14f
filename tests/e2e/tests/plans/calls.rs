//! Calls of every function, about what is there and about what is not.

use crate::log::OF_THE_TEST;

/// Functions that are not called, and why.
pub const LEFT_OUT: &[(&str, &str)] = &[
    ("memory_attach", "called once, before the rounds: it reads the whole table that it attaches"),
    ("memory_create_vector_index", "builds an index of all rows"),
    ("memory_detach", "an administrator's, once in the life of a table"),
    ("memory_drop_endpoint", "an administrator's, of a table that has few rows"),
    ("memory_enable_endpoint", "likewise"),
    ("memory_grant", "likewise"),
    ("memory_list_tokens", "lists those of all users"),
    ("memory_list_quotas", "lists those of all users"),
    ("memory_register_model", "an administrator's, of a table that has few rows"),
    ("memory_revoke", "likewise"),
    ("memory_set_endpoint", "likewise"),
    ("memory_use_embedding_model", "moves all rows to another model"),
    ("memory_use_endpoint", "an administrator's, of a table that has few rows"),
];

/// What the rounds need.
pub const SETUP: &str = "/* of the test */ \
    CREATE TABLE notes (id integer PRIMARY KEY, body text NOT NULL, who text NOT NULL); \
    SELECT memory_attach('notes', 'body', 'who'); \
    SELECT memory_configure(session_id => 'whole', settings => '{\"extraction\": \"episode\"}'); \
    SELECT memory_create_token('alice', 'a token'); \
    SELECT memory_set_quota('alice', 1000000, 1000000000, 1000000000)";

/// Calls with `{r}` for the number of the round, and `{turn}`, `{fact}`, `{document}` and `{none}` for ids.
const CALLS: &[&str] = &[
    "memory_ingest('s', 'user', 'I live in city {r} and like tea.')",
    "memory_ingest('s', 'assistant', 'I will book train {r}, that is decided.')",
    "memory_ingest('whole', 'user', 'My dog {r} is called Rex.')",
    "memory_ingest('new {r}', 'user', 'A new session, number {r}.', ttl => '1 hour')",
    "memory_ingest('expired', 'user', 'Gone at once, {r}.', ttl => '1 microsecond')",
    "memory_ingest_once('s', 'user', 'Said once, {r}.', request_key => 'key {r}')",
    "memory_ingest_once('s', 'user', 'Said once, {r}.', request_key => 'key {r}')",
    "memory_ingest_once('back', 'user', 'Hello.', history => '[]')",
    "memory_ingest_once('back', 'assistant', 'Answer {r}.', replaces => ARRAY[gen_random_uuid()])",
    "memory_ingest_batch('[{\"role\": \"user\", \"content\": \"Many at once, {r}.\"}]', 's')",
    "memory_add('The user works for company {r}.', infer => false)",
    "memory_add('The user has a cat called {r}.', 's', infer => false, fact_key => 'cat')",
    "memory_add('I moved to town {r}.', 's')",
    "memory_add_document('Chapter {r}. The harbour opens at seven.', 'Title {r}')",
    "memory_recall('Where does the user live?')",
    "memory_recall('Where does the user live?', session_id => 's', top_k => 3)",
    "memory_recall('Where does the user live?', session_id => 'missing {r}')",
    "memory_recall('cat', agent_id => 'missing', as_of => now() - interval '1 minute')",
    "memory_recall('cat', filter => '{\"role\": \"user\", \"metadata\": {\"a\": {r}}}', rerank => false)",
    "memory_explain('Which animals are there?', rewrites => '{cat,dog}')",
    "memory_context('s', 'What is known?')",
    "memory_context('missing {r}', 'What is known?')",
    "memory_augment('[{\"role\": \"user\", \"content\": \"What was decided, {r}?\"}]', 's')",
    "memory_augment_block('[{\"role\": \"user\", \"content\": \"What was decided, {r}?\"}]', 's')",
    "memory_chat('[{\"role\": \"user\", \"content\": \"Hello, {r}.\"}]', 's')",
    "memory_search_archive('harbour', doc_type => 'document')",
    "memory_search_archive('harbour')",
    "memory_list(\"limit\" => 10)",
    "memory_list('s', 'fact', oldest_first => true)",
    "memory_list(id => {turn})",
    "memory_list(id => {none})",
    "memory_list(source_id => {turn})",
    "memory_state(jsonb_build_array(jsonb_build_object('id', {turn}), jsonb_build_object('id', {fact})), 's')",
    "memory_list_documents()",
    "memory_list_documents('document')",
    "memory_update({fact}, 'The user works for firm {r}.')",
    "memory_forget({turn}, 'no longer')",
    "memory_restore({turn})",
    "memory_history({fact})",
    "memory_history({turn})",
    "memory_originals({none})",
    "memory_verify_history(user_id => 'alice')",
    "memory_load('s')",
    "memory_load('missing {r}', 100)",
    "memory_stats()",
    "memory_stats('s')",
    "memory_export_markdown('s')",
    "memory_export_json()",
    "memory_import_json('{\"role\": \"user\", \"conversation_id\": \"imported\", \"content\": \"From elsewhere, {r}.\"}')",
    "memory_import_markdown('imported/2026-01-31T10-00-00_user_{r}.md', \
        E'---\\nrole: user\\nconversation_id: imported\\ncreated_at: 2026-01-31T10:00:00Z\\n---\\nA file, {r}.')",
    "memory_close_episode('whole')",
    "memory_close_episode('missing {r}')",
    "memory_configure(session_id => 's', settings => '{\"default_top_k\": 4}')",
    "memory_configure(agent_id => 'helper {r}', settings => '{\"default_top_k\": 4}')",
    "memory_reserve_tokens('s', 200)",
    "memory_compress('s')",
    "memory_archive('s')",
    "memory_archive('missing {r}')",
    "memory_summarize('The user lives in a town and has a cat called Mia.')",
    "memory_backfill()",
    "memory_backfill(since => now() - interval '1 hour')",
    "memory_retry({none})",
    "memory_wait('60 s', 's')",
    "memory_clear('new {r}')",
    "memory_clear('missing {r}')",
    "memory_erase(session_id => 'expired')",
    "memory_erase(id => {document})",
    "memory_erase(user_id => 'nobody {r}')",
    "memory_count_tokens('The harbour opens at seven.')",
    "memory_embed('a harbour')",
    "memory_rerank('a harbour', '{a,b}')",
    "memory_recall_times()",
    "memory_status()",
    "memory_token_user(sha256('{r}'))",
    "memory_spend(sha256('{r}'), 5)",
    "memory_spent_today()",
    "memory_create_token('alice', 'token {r}')",
    "memory_revoke_token('alice', 'token {r}')",
    "memory_list_endpoints()",
    "memory_set_quota('alice', 1000000 + {r}, 1000000000, 1000000000)",
    "memory_usage()",
];

/// What applications do with an attached table.
const STATEMENTS: &[&str] = &[
    "INSERT INTO notes VALUES ({r}, 'Note {r} is about the ferry.', 'alice')",
    "UPDATE notes SET body = body || ' It leaves at nine.' WHERE id = {r}",
    "DELETE FROM notes WHERE id = {r} - 1",
    "SELECT count(*) FROM memory_entries WHERE id = {turn}",
];

/// The statements of a round.
pub fn of_round(round: usize) -> Vec<String> {
    let of_kind = |kind: &str| {
        format!(
            "(SELECT id FROM memory_agent.entries WHERE user_id = 'alice' AND kind = '{kind}' \
                 AND state <> 'inactive' AND source_relation IS NULL ORDER BY created_at DESC, id LIMIT 1)"
        )
    };
    let calls = CALLS.iter().map(|call| format!("SELECT count(*) FROM {call}"));
    calls
        .chain(STATEMENTS.iter().map(|statement| (*statement).to_owned()))
        .map(|statement| {
            let statement = statement
                .replace("{turn}", &of_kind("turn"))
                .replace("{fact}", &of_kind("fact"))
                .replace("{document}", "(SELECT id FROM memory_list_documents('document', 1))")
                .replace("{none}", "gen_random_uuid()")
                .replace("{r}", &round.to_string());
            format!("{OF_THE_TEST} {statement}")
        })
        .collect()
}
