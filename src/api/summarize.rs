//! `memory_summarize`: a text of the caller's condensed by the LLM, which the statement waits for. The
//! result is signed with the audit key, and history says what was made of what.

use crate::api::prelude::*;
use crate::memory::llm;
use crate::memory::scope::configure;
use crate::memory::summaries::text_summary::{Request, record};
use crate::settings::audit_keys;
use memory_agent_core::condense::summarize::ContentType;

/// Tokens of a summary when none are given.
const DEFAULT_TOKENS: i32 = 128;
/// Fewest tokens that a sentence can be said in, and most that a summary has.
const TOKENS: std::ops::RangeInclusive<i32> = 16..=memory_agent_core::limits::MAX_SUMMARY_TOKENS;

#[pg_extern(sql = false)]
fn memory_summarize(
    _limits: WithinLimits,
    text: Option<String>,
    max_tokens: Option<Whole>,
    content_type: Option<String>,
) -> PgResult<JsonbText> {
    let caller = identity::resolve(None, None, Level::User)?;
    let text = text.unwrap_or_default();
    check_content(&text, &Content::current())?;
    let max_tokens = max_tokens.map_or(DEFAULT_TOKENS, |tokens| tokens.0);
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
            "memory_summarize writes to history, which a read-only transaction cannot do",
            "Call it in a transaction that may write, on the primary.",
        ));
    }
    let key = audit_keys::key()?;
    let condensed = scope_settings::scoped(&caller, None, |settings| {
        let request = Request {
            text: text.trim(),
            most: max_tokens.unsigned_abs(),
            content_type: ContentType::of(&content_type).unwrap_or_default(),
        };
        request.condense(&caller, settings)
    })?;
    roles::as_owner(|| record(&caller, &text, &condensed, key.as_ref()))
}
