//! `memory_add`: a statement stored as a fact at once, unless memory has it already, or as something a
//! user said, from which the worker makes facts. A fact with a key replaces the fact that holds the
//! key, and history says so.

use crate::api::arguments::WithinLimits;
use crate::identity::grants::Level;
use crate::identity::{self, Caller};
use crate::memory::checks::{check_content, check_fact_key};
use crate::memory::endpoints;
use crate::memory::facts::fact_writer::FactWriter;
use crate::memory::follow_ups;
use crate::memory::prepare::{Prepare, prepare};
use crate::memory::scope_settings;
use crate::memory::turn;
use crate::models::thresholds;
use crate::pg::catalog;
use crate::pg::error::{Error, PgResult};
use crate::pg::roles;
use crate::pg::spi::Session as Spi;
use crate::pg::sql_types::{self, JsonbText, Vector};
use crate::settings::{Content, Sessions};
use crate::store::entries::{self, NewEntry, Standing};
use crate::store::facts::{self, Ending, FactScope};
use crate::store::lexemes::Lexemes;
use crate::store::schema;
use crate::store::sessions::{self, Change, SessionKey};
use memory_agent_core::facts::says_the_same;
use memory_agent_core::text;
use pgrx::datum::Uuid;
use pgrx::prelude::*;

struct StatedFact {
    content: String,
    session_id: Option<String>,
    metadata: JsonbText,
    markers: Vec<String>,
    created_at: TimestampWithTimeZone,
    expires_at: Option<TimestampWithTimeZone>,
    key: Option<String>,
    indexed_text: String,
}

impl StatedFact {
    /// The row of the statement, as a kind and in a role.
    fn entry<'a>(
        &'a self,
        id: Uuid,
        scope: &FactScope<'a>,
        (kind, role): (&'static str, &'a str),
        words: (Lexemes, &'a str),
    ) -> NewEntry<'a> {
        NewEntry {
            markers: self.markers.clone(),
            metadata: self.metadata.clone(),
            fact_key: self.key.as_deref(),
            expires_at: self.expires_at,
            ..NewEntry::new(id, scope, kind, role, &self.content, words, self.created_at)
        }
    }
}

#[pg_extern(sql = false)]
fn memory_add(
    _limits: WithinLimits,
    content: Option<String>,
    session_id: Option<String>,
    user_id: Option<String>,
    agent_id: Option<String>,
    metadata: Option<JsonbText>,
    markers: Option<Vec<Option<String>>>,
    created_at: Option<TimestampWithTimeZone>,
    ttl: Option<Interval>,
    infer: Option<bool>,
    fact_key: Option<String>,
) -> PgResult<Uuid> {
    let caller = identity::resolve(user_id.as_deref(), agent_id.as_deref(), Level::User)?;
    let infer = infer.unwrap_or(true);
    if infer {
        check_inference(caller.agent(), fact_key.is_some())?;
    }
    let content = content.unwrap_or_default();
    if let Some(session_id) = &session_id {
        text::validate_session_id(session_id).map_err(Error::refused)?;
    }
    fact_key.as_deref().map_or(Ok(()), check_fact_key)?;
    let metadata = metadata.unwrap_or_else(|| JsonbText("{}".into()));
    let markers = markers.map(sql_types::without_nulls).transpose()?;
    let now = pgrx::datum::datetime_support::now();
    let settings = scope_settings::stored(&caller.user_id, caller.agent(), session_id.as_deref())?;
    settings.during(|| {
        let settings = Content::current();
        check_content(&content)?;
        turn::check_metadata(&metadata, &settings)?;
        let fact = StatedFact {
            markers: turn::markers_of(markers.as_deref(), &content, &settings)?,
            created_at: entries::finite("created_at", created_at.unwrap_or(now))?,
            expires_at: turn::expiry(now, ttl, &settings)?,
            indexed_text: turn::indexed_text(&content, &metadata),
            key: fact_key,
            content,
            session_id: schema::home_of(session_id.as_deref()).map(str::to_owned),
            metadata,
        };
        let prepared = prepare(vec![fact.indexed_text.clone()], vec![fact.content.clone()])?;
        roles::write_as_owner(|spi| match infer {
            true => store_source(spi, &caller, &fact, &prepared),
            false => store(spi, &caller, &fact, &prepared),
        })
    })
}

/// Refuses what could only be promised: without an LLM, no facts would be extracted.
fn check_inference(agent_id: &str, has_key: bool) -> PgResult<()> {
    let missing = roles::read_as_owner(|spi| endpoints::missing(spi, agent_id))?;
    if let Some(reason) = missing {
        return Err(Error::not_ready(
            format!("memory_add cannot extract facts: {reason}"),
            "Pass infer => false to store the text itself as one fact, or configure an LLM.",
        ));
    }
    if has_key {
        return Err(Error::invalid(
            "fact_key names one fact, and several may be extracted from the text",
            "Pass infer => false to store the text itself as the fact of this key.",
        ));
    }
    Ok(())
}

/// Stores the text as the source of facts to come: it is in no window and not recalled itself. The summary of
/// its session takes it up, as something that the user said.
fn store_source(
    spi: &Spi,
    caller: &Caller,
    fact: &StatedFact,
    prepared: &Prepare,
) -> PgResult<Uuid> {
    let id = entries::new_id();
    let session_id = fact.session_id.as_deref();
    let key = session_id.map(|session_id| SessionKey::of(caller, session_id));
    if let Some(key) = &key {
        sessions::lock(spi, key, fact.created_at)?;
    }
    let words = prepared.words(spi, &fact.indexed_text)?;
    let scope = FactScope::of(caller, session_id);
    let entry = fact.entry(id, &scope, ("turn", "user"), words);
    let entry = NewEntry { standing: Standing::SourceOnly, ..prepared.complete(0, entry) };
    entries::insert(spi, &catalog::vector_type()?, entry)?;
    follow_ups::queue_extraction(spi, &scope)?;
    if let Some(key) = &key {
        let unsummarized = i64::from(prepared.token_count(0));
        let change = Change { unsummarized, ..Change::default() };
        if let Some(fill) = sessions::adjust(spi, key, change)? {
            follow_ups::queue_summary(spi, key, &fill)?;
        }
    }
    debug1!("memory_agent: add user={} source={id}", caller.user_id);
    Ok(id)
}

fn store(spi: &Spi, caller: &Caller, fact: &StatedFact, prepared: &Prepare) -> PgResult<Uuid> {
    let scope = FactScope::of(caller, fact.session_id.as_deref());
    let mut writer = FactWriter::lock(spi, scope, fact.created_at)?;
    let hash = entries::content_hash(&fact.content);
    let holder = match &fact.key {
        Some(key) => facts::holder_of_key(spi, writer.scope(), key)?,
        None => None,
    };
    let same = match &holder {
        Some(holder) => {
            let is_same = holder.content_hash.as_deref() == Some(hash.as_slice());
            (is_same && !holder.is_expired).then_some(holder.id)
        }
        None => duplicate(spi, writer.scope(), fact, &hash, prepared)?,
    };
    if let Some(same) = same {
        writer.said_again(same, &[], fact.expires_at)?;
        return Ok(same);
    }
    let id = entries::new_id();
    // Before the new one is stored: it gets the key.
    if let Some(key) = fact.key.as_deref() {
        let mut held = holder.as_ref().map(|holder| holder.id);
        while let Some(old) = held {
            if !writer.supersede(old, id, fact.created_at, Ending::Superseded, Some(key))? {
                break;
            }
            held = facts::holder_of_key(spi, writer.scope(), key)?.map(|holder| holder.id);
        }
    }
    let words = prepared.words(spi, &fact.indexed_text)?;
    let scope = FactScope::of(caller, fact.session_id.as_deref());
    let entry = fact.entry(id, &scope, ("fact", "memory"), words);
    writer.insert(prepared.complete(0, entry), prepared.needs_job(), None)?;
    if let Some(holder) = &holder {
        writer.note_repetitions(holder.id)?;
    }
    writer.finish()?;
    debug1!(
        "memory_agent: add user={} id={id} superseded={}",
        caller.user_id,
        holder.map_or_else(|| "none".to_owned(), |holder| holder.id.to_string())
    );
    Ok(id)
}

/// A fact of the same scope that says the same: the same text, or one so similar that only its
/// wording differs. Numbers, names and negations must agree.
fn duplicate(
    spi: &Spi,
    scope: &FactScope<'_>,
    fact: &StatedFact,
    hash: &[u8],
    prepared: &Prepare,
) -> PgResult<Option<Uuid>> {
    if let Some(same) = facts::with_hash(spi, scope, hash)? {
        return Ok(Some(same));
    }
    let (Some(model), Some([window])) = (&prepared.model, prepared.embedding(0)) else {
        return Ok(None);
    };
    let threshold = match Sessions::current().dedup_similarity {
        set if set >= 0.0 => set,
        _ => match thresholds(model) {
            Some(calibrated) => calibrated.duplicate,
            None => return Ok(None),
        },
    };
    let near = facts::nearest(spi, scope, &model.name, &Vector(window.clone()), threshold)?;
    Ok(near
        .into_iter()
        .find(|(_, content)| says_the_same(content, &fact.content))
        .map(|(id, _)| id))
}
