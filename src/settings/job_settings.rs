//! What a job keeps of the settings of the session that queued it, as this session has them. They travel
//! in the job's payload.

use crate::settings::values::natural;
use crate::settings::{FactScopeChoice, ReplacementChoice, SessionRecall, UngroundedChoice, guc};
use memory_agent_core::jobs::session_settings::{
    ExtractionSettings, ReflectionSettings, ReplacementCheck, SummarySettings, UngroundedFacts,
};
use serde_json::Map;

pub fn extraction() -> ExtractionSettings {
    ExtractionSettings {
        extraction_batch: natural(guc::extraction_batch()),
        extraction_context: natural(guc::extraction_context()),
        max_facts_per_turn: natural(guc::max_facts_per_turn()),
        global: guc::fact_scope() == FactScopeChoice::Global,
        other_sessions: guc::session_recall() == SessionRecall::User,
        dedup_similarity: guc::dedup_similarity(),
        reconcile_similarity: guc::reconcile_similarity(),
        reconcile_batch: natural(guc::reconcile_batch()),
        detect_markers: guc::auto_detect_markers(),
        text_search_config: guc::text_search_config(),
        ungrounded_facts: ungrounded_facts(),
        statement_check: guc::statement_check(),
        replacement_check: replacement_check(),
        other: Map::new(),
    }
}

fn ungrounded_facts() -> UngroundedFacts {
    match guc::ungrounded_facts() {
        UngroundedChoice::Unverified => UngroundedFacts::Unverified,
        UngroundedChoice::Drop => UngroundedFacts::Drop,
        UngroundedChoice::Accept => UngroundedFacts::Accept,
    }
}

fn replacement_check() -> ReplacementCheck {
    match guc::replacement_check() {
        ReplacementChoice::Auto => ReplacementCheck::Auto,
        ReplacementChoice::On => ReplacementCheck::On,
        ReplacementChoice::Off => ReplacementCheck::Off,
    }
}

pub fn reflection() -> ReflectionSettings {
    ReflectionSettings {
        min_episode_turns: natural(guc::min_episode_turns()),
        episode_gap: i64::from(guc::episode_gap()),
        max_facts: natural(guc::max_facts_per_episode()),
        global: guc::fact_scope() == FactScopeChoice::Global,
        other_sessions: guc::session_recall() == SessionRecall::User,
        consolidation_similarity: guc::consolidation_similarity(),
        dedup_similarity: guc::dedup_similarity(),
        detect_markers: guc::auto_detect_markers(),
        text_search_config: guc::text_search_config(),
        ungrounded_facts: ungrounded_facts(),
        replacement_check: replacement_check(),
        extraction: (!guc::reflection()).then(extraction),
        assistant_decisions: guc::assistant_decisions(),
        tool_failures: guc::tool_failures(),
        other: Map::new(),
    }
}

pub fn summary() -> SummarySettings {
    SummarySettings {
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
        text_search_config: guc::text_search_config(),
        other: Map::new(),
    }
}
