//! A text of the caller's condensed by the LLM, which the statement waits for, and the record of it: signed with
//! the audit key, and kept in history.

use crate::memory::llm::Llm;
use crate::memory::prelude::*;
use crate::memory::quotas;
use crate::memory::summaries::awaited_summary::Condenser;
use crate::models::counting::{count, count_one};
use crate::settings::Effective;
use crate::store::changes::erasures::Erasures;
use crate::store::rows::entries::new_id;
use crate::store::rows::history::{self, Event};
use memory_agent_core::condense::chunk;
use memory_agent_core::condense::levels::{self, SummaryLevel};
use memory_agent_core::condense::summarize::{self, Ask, ContentType, Material, SummaryPrompt};
use memory_agent_core::history::chain::Key;
use memory_agent_core::jobs::payloads::Condensed;
use memory_agent_core::{condense::material, history::signature};

/// What is to be condensed to what.
pub struct Request<'a> {
    pub text: &'a str,
    /// Most tokens of the result.
    pub most: u32,
    pub content_type: ContentType,
}

/// A summary, or the text itself, which no model made.
pub struct Summary {
    text: String,
    tokens: u32,
    model: Option<String>,
}

impl From<Condensed> for Summary {
    fn from(condensed: Condensed) -> Self {
        Self { text: condensed.text, tokens: condensed.tokens, model: Some(condensed.model) }
    }
}

impl Request<'_> {
    /// A text that is short enough is its own summary. A long one is condensed in chunks first.
    pub fn condense(&self, caller: &Caller, settings: &Effective) -> PgResult<Summary> {
        let erasures = roles::as_owner(|| Erasures::known(&caller.user_id))?;
        let llm = Llm::configured(&erasures, caller.agent(), &settings.llm_limits)?.of_summaries();
        let tokens = count_one(self.text)?;
        if tokens <= self.most {
            return Ok(Summary { text: self.text.to_owned(), tokens, model: None });
        }
        quotas::check_tokens(&caller.user_id, true)?;
        let condenser = Condenser { llm: &llm, user_id: &caller.user_id, purpose: "summarize" };
        let summary = &settings.summary;
        let limits = summary.chunks();
        if tokens <= limits.max_tokens {
            let prompt = match SummaryLevel::of(tokens) {
                SummaryLevel::None | SummaryLevel::Brief => SummaryPrompt::Brief,
                _ => SummaryPrompt::Standard,
            };
            let whole = self.ask(prompt, Material::Text(self.text), self.most);
            return Ok(condenser.answer(whole, self.most, self.most)??.into());
        }
        let chunks = chunk::chunks(self.text, limits, &mut count)?;
        let mut parts = Vec::with_capacity(chunks.len());
        for chunk in &chunks {
            let target = levels::chunk_target(chunk.tokens);
            let messages = self.ask(SummaryPrompt::Chunk, Material::Text(&chunk.text), target);
            parts.push(condenser.answer(messages, target, chunk.tokens)??);
        }
        // Groups of summaries, until they fit into one request.
        while total(&parts) > limits.max_tokens && parts.len() > material::GROUP_SIZE {
            let mut groups = Vec::new();
            for members in material::groups(parts.len()) {
                let members = &parts[members];
                let target = levels::group_target(total(members));
                groups.push(self.join(&condenser, members, target, total(members))?);
            }
            parts = groups;
        }
        Ok(self.join(&condenser, &parts, self.most, self.most)?.into())
    }

    /// One summary of consecutive ones.
    fn join(
        &self,
        condenser: &Condenser<'_>,
        parts: &[Condensed],
        target: u32,
        most: u32,
    ) -> PgResult<Condensed> {
        let texts: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
        let messages = self.ask(SummaryPrompt::Meta, Material::Summaries(&texts), target);
        condenser.answer(messages, target, most)?
    }

    fn ask(
        &self,
        prompt: SummaryPrompt,
        material: Material<'_>,
        target_tokens: u32,
    ) -> Vec<memory_agent_core::facts::answers::ChatMessage> {
        summarize::messages(&Ask {
            prompt,
            content_type: self.content_type,
            previous: None,
            material,
            target_tokens,
            with_sections: false,
        })
    }
}

fn total(parts: &[Condensed]) -> u32 {
    parts.iter().fold(0, |sum, part| sum.saturating_add(part.tokens))
}

/// Signs a summary and writes it down; the result of the function.
pub fn record(
    caller: &Caller,
    text: &str,
    summary: &Summary,
    key: Option<&Key>,
) -> PgResult<JsonbText> {
    let spi = Spi::read_write()?;
    let at: String = spi.one(
        "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')",
        &mut params![],
    )?;
    let digest = signature::digest(text);
    let message = signature::summary_message(&digest, &at, &summary.text);
    let mut document = json!({
        "summary": summary.text,
        "token_count": summary.tokens,
        "model": summary.model,
        "created_at": at,
        "text_sha256": digest,
        "key_id": key.map(Key::id),
        "signature": key.map(|key| key.sign(&message)),
    });
    let body = JsonbText(document.to_string());
    let event = Event { id: new_id(), op: "summarize", entry_id: None, reason: None };
    history::append_event(&spi, &caller.user_id, &event, body)?;
    debug1!(
        "memory_agent: summarize user={} tokens={} signed={}",
        caller.user_id,
        summary.tokens,
        key.is_some()
    );
    Ok(JsonbText(document.take().to_string()))
}
