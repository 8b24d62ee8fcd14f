//! What a user states: stored as a fact at once, unless memory has it already, or as something the user said,
//! from which the worker makes facts. A fact with a key replaces the fact that holds the key, and history
//! says so.

use crate::memory::facts::fact_writer::FactWriter;
use crate::memory::prelude::*;
use crate::memory::texts::prepare::{Prepare, prepare};
use crate::memory::texts::turn::{self, Checked, Turn};
use crate::memory::{quotas, scope::scope_settings, texts::follow_ups};
use crate::models::thresholds;
use crate::settings::Effective;
use crate::store::facts::{self, Ending, NearFact};
use crate::store::rows::entries::{self, NewEntry, Standing};
use crate::store::rows::fact_scope::Among;
use crate::store::rows::forms::says;
use crate::store::rows::lexemes::Lexemes;
use crate::store::rows::sessions::Fill;
use crate::store::schema;
use memory_agent_core::facts::same::says_the_same;

/// What a user states, for one session or none.
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

/// Stores what a caller states, for one session or none: with `infer` as the source of facts, else as a
/// fact, which may have a key.
pub fn add(
    caller: &Caller,
    turn: Turn,
    session_id: Option<&str>,
    key: Option<String>,
    infer: bool,
) -> PgResult<Uuid> {
    let now = pgrx::datum::datetime_support::now();
    scope_settings::scoped(caller, session_id, |settings| {
        let checked = turn::check(turn, now, &settings.content)?;
        let session_id = schema::home_of(session_id).map(str::to_owned);
        let stated = Stated { checked, session_id, key };
        let indexed = vec![stated.checked.indexed_text.clone()];
        let prepared = prepare(indexed, vec![stated.content().to_owned()], &settings.content)?;
        roles::write_as_owner(|spi| match infer {
            true => store_source(spi, caller, &stated, &prepared, settings),
            false => store(spi, caller, &stated, &prepared, settings),
        })
    })
}

/// Stores the text as the source of facts to come: it is in no window and not recalled itself. The summary of
/// its session takes it up, as something that the user said.
fn store_source(
    spi: &Spi,
    caller: &Caller,
    fact: &Stated,
    prepared: &Prepare,
    settings: &Effective,
) -> PgResult<Uuid> {
    // It does not count itself, but there must be room for what it becomes.
    let room = quotas::room(spi, &caller.user_id)?;
    if let Some(problem) = room.and_then(|mut room| room.take(fact.content().len())) {
        return Err(quotas::over_quota(problem));
    }
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
    follow_ups::queue_extraction(spi, &scope, settings)?;
    if let Some(key) = &key {
        let unsummarized = i64::from(prepared.token_count(0));
        let change = Fill { unsummarized, ..Fill::default() };
        if let Some(fill) = sessions::adjust(spi, key, change)? {
            follow_ups::queue_summary(spi, key, &fill, settings)?;
        }
    }
    debug1!("memory_agent: add user={} source={id}", caller.user_id);
    Ok(id)
}

fn store(
    spi: &Spi,
    caller: &Caller,
    fact: &Stated,
    prepared: &Prepare,
    settings: &Effective,
) -> PgResult<Uuid> {
    let scope = fact.scope(caller);
    let mut writer = FactWriter::lock(spi, scope, fact.checked.created_at, settings)?;
    let holder = match &fact.key {
        Some(key) => facts::holder_of_key(spi, writer.scope(), key)?,
        None => None,
    };
    let same = match &holder {
        Some(holder) => {
            let is_same = says(holder.content_hash.as_deref(), fact.content());
            (is_same && !holder.is_expired).then_some(holder.id)
        }
        None => duplicate(spi, writer.scope(), fact, prepared)?,
    };
    if let Some(same) = same {
        writer.said_again(same, &[], fact.checked.expires_at, fact.checked.created_at)?;
        debug1!("memory_agent: add user={} again={same}", caller.user_id);
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
    prepared: &Prepare,
) -> PgResult<Option<Uuid>> {
    if let Some(same) = facts::that_says(spi, scope, fact.content())? {
        return Ok(Some(same));
    }
    let (Some(model), Some([window])) = (&prepared.model, prepared.embedding(0)) else {
        return Ok(None);
    };
    let Some(threshold) = thresholds(model).map(|calibrated| calibrated.duplicate) else {
        return Ok(None);
    };
    let window = Vector(window.clone());
    let near = facts::neighbors(spi, scope, Among::Own, &model.name, &window, COMPARED)?;
    let says_so = |near: &&NearFact| {
        near.similarity >= threshold && says_the_same(&near.content, fact.content())
    };
    Ok(near.iter().find(says_so).map(|near| near.id))
}
