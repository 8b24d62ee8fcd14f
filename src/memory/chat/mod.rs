//! A chat with an LLM that remembers. Memories are put before the user's message, the LLM answers, and both turns
//! are stored. Nothing is locked while the LLM is waited for, and its failure is part of the result: what the user
//! said is stored all the same.

pub mod augment;

use crate::memory::chat::augment::{Wanted, put_memories};
use crate::memory::ingest::taken_back::{self, Back, Sent};
use crate::memory::ingest::{ingest, stored_before};
use crate::memory::llm::{Answered, Llm, Talk};
use crate::memory::prelude::*;
use crate::memory::quotas;
use crate::memory::scope::checks::check_content;
use crate::memory::texts::secrets;
use crate::memory::texts::turn::Turn;
use crate::pg::error::warn;
use memory_agent_core::llm::chat_body::ChatBody;
use memory_agent_core::llm::chat_messages::ChatMessages;
use memory_agent_core::prompt::augment::original_message;
use memory_agent_model_server::protocol::{ChatAnswer, ChatFailureKind};
use serde_json::Map;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// What the user said last, as it is stored.
pub struct Said {
    content: String,
    name: Option<String>,
    /// The request only brings what a tool said: the turn is stored, unless it is not the latest any more.
    is_repeated: bool,
    /// The conversation up to it; `None` where nothing is before it. Memory knows the rest then, and the same message
    /// twice is said twice.
    sent: Option<Sent>,
}

impl Said {
    /// # Errors
    /// 22023 when there is nothing that could be stored.
    pub fn of(messages: &ChatMessages, settings: &Content) -> PgResult<Self> {
        let latest = messages.latest_text().unwrap_or_default();
        let content = original_message(&latest).to_owned();
        if content.trim().is_empty() {
            return Err(Error::invalid(
                "no message of the user has a text",
                "memory_chat answers and stores the last message of role user.",
            ));
        }
        check_content(&content, settings)?;
        let name = messages.latest_name().map(str::to_owned);
        let before = messages.before_latest(usize::MAX);
        let sent = (!before.is_empty()).then(|| Sent::of(&before, &content));
        Ok(Self { content, name, is_repeated: messages.ends_in_tool(), sent })
    }

    fn metadata(&self) -> JsonbText {
        let metadata = self.name.as_ref().map_or_else(|| json!({}), |name| json!({ "name": name }));
        JsonbText(metadata.to_string())
    }
}

/// Puts memories before the message, asks, and stores what both said, if it is to be stored.
pub fn converse(
    llm: &Llm,
    mut body: ChatBody,
    said: Option<Said>,
    wanted: &Wanted<'_>,
    temperature: Option<f32>,
    max_answer_tokens: u32,
) -> PgResult<JsonbText> {
    // What could not be stored costs no call.
    if let Some(said) = &said {
        check_content(&said.content, &wanted.settings.content)?;
        secrets::clean(&said.content, &said.metadata(), &wanted.settings.content)?;
        let message = (!said.is_repeated).then_some(said.content.as_str());
        let turns: Vec<&str> = message.into_iter().chain([""]).collect();
        if let Some(problem) = quotas::lacks_room(&wanted.caller.user_id, &turns)? {
            return Err(quotas::over_quota(problem));
        }
    }
    let started = Instant::now();
    // As it is now: what comes while the LLM answers was not known to who sent this.
    let back = match &said {
        Some(Said { sent: Some(sent), is_repeated: false, .. }) => {
            taken_back::find(&wanted.key(), sent)?
        }
        _ => Back::default(),
    };
    let hits = put_memories(&mut body, wanted)?.hits;
    let recall_ms = started.elapsed().as_secs_f64() * 1000.0;
    let talk = Talk { body, max_answer_tokens, temperature };
    let answered = llm.converse(&wanted.caller.user_id, "chat", talk)?;
    let llm_ms = started.elapsed().as_secs_f64() * 1000.0 - recall_ms;
    let reply = answered.result.as_ref().ok().map(|answer| answer.text.as_str());
    let reply = reply.filter(|reply| !reply.is_empty());
    let id = match said {
        Some(said) => store(wanted, said, reply, &back)?,
        None => None,
    };
    debug1!(
        "memory_agent: chat user={} memories={} answered={} recall={recall_ms:.1}ms llm={llm_ms:.1}ms",
        wanted.caller.user_id,
        hits.len(),
        reply.is_some()
    );
    let hits = Value::from(hits);
    let document = match &answered.result {
        Ok(answer) => completion(answer, &answered, id, hits),
        Err(failure) => json!({
            "error": { "code": code(failure.kind), "message": failure.message },
            "memory_hits": hits,
        }),
    };
    Ok(JsonbText(document.to_string()))
}

/// Stores the turns of the user and, when there is one, of the assistant; the id of the latter.
///
/// # Errors
/// 40001 when memory of the user was erased since the call began.
fn store(
    wanted: &Wanted<'_>,
    said: Said,
    reply: Option<&str>,
    back: &Back,
) -> PgResult<Option<Uuid>> {
    if !roles::as_owner(|| wanted.erasures.stay_as_known())? {
        return Err(Error::conflict(
            "memory was erased while the LLM was asked, and its answer may repeat it",
            "Nothing is stored. Call it again.",
        ));
    }
    let settings = &wanted.settings.content;
    let turn = |role: &str, content: String, metadata: JsonbText| Turn {
        session_id: wanted.session_id.clone(),
        role: role.to_owned(),
        content,
        metadata,
        markers: None,
        created_at: None,
        ttl: None,
    };
    let mut turns = Vec::new();
    let key = wanted.key();
    let stored_as = secrets::cleaned(&said.content, settings)?;
    let is_stored = !back.answers.is_empty()
        || said.is_repeated && stored_before(&key, "user", &stored_as, None)?.is_some();
    if !is_stored {
        let metadata = said.metadata();
        turns.push(turn("user", said.content, metadata));
    }
    let reply = reply.and_then(|reply| kept(reply, settings));
    let has_reply = reply.is_some();
    turns.extend(reply.map(|(reply, metadata)| turn("assistant", reply, metadata)));
    let contents: Vec<&str> = turns.iter().map(|turn| turn.content.as_str()).collect();
    if let Some(problem) = quotas::lacks_room(&wanted.caller.user_id, &contents)? {
        // The answer has been paid for.
        warn(format!("neither the message nor the answer is stored: {problem}"), quotas::HINT);
        return Ok(None);
    }
    let ids = ingest(&wanted.caller, turns)?;
    let answer = ids.last().copied().filter(|_| has_reply);
    if let (Some(message), false) = (ids.first(), is_stored) {
        taken_back::end(&key, &back.message, *message)?;
    }
    if let Some(answer) = answer {
        taken_back::end(&key, &back.answers, answer)?;
    }
    Ok(answer)
}

/// What is stored of an answer. Secrets are looked for before it is cut: half a secret is not known as one. `None`
/// for an answer that is not to be stored for them; it has been paid for, and is returned all the same.
fn kept(reply: &str, settings: &Content) -> Option<(String, JsonbText)> {
    let empty = JsonbText("{}".to_owned());
    let clean = match secrets::clean(reply, &empty, settings) {
        Ok(clean) => clean,
        Err(error) => {
            warn(
                format!("the answer is not stored: {}", error.message()),
                "Set memory_agent.secrets to redact to store it without the secret.",
            );
            return None;
        }
    };
    let limit = settings.max_content_bytes;
    if reply.len() <= limit {
        // Its secrets are taken out as from any other turn.
        return Some((reply.to_owned(), empty));
    }
    let (mut text, counted) = clean.unwrap_or_else(|| (reply.to_owned(), empty.clone()));
    let mut noted = Map::new();
    if text.len() > limit {
        text.truncate(text.floor_char_boundary(limit));
        noted.insert("truncated".to_owned(), json!(true));
    }
    // The limit is that of an agent, and may be smaller than the counts.
    let all = counted.with_keys(noted.clone());
    let metadata = if all.0.len() <= limit { all } else { empty.with_keys(noted) };
    Some((text, metadata))
}

/// The result in OpenAI's format: what the endpoint answered, with the memories beside it.
///
/// * `turn`: the stored answer.
fn completion(answer: &ChatAnswer, answered: &Answered, turn: Option<Uuid>, hits: Value) -> Value {
    let created =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
    let mut document: Value = serde_json::from_str(&answer.document).unwrap_or_default();
    if let Some(turn) = turn {
        document["id"] = format!("chatcmpl-{turn}").into();
    }
    document["object"] = "chat.completion".into();
    document["created"] = created.into();
    document["memory_hits"] = hits;
    if let (Some(prompt), Some(completion)) = (answered.prompt_tokens, answered.completion_tokens)
        && document.get("usage").is_none()
    {
        document["usage"] = json!({
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": u64::from(prompt) + u64::from(completion),
        });
    }
    document
}

/// The name of a failure in the result.
fn code(kind: ChatFailureKind) -> &'static str {
    match kind {
        ChatFailureKind::Unavailable => "unavailable",
        ChatFailureKind::Failed => "failed",
        ChatFailureKind::Refused => "refused",
        ChatFailureKind::BadAnswer => "bad_answer",
    }
}
