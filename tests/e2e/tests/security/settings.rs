//! Settings that only the server's owner may change or see, and files that no role can reach through
//! the extension.

use crate::{create_roles, grant};
use memory_agent_e2e::{Client, Cluster, expect_error, shared, sqlstate};

/// Paths of the server and addresses of its endpoints, which ordinary roles must not see.
const HIDDEN: [&str; 9] = [
    "memory_agent.embedding_api_key_file",
    "memory_agent.embedding_base_url",
    "memory_agent.language_dir",
    "memory_agent.llm_api_key_file",
    "memory_agent.llm_base_url",
    "memory_agent.llm_key_dir",
    "memory_agent.model_dir",
    "memory_agent.model_server_path",
    "memory_agent.onnxruntime_path",
];

/// Names that a role could set to something it should not.
const FOR_THE_SERVER: [&str; 41] = [
    "memory_agent.archive_idle_after",
    "memory_agent.audit_key_file",
    "memory_agent.default_ttl",
    "memory_agent.embedding_api_key_file",
    "memory_agent.embedding_api_version",
    "memory_agent.embedding_base_url",
    "memory_agent.embedding_dimension",
    "memory_agent.embedding_model",
    "memory_agent.embedding_provider",
    "memory_agent.identity",
    "memory_agent.inference",
    "memory_agent.inference_threads",
    "memory_agent.job_workers",
    "memory_agent.language_dir",
    "memory_agent.llm_answer_tokens",
    "memory_agent.llm_api_key_file",
    "memory_agent.llm_api_version",
    "memory_agent.llm_base_url",
    "memory_agent.llm_calls_per_minute",
    "memory_agent.llm_concurrency",
    "memory_agent.llm_daily_tokens",
    "memory_agent.llm_key_dir",
    "memory_agent.llm_max_attempts",
    "memory_agent.llm_model",
    "memory_agent.llm_provider",
    "memory_agent.llm_timeout",
    "memory_agent.max_content_bytes",
    "memory_agent.max_entries",
    "memory_agent.max_workers",
    "memory_agent.model_dir",
    "memory_agent.model_server_path",
    "memory_agent.onnxruntime_path",
    "memory_agent.purge_after",
    "memory_agent.rerank_model",
    "memory_agent.secret_phrases",
    "memory_agent.secrets",
    "memory_agent.sweep_interval",
    "memory_agent.summary_model",
    "memory_agent.text_search_config",
    "memory_agent.trace",
    "memory_agent.worker",
];

fn admin(database: &str, role: &str) -> Client {
    let mut superuser = shared().database(database).connect();
    create_roles(&mut superuser, &[role]);
    grant(&mut superuser, role, "admin");
    shared().connect_as(database, role)
}

#[test]
fn contexts_of_settings() {
    let mut client = admin("settings_contexts", "settings_admin");
    let listed =
        "SELECT name FROM pg_settings WHERE name LIKE 'memory\\_agent.%' AND context = 'sighup'";
    let mut superuser = shared().connect("settings_contexts");
    for row in superuser.query(listed, &[]).unwrap() {
        let name: String = row.get(0);
        assert!(FOR_THE_SERVER.contains(&name.as_str()), "{name} is not in FOR_THE_SERVER");
    }
    let other = "SELECT name || ': ' || context FROM pg_settings WHERE name LIKE 'memory\\_agent.%' \
                  AND context NOT IN ('sighup', 'user')";
    assert!(superuser.query(other, &[]).unwrap().is_empty());
    for name in FOR_THE_SERVER {
        let value: String = superuser
            .query_one("SELECT setting FROM pg_settings WHERE name = $1", &[&name])
            .unwrap()
            .get(0);
        // Not even a superuser: it would hold for one session only.
        for session in [&mut client, &mut superuser] {
            expect_error(session.batch_execute(&format!("SET {name} = '{value}'")), "55P02");
        }
        expect_error(
            client.batch_execute(&format!("ALTER SYSTEM SET {name} = '{value}'")),
            "42501",
        );
    }
    expect_error(client.batch_execute("SET memory_agent.no_such_setting = 1"), "42602");
}

#[test]
fn paths_are_hidden() {
    let mut superuser = shared().database("settings_hidden").connect();
    create_roles(&mut superuser, &["hidden_reader"]);
    grant(&mut superuser, "hidden_reader", "reader");
    let mut client = shared().connect_as("settings_hidden", "hidden_reader");
    for name in HIDDEN {
        expect_error(client.simple_query(&format!("SHOW {name}")), "42501");
        expect_error(client.query("SELECT current_setting($1)", &[&name]), "42501");
        superuser.simple_query(&format!("SHOW {name}")).unwrap();
    }
    let names: Vec<String> = HIDDEN.map(str::to_owned).into();
    for view in ["pg_settings", "pg_show_all_settings()"] {
        let query = format!("SELECT count(*) FROM {view} WHERE name = ANY ($1)");
        assert_eq!(client.query_one(&query, &[&names]).unwrap().get::<_, i64>(0), 0, "{view}");
        let shown: i64 = superuser.query_one(&query, &[&names]).unwrap().get(0);
        assert_eq!(shown, HIDDEN.len() as i64, "{view}");
    }
}

/// Where the library is not preloaded, a session cannot smuggle in values for settings that do not
/// exist yet.
#[test]
fn placeholders_do_not_become_settings() {
    let cluster = Cluster::builder().setting("memory_agent.max_content_bytes", "1000").start();
    let mut superuser = cluster.database("db").connect();
    create_roles(&mut superuser, &["smuggler"]);
    grant(&mut superuser, "smuggler", "user");
    let long = "SELECT memory_ingest('s', 'user', repeat('word ', 1000))";
    // Either postgresql.conf rules, or the session is refused.
    let assert_refused = |client: &mut Client, first: &str| {
        let error = client.batch_execute(long).expect_err(first);
        assert!(["22023", "42501"].contains(&sqlstate(&error)), "{first}: {error:?}");
    };
    for first in [
        "SET memory_agent.max_content_bytes = 1000000",
        "BEGIN; SET LOCAL memory_agent.max_content_bytes = 1000000",
        "SELECT set_config('memory_agent.max_content_bytes', '1000000', false)",
        "SET memory_agent.model_server_path = '/bin/true'",
        "SET memory_agent.no_such_setting = 1",
    ] {
        let mut client = cluster.connect_as("db", "smuggler");
        client.batch_execute(first).unwrap();
        assert_refused(&mut client, first);
        expect_error(client.simple_query("ROLLBACK; SHOW memory_agent.model_server_path"), "42501");
    }
    // Options of the connection come before everything else.
    for name in
        ["max_content_bytes=1000000", "max_entries=0", "embedding_model=", "identity=setting"]
    {
        let options = format!("-c memory_agent.{name}");
        let mut client = cluster
            .config("db")
            .user("smuggler")
            .options(&options)
            .connect(postgres::NoTls)
            .unwrap();
        assert_refused(&mut client, &options);
    }
    // Nothing of that stays in the way of an honest session, and nothing was kept.
    let mut client = cluster.connect_as("db", "smuggler");
    client.batch_execute("SELECT memory_ingest('s', 'user', 'short')").unwrap();
    let path =
        "SELECT current_setting('memory_agent.model_server_path') FROM memory_status() LIMIT 1";
    assert_eq!(superuser.query_one(path, &[]).unwrap().get::<_, String>(0), "");
}

/// The location of a model is for superusers, and refusals do not tell what exists.
#[test]
fn models_are_no_way_to_files() {
    let database = "settings_files";
    let mut client = admin(database, "files_admin");
    let mut answers = Vec::new();
    for location in ["/etc", "/etc/passwd", "/no/such/place", "../../../etc", "", "/proc/self"] {
        let call = "SELECT memory_register_model('m', 'embedder', $1)";
        answers.push(expect_error(client.execute(call, &[&location]), "42501"));
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
    for name in
        ["../m", "/etc", "..", ".", ".hidden", "a/b", "a\\b", "", " ", "a\nb", "ä", "m\u{202e}"]
    {
        let call = "SELECT memory_register_model($1, 'embedder')";
        expect_error(client.execute(call, &[&name]), "22023");
    }
    // A name without files is an error that does not show the hidden directory.
    let message = expect_error(
        client.batch_execute("SELECT memory_register_model('m', 'embedder')"),
        "58000",
    );
    let directory: String = shared()
        .connect(database)
        .query_one("SELECT setting FROM pg_config WHERE name = 'SHAREDIR'", &[])
        .unwrap()
        .get(0);
    assert!(message.contains("config.json") && !message.contains(&directory), "{message}");
    let registered = "SELECT count(*) FROM memory_agent.models";
    assert_eq!(client.query_one(registered, &[]).unwrap().get::<_, i64>(0), 0);
}
