//! Ids of users, agents and sessions: one check, whichever way they come in. Those that an older version stored are
//! in the suite `upgrade`.

use crate::{create_roles, grant};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, Cluster, Json, expect_error, json, shared, shared_without_worker};

/// What is no id, and how the error goes on after its name.
fn bad() -> Vec<(String, &'static str)> {
    [
        ("zoe\n", "has a control character"),
        ("\u{1b}[2Jzoe", "has a control character"),
        ("zo\u{85}e", "has a control character"),
        ("zo\u{200b}e", "has an invisible character"),
        ("\u{202e}eoz", "has an invisible character"),
        (" zoe", "begins or ends with a blank"),
        ("zoe\u{a0}", "begins or ends with a blank"),
        ("\u{3000}", "is empty or blank"),
    ]
    .map(|(id, problem)| (id.to_owned(), problem))
    .to_vec()
}

/// A text as SQL writes it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn rows(client: &mut Client) -> i64 {
    ["sessions", "entries", "agents", "archives", "episodes", "traces", "tokens", "endpoint_uses"]
        .iter()
        .map(|table| {
            value::<i64>(client, &format!("SELECT count(*) FROM memory_agent.{table}"), &[])
        })
        .sum()
}

/// Exports and erasures take what older versions stored.
const KEPT: [&str; 3] = ["memory_erase", "memory_export_json", "memory_export_markdown"];

/// Each function with an id among its arguments: its name, the id's, and a call with `{}` for the id.
fn calls(client: &mut Client) -> Vec<(String, String, String)> {
    let query = "SELECT json_build_array(p.proname, p.pronargs - p.pronargdefaults, p.proargnames[1:p.pronargs], \
                        ARRAY(SELECT format_type(t.oid, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY t(oid, n) \
                               ORDER BY n)) \
                   FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid \
                   JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'memory_agent' \
                  WHERE d.deptype = 'e' AND p.proargnames && '{user_id,agent_id,session_id}' ORDER BY 1::text";
    let mut calls = Vec::new();
    for row in values::<Json>(client, query, &[]) {
        let name = row[0].as_str().unwrap();
        let required = row[1].as_u64().unwrap() as usize;
        let texts = |list: &Json| -> Vec<String> {
            let list = list.as_array().unwrap();
            list.iter().map(|text| text.as_str().unwrap().to_owned()).collect()
        };
        let arguments: Vec<(String, String)> =
            texts(&row[2]).into_iter().zip(texts(&row[3])).collect();
        for (id, _) in &arguments {
            if !["user_id", "agent_id", "session_id"].contains(&id.as_str()) {
                continue;
            }
            let given: Vec<String> = arguments
                .iter()
                .enumerate()
                .filter(|(place, (argument, _))| *place < required || argument == id)
                .map(|(_, (argument, of))| match argument.as_str() {
                    _ if argument == id => format!("\"{argument}\" => {{}}"),
                    "role" => "role => 'user'".to_owned(),
                    "turns" => r#"turns => '[{"role": "user", "content": "x"}]'"#.to_owned(),
                    "messages" => r#"messages => '[{"role": "user", "content": "x"}]'"#.to_owned(),
                    "memories" => "memories => '[]'".to_owned(),
                    "relation" => "relation => 'pg_class'::regclass".to_owned(),
                    "record" => r#"record => '{"role": "user", "content": "x"}'"#.to_owned(),
                    "content" => "content => E'---\\nrole: user\\nkind: turn\\n---\\nx'".to_owned(),
                    "timeout" => format!("timeout => '1'::{of}"),
                    "path" => "path => 'entities/default/facts/a.md'".to_owned(),
                    _ => match of.as_str() {
                        "text" => format!("\"{argument}\" => 'x'"),
                        "bigint" | "double precision" => format!("\"{argument}\" => 1"),
                        "uuid" => format!("\"{argument}\" => gen_random_uuid()"),
                        "boolean" => format!("\"{argument}\" => false"),
                        other => panic!("no argument {argument} of type {other} is known: add one"),
                    },
                })
                .collect();
            calls.push((
                name.to_owned(),
                id.clone(),
                format!("SELECT {name}({})", given.join(", ")),
            ));
        }
    }
    calls
}

#[test]
fn every_argument_is_checked() {
    // Some calls want an LLM before they look at anything.
    let cluster = Cluster::builder()
        .preload(true)
        .setting("memory_agent.worker", "off")
        .setting("memory_agent.llm_base_url", "http://127.0.0.1:9/v1")
        .setting("memory_agent.llm_model", "nobody")
        .start();
    let mut client = cluster.database("ids_arguments").connect();
    let calls = calls(&mut client);
    for (function, least) in [("memory_ingest", 3), ("memory_attach", 2), ("memory_erase", 3)] {
        let found = calls.iter().filter(|(name, ..)| name == function).count();
        assert!(found >= least, "{function}: {calls:#?}");
    }
    assert!(calls.len() > 80, "{}", calls.len());
    let mut wrong = Vec::new();
    for (function, argument, call) in &calls {
        for (id, problem) in bad() {
            let call = call.replace("{}", &quoted(&id));
            let result = client.batch_execute(&call);
            if KEPT.contains(&function.as_str()) {
                // An agent without a session is nothing that could be erased.
                if result.is_err() {
                    assert!(!expect_error(result, "22023").contains(problem), "{call}");
                }
                continue;
            }
            let error = match result {
                Ok(()) => "no error".to_owned(),
                Err(error) => error.as_db_error().map_or(error.to_string(), |error| {
                    format!("{} {}", error.code().code(), error.message())
                }),
            };
            // The id is not quoted.
            if error != format!("22023 {argument} {problem}")
                && !error.starts_with(&format!("22023 {argument} {problem}: expected"))
            {
                wrong.push(format!("{call}: {error}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(rows(&mut client), 0);
}

#[test]
fn settings_are_checked() {
    let mut client = shared_without_worker().database("ids_settings").connect();
    for setting in ["user_id", "agent_id"] {
        for (id, problem) in bad() {
            run(&mut client, &format!("SET memory_agent.{setting} = {}", quoted(&id)));
            for call in ["SELECT memory_load('s')", "SELECT memory_ingest('s', 'user', 'x')"] {
                let message = expect_error(client.batch_execute(call), "22023");
                let expected = format!("memory_agent.{setting} {problem}");
                assert!(message.contains(&expected), "{call}: {message}");
            }
        }
        run(&mut client, &format!("RESET memory_agent.{setting}"));
    }
    assert_eq!(rows(&mut client), 0);
}

/// A role may be called anything.
#[test]
fn names_of_roles_are_checked() {
    let database = shared_without_worker().database("ids_roles");
    let mut superuser = database.connect();
    for (name, problem) in bad() {
        create_roles(&mut superuser, &[&name]);
        grant(&mut superuser, &name, "user");
        let mut client = shared_without_worker().connect_as(database.name(), &name);
        for call in ["SELECT memory_load('s')", "SELECT memory_ingest('s', 'user', 'x')"] {
            let message = expect_error(client.batch_execute(call), "22023");
            assert!(message.contains(&format!("the name of the role {problem}")), "{message}");
        }
        run(&mut client, "SET memory_agent.user_id = 'ann'; SELECT memory_load('s')");
    }
    assert_eq!(rows(&mut superuser), 0);
}

/// JSON has an escape for U+0000, which no other way in has.
#[test]
fn claims_are_checked() {
    let cluster =
        Cluster::builder().preload(true).setting("memory_agent.identity", "claims").start();
    let mut client = cluster.database("db").connect();
    create_roles(&mut client, &["member"]);
    grant(&mut client, "member", "user");
    run(&mut client, "SET memory_agent.embed_on_ingest = off; SET statement_timeout = '20s'");
    let mut claim = |sub: &str, call: &str| {
        run(&mut client, "BEGIN; SET LOCAL ROLE member");
        let claims = json!({"sub": sub}).to_string();
        client.execute("SELECT set_config('request.jwt.claims', $1, true)", &[&claims]).unwrap();
        let result = client.batch_execute(call);
        run(&mut client, if result.is_ok() { "COMMIT" } else { "ROLLBACK" });
        result
    };
    let ingest = "SELECT memory_ingest('s', 'user', 'x')";
    claim("zoe", ingest).unwrap();
    let nul = ["zoe\0", "\0", "zoe\0x"].map(|id| (id.to_owned(), "has a control character"));
    for (id, problem) in bad().into_iter().chain(nul) {
        for call in [
            ingest,
            "SELECT memory_add('x', infer => false)",
            "SELECT count(*) FROM memory_entries",
            "SELECT memory_erase(session_id => 's')",
        ] {
            let message = expect_error(claim(&id, call), "22023");
            let expected = format!("sub in request.jwt.claims {problem}");
            assert!(message.contains(&expected), "{call}: {message}");
        }
    }
    let users: Vec<String> = values(&mut client, "SELECT user_id FROM memory_agent.entries", &[]);
    assert_eq!(users, ["zoe"]);
    assert_eq!(rows(&mut client), 3, "a session, its turn, its episode");
}

/// Ids within a list of turns, a record and a file.
#[test]
fn what_is_imported_is_checked() {
    let mut client = shared_without_worker().database("ids_imports").connect();
    run(&mut client, "SET memory_agent.user_id = 'ann'");
    let id = "01a21ff8-013a-73a5-9911-be77eca3013c";
    let at = "2026-01-31T10:00:00Z";
    for (bad, problem) in bad() {
        let mut documents = vec![(
            "SELECT memory_ingest_batch($1)",
            json!([{"role": "user", "content": "x", "session_id": bad}]),
            "session_id",
        )];
        for (agent, session, named) in
            [(bad.as_str(), "s", "agent_id"), ("a", bad.as_str(), "session_id")]
        {
            for mut record in [
                json!({"role": "user", "content": "x", "kind": "turn"}),
                json!({"role": "archive", "content": "x", "doc_type": "conversation", "id": id, "created_at": at}),
                json!({"role": "episode", "id": id, "status": "closed"}),
                json!({"role": "trace", "id": id, "episode_id": id, "at": at, "body": {}}),
                json!({"role": "settings", "settings": {}}),
            ] {
                record["agent_id"] = agent.into();
                let key = match record["role"].as_str() {
                    Some("user") => "conversation_id",
                    _ => "session_id",
                };
                record[key] = session.into();
                documents.push(("SELECT memory_import_json($1)", record, named));
            }
        }
        for (call, document, named) in documents {
            let message = expect_error(client.query(call, &[&document]), "22023");
            assert!(message.contains(&format!("{named} {problem}")), "{document}: {message}");
        }
        for (key, named) in [("agent_id", "agent_id"), ("conversation_id", "session_id")] {
            let text = format!("---\nrole: user\nkind: turn\n{key}: {}\n---\nx", json!(bad));
            let call = "SELECT memory_import_markdown('entities/s/turns/user/a.md', $1)";
            let message = expect_error(client.query(call, &[&text]), "22023");
            assert!(message.contains(&format!("{named} {problem}")), "{text}: {message}");
        }
    }
    assert_eq!(rows(&mut client), 0);
}

/// The application's statement goes on; memory leaves the row out, and says so.
#[test]
fn rows_of_attached_tables_are_checked() {
    let database = shared_without_worker().database("ids_attached");
    let mut client = database.connect();
    run(
        &mut client,
        "CREATE TABLE notes (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text, owner text, talk text); \
         CREATE TABLE own (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text); \
         SELECT memory_attach('notes', 'body', user_id_column => 'owner', session_id_column => 'talk', \
                              embed => 'off', backfill => false), \
                memory_attach('own', 'body', embed => 'off', backfill => false)",
    );
    let why = "SELECT last_error FROM memory_agent.jobs WHERE kind = 'attach' AND status = 'dead' \
                ORDER BY id DESC LIMIT 1";
    for (number, (id, problem)) in bad().into_iter().enumerate() {
        for (owner, talk, named) in
            [(id.as_str(), "s", "its user id"), ("ann", id.as_str(), "its session id")]
        {
            client
                .execute(
                    "INSERT INTO notes (body, owner, talk) VALUES ('x', $1, $2)",
                    &[&owner, &talk],
                )
                .unwrap();
            let said: String = value(&mut client, why, &[]);
            assert!(said.contains(&format!("{named} {problem}")), "{said}");
        }
        // A writer whose name is none, in a table without users.
        let role = format!("{id}{number}{id}");
        create_roles(&mut client, &[&role]);
        run(&mut client, &format!("GRANT INSERT ON own TO \"{role}\""));
        run(&mut database.connect_as(&role), "INSERT INTO own (body) VALUES ('x')");
        let said: String = value(&mut client, why, &[]);
        assert!(said.contains("the name of the role "), "{said}");
    }
    let stored = bad().len() as i64;
    assert_eq!(value::<i64>(&mut client, "SELECT count(*) FROM notes", &[]), 2 * stored);
    assert_eq!(rows(&mut client), 0);
    // What is corrected is taken in.
    run(&mut client, "UPDATE notes SET owner = 'ann', talk = 's' WHERE id = 1");
    assert_eq!(rows(&mut client), 1);
}

#[test]
fn a_long_id_is_refused_before_it_is_read() {
    let mut client = shared().database("ids_long").connect();
    for call in [
        "SELECT memory_ingest('s', 'user', 'x', user_id => repeat('u', 513))",
        "SELECT memory_erase(user_id => repeat('u', 513))",
        "SELECT memory_export_json(user_id => repeat('u', 513))",
    ] {
        let message = expect_error(client.batch_execute(call), "22023");
        assert!(message.contains("user_id is too long: 513 bytes"), "{message}");
    }
}
