//! `memory_summarize`: a text of the caller's condensed by the LLM, which the statement waits for. The
//! result is signed with the audit key, and history says what was made of what.

use crate::api::configure;
use crate::api::prelude::*;
use crate::memory::awaited_summary::Condenser;
use crate::memory::checks::check_content;
use crate::memory::llm::{self, Llm};
use crate::memory::scope_settings;
use crate::models::counting::{count, count_one};
use crate::settings::{audit_keys, job_settings};
use crate::store::entries::new_id;
use crate::store::erasures::Erasures;
use crate::store::history::{self, Event};
use memory_agent_core::chunk::{self, Limits};
use memory_agent_core::history_chain::Key;
use memory_agent_core::jobs::payloads::Condensed;
use memory_agent_core::levels::{self, SummaryLevel};
use memory_agent_core::summarize::{self, Ask, ContentType, Material, SummaryPrompt};
use memory_agent_core::{material, signature};
use serde_json::json;

/// Tokens of a summary when none are given.
const DEFAULT_TOKENS: i32 = 128;
/// Fewest tokens that a sentence can be said in, and most that a summary has.
const TOKENS: std::ops::RangeInclusive<i32> = 16..=memory_agent_core::limits::MAX_SUMMARY_TOKENS;

#[pg_extern(sql = false)]
fn memory_summarize(
    _limits: WithinLimits,
    text: Option<String>,
    max_tokens: Option<i32>,
    content_type: Option<String>,
) -> PgResult<JsonbText> {
    let caller = identity::resolve(None, None, Level::User)?;
    let text = text.unwrap_or_default();
    check_content(&text)?;
    let max_tokens = max_tokens.unwrap_or(DEFAULT_TOKENS);
    if !TOKENS.contains(&max_tokens) {
        return Err(Error::invalid(
            format!("max_tokens must be between {} and {}", TOKENS.start(), TOKENS.end()),
            "Leave it out for 128.",
        ));
    }
    let content_type = content_type.unwrap_or_else(|| ContentType::default().as_str().to_owned());
    configure::check_content_type(&content_type)?;
    // Before the LLM costs something: afterwards the result could not be recorded or signed.
    if !llm::may_write() {
        return Err(Error::read_only(
            "memory_summarize records what it did, which a read-only transaction cannot",
            "Call it in a transaction that may write, on the primary.",
        ));
    }
    let key = audit_keys::key()?;
    let condensed = scope_settings::scoped(&caller, None, || {
        let request = Request {
            text: text.trim(),
            most: max_tokens.unsigned_abs(),
            content_type: ContentType::of(&content_type).unwrap_or_default(),
        };
        request.condense(&caller)
    })?;
    roles::as_owner(|| record(&caller, &text, &condensed, key.as_ref()))
}

/// What is to be condensed to what.
struct Request<'a> {
    text: &'a str,
    /// Most tokens of the result.
    most: u32,
    content_type: ContentType,
}

/// A summary, or the text itself, which no model made.
struct Summary {
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
    fn condense(&self, caller: &Caller) -> PgResult<Summary> {
        let erasures = roles::as_owner(|| Erasures::known(&caller.user_id))?;
        let llm = Llm::configured(&erasures, caller.agent())?.of_summaries();
        let tokens = count_one(self.text).map_err(|failure| failure.into_error())?;
        if tokens <= self.most {
            return Ok(Summary { text: self.text.to_owned(), tokens, model: None });
        }
        let condenser = Condenser { llm: &llm, user_id: &caller.user_id, purpose: "summarize" };
        let settings = job_settings::summary();
        let limits =
            Limits { max_tokens: settings.chunk_tokens, overlap_tokens: settings.chunk_overlap };
        if tokens <= limits.max_tokens {
            let prompt = match SummaryLevel::of(tokens) {
                SummaryLevel::None | SummaryLevel::Brief => SummaryPrompt::Brief,
                _ => SummaryPrompt::Standard,
            };
            let whole = self.ask(prompt, Material::Text(self.text), self.most);
            return Ok(condenser.answer(whole, self.most, self.most)??.into());
        }
        let chunks =
            chunk::chunks(self.text, limits, &mut count).map_err(|failure| failure.into_error())?;
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
    ) -> Vec<memory_agent_core::answers::ChatMessage> {
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
fn record(
    caller: &Caller,
    text: &str,
    summary: &Summary,
    key: Option<&Key>,
) -> PgResult<JsonbText> {
    let spi = Spi::read_write()?;
    let at = spi
        .row::<String>(
            "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')",
            &mut params![],
        )?
        .ok_or_else(|| Error::internal("there is no time"))?;
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
