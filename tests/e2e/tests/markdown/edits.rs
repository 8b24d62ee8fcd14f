//! Files that were exported, changed by hand and imported again.

use crate::round_trip::{counts, fill};
use crate::{database, export, import, rows};
use memory_agent_e2e::expect_error;
use memory_agent_e2e::memory::{recall, run, value};

/// A file is changed by hand and imported: the memory is updated, as by `memory_update`.
#[test]
fn a_file_that_was_changed_by_hand_is_an_update() {
    let (_, mut client) = database("changed_by_hand");
    run(
        &mut client,
        "SELECT memory_add('Ada lives in Rome.', 's', infer => false, fact_key => 'home');
         SELECT memory_ingest('s', 'user', 'I live in Rome.')",
    );
    let before = rows(&mut client, "entries");
    let mut changed = export(&mut client, Some("s"));
    changed.iter_mut().for_each(|(_, text)| *text = text.replace("Rome", "Oslo"));
    let ids: Vec<_> = changed.iter().map(|file| import(&mut client, file)).collect();
    for (file, id) in changed.iter().zip(&ids) {
        assert!(!file.1.contains(&id.to_string()), "the version before stays as it was");
        // The same file again finds what became of it.
        assert_eq!(import(&mut client, file), *id);
    }
    assert_eq!(rows(&mut client, "entries").len(), before.len() * 2);
    let told = "SELECT array_agg(content ORDER BY content) FROM memory_agent.entries \
                 WHERE state = 'active'";
    assert_eq!(
        value::<Vec<String>>(&mut client, told, &[]),
        ["Ada lives in Oslo.", "I live in Oslo."]
    );
    let chain = "SELECT array_agg(h.op ORDER BY h.at, h.id) FROM memory_agent.history h \
                   JOIN memory_agent.entries e ON e.id = h.entry_id AND e.content = 'Ada lives in Rome.'";
    assert_eq!(value::<Vec<String>>(&mut client, chain, &[]), ["add", "update"]);
    let key =
        "SELECT content FROM memory_agent.entries WHERE fact_key = 'home' AND state = 'active'";
    assert_eq!(value::<String>(&mut client, key, &[]), "Ada lives in Oslo.");
    // Changed twice from the same export, the second loses nothing silently.
    let late: Vec<_> =
        (changed.iter()).map(|(path, text)| (path.clone(), text.replace("Oslo", "Bonn"))).collect();
    for (path, text) in &late {
        let result = client.query("SELECT memory_import_markdown($1, $2)", &[path, text]);
        let message = expect_error(result, "55000");
        assert!(message.contains("not memory any more"), "{message}");
        assert!(ids.iter().any(|id| message.contains(&id.to_string())), "{message}");
    }
    // What is empty is no memory.
    let files = export(&mut client, Some("s"));
    let (path, text) = files.iter().find(|(_, text)| text.contains("Ada lives in Oslo.")).unwrap();
    let emptied = text.replace("Ada lives in Oslo.", "");
    let result = client.query("SELECT memory_import_markdown($1, $2)", &[path, &emptied]);
    expect_error(result, "22023");
}

/// Each file is one chunk of a document; what is changed in it is changed in the document.
#[test]
fn an_edited_chunk_is_an_update_of_its_document() {
    let (_, mut client) = database("edited_chunk");
    run(
        &mut client,
        "SET memory_agent.chunk_tokens = 50;
         SELECT memory_add_document(E'# Tea\\n\\nGreen tea is steeped at 80 degrees, for two minutes at most. \
             Black tea is steeped with boiling water, and for twice as long. Milk is added later.\\n\\n# Coffee\\n\\n\
             Coffee is ground for every cup, and never kept for longer than a day. The mill is cleaned \
             once a week, with rice and a brush.\\n\\n# Cups\\n\\nA cup holds two hundred millilitres and is \
             warmed with hot water. Cups with a crack are thrown away.', 'Drinks')",
    );
    let document: uuid::Uuid = value(&mut client, "SELECT id FROM memory_agent.archives", &[]);
    let files = export(&mut client, None);
    assert!(files.len() > 2, "{files:?}");
    let tea = files.iter().position(|(_, text)| text.contains("80 degrees")).expect("a chunk");
    let first = files[tea].clone();
    let edits = [
        ("80 degrees", "75 degrees"),
        ("never kept for longer than a day.", "never kept. It is drunk."),
    ];
    let changed = files.iter().map(|(path, text)| {
        let text = edits.iter().fold(text.clone(), |text, (old, new)| text.replace(old, new));
        (path.clone(), text)
    });
    let changed: Vec<_> = changed.collect();
    // Every second time, what is there already.
    for _ in 0..2 {
        for (file, was) in changed.iter().zip(&files) {
            let id = import(&mut client, file);
            assert_eq!(id == document, file != was, "{file:?}");
        }
    }
    let text: String = value(&mut client, "SELECT content FROM memory_agent.archives", &[]);
    assert!(
        text.contains("75 degrees, for two") && text.contains("It is drunk. The mill"),
        "{text}"
    );
    let events: i64 = value(&mut client, "SELECT count(*) FROM memory_history($1)", &[&document]);
    assert_eq!(events, 4, "two updates, each with the text before and after");
    let found = recall(&mut client, "'How hot for green tea?'");
    assert!(found[0].content.contains("75 degrees"), "{found:?}");
    // A second edit of the same export, though the text has changed there since.
    let late = changed[tea].1.replace("75 degrees", "70 degrees");
    let result = client.query("SELECT memory_import_markdown($1, $2)", &[&changed[tea].0, &late]);
    assert!(expect_error(result, "55000").contains("exactly once"));
    // What was forgotten does not come back by the edit of another chunk.
    let files = export(&mut client, None);
    let holds = |(path, _): &&(String, String)| !path.contains("/deleted/");
    let active: Vec<_> = files.iter().filter(holds).collect();
    let forget = "SELECT memory_forget(id) FROM memory_entries WHERE kind = 'document' AND content LIKE '%hot water%'";
    assert!(value::<bool>(&mut client, forget, &[]));
    let (path, text) =
        active.iter().find(|(_, text)| text.contains("75 degrees")).expect("a chunk");
    let edited = text.replace("75 degrees", "70 degrees");
    let result = client.query("SELECT memory_import_markdown($1, $2)", &[path, &edited]);
    assert!(expect_error(result, "55000").contains("forgotten"));
    // A chunk whose document did not come along.
    let (_, mut other) = database("edited_chunk_alone");
    import(&mut other, &first);
    let (path, text) = &changed[tea];
    let result = other.query("SELECT memory_import_markdown($1, $2)", &[path, text]);
    assert!(expect_error(result, "42809").contains("chunk of a document"));
}

/// The summary that is in force is edited like a memory: its text comes from the file, and it covers what it covered.
#[test]
fn an_edited_summary_is_taken_up() {
    let (_, mut client) = database("edited_summary");
    fill(&mut client);
    let archive: uuid::Uuid = value(&mut client, "SELECT memory_archive('trip')", &[]);
    let files = export(&mut client, Some("trip"));
    let summary = |level: &str| {
        let found = files.iter().find(|(path, _)| path.contains(&format!("summaries/{level}")));
        found.unwrap_or_else(|| panic!("no summary {level}")).clone()
    };
    let unsummarized =
        "SELECT unsummarized_tokens FROM memory_agent.sessions WHERE session_id = 'trip'";
    let before = (counts(&mut client), value::<i64>(&mut client, unsummarized, &[]));
    let (path, text) = summary("L3/final.md");
    let body = text.rsplit("---\n").next().expect("a text").trim().to_owned();
    let edited = text.replace(&body, "She moved to Rome, not to Oslo.").replace("Rome", "Bari");
    assert!(edited.contains("topics: [\"Bari\""), "a topic too: {edited}");
    let edited = (path, edited);
    let new = import(&mut client, &edited);
    assert_eq!(import(&mut client, &edited), new, "the same edit again");
    let after = (counts(&mut client), value::<i64>(&mut client, unsummarized, &[]));
    assert_eq!(after, before, "no turn has to be summarised again");
    let in_force = "SELECT array_agg(concat_ws('; ', btrim(s.content, E'\\n- '), s.output_tokens > 5, s.model IS NULL, \
                           o.is_active, s.last_entry_at = o.last_entry_at, s.topics)) \
                      FROM memory_agent.session_summaries s \
                      JOIN memory_agent.session_summaries o ON o.id = s.previous_id \
                     WHERE s.session_id = 'trip' AND s.level = 'L3' AND s.is_active AND s.id = $1";
    let shown: Vec<String> = value(&mut client, in_force, &[&new]);
    assert_eq!(shown, ["She moved to Bari, not to Oslo.; t; t; f; t; {Bari,\"a \\\"b\\\"\"}"]);
    // Archived once more, the conversation has the new text.
    assert_eq!(value::<uuid::Uuid>(&mut client, "SELECT memory_archive('trip')", &[]), archive);
    let told: String = value(&mut client, "SELECT content FROM memory_agent.archives", &[]);
    assert!(told.contains("She moved to Bari"), "{told}");
    // What it replaced, and summaries of parts, are not edited.
    let again = (edited.0.clone(), edited.1.replace("Bari", "Genoa"));
    let (path, text) = summary("L1");
    let before = rows(&mut client, "session_summaries");
    for (path, text) in [again, (path, format!("{text}And more.\n"))] {
        let result = client.query("SELECT memory_import_markdown($1, $2)", &[&path, &text]);
        let message = expect_error(result, "55000");
        assert!(message.contains("active L3"), "{message}");
    }
    assert_eq!(rows(&mut client, "session_summaries"), before);
}
