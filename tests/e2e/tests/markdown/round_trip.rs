//! Export, import into another database, export again.

use crate::json::assert_same;
use crate::{database, export, import, rows};
use memory_agent_e2e::Client;
use memory_agent_e2e::memory::{recall, run, value};
use serde_json::{Value, json};

/// Texts that a careless format would change.
const ODD_TEXTS: [&str; 6] = [
    "---\nid: 7\n---\nA front matter within.",
    "\n\n  Blank lines before and after.\n\n",
    "Windows\r\nlines\r\n",
    "# Heading\n\n- \"quoted\": 'both' \\ways\n",
    "日本語と😀、\u{2028}\u{feff}\u{85}tab\there",
    "x\n---",
];

/// A session with everything that a memory can be, and global facts.
pub fn fill(client: &mut Client) {
    for (at, text) in ODD_TEXTS.iter().enumerate() {
        let metadata = json!({"name": "Ada", "n": at, "text": text});
        client
            .execute(
                "SELECT memory_ingest('trip', $1, $2, metadata => $3, \
                        created_at => '2026-01-31T10:00:00Z'::timestamptz + $4 * interval '1.25 min')",
                &[&["user", "assistant", "system", "tool"][at % 4], text, &metadata, &(at as f64)],
            )
            .unwrap();
    }
    run(
        client,
        "SELECT memory_close_episode('trip');
         SELECT memory_ingest('trip', 'user', 'We decided to fly to Rome.', ttl => '7 days');
         SELECT memory_ingest('trip', 'user', 'A turn that left the window.');
         SELECT memory_ingest('trip', 'user', 'A turn that was deleted.', markers => '{}');
         SELECT memory_ingest('trip', 'user', repeat('A long turn has several windows. ', 200));
         SELECT memory_add('Ada lives in Paris.', 'trip', infer => false, fact_key => 'home',
                           created_at => '2026-01-01');
         SELECT memory_add('Ada lives in Rome.', 'trip', infer => false, fact_key => 'home',
                           created_at => '2026-02-01', markers => '{custom:moved,decision}');
         SELECT memory_add('Ada had a cat.', 'trip', infer => false, fact_key => 'pet');
         SELECT memory_add('Ada has a dog.', 'trip', infer => false, fact_key => 'pet');
         SELECT memory_add('Ada dislikes rain.', 'trip', infer => false);
         SELECT memory_add('Ada owns a yacht.', 'trip', infer => false);
         SELECT memory_add('A page about Rome.', 'trip', infer => false);
         SELECT memory_add('Ada is an engineer.', infer => false, metadata => '{\"n\": 1.10}');
         SELECT memory_add('Ada speaks Finnish.', agent_id => 'other', infer => false);
         UPDATE memory_agent.entries SET state = 'archived', state_reason = 'evicted', state_at = now()
          WHERE content = 'A turn that left the window.';
         UPDATE memory_agent.entries SET state = 'inactive', state_reason = 'deleted', state_at = now(),
                valid_to = now()
          WHERE content IN ('A turn that was deleted.', 'Ada dislikes rain.');
         UPDATE memory_agent.entries SET state = 'inactive', state_reason = 'unverified', state_at = now(),
                valid_to = created_at, metadata = '{\"unverified\": \"the name was not said\"}'
          WHERE content = 'Ada owns a yacht.';
         UPDATE memory_agent.entries SET kind = 'document', role = 'assistant'
          WHERE content = 'A page about Rome.';
         UPDATE memory_agent.entries SET confidence = 0.1,
                source_ids = (SELECT array_agg(s.id) FROM memory_agent.entries s
                               WHERE s.content LIKE 'We decided%')
          WHERE content = 'Ada lives in Rome.';
         -- As memory_agent.purge_after leaves a fact that was replaced.
         UPDATE memory_agent.entries SET content = '', content_hash = NULL, lexemes = '', doc_len = 0,
                embedding = NULL, embedding_model = NULL, token_count = 0, fact_key = NULL
          WHERE content = 'Ada had a cat.';
         UPDATE memory_agent.sessions s SET active_entries = w.entries, active_tokens = w.tokens
           FROM (SELECT count(*) AS entries, sum(token_count) FILTER (WHERE kind = 'turn') AS tokens
                   FROM memory_agent.entries
                  WHERE session_id = 'trip' AND state = 'active' AND kind <> 'document') w;
         INSERT INTO memory_agent.session_summaries
                (id, user_id, agent_id, session_id, level, ordinal, content, method, topics, source_ids,
                 previous_id, first_entry_at, last_entry_at, message_count, compression_ratio, model,
                 is_active)
         SELECT gen_random_uuid(), 'alice', 'default', 'trip', level, ordinal,
                E'\\n---\\nOf ' || level || E'\\n', method, '{Rome,\"a \\\"b\\\"\"}',
                CASE WHEN level = 'L3'
                     THEN ARRAY(SELECT id FROM memory_agent.entries WHERE kind = 'turn'
                                 ORDER BY created_at, id LIMIT 2)
                     ELSE ARRAY[gen_random_uuid()] END, gen_random_uuid(), '2026-01-31T10:00:00.000001Z',
                '2026-02-01T10:00:00Z', 7, 0.07, 'stub', is_active
           FROM (VALUES ('L1', 0, 'hierarchical', true), ('L1', 1, 'hierarchical', true),
                        ('L1', 1, 'detailed', true), ('L2', 0, 'hierarchical', true),
                        ('L3', 0, 'standard', true), ('L3', 0, 'window', false))
                v(level, ordinal, method, is_active)",
    );
}

/// What a session counts.
pub fn counts(client: &mut Client) -> Value {
    value(
        client,
        "SELECT jsonb_agg(jsonb_build_object('t', turn_count, 'k', active_tokens, \
                'e', active_entries, 'at', last_turn_at, 'from', created_at)) \
           FROM memory_agent.sessions",
        &[],
    )
}

#[test]
fn nothing_is_lost() {
    let (_, mut from) = database("nothing_is_lost_from");
    let (_, mut into) = database("nothing_is_lost_into");
    fill(&mut from);
    let files = [export(&mut from, Some("trip")), export(&mut from, None)].concat();
    let entries = rows(&mut from, "entries");
    let summaries = rows(&mut from, "session_summaries");
    assert_eq!(files.len(), entries.len() + summaries.len(), "one file each");
    // The last first: no file needs another to be there.
    for file in files.iter().rev() {
        let id = import(&mut into, file);
        assert!(file.1.contains(&id.to_string()), "{file:?}");
    }
    assert_eq!([export(&mut into, Some("trip")), export(&mut into, None)].concat(), files);
    assert_same(rows(&mut into, "entries"), entries.clone());
    assert_eq!(rows(&mut into, "session_summaries"), summaries);
    assert_eq!(counts(&mut into), counts(&mut from));
    // The summary in force covers two turns, which it names by their ids.
    let left: i64 = value(
        &mut into,
        "SELECT s.unsummarized_tokens - (SELECT sum(e.token_count) FROM memory_agent.entries e \
                WHERE e.kind = 'turn' AND e.state <> 'inactive' AND e.id <> ALL (l.source_ids))::bigint \
           FROM memory_agent.sessions s \
           JOIN memory_agent.session_summaries l ON l.level = 'L3' AND l.is_active",
        &[],
    );
    assert_eq!(left, 0);
    let windows = "SELECT count(*) FROM memory_agent.entry_windows";
    let count: i64 = value(&mut from, windows, &[]);
    assert!(count > 0);
    assert_eq!(value::<i64>(&mut into, windows, &[]), count);
    for question in [
        "'Where does Ada live?', 'trip'",
        "'Where does Ada live?', 'trip', as_of => '2026-01-15'",
        "'What is Ada?'",
    ] {
        let found = recall(&mut into, question);
        assert!(!found.is_empty(), "{question}");
        let ids = |rows: &[memory_agent_e2e::memory::Recalled]| {
            rows.iter().map(|row| (row.id, row.content.clone())).collect::<Vec<_>>()
        };
        assert_eq!(ids(&found), ids(&recall(&mut from, question)), "{question}");
    }
    let (then, now) = ("as_of => '2026-01-15'", "as_of => '2026-03-01'");
    for (time, home) in [(then, "Ada lives in Paris."), (now, "Ada lives in Rome.")] {
        let first = recall(&mut into, &format!("'Where does Ada live?', 'trip', {time}"));
        assert_eq!(first[0].content, home, "{time}");
    }
    // Facts that were imported are in history.
    let imported: i64 = value(
        &mut into,
        "SELECT count(*) FROM memory_agent.history WHERE op = 'import' AND actor = 'postgres'",
        &[],
    );
    let facts = entries.iter().filter(|entry| entry["kind"] == "fact").count();
    assert_eq!(imported, facts as i64);
}

#[test]
fn an_import_can_be_repeated() {
    let (_, mut from) = database("repeated_from");
    let (_, mut into) = database("repeated_into");
    fill(&mut from);
    let files = [export(&mut from, Some("trip")), export(&mut from, None)].concat();
    let ids: Vec<_> = files.iter().map(|file| import(&mut into, file)).collect();
    let before = (rows(&mut into, "entries"), rows(&mut into, "episodes"), counts(&mut into));
    let again: Vec<_> = files.iter().map(|file| import(&mut into, file)).collect();
    assert_eq!(again, ids);
    let after = (rows(&mut into, "entries"), rows(&mut into, "episodes"), counts(&mut into));
    assert_eq!(after, before);
    // Where they came from, they are still.
    let before = rows(&mut from, "entries");
    for file in &files {
        import(&mut from, file);
    }
    assert_eq!(rows(&mut from, "entries"), before);
}

#[test]
fn an_imported_session_goes_on() {
    let (_, mut from) = database("goes_on_from");
    let (_, mut into) = database("goes_on_into");
    fill(&mut from);
    for file in export(&mut from, Some("trip")) {
        import(&mut into, &file);
    }
    // Episodes are those of the turns, and over.
    let episodes = "SELECT jsonb_agg(jsonb_build_array(id, turn_count, started_at, ended_at) ORDER BY id) \
                      FROM memory_agent.episodes";
    let is_over = "SELECT bool_and(status = 'closed' AND close_reason = 'imported') FROM memory_agent.episodes";
    assert_eq!(value::<Value>(&mut into, episodes, &[]), value::<Value>(&mut from, episodes, &[]));
    assert!(value::<bool>(&mut into, is_over, &[]));
    // A key is still held, and the window grows from what it was.
    let active = "SELECT active_entries FROM memory_agent.sessions";
    let before: i64 = value(&mut into, active, &[]);
    run(
        &mut into,
        "SELECT memory_add('Ada lives in Oslo.', 'trip', infer => false, fact_key => 'home');
         SELECT memory_ingest('trip', 'user', 'Back in Oslo.')",
    );
    assert_eq!(value::<i64>(&mut into, active, &[]), before + 1);
    let holders = "SELECT count(*) FROM memory_agent.entries \
                    WHERE fact_key = 'home' AND state = 'active'";
    assert_eq!(value::<i64>(&mut into, holders, &[]), 1);
}

/// An inactive turn that never was in a window and is the source of facts.
#[test]
fn sources_of_facts_stay_sources() {
    let (_, mut from) = database("sources_from");
    let (_, mut into) = database("sources_into");
    run(
        &mut from,
        "SELECT memory_ingest('s', 'user', 'I moved to Rome.');
         UPDATE memory_agent.entries SET state = 'inactive', state_at = now(), valid_to = created_at,
                extracted_at = NULL",
    );
    let files = export(&mut from, Some("s"));
    assert!(files[0].0.starts_with("entries/s/sources/"), "{files:?}");
    import(&mut into, &files[0]);
    assert_same(rows(&mut into, "entries"), rows(&mut from, "entries"));
    assert_eq!(export(&mut into, Some("s")), files);
    let turns = "SELECT turn_count + active_entries + active_tokens FROM memory_agent.sessions";
    assert_eq!(value::<i64>(&mut into, turns, &[]), 0);
}

/// A document's chunks are memories; those of an archived conversation are its turns once more.
#[test]
fn chunks_of_documents_are_files_and_of_archives_are_none() {
    let (_, mut from) = database("chunks_from");
    let (_, mut into) = database("chunks_into");
    run(
        &mut from,
        "SELECT memory_add_document('# Tea\n\nGreen tea is steeped at 80 degrees.', 'Tea');
         SELECT memory_ingest('s', 'user', 'A chunk of an archive.');
         UPDATE memory_agent.entries SET kind = 'document', source_relation = 'memory_agent.archives',
                source_key = '{\"id\": 1}'
          WHERE session_id = 's'",
    );
    assert_eq!(export(&mut from, Some("s")), []);
    let files = export(&mut from, None);
    assert!(
        files.iter().all(|(path, _)| path.starts_with("entries/global/documents/")),
        "{files:?}"
    );
    for file in &files {
        import(&mut into, file);
    }
    assert_eq!(export(&mut into, None), files);
    let found = recall(&mut into, "'How hot for green tea?'");
    assert!(found[0].content.contains("80 degrees"), "{found:?}");
}

/// The conversation called `global` is exported with the user's global memory, of all agents, from a
/// directory of its own.
#[test]
fn the_conversation_called_global_is_a_part_of_global_memory() {
    let (_, mut client) = database("global_directory");
    run(
        &mut client,
        "SELECT memory_ingest('global', 'user', 'Said.'); \
         SELECT memory_ingest('global', 'user', 'To another.', agent_id => 'other'); \
         SELECT memory_add('Known.', infer => false)",
    );
    let files = export(&mut client, None);
    assert_eq!(export(&mut client, Some("global")), files);
    let mut directories: Vec<&str> =
        files.iter().map(|(path, _)| path.split('/').nth(1).unwrap_or_default()).collect();
    directories.sort_unstable();
    assert_eq!(directories, ["%67lobal", "%67lobal", "global"]);
    let (_, mut into) = database("global_directory_into");
    for file in &files {
        import(&mut into, file);
    }
    assert_eq!(export(&mut into, None).len(), files.len());
    let turns = "SELECT count(*) FROM memory_agent.entries WHERE session_id = 'global'";
    assert_eq!(value::<i64>(&mut into, turns, &[]), 2);
}

/// Every session and agent is a directory of its own, whatever it is called.
#[test]
fn sessions_and_agents_are_kept_apart() {
    let (_, mut client) = database("kept_apart");
    let sessions = ["..", "../../etc/passwd", "a/b", "deleted", "é", "."];
    for session in sessions {
        client.execute("SELECT memory_ingest($1, 'user', $1)", &[&session]).unwrap();
        client
            .execute("SELECT memory_ingest($1, 'user', 'x', agent_id => 'other')", &[&session])
            .unwrap();
    }
    let mut directories = std::collections::BTreeSet::new();
    let mut files = Vec::new();
    for session in sessions {
        let exported = export(&mut client, Some(session));
        let [(path, content)] = exported.as_slice() else { panic!("{exported:?}") };
        assert!(content.ends_with(&format!("---\n{session}\n")), "{content}");
        let parts: Vec<&str> = path.split('/').collect();
        assert_eq!((parts.len(), parts[0], parts[2]), (5, "entries", "turns"), "{path}");
        assert!(parts.iter().all(|part| *part != ".." && *part != "."), "{path}");
        directories.insert(parts[1].to_owned());
        files.extend(exported);
    }
    assert_eq!(directories.len(), sessions.len());
    assert_eq!(export(&mut client, None), []);
    let (_, mut into) = database("kept_apart_into");
    for file in &files {
        import(&mut into, file);
    }
    for (session, file) in sessions.iter().zip(&files) {
        assert_eq!(export(&mut into, Some(session)), std::slice::from_ref(file));
    }
}
