//! Statements that keep the models busy for seconds, each time anew: what they ask was never asked
//! before, so that no cache of the model server answers.

use super::Session;
use std::sync::atomic::{AtomicU64, Ordering};

/// A statement that runs for seconds unless it is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slow {
    /// Recalls that rerank passages of a hundred long memories, one after the other.
    Recall,
    /// Scores of 300 long documents.
    Rerank,
    /// Embeddings of 600 long texts.
    Embed,
    /// A batch of 600 long turns.
    Ingest,
}

impl Slow {
    pub const ALL: [Self; 4] = [Self::Recall, Self::Rerank, Self::Embed, Self::Ingest];

    /// The statement, with a number in it that no other has.
    pub fn statement(self) -> String {
        static NUMBER: AtomicU64 = AtomicU64::new(1_000_000);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        match self {
            Self::Recall => format!(
                "SELECT count(*) FROM generate_series(1, 20) AS part, \
                      LATERAL memory_recall('the harbour of case {number}, part ' || part, rerank_rows => 100, \
                                            session_id => 'slow', top_k => 200)"
            ),
            Self::Rerank => format!(
                "SELECT memory_rerank('the harbour of case {number}', array_agg({})) FROM generate_series(1, 300) n",
                long_text(number)
            ),
            Self::Embed => format!(
                "SELECT memory_embed(array_agg({})) FROM generate_series(1, 600) n",
                long_text(number)
            ),
            Self::Ingest => format!(
                "SELECT count(*) FROM memory_ingest_batch( \
                     (SELECT jsonb_agg(jsonb_build_object('role', 'user', 'content', {})) \
                        FROM generate_series(1, 600) n), session_id => 'cancelled')",
                long_text(number)
            ),
        }
    }
}

/// Stores what [`Slow::Recall`] finds: 200 long turns of the session `slow`, by their words.
pub fn prepare_recall(session: &mut Session) {
    session
        .client
        .batch_execute(&format!(
            "SET memory_agent.embed_on_ingest = off; \
             SELECT count(*) FROM memory_ingest_batch( \
                 (SELECT jsonb_agg(jsonb_build_object('role', 'user', 'content', {})) \
                    FROM generate_series(1, 200) n), session_id => 'slow'); \
             RESET memory_agent.embed_on_ingest",
            long_text(0)
        ))
        .unwrap();
}

/// An SQL expression over `n`: some 330 words, as many tokens as the models read.
fn long_text(number: u64) -> String {
    format!(
        "'Case {number} ' || n || repeat(' the harbour was closed that week and ship ' || n || ' waited', 30)"
    )
}
