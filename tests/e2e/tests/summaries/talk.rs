//! Conversations of a given length, and what became of them.

use crate::scene::Scene;
use memory_agent_e2e::llm::Model;
use memory_agent_e2e::memory::{value, values};
use memory_agent_e2e::{Client, Json, Row, Uuid, json};

/// Seven tokens of cl100k_base.
const SENTENCE: &str = " We talked about bikes and trains.";
const SENTENCE_TOKENS: usize = 7;

/// A scene in which sessions are summarised. Neither embeddings nor facts are wanted here.
pub fn scene(model: impl Model, settings: &[(&str, &str)]) -> Scene {
    let mut all = vec![
        ("memory_agent.rerank_model", ""),
        ("memory_agent.embed_on_ingest", "off"),
        ("memory_agent.extraction", "off"),
        ("memory_agent.summarization", "on"),
        ("memory_agent.compression", "on"),
    ];
    all.extend_from_slice(settings);
    Scene::with_settings(model, &all)
}

/// The text of a turn with about so many tokens.
pub fn text(number: usize, tokens: usize) -> String {
    format!("Note {number}.{}", SENTENCE.repeat((tokens / SENTENCE_TOKENS).max(1)))
}

/// Stores turns of about so many tokens each in one statement, a minute apart, and returns their ids.
pub fn talk(client: &mut Client, session: &str, turns: usize, tokens: usize) -> Vec<Uuid> {
    talk_from(client, session, 0, turns, tokens)
}

/// The same; the first turn has this number and minute.
pub fn talk_from(
    client: &mut Client,
    session: &str,
    first: usize,
    turns: usize,
    tokens: usize,
) -> Vec<Uuid> {
    let turns: Vec<Json> = (first..first + turns)
        .map(|number| {
            let role = if number % 2 == 0 { "user" } else { "assistant" };
            let created_at = format!("2025-01-01 {:02}:{:02}:00+00", number / 60, number % 60);
            json!({"role": role, "content": text(number, tokens), "created_at": created_at})
        })
        .collect();
    values(client, "SELECT memory_ingest_batch($1, $2)", &[&Json::from(turns), &session])
}

/// A row of `memory_agent.session_summaries`.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    pub id: Uuid,
    pub level: String,
    pub ordinal: i32,
    pub content: String,
    pub method: String,
    pub sources: Vec<Uuid>,
    pub previous: Option<Uuid>,
    pub topics: Vec<String>,
    pub entities: Vec<String>,
    pub decisions: Vec<String>,
    pub questions: Vec<String>,
    pub first: Option<Uuid>,
    pub last: Option<Uuid>,
    pub messages: i32,
    pub input: i32,
    pub output: i32,
    pub ratio: f32,
    pub model: String,
    pub is_active: bool,
}

/// All summaries of a session, in the order in which they came.
pub fn summaries(client: &mut Client, session: &str) -> Vec<Summary> {
    let rows = client.query(
        "SELECT id, level, ordinal, content, method, source_ids, previous_id, topics, entities, decisions, \
                questions, first_entry_id, last_entry_id, message_count, input_tokens, output_tokens, \
                compression_ratio, model, is_active \
           FROM memory_agent.session_summaries WHERE session_id = $1 ORDER BY level, ordinal",
        &[&session],
    );
    let summary = |row: &Row| Summary {
        id: row.get(0),
        level: row.get(1),
        ordinal: row.get(2),
        content: row.get(3),
        method: row.get(4),
        sources: row.get(5),
        previous: row.get(6),
        topics: row.get(7),
        entities: row.get(8),
        decisions: row.get(9),
        questions: row.get(10),
        first: row.get(11),
        last: row.get(12),
        messages: row.get(13),
        input: row.get(14),
        output: row.get(15),
        ratio: row.get(16),
        model: row.get(17),
        is_active: row.get(18),
    };
    rows.expect("session_summaries").iter().map(summary).collect()
}

/// Those of a level.
pub fn of_level(client: &mut Client, session: &str, level: &str) -> Vec<Summary> {
    let all = summaries(client, session);
    all.into_iter().filter(|summary| summary.level == level).collect()
}

/// The one active L3 of a session.
#[track_caller]
pub fn whole(client: &mut Client, session: &str) -> Summary {
    let mut active = of_level(client, session, "L3");
    active.retain(|summary| summary.is_active);
    assert_eq!(active.len(), 1, "active L3s of {session}: {active:#?}");
    active.remove(0)
}

/// The turns of a session's window, oldest first.
pub fn window(client: &mut Client, session: &str) -> Vec<Uuid> {
    values(
        client,
        "SELECT id FROM memory_agent.entries \
          WHERE session_id = $1 AND kind = 'turn' AND state = 'active' ORDER BY created_at, id",
        &[&session],
    )
}

/// The session's tokens that no summary covers, as the session says.
pub fn unsummarized(client: &mut Client, session: &str) -> i64 {
    value(
        client,
        "SELECT unsummarized_tokens FROM memory_agent.sessions WHERE session_id = $1",
        &[&session],
    )
}

/// Tokens of entries.
pub fn tokens_of(client: &mut Client, ids: &[Uuid]) -> i64 {
    value(client, "SELECT sum(token_count) FROM memory_agent.entries WHERE id = ANY ($1)", &[&ids])
}

/// Everything about a session that a job may change, as text: to be compared with itself.
pub fn picture(client: &mut Client, session: &str) -> String {
    let parts: [String; 3] = [
        "SELECT coalesce(string_agg(e::text, E'\n' ORDER BY id), '') FROM (SELECT id, state, state_reason, \
            content, token_count, valid_to FROM memory_agent.entries WHERE session_id = $1) e",
        "SELECT coalesce(string_agg(u::text, E'\n' ORDER BY id), '') \
           FROM memory_agent.session_summaries u WHERE session_id = $1",
        "SELECT coalesce(string_agg(s::text, E'\n'), '') FROM memory_agent.sessions s WHERE session_id = $1",
    ]
    .map(|sql| value(client, sql, &[&session]));
    parts.join("\n---\n")
}

/// Runs a job of this kind again for a session, although nobody asked for it, with the sizes of windows that
/// the client's session has.
pub fn run_again(scene: &mut Scene, kind: &str, session: &str) {
    let job: Uuid = value(
        &mut scene.client,
        "INSERT INTO memory_agent.jobs (id, kind, user_id, agent_id, session_id, status, payload) \
         VALUES (gen_random_uuid(), $1, 'alice', 'default', $2, 'dead', \
                jsonb_build_object('settings', jsonb_build_object( \
                    'threshold', current_setting('memory_agent.compression_threshold_tokens')::int, \
                    'keep', current_setting('memory_agent.recent_messages_to_keep')::int))) \
         RETURNING id",
        &[&kind, &session],
    );
    assert!(value::<bool>(&mut scene.client, "SELECT memory_retry($1)", &[&job]));
    scene.drain();
}
