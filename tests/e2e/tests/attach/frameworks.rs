//! The tables in which frameworks for agents keep their messages, with rows as they write them: each is attached by
//! one call. The shapes are those of n8n's chat memory, the OpenAI Agents SDK's SQLAlchemySession, Google ADK's
//! DatabaseSessionService and Mastra's PostgreSQL store.

use crate::{cluster, contents, count, with_warnings};
use memory_agent_e2e::memory::{run, values};
use memory_agent_e2e::{Client, expect_error};

/// What is remembered, in the order of the rows: `user session role: content`.
fn said(client: &mut Client) -> Vec<String> {
    values(
        client,
        "SELECT format('%s %s %s: %s', e.user_id, coalesce(e.session_id, '-'), e.role, e.content) \
           FROM memory_agent.entries e WHERE e.state = 'active' ORDER BY e.source_key",
        &[],
    )
}

#[test]
fn n8n() {
    let mut client = cluster().database("framework_n8n").connect();
    run(
        &mut client,
        "CREATE TABLE n8n_chat_histories (id serial PRIMARY KEY, session_id varchar(255) NOT NULL, \
                                          message jsonb NOT NULL); \
         SELECT memory_attach('n8n_chat_histories', 'message', session_id_column => 'session_id', \
             user_id_column => 'session_id', content_path => 'content', role_path => 'type', \
             role_map => '{\"human\": \"user\", \"ai\": \"assistant\", \"system\": null}')",
    );
    run(
        &mut client,
        r#"INSERT INTO n8n_chat_histories (session_id, message) VALUES
           ('ann', '{"type": "human", "content": "I am allergic to nuts.", "additional_kwargs": {}, "response_metadata": {}}'),
           ('ann', '{"type": "ai", "content": "Noted.", "tool_calls": [], "invalid_tool_calls": []}'),
           ('ann', '{"type": "ai", "content": "", "tool_calls": [{"id": "c1", "name": "search", "args": {}}]}'),
           ('ann', '{"type": "system", "content": "Be brief."}'),
           ('bob', '{"type": "human", "content": [{"type": "text", "text": "Look at"}, {"type": "image_url", "image_url": {}}, {"type": "text", "text": "this."}]}')"#,
    );
    let expected = [
        "ann ann user: I am allergic to nuts.",
        "ann ann assistant: Noted.",
        "bob bob user: Look at\n\nthis.",
    ];
    assert_eq!(said(&mut client), expected);
    run(&mut client, r#"UPDATE n8n_chat_histories SET message = message || '{"id": "m"}'"#);
    assert_eq!(count(&mut client, "memory_agent.entries"), 3, "the text is the same");
    run(
        &mut client,
        r#"UPDATE n8n_chat_histories SET message = message || '{"content": "Nuts are fine."}' WHERE id = 1;
           DELETE FROM n8n_chat_histories WHERE id > 1"#,
    );
    assert_eq!(said(&mut client), ["ann ann user: Nuts are fine."]);
}

#[test]
fn openai_agents_sdk() {
    let name = "framework_agents";
    let mut client = cluster().database(name).connect();
    run(
        &mut client,
        "CREATE TABLE agent_sessions (session_id varchar PRIMARY KEY, \
             created_at timestamp DEFAULT CURRENT_TIMESTAMP NOT NULL, updated_at timestamp DEFAULT CURRENT_TIMESTAMP NOT NULL); \
         CREATE TABLE agent_messages (id serial PRIMARY KEY, \
             session_id varchar NOT NULL REFERENCES agent_sessions ON DELETE CASCADE, message_data text NOT NULL, \
             created_at timestamp DEFAULT CURRENT_TIMESTAMP NOT NULL); \
         INSERT INTO agent_sessions VALUES ('s1'); \
         SELECT memory_attach('agent_messages', 'message_data', session_id_column => 'session_id', user_id => 'ann', \
             content_path => 'content', role_path => 'role', created_at_column => 'created_at', \
             condition => $$left(message_data, 1) = '{'$$)",
    );
    let (mut client, warnings) = with_warnings(cluster(), name);
    run(
        &mut client,
        r#"INSERT INTO agent_messages (session_id, message_data) VALUES
           ('s1', '{"content": "Which port is free?", "role": "user"}'),
           ('s1', '{"id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}], "type": "reasoning"}'),
           ('s1', '{"arguments": "{}", "call_id": "c1", "name": "scan", "type": "function_call", "id": "fc_1"}'),
           ('s1', '{"call_id": "c1", "output": "6543", "type": "function_call_output"}'),
           ('s1', '{"id": "msg_1", "content": [{"annotations": [], "text": "6543 is free \ud83d\ude00", "type": "output_text", "logprobs": []}], "role": "assistant", "status": "completed", "type": "message"}'),
           ('s1', '{"content": "cut off'),
           ('s1', 'no item')"#,
    );
    let expected = ["ann s1 user: Which port is free?", "ann s1 assistant: 6543 is free \u{1f600}"];
    assert_eq!(said(&mut client), expected);
    let told = warnings.lock().unwrap().join("\n");
    assert!(
        told.contains("the row [6]") && told.contains("its content is not valid JSON"),
        "{told}"
    );
    assert!(!told.contains("cut off"), "{told}");
    run(
        &mut client,
        "UPDATE agent_messages SET message_data = message_data || '.\"}' WHERE id = 6",
    );
    assert_eq!(contents(&mut client)[2], "cut off.");
    run(&mut client, "DELETE FROM agent_sessions");
    assert_eq!(contents(&mut client), [""; 0]);
}

#[test]
fn google_adk() {
    let mut client = cluster().database("framework_adk").connect();
    run(
        &mut client,
        "CREATE TABLE events (id varchar(128), app_name varchar(128), user_id varchar(128), session_id varchar(128), \
             invocation_id varchar(256), timestamp timestamp, event_data jsonb, \
             PRIMARY KEY (id, app_name, user_id, session_id)); \
         SELECT memory_attach('events', 'event_data', user_id_column => 'user_id', session_id_column => 'session_id', \
             created_at_column => 'timestamp', content_path => 'content.parts', role_path => 'content.role', \
             role_map => '{\"model\": \"assistant\"}', metadata_columns => '{app_name}', \
             condition => $$app_name = 'shop'$$)",
    );
    run(
        &mut client,
        r#"INSERT INTO events VALUES
           ('e1', 'shop', 'ann', 's1', 'i1', '2026-01-02', '{"author": "user", "content": {"parts": [{"text": "I ride a bike."}], "role": "user"}}'),
           ('e2', 'shop', 'ann', 's1', 'i1', '2026-01-03', '{"author": "root_agent", "content": {"parts": [{"text": "They ride.", "thought": true}, {"text": "Which one?"}], "role": "model"}}'),
           ('e3', 'shop', 'ann', 's1', 'i1', '2026-01-04', '{"author": "root_agent", "content": {"parts": [{"functionCall": {"name": "look", "args": {}}}], "role": "model"}}'),
           ('e4', 'shop', 'ann', 's1', 'i1', '2026-01-05', '{"author": "root_agent", "content": {"parts": [{"functionResponse": {"name": "look"}}], "role": "user"}, "actions": {}}'),
           ('e5', 'shop', 'ann', 's1', 'i1', '2026-01-06', '{"author": "root_agent", "actions": {"stateDelta": {}}}'),
           ('e6', 'test', 'ann', 's1', 'i1', '2026-01-07', '{"author": "user", "content": {"parts": [{"text": "A test."}], "role": "user"}}')"#,
    );
    let expected = ["ann s1 user: I ride a bike.", "ann s1 assistant: Which one?"];
    assert_eq!(said(&mut client), expected);
    let times: Vec<String> = values(
        &mut client,
        "SELECT (created_at AT TIME ZONE 'UTC')::date::text FROM memory_agent.entries ORDER BY source_key",
        &[],
    );
    assert_eq!(times, ["2026-01-02", "2026-01-03"]);
}

#[test]
fn mastra() {
    let mut client = cluster().database("framework_mastra").connect();
    run(
        &mut client,
        r#"CREATE TABLE mastra_messages (id text PRIMARY KEY, thread_id text NOT NULL, content text NOT NULL, role text NOT NULL,
               type text NOT NULL, "createdAt" timestamp NOT NULL, "resourceId" text, "createdAtZ" timestamptz DEFAULT now());
           SELECT memory_attach('mastra_messages', 'content', user_id_column => 'resourceId', session_id_column => 'thread_id',
               created_at_column => 'createdAt', role_column => 'role', content_path => 'parts')"#,
    );
    run(
        &mut client,
        r#"INSERT INTO mastra_messages VALUES
           ('m1', 't1', '{"format":2,"parts":[{"type":"text","text":"I keep bees."}],"content":"I keep bees."}', 'user', 'v2', '2026-01-02', 'ann'),
           ('m2', 't1', '{"format":2,"parts":[{"type":"step-start"},{"type":"reasoning","reasoning":"","details":[{"type":"text","text":"Bees."}]},{"type":"tool-invocation","toolInvocation":{"state":"result","toolName":"x","result":"y"}},{"type":"text","text":"How many hives?"}]}', 'assistant', 'v2', '2026-01-03', 'ann'),
           ('m3', 't1', 'Three hives.', 'user', 'text', '2026-01-04', 'ann'),
           ('m4', 't1', '{"format":2,"parts":[{"type":"text","text":"Nobody''s."}]}', 'user', 'v2', '2026-01-05', NULL)"#,
    );
    let expected = [
        "ann t1 user: I keep bees.",
        "ann t1 assistant: How many hives?",
        "ann t1 user: Three hives.",
    ];
    assert_eq!(said(&mut client), expected);
}

/// The role in a column of its own, as JSON; one that is unknown; one that is not remembered.
#[test]
fn roles() {
    let mut client = cluster().database("framework_roles").connect();
    run(
        &mut client,
        r#"CREATE TABLE lines (id int PRIMARY KEY, said text, who jsonb);
           SELECT memory_attach('lines', 'said', user_id => 'ann', role => 'tool', role_column => 'who', role_path => 'kind',
               role_map => '{"guest": "user", "host": "assistant", "waiter": null}');
           INSERT INTO lines VALUES (1, 'A table.', '{"kind": "guest"}'), (2, 'Of course.', '{"kind": "host"}'),
               (3, 'Soup?', '{"kind": "waiter"}'), (4, 'Bark.', '{"kind": "dog"}'), (5, 'Beep.', '{}'), (6, 'Boop.', NULL)"#,
    );
    let expected = [
        "ann - user: A table.",
        "ann - assistant: Of course.",
        "ann - tool: Beep.",
        "ann - tool: Boop.",
    ];
    assert_eq!(said(&mut client), expected);
    let dead =
        "memory_agent.jobs WHERE status = 'dead' AND last_error LIKE 'the row [4] %unknown role%'";
    assert_eq!(count(&mut client, dead), 1);
    run(&mut client, r#"UPDATE lines SET who = '{"kind": "waiter"}'"#);
    assert_eq!(contents(&mut client), [""; 0]);
}

#[test]
fn texts_of_several_columns() {
    let name = "framework_columns";
    let mut client = cluster().database(name).connect();
    run(
        &mut client,
        "CREATE TABLE articles (id int PRIMARY KEY, title text, body text, tag text); \
         SELECT memory_attach('articles', 'title', user_id => 'ann', more_content_columns => '{body,tag}'); \
         INSERT INTO articles VALUES (1, 'Bees', 'They swarm.', NULL), (2, NULL, 'A body.', 'bees'), (3, ' ', ' ', NULL), \
             (4, 'A title', NULL, NULL), (5, 'Long', repeat('x', 1 << 20), NULL)",
    );
    assert_eq!(contents(&mut client), ["Bees\nThey swarm.", "A body.\nbees", "A title"]);
    let dead = "memory_agent.jobs WHERE status = 'dead' AND last_error LIKE '%1048580 bytes%'";
    assert_eq!(count(&mut client, dead), 1);
    run(
        &mut client,
        "UPDATE articles SET body = 'They dance.' WHERE id = 1; UPDATE articles SET tag = 'x' WHERE id = 4; \
         ALTER TABLE articles RENAME tag TO label; UPDATE articles SET label = 'y' WHERE id = 4; \
         UPDATE articles SET body = NULL, label = NULL WHERE id = 2",
    );
    assert_eq!(contents(&mut client), ["Bees\nThey dance.", "A title\ny"]);
}

#[test]
fn arguments_are_checked() {
    let mut client = cluster().database("framework_arguments").connect();
    run(&mut client, "CREATE TABLE lines (id int PRIMARY KEY, said text, who text)");
    for (arguments, code, expected) in [
        ("content_path => ''", "22023", "content_path: a path is"),
        ("role_path => 'a..b'", "22023", "role_path: a path is"),
        ("role_column => 'who', role_map => '[]'", "22023", "role_map is not a JSON object"),
        (
            "role_column => 'who', role_map => '{\"a\": 1}'",
            "22023",
            "role_map is not a JSON object",
        ),
        ("role_column => 'who', role_map => '{\"a\": \"king\"}'", "22023", "unknown role"),
        ("role_map => '{\"a\": \"user\"}'", "22023", "nothing says where a row's role is"),
        ("more_content_columns => '{nothing}'", "42703", "more_content_columns"),
        ("more_content_columns => ARRAY[NULL]", "22004", "NULL"),
        ("more_content_columns => array_fill('who'::text, ARRAY[9])", "22023", "at most 8"),
    ] {
        let call = format!("SELECT memory_attach('lines', 'said', user_id => 'ann', {arguments})");
        let message = expect_error(client.query(&call, &[]), code);
        assert!(message.contains(expected), "{arguments}: {message}");
    }
    assert_eq!(count(&mut client, "memory_agent.attachments"), 0);
}
