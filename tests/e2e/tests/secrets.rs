//! Secrets in what is stored: taken out on every way into memory, refused, or kept.

use memory_agent_e2e::llm::{LlmStub, ScriptedModel};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{
    Client, Cluster, Json, Uuid, expect_error, shared_without_worker, wait_until,
};
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(90);
const CARD: &str = "4111 1111 1111 1111";
/// What is left of the secrets of the tests, if any is.
const LEFT: [&str; 4] = ["q7Rt2Yx9", "4111 1111", "Q7RT2YX9", "hunter2"];

/// A key as a provider makes them.
fn key() -> String {
    format!("sk-proj-{}", "q7Rt2Yx9Lm4Kp8Zs1Wd6".repeat(2))
}

fn aws() -> String {
    format!("AKIA{}", "Q7RT2YX9LM4KP8ZS")
}

/// The tables in which a secret is left.
fn leaks(client: &mut Client) -> Vec<String> {
    let tables: Vec<String> = values(
        client,
        "SELECT relname::text FROM pg_class WHERE relnamespace = 'memory_agent'::regnamespace AND relkind = 'r'",
        &[],
    );
    let secrets: Vec<String> = LEFT.iter().map(|left| format!("%{left}%")).collect();
    let has_one = |table: &String| -> bool {
        let sql = format!(
            "SELECT EXISTS (SELECT FROM memory_agent.{table} t WHERE t::text LIKE ANY ($1))"
        );
        value(client, &sql, &[&secrets])
    };
    tables.into_iter().filter(has_one).collect()
}

/// Content and counts of the entry with an id.
fn stored(client: &mut Client, id: Uuid) -> (String, Json) {
    let sql = "SELECT content, coalesce(metadata -> 'redacted', 'null') FROM memory_agent.entries WHERE id = $1";
    let row = client.query_one(sql, &[&id]).expect("an entry");
    (row.get(0), row.get(1))
}

fn configure(client: &mut Client, settings: &Json) {
    client
        .execute("SELECT memory_configure(settings => $1)", &[settings])
        .expect("settings that a superuser may store");
}

#[test]
fn a_secret_is_taken_out_on_every_way_in() {
    let mut client = shared_without_worker().database("secrets_ways").connect();
    let (key, aws) = (key(), aws());
    let text = format!("My key is {key}, my card {CARD}.");
    let expected = (
        "My key is [redacted: api key], my card [redacted: card].".to_owned(),
        json!({"api key": 1, "card": 1}),
    );
    let metadata = json!({"n": 1.5, "from": ["mail", format!("at {aws}")]});
    let with_metadata = json!({"n": 1.5, "from": ["mail", "at [redacted: aws key]"],
                               "redacted": {"api key": 1, "aws key": 1, "card": 1}});

    let ingest = "SELECT memory_ingest('s', 'user', $1)";
    let id: Uuid = value(&mut client, ingest, &[&text]);
    assert_eq!(stored(&mut client, id), expected);
    let ingest = "SELECT memory_ingest('s', 'tool', $1, metadata => $2)";
    let id: Uuid = value(&mut client, ingest, &[&text, &metadata]);
    let found: Json =
        value(&mut client, "SELECT metadata FROM memory_agent.entries WHERE id = $1", &[&id]);
    assert_eq!(found, with_metadata);
    let turns =
        json!([{"role": "user", "content": "Nothing."}, {"role": "user", "content": &text}]);
    let ids: Vec<Uuid> =
        values(&mut client, "SELECT * FROM memory_ingest_batch($1, 'b')", &[&turns]);
    assert_eq!(stored(&mut client, ids[0]), ("Nothing.".to_owned(), Json::Null));
    assert_eq!(stored(&mut client, ids[1]), expected);
    let once = "SELECT id FROM memory_ingest_once('o', 'user', $1, 'request')";
    let id: Uuid = value(&mut client, once, &[&text]);
    assert_eq!(stored(&mut client, id), expected);
    let fact: Uuid = value(&mut client, "SELECT memory_add($1, infer => false)", &[&text]);
    assert_eq!(stored(&mut client, fact), expected);

    // Each text has its own counts.
    let update = "SELECT memory_update($1, $2)";
    let fact: Uuid = value(&mut client, update, &[&fact, &format!("The key is {aws} now.")]);
    let of_aws = ("The key is [redacted: aws key] now.".to_owned(), json!({"aws key": 1}));
    assert_eq!(stored(&mut client, fact), of_aws);
    let fact: Uuid = value(&mut client, update, &[&fact, &"There is no key."]);
    assert_eq!(stored(&mut client, fact), ("There is no key.".to_owned(), Json::Null));

    let add = "SELECT memory_add_document($1, $2, metadata => $3)";
    let title = format!("About {key}");
    let document: Uuid = value(&mut client, add, &[&text, &title, &metadata]);
    let whole = "SELECT jsonb_build_array(title, content, metadata) FROM memory_agent.archives WHERE id = $1";
    let found: Json = value(&mut client, whole, &[&document]);
    assert_eq!(found, json!(["About [redacted: api key]", &expected.0, &with_metadata]));
    let _: Uuid = value(&mut client, update, &[&document, &format!("Only {aws}.")]);
    let found: Json = value(&mut client, whole, &[&document]);
    assert_eq!(found[1], "Only [redacted: aws key].");
    assert_eq!(found[2]["redacted"], json!({"aws key": 1}));

    // What comes from another program.
    let record = json!({"id": "01934f6e-7a51-7c3a-9f0e-2f8c1f6f1c55", "role": "user", "kind": "turn",
                        "conversation_id": "j", "content": &text, "metadata": &metadata});
    let id: Uuid = value(&mut client, "SELECT memory_import_json($1)", &[&record]);
    assert_eq!(stored(&mut client, id), (expected.0.clone(), with_metadata["redacted"].clone()));
    let again: Uuid = value(&mut client, "SELECT memory_import_json($1)", &[&record]);
    assert_eq!(again, id);
    let file = format!(
        "---\nid: \"01934f6e-7a51-7c3a-9f0e-2f8c1f6f1c66\"\nrole: user\nconversation_id: m\n---\n\n{text}\n"
    );
    let import = "SELECT memory_import_markdown('entries/m/turns/user/a.md', $1)";
    let id: Uuid = value(&mut client, import, &[&file]);
    assert_eq!(stored(&mut client, id), expected);

    assert_eq!(leaks(&mut client), [""; 0]);
}

#[test]
fn what_says_the_same_is_the_same() {
    let mut client = shared_without_worker().database("secrets_same").connect();
    let text = format!("My card is {CARD}.");
    let once = "SELECT id, is_new FROM memory_ingest_once('s', 'user', $1)";
    let row = |client: &mut Client| -> (Uuid, bool) {
        let row = client.query_one(once, &[&text]).unwrap();
        (row.get(0), row.get(1))
    };
    let (first, is_new) = row(&mut client);
    assert!(is_new);
    assert_eq!(row(&mut client), (first, false));
    // So is a request, whatever its key looks like.
    let with_key = "SELECT id, is_new FROM memory_ingest_once('k', 'assistant', 'Yes.', $1)";
    let keys = [key(), key().replace('q', "w")];
    let of_keys: Vec<(Uuid, bool)> = [&keys[0], &keys[1], &keys[0]]
        .iter()
        .map(|key| {
            let row = client.query_one(with_key, &[key]).unwrap();
            (row.get(0), row.get(1))
        })
        .collect();
    assert_eq!([of_keys[0].1, of_keys[1].1, of_keys[2].1], [true, true, false]);
    assert_eq!(of_keys[2].0, of_keys[0].0);
    let add = "SELECT memory_add($1, infer => false)";
    let fact: Uuid = value(&mut client, add, &[&text]);
    assert_eq!(value::<Uuid>(&mut client, add, &[&text]), fact);
    assert_eq!(value::<Uuid>(&mut client, "SELECT memory_update($1, $2)", &[&fact, &text]), fact);
    let document = "SELECT memory_add_document($1)";
    let id: Uuid = value(&mut client, document, &[&text]);
    assert_eq!(value::<Uuid>(&mut client, document, &[&text]), id);
    assert_eq!(value::<Uuid>(&mut client, "SELECT memory_update($1, $2)", &[&id, &text]), id);
    // The message is the turn that was just stored, so it is told once, and is no memory of itself.
    let context: Json = value(&mut client, "SELECT memory_context('s', $1)", &[&text]);
    let messages = context["messages"].as_array().unwrap();
    let told = messages.iter().filter(|message| message["role"] == "user").count();
    assert_eq!(told, 1, "{context:#}");
    let messages = json!([{"role": "user", "content": &text}]);
    let augmented: Json = value(&mut client, "SELECT memory_augment($1, 's')", &[&messages]);
    assert!(!augmented["memory_hits"].to_string().contains("[redacted: card]"), "{augmented:#}");
    // The question itself is asked as it is.
    assert!(augmented["messages"].to_string().contains(CARD));
    assert_eq!(leaks(&mut client), [""; 0]);
}

#[test]
fn an_own_export_comes_back_as_it_was() {
    let mut client = shared_without_worker().database("secrets_export").connect();
    let text = format!("My card is {CARD}.");
    configure(&mut client, &json!({"secrets": "keep"}));
    let fact: Uuid = value(&mut client, "SELECT memory_add($1, infer => false)", &[&text]);
    let turn: Uuid = value(&mut client, "SELECT memory_ingest('s', 'user', $1)", &[&text]);
    assert_eq!(stored(&mut client, turn), (text.clone(), Json::Null));
    configure(&mut client, &json!({"secrets": null}));
    let records: Vec<Json> = values(&mut client, "SELECT * FROM memory_export_json()", &[]);
    let files: Vec<(String, String)> = client
        .query("SELECT path, content FROM memory_export_markdown('s')", &[])
        .unwrap()
        .iter()
        .map(|row| (row.get(0), row.get(1)))
        .collect();
    run(&mut client, "SELECT memory_erase('alice')");
    for record in &records {
        client.execute("SELECT memory_import_json($1)", &[record]).unwrap();
    }
    for id in [fact, turn] {
        assert_eq!(stored(&mut client, id), (text.clone(), Json::Null));
    }
    run(&mut client, "SELECT memory_erase('alice')");
    for (path, content) in &files {
        client.execute("SELECT memory_import_markdown($1, $2)", &[path, content]).unwrap();
    }
    assert_eq!(stored(&mut client, turn), (text.clone(), Json::Null));
    // A correction is new.
    let new: Uuid =
        value(&mut client, "SELECT memory_update($1, $2)", &[&turn, &format!("Really: {text}")]);
    assert_eq!(stored(&mut client, new).0, "Really: My card is [redacted: card].");
}

#[test]
fn refused_and_kept() {
    let mut client = shared_without_worker().database("secrets_refused").connect();
    let text = format!("My card is {CARD}.");
    configure(&mut client, &json!({"secrets": "refuse"}));
    let turns =
        json!([{"role": "user", "content": "Nothing."}, {"role": "user", "content": &text}]);
    let metadata = json!({"card": CARD});
    let record = json!({"role": "user", "kind": "turn", "conversation_id": "j", "content": &text,
                        "id": "01934f6e-7a51-7c3a-9f0e-2f8c1f6f1c55"});
    let document: Uuid = value(&mut client, "SELECT memory_add_document('Nothing.')", &[]);
    let fact: Uuid = value(&mut client, "SELECT memory_add('Nothing.', infer => false)", &[]);
    let refused = [
        client.execute("SELECT memory_ingest('s', 'user', $1)", &[&text]),
        client.execute("SELECT memory_ingest('s', 'user', 'x', metadata => $1)", &[&metadata]),
        client.execute("SELECT memory_ingest_batch($1, 's')", &[&turns]),
        client.execute("SELECT memory_ingest_once('s', 'user', $1)", &[&text]),
        client.execute("SELECT memory_add($1, infer => false)", &[&text]),
        client.execute("SELECT memory_add_document($1)", &[&text]),
        client.execute("SELECT memory_add_document('x', $1)", &[&text]),
        client.execute("SELECT memory_update($1, $2)", &[&document, &text]),
        client.execute("SELECT memory_update($1, $2)", &[&fact, &text]),
        client.execute("SELECT memory_import_json($1)", &[&record]),
    ];
    for (at, result) in refused.into_iter().enumerate() {
        let message = expect_error(result, "23514");
        assert!(message.contains("(card)") && !message.contains(CARD), "{at}: {message}");
    }
    let stored: i64 = value(
        &mut client,
        "SELECT count(*) FROM memory_agent.entries WHERE content NOT IN ('Nothing.', 'x')",
        &[],
    );
    assert_eq!(stored, 0);
    configure(&mut client, &json!({"secrets": "keep"}));
    let kept: Uuid = value(&mut client, "SELECT memory_ingest('s', 'user', $1)", &[&text]);
    assert_eq!(self::stored(&mut client, kept), (text, Json::Null));

    // Only administrators decide.
    run(&mut client, "CREATE ROLE secrets_user LOGIN; SELECT memory_grant('secrets_user')");
    let mut user = shared_without_worker().connect_as("secrets_refused", "secrets_user");
    let own = "SELECT memory_configure(settings => '{\"secrets\": \"keep\"}')";
    expect_error(user.batch_execute(own), "42501");
}

/// The setting of the server.
#[test]
fn the_server_refuses_and_keeps() {
    let cluster =
        Cluster::builder().preload(true).setting("memory_agent.secrets", "refuse").start();
    let mut client = cluster.database("secrets_server").connect();
    let ingest = "SELECT memory_ingest('s', 'user', $1)";
    expect_error(client.execute(ingest, &[&CARD]), "23514");
    cluster.alter_system("memory_agent.secrets", Some("keep"));
    let mut client = cluster.connect("secrets_server");
    let id: Uuid = value(&mut client, ingest, &[&CARD]);
    assert_eq!(stored(&mut client, id).0, CARD);
}

#[test]
fn passwords_are_taken_on_request() {
    let cluster =
        Cluster::builder().preload(true).setting("memory_agent.secret_phrases", "on").start();
    let mut client = cluster.database("secrets_phrases").connect();
    let ingest = "SELECT memory_ingest('s', 'user', 'The password is hunter2.')";
    let id: Uuid = value(&mut client, ingest, &[]);
    let expected = ("The password is [redacted: password].".to_owned(), json!({"password": 1}));
    assert_eq!(stored(&mut client, id), expected);
    assert_eq!(leaks(&mut client), [""; 0]);
    configure(&mut client, &json!({"secret_phrases": false}));
    let id: Uuid = value(&mut client, ingest, &[]);
    assert_eq!(stored(&mut client, id).0, "The password is hunter2.");
}

#[test]
fn rows_of_attached_tables() {
    let database = shared_without_worker().database("secrets_attached");
    let mut client = database.connect();
    run(
        &mut client,
        "CREATE TABLE notes (id bigint PRIMARY KEY, body text, tags text[], views int DEFAULT 0); \
         SELECT memory_attach('notes', 'body', metadata_columns => '{tags}', backfill => false)",
    );
    let (text, tags) = (format!("My card is {CARD}."), vec!["zz".to_owned(), key()]);
    let insert = "INSERT INTO notes VALUES ($1, $2, $3)";
    client.execute(insert, &[&1i64, &text, &tags]).unwrap();
    let entries = "SELECT string_agg(concat_ws(' / ', state, content, metadata), E'\\n' ORDER BY created_at, id) \
                     FROM memory_agent.entries WHERE source_key IS NOT NULL";
    let expected = "active / My card is [redacted: card]. / \
                    {\"tags\": [\"zz\", \"[redacted: api key]\"], \"redacted\": {\"card\": 1, \"api key\": 1}}";
    assert_eq!(value::<String>(&mut client, entries, &[]), expected);
    // The row is the same as before, and so is its memory.
    run(&mut client, "UPDATE notes SET views = 1; UPDATE notes SET body = body, tags = tags");
    assert_eq!(value::<String>(&mut client, entries, &[]), expected);
    assert_eq!(leaks(&mut client), [""; 0]);

    let warnings = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&warnings);
    let mut client = shared_without_worker()
        .config("secrets_attached")
        .notice_callback(move |notice| seen.lock().unwrap().push(notice.message().to_owned()))
        .connect(postgres::NoTls)
        .unwrap();
    run(
        &mut client,
        "SELECT memory_configure(settings => '{\"secrets\": \"refuse\"}', user_id => '*')",
    );
    client.execute(insert, &[&2i64, &text, &Vec::<String>::new()]).unwrap();
    client.execute(insert, &[&3i64, &"Nothing.", &tags]).unwrap();
    client.execute(insert, &[&4i64, &"Nothing.", &Vec::<String>::new()]).unwrap();
    let kept: i64 = value(
        &mut client,
        "SELECT count(*) FROM memory_agent.entries WHERE source_key IS NOT NULL AND state = 'active'",
        &[],
    );
    assert_eq!(kept, 2, "the first row and the last");
    let dead: Vec<String> = values(
        &mut client,
        "SELECT last_error FROM memory_agent.jobs WHERE status = 'dead' ORDER BY id",
        &[],
    );
    assert_eq!(dead.len(), 2, "{dead:?}");
    assert!(dead[0].contains("(card)") && dead[1].contains("(api key)"), "{dead:?}");
    let warnings = warnings.lock().unwrap();
    assert_eq!(
        warnings.iter().filter(|warning| warning.contains("secret")).count(),
        2,
        "{warnings:?}"
    );
    drop(warnings);
    assert_eq!(leaks(&mut client), [""; 0]);
}

/// A turn of an older version still has its secret; the facts that are made of it do not.
#[test]
fn facts_of_the_llm() {
    let key = key();
    let said = format!("The key of the shop is {key}.");
    let fact = format!("The key of the user's shop is {key}.");
    let stub = LlmStub::start(ScriptedModel::new().knows(&said, "key", &key, &fact));
    let cluster = Cluster::builder()
        .preload(true)
        .setting("memory_agent.llm_base_url", stub.base_url())
        .setting("memory_agent.llm_model", "stub-1")
        .setting("memory_agent.sweep_interval", "1s")
        .start();
    let mut client = cluster.database("secrets_facts").connect();
    let keep = |client: &mut Client, what: Json| configure(client, &json!({ "secrets": what }));
    for _ in 0..2 {
        // The turn is there with its secret before a worker looks for it.
        run(&mut client, "BEGIN");
        keep(&mut client, json!("keep"));
        run(&mut client, &format!("SELECT memory_ingest('s', 'user', '{said}')"));
        keep(&mut client, Json::Null);
        run(&mut client, "COMMIT");
        wait_until(PATIENCE, "the turn to be extracted", || {
            let waits = "SELECT count(*) FROM memory_agent.entries WHERE kind = 'turn' AND extracted_at IS NULL";
            value::<i64>(&mut client, waits, &[]) == 0
        });
    }
    let facts: Vec<Json> = values(
        &mut client,
        "SELECT jsonb_build_array(content, metadata -> 'redacted', embedding IS NOT NULL, cardinality(source_ids)) \
           FROM memory_agent.entries WHERE kind = 'fact'",
        &[],
    );
    let expected = "The key of the user's shop is [redacted: api key].";
    assert_eq!(facts, [json!([expected, {"api key": 1}, true, 2])], "said twice, stored once");
}
