//! Everything of a user as JSON, out of one database and into another.

use crate::round_trip::fill;
use crate::{database, rows};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, expect_error, shared_without_worker};
use serde_json::{Value, json};

/// What an archive has beside memories: a document, a conversation, one of both that was forgotten; settings.
pub const MORE: &str = "
    SELECT memory_add_document('# Tea\n\nGreen tea is steeped at 80 degrees.', 'Tea');
    SELECT memory_add_document('A forgotten page.', session_id => 'trip', metadata => '{\"n\": 1.10}');
    SELECT memory_forget(id) FROM memory_list_documents(doc_type => 'document') WHERE title IS NULL;
    SELECT memory_archive('trip');
    SELECT memory_ingest('other', 'user', 'A conversation that was forgotten.', agent_id => 'other');
    SELECT memory_forget(memory_archive('other', agent_id => 'other'));
    SELECT memory_configure(settings => '{\"default_top_k\": 7}');
    SELECT memory_configure('other', 'other', '{\"rerank\": false}', 'journal');
    -- As a reflection leaves a short one.
    UPDATE memory_agent.episodes SET status = 'reflected', close_reason = 'gap', carried_into = gen_random_uuid()
     WHERE session_id = 'other'";

pub fn export(client: &mut Client, arguments: &str) -> Vec<Value> {
    let query = format!("SELECT memory_export_json({arguments})");
    client.query(&query, &[]).unwrap().iter().map(|row| row.get(0)).collect()
}

pub fn import(client: &mut Client, record: &Value) -> Option<uuid::Uuid> {
    match client.query_one("SELECT memory_import_json($1)", &[record]) {
        Ok(row) => row.get(0),
        Err(error) => panic!("{record}: {error:?}"),
    }
}

/// Records but the events that a memory came by an import, which each database has of its own. An episode that
/// was open is over after it.
pub fn but_arrivals(mut records: Vec<Value>) -> Vec<Value> {
    records.retain(|record| record["op"] != "import");
    for episode in records.iter_mut().filter(|record| record["status"] == "open") {
        episode["status"] = json!("closed");
        episode["close_reason"] = json!("imported");
    }
    records
}

/// Episodes, where those that are open are over.
fn episodes(client: &mut Client) -> Value {
    let sql = "SELECT jsonb_agg(jsonb_build_array(id, agent_id, session_id, turn_count, started_at, ended_at, \
                      replace(status, 'open', 'closed'), coalesce(close_reason, 'imported'), carried_into) ORDER BY id) \
                 FROM memory_agent.episodes";
    value(client, sql, &[])
}

/// All entries but the chunks of archived conversations, which are made anew.
fn entries(client: &mut Client) -> Vec<Value> {
    let mut entries = rows(client, "entries");
    entries.retain(|entry| entry["source_relation"] != "memory_agent.archives");
    entries
}

/// The same rows. The last digits of vectors may differ: they depend on what was embedded together.
#[track_caller]
pub fn assert_same(ones: Vec<Value>, others: Vec<Value>) {
    let parted = |mut rows: Vec<Value>| {
        let vectors = rows.iter_mut().filter_map(|row| row.as_object_mut()?.remove("embedding"));
        let numbers = |vector: Value| -> Vec<f64> {
            vector.as_str().map_or(Vec::new(), |text| serde_json::from_str(text).expect("a vector"))
        };
        let vectors: Vec<Vec<f64>> = vectors.map(numbers).collect();
        (rows, vectors)
    };
    let ((ones, their), (others, others_vectors)) = (parted(ones), parted(others));
    assert_eq!(ones, others);
    for (one, other) in their.iter().zip(&others_vectors) {
        let is_near = one.iter().zip(other).all(|(one, other)| (one - other).abs() < 1e-5);
        assert!(one.len() == other.len() && is_near, "{one:?} {other:?}");
    }
}

fn chunks(client: &mut Client) -> Vec<Value> {
    let query = "SELECT to_jsonb(e) - '{id,recorded_at,updated_at,state_at,valid_to}'::text[] FROM memory_agent.entries e \
                  WHERE source_relation = 'memory_agent.archives' ORDER BY session_id, content";
    client.query(query, &[]).unwrap().iter().map(|row| row.get(0)).collect()
}

fn settings(client: &mut Client) -> Value {
    let sql = "SELECT jsonb_agg(s ORDER BY s::text) FROM ( \
        SELECT jsonb_build_array(agent_id, NULL, settings, content_type) FROM memory_agent.agents \
        UNION ALL SELECT jsonb_build_array(agent_id, session_id, settings, content_type) \
                    FROM memory_agent.sessions) t(s)";
    value(client, sql, &[])
}

#[test]
fn everything_comes_back() {
    let (_, mut from) = database("json_from");
    let (_, mut into) = database("json_into");
    fill(&mut from);
    run(&mut from, MORE);
    let records = export(&mut from, "");
    let kinds = |role: &str| records.iter().filter(|record| record["role"] == role).count();
    assert_eq!((kinds("archive"), kinds("settings"), kinds("summary")), (4, 2, 6));
    assert!(records.iter().all(|record| record.get("user_id").is_none()), "records name no user");
    let ids: Vec<_> = records.iter().map(|record| import(&mut into, record)).collect();
    for (record, id) in records.iter().zip(&ids) {
        let expected = record["id"].as_str().map(str::to_owned);
        assert_eq!(id.map(|id| id.to_string()), expected, "{record}");
    }
    assert_same(entries(&mut into), entries(&mut from));
    let told = chunks(&mut from);
    assert!(told.iter().any(|chunk| chunk["state"] == "inactive"));
    assert_same(chunks(&mut into), told);
    for table in ["session_summaries", "archives"] {
        assert_eq!(rows(&mut into, table), rows(&mut from, table), "{table}");
    }
    assert_eq!(settings(&mut into), settings(&mut from));
    assert_eq!(episodes(&mut into), episodes(&mut from));
    assert_eq!(but_arrivals(export(&mut into, "")), but_arrivals(records.clone()));
    let documents = "SELECT jsonb_agg(to_jsonb(d) ORDER BY d.id) FROM memory_list_documents() d";
    assert_eq!(
        value::<Value>(&mut into, documents, &[]),
        value::<Value>(&mut from, documents, &[])
    );
    // Again, nothing changes.
    let before = ["entries", "history", "traces"].map(|table| rows(&mut into, table));
    let again: Vec<_> = records.iter().map(|record| import(&mut into, record)).collect();
    assert_eq!(again, ids);
    assert_eq!(["entries", "history", "traces"].map(|table| rows(&mut into, table)), before);
}

#[test]
fn one_agent_or_another_user() {
    let (_, mut from) = database("json_agents_from");
    let (_, mut into) = database("json_agents_into");
    fill(&mut from);
    run(&mut from, MORE);
    let all = export(&mut from, "");
    let agent_of = |record: &Value| match record["role"] == "history" {
        true => record["body"]["agent_id"].clone(),
        false => record["agent_id"].clone(),
    };
    let of = |agent: &str| all.iter().filter(|record| agent_of(record) == agent).count();
    for agent in ["default", "other"] {
        let some = export(&mut from, &format!("agent_id => '{agent}'"));
        assert_eq!(some.len(), of(agent));
        assert!(some.iter().all(|record| agent_of(record) == agent));
    }
    assert_eq!(of("default") + of("other"), all.len());
    assert_eq!(export(&mut from, "'bob'"), Vec::<Value>::new());
    for record in &all {
        into.query("SELECT memory_import_json($1, 'bob')", &[record]).expect("an import");
    }
    assert_eq!(but_arrivals(export(&mut into, "'bob'")), but_arrivals(all));
    assert_eq!(export(&mut into, "'alice'"), Vec::<Value>::new());
}

/// An admin has limited her; that her memory comes back whole does not depend on it.
#[test]
fn limits_of_admins_do_not_keep_a_user_from_importing() {
    let (database, mut admin) = database("json_limits");
    run(
        &mut admin,
        "CREATE ROLE json_importer LOGIN; SELECT memory_grant('json_importer', 'user'); \
         SELECT memory_add('Ada lives in Rome.', infer => false); \
         SELECT memory_configure(settings => '{\"max_entries\": 1000, \"default_ttl\": \"30 d\", \"default_top_k\": 7}')",
    );
    let records = export(&mut admin, "");
    run(&mut admin, "SELECT memory_erase('alice')");

    let (send, notices) = std::sync::mpsc::channel();
    let mut config = shared_without_worker().config(database.name());
    config.user("json_importer").notice_callback(move |notice| {
        let _ = send.send(notice.message().to_owned());
    });
    let mut user = config.connect(postgres::NoTls).expect("a session");
    run(&mut user, "SET memory_agent.user_id = 'alice'");
    for record in &records {
        import(&mut user, record);
    }
    let stored: Value =
        value(&mut admin, "SELECT settings FROM memory_agent.agents WHERE user_id = 'alice'", &[]);
    assert_eq!(stored, json!({"default_top_k": 7}));
    let told: Vec<String> = notices.try_iter().collect();
    let names = "settings that only admins may store are left out: default_ttl, max_entries";
    assert_eq!(told, [names]);
    let kept = |mut records: Vec<Value>| {
        records.retain(|record| record["role"] != "history");
        records
    };
    assert_eq!(kept(export(&mut user, "")).len(), kept(records).len());
}

/// What an agent may store since does not keep out what it stored before: imports are checked by the server's limit.
#[test]
fn what_was_stored_before_an_agent_was_limited_comes_back() {
    const LIMIT: &str = "SELECT memory_configure(settings => '{\"max_content_bytes\": 1024}')";
    let (_, mut from) = database("json_cap_from");
    let long = "Ada walks the dog. ".repeat(100);
    from.execute("SELECT memory_ingest('s', 'user', $1)", &[&long]).unwrap();
    from.execute("SELECT memory_add_document($1, 'Walks')", &[&long]).unwrap();
    run(&mut from, LIMIT);
    expect_error(from.query("SELECT memory_ingest('s', 'user', $1)", &[&long]), "22023");
    let records = export(&mut from, "");

    let (_, mut into) = database("json_cap_into");
    run(&mut into, LIMIT);
    // The second time, everything is there.
    for _ in 0..2 {
        for record in &records {
            import(&mut into, record);
        }
    }
    assert_eq!(entries(&mut into).len(), entries(&mut from).len());
    assert_eq!(export(&mut into, "").len(), records.len());
}

#[test]
fn a_text_that_was_changed_is_an_update() {
    let (_, mut client) = database("json_changed");
    run(&mut client, "SELECT memory_add('Ada lives in Rome.', 's', infer => false)");
    let mut record = export(&mut client, "").swap_remove(0);
    record["content"] = json!("Ada lives in Oslo.");
    let id = import(&mut client, &record).expect("a new version");
    assert_ne!(record["id"], id.to_string());
    assert_eq!(import(&mut client, &record), Some(id));
}

#[test]
fn what_is_wrong_is_refused() {
    let (_, mut client) = database("json_wrong");
    run(&mut client, "SELECT memory_add_document('A page.')");
    let document = export(&mut client, "").swap_remove(0);
    assert_eq!(document["role"], "archive");
    let other = |key: &str, value: Value| {
        let mut other = document.clone();
        other[key] = value;
        other
    };
    run(&mut client, "SELECT memory_ingest('c', 'user', 'Hello.'); SELECT memory_archive('c')");
    let archives = export(&mut client, "").into_iter();
    let mut conversation =
        archives.into_iter().find(|r| r["doc_type"] == "conversation").expect("one");
    conversation["content"] = json!("Another.");
    let new = || json!("0199c3a5-0000-7000-8000-000000000001");
    let mut twin = other("id", new());
    twin["session_id"] = json!("s");
    for (record, code, named) in [
        (json!([]), "22023", "JSON object"),
        (json!({"role": "user"}), "22023", "content"),
        (json!({"role": "user", "content": "x", "memory_agent": 2}), "22023", "version 2"),
        (json!({"role": "settings", "settings": {"nothing": 1}}), "22023", "nothing"),
        (json!({"role": "settings", "session_id": "", "settings": {}}), "22023", "session_id"),
        (other("content", json!("Another page.")), "23505", "another content"),
        (conversation, "23505", "another content"),
        (other("id", new()), "23505", "another id"),
        (other("id", json!("x")), "22023", "uuid"),
        (other("content", json!("")), "22023", "content"),
        (other("title", json!("x".repeat(1_001))), "22023", "title"),
        (other("doc_type", json!(" ")), "22023", "doc_type"),
        (other("doc_type", json!("conversation")), "22023", "session"),
        (other("metadata", json!([])), "22023", "metadata"),
        (other("updated_at", json!("infinity")), "22023", "finite"),
        (other("more", json!(1)), "22023", "more"),
    ] {
        let before = rows(&mut client, "entries");
        let result = client.query("SELECT memory_import_json($1)", &[&record]);
        let message = expect_error(result, code);
        assert!(message.contains(named), "{record}: {message}");
        assert_eq!(rows(&mut client, "entries"), before);
    }
    expect_error(client.query("SELECT memory_import_json(NULL)", &[]), "22023");
    // In a session of its own a document may say the same.
    import(&mut client, &twin);
}
