//! A file is checked like every other argument, and belongs to one user only.

use crate::{database, export, import};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{expect_error, shared_without_worker};

const FACT: &str = "---\nid: \"0199c3a5-0000-7000-8000-000000000001\"\nrole: memory\nkind: fact\n\
                    conversation_id: s\ncreated_at: \"2026-01-31T10:00:00Z\"\nagent_id: default\n\
                    markers: []\nmemory_agent: 1\n---\nAda lives in Rome.\n";

#[test]
fn what_cannot_be_stored_is_refused() {
    let (_, mut client) = database("refused");
    for (from, to, message) in [
        ("---\nid", "id", "first line is not ---"),
        ("memory_agent: 1\n---\n", "memory_agent: 1\n", "that ends the front matter"),
        ("memory_agent: 1", "memory_agent: 2", "version 2"),
        ("agent_id: default", "agent: default", "unknown field"),
        ("agent_id: default", "agent_id: ' '", "agent_id is empty or blank"),
        ("role: memory", "role: friend", "unknown role"),
        ("kind: fact", "kind: thought", "kind in the front matter"),
        ("kind: fact", "kind: turn\nfact_key: home", "only a fact has a fact_key"),
        ("kind: fact", "kind: fact\nfact_key: ' '", "fact_key must have"),
        ("kind: fact", "kind: fact\nconfidence: 1.5", "confidence must be"),
        ("kind: fact", "kind: fact\nmetadata: []", "metadata must be a JSON object"),
        ("kind: fact", "kind: fact\nmetadata: {\"a\": \"\\u0000\"}", "cannot be read"),
        ("kind: fact", "kind: fact\nstate: asleep", "state in the front matter"),
        ("kind: fact", "kind: fact\nstate_reason: deleted", "not active"),
        ("kind: fact", "kind: fact\nsource_key: {\"id\": 1}", "name a row together"),
        (
            "kind: fact",
            "kind: fact\nsource_relation: memory_agent.archives\nsource_key: {}",
            "made by the archive",
        ),
        ("kind: fact", "kind: fact\nexpires_at: never", "cannot be read"),
        ("kind: fact", "kind: fact\nexpires_at: infinity", "not finite"),
        ("kind: fact", "kind: fact\nreplaced_by: 7\nepisode_id: 'x", "closing quote"),
        ("markers: []", "markers: [\"wish\"]", "unknown marker"),
        ("2026-01-31T10", "2026-13-31T10", "cannot be read"),
        ("2026-01-31T10:00:00Z", "infinity", "not finite"),
        ("Ada lives in Rome.\n", "", "content is empty"),
        (
            "conversation_id: s",
            &format!("conversation_id: {}", "s".repeat(600)),
            "session_id is too long",
        ),
    ] {
        let content = FACT.replacen(from, to, 1);
        assert_ne!(content, FACT);
        let result = client.query("SELECT memory_import_markdown('', $1)", &[&content]);
        let error = expect_error(result, "22023");
        assert!(error.contains(message), "{to}: {error}");
    }
    let summary = "---\nrole: summary\nconversation_id: global\n---\nx";
    let result = client.query("SELECT memory_import_markdown('', $1)", &[&summary]);
    expect_error(result, "22023");
    for call in ["memory_import_markdown(NULL, NULL)", "memory_export_markdown('')"] {
        expect_error(client.query(&format!("SELECT {call}"), &[]), "22023");
    }
    for table in ["entries", "sessions", "session_summaries", "jobs"] {
        let count = format!("SELECT count(*) FROM memory_agent.{table}");
        assert_eq!(value::<i64>(&mut client, &count, &[]), 0, "{table}");
    }
    import(&mut client, &(String::new(), FACT.to_owned()));
}

#[test]
fn a_file_takes_nobodys_place() {
    let (_, mut client) = database("nobodys_place");
    run(
        &mut client,
        "SELECT memory_add('Ada lives in Oslo.', 's', infer => false, fact_key => 'home')",
    );
    let keyed = FACT.replace("kind: fact", "kind: fact\nfact_key: home");
    let result = client.query("SELECT memory_import_markdown('', $1)", &[&keyed]);
    assert!(expect_error(result, "23505").contains("holds the fact_key"));
    // One that no longer holds does not need it.
    let old = keyed.replace(
        "kind: fact",
        "kind: fact\nstate: inactive\nstate_reason: superseded\nvalid_to: 2026-02-01",
    );
    import(&mut client, &(String::new(), old));

    let summary = |id: u8, text: &str| {
        let front = format!("---\nid: s{id}\nrole: summary\nconversation_id: s\n---\n{text}");
        ("entries/s/summaries/L3/final.md".to_owned(), front)
    };
    import(&mut client, &summary(1, "The first."));
    import(&mut client, &summary(2, "The second."));
    let in_force: String = value(
        &mut client,
        "SELECT string_agg(content, ' ') FROM memory_agent.session_summaries WHERE is_active",
        &[],
    );
    assert_eq!(in_force, "The first.");

    run(&mut client, "SELECT memory_ingest('other', 'user', 'A turn with an episode.')");
    let episode: uuid::Uuid =
        value(&mut client, "SELECT id FROM memory_agent.episodes WHERE session_id = 'other'", &[]);
    let turn = FACT.replace("0001\"", "0002\"").replace(
        "role: memory\nkind: fact",
        &format!("role: user\nkind: turn\nepisode_id: {episode}"),
    );
    let result = client.query("SELECT memory_import_markdown('', $1)", &[&turn]);
    assert!(expect_error(result, "22023").contains("another session"));
}

#[test]
fn files_belong_to_one_user() {
    let (database, mut alice) = database("one_user");
    run(
        &mut alice,
        "CREATE ROLE markdown_user LOGIN; SELECT memory_grant('markdown_user', 'user');
         CREATE ROLE markdown_reader LOGIN; SELECT memory_grant('markdown_reader', 'reader')",
    );
    let file = (String::new(), FACT.to_owned());
    let id = import(&mut alice, &file);
    let mut bob = shared_without_worker().connect_as(database.name(), "markdown_user");
    run(&mut bob, "SET memory_agent.user_id = 'bob'");
    assert_eq!(export(&mut bob, Some("s")), []);
    // The same id, another memory.
    assert_eq!(import(&mut bob, &(String::new(), FACT.replace("Rome", "Bonn"))), id);
    assert!(export(&mut bob, Some("s"))[0].1.ends_with("Ada lives in Bonn.\n"));
    assert!(export(&mut alice, Some("s"))[0].1.ends_with("Ada lives in Rome.\n"));
    for call in [
        "memory_export_markdown('s', 'alice')",
        "memory_import_markdown('', $$---\nrole: user\n---\nx$$, 'alice')",
        "memory_import_markdown('', $$---\nrole: user\n---\nx$$, '*')",
    ] {
        expect_error(bob.query(&format!("SELECT {call}"), &[]), "42501");
    }
    let mut reader = shared_without_worker().connect_as(database.name(), "markdown_reader");
    run(&mut reader, "SET memory_agent.user_id = 'alice'");
    assert_eq!(export(&mut reader, Some("s")), export(&mut alice, Some("s")));
    let result = reader.query("SELECT memory_import_markdown('', $1)", &[&FACT]);
    expect_error(result, "42501");
    run(&mut reader, "SET default_transaction_read_only = on");
    assert_eq!(export(&mut reader, Some("s")).len(), 1);
    // The user who writes the row would have to wait for an entry of bob's.
    let of_row = FACT.replace("0001\"", "0003\"").replace(
        "role: memory\nkind: fact",
        "role: user\nkind: turn\nsource_relation: public.notes\nsource_key: [1]",
    );
    let result = bob.query("SELECT memory_import_markdown('', $1)", &[&of_row]);
    assert!(expect_error(result, "42501").contains("attached table"));
    import(&mut alice, &(String::new(), of_row));
}
