//! What every test here begins with: a stub, a cluster that calls it, a database, a session.

use memory_agent_e2e::llm::{LlmStub, Model};
use memory_agent_e2e::memory::{value, values};
use memory_agent_e2e::{Builder, Client, Cluster, Json, Uuid, retry_until, wait_until};
use std::time::Duration;

/// Nobody waits longer than needed, and a busy machine needs a while.
pub const PATIENCE: Duration = Duration::from_secs(90);
/// The database of every scene.
pub const DATABASE: &str = "agent";

/// A cluster with the library preloaded whose LLM is a stub. The client's identity is `alice`.
pub struct Scene {
    pub client: Client,
    pub cluster: Cluster,
    pub stub: LlmStub,
}

/// A row of `memory_agent.entries` of kind `fact`.
#[derive(Clone, Debug)]
pub struct Fact {
    pub id: Uuid,
    pub session: Option<String>,
    pub content: String,
    pub state: String,
    pub reason: Option<String>,
    pub replaced_by: Option<Uuid>,
    pub sources: Vec<Uuid>,
    pub confidence: Option<f32>,
    pub fact_key: Option<String>,
    pub metadata: Json,
    pub markers: Vec<String>,
}

/// A row of `memory_jobs`.
#[derive(Clone, Debug)]
pub struct Job {
    pub id: Uuid,
    pub kind: String,
    pub status: String,
    pub attempts: i32,
    pub error: Option<String>,
}

impl Scene {
    pub fn start(model: impl Model) -> Self {
        Self::with_settings(model, &[])
    }

    /// Settings as in postgresql.conf; those of the LLM that are not given get values that suit
    /// tests.
    pub fn with_settings(model: impl Model, settings: &[(&str, &str)]) -> Self {
        Self::built(model, settings, |builder| builder)
    }

    /// With a cluster that is more than its settings.
    pub fn built(
        model: impl Model,
        settings: &[(&str, &str)],
        change: impl FnOnce(Builder) -> Builder,
    ) -> Self {
        let stub = LlmStub::start(model);
        let mut builder = Cluster::builder()
            .preload(true)
            .setting("memory_agent.llm_base_url", stub.base_url())
            .setting("memory_agent.llm_model", "stub-1")
            .setting("memory_agent.llm_timeout", "10s")
            // Most tests are about facts, and count calls.
            .setting("memory_agent.summarization", "off")
            .setting("memory_agent.compression", "off");
        for (name, value) in settings {
            builder = builder.setting(name, value);
        }
        let cluster = change(builder).start();
        let client = cluster.database(DATABASE).connect();
        Self { client, cluster, stub }
    }

    /// Stores a turn of the user in the session `s`.
    #[track_caller]
    pub fn say(&mut self, content: &str) -> Uuid {
        self.say_as("user", content)
    }

    #[track_caller]
    pub fn say_as(&mut self, role: &str, content: &str) -> Uuid {
        value(&mut self.client, "SELECT memory_ingest('s', $1, $2)", &[&role, &content])
    }

    /// Stores turns of the user in the session `s`, in one transaction.
    #[track_caller]
    pub fn say_all(&mut self, contents: &[&str]) -> Vec<Uuid> {
        memory_agent_e2e::memory::ingest_all(&mut self.client, "s", contents)
    }

    /// Says something and waits for what becomes of it.
    #[track_caller]
    pub fn say_and_wait(&mut self, content: &str) -> Uuid {
        let id = self.say(content);
        self.drain();
        id
    }

    /// Waits until the queue is empty.
    #[track_caller]
    pub fn drain(&mut self) {
        if !value::<bool>(&mut self.client, "SELECT memory_wait('90 s')", &[]) {
            panic!("the queue does not drain: {:#?}\n{}", self.jobs(), self.status("worker"));
        }
    }

    /// Facts in every state, oldest first.
    pub fn all_facts(&mut self) -> Vec<Fact> {
        let rows = self.client.query(
            "SELECT id, session_id, content, state, state_reason, replaced_by, \
                    coalesce(source_ids, '{}'), confidence, fact_key, metadata, markers \
               FROM memory_agent.entries WHERE kind = 'fact' ORDER BY recorded_at, id",
            &[],
        );
        let fact = |row: &memory_agent_e2e::Row| Fact {
            id: row.get(0),
            session: row.get(1),
            content: row.get(2),
            state: row.get(3),
            reason: row.get(4),
            replaced_by: row.get(5),
            sources: row.get(6),
            confidence: row.get(7),
            fact_key: row.get(8),
            metadata: row.get(9),
            markers: row.get(10),
        };
        rows.expect("the facts").iter().map(fact).collect()
    }

    /// The texts of the active facts, sorted.
    pub fn facts(&mut self) -> Vec<String> {
        let mut facts: Vec<String> = self
            .all_facts()
            .into_iter()
            .filter(|fact| fact.state == "active")
            .map(|fact| fact.content)
            .collect();
        facts.sort();
        facts
    }

    /// The one fact with this text.
    #[track_caller]
    pub fn fact(&mut self, content: &str) -> Fact {
        let facts = self.all_facts();
        let mut found: Vec<Fact> =
            facts.iter().filter(|fact| fact.content == content).cloned().collect();
        assert_eq!(found.len(), 1, "{content:?} in {facts:#?}");
        found.remove(0)
    }

    /// All jobs, oldest first.
    pub fn jobs(&mut self) -> Vec<Job> {
        let rows = self.client.query(
            "SELECT id, kind, status, attempts, last_error FROM memory_jobs ORDER BY id",
            &[],
        );
        let job = |row: &memory_agent_e2e::Row| Job {
            id: row.get(0),
            kind: row.get(1),
            status: row.get(2),
            attempts: row.get(3),
            error: row.get(4),
        };
        rows.expect("memory_jobs").iter().map(job).collect()
    }

    /// The extract job that was queued last.
    #[track_caller]
    pub fn last_job(&mut self) -> Job {
        let jobs = self.jobs();
        jobs.into_iter().rfind(|job| job.kind == "extract").expect("an extract job")
    }

    /// Waits for an extract job for which `condition` holds.
    #[track_caller]
    pub fn wait_for_job(&mut self, what: &str, condition: impl Fn(&Job) -> bool) -> Job {
        retry_until(PATIENCE, what, || {
            self.jobs().into_iter().find(|job| job.kind == "extract" && condition(job))
        })
    }

    /// Waits until the stub was called so often.
    #[track_caller]
    pub fn wait_for_calls(&self, count: usize) {
        wait_until(PATIENCE, "calls of the LLM", || self.stub.call_count() >= count);
    }

    /// `state: detail (hint)` of the rows of `memory_status()` whose component begins so.
    pub fn status(&mut self, component: &str) -> String {
        values::<String>(
            &mut self.client,
            "SELECT concat(component, ': ', state, ': ', detail, ' (', hint, ')') FROM memory_status() \
              WHERE starts_with(component, $1)",
            &[&component],
        )
        .join("\n")
    }

    /// `(status, count)` of the recorded LLM calls, sorted.
    pub fn recorded_calls(&mut self) -> Vec<(String, i64)> {
        let rows = self
            .client
            .query("SELECT status, count(*) FROM memory_llm_calls GROUP BY 1 ORDER BY 1", &[]);
        rows.expect("memory_llm_calls").iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    /// The operations in the history of an entry, in order.
    pub fn history(&mut self, id: Uuid) -> Vec<String> {
        values(
            &mut self.client,
            "SELECT op FROM memory_agent.history WHERE entry_id = $1 ORDER BY at, id",
            &[&id],
        )
    }
}
