//! Questions to the LLM that a user's statement waits for. They go through the model server, so that
//! cancel and statement_timeout end them at once, and with them the HTTP call. What they cost is
//! recorded in `llm_calls` where this transaction may write.

#![allow(unsafe_code)] // reads flags of the transaction

use crate::memory::quotas;
use crate::memory::scope::endpoints::{self, Chosen};
use crate::models::{Failure, client, paths};
use crate::pg::prelude::*;
use crate::settings::LlmLimits;
use crate::settings::providers::NO_LLM;
use crate::store::changes::erasures::Erasures;
use crate::store::llm::llm_calls::{self, Origin, Purpose};
use crate::store::llm::llm_ledger::{self, Spent};
use memory_agent_core::facts::answers::{AnswerFormat, ChatMessage, estimated_tokens};
use memory_agent_core::llm::chat_body::ChatBody;
use memory_agent_model_server::protocol::{
    CallRecord, ChatAnswer, ChatFailure, ChatFailureKind, ChatOutcome, ChatRequest, Conversation,
    Endpoint,
};
use serde_json::{Value, json};
use std::cell::Cell;

/// The LLM that an agent's memory asks.
pub struct Llm {
    chosen: Chosen,
    /// Of the user whose memory is shown to it: what had been erased before it was read.
    erasures: Erasures,
    /// Instead of `memory_agent.llm_model`, unless empty.
    model: String,
    settings: LlmLimits,
}

/// A question of ours, with what its answer must look like.
pub struct Question {
    pub messages: Vec<ChatMessage>,
    pub answer: AnswerFormat,
    /// Most tokens of the answer.
    pub max_answer_tokens: u32,
}

impl Question {
    pub fn to(self, endpoint: Endpoint, settings: &LlmLimits) -> ChatRequest {
        let Self { messages, answer, max_answer_tokens } = self;
        let max_answer_tokens = max_answer_tokens.max(settings.answer_tokens);
        ChatRequest { endpoint, messages, answer, max_answer_tokens, temperature: 0.0 }
    }
}

/// A request of an application, to be passed on.
pub struct Talk {
    pub body: ChatBody,
    /// Most tokens of the answer; 0 leaves it to the endpoint.
    pub max_answer_tokens: u32,
    pub temperature: Option<f32>,
}

/// What came of a question.
pub struct Answered {
    pub result: Result<ChatAnswer, ChatFailure>,
    /// As the endpoint counted them, of all calls together.
    pub prompt_tokens: Option<u32>,
    pub completion_tokens: Option<u32>,
}

impl Llm {
    /// * `erasures`: [known](Erasures::known) before anything was read that it is asked about.
    ///
    /// # Errors
    /// 55000 when there is none, or no process that would call it.
    pub fn configured(erasures: &Erasures, agent_id: &str, settings: &LlmLimits) -> PgResult<Self> {
        let (missing, chosen) = roles::read_as_owner(|spi| {
            Ok((endpoints::missing(spi, agent_id)?, Chosen::of_agent(spi, agent_id)?))
        })?;
        match missing {
            Some(NO_LLM) => Err(Error::not_ready(
                "no LLM is configured",
                "Set memory_agent.llm_base_url and memory_agent.llm_model in postgresql.conf, and reload.",
            )),
            Some(_) => Err(Error::not_ready(
                "only the model server calls LLMs, and with memory_agent.inference = backend no model server runs",
                "Set memory_agent.inference = server in postgresql.conf, and reload.",
            )),
            None => {
                let (erasures, settings) = (erasures.clone(), settings.clone());
                Ok(Self { chosen, erasures, model: String::new(), settings })
            }
        }
    }

    /// The model that writes summaries, where the settings name another one.
    pub fn of_summaries(self) -> Self {
        let model = self.chosen.endpoint_of_summaries().map(|endpoint| endpoint.model);
        Self { model: model.unwrap_or_default(), ..self }
    }

    /// Another model at the same endpoint; an empty name stands for the configured one.
    pub fn with_model(self, model: &str) -> Self {
        Self { model: model.to_owned(), ..self }
    }

    /// Whether requests in OpenAI's format can be passed on as they are.
    pub fn speaks_openai(&self) -> bool {
        self.chosen.speaks_openai()
    }

    /// Asks and waits. Not to be called while a row is locked or as the extension's owner.
    ///
    /// # Errors
    /// Those of our own statements. What goes wrong at the LLM or at the model server is in the
    /// answer.
    pub fn ask(
        &self,
        user_id: &str,
        purpose: &'static str,
        question: Question,
    ) -> PgResult<Answered> {
        let tokens = estimated_tokens(&question.messages);
        let asked = Asked::of(&question.messages, tokens, &self.settings);
        self.call(user_id, purpose, asked, |endpoint, sending| {
            client::chat(question.to(endpoint, &self.settings), sending)
        })
    }

    /// Passes a conversation on and waits for its next answer, as [`Self::ask`] does.
    ///
    /// # Errors
    /// 53400 when the user's tokens of the day are used up.
    pub fn converse(&self, user_id: &str, purpose: &'static str, talk: Talk) -> PgResult<Answered> {
        quotas::check_tokens(user_id, may_write())?;
        let Talk { body, max_answer_tokens, temperature } = talk;
        let tokens = body.estimated_tokens();
        let messages = Value::from(body.messages.into_values());
        let asked = Asked::of(&messages, tokens, &self.settings);
        self.call(user_id, purpose, asked, |endpoint, sending| {
            let conversation = Conversation {
                endpoint,
                messages: messages.to_string(),
                max_answer_tokens,
                temperature,
                fields: Value::from(body.fields).to_string(),
            };
            client::converse(conversation, sending)
        })
    }

    fn call(
        &self,
        user_id: &str,
        purpose: &'static str,
        asked: Asked,
        send: impl FnOnce(Endpoint, &dyn Fn()) -> Result<ChatOutcome, Failure>,
    ) -> PgResult<Answered> {
        let mut counted = (None, None);
        let refused = match refused_by_daily_limit(&self.chosen)? {
            None => roles::as_owner(|| {
                quotas::tokens_problem(&Spi::read_latest()?, user_id, may_write())
            })?,
            refused => refused,
        };
        let outcome = match (self.endpoint(), refused) {
            (Err(reason), _) => without_call(ChatFailureKind::Unavailable, &reason),
            (Ok(_), Some(reason)) => without_call(ChatFailureKind::Unavailable, &reason),
            (Ok(endpoint), None) => {
                let (model, name) = (endpoint.model.clone(), self.chosen.name());
                let prompt_tokens = asked.estimated_tokens;
                let entry = Cell::new(None);
                // Before the model server has it, so that it is there when the LLM is asked.
                let sending = || {
                    let calls = vec![CallRecord::abandoned(prompt_tokens)];
                    let begin =
                        || llm_ledger::begin(Spent::new(user_id, name, purpose, &model, calls));
                    entry.set(entry.take().or_else(|| may_write().then(begin)));
                };
                let outcome =
                    send(endpoint, &sending).unwrap_or_else(|failure| lost(failure, prompt_tokens));
                counted = (
                    total(&outcome.calls, |call| call.prompt_tokens),
                    total(&outcome.calls, |call| call.completion_tokens),
                );
                let outcome = outcome.with_estimates(prompt_tokens);
                if may_write() {
                    let asked = self.without_erased(asked)?;
                    let origin = Origin { user_id, endpoint: name, job_id: None };
                    record(&origin, purpose, &model, asked, &outcome, entry.take())?;
                }
                outcome
            }
        };
        let (prompt_tokens, completion_tokens) = counted;
        Ok(Answered { prompt_tokens, completion_tokens, result: outcome.result })
    }

    /// No text of what was erased since is traced.
    fn without_erased(&self, asked: Asked) -> PgResult<Asked> {
        let is_erased = asked.traced.is_some() && roles::as_owner(|| self.erasures.have_grown())?;
        Ok(if is_erased { Asked { traced: None, ..asked } } else { asked })
    }

    fn endpoint(&self) -> Result<Endpoint, String> {
        let mut endpoint = self.chosen.endpoint()?;
        if !self.model.is_empty() {
            endpoint.model.clone_from(&self.model);
        }
        Ok(endpoint)
    }
}

/// Whether this transaction may write: not when it is read-only, and not on a standby.
pub fn may_write() -> bool {
    // SAFETY: reads a flag of the transaction, which recovery sets too.
    unsafe { !pg_sys::XactReadOnly }
}

/// A failure as an ERROR, for functions that have nothing to fall back on (58000).
pub fn error(failure: &ChatFailure) -> ErrorReport {
    Error::inference(format!("the LLM gave no answer: {}", failure.message), hint(failure.kind))
}

/// What to do about a failure.
pub fn hint(kind: ChatFailureKind) -> &'static str {
    match kind {
        ChatFailureKind::Unavailable => "See SELECT * FROM memory_status(), and try again later.",
        ChatFailureKind::Failed => "Try again; raise memory_agent.llm_timeout for a slow model.",
        ChatFailureKind::Refused => {
            "Look at the text that was sent: a retry gives the same result."
        }
        ChatFailureKind::BadAnswer => "Try again, or use another model.",
    }
}

/// The model server failed, not the LLM. That may have been asked before.
fn lost(failure: Failure, prompt_tokens: u32) -> ChatOutcome {
    let kind =
        if failure.may_pass { ChatFailureKind::Unavailable } else { ChatFailureKind::Refused };
    let calls =
        if failure.was_sent { vec![CallRecord::abandoned(prompt_tokens)] } else { Vec::new() };
    ChatOutcome { calls, ..without_call(kind, &failure.message) }
}

/// An outcome without any call.
fn without_call(kind: ChatFailureKind, reason: &str) -> ChatOutcome {
    let failure =
        ChatFailure { kind, message: paths::without_secret_places(reason), retry_after_ms: None };
    ChatOutcome { result: Err(failure), calls: Vec::new() }
}

/// Why the endpoint's limit of tokens a day does not allow a call, if it does not. Calls are counted by
/// their rows, so with a limit there are none where no row can be written.
fn refused_by_daily_limit(chosen: &Chosen) -> PgResult<Option<String>> {
    let (limit, setting) = chosen.daily_tokens();
    if limit == 0 {
        return Ok(None);
    }
    if !may_write() {
        return Ok(Some(format!(
            "with {setting} the LLM is not called in a read-only transaction"
        )));
    }
    // The ledgers first: what moves from there to the table meanwhile is counted twice rather than not at all.
    // The latest rows: calls that the same statement or, since this snapshot, others made count too.
    let waiting = llm_ledger::waiting_tokens(chosen.name());
    let used = roles::as_owner(|| llm_calls::tokens_today(&Spi::read_latest()?, chosen.name()))?;
    Ok((used + waiting >= limit).then(|| format!("{setting} is used up for today")))
}

/// What has to be known of a question when its answer is there, or is not.
#[derive(Default)]
pub struct Asked {
    /// The question itself, while calls are traced.
    traced: Option<JsonbText>,
    /// Its tokens, as far as they can be known without the endpoint.
    pub estimated_tokens: u32,
}

impl Asked {
    pub fn of(
        messages: &impl serde::Serialize,
        estimated_tokens: u32,
        settings: &LlmLimits,
    ) -> Self {
        let traced = settings
            .keeps_texts
            .then(|| JsonbText(serde_json::to_string(messages).unwrap_or_else(|_| "null".into())));
        Self { traced, estimated_tokens }
    }

    /// What the calls that the question led to were for, with the texts while calls are traced.
    pub fn purpose<'a>(
        &mut self,
        purpose: &'static str,
        model: &'a str,
        outcome: &'a ChatOutcome,
    ) -> Purpose<'a> {
        let answer = outcome.result.as_ref().ok();
        let told = answer.map(|answer| JsonbText(json!({ "text": answer.text }).to_string()));
        Purpose {
            purpose,
            model: answer.map_or(model, |answer| &answer.model),
            bodies: self.traced.take().map(|asked| (asked, told)),
        }
    }
}

/// Records the calls that were made, in place of what the ledger holds since the question was sent.
fn record(
    origin: &Origin<'_>,
    purpose: &'static str,
    model: &str,
    mut asked: Asked,
    outcome: &ChatOutcome,
    entry: Option<llm_ledger::Entry>,
) -> PgResult<()> {
    if outcome.calls.is_empty() {
        if let Some(entry) = entry {
            entry.withdraw();
        }
        return Ok(());
    }
    let purpose = asked.purpose(purpose, model, outcome);
    roles::write_as_owner(|spi| llm_calls::record(spi, origin, &purpose, &outcome.calls))?;
    let calls = outcome.calls.clone();
    let spent = Spent::new(origin.user_id, origin.endpoint, purpose.purpose, purpose.model, calls);
    match entry {
        Some(entry) => entry.replace(spent),
        None => drop(llm_ledger::begin(spent)),
    }
    Ok(())
}

fn total(calls: &[CallRecord], count: impl Fn(&CallRecord) -> Option<u32>) -> Option<u32> {
    let counts: Vec<u32> = calls.iter().filter_map(count).collect();
    (!counts.is_empty())
        .then(|| counts.iter().fold(0, |sum: u32, count| sum.saturating_add(*count)))
}
