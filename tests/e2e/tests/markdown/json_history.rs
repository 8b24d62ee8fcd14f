//! What happened to a user's memory, as JSON, out of one database and into another.

use crate::json::{but_arrivals, export, import};
use crate::{database, rows};
use memory_agent_e2e::Client;
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{expect_error, shared_without_worker};
use serde_json::{Value, json};

/// What can happen to a memory; and a reflection.
const EVENTS: &str = "
    SELECT memory_ingest('trip', 'user', 'The ferry leaves at nine.');
    SELECT memory_update(id, 'The ferry leaves at ten.') FROM memory_load('trip');
    SELECT memory_add('Ada lives in Paris.', 'trip', infer => false, fact_key => 'home');
    SELECT memory_add('Ada lives in Rome.', 'trip', infer => false, fact_key => 'home');
    SELECT memory_add('Ada has a cat.', infer => false);
    SELECT memory_update(id, 'Ada has a dog.') FROM memory_entries WHERE content LIKE '%cat%';
    SELECT memory_add('Ada likes tea.', infer => false, agent_id => 'other');
    SELECT memory_forget(id, 'asked to') FROM memory_entries WHERE content LIKE '%tea%';
    SELECT memory_restore(id) FROM memory_agent.entries WHERE content LIKE '%tea%';
    SELECT memory_add('Ada was ill.', infer => false);
    SELECT memory_erase(id => id, reason => 'ticket 7') FROM memory_entries WHERE content LIKE '%ill%';
    INSERT INTO memory_agent.traces (id, user_id, agent_id, session_id, episode_id, job_id, at, body)
    VALUES ('0199c3a5-0000-7000-8000-000000000007', 'alice', 'default', 'trip', gen_random_uuid(),
            gen_random_uuid(), '2026-01-31T10:00:00.5Z', '{\"mode\": \"llm\", \"n\": 1.10}')";

/// What memory_history tells of every memory that there is or was, without the arrival by an import.
fn told(client: &mut Client, columns: &str) -> Value {
    let sql = format!(
        "SELECT jsonb_agg(to_jsonb(t) ORDER BY t::text) FROM ( \
            SELECT i.id, {columns} \
              FROM (SELECT id FROM memory_agent.entries UNION SELECT entry_id FROM memory_agent.history \
                     WHERE entry_id IS NOT NULL) i(id), memory_history(i.id) h \
             WHERE h.op <> 'import') t"
    );
    value(client, &sql, &[])
}

#[test]
fn history_and_traces_come_back() {
    let (_, mut from) = database("json_history_from");
    let (_, mut into) = database("json_history_into");
    run(&mut from, EVENTS);
    let records = export(&mut from, "");
    let of = |role: &str| records.iter().filter(|record| record["role"] == role).count();
    let events: i64 = value(&mut from, "SELECT count(*) FROM memory_agent.history", &[]);
    assert_eq!((of("history") as i64, of("trace")), (events, 1));
    for record in &records {
        let id = import(&mut into, record).map(|id| id.to_string());
        assert_eq!(id.as_deref(), record["id"].as_str());
    }
    let columns = "h.at, h.op, h.reason, h.content, h.entry, h.job_id";
    // Of what the import did itself, there are only arrivals.
    assert_eq!(told(&mut into, columns), told(&mut from, columns));
    let mut traces = rows(&mut into, "traces");
    let by = traces[0]["body"].as_object_mut().and_then(|body| body.remove("imported"));
    assert_eq!(by, Some(json!({"by": "postgres"})));
    assert_eq!(traces, rows(&mut from, "traces"));
    assert_eq!(but_arrivals(export(&mut into, "")), but_arrivals(records));
    let actor: String = value(
        &mut into,
        "SELECT DISTINCT h.actor FROM memory_entries e, memory_history(e.id) h \
          WHERE h.op = 'update' AND e.content LIKE '%dog%'",
        &[],
    );
    assert_eq!(actor, "postgres (imported by postgres)");
}

/// What is a version of what is known from history alone: for memory_update of a fact.
#[test]
fn versions_are_known_where_history_came_along() {
    let (_, mut from) = database("json_versions_from");
    let (_, mut into) = database("json_versions_into");
    let (_, mut last) = database("json_versions_last");
    run(&mut from, EVENTS);
    for record in &export(&mut from, "") {
        import(&mut into, record);
    }
    for record in &export(&mut into, "") {
        import(&mut last, record);
    }
    let restore =
        "SELECT memory_restore(id) FROM memory_agent.entries WHERE content = 'Ada has a cat.'";
    for client in [&mut from, &mut into, &mut last] {
        expect_error(client.query(restore, &[]), "55000");
        // The text before the change goes too, and what history keeps of both.
        run(
            client,
            "SELECT memory_erase(id => id) FROM memory_entries WHERE content = 'Ada has a dog.'",
        );
        let left: i64 = value(
            client,
            "SELECT (SELECT count(*) FROM memory_agent.entries WHERE content LIKE 'Ada has a %') \
                  + (SELECT count(*) FROM memory_agent.history WHERE body::text LIKE '%Ada has a %')",
            &[],
        );
        assert_eq!(left, 0);
    }
}

/// Abbreviations of time zones, which some styles of dates write, mean other zones, or none, when they are read.
#[test]
fn times_do_not_depend_on_how_dates_are_written() {
    let (_, mut from) = database("json_styles_from");
    let (_, mut into) = database("json_styles_into");
    run(&mut from, EVENTS);
    let records = export(&mut from, "");
    for record in &records {
        import(&mut into, record);
    }
    let expected = told(&mut into, "extract(epoch FROM h.at)");
    for zone in ["Asia/Shanghai", "Asia/Jakarta"] {
        for client in [&mut from, &mut into] {
            run(client, &format!("SET DateStyle = 'German'; SET TimeZone = '{zone}'"));
        }
        assert_eq!(export(&mut from, ""), records);
        assert_eq!(told(&mut into, "extract(epoch FROM h.at)"), expected);
        expect_error(
            into.query("SELECT memory_restore(id) FROM memory_agent.entries WHERE content = 'Ada has a cat.'", &[]),
            "55000",
        );
    }
}

/// A reader sees the history of a memory by its id, and no traces.
#[test]
fn readers_export_memories_only() {
    let (database, mut owner) = database("json_reader");
    run(&mut owner, "CREATE ROLE json_reader LOGIN; SELECT memory_grant('json_reader', 'reader')");
    run(&mut owner, EVENTS);
    let mut reader = shared_without_worker()
        .config(database.name())
        .user("json_reader")
        .connect(postgres::NoTls)
        .expect("a session");
    run(&mut reader, "SET memory_agent.user_id = 'alice'");
    let mut all = export(&mut owner, "");
    all.retain(|record| record["role"] != "history" && record["role"] != "trace");
    assert_eq!(export(&mut reader, ""), all);
}

/// A session and a user take along what an import told of them, though nothing else is left of it.
#[test]
fn imported_events_are_erased() {
    let (_, mut from) = database("json_erased_from");
    let (_, mut into) = database("json_erased_into");
    run(&mut from, EVENTS);
    let records = export(&mut from, "");
    let quoting = |client: &mut Client, text: &str| -> i64 {
        value(
            client,
            "SELECT count(*) FROM memory_agent.history WHERE body::text LIKE '%' || $1 || '%'",
            &[&text],
        )
    };
    for record in records.iter().filter(|record| record["role"] == "history") {
        import(&mut into, record);
    }
    assert!(quoting(&mut into, "The ferry") > 0 && quoting(&mut into, "tea") > 0);
    run(&mut into, "SELECT memory_erase(session_id => 'trip')");
    assert_eq!((quoting(&mut into, "The ferry"), quoting(&mut into, "Rome")), (0, 0));
    assert!(quoting(&mut into, "tea") > 0);
    run(&mut into, "SELECT memory_erase(user_id => 'alice')");
    assert_eq!(quoting(&mut into, "tea"), 0);
    let state: String = value(&mut into, "SELECT state FROM memory_verify_history() LIMIT 1", &[]);
    assert_eq!(state, "intact");
}

/// An import is no way to write history: the row says who told of the event, and when.
#[test]
fn an_imported_event_does_not_pass_for_one_that_happened_here() {
    let (database, mut admin) = database("json_forged");
    run(
        &mut admin,
        "CREATE ROLE json_forger LOGIN; SELECT memory_grant('json_forger', 'user'); \
         SET memory_agent.user_id = 'alice'; SELECT memory_add('Ada lives in Rome.', infer => false)",
    );
    let fact: uuid::Uuid = value(&mut admin, "SELECT id FROM memory_entries", &[]);
    let forged = json!({
        "id": "0199c3a5-0000-7000-8000-000000000001", "role": "history", "entry_id": fact.to_string(),
        "op": "delete", "at": "2020-01-01T00:00:00Z", "actor": "postgres", "reason": "by order",
        "body": {"content": "Ada lives in Oslo.", "imported": {"actor": "root"}}, "memory_agent": 1,
    });
    let mut forger = shared_without_worker()
        .config(database.name())
        .user("json_forger")
        .connect(postgres::NoTls)
        .expect("a session");
    run(&mut forger, "SET memory_agent.user_id = 'alice'");
    import(&mut forger, &forged);
    let row: Value = value(
        &mut admin,
        "SELECT to_jsonb(h) || jsonb_build_object('is_new', h.at > now() - interval '1 hour') \
           FROM memory_agent.history h WHERE h.op = 'imported'",
        &[],
    );
    assert_eq!((&row["actor"], &row["is_new"]), (&json!("json_forger"), &json!(true)));
    assert_eq!(row["body"]["imported"]["actor"], "postgres");
    let told: Value = value(
        &mut forger,
        "SELECT to_jsonb(h) - 'seq' FROM memory_history($1) h WHERE h.op = 'delete'",
        &[&fact],
    );
    assert_eq!(told["actor"], "postgres (imported by json_forger)");
    assert_eq!(told["entry"], json!({"content": "Ada lives in Oslo."}));
    assert_eq!(told["reason"], "by order");
    // What it says of jobs takes the text of no other row along, and it hides nothing of a turn's own row.
    let job = "0199c3a5-0000-7000-8000-00000000000a";
    run(
        &mut admin,
        &format!(
            "INSERT INTO memory_agent.history (id, user_id, entry_id, op, body, salt, commitment, job_id) \
             VALUES (gen_random_uuid(), 'alice', '{fact}', 'add', '{{\"content\": \"By a job.\"}}', 's', 'c', '{job}')"
        ),
    );
    let mut of_job = forged.clone();
    of_job["id"] = json!("0199c3a5-0000-7000-8000-00000000000b");
    of_job["entry_id"] = json!("0199c3a5-0000-7000-8000-00000000000c");
    of_job["job_id"] = json!(job);
    import(&mut forger, &of_job);
    run(&mut forger, "SELECT memory_erase(id => '0199c3a5-0000-7000-8000-00000000000c')");
    let kept = "SELECT body IS NOT NULL FROM memory_agent.history WHERE job_id = $1::text::uuid \
                 ORDER BY op = 'imported'";
    assert_eq!(values::<bool>(&mut admin, kept, &[&job]), [true, false]);
    let turn: uuid::Uuid =
        value(&mut forger, "SELECT memory_ingest('s', 'user', 'I live in Rome.')", &[]);
    let mut of_turn = forged.clone();
    of_turn["id"] = json!("0199c3a5-0000-7000-8000-00000000000d");
    (of_turn["entry_id"], of_turn["op"]) = (json!(turn.to_string()), json!("add"));
    import(&mut forger, &of_turn);
    let ingest = "SELECT content FROM memory_history($1) WHERE op = 'ingest'";
    assert_eq!(values::<String>(&mut forger, ingest, &[&turn]), ["I live in Rome."]);
    // The fact itself is untouched.
    let state: String =
        value(&mut admin, "SELECT state FROM memory_agent.entries WHERE id = $1", &[&fact]);
    assert_eq!(state, "active");

    let other = |key: &str, value: Value| {
        let mut other = forged.clone();
        other[key] = value;
        other["id"] = if key == "id" {
            other["id"].clone()
        } else {
            json!("0199c3a5-0000-7000-8000-000000000002")
        };
        other
    };
    let trace = json!({"role": "trace", "id": "0199c3a5-0000-7000-8000-000000000003", "session_id": "s",
                       "at": "2020-01-01T00:00:00Z", "body": {}, "memory_agent": 1});
    let other_trace = |key: &str, value: Value| {
        let mut other = trace.clone();
        other[key] = value;
        other
    };
    let before = rows(&mut admin, "history");
    for (record, named) in [
        (other("op", json!("")), "op"),
        (other("op", json!("Delete it")), "op"),
        (other("op", json!("a".repeat(64))), "op"),
        (other("actor", json!("a".repeat(64))), "actor"),
        (other("body", json!([1])), "body"),
        (other("at", json!("infinity")), "finite"),
        (other("at", Value::Null), "at"),
        (other("id", Value::Null), "id"),
        (other("entry_id", json!("x")), "uuid"),
        (other("seq", json!(7)), "seq"),
        (json!({"role": "episode", "session_id": "s", "status": "over"}), "status"),
        (json!({"role": "episode", "session_id": "s", "status": "closed"}), "id"),
        (json!({"role": "episode", "session_id": "", "status": "closed"}), "session_id"),
        (
            json!({"role": "episode", "session_id": "s", "status": "closed", "close_reason": "x".repeat(201)}),
            "close_reason",
        ),
        (other_trace("session_id", json!("")), "session_id"),
        (other_trace("body", Value::Null), "body"),
        (other_trace("body", json!("x")), "body"),
        (other_trace("at", json!("-infinity")), "finite"),
        (other_trace("id", Value::Null), "id"),
    ] {
        let result = forger.query("SELECT memory_import_json($1)", &[&record]);
        let message = expect_error(result, "22023");
        assert!(message.contains(named), "{record}: {message}");
    }
    assert_eq!(rows(&mut admin, "history"), before);
    assert_eq!(rows(&mut admin, "traces"), Vec::<Value>::new());
}
