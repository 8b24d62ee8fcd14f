//! Summaries that a statement waits for: the LLM is asked until its answer is short enough, at most
//! three times; then the answer is cut at a sentence.

use crate::api::llm::{self, Llm, Question};
use crate::error::{Error, PgResult};
use crate::models::counting::{count, count_one};
use memory_agent_core::answers::{AnswerFormat, ChatMessage};
use memory_agent_core::{cut, levels, summarize};

/// Beside twice the tokens that are wanted: a model that is cut off cannot be asked to shorten.
const SPARE_ANSWER_TOKENS: u32 = 200;

/// Who asks, and whom.
pub struct Condenser<'a> {
    pub llm: &'a Llm,
    pub user_id: &'a str,
    /// What `llm_calls` says the calls were for.
    pub purpose: &'static str,
}

/// A summary.
#[derive(Clone, Debug)]
pub struct Condensed {
    pub text: String,
    pub tokens: u32,
    /// The LLM's name as it gave it.
    pub model: String,
}

impl Condenser<'_> {
    /// The answer to a question for a summary of `target` tokens, never longer than `most` tokens.
    ///
    /// # Errors
    /// The outer ones are those of our own statements, the inner ones the LLM's and the tokeniser's.
    pub fn answer(
        &self,
        messages: Vec<ChatMessage>,
        target: u32,
        most: u32,
    ) -> PgResult<Result<Condensed, Error>> {
        let mut messages = messages;
        let mut shortest: Option<Condensed> = None;
        for _ in 0..=levels::MAX_RETRIES {
            let question = Question {
                messages: messages.clone(),
                answer: AnswerFormat::Text,
                max_answer_tokens: target.saturating_mul(2).saturating_add(SPARE_ANSWER_TOKENS),
            };
            let answer = match self.llm.ask(self.user_id, self.purpose, question)?.result {
                Ok(answer) => answer,
                // A summary that is too long is better than none.
                Err(failure) if shortest.is_none() => return Ok(Err(llm::error(&failure))),
                Err(_) => break,
            };
            let text = summarize::clean(&answer.text);
            if text.is_empty() {
                break;
            }
            let tokens = match count_one(&text) {
                Ok(tokens) => tokens,
                Err(failure) => return Ok(Err(failure.into_error())),
            };
            messages = summarize::shorter(messages, &answer.text, tokens, target);
            if shortest.as_ref().is_none_or(|found| tokens < found.tokens) {
                shortest = Some(Condensed { text, tokens, model: answer.model });
            }
            if tokens <= most {
                break;
            }
        }
        let Some(mut condensed) = shortest else {
            return Ok(Err(Error::inference(
                "the LLM's summary is empty",
                "Try again, or use another model.",
            )));
        };
        if condensed.tokens > most {
            let cut = cut::cut_to(&condensed.text, most, &mut count)
                .and_then(|text| count_one(&text).map(|tokens| (text, tokens)));
            (condensed.text, condensed.tokens) = match cut {
                Ok(cut) => cut,
                Err(failure) => return Ok(Err(failure.into_error())),
            };
        }
        Ok(Ok(condensed))
    }
}
