//! `memory_chat`: a chat with an LLM that remembers.

use crate::api::augment::{self, Asked, augmenting};
use crate::api::prelude::*;
use crate::memory::chat::{Said, converse};
use crate::memory::llm::{self, Llm};
use crate::settings::LlmLimits;
use crate::store::changes::erasures::Erasures;
use memory_agent_core::limits::MODEL_BYTES;
use memory_agent_core::llm::anthropic;

/// The highest temperature that any endpoint takes.
const MAX_TEMPERATURE: f32 = 2.0;

// As 0.2.0 and older versions declare it.
augmenting!(
    memory_chat(; agent_id; model: String, post_process: String, temperature: Fraction, max_tokens: Whole;)
        as User: stored
);
augmenting!(
    memory_chat_storing(; agent_id; model: String, post_process: String, temperature: Fraction, max_tokens: Whole,
                        store: bool;)
        as User: answered
);
augmenting!(
    memory_chat_within(token_budget; ; model: String, post_process: String, temperature: Fraction, max_tokens: Whole,
                       store: bool; agent_id)
        as User: answered
);

fn stored(
    asked: Asked,
    model: Option<String>,
    post_process: Option<String>,
    temperature: Option<Fraction>,
    max_tokens: Option<Whole>,
) -> PgResult<JsonbText> {
    answered(asked, model, post_process, temperature, max_tokens, None)
}

fn answered(
    mut asked: Asked,
    model: Option<String>,
    post_process: Option<String>,
    temperature: Option<Fraction>,
    max_tokens: Option<Whole>,
    store: Option<bool>,
) -> PgResult<JsonbText> {
    let is_stored = store.unwrap_or(true);
    asked.is_traced = is_stored;
    check_post_process(post_process.as_deref())?;
    let mut body = augment::parse(asked.messages.take())?;
    if body.wants_stream() {
        return Err(Error::unsupported(
            "memory_chat cannot stream: SQL returns a value as a whole",
            "Send \"stream\": false, or ask the gateway (docs/gateway.md).",
        ));
    }
    let said = match is_stored {
        true => Some(Said::of(&body.messages, &Content::current())?),
        false => None,
    };
    let options = body.options().map_err(augment::refused)?;
    let model = checked_model(model.or(options.model))?;
    let temperature =
        checked_temperature(temperature.map(|value| value.0).or(options.temperature))?;
    let max_tokens = checked_limit(max_tokens.map(|tokens| tokens.0).or(options.max_tokens))?;
    body.take_options();
    // Before anything costs something: afterwards the answer could not be stored, nor what it cost.
    if !llm::may_write() {
        return Err(Error::read_only(
            "memory_chat stores what was said and what it cost, which a read-only transaction cannot do",
            "Use memory_augment, and call the LLM from the application.",
        ));
    }
    let erasures = roles::as_owner(|| Erasures::known(&asked.caller.user_id))?;
    let limits = LlmLimits::current();
    let limits = LlmLimits { keeps_texts: limits.keeps_texts && is_stored, ..limits };
    let llm = Llm::configured(&erasures, asked.caller.agent(), &limits)?;
    let llm = llm.with_model(&model);
    if !llm.speaks_openai() {
        // Only to know whether it can be done: the model server does it, with the memories.
        let (messages, fields) = (body.messages.clone().into_values(), body.fields.clone());
        anthropic::request(messages, fields).map_err(|reason| {
            Error::unsupported(
                reason.to_string(),
                "Change what it names, or name an endpoint that speaks OpenAI's protocol.",
            )
        })?;
    }
    asked.with_settings(erasures, max_tokens, |wanted| {
        converse(&llm, body, said, wanted, temperature, max_tokens)
    })
}

fn check_post_process(post_process: Option<&str>) -> PgResult<()> {
    match post_process {
        None | Some("background") => Ok(()),
        Some("wait") => Err(Error::unsupported(
            "post_process => 'wait' is not possible: the worker sees the turns only after COMMIT",
            "Leave it out, commit, then call memory_wait().",
        )),
        Some(other) => Err(Error::invalid(
            format!("unknown post_process \"{}\"", beginning(other)),
            "The only value is background; after COMMIT, memory_wait() waits for that work.",
        )),
    }
}

fn beginning(text: &str) -> String {
    text.chars().take(40).collect()
}

/// The name of another model; empty for the configured one.
fn checked_model(model: Option<String>) -> PgResult<String> {
    let model = model.unwrap_or_default();
    if model.len() > MODEL_BYTES || model.chars().any(char::is_control) {
        return Err(Error::invalid(
            format!("model must be a name of at most {MODEL_BYTES} bytes"),
            "Leave it out for memory_agent.llm_model.",
        ));
    }
    Ok(model)
}

fn checked_temperature(temperature: Option<f32>) -> PgResult<Option<f32>> {
    match temperature {
        Some(value) if !(0.0..=MAX_TEMPERATURE).contains(&value) => Err(Error::invalid(
            format!("temperature must be between 0 and {MAX_TEMPERATURE}, not {value}"),
            "Leave it out for the endpoint's own value.",
        )),
        value => Ok(value),
    }
}

/// Most tokens of the answer; 0 when no limit was given.
fn checked_limit(max_tokens: Option<i32>) -> PgResult<u32> {
    match max_tokens {
        None => Ok(0),
        Some(limit) => u32::try_from(limit).ok().filter(|limit| *limit > 0).ok_or_else(|| {
            Error::invalid("max_tokens must be positive", "Leave it out for no limit.")
        }),
    }
}
