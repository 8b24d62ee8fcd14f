//! Archived conversations: what is stored of one when it is compressed, or archived as it is.

use crate::memory::prelude::*;
use crate::memory::summaries::chunks::{self, Chunks, Parent, Uncut, prepare_chunks};
use crate::settings::Effective;
use crate::store::rows::scope::ARCHIVE_RELATION;
use crate::store::summaries::archives::{self, CONVERSATION};
use crate::store::summaries::{self, Coverage, Source};
use memory_agent_core::condense::archive::{Conversation, namespace};
use memory_agent_core::condense::chunk::Limits;
use memory_agent_core::condense::summarize::Sections;
use memory_agent_core::text::highlights::{Turn, highlights};
use pgrx::datum::ToIsoString;

/// Tokens of turns that are read to choose from, and of those that are told.
const MOST_READ: u64 = 200_000;
const MOST_TOLD: u32 = 1_600;

/// A conversation to be archived. It is made in a transaction and prepared outside of one.
pub struct Archived {
    sections: Sections,
    message_count: u32,
    start: String,
    end: String,
    ended_at: TimestampWithTimeZone,
}

impl Archived {
    /// A conversation as it is: its summary, and of the turns that this does not cover the best, or all if
    /// they are few. `None` while there is nothing to tell.
    pub fn of_session(spi: &Spi, key: &SessionKey) -> PgResult<Option<Self>> {
        let current = summaries::current(spi, key)?;
        let turns = summaries::uncovered(spi, key, MOST_READ)?.turns;
        let said = Coverage::of(&turns, false);
        let covered = current.as_ref().and_then(|current| current.coverage.clone());
        let coverage = match (covered, said) {
            (Some(covered), Some(said)) => covered.joined(said),
            (covered, said) => match covered.or(said) {
                Some(coverage) => coverage,
                None => return Ok(None),
            },
        };
        let mut sections = current.map(|current| current.sections).unwrap_or_default();
        let told: Vec<Turn<'_>> =
            turns.iter().map(|turn| Turn { content: &turn.content, tokens: turn.tokens }).collect();
        for turn in highlights(&told, MOST_TOLD) {
            let Source { role, speaker, content, .. } = &turns[turn];
            let speaker = speaker.as_deref().unwrap_or(role);
            sections.summary.push_str(&format!("\n{speaker}: {}", content.trim()));
        }
        Ok(Some(Self::new(sections, coverage.messages, coverage.first.1, coverage.last.1)))
    }

    /// `sections` is the summary with what was found in the conversation, `message_count` the turns
    /// it stands for, the times are those of the first and the last of them.
    pub fn new(
        sections: Sections,
        message_count: u32,
        started_at: TimestampWithTimeZone,
        ended_at: TimestampWithTimeZone,
    ) -> Self {
        Self { sections, message_count, start: utc(started_at), end: utc(ended_at), ended_at }
    }

    /// Cuts and embeds the text that is archived. The database is not touched.
    pub fn prepare(
        &self,
        limits: Limits,
        model: Option<ModelRef>,
        embed_now: bool,
        configuration: String,
    ) -> Chunks {
        let text = self.conversation("", "").document();
        prepare_text(&text, limits, model, embed_now, configuration)
    }

    fn conversation<'a>(&'a self, agent_id: &'a str, session_id: &'a str) -> Conversation<'a> {
        Conversation {
            session_id,
            agent_id,
            sections: &self.sections,
            message_count: self.message_count,
            start: &self.start,
            end: &self.end,
        }
    }
}

/// A time in ISO 8601, in UTC.
fn utc(at: TimestampWithTimeZone) -> String {
    format!("{}Z", at.to_utc().to_iso_string())
}

/// Archives a conversation in the place of what was archived of it before its active L3, and returns
/// the id of the archive, which stays the same; one that was forgotten stays so. The caller holds the
/// session's lock. `chunks` are made from [`Archived::prepare`].
pub fn archive_conversation(
    spi: &Spi,
    key: &SessionKey,
    archived: &Archived,
    chunks: &Chunks,
    settings: &Effective,
) -> PgResult<Uuid> {
    let conversation = archived.conversation(&key.agent_id, &key.session_id);
    let metadata = conversation.metadata();
    let id = archives::upsert_conversation(
        spi,
        key,
        &namespace(&key.user_id),
        &conversation.document(),
        JsonbText(metadata.to_string()),
    )?;
    let was_forgotten = archives::is_forgotten(spi, &key.user_id, id)?;
    archives::delete_chunks(spi, &key.user_id, id)?;
    let metadata = JsonbText(metadata.to_string());
    insert_chunks(spi, key, id, &metadata, archived.ended_at, chunks, settings)?;
    if was_forgotten {
        archives::forget_chunks(spi, &key.user_id, id)?;
    }
    debug1!("memory_agent: archive user={} id={id} chunks={}", key.user_id, chunks.chunks.len());
    Ok(id)
}

/// Cuts and embeds the text of an archived conversation. The headings are the same in every archive: they say
/// nothing of this one.
pub fn prepare_text(
    content: &str,
    limits: Limits,
    model: Option<ModelRef>,
    embed_now: bool,
    configuration: String,
) -> Chunks {
    let metadata = JsonbText("{}".into());
    let text = Uncut { content, title: None, metadata: &metadata, is_headed: false };
    prepare_chunks(&text, limits, model, embed_now, configuration)
}

/// Stores the chunks of an archived conversation that ended at `at`.
pub fn insert_chunks(
    spi: &Spi,
    key: &SessionKey,
    id: Uuid,
    metadata: &JsonbText,
    at: TimestampWithTimeZone,
    chunks: &Chunks,
    settings: &Effective,
) -> PgResult<()> {
    let parent = Parent {
        scope: FactScope::of_session(key),
        metadata,
        id,
        doc_type: CONVERSATION,
        title: None,
        at,
        source_relation: Some(ARCHIVE_RELATION),
    };
    chunks::insert_chunks(spi, &parent, chunks, settings)
}
