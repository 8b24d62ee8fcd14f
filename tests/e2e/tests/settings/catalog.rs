//! The settings as PostgreSQL knows them, against the table of what is documented.

use super::table::{Values, settings};
use memory_agent_core::jobs::session_settings::{
    ExtractionSettings, ReflectionSettings, SummarySettings,
};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Cluster, Json, expect_error, json, shared};
use std::path::Path;

/// A database with the library loaded, so that the settings are defined.
fn connect(name: &'static str) -> memory_agent_e2e::Client {
    shared().database(name).connect()
}

#[test]
fn no_setting_is_undocumented_and_none_is_missing() {
    let mut client = connect("settings_names");
    let mut expected: Vec<String> =
        settings().map(|setting| format!("memory_agent.{}", setting.0)).collect();
    expected.sort();
    let found: Vec<String> = values(
        &mut client,
        "SELECT name FROM pg_settings WHERE name LIKE 'memory_agent.%' ORDER BY name COLLATE \"C\"",
        &[],
    );
    assert_eq!(found, expected);
    let undescribed: Vec<String> = values(
        &mut client,
        "SELECT name FROM pg_settings WHERE name LIKE 'memory_agent.%' AND short_desc !~ '\\w{3}.*\\.$'",
        &[],
    );
    assert!(undescribed.is_empty(), "{undescribed:?}");
}

#[test]
fn defaults_contexts_and_bounds_are_the_documented_ones() {
    let mut client = connect("settings_defaults");
    for (name, default, context, of, _) in settings() {
        let row = client
            .query_one(
                "SELECT boot_val, context, vartype, min_val, max_val, coalesce(unit, ''), enumvals \
                   FROM pg_settings WHERE name = 'memory_agent.' || $1",
                &[name],
            )
            .unwrap();
        let text = |column: usize| row.get::<_, Option<String>>(column).unwrap_or_default();
        assert_eq!((text(0).as_str(), text(1).as_str()), (*default, *context), "{name}");
        let (kind, low, high, unit, choices): (_, String, String, _, &[&str]) = match of {
            Values::Bool => ("bool", String::new(), String::new(), "", &[]),
            Values::Int(low, high, unit) => {
                ("integer", low.to_string(), high.to_string(), *unit, &[])
            }
            Values::Real(low, high) => ("real", low.to_string(), high.to_string(), "", &[]),
            Values::Choice(choices) => ("enum", String::new(), String::new(), "", choices),
            Values::Text | Values::Address => ("string", String::new(), String::new(), "", &[]),
        };
        assert_eq!(
            (text(2).as_str(), text(3), text(4), text(5).as_str()),
            (kind, low, high, unit),
            "{name}"
        );
        let found: Vec<String> = row.get::<_, Option<Vec<String>>>(6).unwrap_or_default();
        assert_eq!(found, choices, "{name}");
    }
}

/// Values that are not allowed, as SQL literals.
fn forbidden(of: &Values) -> Vec<String> {
    match of {
        Values::Bool => vec!["'perhaps'".into()],
        Values::Int(low, high, _) => {
            vec![(low - 1).to_string(), (high + 1).to_string(), "'many'".into()]
        }
        Values::Real(low, high) => {
            let beyond = [low - 0.01, high + 0.01].map(|value| value.to_string());
            beyond
                .into_iter()
                .chain(["'NaN'", "'Infinity'", "'-Infinity'", "'much'"].map(String::from))
                .collect()
        }
        Values::Choice(_) => vec!["'something else'".into(), "''".into()],
        Values::Text => Vec::new(),
        Values::Address => ["127.0.0.1:1/v1", "ftp://x", "http:/x"].map(quoted).into(),
    }
}

fn quoted(text: &str) -> String {
    format!("'{text}'")
}

fn allowed(of: &Values) -> Vec<String> {
    match of {
        Values::Bool => vec!["on".into(), "off".into()],
        Values::Int(low, high, _) => vec![low.to_string(), high.to_string()],
        Values::Real(low, high) => vec![low.to_string(), high.to_string()],
        Values::Choice(choices) => choices.iter().map(|choice| format!("'{choice}'")).collect(),
        Values::Text => ["text", ""].map(quoted).into(),
        Values::Address => ["http://127.0.0.1:1/v1", "HTTPS://x", ""].map(quoted).into(),
    }
}

#[test]
fn user_settings_take_what_is_allowed_and_nothing_else() {
    let mut client = connect("settings_user");
    for (name, _, _, of, _) in settings().filter(|setting| setting.2 == "user") {
        for literal in forbidden(of) {
            let result = client.batch_execute(&format!("SET memory_agent.{name} = {literal}"));
            let message = expect_error(result, "22023");
            assert!(message.contains(name), "{message}");
        }
        for literal in allowed(of) {
            run(&mut client, &format!("SET memory_agent.{name} = {literal}"));
        }
    }
}

#[test]
fn the_servers_settings_are_for_its_configuration_only() {
    let cluster = Cluster::builder().preload(true).start();
    let mut client = cluster.database("settings_sighup").connect();
    for (name, _, _, of, _) in settings().filter(|setting| setting.2 == "sighup") {
        for literal in allowed(of).into_iter().take(1) {
            let set = client.batch_execute(&format!("SET memory_agent.{name} = {literal}"));
            expect_error(set, "55P02");
            let for_role = client
                .batch_execute(&format!("ALTER ROLE postgres SET memory_agent.{name} = {literal}"));
            expect_error(for_role, "55P02");
        }
        for literal in forbidden(of) {
            let result =
                client.batch_execute(&format!("ALTER SYSTEM SET memory_agent.{name} = {literal}"));
            expect_error(result, "22023");
        }
        for literal in allowed(of) {
            run(&mut client, &format!("ALTER SYSTEM SET memory_agent.{name} = {literal}"));
        }
        run(&mut client, &format!("ALTER SYSTEM RESET memory_agent.{name}"));
    }
}

#[test]
fn paths_and_addresses_are_shown_to_superusers_only() {
    let database = shared().database("settings_paths");
    run(&mut database.connect(), "CREATE ROLE settings_nobody LOGIN");
    let mut nobody = database.connect_as("settings_nobody");
    for name in [
        "model_server_path",
        "onnxruntime_path",
        "model_dir",
        "language_dir",
        "llm_base_url",
        "llm_api_key_file",
        "llm_key_dir",
        "embedding_base_url",
        "embedding_api_key_file",
        "audit_key_file",
    ] {
        expect_error(nobody.query(&format!("SHOW memory_agent.{name}"), &[]), "42501");
    }
    run(&mut nobody, "SHOW memory_agent.default_top_k");
}

#[test]
fn a_mistyped_name_is_an_error() {
    let mut client = connect("settings_mistyped");
    for statement in [
        "SET memory_agent.top_k = 5",
        "SET memory_agent.defaulttopk = 5",
        "ALTER SYSTEM SET memory_agent.nope = 1",
        "ALTER DATABASE settings_mistyped SET memory_agent.nope = 1",
    ] {
        let error = client.batch_execute(statement).expect_err(statement);
        let code = memory_agent_e2e::sqlstate(&error);
        assert!(["42602", "42704"].contains(&code), "{statement}: {code}");
    }
    // In the file it is no reason not to start, but it is told.
    let cluster = Cluster::builder().preload(true).setting("memory_agent.typo", 1).start();
    assert!(cluster.log().contains("memory_agent.typo"), "{}", cluster.log());
    let left: Option<String> = value(
        &mut cluster.connect("postgres"),
        "SELECT current_setting('memory_agent.typo', true)",
        &[],
    );
    assert_eq!(left, None);
}

/// The last column of the table is true: there is such a test.
#[test]
fn every_setting_has_a_test_of_its_effect() {
    let suites = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    for (name, _, _, _, test) in settings() {
        let (suite, function) = test.split_once("::").unwrap();
        let files = match std::fs::read_dir(suites.join(suite)) {
            Ok(folder) => {
                folder.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect()
            }
            Err(_) => vec![suites.join(format!("{suite}.rs"))],
        };
        let sources: Vec<String> =
            files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
        let definition = format!("#[test]\nfn {function}() {{");
        let body = sources
            .iter()
            .find(|source| source.contains(&definition))
            .unwrap_or_else(|| panic!("{name}: there is no test {test}"));
        assert!(body.contains(name), "{test} does not mention {name}");
    }
}

/// Rows of jobs may lack settings that the version which wrote them did not know.
#[test]
fn a_job_without_a_setting_runs_with_the_documented_default() {
    let documented = |name: &str| match settings().find(|setting| setting.0 == name) {
        Some((_, "on", ..)) => "true",
        Some((_, "off", ..)) => "false",
        Some((_, default, ..)) => default,
        None => panic!("there is no setting {name}"),
    };
    // Settings that a job keeps under another name.
    let setting = |kept: &str| match kept {
        "detect_markers" => "auto_detect_markers".to_owned(),
        "min_tokens" | "chunk_tokens" => format!("summary_{kept}"),
        "threshold" => "compression_threshold_tokens".to_owned(),
        "keep" => "recent_messages_to_keep".to_owned(),
        "archives" => "archive_conversations".to_owned(),
        "archive_chunk_tokens" => "chunk_tokens".to_owned(),
        _ => kept.to_owned(),
    };
    let mut kept = json!(SummarySettings::default());
    for settings in [json!(ExtractionSettings::default()), json!(ReflectionSettings::default())] {
        kept.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    }
    for (name, default) in kept.as_object().unwrap() {
        match name.as_str() {
            "global" => {
                assert_eq!((default, documented("fact_scope")), (&json!(false), "session"));
            }
            // Jobs of 0.2.0 compared facts within their session, and an update leaves sessions as they were.
            "other_sessions" => {
                assert_eq!((default, documented("session_recall")), (&json!(false), "user"));
            }
            // The settings of an extraction, which jobs of 0.2.0 have among the others; and what is none.
            "extraction" => assert_eq!(default, &Json::Null),
            "traces" => assert_eq!(default, &json!(false)),
            // Not there, it is the server's.
            "text_search_config" => assert_eq!(default, ""),
            _ => {
                let expected = documented(&setting(name));
                let read = serde_json::from_str(expected).unwrap_or_else(|_| json!(expected));
                let is_same = match (default.as_f64(), read.as_f64()) {
                    (Some(default), Some(read)) => default == read,
                    _ => *default == read,
                };
                assert!(is_same, "{name}: {default} and {expected}");
            }
        }
    }
}
