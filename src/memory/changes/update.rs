//! A new text for a turn, a fact or a document. The old row stays as the version before, for history and for questions
//! about the past; a new one takes its place, embedded as ingest does.

use crate::memory::changes::lifecycle::Locked;
use crate::memory::facts::fact_writer::{Actor, FactWriter};
use crate::memory::prelude::*;
use crate::memory::scope::checks::check_content;
use crate::memory::texts::language::Phrases;
use crate::memory::texts::prepare::{Prepare, prepare};
use crate::memory::texts::session_writer::facts_from;
use crate::memory::{
    changes::documents,
    quotas,
    scope::scope_settings,
    texts::{follow_ups, secrets, turn},
};
use crate::settings::Effective;
use crate::store::changes::lifecycle::{self, Extraction, Stored};
use crate::store::facts::{self, Ending};
use crate::store::rows::entries::{self, FactsFrom, NewEntry, Standing};
use crate::store::rows::sessions::Fill;
use crate::store::summaries;
use memory_agent_core::text::markers;
use memory_agent_core::text::secrets::stored_forms;

fn find(user: &str, id: Uuid) -> PgResult<Option<Stored>> {
    roles::read_as_owner(|spi| lifecycle::find(spi, user, id, false))
}

/// Gives an entry another text, and returns the id of the new version. A document keeps its id.
pub fn update(user: &str, id: Uuid, content: String) -> PgResult<Uuid> {
    match find(user, id)? {
        Some(old) => revise(user, old, content),
        None if documents::update(user, id, None, |_| Ok(content))? => Ok(id),
        None => Err(unknown(id)),
    }
}

fn revise(user: &str, old: Stored, content: String) -> PgResult<Uuid> {
    check(&old)?;
    if old.content == content {
        return Ok(old.id);
    }
    scope_settings::stored(user, &old.agent_id, old.session_id.as_deref())?.during(|settings| {
        check_content(&content, &settings.content)?;
        let (content, metadata) = secrets::revised(&content, &old.metadata, &settings.content)?;
        let revision = Revision::prepare(&old, content, metadata, settings)?;
        roles::write_as_owner(|spi| revision.store(spi, user, old.id))
    })
}

/// Takes up the text of an entry that was exported, changed by hand and imported again. Repeated, it changes
/// nothing. An entry that was replaced by something else meanwhile is an error. A chunk changes its document, whose
/// id is returned.
pub fn take_up(user: &str, id: Uuid, content: &str) -> PgResult<Uuid> {
    let old = find(user, id)?.ok_or_else(|| unknown(id))?;
    if let Some(by) = old.replaced_by
        && let Some(new) = find(user, by)?
        && stored_forms(content).iter().any(|form| *form == new.content)
    {
        return Ok(by);
    }
    if old.kind == "document"
        && old.source_relation.is_none()
        && let Some(document) = documents::take_up_chunk(user, &old, content)?
    {
        return Ok(document);
    }
    revise(user, old, content.to_owned())
}

fn unknown(id: Uuid) -> ErrorReport {
    Error::undefined(
        format!("there is no entry {id} of this user"),
        "Take the id from memory_recall, memory_load or the view memory_entries.",
    )
}

/// Refuses what has no text of its own to be changed, and what does not hold any more.
fn check(old: &Stored) -> PgResult<()> {
    let id = old.id;
    let error = if old.kind == "document" {
        Error::wrong_object(
            format!("{id} is a chunk of a document"),
            "Give its document a new text: memory_update with the id in its metadata's parent_id.",
        )
    } else if let Some(table) = &old.source_relation {
        Error::wrong_object(format!("{id} is a row of the table {table}"), "Update that row.")
    } else if old.is_source {
        Error::wrong_object(
            format!("{id} is only the source of facts"),
            "Update those facts, or forget it and add the new text with memory_add.",
        )
    } else if old.holds() {
        return Ok(());
    } else {
        let hint = match (old.state_reason.as_deref(), old.replaced_by) {
            (Some("superseded"), Some(by)) => format!("Update {by}, which took its place."),
            _ => "Bring it back with memory_restore first.".to_owned(),
        };
        Error::not_ready(format!("{id} is not memory any more"), hint)
    };
    Err(error)
}

/// A new text for an entry, with everything about it that is known before the database is touched.
struct Revision<'a> {
    content: String,
    markers: Vec<String>,
    metadata: JsonbText,
    indexed_text: String,
    prepared: Prepare,
    settings: &'a Effective,
}

impl<'a> Revision<'a> {
    fn prepare(
        old: &Stored,
        content: String,
        metadata: JsonbText,
        settings: &'a Effective,
    ) -> PgResult<Self> {
        let indexed_text = turn::indexed_text(&content, &metadata);
        let (indexed, texts) = (vec![indexed_text.clone()], vec![content.clone()]);
        let prepared = prepare(indexed, texts, &settings.content)?;
        let markers = markers_of(old, &content, &settings.content);
        Ok(Self { content, markers, metadata, indexed_text, prepared, settings })
    }

    /// Puts the new version in the place of the old one, and returns its id.
    fn store(&self, spi: &Spi, user: &str, id: Uuid) -> PgResult<Uuid> {
        // Another transaction may have changed it since it was read.
        let locked = Locked::entry(spi, user, id)?.ok_or_else(|| unknown(id))?;
        let old = &locked.entry;
        check(old)?;
        if old.content == self.content {
            return Ok(id);
        }
        let mut writer =
            FactWriter::of_locked(spi, locked.scope(), Actor::default(), self.settings);
        if let Some(same) = self.fact_that_says_so(spi, &locked)? {
            return join(spi, writer, old, same);
        }
        self.count(spi, &locked)?;
        let facts_from = facts_of(spi, old, self.settings)?;
        let new = self.version(spi, &locked, facts_from)?;
        let new_id = new.id;
        writer.revise(old, new, self.prepared.needs_job())?;
        // The new version of a turn has an id behind the old one's.
        if self.content.len() > old.content.len() {
            quotas::check_all(spi, user)?;
        }
        let waits = match facts_from {
            FactsFrom::Turn => old.role == "user" && old.is_turn(),
            from => from == FactsFrom::Decision,
        };
        if waits {
            locked.queue_extraction(spi, self.settings)?;
        }
        debug1!("memory_agent: update user={user} id={id} by={new_id}");
        Ok(new_id)
    }

    /// Another fact of the scope with this text. Two facts with keys of their own stay two.
    fn fact_that_says_so(&self, spi: &Spi, locked: &Locked<'_>) -> PgResult<Option<Uuid>> {
        let old = &locked.entry;
        if !old.is_fact() {
            return Ok(None);
        }
        let same = facts::that_says(spi, &locked.scope(), &self.content)?;
        let Some(same) = same else { return Ok(None) };
        if same == old.id {
            return Ok(None);
        }
        let other = lifecycle::find(spi, locked.user_id, same, true)?;
        let has_key = other.is_some_and(|other| other.fact_key.is_some());
        Ok((!has_key || old.fact_key.is_none()).then_some(same))
    }

    /// The row of the new version.
    fn version<'b>(
        &'b self,
        spi: &Spi,
        locked: &'b Locked<'_>,
        facts_from: FactsFrom,
    ) -> PgResult<NewEntry<'b>> {
        let old = &locked.entry;
        // What was said keeps its place and the time at which it was said; a fact holds from now on.
        let (kind, id, created_at) = match old.is_turn() {
            true => ("turn", lifecycle::id_behind(spi, locked.user_id, old.id)?, old.created_at),
            false => ("fact", entries::new_id(), pgrx::datum::datetime_support::now()),
        };
        let words = self.prepared.words(spi, &self.indexed_text)?;
        let scope = locked.scope();
        let entry = NewEntry::new(id, &scope, kind, &old.role, &self.content, words, created_at);
        Ok(NewEntry {
            markers: self.markers.clone(),
            metadata: self.metadata.clone(),
            episode_id: old.episode_id,
            fact_key: old.fact_key.as_deref(),
            expires_at: old.expires_at,
            // A person wrote the text, so no LLM's confidence applies to it.
            source_ids: old.source_ids.clone(),
            standing: match old.state.as_str() {
                "archived" => Standing::Archived(old.state_reason.as_deref()),
                _ => Standing::Active,
            },
            facts_from,
            ..self.prepared.complete(0, entry)
        })
    }

    /// The window and what waits for a summary have other sizes now. A turn that the summary covers is
    /// to be summarised again: the summary knows the old text.
    fn count(&self, spi: &Spi, locked: &Locked<'_>) -> PgResult<()> {
        let (old, new_tokens) = (&locked.entry, i64::from(self.prepared.token_count(0)));
        let (true, Some(key)) = (old.is_turn(), &locked.session) else { return Ok(()) };
        let growth = new_tokens - i64::from(old.token_count);
        let change = Fill {
            entries: 0,
            tokens: if old.is_counted() { growth } else { 0 },
            unsummarized: if summaries::covers(spi, key, old.id)? { new_tokens } else { growth },
        };
        match sessions::adjust(spi, key, change)? {
            Some(fill) => follow_ups::queue_summary(spi, key, &fill, self.settings),
            None => Ok(()),
        }
    }
}

/// Lets a fact that says so already take the old one's place.
fn join(spi: &Spi, mut writer: FactWriter<'_>, old: &Stored, same: Uuid) -> PgResult<Uuid> {
    let (user, now) = (writer.user(), pgrx::datum::datetime_support::now());
    writer.supersede(old.id, same, now, Ending::Superseded, Some("updated"))?;
    if let Some(key) = &old.fact_key {
        facts::inherit_key(spi, user, same, key)?;
    }
    writer.said_again(same, &[], old.expires_at, now)?;
    writer.note_repetitions(old.id)?;
    debug1!("memory_agent: update user={user} id={} by={same}", old.id);
    Ok(same)
}

/// What facts are made from when a turn got another text: what they were to be made from before, or the
/// turn by itself when its facts are there already or its episode is over.
fn facts_of(spi: &Spi, old: &Stored, settings: &Effective) -> PgResult<FactsFrom> {
    Ok(match old.extraction {
        _ if !old.is_turn() => FactsFrom::Turn,
        // Of the others, only an assistant's decision was ever to become a fact.
        Extraction::Waits if old.role != "user" => FactsFrom::Turn,
        Extraction::Skipped => FactsFrom::Nothing,
        _ if old.role != "user" => match facts_from(spi, &old.agent_id, settings)? {
            FactsFrom::Nothing => FactsFrom::Turn,
            _ => FactsFrom::Decision,
        },
        Extraction::Waits => FactsFrom::Turn,
        Extraction::InEpisode => FactsFrom::Episode,
        Extraction::AfterEpisode | Extraction::Done => {
            match facts_from(spi, &old.agent_id, settings)? {
                FactsFrom::Nothing => FactsFrom::Nothing,
                _ => FactsFrom::Turn,
            }
        }
    })
}

/// The markers of the new text: those that it shows, instead of those that the old one showed. Others
/// were given, and stay.
fn markers_of(old: &Stored, content: &str, settings: &Content) -> Vec<String> {
    if !settings.auto_detect_markers {
        return old.markers.clone();
    }
    let phrases = Phrases::of(&settings.text_search_config);
    let shown = phrases.markers(&old.content);
    let given = old.markers.iter().map(String::as_str).filter(|marker| !shown.contains(marker));
    let all: Vec<&str> = given.chain(phrases.markers(content)).collect();
    markers::merge(None, &all)
}
