//! What a job keeps of the settings of the session that queued it: those that the result depends on.
//! They travel in the job's payload; URLs and keys never do. Jobs outlive updates in both directions: a
//! setting that a row lacks, or holds in another shape, has its documented default, whatever the worker's
//! process has, and settings that a later version added are kept. Until 0.2.0 the text search configuration was the
//! server's alone, and no row has it: then it is the server's.

use crate::condense::chunk;
use crate::condense::compression::Limits;
use crate::facts::episodes::EpisodeSettings;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// What becomes of facts that what was said does not bear out, see [`crate::facts::grounding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UngroundedFacts {
    /// They are kept, and no memory.
    Unverified,
    Drop,
    /// They are stored as all others: nothing is checked.
    Accept,
}

/// Whether a known fact is replaced or ended only where there is a sign of it, see
/// [`crate::facts::grounding::can_replace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplacementCheck {
    /// Unless the LLM has passed the [probe](crate::facts::reconcile::probe). That asks nothing of a reflection, for which
    /// it is the same as `On`.
    Auto,
    On,
    Off,
}

impl ReplacementCheck {
    /// Whether what an LLM chooses is believed.
    #[must_use]
    pub fn trusts(self, has_passed: bool) -> bool {
        self == Self::Off || (self == Self::Auto && has_passed)
    }
}

/// New facts in one question to an LLM that has passed the probe.
const BATCH_OF_LARGE: u32 = 8;

/// Declares settings with their defaults, which are those of docs/settings.md.
macro_rules! session_settings {
    ($($(#[$meta:meta])* $name:ident {
        $($(#[$field_meta:meta])* $field:ident: $type:ty = $default:expr,)*
    })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Serialize)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
            /// What later versions keep here.
            #[serde(flatten)]
            pub other: Map<String, Value>,
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* other: Map::new() }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let mut other = Map::deserialize(deserializer)?;
                $(let kept = other.remove(stringify!($field));
                  let $field = kept
                      .and_then(|kept| serde_json::from_value(kept).ok())
                      .unwrap_or_else(|| $default);)*
                Ok(Self { $($field,)* other })
            }
        }
    )*};
}

session_settings! {
    /// Settings of an extraction, as its session had them.
    ExtractionSettings {
        /// Most turns that one request extracts from.
        extraction_batch: u32 = 8,
        /// Most messages before a turn that a request shows with it.
        extraction_context: u32 = 0,
        /// Most facts of one turn.
        max_facts_per_turn: u32 = 5,
        /// Whether facts become the user's global memory instead of the session's.
        global: bool = false,
        /// Whether facts are compared with those of the user's other sessions too. Jobs of 0.2.0 did not.
        other_sessions: bool = false,
        /// Cosine from which a fact is a duplicate; negative means the model's own value.
        dedup_similarity: f64 = -1.0,
        /// Cosine from which a fact is compared by the LLM; negative means the model's own value.
        reconcile_similarity: f64 = -1.0,
        /// Most facts that one request compares; 0 leaves it to the [probe](crate::facts::reconcile::probe).
        reconcile_batch: u32 = 0,
        /// Whether markers are detected in the facts.
        detect_markers: bool = true,
        /// The text search configuration of the facts; empty means the server's.
        text_search_config: String = String::new(),
        ungrounded_facts: UngroundedFacts = UngroundedFacts::Unverified,
        /// Whether the LLM is asked a second time about facts from messages that contain more than statements.
        statement_check: bool = false,
        replacement_check: ReplacementCheck = ReplacementCheck::Auto,
    }

    /// Settings of a reflection, as the session had them that ended the episode.
    ReflectionSettings {
        /// Turns from which an episode is reflected on by itself.
        min_episode_turns: u32 = 3,
        /// Seconds after which an episode ends; 0 means never.
        episode_gap: i64 = EpisodeSettings::default().gap_seconds,
        /// Most facts that are added or changed.
        max_facts: u32 = 5,
        /// Whether facts become the user's global memory instead of the session's.
        global: bool = false,
        /// Whether facts are compared with those of the user's other sessions too. Jobs of 0.2.0 did not.
        other_sessions: bool = false,
        /// Cosine to what was said from which a fact is reconsidered; negative means the model's own value.
        consolidation_similarity: f64 = -1.0,
        /// Cosine from which a fact is a duplicate; negative means the model's own value.
        dedup_similarity: f64 = -1.0,
        /// Whether markers are detected in the facts.
        detect_markers: bool = true,
        /// The text search configuration of the facts; empty means the server's.
        text_search_config: String = String::new(),
        ungrounded_facts: UngroundedFacts = UngroundedFacts::Unverified,
        replacement_check: ReplacementCheck = ReplacementCheck::Auto,
        /// Instead of a reflection: the settings of an extraction from the episode's turns.
        extraction: Option<ExtractionSettings> = None,
        /// Whether that extraction is also from what an assistant decided.
        assistant_decisions: bool = false,
        /// Whether what a tool returned becomes a fact where it says that something failed.
        tool_failures: bool = false,
    }

    /// Settings of a summary and of a compression, as their session had them. Tokens are cl100k_base
    /// tokens.
    SummarySettings {
        /// Whether the session is summarised as it grows.
        summarization: bool = true,
        /// New tokens from which its summary is renewed.
        min_tokens: u32 = 100,
        /// Most tokens of turns that one request holds.
        chunk_tokens: u32 = 3000,
        /// Tokens at the end of a chunk that the next one begins with.
        chunk_overlap: u32 = 200,
        /// Whether its window is compressed.
        compression: bool = true,
        /// Tokens of a window above which it is compressed; 0 is never.
        threshold: u32 = 10_000,
        /// Newest turns that compression leaves in the window.
        keep: u32 = 10,
        /// Whether compression archives the conversation.
        archives: bool = false,
        /// Most tokens of a chunk of what is archived.
        archive_chunk_tokens: u32 = 800,
        /// Tokens at the end of such a chunk that the next one begins with.
        archive_chunk_overlap: u32 = 100,
        /// The text search configuration of what is archived; empty means the server's.
        text_search_config: String = String::new(),
    }
}

/// A text search configuration, or the server's for an empty one.
fn or_of_server(configuration: String, server: &str) -> String {
    if configuration.is_empty() { server.to_owned() } else { configuration }
}

impl ExtractionSettings {
    /// The same for a job: numbers of facts and turns within their bounds, and the text search configuration of the
    /// server where there is none.
    #[must_use]
    pub fn for_job(mut self, server: &str) -> Self {
        self.text_search_config = or_of_server(self.text_search_config, server);
        self.max_facts_per_turn = self.max_facts_per_turn.clamp(1, 20);
        self.extraction_batch = self.extraction_batch.min(30);
        self.extraction_context = self.extraction_context.min(20);
        self
    }
}

impl ExtractionSettings {
    /// Most facts that one request to an LLM compares.
    #[must_use]
    pub fn batch(&self, has_passed: bool) -> usize {
        let batch = match self.reconcile_batch {
            0 if has_passed => BATCH_OF_LARGE,
            0 => 1,
            batch => batch,
        };
        usize::try_from(batch).unwrap_or(1)
    }

    /// Whether it matters how well the LLM chooses.
    #[must_use]
    pub fn wants_probe(&self) -> bool {
        self.reconcile_batch == 0 || self.replacement_check == ReplacementCheck::Auto
    }
}

impl ReflectionSettings {
    /// The same for a job: the number of facts within its bounds, and the text search configuration of the server
    /// where there is none.
    #[must_use]
    pub fn for_job(mut self, server: &str) -> Self {
        self.text_search_config = or_of_server(self.text_search_config, server);
        self.max_facts = self.max_facts.clamp(1, 100);
        self
    }

    /// Seconds without a successor after which episodes that are too short are reflected on: two gaps.
    /// Without gaps, it is the default one that counts.
    #[must_use]
    pub fn patience(&self) -> i64 {
        let default = EpisodeSettings::default().gap_seconds;
        let gap = if self.episode_gap > 0 { self.episode_gap } else { default };
        gap.saturating_mul(2)
    }
}

impl SummarySettings {
    /// The same for a job, with the text search configuration of the server where there is none.
    #[must_use]
    pub fn for_job(mut self, server: &str) -> Self {
        self.text_search_config = or_of_server(self.text_search_config, server);
        self
    }

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
