//! Before 0.3.0 a session called `global` was like any other; then the name means the user's global memory.
//! Nothing of such a session is lost by the update, or by restoring a dump of it into 0.3.0.

use crate::{RELEASED, older_database, update};
use memory_agent_e2e::memory::{recalled_texts, run, value, values};
use memory_agent_e2e::{Client, Programs, Uuid, expect_error, shared_without_worker};

/// A session called `global` with turns, a keyed fact, a summary and settings, beside global memory.
fn filled(name: &str, version: &str) -> Client {
    let mut client = older_database(shared_without_worker(), name, version);
    run(
        &mut client,
        "SET memory_agent.embed_on_ingest = off; SET memory_agent.rerank = off; \
         SELECT memory_ingest('global', 'user', 'The boat is in Kiel.'); \
         SELECT memory_ingest('global', 'assistant', 'Noted: the boat is in Kiel.'); \
         SELECT memory_ingest('s', 'user', 'Another boat story.'); \
         SELECT memory_add('The boat is blue.', 'global', infer => false, fact_key => 'colour'); \
         SELECT memory_add('The boat is called Meta.', infer => false); \
         SELECT memory_add_document('# Boat'||chr(10)||'A manual.', 'Boat', session_id => 'global'); \
         SELECT memory_configure(session_id => 'global', settings => '{\"recency_weight\": 0.17}'); \
         INSERT INTO memory_agent.session_summaries \
                (id, user_id, agent_id, session_id, level, content, method) \
         VALUES (gen_random_uuid(), 'alice', 'default', 'global', 'L3', 'Of a boat.', 'brief')",
    );
    client
}

fn loaded(client: &mut Client) -> Vec<String> {
    values(client, "SELECT content FROM memory_load('global')", &[])
}

fn seen(client: &mut Client, scope: &str) -> Vec<String> {
    let mut found = recalled_texts(client, &format!("'boat', top_k => 50{scope}"));
    found.sort();
    found
}

fn entries(client: &mut Client) -> String {
    // The update adds a column.
    let digest = "SELECT string_agg(md5((to_jsonb(e) - 'doubted_by')::text), '' ORDER BY e.id) FROM memory_agent.entries e";
    value(client, digest, &[])
}

const OF_GLOBAL: [&str; 5] = [
    "# Boat\nA manual.",
    "Noted: the boat is in Kiel.",
    "The boat is blue.",
    "The boat is called Meta.",
    "The boat is in Kiel.",
];

/// The session is a part of global memory now, and goes on.
#[track_caller]
fn is_global(client: &mut Client) {
    run(client, "SET memory_agent.embed_on_ingest = off; SET memory_agent.rerank = off");
    assert_eq!(
        loaded(client),
        ["Of a boat.", "The boat is in Kiel.", "Noted: the boat is in Kiel."]
    );
    assert_eq!(seen(client, ", session_id => 'new'"), OF_GLOBAL);
    assert_eq!(seen(client, ", session_id => 'global'"), OF_GLOBAL);
    assert_eq!(seen(client, "").len(), OF_GLOBAL.len() + 1);
    let settings =
        "SELECT memory_configure(session_id => 'global') #>> '{settings,recency_weight}'";
    assert_eq!(value::<String>(client, settings, &[]), "0.17");
    // Its facts are compared with those of no session: same text, same key.
    let blue: Uuid = value(
        client,
        "SELECT id FROM memory_agent.entries WHERE content = 'The boat is blue.'",
        &[],
    );
    let again = "SELECT memory_add('The boat is blue.', infer => false)";
    assert_eq!(value::<Uuid>(client, again, &[]), blue);
    run(client, "SELECT memory_add('The boat is red.', infer => false, fact_key => 'colour')");
    let state = "SELECT state_reason FROM memory_agent.entries WHERE id = $1";
    assert_eq!(value::<String>(client, state, &[&blue]), "superseded");
    // So is its document.
    let document = "SELECT memory_add_document('# Boat'||chr(10)||'A manual.', 'Boat', session_id => 'global')";
    run(client, document);
    expect_error(client.query("SELECT memory_clear('global')", &[]), "22023");
    run(client, "SELECT memory_ingest('global', 'user', 'It leaks.')");
    assert_eq!(loaded(client).last().map(String::as_str), Some("It leaks."));
    let turns: i32 = value(client, "SELECT memory_clear('global', confirm_global => true)", &[]);
    assert_eq!(turns, 3);
    assert_eq!(seen(client, ", session_id => 'new', kinds => '{fact,turn}'"), [""; 0]);
}

#[test]
fn a_session_called_global_becomes_global_memory() {
    for version in RELEASED {
        let name = format!("global_{version}");
        let mut client = filled(&name, version);
        // Until the update it is what it was: private, and cleared without a word.
        assert_eq!(loaded(&mut client).len(), 3);
        assert_eq!(seen(&mut client, ", session_id => 'new'"), ["The boat is called Meta."]);
        assert_eq!(
            seen(&mut client, ", session_id => 'global'"),
            OF_GLOBAL,
            "with what belongs to no session"
        );
        let before = entries(&mut client);
        let programs = Programs::of(shared_without_worker());
        let archive = programs.file(&name);
        programs.dump(&name, &["-Fc", "-f", &archive]);
        update(&mut client);
        assert_eq!(entries(&mut client), before, "no row changes");
        is_global(&mut client);
        let restored = format!("global_restored_{version}");
        shared_without_worker().plain_database(&restored);
        programs.restore(&restored, &[], &archive);
        let mut client = shared_without_worker().connect(&restored);
        run(&mut client, "SET memory_agent.user_id = 'alice'");
        assert_eq!(entries(&mut client), before, "no row is lost in a restore");
        is_global(&mut client);
    }
}

#[test]
fn an_older_schema_keeps_the_session() {
    for version in RELEASED {
        let mut client = filled(&format!("global_kept_{version}"), version);
        let turns: i32 = value(&mut client, "SELECT memory_clear('global')", &[]);
        assert_eq!(turns, 2);
        assert_eq!(seen(&mut client, ", session_id => 'new'"), ["The boat is called Meta."]);
    }
}
