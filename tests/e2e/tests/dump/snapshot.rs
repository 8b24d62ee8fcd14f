//! What a database remembers, in a form that can be compared.

use memory_agent_e2e::memory::{recall as recalled, run, values};
use memory_agent_e2e::{Client, Uuid, json};
use std::collections::{BTreeMap, BTreeSet};

/// Every table with a digest of its rows, and what recall answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Per table: rows, and a hash over their text, embeddings and lexemes included.
    tables: BTreeMap<String, (i64, String)>,
    answers: Vec<(Uuid, f32)>,
}

impl Snapshot {
    pub fn take(client: &mut Client) -> Self {
        let names: Vec<String> = values(
            client,
            "SELECT relname::text FROM pg_class WHERE relnamespace = 'memory_agent'::regnamespace \
             AND relkind = 'r' AND relname NOT IN ('llm_probes', 'quota_counts')",
            &[],
        );
        let tables = names.into_iter().map(|name| {
            let digest = format!(
                "SELECT count(*), md5(coalesce(string_agg(md5(t::text), '' ORDER BY t::text), '')) \
                 FROM memory_agent.{name} t"
            );
            let row =
                client.query_one(&digest, &[]).unwrap_or_else(|error| panic!("{name}: {error:?}"));
            (name, (row.get(0), row.get(1)))
        });
        Self { tables: tables.collect(), answers: recall(client) }
    }

    /// Leaves a table out of the comparison.
    pub fn forget(&mut self, table: &str) {
        self.tables.remove(table).expect("a table");
    }

    pub fn empty_tables(&self) -> BTreeSet<&str> {
        self.tables
            .iter()
            .filter(|(_, (rows, _))| *rows == 0)
            .map(|(name, _)| name.as_str())
            .collect()
    }
}

/// Answers to a few questions, with ages counted from a fixed day so that no clock is in the scores.
pub fn recall(client: &mut Client) -> Vec<(Uuid, f32)> {
    let mut answers = Vec::new();
    for question in [
        "Where does Ann live?",
        "Which animal does she have?",
        "What was decided about the budget?",
    ] {
        let rows = recalled(client, &format!("'{question}', as_of => '2100-01-01'"));
        assert!(!rows.is_empty(), "{question}");
        answers.extend(rows.into_iter().map(|row| (row.id, row.score)));
    }
    answers
}

/// Puts something into every table, as far as possible through the functions.
pub fn fill(client: &mut Client) {
    let turns = json!([
        {"role": "user", "content": "Ann: I have a small dog.\nIt is called Rex.",
         "metadata": {"name": "Ann", "n": 1.50, "t": "ä\"\\ü"}},
        {"role": "assistant", "content": "What a fine name for a dog!", "created_at": "2026-01-31T10:00:00Z"},
        {"role": "user", "content": "We decided: the budget stays as it is.",
         "markers": ["decision", "custom:money"]},
        {"role": "user", "content": "Tabs\tand \\backslashes\\ and \"quotes\" \u{1F680}", "ttl": "90 years"},
    ]);
    client.execute("SELECT memory_ingest_batch($1, 's1')", &[&turns]).unwrap();
    for statement in [
        "SELECT memory_ingest('s2', 'user', repeat('The long story of a river that runs to the sea. ', 150))",
        "SELECT memory_close_episode('s2')",
        "SELECT memory_add('Ann lives in Rome.', infer => false, fact_key => 'home')",
        "SELECT memory_add('Ann lives in Paris.', infer => false, fact_key => 'home')",
        "SELECT memory_ingest('s1', 'user', 'shared by all', user_id => '*')",
        "SELECT memory_ingest('s1', 'user', 'of another user', user_id => 'bob')",
        "SELECT memory_register_model('memory-embed-small', 'embedder', activate => true)",
        "SELECT memory_configure(settings => '{\"recent_messages_to_keep\": 7}', content_type => 'journal')",
        "SELECT memory_configure(session_id => 's1', settings => '{\"recency_weight\": 0.10, \"cross_session_triggers\": \"a, b\"}')",
        "SET memory_agent.embed_on_ingest = async",
        "SELECT memory_ingest('s3', 'user', 'to be embedded later')",
        "RESET memory_agent.embed_on_ingest",
        "DO $$ BEGIN CREATE ROLE dumped_reader; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$",
        "SELECT memory_grant('dumped_reader', 'reader')",
        // Written by parts that this version does not have.
        "INSERT INTO memory_agent.session_summaries \
             (id, user_id, agent_id, session_id, level, content, method) \
         VALUES (gen_random_uuid(), 'alice', 'default', 's1', 'L3', 'Of dogs and budgets.', 'brief')",
        "INSERT INTO memory_agent.traces (id, user_id, agent_id, session_id, body) \
         VALUES (gen_random_uuid(), 'alice', 'default', 's1', '{\"a\": [1, 1.10]}')",
        "INSERT INTO memory_agent.archives \
             (id, user_id, agent_id, session_id, namespace, doc_type, content, content_hash) \
         VALUES (gen_random_uuid(), 'alice', 'default', 's1', 'conversations:alice', 'conversation', \
                 '# Summary', sha256('# Summary'))",
        "SELECT memory_add_document('# Dogs'||chr(10)||chr(10)||'They bark.', 'Animals', session_id => 's1')",
        "INSERT INTO memory_agent.llm_calls (id, purpose, model, status, latency) \
         VALUES (gen_random_uuid(), 'extract', 'm', 'ok', '1.5 s')",
        "SELECT memory_create_token('alice', 'laptop')",
        "SELECT memory_spend(sha256('alice'), 100)",
        "SELECT memory_set_endpoint('spare', 'https://llm.example/v1', 'm', key_name => 'team')",
        "SELECT memory_set_quota('ann', entries => 1000000, daily_tokens => 0)",
        "SELECT memory_use_endpoint('spare', 'buyer')",
        "INSERT INTO memory_agent.attachments (id, relation, content_column) \
         VALUES (gen_random_uuid(), 'public.notes', 'body')",
    ] {
        run(client, statement);
    }
}
