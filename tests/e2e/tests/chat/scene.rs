//! What most tests here share: a cluster without worker whose LLM is a stub. The name of the model
//! says what a call's answer is like, and is each test's own, so that tests do not meet in the stub
//! or in the model server's account of its endpoints.

use memory_agent_e2e::llm::{Call, Fault, FaultPlan, LlmStub, Reply};
use memory_agent_e2e::memory::{value, values};
use memory_agent_e2e::{Client, Cluster, Json, keep};
use postgres::error::DbError;
use serde_json::json;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// Nobody waits longer than needed, and a busy machine needs a while.
pub const PATIENCE: Duration = Duration::from_secs(90);
/// The answer of a model whose name says nothing else.
pub const ANSWER: &str = "As you say.";
/// What `memory_agent.llm_model` is.
pub const CONFIGURED: &str = "configured-1";

pub struct Scene {
    pub cluster: &'static Cluster,
    pub stub: LlmStub,
}

/// The cluster of this suite.
pub fn scene() -> &'static Scene {
    static SCENE: OnceLock<Scene> = OnceLock::new();
    SCENE.get_or_init(|| {
        let stub = LlmStub::start(answer);
        stub.faults(FaultPlan::when(fault));
        let cluster = Cluster::builder()
            .preload(true)
            .setting("memory_agent.worker", "off")
            .setting("memory_agent.llm_base_url", stub.base_url())
            .setting("memory_agent.llm_model", CONFIGURED)
            .setting("memory_agent.llm_timeout", "10s")
            .start();
        Scene { cluster: keep(cluster), stub }
    })
}

impl Scene {
    /// A session in a new database; its WARNINGs and NOTICEs are collected.
    pub fn session(&self, database: &'static str) -> Session {
        Session::open(self.cluster, database)
    }

    /// The calls of a model, oldest first.
    pub fn calls(&self, model: &str) -> Vec<Call> {
        self.stub.calls().into_iter().filter(|call| call.model() == model).collect()
    }

    /// The only call of a model.
    #[track_caller]
    pub fn call(&self, model: &str) -> Call {
        let mut calls = self.calls(model);
        assert_eq!(calls.len(), 1, "{calls:#?}");
        calls.remove(0)
    }
}

/// A superuser's session whose identity is `alice`.
pub struct Session {
    pub client: Client,
    /// What the server said beside its answers.
    told: Arc<Mutex<Vec<DbError>>>,
}

impl Session {
    /// Creates a database with the extension and connects to it.
    pub fn open(cluster: &Cluster, database: &str) -> Self {
        cluster.database(database);
        Self::connect(cluster, database)
    }

    /// Connects to a database that has the extension.
    pub fn connect(cluster: &Cluster, database: &str) -> Self {
        let told = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&told);
        let mut client = cluster
            .config(database)
            .notice_callback(move |notice| seen.lock().unwrap().push(notice))
            .connect(postgres::NoTls)
            .unwrap_or_else(|error| panic!("cannot connect to {database}: {error:?}"));
        client.batch_execute("SET memory_agent.user_id = 'alice'").expect("the identity");
        Self { client, told }
    }

    /// The messages of the WARNINGs since the last call, each followed by its hint.
    pub fn take_warnings(&mut self) -> Vec<String> {
        let told = self.take("WARNING");
        told.iter()
            .map(|warning| format!("{}\n{}", warning.message(), warning.hint().unwrap_or_default()))
            .collect()
    }

    /// The messages of the NOTICEs since the last call.
    pub fn take_notices(&mut self) -> Vec<String> {
        self.take("NOTICE").iter().map(|notice| notice.message().to_owned()).collect()
    }

    fn take(&mut self, severity: &str) -> Vec<DbError> {
        // Notices that follow a statement are read with the next one.
        self.client.batch_execute("").expect("an empty statement");
        let mut told = self.told.lock().unwrap();
        let (taken, others) =
            std::mem::take(&mut *told).into_iter().partition(|one| one.severity() == severity);
        *told = others;
        taken
    }

    /// The document of `memory_chat(messages, arguments)`.
    #[track_caller]
    pub fn chat(&mut self, messages: &Json, arguments: &str) -> Json {
        value(&mut self.client, &format!("SELECT memory_chat($1, {arguments})"), &[messages])
    }

    /// The document of `memory_augment(messages, arguments)`.
    #[track_caller]
    pub fn augment(&mut self, messages: &Json, arguments: &str) -> Json {
        value(&mut self.client, &format!("SELECT memory_augment($1, {arguments})"), &[messages])
    }

    /// Stores a statement as a fact of a session.
    #[track_caller]
    pub fn know(&mut self, session: &str, fact: &str) {
        let add = "SELECT memory_add($1, session_id => $2, infer => false)";
        value::<memory_agent_e2e::Uuid>(&mut self.client, add, &[&fact, &session]);
    }

    /// Puts a summary in place, as the worker would.
    #[track_caller]
    pub fn summarize(&mut self, session: &str, summary: &str) {
        let insert = "INSERT INTO memory_agent.session_summaries \
                          (id, user_id, agent_id, session_id, level, content, method) \
                      VALUES (gen_random_uuid(), 'alice', 'default', $1, 'L3', $2, 'brief')";
        self.client.execute(insert, &[&session, &summary]).expect("a summary");
    }

    /// The turns of a session as `role: content`, oldest first.
    pub fn turns(&mut self, session: &str) -> Vec<String> {
        values(
            &mut self.client,
            "SELECT role || ': ' || content FROM memory_agent.entries \
              WHERE session_id = $1 AND kind = 'turn' ORDER BY created_at, id",
            &[&session],
        )
    }

    /// The recorded calls as `purpose status`, oldest first.
    pub fn recorded(&mut self) -> Vec<String> {
        values(
            &mut self.client,
            "SELECT purpose || ' ' || status FROM memory_llm_calls ORDER BY at, id",
            &[],
        )
    }
}

/// A chat of one message of the user.
pub fn said(content: &str) -> Json {
    json!([{"role": "user", "content": content}])
}

/// The faults that models named `fault 0`, `fault 1` and so on have.
pub fn faults() -> Vec<Fault> {
    Fault::every_kind(Duration::from_millis(200))
}

fn fault(call: &Call) -> Option<Fault> {
    if call.is_test() {
        return None;
    }
    let number: usize = call.model().strip_prefix("fault ")?.parse().ok()?;
    faults().get(number).copied()
}

fn completion(message: Json, finish_reason: &str) -> Reply {
    Reply::body(&json!({
        "model": "stub",
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
    }))
}

/// The shared stub's model. Questions of ours go to the configured model and are told apart by what
/// they say.
fn answer(call: &Call) -> Reply {
    let text = |text: &str| json!({"role": "assistant", "content": text});
    match call.model() {
        CONFIGURED => super::options::answer(call),
        "cut" => completion(text("It goes on and"), "length"),
        "thinking" => "<think>They want to know.</think>\n\n Forty-two. ".into(),
        "thinking on" => "<think>They want to".into(),
        "nul" => "left\0right".into(),
        "long" => "ß".repeat(700_000).into(),
        "no usage" => completion(text("Hello."), "stop"),
        "parts" => completion(
            json!({"role": "assistant", "content": [{"type": "text", "text": "Hel"}, {"text": "lo."}]}),
            "stop",
        ),
        "tools" => {
            let call = json!([{"id": "1", "type": "function", "function": {"name": "f"}}]);
            completion(
                json!({"role": "assistant", "content": null, "tool_calls": call}),
                "tool_calls",
            )
        }
        "asks a tool" if call.messages("tool").is_empty() => {
            let call = json!([{"id": "1", "type": "function", "function":
                {"name": "weather", "arguments": "{\"city\": \"Bergen\"}"}}]);
            completion(
                json!({"role": "assistant", "content": null, "tool_calls": call}),
                "tool_calls",
            )
        }
        "asks a tool" => completion(text("It rains."), "stop"),
        "two choices" => Reply::body(&json!({
            "id": "chatcmpl-theirs",
            "model": "stub",
            "system_fingerprint": "fp",
            "choices": [
                {"index": 0, "message": text("<think>Hm.</think>One."), "finish_reason": "stop"},
                {"index": 1, "message": text("Two."), "finish_reason": "stop"},
            ],
            "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7,
                      "prompt_tokens_details": {"cached_tokens": 2}},
        })),
        "refusing" => completion(
            json!({"role": "assistant", "content": null, "refusal": "I will not."}),
            "stop",
        ),
        "filtered" => completion(text("half of"), "content_filter"),
        "no choices" => Reply::body(&json!({"choices": []})),
        "unknown" => Reply::error(404, "the model does not exist"),
        _ => ANSWER.into(),
    }
}
