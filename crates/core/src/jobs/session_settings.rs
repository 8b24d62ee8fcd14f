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

/// When the LLM is asked a second time about facts from messages that contain more than statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatementCheck {
    Off,
    On,
    /// If it has not passed the [probe](crate::facts::statement_probe).
    Auto,
}

/// New facts in one question to an LLM that has passed the [probe](crate::facts::reconcile::probe).
const BATCH_OF_LARGE: usize = 8;
/// Tokens at the end of a request's turns with which the next one begins.
const OVERLAP_OF_REQUESTS: u32 = 200;
/// Most facts of one turn. With three, what a long message says at its end is lost
/// (docs/evaluation.md).
pub const MAX_FACTS_PER_TURN: u32 = 5;

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
        /// Whether facts become the user's global memory instead of the session's.
        global: bool = false,
        /// Whether facts are compared with those of the user's other sessions too. Jobs of 0.2.0 did not.
        other_sessions: bool = false,
        /// Whether markers are detected in the facts.
        detect_markers: bool = true,
        /// The text search configuration of the facts; empty means the server's.
        text_search_config: String = String::new(),
        ungrounded_facts: UngroundedFacts = UngroundedFacts::Unverified,
        statement_check: StatementCheck = StatementCheck::Auto,
        /// Whether a trace tells what became of the turns: they are those of episodes.
        traces: bool = false,
    }

    /// Settings of what becomes of an episode, as the session had them that ended it.
    ReflectionSettings {
        /// Turns from which facts are extracted from an episode by itself.
        min_episode_turns: u32 = 3,
        /// Seconds after which an episode ends; 0 means never.
        episode_gap: i64 = EpisodeSettings::default().gap_seconds,
        /// Those of the extraction from its turns. Rows of 0.2.0 have them among these.
        extraction: Option<ExtractionSettings> = None,
        /// Whether that extraction is also from what an assistant decided.
        assistant_decisions: bool = false,
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
        /// The text search configuration of what is archived; empty means the server's.
        text_search_config: String = String::new(),
    }
}

/// A text search configuration, or the server's for an empty one.
fn or_of_server(configuration: String, server: &str) -> String {
    if configuration.is_empty() { server.to_owned() } else { configuration }
}

impl ExtractionSettings {
    /// The same for a job: numbers of turns within their bounds, and the text search configuration of the
    /// server where there is none.
    #[must_use]
    pub fn for_job(mut self, server: &str) -> Self {
        self.text_search_config = or_of_server(self.text_search_config, server);
        self.extraction_batch = self.extraction_batch.min(30);
        self.extraction_context = self.extraction_context.min(20);
        self
    }
}

/// Most facts that one request to an LLM compares. A small one makes more mistakes with several.
#[must_use]
pub fn compared_at_once(has_passed: bool) -> usize {
    if has_passed { BATCH_OF_LARGE } else { 1 }
}

impl ReflectionSettings {
    /// The settings of the extraction from the turns of episodes; of rows of 0.2.0 those that both kinds have.
    #[must_use]
    pub fn extraction(&self) -> ExtractionSettings {
        let of_row =
            || serde_json::from_value(Value::Object(self.other.clone())).unwrap_or_default();
        let own = self.extraction.clone().unwrap_or_else(of_row);
        ExtractionSettings { traces: true, ..own }
    }

    /// Seconds without a successor after which episodes that are too short are extracted from: two gaps.
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
        let overlap_tokens = OVERLAP_OF_REQUESTS.min(self.chunk_tokens / 2);
        chunk::Limits { max_tokens: self.chunk_tokens, overlap_tokens }
    }

    /// How what is archived is divided into chunks.
    #[must_use]
    pub fn archive_chunks(&self) -> chunk::Limits {
        chunk::Limits {
            max_tokens: self.archive_chunk_tokens,
            overlap_tokens: chunk::OVERLAP_TOKENS,
        }
    }
}
