//! The kinds of jobs and who does them. A kind is named in `memory_agent_core::jobs`; every match over
//! kinds is here, in its methods or in the loop, and names each of them.

use crate::jobs::attach::AttachTask;
use crate::jobs::embed::EmbedTask;
use crate::jobs::evict;
use crate::jobs::exchange::{Llm, LlmTask, Start, Taken};
use crate::jobs::extract::ExtractTask;
use crate::jobs::prelude::*;
use crate::jobs::reembed::ReembedTask;
use crate::jobs::reflect;
use crate::jobs::reindex::ReindexTask;
use crate::jobs::step::StepTask;
use crate::jobs::summarize::SummaryTask;
use crate::memory::scope::endpoints::Chosen;
use memory_agent_model_server::protocol::Endpoint;

/// A task that asks an LLM, with what it waits for.
pub type Started = (Box<dyn LlmTask>, Taken);

/// How a claimed job begins.
pub enum Begin {
    /// It asks an LLM, and waits for answers.
    Asking(fn(Job, &mut Llm<'_>) -> Started),
    /// It is done in steps, between those of others.
    Stepping(fn(Job) -> Box<dyn StepTask>),
    /// It is done at once.
    AtOnce(fn(&Job) -> Result<(), Aborted>),
}

pub fn begin(kind: JobKind) -> Begin {
    match kind {
        JobKind::Extract => Begin::Asking(start::<ExtractTask>),
        JobKind::Summarize | JobKind::Compress => Begin::Asking(start::<SummaryTask>),
        JobKind::Embed => Begin::Stepping(|job| Box::new(EmbedTask::start(job))),
        JobKind::Reembed => Begin::Stepping(|job| Box::new(ReembedTask::start(job))),
        JobKind::Attach => Begin::Stepping(|job| Box::new(AttachTask::start(job))),
        JobKind::Reindex => Begin::Stepping(|job| Box::new(ReindexTask::start(job))),
        JobKind::Reflect => Begin::AtOnce(reflect::hand_over),
        JobKind::Evict => Begin::AtOnce(evict::step),
    }
}

fn start<T: Start + 'static>(job: Job, llm: &mut Llm<'_>) -> Started {
    let (task, progress) = T::start(job, llm);
    (Box::new(task), progress)
}

/// The endpoint that jobs of a kind ask for an agent.
///
/// # Errors
/// Why no LLM can be asked.
pub fn asked(kind: JobKind, chosen: &Chosen) -> Result<Endpoint, String> {
    match kind {
        JobKind::Extract => chosen.endpoint(),
        JobKind::Summarize | JobKind::Compress => chosen.endpoint_of_summaries(),
        JobKind::Reflect
        | JobKind::Embed
        | JobKind::Evict
        | JobKind::Reembed
        | JobKind::Attach
        | JobKind::Reindex => Err("jobs of this kind ask no LLM".to_owned()),
    }
}
