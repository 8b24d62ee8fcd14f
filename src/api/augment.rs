//! `memory_augment`: the user's last message with what is remembered put before it, for an
//! application that calls its LLM itself. Two options ask an LLM, both off by default: rewriting the
//! message into further queries, and leaving out memories that others contradict. Without an answer
//! they do nothing. `memory_augment_block`: the same text alone, for an application that puts it into a
//! request that it does not want to be written anew, as the gateway does.

use crate::api::prelude::*;
use crate::api::prompt_limit;
use crate::memory::chat::augment::{Put, Wanted, put_memories};
use crate::store::changes::erasures::Erasures;
use memory_agent_core::llm::chat_body::ChatBody;
use serde_json::{Value, json};
use std::borrow::Cow;

/// The session of a call that names none.
const DEFAULT_SESSION: &str = "default";

/// What is asked of `memory_augment`, and of `memory_chat` among other things.
pub struct Asked {
    pub caller: Caller,
    pub messages: Option<JsonbText>,
    pub token_budget: Option<i32>,
    pub session_id: String,
    pub top_k: Option<i32>,
    pub recency_weight: Option<f32>,
    pub score_threshold: Option<f32>,
    /// Whether `memory_agent.trace` may keep the texts of the calls of LLMs.
    pub is_traced: bool,
}

impl Asked {
    /// Runs `body` with the settings of the session, for a prompt that leaves room for an answer.
    pub fn with_settings<T>(
        self,
        erasures: Erasures,
        answer_tokens: u32,
        body: impl FnOnce(&Wanted<'_>) -> PgResult<T>,
    ) -> PgResult<T> {
        let Self {
            caller,
            token_budget,
            session_id,
            top_k,
            recency_weight,
            score_threshold,
            is_traced,
            ..
        } = self;
        scope_settings::scoped(&caller.clone(), Some(&session_id.clone()), |settings| {
            let mut settings = Cow::Borrowed(settings);
            if !is_traced {
                settings.to_mut().llm_limits.keeps_texts = false;
            }
            let settings = &*settings;
            let budget = prompt_limit::budget(token_budget, answer_tokens, &settings.prompts)?;
            body(&Wanted {
                caller,
                erasures,
                session_id,
                top_k,
                recency_weight,
                score_threshold,
                budget,
                settings,
            })
        })
    }
}

/// Declares a function with the arguments of `memory_augment`, with or without a budget, and options of its own. It
/// gives them to another one. The agent is at its place, or with a budget the last one: so no call fits both.
macro_rules! augmenting {
    ($function:ident($($budget:ident)?; $($agent:ident)?; $($option:ident: $type:ident),*; $($last:ident)?) as $level:ident: $answer:ident) => {
        #[pg_extern(sql = false)]
        fn $function(
            _limits: WithinLimits,
            messages: Option<JsonbText>,
            $($budget: Option<Whole>,)?
            session_id: Option<String>,
            user_id: Option<String>,
            $($agent: Option<String>,)?
            top_k: Option<Whole>,
            recency_weight: Option<Fraction>,
            score_threshold: Option<Fraction>,
            $($option: Option<$type>,)*
            $($last: Option<String>,)?
        ) -> PgResult<JsonbText> {
            let agent_id = $($agent)? $($last)?;
            let asked = $crate::api::augment::Asked {
                caller: identity::resolve(user_id.as_deref(), agent_id.as_deref(), Level::$level)?,
                messages,
                token_budget: None$(.or($budget))?.map(|tokens: Whole| tokens.0),
                session_id: $crate::api::augment::session_of(session_id)?,
                top_k: top_k.map(|rows| rows.0),
                recency_weight: recency_weight.map(|weight| weight.0),
                score_threshold: score_threshold.map(|score| score.0),
                is_traced: true,
            };
            $answer(asked, $($option),*)
        }
    };
}
pub(super) use augmenting;

augmenting!(memory_augment(; agent_id; ;) as Reader: augmented);
augmenting!(memory_augment_within(token_budget; ; ; agent_id) as Reader: augmented);
augmenting!(memory_augment_block(; agent_id; ;) as Reader: block);

fn augmented(asked: Asked) -> PgResult<JsonbText> {
    let (body, put) = put(asked)?;
    let mut document = body.into_fields();
    document.insert("memory_hits".to_owned(), put.hits.into());
    document.insert("left_out".to_owned(), put.left_out.into());
    Ok(JsonbText(Value::from(document).to_string()))
}

fn block(asked: Asked) -> PgResult<JsonbText> {
    let Put { block, has_summary, hits, left_out } = put(asked)?.1;
    let document = json!({
        "block": block, "has_summary": has_summary, "memory_hits": hits, "left_out": left_out,
    });
    Ok(JsonbText(document.to_string()))
}

fn put(mut asked: Asked) -> PgResult<(ChatBody, Put)> {
    let mut body = parse(asked.messages.take())?;
    let answer_tokens = body.options().map_err(refused)?.max_tokens.unwrap_or(0).max(0);
    let erasures = roles::as_owner(|| Erasures::known(&asked.caller.user_id))?;
    let put = |wanted: &Wanted<'_>| put_memories(&mut body, wanted);
    let put = asked.with_settings(erasures, answer_tokens.unsigned_abs(), put)?;
    Ok((body, put))
}

/// The session that an argument names.
pub fn session_of(session_id: Option<String>) -> PgResult<String> {
    let session_id = session_id.unwrap_or_else(|| DEFAULT_SESSION.to_owned());
    entry::validate_session_id(&session_id).map_err(Error::refused)?;
    Ok(session_id)
}

/// Reads messages in OpenAI's format, or a request with them.
pub fn parse(messages: Option<JsonbText>) -> PgResult<ChatBody> {
    let text = messages.map_or_else(|| "null".to_owned(), |messages| messages.0);
    let value: Value = serde_json::from_str(&text)
        .map_err(|error| refused(format!("messages cannot be read: {error}")))?;
    ChatBody::parse(value).map_err(refused)
}

/// The error of malformed messages, or of a malformed request.
pub fn refused(reason: impl std::fmt::Display) -> ErrorReport {
    Error::invalid(
        reason.to_string(),
        "Example: [{\"role\": \"user\", \"content\": \"Where do I live?\"}], or {\"messages\": [...], ...}.",
    )
}
