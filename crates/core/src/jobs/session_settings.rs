//! What a job keeps of the settings of the session that queued it: the user-settable ones that the
//! result depends on. They travel in the job's payload; URLs and keys never do.

use crate::chunk;
use crate::compression::Limits;
use crate::episodes::EpisodeSettings;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What becomes of facts that what was said does not bear out, see [`crate::grounding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UngroundedFacts {
    /// They are kept, and no memory.
    Unverified,
    Drop,
    /// They are stored as all others: nothing is checked.
    Accept,
}

/// Settings of an extraction, as its session had them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExtractionSettings {
    /// Most turns that one request extracts from.
    pub extraction_batch: u32,
    /// Most facts of one turn.
    pub max_facts_per_turn: u32,
    /// Whether facts become the user's global memory instead of the session's.
    pub global: bool,
    /// Cosine from which a fact is a duplicate; negative means the model's own value.
    pub dedup_similarity: f64,
    /// Cosine from which a fact is compared by the LLM; negative means the model's own value.
    pub reconcile_similarity: f64,
    /// Most facts that one request compares.
    pub reconcile_batch: u32,
    /// Whether markers are detected in the facts.
    pub detect_markers: bool,
    /// The text search configuration of the facts.
    pub text_search_config: String,
    pub ungrounded_facts: UngroundedFacts,
    /// Whether the LLM is asked a second time about facts from messages that contain more than statements.
    pub statement_check: bool,
    /// Whether a known fact is replaced or ended only where there is a sign of it.
    pub replacement_check: bool,
}

/// Settings of a reflection, as the session had them that ended the episode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReflectionSettings {
    /// Turns from which an episode is reflected on by itself.
    pub min_episode_turns: u32,
    /// Seconds after which an episode ends; 0 means never.
    pub episode_gap: i64,
    /// Most facts that are added or changed.
    pub max_facts: u32,
    /// Whether facts become the user's global memory instead of the session's.
    pub global: bool,
    /// Cosine to what was said from which a fact is reconsidered; negative means the model's own value.
    pub consolidation_similarity: f64,
    /// Cosine from which a fact is a duplicate; negative means the model's own value.
    pub dedup_similarity: f64,
    /// Whether markers are detected in the facts.
    pub detect_markers: bool,
    /// The text search configuration of the facts.
    pub text_search_config: String,
    pub ungrounded_facts: UngroundedFacts,
    /// Whether a known fact is replaced or ended only where there is a sign of it.
    pub replacement_check: bool,
    /// Instead of a reflection: the settings of an extraction from the episode's turns, as its job keeps
    /// them.
    pub extraction: Option<Value>,
    /// Whether that extraction is also from what an assistant decided.
    pub assistant_decisions: bool,
}

impl ReflectionSettings {
    /// Seconds without a successor after which episodes that are too short are reflected on: two gaps.
    /// Without gaps, it is the default one that counts.
    #[must_use]
    pub fn patience(&self) -> i64 {
        let default = EpisodeSettings::default().gap_seconds;
        let gap = if self.episode_gap > 0 { self.episode_gap } else { default };
        gap.saturating_mul(2)
    }
}

/// Settings of a summary and of a compression, as their session had them. Tokens are cl100k_base
/// tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SummarySettings {
    /// Whether the session is summarised as it grows.
    pub summarization: bool,
    /// New tokens from which its summary is renewed.
    pub min_tokens: u32,
    /// Most tokens of turns that one request holds.
    pub chunk_tokens: u32,
    /// Tokens at the end of a chunk that the next one begins with.
    pub chunk_overlap: u32,
    /// Whether its window is compressed.
    pub compression: bool,
    /// Tokens of a window above which it is compressed; 0 is never.
    pub threshold: u32,
    /// Newest turns that compression leaves in the window.
    pub keep: u32,
    /// Whether compression archives the conversation.
    pub archives: bool,
    /// Most tokens of a chunk of what is archived.
    pub archive_chunk_tokens: u32,
    /// Tokens at the end of such a chunk that the next one begins with.
    pub archive_chunk_overlap: u32,
    /// The text search configuration of what is archived.
    pub text_search_config: String,
}

impl SummarySettings {
    /// What the session is measured against.
    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits {
            summarization: self.summarization,
            min_tokens: self.min_tokens,
            compression: self.compression,
            threshold: self.threshold,
        }
    }

    /// How turns are divided among requests. At least half of a chunk is new, whatever the overlap.
    #[must_use]
    pub fn chunks(&self) -> chunk::Limits {
        let overlap_tokens = self.chunk_overlap.min(self.chunk_tokens / 2);
        chunk::Limits { max_tokens: self.chunk_tokens, overlap_tokens }
    }

    /// How what is archived is divided into chunks.
    #[must_use]
    pub fn archive_chunks(&self) -> chunk::Limits {
        chunk::Limits {
            max_tokens: self.archive_chunk_tokens,
            overlap_tokens: self.archive_chunk_overlap,
        }
    }
}

/// The settings that are `kept`; those that are missing there are as in `own`.
#[must_use]
pub fn over<T: Serialize + DeserializeOwned>(own: T, kept: Option<&Value>) -> T {
    let (Some(Value::Object(kept)), Ok(Value::Object(mut all))) =
        (kept, serde_json::to_value(&own))
    else {
        return own;
    };
    all.extend(kept.iter().map(|(name, value)| (name.clone(), value.clone())));
    serde_json::from_value(Value::Object(all)).unwrap_or(own)
}
