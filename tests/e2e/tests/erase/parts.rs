//! A session, an entry with its versions, a document: what goes with it, and what stays.

use crate::{SECRET, digest, erase, tables_with, verified};
use memory_agent_e2e::memory::{ingest, run, value, values};
use memory_agent_e2e::{Client, Uuid, expect_error, shared, shared_without_worker};

/// A fact made of these turns.
pub fn fact_of(client: &mut Client, content: &str, session: Option<&str>, turns: &[Uuid]) -> Uuid {
    let id: Uuid = value(
        client,
        "SELECT memory_add($1, session_id => $2, infer => false, metadata => '{}')",
        &[&content, &session],
    );
    client
        .execute("UPDATE memory_agent.entries SET source_ids = $2 WHERE id = $1", &[&id, &turns])
        .expect("the sources of a fact");
    id
}

pub fn contents(client: &mut Client) -> Vec<String> {
    values(
        client,
        "SELECT content FROM memory_agent.entries WHERE user_id = 'alice' ORDER BY content",
        &[],
    )
}

#[test]
fn a_session_goes_with_what_was_made_of_it_alone() {
    let mut client = shared_without_worker().database("erase_session").connect();
    let secret = ingest(&mut client, "s zzqx77", "My code is zzqx77.");
    let other = ingest(&mut client, "other", "I like tea.");
    fact_of(&mut client, "Her code is zzqx77.", Some("s zzqx77"), &[secret]);
    fact_of(&mut client, "Everywhere her code is zzqx77.", None, &[secret]);
    fact_of(&mut client, "She says a lot.", None, &[secret, other]);
    run(
        &mut client,
        "SELECT memory_add_document('A list with zzqx77.', session_id => 's zzqx77'); \
         SELECT memory_ingest('s zzqx77', 'user', 'The same name, another agent.', agent_id => 'second'); \
         INSERT INTO memory_agent.session_summaries \
             (id, user_id, agent_id, session_id, level, content, method) \
             VALUES (gen_random_uuid(), 'alice', 'default', 's zzqx77', 'L3', 'Of zzqx77.', 'brief')",
    );
    let kept = "session_id IN ('other') OR agent_id = 'second'";
    let before: Vec<String> = values(
        &mut client,
        &format!("SELECT md5(e::text) FROM memory_agent.entries e WHERE {kept} ORDER BY 1"),
        &[],
    );
    let counts = erase(&mut client, "session_id => 's zzqx77'");
    assert_eq!(
        contents(&mut client),
        ["I like tea.", "She says a lot.", "The same name, another agent."]
    );
    let after: Vec<String> = values(
        &mut client,
        &format!("SELECT md5(e::text) FROM memory_agent.entries e WHERE {kept} ORDER BY 1"),
        &[],
    );
    assert_eq!(before, after);
    let expected = [
        ("entries", 4),
        ("archives", 1),
        ("session_summaries", 1),
        ("sessions", 1),
        ("history", 2),
    ];
    for (table, rows) in expected {
        assert_eq!(counts[table], rows, "{table}: {counts}");
    }
    // The session of the other agent has the same name.
    assert_eq!(tables_with(&mut client, SECRET), ["entries", "episodes", "sessions"]);
    let tombstone: bool = value(
        &mut client,
        "SELECT body ->> 'session_sha256' = encode(sha256('s zzqx77'), 'hex') AND body ->> 'scope' = 'session' \
           FROM memory_agent.history WHERE op = 'erase'",
        &[],
    );
    assert!(tombstone);
    erase(&mut client, "session_id => 's zzqx77', agent_id => 'second'");
    assert_eq!(tables_with(&mut client, SECRET), Vec::<String>::new());
    assert_eq!(verified(&mut client), ["intact"]);
}

#[test]
fn an_entry_goes_with_its_versions_and_facts() {
    let mut client = shared().database("erase_one").connect();
    let turns = ["My code is zzqx77.", "I like tea.", "And cake."]
        .map(|text| ingest(&mut client, "s", text));
    fact_of(&mut client, "Her code is zzqx77.", Some("s"), &turns[..1]);
    fact_of(&mut client, "She likes tea.", Some("s"), &turns[..2]);
    let window = "SELECT concat_ws(' ', active_entries, active_tokens, turn_count, unsummarized_tokens) \
                    FROM memory_agent.sessions";
    let of_turns = "SELECT sum(token_count)::int8 FROM memory_agent.entries WHERE kind = 'turn'";
    let counts = erase(&mut client, &format!("id => '{}'", turns[0]));
    assert_eq!((&counts["entries"], &counts["history"]), (&2.into(), &1.into()), "{counts}");
    assert_eq!(contents(&mut client), ["And cake.", "I like tea.", "She likes tea."]);
    assert_eq!(tables_with(&mut client, SECRET), Vec::<String>::new());
    let tokens: i64 = value(&mut client, of_turns, &[]);
    assert_eq!(value::<String>(&mut client, window, &[]), format!("3 {tokens} 2 {tokens}"));
    let episode: i32 = value(&mut client, "SELECT turn_count FROM memory_agent.episodes", &[]);
    assert_eq!(episode, 2);
    // The last turns of an episode take it with them.
    for turn in &turns[1..] {
        erase(&mut client, &format!("id => '{turn}'"));
    }
    let left: i64 = value(
        &mut client,
        "SELECT (SELECT count(*) FROM memory_agent.episodes) + count(open_episode_id) + sum(turn_count)::int8 \
           FROM memory_agent.sessions",
        &[],
    );
    assert_eq!(left, 0);
    run(&mut client, "SELECT memory_ingest('s', 'user', 'It goes on.')");

    // Any version stands for all of them.
    let add = "SELECT memory_add($1, infer => false, fact_key => 'code')";
    let versions: Vec<Uuid> = ["It is zzqx77.", "It is zzqx77 again.", "It was zzqx77."]
        .iter()
        .map(|text| value(&mut client, add, &[text]))
        .collect();
    let counts = erase(&mut client, &format!("id => '{}'", versions[1]));
    assert_eq!((&counts["entries"], &counts["history"]), (&3.into(), &5.into()), "{counts}");
    assert_eq!(tables_with(&mut client, SECRET), Vec::<String>::new());
    assert_eq!(contents(&mut client), ["It goes on."]);
    assert_eq!(verified(&mut client), ["intact"]);
}

#[test]
fn a_document_goes_as_a_whole() {
    let mut client = shared_without_worker().database("erase_document").connect();
    let document: Uuid = value(
        &mut client,
        "SELECT memory_add_document('# A' || chr(10) || repeat('The code is zzqx77. ', 600) || '# B', 'zzqx77')",
        &[],
    );
    run(&mut client, "SELECT memory_add_document('About cake.')");
    let chunks: Vec<Uuid> = values(
        &mut client,
        "SELECT id FROM memory_agent.entries WHERE metadata ->> 'parent_id' = $1::uuid::text",
        &[&document],
    );
    assert!(chunks.len() > 1, "{} chunks", chunks.len());
    let query = format!("SELECT memory_erase(id => '{}')", chunks[0]);
    let message = expect_error(client.query(&query, &[]), "42809");
    assert!(message.contains(&document.to_string()), "{message}");
    let counts = erase(&mut client, &format!("id => '{document}'"));
    assert_eq!(
        (&counts["archives"], &counts["entries"]),
        (&1.into(), &chunks.len().into()),
        "{counts}"
    );
    assert_eq!(tables_with(&mut client, SECRET), Vec::<String>::new());
    assert_eq!(contents(&mut client), ["About cake."]);
}

#[test]
fn summaries_that_contain_it_go_and_others_stay() {
    let mut client = shared_without_worker().database("erase_summaries").connect();
    let summary = "INSERT INTO memory_agent.session_summaries \
            (id, user_id, agent_id, session_id, level, content, method, source_ids, is_active) \
         VALUES (gen_random_uuid(), 'alice', 'default', $1, $2, $3, 'brief', $4, $5) RETURNING id";
    let mut turns = Vec::new();
    for session in ["s", "t"] {
        let turn = ingest(&mut client, session, "My code is zzqx77.");
        for (level, content, is_active, sources) in [
            ("L1", "Of zzqx77.", true, vec![turn]),
            ("L3", "Of this and that.", false, vec![]),
            ("L3", "Of all.", true, vec![turn]),
        ] {
            value::<Uuid>(
                &mut client,
                summary,
                &[&session, &level, &content, &sources, &is_active],
            );
        }
        turns.push(turn);
    }
    run(
        &mut client,
        "INSERT INTO memory_agent.archives \
             (id, user_id, agent_id, session_id, namespace, doc_type, content, content_hash, summary_id) \
         SELECT gen_random_uuid(), 'alice', 'default', u.session_id, 'conversations:alice', 'conversation', \
                'On zzqx77', sha256('On'), u.id FROM memory_agent.session_summaries u WHERE u.content = 'Of all.'",
    );
    let untouched = digest(&mut client, "user_id = 'alice' AND session_id = 't'");
    let counts = erase(&mut client, &format!("id => '{}'", turns[0]));
    assert_eq!(
        (&counts["session_summaries"], &counts["archives"]),
        (&3.into(), &1.into()),
        "{counts}"
    );
    let left: Vec<String> =
        values(&mut client, "SELECT DISTINCT session_id FROM memory_agent.session_summaries", &[]);
    assert_eq!(left, ["t"]);
    assert_eq!(digest(&mut client, "user_id = 'alice' AND session_id = 't'"), untouched);
    // A summary by its own id takes those of its session with it; the turn stays.
    let one: Uuid =
        value(&mut client, "SELECT id FROM memory_agent.session_summaries WHERE level = 'L1'", &[]);
    let counts = erase(&mut client, &format!("id => '{one}'"));
    assert_eq!(
        (&counts["session_summaries"], &counts["entries"]),
        (&3.into(), &0.into()),
        "{counts}"
    );
    assert_eq!(contents(&mut client), ["My code is zzqx77."]);
}

#[test]
fn what_was_purged_is_erased_from_history_too() {
    let mut client = shared_without_worker().database("erase_purged").connect();
    let add = "SELECT memory_add('The code is zzqx77.', session_id => 's', infer => false)";
    let [first, second] = [(); 2].map(|()| value::<Uuid>(&mut client, add, &[]));
    assert_eq!(first, second, "a duplicate");
    run(&mut client, "DELETE FROM memory_agent.entries");
    assert_eq!(tables_with(&mut client, SECRET), ["history"]);
    run(&mut client, "BEGIN");
    assert_eq!(erase(&mut client, &format!("id => '{first}'"))["history"], 1);
    assert_eq!(tables_with(&mut client, SECRET), Vec::<String>::new());
    run(&mut client, "ROLLBACK");
    assert_eq!(tables_with(&mut client, SECRET), ["history"], "a rollback brings everything back");
    assert_eq!(erase(&mut client, "session_id => 's'")["history"], 1);
    assert_eq!(tables_with(&mut client, SECRET), Vec::<String>::new());
}

#[test]
fn what_is_unknown_changes_nothing() {
    let mut client = shared_without_worker().database("erase_unknown").connect();
    ingest(&mut client, "s", "I like tea.");
    run(
        &mut client,
        "INSERT INTO memory_agent.llm_calls (id, user_id, purpose, model, status, error) \
             VALUES (gen_random_uuid(), 'alice', 'extract', 'm', 'http 400', 'refused')",
    );
    let state = "SELECT concat((SELECT count(*) FROM memory_agent.entries), ' ', \
                               (SELECT count(*) FROM memory_agent.history), ' ', \
                               (SELECT count(error) FROM memory_agent.llm_calls))";
    for unknown in ["id => gen_random_uuid()", "session_id => 'nowhere'", "user_id => 'carol'"] {
        let counts = erase(&mut client, unknown);
        assert!(
            counts.as_object().unwrap().values().all(|count| count == 0),
            "{unknown}: {counts}"
        );
        assert_eq!(value::<String>(&mut client, state, &[]), "1 0 1", "{unknown}");
    }
}
