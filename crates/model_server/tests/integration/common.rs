//! What the tests share: where models and ONNX Runtime are, a server of one's own that ends with
//! the test, example texts.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use memory_agent_model_server::BlockingClient;
use memory_agent_model_server::protocol::{ModelRef, Purpose, Request, Response, ServerStatus};

/// The server's binary as cargo built it for these tests.
pub const SERVER: &str = env!("CARGO_BIN_EXE_memory_agent_model_server");

/// Directory of the models: `MEMORY_AGENT_MODELS`, else the repository's `models`.
pub fn models_directory() -> PathBuf {
    std::env::var_os("MEMORY_AGENT_MODELS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models"), PathBuf::from)
}

/// libonnxruntime: `MEMORY_AGENT_ONNXRUNTIME`, else where `make install` puts it.
pub fn onnxruntime() -> PathBuf {
    let path = std::env::var_os("MEMORY_AGENT_ONNXRUNTIME").map_or_else(installed, PathBuf::from);
    assert!(
        path.exists(),
        "\"{}\" does not exist: run `make install`, or set MEMORY_AGENT_ONNXRUNTIME",
        path.display()
    );
    path
}

fn installed() -> PathBuf {
    let output = Command::new("pg_config")
        .arg("--pkglibdir")
        .output()
        .expect("pg_config is not on the path: set MEMORY_AGENT_ONNXRUNTIME");
    let directory = String::from_utf8(output.stdout).unwrap();
    Path::new(directory.trim()).join("memory_agent/libonnxruntime.so")
}

fn model(name: &str) -> ModelRef {
    let directory = models_directory().join(name);
    assert!(
        directory.join("model.onnx").exists(),
        "\"{}\" holds no model: run `make install`, or set MEMORY_AGENT_MODELS",
        directory.display()
    );
    let directory = directory.canonicalize().unwrap();
    ModelRef {
        name: name.to_owned(),
        directory: directory.to_str().unwrap().to_owned(),
        remote: None,
    }
}

pub fn embedder() -> ModelRef {
    model("bge-small-en-v1.5")
}

/// The embedder that pools by the mean.
pub fn mean_embedder() -> ModelRef {
    model("all-MiniLM-L6-v2")
}

pub fn reranker() -> ModelRef {
    model("ms-marco-MiniLM-L-12-v2")
}

/// A directory that is removed with the value.
#[derive(Debug)]
pub struct TemporaryDirectory(PathBuf);

impl TemporaryDirectory {
    pub fn new() -> Self {
        static COUNTER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = COUNTER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("memory_agent_test_{}_{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running server. Dropping it closes its standard input, which ends it.
#[derive(Debug)]
pub struct Server {
    pub child: Child,
    pub directory: TemporaryDirectory,
}

impl Server {
    /// Starts a server with two threads.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with further options, which win over the usual ones.
    pub fn start_with(options: &[&str]) -> Self {
        Self::spawn(|command| command.args(options))
    }

    /// Starts a server with nothing but these variables in its environment.
    pub fn start_in(environment: Vec<(&str, String)>) -> Self {
        Self::spawn(|command| command.env_clear().envs(environment))
    }

    fn spawn(adjust: impl FnOnce(&mut Command) -> &mut Command) -> Self {
        let directory = TemporaryDirectory::new();
        let child = adjust(&mut Self::command(&directory.path().join("socket")))
            .stderr(std::fs::File::create(directory.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        let server = Self { child, directory };
        // The socket is there before its mode is set, and before it takes connections.
        wait_until("the server listens", || {
            let mode = std::fs::metadata(server.socket()).map(|socket| socket.permissions().mode());
            mode.is_ok_and(|mode| mode & 0o777 == 0o600)
                && UnixStream::connect(server.socket()).is_ok()
        });
        server
    }

    /// The command that starts a server on a socket.
    pub fn command(socket: &Path) -> Command {
        let mut command = Command::new(SERVER);
        command
            .arg("--socket")
            .arg(socket)
            .arg("--onnxruntime")
            .arg(onnxruntime())
            .args(["--threads", "2"])
            .stdin(Stdio::piped());
        command
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap()
    }

    pub fn connect(&self) -> BlockingClient {
        // Between bind and listen a connection is refused.
        wait_until("a connection", || BlockingClient::connect(self.socket()).is_ok());
        BlockingClient::connect(self.socket()).unwrap()
    }

    pub fn status(&self) -> ServerStatus {
        match self.connect().call(&Request::Status).unwrap() {
            Response::Status(status) => status,
            other => panic!("{other:?}"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Waits up to 20 seconds for a condition.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain for: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub fn embed_request(purpose: Purpose, texts: &[&str]) -> Request {
    Request::Prepare {
        model: Some(embedder()),
        purpose,
        texts: texts.iter().map(ToString::to_string).collect(),
        token_texts: Vec::new(),
    }
}

pub fn rerank_request(query: &str, documents: &[String]) -> Request {
    let (query, documents) = (query.to_owned(), documents.to_vec());
    Request::Rerank { model: reranker(), query, documents, waits: true }
}

/// As recalls ask.
pub fn rerank_unless_busy(query: &str, documents: &[String]) -> Request {
    let (query, documents) = (query.to_owned(), documents.to_vec());
    Request::Rerank { model: reranker(), query, documents, waits: false }
}

/// The embeddings of an answer, of which each text has one window.
pub fn single_windows(response: Response) -> Vec<Vec<f32>> {
    let Response::Prepared { embeddings, .. } = response else { panic!("{response:?}") };
    embeddings
        .into_iter()
        .map(|mut windows| {
            assert_eq!(windows.len(), 1);
            windows.remove(0)
        })
        .collect()
}

pub fn logits(response: Response) -> Vec<f32> {
    let Response::Logits(Some(logits)) = response else { panic!("{response:?}") };
    logits
}

pub fn cosine(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// A text of `words` words, different for every `seed`.
pub fn text(seed: usize, words: usize) -> String {
    const WORDS: [&str; 24] = [
        "Anna",
        "moved",
        "to",
        "Lisbon",
        "last",
        "spring",
        "because",
        "the",
        "rent",
        "in",
        "Berlin",
        "doubled",
        "and",
        "her",
        "sister",
        "likes",
        "mushrooms",
        "but",
        "never",
        "eats",
        "them",
        "on",
        "Fridays",
        "alone",
    ];
    let mut state = seed as u64 + 1;
    let words: Vec<&str> = (0..words)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040);
            WORDS[(state >> 33) as usize % WORDS.len()]
        })
        .collect();
    format!("{} {seed}", words.join(" "))
}
