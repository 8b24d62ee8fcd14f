//! What a job keeps of the settings of the session that queued it: the user-settable ones that the
//! result depends on. They travel in the job's payload; URLs and keys never do.

use crate::settings::guc::{self, FactScopeChoice};
use memory_agent_core::chunk;
use memory_agent_core::compression::Limits;
use memory_agent_core::episodes::EpisodeSettings;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Settings of an extraction, as its session had them.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct ExtractionSettings {
    /// Most facts of one turn.
    pub max_facts_per_turn: u32,
    /// Whether facts become the user's global memory instead of the session's.
    pub global: bool,
    /// Cosine from which a fact is a duplicate; negative means the model's own value.
    pub dedup_similarity: f64,
    /// Cosine from which a fact is compared by the LLM; negative means the model's own value.
    pub reconcile_similarity: f64,
    /// Whether markers are detected in the facts.
    pub detect_markers: bool,
}

impl Default for ExtractionSettings {
    fn default() -> Self {
        Self {
            max_facts_per_turn: guc::max_facts_per_turn().max(1) as u32,
            global: guc::fact_scope() == FactScopeChoice::Global,
            dedup_similarity: guc::dedup_similarity(),
            reconcile_similarity: guc::reconcile_similarity(),
            detect_markers: guc::auto_detect_markers(),
        }
    }
}

impl ExtractionSettings {
    /// The settings in a job's payload, within their bounds.
    pub fn of(payload: &Value) -> Self {
        let mut settings: Self = read(payload);
        settings.max_facts_per_turn = settings.max_facts_per_turn.clamp(1, 20);
        settings
    }
}

/// Settings of a reflection, as the session had them that ended the episode.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
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
}

impl Default for ReflectionSettings {
    fn default() -> Self {
        Self {
            min_episode_turns: guc::min_episode_turns().max(1) as u32,
            episode_gap: i64::from(guc::episode_gap()),
            max_facts: guc::max_facts_per_episode().max(1) as u32,
            global: guc::fact_scope() == FactScopeChoice::Global,
            consolidation_similarity: guc::consolidation_similarity(),
            dedup_similarity: guc::dedup_similarity(),
            detect_markers: guc::auto_detect_markers(),
        }
    }
}

impl ReflectionSettings {
    /// The settings in a job's payload, within their bounds.
    pub fn of(payload: &Value) -> Self {
        let mut settings: Self = read(payload);
        settings.max_facts = settings.max_facts.clamp(1, 100);
        settings
    }

    /// Seconds without a successor after which episodes that are too short are reflected on: two gaps.
    /// Without gaps, it is the default one that counts.
    pub fn patience(&self) -> i64 {
        let default = EpisodeSettings::default().gap_seconds;
        let gap = if self.episode_gap > 0 { self.episode_gap } else { default };
        gap.saturating_mul(2)
    }
}

/// Settings of a summary and of a compression, as their session had them. Tokens are cl100k_base
/// tokens.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
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
}

impl Default for SummarySettings {
    fn default() -> Self {
        let natural = |value: i32| value.max(0).unsigned_abs();
        Self {
            summarization: guc::summarization(),
            min_tokens: natural(guc::summary_min_tokens()),
            chunk_tokens: natural(guc::summary_chunk_tokens()),
            chunk_overlap: natural(guc::summary_chunk_overlap()),
            compression: guc::compression(),
            threshold: natural(guc::compression_threshold_tokens()),
            keep: natural(guc::recent_messages_to_keep()),
            archives: guc::archive_conversations(),
            archive_chunk_tokens: natural(guc::chunk_tokens()),
            archive_chunk_overlap: natural(guc::chunk_overlap()),
        }
    }
}

impl SummarySettings {
    /// The settings in a job's payload; what is missing there is as the worker's own settings say.
    pub fn of(payload: &Value) -> Self {
        read(payload)
    }

    /// What the session is measured against.
    pub fn limits(&self) -> Limits {
        Limits {
            summarization: self.summarization,
            min_tokens: self.min_tokens,
            compression: self.compression,
            threshold: self.threshold,
        }
    }

    /// How turns are divided among requests. At least half of a chunk is new, whatever the overlap.
    pub fn chunks(&self) -> chunk::Limits {
        let overlap_tokens = self.chunk_overlap.min(self.chunk_tokens / 2);
        chunk::Limits { max_tokens: self.chunk_tokens, overlap_tokens }
    }

    /// How what is archived is divided into chunks.
    pub fn archive_chunks(&self) -> chunk::Limits {
        chunk::Limits {
            max_tokens: self.archive_chunk_tokens,
            overlap_tokens: self.archive_chunk_overlap,
        }
    }
}

/// The payload of an extract job queued by this session.
pub fn extraction_payload() -> String {
    payload(&ExtractionSettings::default())
}

/// The payload of a reflect job queued by this session.
pub fn reflection_payload() -> String {
    payload(&ReflectionSettings::default())
}

/// The payload of a summarize or compress job queued by this session. `forced`: somebody asked for it
/// by hand, whatever the window's size.
pub fn summary_payload(settings: &SummarySettings, forced: bool) -> String {
    if forced {
        serde_json::json!({ "settings": settings, "forced": true }).to_string()
    } else {
        payload(settings)
    }
}

/// A job's payload that says nothing but its settings.
pub fn payload(settings: &impl Serialize) -> String {
    let settings = serde_json::to_value(settings).unwrap_or_default();
    serde_json::json!({ "settings": settings }).to_string()
}

/// The settings in a job's payload; those that it lacks are this session's.
fn read<T: DeserializeOwned + Default>(payload: &Value) -> T {
    let settings = payload.get("settings").cloned();
    settings.and_then(|settings| serde_json::from_value(settings).ok()).unwrap_or_default()
}
