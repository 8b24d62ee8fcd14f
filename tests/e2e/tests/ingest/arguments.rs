//! What one call of `memory_ingest` stores: its arguments, their defaults, the session's counters.

use memory_agent_e2e::memory::{ingest, recall, run, value};
use memory_agent_e2e::{DateTime, Json, Utc, Uuid, expect_error, json, shared};

#[test]
fn defaults() {
    let mut client = shared().database("defaults").connect();
    let before: DateTime<Utc> = value(&mut client, "SELECT clock_timestamp()", &[]);
    let id = ingest(&mut client, "s", "Hello there");
    let after: DateTime<Utc> = value(&mut client, "SELECT clock_timestamp()", &[]);

    let row = client
        .query_one(
            "SELECT *, vector_dims(embedding) AS dimensions, content_hash = sha256(content::bytea) AS hashed \
               FROM memory_agent.entries",
            &[],
        )
        .unwrap();
    assert_eq!(row.get::<_, Uuid>("id"), id);
    assert_eq!(id.get_version_num(), 7);
    assert_eq!(row.get::<_, &str>("user_id"), "alice");
    assert_eq!(row.get::<_, &str>("agent_id"), "default");
    assert_eq!(row.get::<_, &str>("session_id"), "s");
    assert_eq!(row.get::<_, &str>("kind"), "turn");
    assert_eq!(row.get::<_, &str>("role"), "user");
    assert_eq!(row.get::<_, &str>("content"), "Hello there");
    assert_eq!(row.get::<_, Json>("metadata"), json!({}));
    assert_eq!(row.get::<_, Vec<String>>("markers"), Vec::<String>::new());
    assert_eq!(row.get::<_, &str>("state"), "active");
    assert_eq!(row.get::<_, Option<DateTime<Utc>>>("expires_at"), None);
    assert_eq!(row.get::<_, Option<DateTime<Utc>>>("valid_to"), None);
    assert_eq!(row.get::<_, &str>("embedding_model"), "memory-embed-small");
    assert_eq!(row.get::<_, i32>("dimensions"), 384);
    assert_eq!(row.get::<_, &str>("lexeme_config"), "english");
    assert!(row.get::<_, bool>("hashed"));
    for column in ["created_at", "recorded_at", "updated_at"] {
        let at: DateTime<Utc> = row.get(column);
        assert!(before <= at && at <= after, "{column} {at}");
    }
}

#[test]
fn every_argument_is_stored() {
    let mut client = shared().database("every_argument_is_stored").connect();
    run(
        &mut client,
        "SELECT memory_ingest(session_id => 'trip', role => 'assistant', content => 'Book a ferry', \
            user_id => 'bob', agent_id => 'planner', metadata => '{\"project\": \"x\", \"n\": 1e400}', \
            markers => '{goal,custom:travel}', created_at => '2020-02-29 12:00+00', ttl => '90 minutes')",
    );
    let row = client
        .query_one(
            "SELECT e.*, metadata->>'n' = '1' || repeat('0', 400) AS digits_kept, \
                    expires_at - recorded_at = interval '90 minutes' AS ttl_counts_from_now \
               FROM memory_agent.entries e",
            &[],
        )
        .unwrap();
    assert_eq!(row.get::<_, &str>("user_id"), "bob");
    assert_eq!(row.get::<_, &str>("agent_id"), "planner");
    assert_eq!(row.get::<_, &str>("session_id"), "trip");
    assert_eq!(row.get::<_, &str>("role"), "assistant");
    assert_eq!(row.get::<_, Vec<String>>("markers"), ["goal", "custom:travel"]);
    assert_eq!(row.get::<_, DateTime<Utc>>("created_at").to_rfc3339(), "2020-02-29T12:00:00+00:00");
    assert!(row.get::<_, bool>("digits_kept"), "a number beyond a double keeps its digits");
    assert!(row.get::<_, bool>("ttl_counts_from_now"));
}

#[test]
fn user_and_agent_come_from_the_session_when_they_are_not_given() {
    let mut client = shared().database("identity_defaults").connect();
    let stored = |client: &mut _| -> String {
        let id = ingest(client, "s", "text");
        value(
            client,
            "SELECT user_id || '/' || agent_id FROM memory_agent.entries WHERE id = $1",
            &[&id],
        )
    };
    assert_eq!(stored(&mut client), "alice/default");
    run(&mut client, "SET memory_agent.agent_id = 'coder'");
    assert_eq!(stored(&mut client), "alice/coder");
    run(&mut client, "RESET memory_agent.user_id");
    assert_eq!(stored(&mut client), "postgres/coder", "an empty user_id means current_user");
}

#[test]
fn all_roles_are_accepted() {
    let mut client = shared().database("all_roles_are_accepted").connect();
    for role in ["user", "assistant", "system", "tool", "memory"] {
        run(&mut client, &format!("SELECT memory_ingest('s', '{role}', 'says something')"));
    }
    let roles: i64 =
        value(&mut client, "SELECT count(DISTINCT role) FROM memory_agent.entries", &[]);
    assert_eq!(roles, 5);
}

#[test]
fn the_session_row_counts_turns_tokens_and_times() {
    let mut client = shared().database("session_row").connect();
    run(
        &mut client,
        "SELECT memory_ingest('s', 'user', 'hello world', created_at => '2024-05-02 10:00+00');
         SELECT memory_ingest('s', 'user', 'hello world', created_at => '2024-05-01 10:00+00');
         SELECT memory_ingest('s', 'user', 'hello world', created_at => '2024-05-03 10:00+00');
         SELECT memory_ingest('other', 'user', 'hello world');
         SELECT memory_ingest('s', 'user', 'hello world', agent_id => 'coder')",
    );
    let row = client
        .query_one(
            "SELECT * FROM memory_agent.sessions \
              WHERE user_id = 'alice' AND agent_id = 'default' AND session_id = 's'",
            &[],
        )
        .unwrap();
    assert_eq!(row.get::<_, i64>("turn_count"), 3);
    assert_eq!(row.get::<_, i64>("active_tokens"), 6);
    assert_eq!(row.get::<_, i64>("active_entries"), 3);
    let time = |column: &str| row.get::<_, DateTime<Utc>>(column).to_rfc3339();
    assert_eq!(time("created_at"), "2024-05-01T10:00:00+00:00");
    assert_eq!(time("last_turn_at"), "2024-05-03T10:00:00+00:00");
    let sessions: i64 = value(&mut client, "SELECT count(*) FROM memory_agent.sessions", &[]);
    assert_eq!(sessions, 3, "a session belongs to one user and one agent");
}

#[test]
fn token_counts_are_those_of_cl100k() {
    let mut client = shared().database("token_counts").connect();
    // Counted with OpenAI's tokeniser.
    for (text, tokens) in [
        ("hello world", 2),
        ("tiktoken is great!", 6),
        ("antidisestablishmentarianism", 6),
        ("2 + 2 = 4", 7),
        ("お誕生日おめでとう", 9),
    ] {
        let id = ingest(&mut client, "s", text);
        let row = client
            .query_one(
                "SELECT token_count, token_count_exact FROM memory_agent.entries WHERE id = $1",
                &[&id],
            )
            .unwrap();
        assert_eq!((row.get::<_, i32>(0), row.get::<_, bool>(1)), (tokens, true), "{text}");
        assert_eq!(
            value::<i32>(&mut client, "SELECT memory_count_tokens($1)", &[&text]),
            tokens,
            "{text}"
        );
    }
}

#[test]
fn the_speakers_name_is_indexed_with_the_text() {
    let mut client = shared().database("speakers_name").connect();
    run(
        &mut client,
        "SELECT memory_ingest('s', 'user', 'I started a pottery class.', metadata => '{\"name\": \"Caroline\"}');
         SELECT memory_ingest('s', 'user', 'I started a pottery class.')",
    );
    let rows = recall(&mut client, "'Caroline', rerank => false");
    assert_eq!(rows[0].metadata, json!({"name": "Caroline"}));
    assert!(rows[0].lexical.is_some() && rows[1].lexical.is_none());
    assert!(rows[0].similarity > rows[1].similarity);
    assert_eq!(rows[0].content, "I started a pottery class.", "the name is not part of the text");
    let cosine: f64 = value(
        &mut client,
        "SELECT 1 - (embedding <=> memory_embed('Caroline: I started a pottery class.', 'document')) \
           FROM memory_agent.entries WHERE metadata ? 'name'",
        &[],
    );
    assert!(cosine > 0.9999, "{cosine}");
}

#[test]
fn ids_grow_with_time() {
    let mut client = shared().database("ids_grow").connect();
    let ids: Vec<Uuid> = (0..10).map(|n| ingest(&mut client, "s", &format!("turn {n}"))).collect();
    assert!(ids.is_sorted(), "{ids:?}");
}

#[test]
fn a_rollback_leaves_nothing() {
    let mut client = shared().database("rollback").connect();
    let everything = "SET LOCAL memory_agent.embed_on_ingest = 'async';
        SELECT memory_ingest('s', 'tool', 'one');
        SELECT memory_ingest_batch('[{\"role\": \"user\", \"content\": \"two\"}]', 's');
        SELECT memory_add('three', 's', infer => false);
        SELECT memory_close_episode('s')";
    let before = super::row_counts(&mut client);
    assert!(before.iter().all(|(_, rows)| *rows == 0), "{before:?}");
    run(&mut client, &format!("BEGIN; {everything}"));
    assert!(
        super::row_counts(&mut client).iter().any(|(table, rows)| *table == "jobs" && *rows > 0)
    );
    run(&mut client, "ROLLBACK");
    assert_eq!(super::row_counts(&mut client), before);

    run(&mut client, &format!("BEGIN; SAVEPOINT before; {everything}; ROLLBACK TO before; COMMIT"));
    assert_eq!(super::row_counts(&mut client), before);
}

#[test]
fn a_read_only_transaction_is_refused() {
    let mut client = shared().database("ingest_read_only").connect();
    run(&mut client, "SET default_transaction_read_only = on");
    expect_error(client.query("SELECT memory_ingest('s', 'user', 'x')", &[]), "25006");
}

#[test]
fn a_committed_turn_is_found_by_other_sessions_at_once() {
    let database = shared().database("visible_at_once");
    let (mut writer, mut reader) = (database.connect(), database.connect());
    run(&mut writer, "BEGIN");
    ingest(&mut writer, "s", "The safe's code is 4711.");
    assert!(recall(&mut reader, "'What is the code of the safe?'").is_empty());
    run(&mut writer, "COMMIT");
    assert_eq!(recall(&mut reader, "'What is the code of the safe?'").len(), 1);
}
