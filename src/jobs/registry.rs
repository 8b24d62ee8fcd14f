//! The kinds of jobs and who does them. A kind is named in `memory_agent_core::jobs`; every match over
//! kinds is here, in its methods or in the loop, and names each of them.

use crate::jobs::exchange::{Llm, LlmTask, Start, Taken};
use crate::jobs::extract::ExtractTask;
use crate::jobs::prelude::*;
use crate::jobs::reflect::ReflectTask;
use crate::jobs::summarize::SummaryTask;
use crate::memory::endpoints::Chosen;
use memory_agent_model_server::protocol::Endpoint;

/// A task that asks an LLM, with what it waits for.
pub type Started = (Box<dyn LlmTask>, Taken);

/// How jobs of a kind begin that ask an LLM; `None` for the others.
pub fn asking(kind: JobKind) -> Option<fn(Job, &mut Llm<'_>) -> Started> {
    match kind {
        JobKind::Extract => Some(start::<ExtractTask>),
        JobKind::Reflect => Some(start::<ReflectTask>),
        JobKind::Summarize | JobKind::Compress => Some(start::<SummaryTask>),
        JobKind::Embed | JobKind::Evict | JobKind::Reembed | JobKind::Attach => None,
    }
}

fn start<T: Start + 'static>(job: Job, llm: &mut Llm<'_>) -> Started {
    let (task, progress) = T::start(job, llm);
    (Box::new(task), progress)
}

/// Whom jobs of a kind ask for an agent.
///
/// # Errors
/// Why no LLM can be asked.
pub fn asked(kind: JobKind, chosen: &Chosen) -> Result<Endpoint, String> {
    match kind {
        JobKind::Extract | JobKind::Reflect => chosen.endpoint(),
        JobKind::Summarize | JobKind::Compress => chosen.endpoint_of_summaries(),
        JobKind::Embed | JobKind::Evict | JobKind::Reembed | JobKind::Attach => {
            Err("jobs of this kind ask no LLM".to_owned())
        }
    }
}
