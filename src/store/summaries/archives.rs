//! `memory_agent.archives`: the knowledge base. Documents and compressed conversations are kept here as
//! wholes; their chunks are entries of kind `document`, which name their whole in the metadata.

use crate::store::prelude::*;
use crate::store::rows::entries::new_id;
use crate::store::rows::fact_scope::FactScope;
use crate::store::rows::forms::{content_hash, content_hashes};

/// The type of archived conversations; documents may have any other.
pub const CONVERSATION: &str = "conversation";

/// `c`: how many chunks the archive `a` has, and how many of them recall may return.
const CHUNKS: &str = "LATERAL (SELECT count(*) AS stored, count(*) FILTER (WHERE e.state <> 'inactive') AS held \
      FROM memory_agent.entries e \
     WHERE e.user_id = a.user_id AND e.kind = 'document' AND e.metadata ->> 'parent_id' = a.id::text) c";
/// The archive whose [`CHUNKS`] `c` are was forgotten as a whole.
const FORGOTTEN: &str = "(c.stored > 0 AND c.held = 0)";

/// Archives a session's conversation with its active L3, if it has one, and returns the id of the archive.
/// What was archived before with an L3 that went into this one, or without any, is replaced, and keeps its id;
/// what the session was before memory_clear stays beside it. The caller holds the session's lock.
pub fn upsert_conversation(
    spi: &Spi,
    key: &SessionKey,
    namespace: &str,
    content: &str,
    metadata: JsonbText,
) -> PgResult<Uuid> {
    spi.one(
        include_str!("../sql/upsert_conversation.sql"),
        &mut params![
            new_id(),
            &key.user_id,
            &key.agent_id,
            &key.session_id,
            namespace,
            content,
            content_hash(content),
            metadata,
        ],
    )
}

/// Sessions in which nothing was said for so long, and of which the archive lacks something, those that fell
/// silent first before the others. Of those without turns there is nothing to archive, and global memory is no
/// conversation.
pub fn idle_conversations(spi: &Spi, idle: Duration, most: i64) -> PgResult<Vec<SessionKey>> {
    spi.rows(
        "SELECT s.user_id, s.agent_id, s.session_id FROM memory_agent.sessions s \
          WHERE s.last_turn_at < now() - make_interval(secs => $1) AND s.active_entries > 0 \
            AND s.session_id IS DISTINCT FROM $3 \
            AND (EXISTS (SELECT FROM memory_agent.entries e \
                          WHERE e.user_id = s.user_id AND e.agent_id = s.agent_id \
                            AND e.session_id = s.session_id AND e.kind = 'turn' AND e.state <> 'inactive') \
              OR EXISTS (SELECT FROM memory_agent.session_summaries u \
                          WHERE u.user_id = s.user_id AND u.agent_id = s.agent_id \
                            AND u.session_id = s.session_id AND u.level = 'L3' AND u.is_active)) \
            AND NOT EXISTS (SELECT FROM memory_agent.archives a \
                             WHERE a.user_id = s.user_id AND a.agent_id = s.agent_id \
                               AND a.session_id = s.session_id AND a.doc_type = 'conversation' \
                               AND a.updated_at > s.last_turn_at) \
          ORDER BY s.last_turn_at, s.user_id, s.agent_id, s.session_id LIMIT $2",
        &mut params![idle.as_secs_f64(), most, schema::global_name()],
    )
}

/// A document to be stored.
pub struct NewDocument<'a> {
    pub scope: FactScope<'a>,
    pub content: &'a str,
    pub title: Option<&'a str>,
    pub doc_type: &'a str,
    pub metadata: &'a JsonbText,
}

/// The document of a scope that has this text, and whether it was forgotten.
pub fn with_content(
    spi: &Spi,
    scope: &FactScope<'_>,
    content: &str,
) -> PgResult<Option<(Uuid, bool)>> {
    spi.row(
        &format!(
            "SELECT a.id, {FORGOTTEN} FROM memory_agent.archives a, {CHUNKS} \
              WHERE a.user_id = $1 AND a.agent_id = $2 AND coalesce(a.session_id, '') = ANY ($3) \
                AND a.content_hash = ANY ($4) AND a.doc_type <> 'conversation' \
              ORDER BY a.session_id NULLS FIRST LIMIT 1"
        ),
        &mut params![scope.user_id, scope.agent_id, scope.names(), content_hashes(content)],
    )
}

/// Stores a document and returns its id; `None` when its scope has one with this text.
pub fn insert_document(spi: &Spi, document: &NewDocument<'_>) -> PgResult<Option<Uuid>> {
    spi.row(
        "INSERT INTO memory_agent.archives \
            (user_id, agent_id, session_id, id, namespace, doc_type, title, content, content_hash, metadata) \
         VALUES ($1, $2, $3, $4, 'documents:' || $1, $5, $6, $7, $8, $9) \
         ON CONFLICT (user_id, agent_id, coalesce(session_id, ''), content_hash) \
            WHERE doc_type <> 'conversation' DO NOTHING \
         RETURNING id",
        &mut params![document.scope;
            new_id(), document.doc_type, document.title, document.content,
            content_hash(document.content), document.metadata.clone(),
        ],
        )
}

/// A document or archived conversation as a whole.
pub struct Whole {
    pub agent_id: String,
    pub session_id: Option<String>,
    pub doc_type: String,
    pub title: Option<String>,
    pub content: String,
    pub metadata: JsonbText,
    pub is_forgotten: bool,
}

record!(Whole: agent_id session_id doc_type title content metadata is_forgotten);

/// An archive of a user; `None` when there is none.
pub fn whole(spi: &Spi, user_id: &str, id: Uuid) -> PgResult<Option<Whole>> {
    spi.row(
        &format!(
            "SELECT a.agent_id, a.session_id, a.doc_type, a.title, a.content, a.metadata, {FORGOTTEN} \
               FROM memory_agent.archives a, {CHUNKS} WHERE a.user_id = $1 AND a.id = $2"
        ),
        &mut params![user_id, id],
    )
}

/// Gives a document another text, and ends the chunks of the one before, those that were forgotten too.
pub fn replace_content(
    spi: &Spi,
    user_id: &str,
    id: Uuid,
    content: &str,
    metadata: &JsonbText,
) -> PgResult<()> {
    spi.run(
        "UPDATE memory_agent.archives a \
            SET content = $3, content_hash = $4, metadata = $5, updated_at = now() \
          WHERE a.user_id = $1 AND a.id = $2",
        &mut params![user_id, id, content, content_hash(content), metadata.clone()],
    )?;
    end_chunks(spi, user_id, id, "superseded")?;
    spi.run(
        &format!("UPDATE memory_agent.entries e SET state_reason = 'superseded', updated_at = now() {GAPS}"),
        &mut params![user_id, id.to_string()],
    )
}

/// The chunks `e` of a document's text that were forgotten.
const GAPS: &str = "WHERE e.user_id = $1 AND e.kind = 'document' AND e.metadata ->> 'parent_id' = $2 \
     AND e.state = 'inactive' AND e.state_reason IS DISTINCT FROM 'superseded'";

/// Whether chunks of a document's text were forgotten.
pub fn has_gaps(spi: &Spi, user_id: &str, id: Uuid) -> PgResult<bool> {
    spi.exists(
        &format!("SELECT true FROM memory_agent.entries e {GAPS} LIMIT 1"),
        &mut params![user_id, id.to_string()],
    )
}

/// Deletes the chunks of one archive; its whole stays.
pub fn delete_chunks(spi: &Spi, user_id: &str, parent: Uuid) -> PgResult<()> {
    spi.run(
        "WITH deleted AS ( \
            DELETE FROM memory_agent.entries e \
             WHERE e.user_id = $1 AND e.kind = 'document' AND e.metadata ->> 'parent_id' = $2 \
            RETURNING e.id) \
         DELETE FROM memory_agent.entry_windows w USING deleted \
          WHERE w.user_id = $1 AND w.entry_id = deleted.id",
        &mut params![user_id, parent.to_string()],
    )
}

/// The agent and the session that an archive belongs to; `None` when there is no such archive.
pub fn home(spi: &Spi, user_id: &str, id: Uuid) -> PgResult<Option<(String, Option<String>)>> {
    spi.row(
        "SELECT a.agent_id, a.session_id FROM memory_agent.archives a WHERE a.user_id = $1 AND a.id = $2",
        &mut params![user_id, id],
    )
}

/// Locks an archive until the end of the transaction; false when it is not there.
pub fn lock(spi: &Spi, user_id: &str, id: Uuid) -> PgResult<bool> {
    spi.exists(
        "SELECT true FROM memory_agent.archives a WHERE a.user_id = $1 AND a.id = $2 FOR UPDATE",
        &mut params![user_id, id],
    )
}

/// Whether an archive was forgotten as a whole.
pub fn is_forgotten(spi: &Spi, user_id: &str, id: Uuid) -> PgResult<bool> {
    let forgotten = spi.row(
        &format!(
            "SELECT {FORGOTTEN} FROM memory_agent.archives a, {CHUNKS} WHERE a.user_id = $1 AND a.id = $2"
        ),
        &mut params![user_id, id],
    )?;
    Ok(forgotten.unwrap_or(false))
}

/// Makes the chunks of an archive inactive and returns how many were not yet; its whole stays.
pub fn forget_chunks(spi: &Spi, user_id: &str, parent: Uuid) -> PgResult<u64> {
    end_chunks(spi, user_id, parent, "deleted")
}

fn end_chunks(spi: &Spi, user_id: &str, parent: Uuid, reason: &str) -> PgResult<u64> {
    spi.execute(
        "UPDATE memory_agent.entries e \
            SET state = 'inactive', state_reason = $3, state_at = now(), valid_to = now(), \
                updated_at = now() \
          WHERE e.user_id = $1 AND e.id IN ( \
                SELECT o.id FROM memory_agent.entries o \
                 WHERE o.user_id = $1 AND o.kind = 'document' AND o.metadata ->> 'parent_id' = $2 \
                   AND o.state <> 'inactive' ORDER BY o.id FOR UPDATE)",
        &mut params![user_id, parent.to_string(), reason],
    )
}

/// Brings back the inactive chunks of an archive, but those of a text that it had before, and returns whether each
/// lacks an embedding now: one by another model than `model`, if there is one, is dropped.
pub fn restore_chunks(
    spi: &Spi,
    user_id: &str,
    parent: Uuid,
    model: Option<&str>,
) -> PgResult<Vec<bool>> {
    spi.rows(
        "WITH chunks AS ( \
            SELECT o.id FROM memory_agent.entries o \
             WHERE o.user_id = $1 AND o.kind = 'document' AND o.metadata ->> 'parent_id' = $2 \
               AND o.state = 'inactive' AND o.state_reason IS DISTINCT FROM 'superseded' \
             ORDER BY o.id FOR UPDATE), \
         dropped AS ( \
            DELETE FROM memory_agent.entry_windows w USING chunks \
             WHERE w.user_id = $1 AND w.entry_id = chunks.id AND w.embedding_model <> $3) \
         UPDATE memory_agent.entries e \
            SET state = 'active', state_reason = NULL, state_at = NULL, valid_to = NULL, updated_at = now(), \
                embedding = CASE WHEN $3 IS NULL OR e.embedding_model = $3 THEN e.embedding END, \
                embedding_model = CASE WHEN $3 IS NULL OR e.embedding_model = $3 THEN e.embedding_model END \
           FROM chunks WHERE e.user_id = $1 AND e.id = chunks.id \
         RETURNING e.embedding IS NULL",
        &mut params![user_id, parent.to_string(), model],
    )
}

/// A document or archived conversation in a list: id, type, title, session, agent, chunks, metadata, since when,
/// changed when.
pub type Listed = (
    Uuid,
    String,
    Option<String>,
    Option<String>,
    String,
    i64,
    JsonbText,
    TimestampWithTimeZone,
    TimestampWithTimeZone,
);

/// The newest archives of these users that were not forgotten, newest first; of one type, if one is
/// given.
pub fn list(
    spi: &Spi,
    users: &[String],
    doc_type: Option<&str>,
    most: i64,
) -> PgResult<Vec<Listed>> {
    // Sorted first: the chunks of as many are counted as are returned.
    spi.rows(
        &format!(
            "SELECT a.id, a.doc_type, a.title, a.session_id, a.agent_id, c.held, a.metadata, a.created_at, \
                    a.updated_at \
               FROM (SELECT n.id, n.user_id, n.doc_type, n.title, n.session_id, n.agent_id, n.metadata, \
                            n.created_at, n.updated_at \
                       FROM memory_agent.archives n \
                      WHERE n.user_id = ANY ($1) AND ($2 IS NULL OR n.doc_type = $2) \
                      ORDER BY n.updated_at DESC, n.id DESC OFFSET 0) a, {CHUNKS} \
              WHERE NOT {FORGOTTEN} ORDER BY a.updated_at DESC, a.id DESC LIMIT $3"
        ),
        &mut params![users.to_vec(), doc_type, most],
    )
}
