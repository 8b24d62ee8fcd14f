//! Settings of the model server and its files.

use memory_agent_e2e::memory::{explain, ingest, run, value};
use memory_agent_e2e::{Client, Cluster, expect_error, processes, shared, wait_until};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

fn server_detail(client: &mut Client) -> String {
    value(
        client,
        "SELECT state || ': ' || detail FROM memory_status() WHERE component = 'model server'",
        &[],
    )
}

#[test]
fn inference_threads() {
    let cluster =
        Cluster::builder().preload(true).setting("memory_agent.inference_threads", 1).start();
    let mut client = cluster.database("inference_threads").connect();
    run(&mut client, "SELECT memory_embed('x')");
    assert!(server_detail(&mut client).contains(" 1 threads"), "{}", server_detail(&mut client));
    cluster.alter_system("memory_agent.inference_threads", Some("3"));
    wait_until(PATIENCE, "a server with three threads", || {
        server_detail(&mut client).contains(" 3 threads")
    });
    assert_eq!(value::<i32>(&mut client, "SELECT vector_dims(memory_embed('x'))", &[]), 384);
}

#[test]
fn inference_timeout() {
    let mut client = shared().database("inference_timeout").connect();
    let slow = "SELECT memory_embed(array_agg(repeat('word ', 300) || n || txid_current())) \
                  FROM generate_series(1, 40) n";
    run(&mut client, "SET memory_agent.inference_timeout = '100ms'");
    let message = expect_error(client.query(slow, &[]), "58000");
    assert!(message.contains("inference_timeout"), "{message}");
    // The server is well, so the next call is not refused because of this one.
    run(&mut client, "SET memory_agent.inference_timeout = '10min'");
    assert_eq!(client.query(slow, &[]).unwrap().len(), 1);
}

/// A folder under the temporary directory that the server may read; removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ma_e2e_{}_{name}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What `pg_config` says of the installation.
fn installed(client: &mut Client, directory: &str, rest: &str) -> PathBuf {
    let base: String =
        value(client, "SELECT setting FROM pg_config WHERE name = $1", &[&directory]);
    let path = Path::new(&base).join("memory_agent").join(rest);
    assert!(path.exists(), "{} is missing: make install", path.display());
    path
}

#[test]
fn model_server_path() {
    let cluster = Cluster::builder().preload(true).start();
    let mut client = cluster.database("model_server_path").connect();
    let folder = Folder::new("server");
    let link = folder.0.join("memory_agent_model_server");
    symlink(installed(&mut client, "PKGLIBDIR", "memory_agent_model_server"), &link).unwrap();
    cluster.alter_system("memory_agent.model_server_path", Some(link.to_str().unwrap()));
    wait_until(PATIENCE, "the server started by that path", || {
        let servers = processes::model_servers(&cluster.data());
        servers.len() == 1 && servers[0].command.starts_with(link.to_str().unwrap())
    });
    assert_eq!(value::<i32>(&mut client, "SELECT vector_dims(memory_embed('x'))", &[]), 384);

    cluster.alter_system("memory_agent.model_server_path", Some("/nowhere/model_server"));
    wait_until(PATIENCE, "the status to say so", || {
        server_detail(&mut client).starts_with("failing")
    });
    expect_error(client.query("SELECT memory_embed('y')", &[]), "58000");
    cluster.alter_system("memory_agent.model_server_path", None);
    wait_until(PATIENCE, "the installed server", || {
        server_detail(&mut client).starts_with("running")
    });
    assert_eq!(value::<i32>(&mut client, "SELECT vector_dims(memory_embed('x'))", &[]), 384);
}

#[test]
fn onnxruntime_path() {
    let cluster = Cluster::builder()
        .preload(true)
        .setting("memory_agent.onnxruntime_path", "/nowhere/libonnxruntime.so")
        .start();
    let mut client = cluster.database("onnxruntime_path").connect();
    let message = expect_error(client.query("SELECT memory_embed('x')", &[]), "58000");
    assert!(message.contains("/nowhere/libonnxruntime.so"), "{message}");
    let told: bool = value(
        &mut client,
        "SELECT state <> 'found' AND hint IS NOT NULL FROM memory_status() WHERE component = 'onnxruntime'",
        &[],
    );
    assert!(told);
    let library = installed(&mut client, "PKGLIBDIR", "libonnxruntime.so");
    cluster.alter_system("memory_agent.onnxruntime_path", Some(library.to_str().unwrap()));
    wait_until(PATIENCE, "a server with the library", || {
        client.query("SELECT memory_embed('x')", &[]).is_ok()
    });
}

#[test]
fn model_dir() {
    let folder = Folder::new("models");
    let cluster = Cluster::builder()
        .preload(true)
        .setting("memory_agent.model_dir", folder.0.display())
        .start();
    let mut client = cluster.database("model_dir").connect();
    expect_error(client.query("SELECT memory_embed('x')", &[]), "58000");
    let (state, hint): (String, Option<String>) = {
        let row = client
            .query_one("SELECT state, hint FROM memory_status() WHERE component = 'embedder'", &[])
            .unwrap();
        (row.get(0), row.get(1))
    };
    assert_eq!(state, "missing");
    assert!(hint.is_some_and(|hint| hint.contains("model_dir")));
    symlink(
        installed(&mut client, "SHAREDIR", "models/memory-embed-small"),
        folder.0.join("memory-embed-small"),
    )
    .unwrap();
    wait_until(PATIENCE, "the model to be found", || {
        client.query("SELECT memory_embed('x')", &[]).is_ok()
    });
}

/// A folder of one's own adds a language, or takes the place of an installed one.
#[test]
fn language_dir() {
    let folder = Folder::new("languages");
    for (language, decision) in [("simple", "ni elektis"), ("german", "jo mei")] {
        std::fs::create_dir(folder.0.join(language)).unwrap();
        std::fs::write(
            folder.0.join(language).join("markers.txt"),
            format!("[decision]\n{decision}\n"),
        )
        .unwrap();
    }
    std::fs::create_dir(folder.0.join("french")).unwrap();
    std::fs::write(folder.0.join("french/markers.txt"), "[gaol]\nprison\n").unwrap();
    let cluster = Cluster::builder()
        .preload(true)
        .setting("memory_agent.language_dir", folder.0.display())
        .start();
    let mut client = cluster.database("language_dir").connect();
    run(&mut client, "SET memory_agent.embed_on_ingest = off");
    let markers = |client: &mut Client, configuration: &str, content: &str| -> Vec<String> {
        let settings = format!("{{\"text_search_config\": \"{configuration}\"}}");
        run(
            client,
            &format!("SELECT memory_configure('{configuration}', settings => '{settings}')"),
        );
        run(client, &format!("SET memory_agent.agent_id = '{configuration}'"));
        let id = ingest(client, "s", content);
        value(client, "SELECT markers FROM memory_agent.entries WHERE id = $1", &[&id])
    };
    assert_eq!(markers(&mut client, "simple", "Ni elektis PostgreSQL."), ["decision"]);
    assert_eq!(markers(&mut client, "german", "Jo mei, PostgreSQL."), ["decision"]);
    assert!(markers(&mut client, "german", "Wir haben beschlossen zu gehen.").is_empty());
    assert_eq!(markers(&mut client, "italian", "Abbiamo deciso di restare."), ["decision"]);
    // One that cannot be read is as if it were not there, and the server's log says why.
    assert_eq!(markers(&mut client, "french", "Nous avons décidé de partir."), ["decision"]);
    wait_until(PATIENCE, "the log to name the section", || cluster.log().contains("[gaol]"));
    std::fs::create_dir(folder.0.join("italian")).unwrap();
    std::fs::write(folder.0.join("italian/markers.txt"), "#".repeat(1024 * 1024 + 1)).unwrap();
    let mut client = cluster.connect("language_dir");
    run(&mut client, "SET memory_agent.user_id = 'alice'; SET memory_agent.embed_on_ingest = off");
    assert_eq!(markers(&mut client, "italian", "Abbiamo deciso di partire."), ["decision"]);
    wait_until(PATIENCE, "the log to name the size", || cluster.log().contains("1048576 bytes"));
}

#[test]
fn embedding_model_and_rerank_model() {
    let cluster = Cluster::builder()
        .preload(true)
        .setting("memory_agent.embedding_model", "all-MiniLM-L6-v2")
        .setting("memory_agent.rerank_model", "")
        .start();
    let mut client = cluster.database("initial_models").connect();
    ingest(&mut client, "s", "My cat sleeps.");
    let model: String = value(&mut client, "SELECT embedding_model FROM memory_agent.entries", &[]);
    assert_eq!(model, "all-MiniLM-L6-v2");
    assert_eq!(explain(&mut client, "'cat'")["reranking"], "no rerank model");
    expect_error(client.query("SELECT memory_rerank('x', '{y}')", &[]), "42704");

    // A database that has rows keeps its model.
    cluster.alter_system("memory_agent.rerank_model", Some("ms-marco-MiniLM-L-12-v2"));
    let mut client = cluster.connect("initial_models");
    run(&mut client, "SET memory_agent.user_id = 'alice'");
    assert_eq!(explain(&mut client, "'cat'")["reranking"], "ms-marco-MiniLM-L-12-v2");
    // Registered, a model is the database's own, whatever the setting says.
    run(
        &mut client,
        "SELECT memory_register_model('all-MiniLM-L6-v2', 'embedder', activate => true)",
    );
    cluster.alter_system("memory_agent.embedding_model", Some("memory-embed-small"));
    let mut client = cluster.connect("initial_models");
    run(&mut client, "SET memory_agent.user_id = 'alice'");
    assert_eq!(explain(&mut client, "'cat'")["embedding"], "all-MiniLM-L6-v2");
}
