//! What is remembered goes into the messages of an application, before the user's last one. Two options ask
//! an LLM, both off by default: rewriting the message into further queries, and leaving out memories that
//! others contradict. Without an answer they do nothing.

use crate::memory::context::block::{Block, SUMMARY_SHARE};
use crate::memory::context::cross_session;
use crate::memory::context::prompt_memory::{self, PromptMemory, Recollection};
use crate::memory::context::tokens::TokenCounter;
use crate::memory::llm::{self, Llm, Question};
use crate::memory::prelude::*;
use crate::memory::recall::echo::Why;
use crate::memory::recall::request::{Arguments, check_top_k};
use crate::pg::error::warn;
use crate::settings::{Effective, MemoryMessage};
use crate::store::changes::erasures::Erasures;
use memory_agent_core::facts::answers::{AnswerFormat, ChatMessage};
use memory_agent_core::facts::contradictions::{self, Recalled};
use memory_agent_core::facts::rewrite::{self, Earlier, MAX_REWRITES};
use memory_agent_core::llm::chat_body::ChatBody;
use memory_agent_core::llm::chat_messages::ChatMessages;
use memory_agent_core::prompt::MESSAGE_OVERHEAD_TOKENS;
use memory_agent_core::prompt::augment::{
    self, MEMORY_HEADER, MESSAGE_HEADER, Memory, SUMMARY_HEADER,
};
use memory_agent_core::prompt::echo::Said;
use memory_agent_core::prompt::fence;
use memory_agent_core::rank::follow_up;

/// Messages before the latest that tell what it is about, and characters of each that a rewrite is told.
const EARLIER_MESSAGES: usize = 6;
const EARLIER_CHARS: usize = 2_000;
/// Characters of the message, and of each memory, that a question to the LLM holds.
const SHOWN_CHARS: usize = 8_000;
/// Most tokens of the LLM's rewrites, and of its verdict on one memory.
const REWRITE_TOKENS: u32 = 400;
const VERDICT_TOKENS: u32 = 30;
/// Tokens of a memory in that question beside its text.
const MEMORY_TOKENS: i64 = 40;
/// Bytes of an ISO date at the beginning of a time.
const DATE_BYTES: usize = 10;

/// A step that asks an LLM.
struct OptionalStep {
    /// In `llm_calls`.
    purpose: &'static str,
    /// What happens without an answer.
    without: &'static str,
}

const REWRITE: OptionalStep =
    OptionalStep { purpose: "rewrite", without: "the message is searched for as it is" };
const CHECK: OptionalStep = OptionalStep {
    purpose: "contradictions",
    without: "memories are not checked against each other",
};

/// Whose memories are asked for, and how; what is `None` is as the settings say.
pub struct Wanted<'a> {
    pub caller: Caller,
    /// Known before anything is read.
    pub erasures: Erasures,
    pub session_id: String,
    pub top_k: Option<i32>,
    pub recency_weight: Option<f32>,
    pub score_threshold: Option<f32>,
    /// Most tokens of all messages, with what is put into them.
    pub budget: i64,
    pub settings: &'a Effective,
}

/// What was put into messages; memories as JSON objects.
#[derive(Default)]
pub struct Put {
    /// The text: before the user's, or of a message. `None` when none was wanted.
    pub block: Option<String>,
    pub has_summary: bool,
    /// The memories in it.
    pub hits: Vec<Value>,
    /// What else was found.
    pub left_out: Vec<Value>,
}

/// Puts what is remembered into the user's last message, or into a system message before it, as far as the
/// budget has room. Without memories and summary, or when none are wanted, nothing changes.
///
/// # Errors
/// 22023 when the messages alone are over the budget, or for a number of memories that no caller can mean.
pub fn put_memories(body: &mut ChatBody, wanted: &Wanted<'_>) -> PgResult<Put> {
    check_top_k(wanted.top_k)?;
    let seen = body.take_seen();
    let (settings, recall) = (&wanted.settings.prompts, &wanted.settings.recall);
    let tokens = TokenCounter::new(settings);
    let overhead = i64::from(MESSAGE_OVERHEAD_TOKENS);
    let texts = body.read_texts();
    let messages = &mut body.messages;
    let said: i64 = tokens.count(texts).into_iter().map(|count| count + overhead).sum();
    if said > wanted.budget {
        return Err(Error::invalid(
            format!("the messages have {said} tokens, the budget is {}", wanted.budget),
            "Send fewer or shorter messages, or raise token_budget or memory_agent.context_limit.",
        ));
    }
    if wanted.top_k.unwrap_or(recall.default_top_k) <= 0 {
        return Ok(Put::default());
    }
    let message = messages.latest_text().unwrap_or_default();
    let original = augment::original_message(&message);
    if original.trim().is_empty() {
        notice!("no message of the user has a text, so no memories are added");
        return Ok(Put::default());
    }
    let rewrites = if settings.query_rewrite {
        rewrites(original, messages, wanted, &tokens)?
    } else {
        Vec::new()
    };
    let mut read = Said::of(messages);
    read.add_values(&seen);
    let before = messages.before_latest(EARLIER_MESSAGES).into_iter().rev();
    let of_user: Vec<String> = before
        .filter(|(role, _)| *role == "user")
        .map(|(_, text)| augment::original_message(&text).to_owned())
        .collect();
    let searched = follow_up::searched(original, of_user.iter().map(String::as_str));
    let Recollection { memories: mut hits, mut untold } =
        recalled(searched, read, rewrites, wanted, &tokens)?;
    if settings.read_contradiction_check && hits.len() > 1 {
        hits = without_contradicted(hits, wanted, &tokens)?;
    }
    let earlier = cross_session::find(
        original,
        &wanted.session_id,
        &wanted.caller,
        wanted.settings,
        &tokens,
    )?;
    hits.retain(|hit| {
        let is_covered = cross_session::covers(&earlier, hit);
        untold.extend(hit.untold(Why::Repeated).filter(|_| is_covered));
        !is_covered
    });
    // As memories, which are told as they are or not at all.
    hits.extend(earlier.into_iter().map(PromptMemory::into_memory));
    let summary = prompt_memory::summary(&wanted.key(), recall.prompt_stale_sources, &tokens)?;
    let left = wanted.budget - said;
    let all = hits.iter().filter_map(|hit| hit.untold(Why::Budget)).collect();
    let Told { block, has_summary, hits } = match settings.memory_message {
        MemoryMessage::User => {
            // The message itself is counted again, with what is before it.
            let room = left + tokens.count_one(&message);
            let told = fitting(summary, hits, Some(original), room, &tokens);
            let block = &told.block;
            messages.edit_latest(|first| format!("{block}{}", augment::original_message(first)));
            told
        }
        MemoryMessage::System => {
            let told = fitting(summary, hits, None, left - overhead, &tokens);
            if original != message {
                messages.edit_latest(|first| augment::original_message(first).to_owned());
            }
            if !told.block.is_empty() {
                messages.insert_system(told.block.clone());
            }
            told
        }
    };
    untold.extend(prompt_memory::without_room(all, &hits));
    Ok(Put {
        block: Some(block),
        has_summary,
        hits: hits.iter().map(PromptMemory::to_json).collect(),
        left_out: prompt_memory::untold_to_json(&untold),
    })
}

/// As much of what is remembered as has room.
struct Told {
    block: String,
    has_summary: bool,
    hits: Vec<PromptMemory>,
}

/// What fits into the room: with the message, if it stands before one.
fn fitting(
    summary: Option<(String, String)>,
    mut hits: Vec<PromptMemory>,
    message: Option<&str>,
    room: i64,
    tokens: &TokenCounter,
) -> Told {
    prompt_memory::facts_first(&mut hits);
    let (summary, outdated) = summary
        .map_or((None, String::new()), |(text, tail)| (Some(augment::marked(&text, &[])), tail));
    let fits =
        |block: &str| tokens.count_one(&format!("{block}{}", message.unwrap_or_default())) <= room;
    let whole = summary.as_ref().map(|text| format!("{text}{outdated}"));
    let text = told(whole.as_deref(), &hits, message.is_some());
    if fits(&text) {
        return Told { block: text, has_summary: whole.is_some(), hits };
    }
    let tail = message.map(|message| format!("\n\n{MESSAGE_HEADER} {message}"));
    let left = room - tail.map_or(0, |tail| tokens.count_one(&tail));
    let block = |heading| Block { heading, overhead: 0, tokens };
    let share = (left as f64 * SUMMARY_SHARE) as i64;
    let (mut summary, cost) = summary
        .and_then(|text| block(SUMMARY_HEADER).fit_text(&text, &outdated, share))
        .map_or((None, 0), |(text, cost)| (Some(format!("{text}{outdated}")), cost));
    // Both blocks stand in one fence.
    let shared = if summary.is_some() { tokens.count_one(&fence::fenced("")) } else { 0 };
    (hits, _) = block(MEMORY_HEADER).fit(hits, left - cost + shared);
    // Where joining the blocks costs a token more, one more goes.
    loop {
        let text = told(summary.as_deref(), &hits, message.is_some());
        let is_bare = hits.is_empty() && summary.is_none();
        if is_bare || fits(&text) {
            return Told { block: text, has_summary: summary.is_some(), hits };
        }
        if hits.pop().is_none() {
            summary = None;
        }
    }
}

fn told(summary: Option<&str>, hits: &[PromptMemory], is_before_message: bool) -> String {
    let memories: Vec<Memory<'_>> = hits.iter().map(PromptMemory::told).collect();
    match is_before_message {
        true => augment::before_message(summary, &memories),
        false => augment::remembered(summary, &memories).unwrap_or_default(),
    }
}

impl Wanted<'_> {
    pub fn key(&self) -> SessionKey {
        SessionKey::of(&self.caller, self.session_id.clone())
    }

    /// Tokens of the longest question that leaves this many for its answer.
    fn room(&self, answer: u32) -> i64 {
        let prompts = &self.settings.prompts;
        let beside_answer = i64::from(prompts.context_limit) - i64::from(answer);
        i64::from(prompts.longest()).min(beside_answer)
    }
}

/// The memories that the query and its rewrites find, beside what was said in the request.
fn recalled(
    query: String,
    said: Said,
    rewrites: Vec<String>,
    wanted: &Wanted<'_>,
    tokens: &TokenCounter,
) -> PgResult<Recollection> {
    let arguments = Arguments {
        query: Some(query),
        session_id: Some(wanted.session_id.clone()),
        top_k: wanted.top_k,
        recency_weight: wanted.recency_weight,
        score_threshold: wanted.score_threshold,
        rewrites: Some(rewrites.into_iter().map(Some).collect()),
        for_prompt: true,
        ..Arguments::default()
    };
    let mut request = arguments.check(wanted.caller.clone(), wanted.settings)?;
    request.said = Some(said);
    prompt_memory::recalled(&request, &wanted.settings.prompts, tokens)
}

/// Further wordings of the message, as an LLM words them. Of what was said before it is shown the newest that it
/// can read, and a message that it cannot read is searched for as it is.
fn rewrites(
    message: &str,
    messages: &ChatMessages,
    wanted: &Wanted<'_>,
    tokens: &TokenCounter,
) -> PgResult<Vec<String>> {
    let message = beginning(message, SHOWN_CHARS);
    let said: Vec<(&str, String)> = messages
        .before_latest(EARLIER_MESSAGES)
        .into_iter()
        .map(|(role, text)| {
            (role, beginning(augment::original_message(&text), EARLIER_CHARS).to_owned())
        })
        .collect();
    let earlier: Vec<Earlier<'_>> =
        said.iter().map(|(role, text)| Earlier { role, text }).collect();
    let room = wanted.room(REWRITE_TOKENS);
    let with = |earlier: &[Earlier<'_>]| rewrite::messages(message, earlier, MAX_REWRITES);
    let questions = (0..=earlier.len()).map(|from| with(&earlier[from..]));
    let Some(question) = questions.into_iter().find(|question| cost(question, tokens) <= room)
    else {
        warn(
            format!("{}: it is too long for a question to the LLM", REWRITE.without),
            "Raise memory_agent.context_limit, or switch the option off.",
        );
        return Ok(Vec::new());
    };
    let format = AnswerFormat::Rewrites { max: MAX_REWRITES };
    let question =
        Question { messages: question, answer: format, max_answer_tokens: REWRITE_TOKENS };
    let answer = ask(&REWRITE, question, wanted)?;
    Ok(answer
        .and_then(|answer| rewrite::parse(&answer, message, MAX_REWRITES).ok())
        .unwrap_or_default())
}

/// The hits without those that an LLM says others contradict. It is asked about as many as it can read, the best
/// first; the others are kept.
fn without_contradicted(
    mut hits: Vec<PromptMemory>,
    wanted: &Wanted<'_>,
    tokens: &TokenCounter,
) -> PgResult<Vec<PromptMemory>> {
    let texts = hits.iter().map(|hit| json!(beginning(hit.text(), SHOWN_CHARS)).to_string());
    let counts = tokens.count(texts.collect());
    let mut room = wanted.room(100) - cost(&contradictions::messages(&[]), tokens);
    let fitting = counts.into_iter().take_while(|count| {
        room -= count + MEMORY_TOKENS + i64::from(VERDICT_TOKENS);
        room >= 0
    });
    let unread = hits.split_off(fitting.count());
    if hits.len() < 2 {
        hits.extend(unread);
        return Ok(hits);
    }
    let dates: Vec<String> = hits
        .iter()
        .map(|hit| hit.created_at.to_iso_string().chars().take(DATE_BYTES).collect())
        .collect();
    let memories: Vec<Recalled<'_>> = hits
        .iter()
        .zip(&dates)
        .map(|(hit, since)| Recalled {
            role: &hit.role,
            content: beginning(hit.text(), SHOWN_CHARS),
            since,
        })
        .collect();
    let rows = u32::try_from(memories.len()).unwrap_or(u32::MAX);
    let question = contradictions::messages(&memories);
    let question = Question {
        messages: question,
        answer: AnswerFormat::Verdicts { rows },
        max_answer_tokens: VERDICT_TOKENS.saturating_mul(rows).saturating_add(100),
    };
    let answer = ask(&CHECK, question, wanted)?;
    let Some(verdicts) = answer.and_then(|answer| contradictions::parse(&answer, rows).ok()) else {
        hits.extend(unread);
        return Ok(hits);
    };
    let kept = contradictions::kept(&verdicts);
    let mut hits: Vec<Option<PromptMemory>> = hits.into_iter().map(Some).collect();
    let kept = kept.into_iter().filter_map(|at| hits.get_mut(at)?.take());
    Ok(kept.chain(unread).collect())
}

/// What a question costs.
fn cost(question: &[ChatMessage], tokens: &TokenCounter) -> i64 {
    tokens.count(question.iter().map(|message| message.content.clone()).collect()).into_iter().sum()
}

/// The answer to a question of an option; `None`, with a WARNING, when there is none.
fn ask(step: &OptionalStep, question: Question, wanted: &Wanted<'_>) -> PgResult<Option<String>> {
    let limits = &wanted.settings.llm_limits;
    let llm = match Llm::configured(&wanted.erasures, wanted.caller.agent(), limits) {
        Ok(llm) => llm,
        Err(report) => {
            let hint = "Configure an LLM, or switch the option off.";
            warn(format!("{}: {}", step.without, report.message()), hint);
            return Ok(None);
        }
    };
    match llm.ask(&wanted.caller.user_id, step.purpose, question)?.result {
        Ok(answer) => Ok(Some(answer.text)),
        Err(failure) => {
            warn(format!("{}: {}", step.without, failure.message), llm::hint(failure.kind));
            Ok(None)
        }
    }
}

fn beginning(text: &str, most: usize) -> &str {
    text.char_indices().nth(most).map_or(text, |(end, _)| &text[..end])
}
