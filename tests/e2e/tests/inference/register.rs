//! `memory_register_model`: other models are loaded and checked before they count.

use memory_agent_e2e::memory::{explain, ingest, run, value, values};
use memory_agent_e2e::{Client, Json, expect_error, shared};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A folder that holds a changed copy of an installed model; removed when dropped.
struct ModelFolder(PathBuf);

impl ModelFolder {
    /// Links the files of `model` and replaces `changed`: name and content, empty to leave it out.
    fn new(name: &str, model: &str, changed: &[(&str, &str)]) -> Self {
        let folder =
            std::env::temp_dir().join(format!("ma_e2e_{}_model_{name}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
        for file in ["model.onnx", "tokenizer.json", "config.json"] {
            match changed.iter().find(|(changed, _)| *changed == file) {
                Some((_, "")) => {}
                Some((_, content)) => std::fs::write(folder.join(file), content).unwrap(),
                None => std::os::unix::fs::symlink(installed(model).join(file), folder.join(file))
                    .unwrap(),
            }
        }
        Self(folder)
    }

    /// A copy of one of the tiny models of the model server's tests.
    fn tiny(name: &str, model: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("ma_e2e_{}_tiny_{name}", std::process::id()));
        copy_folder(&tiny_models().join(model), &folder);
        Self(folder)
    }

    fn sql(&self) -> String {
        format!("'{}'", self.0.display())
    }
}

impl Drop for ModelFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn tiny_models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/model_server/tests/models")
}

/// Copies a folder so that the server, another user, can read it.
fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    std::fs::set_permissions(to, std::fs::Permissions::from_mode(0o755)).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).unwrap();
            std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o644)).unwrap();
        }
    }
}

fn installed(model: &str) -> PathBuf {
    let mut client = shared().connect("postgres");
    let share: String =
        value(&mut client, "SELECT setting FROM pg_config WHERE name = 'SHAREDIR'", &[]);
    let folder = Path::new(&share).join("memory_agent/models").join(model);
    assert!(folder.is_dir(), "{} is missing: make install", folder.display());
    folder
}

fn config_of(model: &str) -> String {
    std::fs::read_to_string(installed(model).join("config.json")).unwrap()
}

fn active(client: &mut Client) -> Vec<String> {
    values(
        client,
        "SELECT kind || ' ' || name FROM memory_agent.models WHERE active ORDER BY kind",
        &[],
    )
}

#[test]
fn another_embedder_is_activated_in_an_empty_database() {
    let mut client = shared().database("register_embedder").connect();
    let bge: Vec<f32> = value(&mut client, "SELECT memory_embed('some text')::real[]", &[]);
    let description: Json = value(
        &mut client,
        "SELECT memory_register_model('all-MiniLM-L6-v2', 'embedder', activate => true)",
        &[],
    );
    assert_eq!(description["name"], "all-MiniLM-L6-v2");
    assert_eq!(description["kind"], "embedder");
    assert_eq!(description["dimension"], 384);
    assert_eq!(description["max_tokens"], 256);
    assert_eq!(description["active"], true);
    assert!(active(&mut client).contains(&"embedder all-MiniLM-L6-v2".to_owned()));

    let minilm: Vec<f32> = value(&mut client, "SELECT memory_embed('some text')::real[]", &[]);
    assert_ne!(bge, minilm);
    let no_prefix: bool = value(
        &mut client,
        "SELECT memory_embed('some text') <=> memory_embed('some text', 'document') < 1e-5",
        &[],
    );
    assert!(no_prefix, "this model needs no prefix");
    ingest(&mut client, "s", "My cat sleeps.");
    let model: String = value(&mut client, "SELECT embedding_model FROM memory_agent.entries", &[]);
    assert_eq!(model, "all-MiniLM-L6-v2");
    assert_eq!(explain(&mut client, "'Where is the kitten?'")["embedding"], "all-MiniLM-L6-v2");

    let back = client.query(
        "SELECT memory_register_model('memory-embed-small', 'embedder', activate => true)",
        &[],
    );
    let message = expect_error(back, "55000");
    assert!(message.contains("all-MiniLM-L6-v2"), "rows are embedded by it: {message}");
    run(&mut client, "SELECT memory_register_model('memory-embed-small', 'embedder')");
    assert!(active(&mut client).contains(&"embedder all-MiniLM-L6-v2".to_owned()));
}

#[test]
fn a_model_of_ones_own_is_used_from_its_folder() {
    let mut client = shared().database("register_location").connect();
    let config =
        config_of("ms-marco-MiniLM-L-12-v2").replace("ms-marco-MiniLM-L-12-v2", "my-reranker");
    let folder = ModelFolder::new("own", "ms-marco-MiniLM-L-12-v2", &[("config.json", &config)]);
    let register =
        format!("SELECT memory_register_model('my-reranker', 'reranker', {}, true)", folder.sql());
    let description: Json = value(&mut client, &register, &[]);
    assert!(description["dimension"].is_null(), "{description}");
    ingest(&mut client, "s", "My cat sleeps.");
    let explained = explain(&mut client, "'Where is the cat?'");
    assert_eq!(explained["reranking"], "my-reranker");
    // Nothing was fitted to its logits.
    assert_eq!(explained["ranking"], "weighted");
    let rerankers =
        active(&mut client).into_iter().filter(|model| model.starts_with("reranker")).count();
    assert_eq!(rerankers, 1, "one is active, not two");
    // Registering it again changes nothing.
    run(&mut client, &register);
    let rows: i64 = value(
        &mut client,
        "SELECT count(*) FROM memory_agent.models WHERE name = 'my-reranker'",
        &[],
    );
    assert_eq!(rows, 1);
}

/// The rerankers of the Ettin family are published so: an ONNX file without the head, which is in
/// files beside it, BPE, no `token_type_ids`.
#[test]
fn a_reranker_is_used_as_it_was_downloaded() {
    let mut client = shared().database("register_published").connect();
    let folder = ModelFolder::tiny("published", "modernbert-reranker");
    let register =
        format!("SELECT memory_register_model('downloaded', 'reranker', {}, true)", folder.sql());
    let description: Json = value(&mut client, &register, &[]);
    assert_eq!(description["max_tokens"], 8192);
    ingest(&mut client, "s", "The cat sleeps on the mat.");
    ingest(&mut client, "s", "She works in Berlin.");
    let explained = explain(&mut client, "'Where does she work?'");
    assert_eq!(explained["reranking"], "downloaded", "{explained}");
    let recalled: i64 = value(
        &mut client,
        "SELECT count(*) FROM memory_recall('Where does she work?', score_threshold => 0)",
        &[],
    );
    assert_eq!(recalled, 2);
    // models/shapes.py computed what it has to give.
    let logits: Vec<f32> = value(
        &mut client,
        "SELECT memory_rerank('Where does she work?', ARRAY['She works in Berlin.', 'a'])",
        &[],
    );
    let answers = std::fs::read(tiny_models().join("answers.json")).unwrap();
    let answers: Json = serde_json::from_slice(&answers).unwrap();
    for (logit, answer) in logits.iter().zip([0, 2]) {
        let expected = answers["modernbert-reranker"][answer]["row"][0].as_f64().unwrap();
        assert!((f64::from(*logit) - expected).abs() < 1e-4, "{logits:?} {expected}");
    }
    let loaded: String =
        value(&mut client, "SELECT state FROM memory_status() WHERE component = 'reranker'", &[]);
    assert_eq!(loaded, "loaded");
}

#[test]
fn registration_loads_the_files_that_are_there_now() {
    let mut client = shared().database("register_replaced").connect();
    let folder = ModelFolder::tiny("replaced", "mean-embedder");
    let register = format!("SELECT memory_register_model('r', 'embedder', {}, true)", folder.sql());
    run(&mut client, &register);
    let mut other = shared().connect("register_replaced");
    let embed = |client: &mut Client| -> Vec<f32> {
        value(client, "SELECT memory_embed('a cat')::real[]", &[])
    };
    let before = embed(&mut other);
    let config = std::fs::read_to_string(folder.0.join("config.json")).unwrap();
    let config = config.replacen('{', r#"{"pooling": "cls","#, 1);
    std::fs::write(folder.0.join("config.json"), config).unwrap();
    run(&mut client, &register);
    assert_ne!(embed(&mut client), before);
    assert_eq!(embed(&mut other), embed(&mut client), "for everybody");
}

#[test]
fn one_error_names_all_that_a_folder_lacks() {
    let mut client = shared().database("register_defects").connect();
    let folder = ModelFolder::tiny("defects", "mean-embedder");
    std::fs::write(folder.0.join("config.json"), r#"{"kind": "embedder", "dimension": 7}"#)
        .unwrap();
    std::fs::remove_file(folder.0.join("tokenizer.json")).unwrap();
    let register = format!("SELECT memory_register_model('m', 'embedder', {})", folder.sql());
    let message = expect_error(client.query(&register, &[]), "58000");
    for part in ["write \"max_tokens\"", "tokenizer.json", "the graph gives 8 numbers", "(3)"] {
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[test]
fn a_broken_model_is_refused_with_the_reason() {
    let mut client = shared().database("register_broken").connect();
    let config = config_of("memory-embed-small");
    let cases = [
        ("no_graph", "model.onnx", "", "model.onnx"),
        ("no_tokenizer", "tokenizer.json", "", "tokenizer.json"),
        ("no_config", "config.json", "", "config.json"),
        ("bad_graph", "model.onnx", "this is no graph", "memory-embed-small"),
        ("bad_tokenizer", "tokenizer.json", "{}", "tokenizer.json"),
        ("bad_config", "config.json", "{}", "config.json"),
        ("bad_dimension", "config.json", &config.replace("384", "383"), "383"),
    ];
    for (name, file, content, reason) in cases {
        let folder = ModelFolder::new(name, "memory-embed-small", &[(file, content)]);
        let register = format!(
            "SELECT memory_register_model('memory-embed-small', 'embedder', {}, true)",
            folder.sql()
        );
        let message = expect_error(client.query(&register, &[]), "58000");
        assert!(message.contains(reason), "{name}: {message}");
        assert!(message.lines().nth(1).is_some_and(|hint| !hint.is_empty()), "{name}: {message}");
    }
    let missing =
        "SELECT memory_register_model('memory-embed-small', 'embedder', '/nowhere/at/all')";
    expect_error(client.query(missing, &[]), "58000");
    expect_error(
        client.query("SELECT memory_register_model('no-such-model', 'embedder')", &[]),
        "58000",
    );
    assert_eq!(
        value::<i32>(&mut client, "SELECT vector_dims(memory_embed('still works'))", &[]),
        384
    );
}

#[test]
fn a_model_is_registered_as_what_it_is() {
    let mut client = shared().database("register_kind").connect();
    for call in ["'memory-embed-small', 'reranker'", "'ms-marco-MiniLM-L-12-v2', 'embedder'"] {
        let result = client.query(&format!("SELECT memory_register_model({call})"), &[]);
        let message = expect_error(result, "42809");
        assert!(message.contains("Register it as what its config.json says"), "{call}: {message}");
    }
    for call in [
        "'memory-embed-small', 'generator'",
        "'memory-embed-small', NULL",
        "'', 'embedder'",
        "NULL, 'embedder'",
        "'../memory-embed-small', 'embedder'",
        "'.hidden', 'embedder'",
        "'with blank', 'embedder'",
        "repeat('x', 101), 'embedder'",
        "'memory-embed-small', 'embedder', 'relative/path'",
        "'memory-embed-small', 'embedder', ''",
    ] {
        let result = client.query(&format!("SELECT memory_register_model({call})"), &[]);
        let message = expect_error(result, "22023");
        assert!(message.lines().nth(1).is_some_and(|hint| !hint.is_empty()), "{call}: {message}");
    }
}

#[test]
fn models_are_for_admins_and_paths_for_superusers() {
    let database = shared().database("register_privileges");
    let mut owner = database.connect();
    run(
        &mut owner,
        "CREATE ROLE model_admin LOGIN; CREATE ROLE model_user LOGIN;
         SELECT memory_grant('model_admin', 'admin'); SELECT memory_grant('model_user', 'user')",
    );
    let mut admin = database.connect_as("model_admin");
    run(&mut admin, "SELECT memory_register_model('all-MiniLM-L6-v2', 'embedder')");
    let with_path = "SELECT memory_register_model('all-MiniLM-L6-v2', 'embedder', '/etc')";
    expect_error(admin.query(with_path, &[]), "42501");
    let mut user = database.connect_as("model_user");
    expect_error(
        user.query("SELECT memory_register_model('all-MiniLM-L6-v2', 'embedder')", &[]),
        "42501",
    );
}
