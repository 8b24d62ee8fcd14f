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

    fn sql(&self) -> String {
        format!("'{}'", self.0.display())
    }
}

impl Drop for ModelFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
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
        "SELECT memory_register_model('bge-small-en-v1.5', 'embedder', activate => true)",
        &[],
    );
    let message = expect_error(back, "22023");
    assert!(message.contains("all-MiniLM-L6-v2"), "rows are embedded by it: {message}");
    run(&mut client, "SELECT memory_register_model('bge-small-en-v1.5', 'embedder')");
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
    assert_eq!(explain(&mut client, "'Where is the cat?'")["reranking"], "my-reranker");
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

#[test]
fn a_broken_model_is_refused_with_the_reason() {
    let mut client = shared().database("register_broken").connect();
    let config = config_of("bge-small-en-v1.5");
    let cases = [
        ("no_graph", "model.onnx", "", "model.onnx"),
        ("no_tokenizer", "tokenizer.json", "", "tokenizer.json"),
        ("no_config", "config.json", "", "config.json"),
        ("bad_graph", "model.onnx", "this is no graph", "bge-small-en-v1.5"),
        ("bad_tokenizer", "tokenizer.json", "{}", "tokenizer.json"),
        ("bad_config", "config.json", "{}", "config.json"),
        ("bad_dimension", "config.json", &config.replace("384", "383"), "383"),
    ];
    for (name, file, content, reason) in cases {
        let folder = ModelFolder::new(name, "bge-small-en-v1.5", &[(file, content)]);
        let register = format!(
            "SELECT memory_register_model('bge-small-en-v1.5', 'embedder', {}, true)",
            folder.sql()
        );
        let message = expect_error(client.query(&register, &[]), "58000");
        assert!(message.contains(reason), "{name}: {message}");
        assert!(message.lines().nth(1).is_some_and(|hint| !hint.is_empty()), "{name}: {message}");
    }
    let missing =
        "SELECT memory_register_model('bge-small-en-v1.5', 'embedder', '/nowhere/at/all')";
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
    for call in [
        "'bge-small-en-v1.5', 'reranker'",
        "'ms-marco-MiniLM-L-12-v2', 'embedder'",
        "'bge-small-en-v1.5', 'generator'",
        "'bge-small-en-v1.5', NULL",
        "'', 'embedder'",
        "NULL, 'embedder'",
        "'../bge-small-en-v1.5', 'embedder'",
        "'.hidden', 'embedder'",
        "'with blank', 'embedder'",
        "repeat('x', 101), 'embedder'",
        "'bge-small-en-v1.5', 'embedder', 'relative/path'",
        "'bge-small-en-v1.5', 'embedder', ''",
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
