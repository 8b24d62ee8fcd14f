//! `memory_add`: a statement stored as a fact at once, unless memory has it already, or as something a
//! user said, from which the worker makes facts. A fact with a key replaces the fact that holds the
//! key, and history says so.

use crate::api::prelude::*;
use crate::memory::checks::check_fact_key;
use crate::memory::facts::fact_writer::FactWriter;
use crate::memory::prepare::{Prepare, prepare};
use crate::memory::turn::{self, Checked, Turn};
use crate::memory::{endpoints, follow_ups};
use crate::models::thresholds;
use crate::pg::sql_types;
use crate::settings::Sessions;
use crate::store::entries::{self, NewEntry, Standing};
use crate::store::facts::{self, Ending, NearFact};
use crate::store::lexemes::Lexemes;
use crate::store::sessions::Fill;
use memory_agent_core::facts::says_the_same;

/// What a user states, for a session or for no one.
struct Stated {
    checked: Checked,
    session_id: Option<String>,
    key: Option<String>,
}

impl Stated {
    fn content(&self) -> &str {
        &self.checked.turn.content
    }

    fn scope<'a>(&'a self, caller: &'a Caller) -> FactScope<'a> {
        FactScope::of(caller, self.session_id.as_deref())
    }

    /// The row of the statement, as a kind and in a role.
    fn entry<'a>(
        &'a self,
        id: Uuid,
        scope: &FactScope<'a>,
        (kind, role): (&'static str, &'a str),
        words: (Lexemes, &'a str),
    ) -> NewEntry<'a> {
        let Checked { turn, markers, created_at, expires_at, .. } = &self.checked;
        NewEntry {
            markers: markers.clone(),
            metadata: turn.metadata.clone(),
            fact_key: self.key.as_deref(),
            expires_at: *expires_at,
            ..NewEntry::new(id, scope, kind, role, &turn.content, words, *created_at)
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
    check_session(session_id.as_deref())?;
    fact_key.as_deref().map_or(Ok(()), check_fact_key)?;
    let turn = Turn {
        session_id: session_id.clone().unwrap_or_default(),
        role: "user".to_owned(),
        content: content.unwrap_or_default(),
        metadata: metadata.unwrap_or_else(|| JsonbText("{}".into())),
        markers: markers.map(sql_types::without_nulls).transpose()?,
        created_at,
        ttl,
    };
    let now = pgrx::datum::datetime_support::now();
    let settings = scope_settings::stored(&caller.user_id, caller.agent(), session_id.as_deref())?;
    settings.during(|| {
        let checked = turn::check(turn, now, &Content::current())?;
        let session_id = schema::home_of(session_id.as_deref()).map(str::to_owned);
        let stated = Stated { checked, session_id, key: fact_key };
        let indexed = vec![stated.checked.indexed_text.clone()];
        let prepared = prepare(indexed, vec![stated.content().to_owned()])?;
        roles::write_as_owner(|spi| match infer {
            true => store_source(spi, &caller, &stated, &prepared),
            false => store(spi, &caller, &stated, &prepared),
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
fn store_source(spi: &Spi, caller: &Caller, fact: &Stated, prepared: &Prepare) -> PgResult<Uuid> {
    let id = entries::new_id();
    let session_id = fact.session_id.as_deref();
    let key = session_id.map(|session_id| SessionKey::of(caller, session_id));
    if let Some(key) = &key {
        sessions::lock(spi, key, fact.checked.created_at)?;
    }
    let words = prepared.words(spi, &fact.checked.indexed_text)?;
    let scope = fact.scope(caller);
    let entry = fact.entry(id, &scope, ("turn", "user"), words);
    let entry = NewEntry { standing: Standing::SourceOnly, ..prepared.complete(0, entry) };
    entries::insert(spi, entry)?;
    follow_ups::queue_extraction(spi, &scope)?;
    if let Some(key) = &key {
        let unsummarized = i64::from(prepared.token_count(0));
        let change = Fill { unsummarized, ..Fill::default() };
        if let Some(fill) = sessions::adjust(spi, key, change)? {
            follow_ups::queue_summary(spi, key, &fill)?;
        }
    }
    debug1!("memory_agent: add user={} source={id}", caller.user_id);
    Ok(id)
}

fn store(spi: &Spi, caller: &Caller, fact: &Stated, prepared: &Prepare) -> PgResult<Uuid> {
    let scope = fact.scope(caller);
    let mut writer = FactWriter::lock(spi, scope, fact.checked.created_at)?;
    let hash = entries::content_hash(fact.content());
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
        writer.said_again(same, &[], fact.checked.expires_at)?;
        return Ok(same);
    }
    let id = entries::new_id();
    // Before the new one is stored: it gets the key.
    if let Some(key) = fact.key.as_deref() {
        let mut held = holder.as_ref().map(|holder| holder.id);
        while let Some(old) = held {
            if !writer.supersede(old, id, fact.checked.created_at, Ending::Superseded, Some(key))? {
                break;
            }
            held = facts::holder_of_key(spi, writer.scope(), key)?.map(|holder| holder.id);
        }
    }
    let words = prepared.words(spi, &fact.checked.indexed_text)?;
    let scope = fact.scope(caller);
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

/// Facts that a new one is compared with.
const COMPARED: i32 = 5;

/// A fact of the same scope that says the same: the same text, or one so similar that only its
/// wording differs. Numbers, names and negations must agree.
fn duplicate(
    spi: &Spi,
    scope: &FactScope<'_>,
    fact: &Stated,
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
    let window = Vector(window.clone());
    let near = facts::neighbors(spi, scope, &model.name, &window, COMPARED)?;
    let says_so = |near: &&NearFact| {
        near.similarity >= threshold && says_the_same(&near.content, fact.content())
    };
    Ok(near.iter().find(says_so).map(|near| near.id))
}
