//! Forgetting one memory, and bringing it back. Nothing is deleted here: what is forgotten stays for history
//! and for questions about the past.

use crate::memory::texts::prepare::embedder;
use crate::memory::texts::session_writer::facts_from;
use crate::memory::{quotas, scope::scope_settings, texts::follow_ups};
use crate::pg::locks::keep_erasures_out;
use crate::pg::prelude::*;
use crate::settings::Effective;
use crate::store::changes::lifecycle::{self, Extraction, Stored};
use crate::store::facts;
use crate::store::rows::entries::FactsFrom;
use crate::store::rows::fact_scope::FactScope;
use crate::store::rows::sessions::{self, Fill, SessionKey};
use crate::store::{rows::history, summaries, summaries::archives};

/// The events in history; that of an update is in `store::rows::history`.
const FORGET: &str = "delete";
const SUPERSEDE: &str = "supersede";
const RESTORE: &str = "restore";
/// Why versions after one that comes back never held.
const UNDONE: &str = "an earlier version was restored";

/// An entry that no other transaction can change before the end of the transaction.
pub struct Locked<'a> {
    pub user_id: &'a str,
    pub entry: Stored,
    /// Its session, if it has one that is there.
    pub session: Option<SessionKey>,
}

impl<'a> Locked<'a> {
    /// Locks an entry, in the order that all writers keep: its session, or the user's global facts, comes first.
    /// `None` when there is no such entry.
    pub fn entry(spi: &Spi, user_id: &'a str, id: Uuid) -> PgResult<Option<Self>> {
        keep_erasures_out(user_id);
        let Some(seen) = lifecycle::find(spi, user_id, id, false)? else { return Ok(None) };
        let session = match seen.session(user_id) {
            Some(key) => sessions::lock_existing(spi, &key)?.map(|_| key),
            None => {
                if seen.is_fact() {
                    facts::lock_global(user_id, &seen.agent_id);
                }
                None
            }
        };
        let entry = lifecycle::find(spi, user_id, id, true)?;
        Ok(entry.map(|entry| Self { user_id, entry, session }))
    }

    /// Where facts are compared with it.
    pub fn scope(&self) -> FactScope<'_> {
        let Stored { agent_id, session_id, .. } = &self.entry;
        FactScope { user_id: self.user_id, agent_id, session_id: session_id.as_deref() }
    }

    /// Queues the extraction from its scope, if an LLM is configured that extracts.
    pub fn queue_extraction(&self, spi: &Spi, settings: &Effective) -> PgResult<()> {
        if facts_from(spi, &self.entry.agent_id, settings)? == FactsFrom::Nothing {
            return Ok(());
        }
        follow_ups::queue_extraction(spi, &self.scope(), settings)
    }

    /// The tokens by which it changes what no summary covers.
    fn unsummarized_tokens(&self, spi: &Spi) -> PgResult<i64> {
        match &self.session {
            Some(key)
                if self.entry.is_turn()
                    && self.entry.source_relation.is_none()
                    && !summaries::covers(spi, key, self.entry.id)? =>
            {
                Ok(i64::from(self.entry.token_count))
            }
            _ => Ok(0),
        }
    }
}

/// Forgets an entry or a document. False when it does not hold any more, or is not there.
pub fn forget(spi: &Spi, user: &str, id: Uuid, reason: Option<&str>) -> PgResult<bool> {
    let Some(locked) = Locked::entry(spi, user, id)? else {
        return forget_document(spi, user, id, reason);
    };
    let entry = &locked.entry;
    let waits_as_source = entry.is_source && entry.state_reason.is_none();
    if entry.state == "inactive" && !waits_as_source {
        return Ok(false);
    }
    lifecycle::forget(spi, user, id)?;
    leave_window(spi, &locked)?;
    history::append(spi, user, id, FORGET, reason, None)?;
    debug1!("memory_agent: forget user={user} id={id}");
    Ok(true)
}

/// Ends a turn of a session that its client took back, because of the turn `by` where that has its place. False when
/// it is no turn of the session, or does not hold any more.
pub fn take_back(spi: &Spi, key: &SessionKey, id: Uuid, by: Option<Uuid>) -> PgResult<bool> {
    let user = key.user_id.as_str();
    let Some(locked) = Locked::entry(spi, user, id)? else { return Ok(false) };
    let entry = &locked.entry;
    let is_said = entry.is_turn() && entry.source_relation.is_none();
    if !is_said || !entry.holds() || entry.session(user).as_ref() != Some(key) {
        return Ok(false);
    }
    let (op, reason) = match by {
        Some(by) => {
            lifecycle::supersede(spi, user, id, by)?;
            (SUPERSEDE, "the client sent another one in its place")
        }
        None => {
            lifecycle::forget(spi, user, id)?;
            (FORGET, "the client took back what it answers")
        }
    };
    leave_window(spi, &locked)?;
    history::append(spi, user, id, op, Some(reason), None)?;
    debug1!("memory_agent: take back user={user} id={id}");
    Ok(true)
}

/// Takes an entry that ends out of what its session counts.
fn leave_window(spi: &Spi, locked: &Locked<'_>) -> PgResult<()> {
    let entry = &locked.entry;
    if let Some(key) = &locked.session {
        let counted = i64::from(entry.is_counted());
        let tokens = if entry.is_turn() { i64::from(entry.token_count) } else { 0 };
        let change = Fill {
            entries: -counted,
            tokens: -counted * tokens,
            unsummarized: -locked.unsummarized_tokens(spi)?,
        };
        sessions::adjust(spi, key, change)?;
    }
    Ok(())
}

/// Brings an entry or a document back. False when it holds, or is not there.
pub fn restore(user: &str, id: Uuid) -> PgResult<bool> {
    let home = roles::read_as_owner(|spi| match lifecycle::find(spi, user, id, false)? {
        Some(entry) => Ok(Some((entry.agent_id, entry.session_id))),
        None => archives::home(spi, user, id),
    })?;
    let Some((agent_id, session_id)) = home else { return Ok(false) };
    scope_settings::scoped_to(user, &agent_id, session_id.as_deref(), |settings| {
        let (model, _) = embedder(&settings.content)?;
        let model = model.as_ref().map(|model| model.name.as_str());
        roles::write_as_owner(|spi| restore_entry(spi, user, id, model, settings))
    })
}

fn restore_entry(
    spi: &Spi,
    user: &str,
    id: Uuid,
    model: Option<&str>,
    settings: &Effective,
) -> PgResult<bool> {
    let Some(locked) = Locked::entry(spi, user, id)? else {
        return restore_document(spi, user, id, model, settings);
    };
    let entry = &locked.entry;
    if entry.state == "active" && !entry.is_expired {
        return Ok(false);
    }
    if entry.is_source {
        return restore_source(spi, &locked, settings);
    }
    let later = lifecycle::later_versions(spi, user, id)?;
    check_place(spi, &locked, &later)?;
    let undone: Vec<Uuid> = later.into_iter().map(|(version, _)| version).collect();
    let waits = facts_from(spi, &entry.agent_id, settings)? != FactsFrom::Nothing;
    lifecycle::restore(spi, user, id, model, waits)?;
    if entry.state == "inactive" {
        quotas::check_all(spi, user)?;
    }
    if !undone.is_empty() {
        lifecycle::undo(spi, user, &undone, id)?;
        history::append_all(
            spi,
            user,
            (history::ENTRIES, &undone),
            history::UPDATE,
            Some(UNDONE),
            None,
        )?;
    }
    let now = lifecycle::find(spi, user, id, false)?;
    if let (Some(key), true) = (&locked.session, entry.can_be_counted()) {
        let added = i64::from(!entry.is_counted());
        let tokens = if entry.is_turn() { i64::from(entry.token_count) } else { 0 };
        // What merely left the window still waits for its summary, and so does what expired.
        let still_counts =
            entry.state != "inactive" || entry.state_reason.as_deref() == Some("expired");
        let change = Fill {
            entries: added,
            tokens: added * tokens,
            unsummarized: if still_counts { 0 } else { locked.unsummarized_tokens(spi)? },
        };
        if let Some(fill) = sessions::adjust(spi, key, change)? {
            follow_ups::queue_summary(spi, key, &fill, settings)?;
            follow_ups::queue_eviction(spi, key, fill.entries, settings)?;
        }
    }
    if let Some(now) = now {
        if now.lacks_embedding && model.is_some() {
            follow_ups::queue_embedding(spi, &locked.scope(), settings)?;
        }
        if now.is_turn() && now.role == "user" && now.extraction == Extraction::Waits {
            locked.queue_extraction(spi, settings)?;
        }
    }
    history::append(spi, user, id, RESTORE, None, None)?;
    debug1!("memory_agent: restore user={user} id={id}");
    Ok(true)
}

/// A source that was forgotten is one again, and facts are made of it if none were.
fn restore_source(spi: &Spi, locked: &Locked<'_>, settings: &Effective) -> PgResult<bool> {
    let entry = &locked.entry;
    if entry.state_reason.is_none() {
        return Ok(false);
    }
    lifecycle::restore_source(spi, locked.user_id, entry.id)?;
    if let Some(key) = &locked.session {
        let unsummarized = locked.unsummarized_tokens(spi)?;
        let change = Fill { unsummarized, ..Fill::default() };
        if let Some(fill) = sessions::adjust(spi, key, change)? {
            follow_ups::queue_summary(spi, key, &fill, settings)?;
        }
    }
    if entry.extraction == Extraction::Waits {
        locked.queue_extraction(spi, settings)?;
    }
    history::append(spi, locked.user_id, entry.id, RESTORE, None, None)?;
    Ok(true)
}

/// Refuses to bring back what has no content any more, or whose place is taken.
fn check_place(spi: &Spi, locked: &Locked<'_>, later: &[(Uuid, bool)]) -> PgResult<()> {
    let (entry, user) = (&locked.entry, locked.user_id);
    let id = entry.id;
    if entry.content.is_empty() {
        return Err(Error::not_ready(
            format!("the content of {id} was deleted for good"),
            "memory_agent.purge_after says how long inactive memories are kept.",
        ));
    }
    if entry.state != "inactive" {
        return Ok(());
    }
    if entry.state_reason.as_deref() == Some("superseded")
        && let Some(document) = entry.document()
        && archives::home(spi, user, document)?.is_some()
    {
        return Err(Error::not_ready(
            format!("{id} cannot be brought back: its document has another text now"),
            format!("Give the document its old text: memory_update('{document}', ...)."),
        ));
    }
    let taken = |by: Uuid, as_what: String| -> PgResult<()> {
        Err(Error::not_ready(
            format!("{id} cannot be brought back: {by} {as_what}"),
            format!("SELECT memory_forget('{by}') first."),
        ))
    };
    if let Some((by, _)) = later.iter().find(|(_, holds)| *holds) {
        return taken(*by, "is a later version of it".to_owned());
    }
    if let Some(key) = &entry.fact_key
        && let Some(holder) = facts::holder_of_key(spi, &locked.scope(), key)?
    {
        return taken(holder.id, format!("holds its key \"{key}\""));
    }
    if entry.is_fact()
        && let Some(by) = facts::that_says(spi, &locked.scope(), &entry.content)?
        && by != id
    {
        return taken(by, "says the same".to_owned());
    }
    if entry.source_relation.is_some()
        && let Some(by) = lifecycle::holder_of_row(spi, user, id)?
    {
        return taken(by, "stands for the same row of its table".to_owned());
    }
    Ok(())
}

/// Forgets a document, or an archived conversation: all its chunks.
fn forget_document(spi: &Spi, user: &str, id: Uuid, reason: Option<&str>) -> PgResult<bool> {
    if lock_document(spi, user, id)?.is_none() || archives::forget_chunks(spi, user, id)? == 0 {
        return Ok(false);
    }
    history::append_all(spi, user, (history::ARCHIVES, &[id]), FORGET, reason, None)?;
    debug1!("memory_agent: forget user={user} document={id}");
    Ok(true)
}

/// Brings a document back: all its chunks. False when it was not forgotten, or is not there.
pub fn restore_document(
    spi: &Spi,
    user: &str,
    id: Uuid,
    model: Option<&str>,
    settings: &Effective,
) -> PgResult<bool> {
    let Some((agent, session)) = lock_document(spi, user, id)? else { return Ok(false) };
    let chunks = archives::restore_chunks(spi, user, id, model)?;
    if chunks.is_empty() {
        return Ok(false);
    }
    quotas::check_all(spi, user)?;
    if model.is_some() && chunks.contains(&true) {
        let (agent_id, session_id) = (agent.as_str(), session.as_deref());
        let scope = FactScope { user_id: user, agent_id, session_id };
        follow_ups::queue_embedding(spi, &scope, settings)?;
    }
    history::append_all(spi, user, (history::ARCHIVES, &[id]), RESTORE, None, None)?;
    debug1!("memory_agent: restore user={user} document={id} chunks={}", chunks.len());
    Ok(true)
}

/// Locks a document and before it the session that it belongs to, and returns its agent and session;
/// `None` when it is not there.
pub fn lock_document(
    spi: &Spi,
    user: &str,
    id: Uuid,
) -> PgResult<Option<(String, Option<String>)>> {
    keep_erasures_out(user);
    let Some((agent_id, session_id)) = archives::home(spi, user, id)? else { return Ok(None) };
    if let Some(session_id) = session_id.clone() {
        let agent_id = agent_id.clone();
        let key = SessionKey { user_id: user.to_owned(), agent_id, session_id };
        sessions::lock_existing(spi, &key)?;
    }
    Ok(archives::lock(spi, user, id)?.then_some((agent_id, session_id)))
}
