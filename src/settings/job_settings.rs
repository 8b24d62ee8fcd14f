//! What a job keeps of the settings of the session that queued it, as this session has them. They travel
//! in the job's payload.

use crate::settings::values::natural;
use crate::settings::{FactScopeChoice, SessionRecall, StatementChoice, UngroundedChoice, guc};
use memory_agent_core::jobs::session_settings::{
    ExtractionSettings, ReflectionSettings, StatementCheck, SummarySettings, UngroundedFacts,
};
use serde_json::Map;

pub fn extraction() -> ExtractionSettings {
    ExtractionSettings {
        extraction_batch: natural(guc::extraction_batch()),
        extraction_context: natural(guc::extraction_context()),
        global: guc::fact_scope() == FactScopeChoice::Global,
        other_sessions: guc::session_recall() == SessionRecall::User,
        detect_markers: guc::auto_detect_markers(),
        text_search_config: guc::text_search_config(),
        ungrounded_facts: ungrounded_facts(),
        statement_check: statement_check(),
        traces: false,
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

fn statement_check() -> StatementCheck {
    match guc::statement_check() {
        StatementChoice::Off => StatementCheck::Off,
        StatementChoice::On => StatementCheck::On,
        StatementChoice::Auto => StatementCheck::Auto,
    }
}

pub fn reflection() -> ReflectionSettings {
    ReflectionSettings {
        min_episode_turns: natural(guc::min_episode_turns()),
        episode_gap: i64::from(guc::episode_gap()),
        extraction: Some(extraction()),
        assistant_decisions: guc::assistant_decisions(),
        other: Map::new(),
    }
}

pub fn summary() -> SummarySettings {
    SummarySettings {
        summarization: guc::summarization(),
        min_tokens: natural(guc::summary_min_tokens()),
        chunk_tokens: natural(guc::summary_chunk_tokens()),
        compression: guc::compression(),
        threshold: natural(guc::compression_threshold_tokens()),
        keep: natural(guc::recent_messages_to_keep()),
        archives: guc::archive_conversations(),
        archive_chunk_tokens: natural(guc::chunk_tokens()),
        text_search_config: guc::text_search_config(),
        other: Map::new(),
    }
}
