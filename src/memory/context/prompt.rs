//! A prompt within a token budget. Claims are served in this order: the current message, the session's summary
//! (at most a quarter), recalled memories and archived conversations (at most a quarter together), the newest
//! turns of the session with the rest. Nothing is there twice, and nothing is written.

use crate::memory::context::block::{Block, SUMMARY_SHARE};
use crate::memory::context::cross_session;
use crate::memory::context::prompt_memory::{self, PromptMemory, Recollection};
use crate::memory::context::tokens::TokenCounter;
use crate::memory::context::window::{self, Window};
use crate::memory::prelude::*;
use crate::memory::recall::echo::Why;
use crate::memory::recall::request::{Arguments, Request};
use crate::settings::Effective;
use crate::store::rows::entries::WindowTurn;
use memory_agent_core::prompt::MESSAGE_OVERHEAD_TOKENS;
use memory_agent_core::prompt::augment::{MEMORY_HEADER, SUMMARY_HEADER};
use memory_agent_core::prompt::echo::Said;
use memory_agent_core::rank::follow_up;

/// Most of the budget that memories and archived conversations may take.
const MEMORY_SHARE: f64 = 0.25;
/// Memories that are reranked, before what does not fit and what the window shows is dropped: as many
/// as the share holds if they are short, within these bounds. Reranking is most of the time of a
/// context and grows with them.
const FEWEST_CANDIDATES: i64 = 20;
const MOST_CANDIDATES: i64 = 50;
const SHORT_MEMORY_TOKENS: i64 = 20;
/// What stands above archived conversations in their system message.
const EARLIER_HEADING: &str = "From earlier conversations:";

/// Whether a memory is this turn, or repeats it word for word.
fn repeats(memory: &PromptMemory, turn: &WindowTurn) -> bool {
    memory.id == turn.id || memory.content == turn.content
}

/// What a prompt is made for.
pub struct Wanted<'a> {
    pub key: SessionKey,
    pub query: String,
    pub caller: Caller,
    /// Most tokens of the prompt.
    pub budget: i64,
    pub settings: &'a Effective,
}

impl Wanted<'_> {
    /// Serves the claims one after the other.
    pub fn fill(&self) -> PgResult<Value> {
        let settings = self.settings;
        let tokens = &TokenCounter::new(&settings.prompts);
        let overhead = i64::from(MESSAGE_OVERHEAD_TOKENS);
        let current = tokens.count_one(&self.query) + overhead;
        if current > self.budget {
            return Err(Error::invalid(
                format!("the current message has {current} tokens, the budget is {}", self.budget),
                "Raise token_budget or memory_agent.context_limit, or shorten the message.",
            ));
        }
        let mut left = self.budget - current;

        let summary_block = Block { heading: SUMMARY_HEADER, overhead, tokens };
        let stale_sources = settings.recall.prompt_stale_sources;
        let (text, outdated) =
            prompt_memory::summary(&self.key, stale_sources, tokens)?.unwrap_or_default();
        let (summary, cost) = match text.as_str() {
            "" => None,
            text => summary_block.fit_text(text, &outdated, self.share(SUMMARY_SHARE, left)),
        }
        .map_or((None, 0), |(text, cost)| (Some(text), cost));
        left -= cost;

        let share = self.share(MEMORY_SHARE, left);
        let mut request = self.request()?;
        let window = Window::read(&self.key, &request, left, tokens)?;
        request.query = follow_up::searched(&self.query, window.said.iter().map(String::as_str));
        let Recollection { mut memories, mut untold } =
            prompt_memory::recalled(&request, &settings.prompts, tokens)?;
        let earlier =
            cross_session::find(&self.query, &self.key.session_id, &self.caller, settings, tokens)?;
        // The window that is certain, whatever the memories take, shows its turns itself.
        let certain = window.fitting(|_| false, left - share, overhead);
        memories.retain(|memory| {
            let is_shown = certain.iter().any(|turn| repeats(memory, turn));
            untold.extend(memory.untold(Why::Repeated).filter(|_| is_shown));
            !is_shown
        });
        memories.retain(|memory| {
            let is_covered = cross_session::covers(&earlier, memory);
            untold.extend(memory.untold(Why::Repeated).filter(|_| is_covered));
            !is_covered
        });

        let memory_block = Block { heading: MEMORY_HEADER, overhead, tokens };
        let earlier_block = Block { heading: EARLIER_HEADING, overhead, tokens };
        // Each is sure of one half, and takes what the other leaves.
        let (_, cost) = earlier_block.fit(earlier.clone(), share / 2);
        let all = memories.iter().filter_map(|memory| memory.untold(Why::Budget)).collect();
        let (memories, memory_cost) = memory_block.fit(memories, share - cost);
        untold.extend(prompt_memory::without_room(all, &memories));
        let (earlier, earlier_cost) = earlier_block.fit(earlier, share - memory_cost);
        left -= memory_cost + earlier_cost;
        // Older turns get what is left; those among the memories are passed over.
        let shown = window.fitting(
            |turn| memories.iter().any(|memory| repeats(memory, turn)),
            left,
            overhead,
        );
        left -= shown.iter().map(|turn| i64::from(turn.token_count) + overhead).sum::<i64>();

        let summary_message =
            summary.as_ref().map(|text| summary_block.below_heading(text, &outdated));
        let told = [summary_message, memory_block.text(&memories), earlier_block.text(&earlier)];
        let mut messages: Vec<Value> = told
            .into_iter()
            .flatten()
            .map(|content| json!({"role": "system", "content": content}))
            .collect();
        messages.extend(shown.into_iter().rev().map(window::message));
        messages.push(json!({"role": "user", "content": self.query}));
        Ok(json!({
            "messages": messages,
            "summary": summary,
            "memories": memories.iter().map(PromptMemory::to_json).collect::<Vec<_>>(),
            "cross_session": earlier.iter().map(part_to_json).collect::<Vec<_>>(),
            "left_out": prompt_memory::untold_to_json(&untold),
            "token_count": self.budget - left,
        }))
    }

    /// A share of the budget, as far as it is left.
    fn share(&self, of: f64, left: i64) -> i64 {
        ((self.budget as f64 * of) as i64).min(left)
    }

    /// The recall of its memories.
    fn request(&self) -> PgResult<Request> {
        let candidates = (self.share(MEMORY_SHARE, self.budget) / SHORT_MEMORY_TOKENS)
            .clamp(FEWEST_CANDIDATES, MOST_CANDIDATES);
        let mut request = Arguments {
            query: Some(self.query.clone()),
            session_id: Some(self.key.session_id.clone()),
            top_k: Some(candidates as i32),
            for_prompt: true,
            ..Arguments::default()
        }
        .check(self.caller.clone(), self.settings)?;
        request.settings.max_candidates = request.settings.max_candidates.min(candidates as usize);
        let mut said = Said::default();
        said.add("user", &self.query);
        request.said = Some(said);
        Ok(request)
    }
}

/// A part of an archived conversation as results list it.
fn part_to_json(part: &PromptMemory) -> Value {
    let mut listed = part.to_json();
    if let Some(held) = &part.held {
        listed["agent_id"] = json!(held.agent_id);
    }
    listed["similarity"] = json!(part.similarity);
    listed
}
