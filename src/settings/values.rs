//! Settings as values, by theme. A call reads them once where it begins, and passes them down; the worker reads them
//! anew for each step, so that a reload works. A field has its setting's name (docs/settings.md), and the type and
//! unit that its readers need.

use crate::settings::guc::{self, choices::*};
use memory_agent_core::condense::chunk;
use memory_agent_core::facts::episodes::EpisodeSettings;
use memory_agent_core::prompt::CONTEXT_MARGIN;
use memory_agent_core::wire::protocol::Encoding;
use std::time::Duration;

/// Declares themes, each with `current()`.
macro_rules! values {
    ($($(#[$doc:meta])* $theme:ident { $($field:ident: $type:ty = $value:expr,)* })*) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $theme { $(pub $field: $type,)* }

        impl $theme {
            /// As they are now: on the level of settings that was entered last.
            pub fn current() -> Self {
                Self { $($field: $value,)* }
            }
        }
    )* };
}

values! {
    /// Who a session says it speaks for.
    Identity {
        mode: IdentityMode = guc::identity(),
        user_id: Option<String> = given(guc::user_id()),
        agent_id: Option<String> = given(guc::agent_id()),
    }

    /// What a text may be, and what is made of it when it is stored.
    Content {
        max_content_bytes: usize = size(guc::content_limit()),
        auto_detect_markers: bool = guc::auto_detect_markers(),
        default_ttl_seconds: u32 = natural(guc::default_ttl()),
        secrets: Secrets = guc::secrets(),
        secret_phrases: bool = guc::secret_phrases(),
        text_search_config: String = guc::text_search_config(),
        embed_on_ingest: EmbedOnIngest = guc::embed_on_ingest(),
        chunks: chunk::Limits = chunk::Limits {
            max_tokens: natural(guc::chunk_tokens()),
            overlap_tokens: chunk::OVERLAP_TOKENS,
        },
    }

    /// How the turns of a session are kept together, and what follows from them.
    Sessions {
        episodes: EpisodeSettings = EpisodeSettings {
            max_turns: natural(guc::episode_max_turns()),
            gap_seconds: i64::from(guc::episode_gap()),
        },
        episode_gap: Duration = seconds(guc::episode_gap()),
        extraction: Extraction = guc::extraction(),
        assistant_decisions: bool = guc::assistant_decisions(),
        max_entries: i64 = i64::from(guc::max_entries()),
        purge_after: Duration = seconds(guc::purge_after()),
        archive_idle_after: Duration = seconds(guc::archive_idle_after()),
        summary_min_tokens: i64 = i64::from(guc::summary_min_tokens()),
    }

    /// How candidates are searched for.
    Search {
        exact_scan_rows: usize = size(guc::exact_scan_rows()),
        neighbor_weight: f64 = guc::neighbor_weight(),
        text_search_config: String = guc::text_search_config(),
        server_text_search_config: String = guc::server_text_search_config(),
    }

    /// How what was found is ranked and shown. `None` is what the form of the ranking has as its own.
    Recall {
        default_top_k: i32 = guc::default_top_k(),
        dense_weight: f64 = guc::dense_weight(),
        ranking: RankingForm = guc::ranking(),
        recency_weight: Option<f64> = chosen(guc::recency_weight()),
        score_threshold: Option<f64> = chosen(guc::score_threshold()),
        rerank: bool = guc::rerank(),
        rerank_rows: usize = size(guc::rerank_rows()),
        marker_weight: f64 = guc::marker_weight(),
        stale_sources: StaleSources = guc::stale_sources(),
        session_recall: SessionRecall = guc::session_recall(),
        prompt_stale_sources: PromptStaleSources = guc::prompt_stale_sources(),
    }

    /// How prompts are made. Budgets and limits are in tokens.
    Prompts {
        prompt_metadata: String = guc::prompt_metadata(),
        memory_tokens: u32 = natural(guc::memory_tokens()),
        context_limit: u32 = natural(guc::context_limit()),
        memory_message: MemoryMessage = guc::memory_message(),
        prompt_tokenizer: Encoding = match guc::prompt_tokenizer() {
            PromptTokenizer::Cl100k => Encoding::Cl100k,
            PromptTokenizer::O200k => Encoding::O200k,
        },
        query_rewrite: bool = guc::query_rewrite(),
        read_contradiction_check: bool = guc::read_contradiction_check(),
        cross_session: bool = guc::cross_session(),
        cross_session_agents: CrossSessionAgents = guc::cross_session_agents(),
        cross_session_triggers: String = guc::cross_session_triggers(),
        relevance_threshold: Option<f64> = chosen(guc::relevance_threshold()),
    }

    /// The background workers.
    Workers {
        worker: bool = guc::worker(),
        job_workers: u32 = natural(guc::job_workers()),
        max_workers: usize = size(guc::max_workers()),
        sweep_interval: Duration = seconds(guc::sweep_interval()),
    }

    /// How the LLM is asked, and what is kept of it.
    LlmLimits {
        answer_tokens: u32 = natural(guc::llm_answer_tokens()),
        max_attempts: i32 = guc::llm_max_attempts(),
        concurrency: usize = size(guc::llm_concurrency()),
        keeps_texts: bool = guc::trace() == Trace::Calls,
    }

    /// Where models run, and which are used where no other was activated. Empty paths are those of the
    /// installation.
    Models {
        inference: Inference = guc::inference(),
        inference_threads: usize = size(guc::inference_threads()),
        inference_timeout: Duration = Duration::from_millis(natural(guc::inference_timeout()).into()),
        embedding_model: String = guc::embedding_model(),
        embedding_base_url: String = guc::embedding_base_url(),
        rerank_model: String = guc::rerank_model(),
        model_dir: String = guc::model_dir(),
        language_dir: String = guc::language_dir(),
        model_server_path: String = guc::model_server_path(),
        onnxruntime_path: String = guc::onnxruntime_path(),
    }
}

impl Prompts {
    /// Tokens of the longest prompt.
    pub fn longest(&self) -> u32 {
        (f64::from(self.context_limit) * (1.0 - CONTEXT_MARGIN)).floor() as u32
    }
}

pub(super) fn natural(value: i32) -> u32 {
    value.max(0).unsigned_abs()
}

fn size(value: i32) -> usize {
    natural(value) as usize
}

fn seconds(value: i32) -> Duration {
    Duration::from_secs(natural(value).into())
}

/// A number of which negative ones mean that it is not set.
fn chosen(value: f64) -> Option<f64> {
    (value >= 0.0).then_some(value)
}

fn given(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}
