//! What the suites about faults, processes, cancellation and load share: a session that keeps the
//! WARNINGs it was sent, a few memories to ask about, and a witness that no session was lost.
#![allow(dead_code, reason = "every suite uses its own part of this module")]

pub mod random;
pub mod slow;
pub mod supervisor;
pub mod witness;

use memory_agent_e2e::{Client, Cluster, Error};
use postgres::error::DbError;
use std::sync::{Arc, Mutex};
use uuid::Uuid;

/// What [`Session::remember`] stores, and a question whose best answer is the first of them, by its
/// words as well as by its meaning.
pub const MEMORIES: [&str; 3] = [
    "Her favourite food is green Thai curry with peanuts.",
    "The dog is called Rex and sleeps under the desk.",
    "The budget review was moved to Friday morning.",
];
pub const QUESTION: &str = "What is her favourite food?";

/// One row that recall returned.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    pub id: Uuid,
    pub content: String,
    /// Cosine to the question; `None` when it was found by its words only.
    pub similarity: Option<f32>,
}

/// One row of `memory_status()`.
#[derive(Clone, Debug)]
pub struct Status {
    pub state: String,
    pub detail: String,
    pub hint: Option<String>,
}

/// A superuser's session that keeps the WARNINGs it was sent. Its identity is `alice`.
pub struct Session {
    pub client: Client,
    pub pid: i32,
    warnings: Arc<Mutex<Vec<DbError>>>,
}

impl Session {
    /// Connects to a database that has the extension.
    pub fn open(cluster: &Cluster, database: &str) -> Self {
        let warnings = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&warnings);
        let mut client = cluster
            .config(database)
            .notice_callback(move |notice| {
                if notice.severity() == "WARNING" {
                    seen.lock().unwrap().push(notice);
                }
            })
            .connect(postgres::NoTls)
            .unwrap_or_else(|error| panic!("cannot connect to {database}: {error:?}"));
        client.batch_execute("SET memory_agent.user_id = 'alice'").unwrap();
        let pid = client.query_one("SELECT pg_backend_pid()", &[]).unwrap().get(0);
        Self { client, pid, warnings }
    }

    /// Creates a database with the extension and [`MEMORIES`], and connects to it.
    pub fn with_memories(cluster: &Cluster, database: &str) -> Self {
        cluster.database(database);
        let mut session = Self::open(cluster, database);
        for content in MEMORIES {
            session.remember(content).unwrap();
        }
        assert!(session.take_warnings().is_empty(), "the model server does not work at all");
        session
    }

    /// Stores a turn.
    pub fn remember(&mut self, content: &str) -> Result<Uuid, Error> {
        let row = self.client.query_one("SELECT memory_ingest('s', 'user', $1)", &[&content])?;
        Ok(row.get(0))
    }

    /// The rows for a question, best first.
    pub fn recall(&mut self, question: &str) -> Result<Vec<Memory>, Error> {
        let rows = self
            .client
            .query("SELECT id, content, similarity FROM memory_recall($1)", &[&question])?;
        Ok(rows
            .iter()
            .map(|row| Memory { id: row.get(0), content: row.get(1), similarity: row.get(2) })
            .collect())
    }

    /// The embedding of a text, as SQL writes a vector.
    pub fn embed(&mut self, text: &str) -> Result<String, Error> {
        Ok(self.client.query_one("SELECT memory_embed($1)::text", &[&text])?.get(0))
    }

    /// The row of `memory_status()` about a component.
    pub fn status(&mut self, component: &str) -> Status {
        let row = self
            .client
            .query_one(
                "SELECT state, detail, hint FROM memory_status() WHERE component = $1",
                &[&component],
            )
            .unwrap_or_else(|error| panic!("memory_status() about {component}: {error:?}"));
        Status { state: row.get(0), detail: row.get(1), hint: row.get(2) }
    }

    /// Sequences that wait for a model, from `memory_status()`.
    pub fn waiting_sequences(&mut self) -> u64 {
        let status = self.status("model server");
        let number = status.detail.split(", ").find_map(|part| part.strip_suffix(" waiting"));
        number
            .and_then(|number| number.parse().ok())
            .unwrap_or_else(|| panic!("no queue length in {status:?}"))
    }

    /// The WARNINGs since the last call.
    pub fn take_warnings(&mut self) -> Vec<DbError> {
        // Notices that follow a statement are read with the next one.
        self.client.batch_execute("").unwrap();
        std::mem::take(&mut *self.warnings.lock().unwrap())
    }

    /// Whether recall works in full: the right memory first, with a similarity, without a WARNING.
    pub fn is_whole(&mut self) -> bool {
        let rows = self.recall(QUESTION).unwrap();
        self.expect_the_food(&rows);
        self.take_warnings().is_empty() && rows[0].similarity.is_some()
    }

    /// Recall works in full, or it answers by words and one WARNING with a hint says why.
    pub fn expect_an_answer(&mut self) {
        let rows = self.recall(QUESTION).unwrap();
        self.expect_the_food(&rows);
        let warnings = self.take_warnings();
        assert!(
            rows[0].similarity.is_some() || !warnings.is_empty(),
            "by words, without a WARNING"
        );
        if !warnings.is_empty() {
            expect_one_with_a_hint(&warnings);
        }
    }

    /// Recall answers by words alone, and one WARNING with a hint says why.
    pub fn expect_words_only(&mut self) {
        let rows = self.recall(QUESTION).unwrap();
        self.expect_the_food(&rows);
        assert!(rows.iter().all(|row| row.similarity.is_none()), "with models: {rows:?}");
        expect_one_with_a_hint(&self.take_warnings());
    }

    /// A turn is stored without an embedding, with a job for it, and one WARNING says so.
    pub fn expect_stored_without_embedding(&mut self) {
        let id = self.remember("Something that was said while no model was to be had.").unwrap();
        let row = self
            .client
            .query_one(
                "SELECT e.embedding IS NULL, \
                        EXISTS (SELECT FROM memory_agent.jobs j \
                                 WHERE j.kind = 'embed' AND j.status IN ('pending', 'running') \
                                   AND j.user_id = e.user_id AND j.session_id = e.session_id) \
                   FROM memory_agent.entries e WHERE e.id = $1",
                &[&id],
            )
            .unwrap();
        assert!(row.get::<_, bool>(0), "it has an embedding");
        assert!(row.get::<_, bool>(1), "no job will embed it");
        expect_one_with_a_hint(&self.take_warnings());
    }

    fn expect_the_food(&self, rows: &[Memory]) {
        assert!(rows.iter().any(|row| row.content == MEMORIES[0]), "not found: {rows:?}");
    }
}

fn expect_one_with_a_hint(warnings: &[DbError]) {
    let texts: Vec<_> =
        warnings.iter().map(|warning| (warning.message(), warning.hint())).collect();
    assert_eq!(texts.len(), 1, "not one WARNING: {texts:#?}");
    assert!(texts[0].1.is_some(), "no hint: {texts:#?}");
}
