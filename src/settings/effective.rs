//! Everything that settings say about the memory of one agent and session, as values.

use crate::settings::job_settings;
use crate::settings::{Content, LlmLimits, Prompts, Recall, Search, Sessions};
use memory_agent_core::jobs::session_settings::{
    ExtractionSettings, ReflectionSettings, SummarySettings,
};

/// The settings in effect. A call, or a step of a job, reads them once for the agent and session that it is about
/// (`memory::scope::scope_settings`), and passes them down.
#[derive(Clone, Debug)]
pub struct Effective {
    pub content: Content,
    pub sessions: Sessions,
    pub search: Search,
    pub recall: Recall,
    pub prompts: Prompts,
    pub llm_limits: LlmLimits,
    /// What the jobs keep that are queued now.
    pub extraction: ExtractionSettings,
    pub reflection: ReflectionSettings,
    pub summary: SummarySettings,
}

impl Effective {
    /// As they are now: on the level of settings that was entered last.
    pub fn current() -> Self {
        Self {
            content: Content::current(),
            sessions: Sessions::current(),
            search: Search::current(),
            recall: Recall::current(),
            prompts: Prompts::current(),
            llm_limits: LlmLimits::current(),
            extraction: job_settings::extraction(),
            reflection: job_settings::reflection(),
            summary: job_settings::summary(),
        }
    }
}
