//! The user who does nothing: what they have, and what they are told. Both depend on nobody else, not
//! even the scores of their memories.

use crate::people::{Mode, Person, SHARED, WITNESS};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, Cluster, Json, json, wait_until};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(90);

/// Questions about everything that the witness has. A score that depends on the time is left out.
const QUESTIONS: &[&str] = &[
    "SELECT jsonb_agg(to_jsonb(r)) FROM memory_recall('harbour train', as_of => '2100-01-01Z', top_k => 50) r",
    "SELECT jsonb_agg(to_jsonb(r)) FROM memory_recall('harbour', 'one', as_of => '2100-01-01Z', top_k => 50) r",
    "SELECT jsonb_agg(to_jsonb(r)) FROM memory_recall('green', kinds => '{fact}', as_of => '2100-01-01Z') r",
    "SELECT memory_explain('harbour', as_of => '2100-01-01Z')->'rows'",
    "SELECT memory_context('one', 'harbour')->'messages'",
    "SELECT memory_stats()",
    "SELECT memory_stats('one')",
    "SELECT jsonb_agg(to_jsonb(r)) FROM memory_load('one') r",
    "SELECT jsonb_agg(to_jsonb(r)) FROM memory_export_markdown('one') r",
    "SELECT jsonb_agg(r) FROM memory_export_json() r",
    "SELECT jsonb_agg(to_jsonb(r)) FROM memory_list() r",
    "SELECT jsonb_agg(to_jsonb(r)) FROM memory_list_documents() r",
    "SELECT jsonb_agg(to_jsonb(r) - 'score') FROM memory_search_archive('harbour', doc_type => 'document') r",
    "SELECT jsonb_agg(to_jsonb(r) ORDER BY r.id) FROM memory_entries r",
];

pub struct Witness {
    client: Client,
    name: String,
}

impl Witness {
    /// Stores something of every kind for the witness and for all, and waits for what the worker makes
    /// of it.
    pub fn plant(cluster: &Cluster, database: &str, people: &[Person], mode: Mode) -> Self {
        let (witness, shared) = (&people[WITNESS], &people[SHARED]);
        let mut superuser = cluster.connect(database);
        for (person, sessions) in
            [(witness, ["one", witness.handle.as_str()]), (shared, ["one", "two"])]
        {
            for session in sessions {
                let turns = json!([
                    {"role": "user", "content": format!("The code of the harbour is {}.", person.secret),
                     "metadata": {"note": person.secret}},
                    {"role": "assistant", "content": format!("The green train: {}", person.secret)},
                ]);
                value::<i64>(
                    &mut superuser,
                    "SELECT count(*) FROM memory_ingest_batch($1, $2, $3)",
                    &[&turns, &session, &person.name],
                );
            }
            for call in [
                "SELECT memory_add('The green key is ' || $2, user_id => $1, infer => false, fact_key => 'home')::text",
                "SELECT memory_add_document(repeat('The harbour opens with ' || $2 || '. ', 40), \
                                            title => $2, user_id => $1)::text",
                "SELECT memory_close_episode('one', user_id => $1)::text FROM (SELECT $2) x",
                "SELECT memory_configure(agent_id => 'quiet', settings => jsonb_build_object('memory_agent.default_top_k', 3), \
                                         user_id => $1)::text FROM (SELECT $2) x",
            ] {
                value::<Option<String>>(&mut superuser, call, &[&person.name, &person.secret]);
            }
            superuser
                .execute(
                    "INSERT INTO memory_agent.session_summaries \
                        (id, user_id, agent_id, session_id, level, content, method, source_ids) \
                     SELECT gen_random_uuid(), $1, 'default', 'two', 'L3', $2, 'brief', \
                            array_agg(e.id) FROM memory_agent.entries e WHERE e.user_id = $1",
                    &[&person.name, &format!("A summary of {}", person.secret)],
                )
                .expect("a summary");
        }
        wait_until(PATIENCE, "what was planted to be done", || {
            value(&mut superuser, "SELECT memory_wait('5 s')", &[])
        });
        let mut client = cluster.connect_as(database, &witness.name);
        run(&mut client, &format!("{}SET memory_agent.rerank = off", mode.naming("witness")));
        Self { client, name: witness.name.clone() }
    }

    /// All answers and all rows of the witness.
    pub fn statement(&mut self, superuser: &mut Client) -> Vec<(String, Json)> {
        let mut told: Vec<(String, Json)> = QUESTIONS
            .iter()
            .map(|question| {
                let answer = value::<Option<Json>>(&mut self.client, question, &[]);
                ((*question).to_owned(), answer.unwrap_or_default())
            })
            .collect();
        for table in tables_with_users(superuser) {
            // The seal of history comes later.
            let rows = format!(
                "SELECT jsonb_agg(row ORDER BY row::text) \
                   FROM (SELECT to_jsonb(t) - '{{seq,prev_hash,hash,key_id}}'::text[] AS row \
                           FROM memory_agent.{table} t WHERE t.user_id = $1) r"
            );
            let rows = value::<Option<Json>>(superuser, &rows, &[&self.name]).unwrap_or_default();
            told.push((table, rows));
        }
        told
    }
}

/// Tables of the extension that have a column `user_id`.
pub fn tables_with_users(superuser: &mut Client) -> Vec<String> {
    values(
        superuser,
        "SELECT c.relname::text FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid \
          WHERE c.relnamespace = 'memory_agent'::regnamespace AND c.relkind IN ('r', 'p') \
            AND a.attname = 'user_id' ORDER BY 1",
        &[],
    )
}

#[track_caller]
pub fn assert_same(before: &[(String, Json)], after: &[(String, Json)]) {
    let empty: Vec<&String> =
        before.iter().filter(|(_, rows)| rows.is_null()).map(|(name, _)| name).collect();
    // What the LLM and the worker leave behind depends on them.
    assert!(empty.iter().all(|name| !name.contains("memory_recall")), "nothing there: {empty:?}");
    assert!(before.iter().any(|(name, rows)| name == "entries" && !rows.is_null()));
    assert_eq!(before.len(), after.len());
    for ((name, before), (_, after)) in before.iter().zip(after) {
        assert_eq!(before, after, "of the witness: {name}");
    }
}
