//! Summaries that a statement waits for: the LLM is asked until its answer is short enough, at most
//! three times; then the answer is cut at a sentence.

use crate::memory::llm::{self, Llm, Question};
use crate::models::counting::{count, count_one};
use crate::pg::error::{Error, ErrorReport, PgResult};
use memory_agent_core::condense::shorten::{Shortening, Step};
use memory_agent_core::facts::answers::{AnswerFormat, ChatMessage};
use memory_agent_core::jobs::payloads::Condensed;
use memory_agent_core::{condense::summarize, text::cut};

/// Beside twice the tokens that are wanted: a model that is cut off cannot be asked to shorten.
const SPARE_ANSWER_TOKENS: u32 = 200;

/// Who asks, and which endpoint.
pub struct Condenser<'a> {
    pub llm: &'a Llm,
    pub user_id: &'a str,
    /// What `llm_calls` says the calls were for.
    pub purpose: &'static str,
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
    ) -> PgResult<Result<Condensed, ErrorReport>> {
        let mut shortening = Shortening::new(messages, target, most);
        let mut condensed = loop {
            let question = Question {
                messages: shortening.messages().to_vec(),
                answer: AnswerFormat::Text,
                max_answer_tokens: target.saturating_mul(2).saturating_add(SPARE_ANSWER_TOKENS),
            };
            let answer = self.llm.ask(self.user_id, self.purpose, question)?.result;
            let text =
                answer.as_ref().map_or_else(|_| String::new(), |a| summarize::clean(&a.text));
            let answer = match (answer, text.is_empty()) {
                (Ok(answer), false) => answer,
                // A summary that is too long is better than none.
                (answer, _) => match (shortening.into_kept(), answer) {
                    (Some(kept), _) => break kept,
                    (None, Err(failure)) => return Ok(Err(llm::error(&failure))),
                    (None, Ok(_)) => return Ok(Err(empty())),
                },
            };
            let tokens = match count_one(&text) {
                Ok(tokens) => tokens,
                Err(failure) => return Ok(Err(failure.into())),
            };
            let found = Condensed { text, tokens, model: answer.model, sections: None };
            match shortening.take(&answer.text, found) {
                Step::Done(condensed) | Step::Cut(condensed) => break condensed,
                Step::Ask(next) => shortening = next,
            }
        };
        if condensed.tokens > most {
            let cut = cut::cut_to(&condensed.text, most, &mut count)
                .and_then(|text| count_one(&text).map(|tokens| (text, tokens)));
            (condensed.text, condensed.tokens) = match cut {
                Ok(cut) => cut,
                Err(failure) => return Ok(Err(failure.into())),
            };
        }
        Ok(Ok(condensed))
    }
}

fn empty() -> ErrorReport {
    Error::inference("the LLM's summary is empty", "Try again, or use another model.")
}
