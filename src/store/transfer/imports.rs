//! Rows that come from somewhere else, with their id, times and state. PostgreSQL reads the values
//! out of the front matter's JSON, so that times and ids mean what they mean elsewhere in SQL.

use crate::pg::prelude::*;
use crate::pg::spi::Record;
use crate::pg::wake_at_commit;
use crate::store::rows::entries::NewEntry;
use crate::store::rows::fact_scope::FactScope;
use crate::store::rows::forms::{content_hash, content_hashes};
use crate::store::rows::history::{self, IMPORTED};
use crate::store::rows::sessions::{Fill, SessionKey};
use crate::store::schema;
use crate::store::summaries::COVERED;
use crate::store::transfer::exports::time;

/// The columns of an entry that are read as they are.
const ENTRY_FIELDS: &str = "f(id uuid, kind text, role text, created_at timestamptz, \
    expires_at timestamptz, state text, state_reason text, state_at timestamptz, \
    valid_to timestamptz, replaced_by uuid, doubted_by uuid, metadata jsonb, fact_key text, confidence real, \
    source_ids uuid[], source_relation text, source_key jsonb, episode_id uuid, \
    extracted_at timestamptz, recorded_at timestamptz, updated_at timestamptz)";

/// The same of a summary.
const SUMMARY_FIELDS: &str = "f(id uuid, created_at timestamptz, summary_kind text, ordinal integer, \
    method text, topics text[], entities text[], decisions text[], questions text[], \
    source_ids uuid[], previous_id uuid, first_entry_id uuid, last_entry_id uuid, \
    first_entry_at timestamptz, last_entry_at timestamptz, message_count integer, \
    input_tokens integer, output_tokens integer, compression_ratio real, model text, \
    updated_at timestamptz)";

/// What is known of a file's values once PostgreSQL has read them.
pub struct Values {
    pub id: Uuid,
    pub created_at: Option<TimestampWithTimeZone>,
    pub episode_id: Option<Uuid>,
    /// Whether facts about the turn are to be made: of itself, of its episode.
    pub waits_for_extraction: bool,
    pub waits_for_reflection: bool,
}

record!(Values: id created_at episode_id waits_for_extraction waits_for_reflection);

/// Reads an entry's values; a value that PostgreSQL cannot read is its ERROR. Writes nothing.
pub fn read_entry(spi: &Spi, json: &str) -> PgResult<Values> {
    let columns = "f.id, f.created_at, f.episode_id, \
        f.kind = 'turn' AND f.role = 'user' AND f.extracted_at IS NULL, \
        f.kind = 'turn' AND f.role = 'user' AND f.extracted_at IS NOT DISTINCT FROM 'infinity'";
    let times = ["created_at", "expires_at", "recorded_at", "updated_at", "state_at"];
    read(spi, json, columns, ENTRY_FIELDS, &times)
}

/// Reads a summary's values, like [`read_entry`]: its id, and the time from which its session was
/// there.
pub fn read_summary(
    spi: &Spi,
    json: &str,
) -> PgResult<(Uuid, TimestampWithTimeZone, Option<TimestampWithTimeZone>)> {
    let columns = "f.id, coalesce(f.first_entry_at, f.created_at, now()), f.created_at";
    let times = ["created_at", "updated_at", "first_entry_at", "last_entry_at"];
    read(spi, json, columns, SUMMARY_FIELDS, &times)
}

/// Reads columns out of the fields of a JSON object, of which these are times.
fn read<T: Record>(
    spi: &Spi,
    json: &str,
    columns: &str,
    fields: &str,
    times: &[&str],
) -> PgResult<T> {
    let is_finite = times.iter().map(|time| format!("isfinite(coalesce(f.{time}, now()))"));
    let finite: Vec<String> = std::iter::once("true".to_owned()).chain(is_finite).collect();
    let sql =
        format!("SELECT {}, {columns} FROM jsonb_to_record($1) AS {fields}", finite.join(" AND "));
    let (is_finite, values) = spi.one(&sql, &mut params![JsonbText(json.to_owned())])?;
    match is_finite {
        true => Ok(values),
        false => Err(Error::invalid(
            "a time in the front matter is not finite",
            "Leave out times that are not known.",
        )),
    }
}

/// The content of what the user has in this table under this id.
pub fn content(spi: &Spi, table: &str, user_id: &str, id: Uuid) -> PgResult<Option<String>> {
    spi.row(
        &format!("SELECT t.content FROM memory_agent.{table} t WHERE t.user_id = $1 AND t.id = $2"),
        &mut params![user_id, id],
    )
}

/// Whether an entry of the user that is not inactive stands for the row of an attached table that
/// these values name.
pub fn holds_source(spi: &Spi, user_id: &str, json: &str) -> PgResult<bool> {
    spi.exists(
        "SELECT true FROM jsonb_to_record($2) AS f(source_relation text, source_key jsonb) \
           JOIN memory_agent.entries e \
             ON e.source_relation = f.source_relation AND e.source_key = f.source_key \
          WHERE e.user_id = $1 AND e.state <> 'inactive'",
        &mut params![user_id, JsonbText(json.to_owned())],
    )
}

/// An entry to be stored: what was worked out anew, and its values.
pub struct ImportedEntry<'a> {
    pub entry: NewEntry<'a>,
    /// The front matter as JSON, which says the rest.
    pub json: &'a str,
    /// When it expires, for a file that does not say so.
    pub default_expiry: Option<TimestampWithTimeZone>,
    /// Whether what the file does not say is so; else what is usual is filled in.
    pub is_complete: bool,
}

/// Stores an entry with its windows. Of a file that is not complete, facts were made already, and
/// what was replaced was true until its replacement was said.
pub fn insert_entry(spi: &Spi, imported: ImportedEntry<'_>) -> PgResult<()> {
    let entry = imported.entry;
    let first = entry.first_window();
    let (column, value) =
        if schema::has_0_3() { (", doubted_by", ", f.doubted_by") } else { ("", "") };
    spi.execute(
        &format!(
            "INSERT INTO memory_agent.entries \
                (id, user_id, agent_id, session_id, kind, role, content, content_hash, token_count, \
                 token_count_exact, markers, metadata, embedding, embedding_model, lexemes, \
                 lexeme_config, doc_len, episode_id, fact_key, created_at, expires_at, source_ids, \
                 confidence, source_relation, source_key, state, state_reason, replaced_by, state_at, \
                 valid_to, extracted_at, recorded_at, updated_at{column}) \
             SELECT f.id, $2, $3, $4, f.kind, f.role, $5, $6, $7, $8, $9, coalesce(f.metadata, '{{}}'), \
                    $10, $11, $12, $13, $14, f.episode_id, f.fact_key, $15, coalesce(f.expires_at, $16), \
                    nullif(f.source_ids, '{{}}'), f.confidence, f.source_relation, f.source_key, \
                    coalesce(f.state, 'active'), f.state_reason, f.replaced_by, \
                    CASE WHEN $17 OR f.state IS NULL THEN f.state_at ELSE coalesce(f.state_at, now()) END, \
                    CASE WHEN $17 OR coalesce(f.state, 'active') <> 'inactive' THEN f.valid_to \
                         ELSE coalesce(f.valid_to, \
                                       (SELECT r.created_at FROM memory_agent.entries r \
                                         WHERE r.user_id = $2 AND r.id = f.replaced_by), now()) END, \
                    CASE WHEN $17 OR f.kind <> 'turn' OR f.role <> 'user' THEN f.extracted_at \
                         ELSE coalesce(f.extracted_at, now()) END, \
                    coalesce(f.recorded_at, now()), coalesce(f.updated_at, now()){value} \
               FROM jsonb_to_record($1) AS {ENTRY_FIELDS}"
        ),
        &mut params![
            JsonbText(imported.json.to_owned()), entry.user_id, entry.agent_id, entry.session_id,
            entry.content, (!entry.content.is_empty()).then(|| content_hash(entry.content)),
            entry.token_count, entry.token_count_exact, entry.markers.clone(), first.clone(),
            entry.embedding_model.filter(|_| first.is_some()), entry.lexemes, entry.lexeme_config,
            entry.lexemes.document_length(), entry.created_at, imported.default_expiry,
            imported.is_complete,
        ],
    )?;
    entry.insert_windows(spi)
}

/// Adds a turn to the episode it was in, which is made anew, as one that is over, when it is not
/// there. False when the episode is another session's.
pub fn join_episode(
    spi: &Spi,
    key: &SessionKey,
    id: Uuid,
    at: TimestampWithTimeZone,
    wants_reflection: bool,
) -> PgResult<bool> {
    spi.changes(
        "INSERT INTO memory_agent.episodes AS p \
            (user_id, agent_id, session_id, id, status, started_at, ended_at, turn_count, \
             close_reason, wants_reflection) \
         VALUES ($1, $2, $3, $4, 'closed', $5, $5, 1, 'imported', $6) \
         ON CONFLICT (user_id, id) DO UPDATE \
            SET started_at = least(p.started_at, excluded.started_at), \
                ended_at = greatest(p.ended_at, excluded.ended_at), turn_count = p.turn_count + 1, \
                wants_reflection = p.wants_reflection OR excluded.wants_reflection, \
                status = CASE WHEN excluded.wants_reflection AND p.status = 'reflected' \
                              THEN 'closed' ELSE p.status END \
          WHERE p.agent_id = excluded.agent_id AND p.session_id = excluded.session_id",
        &mut params![key; id, at, wants_reflection],
    )
}

/// Counts an entry, and if it is one of its `turns`, in its session and returns how many are in the window now. A
/// turn that the summary in force covers waits for none.
pub fn count(
    spi: &Spi,
    key: &SessionKey,
    turns: i64,
    added: &Fill,
    id: Uuid,
    created_at: TimestampWithTimeZone,
) -> PgResult<i64> {
    spi.one(
        &format!(
            "{COVERED} UPDATE memory_agent.sessions s \
                SET turn_count = s.turn_count + $4, active_tokens = s.active_tokens + $5, \
                    active_entries = s.active_entries + $6, \
                    unsummarized_tokens = s.unsummarized_tokens \
                        + CASE WHEN $8 IN (SELECT c.id FROM covered c) THEN 0 ELSE $9 END, \
                    last_turn_at = CASE WHEN $4 > 0 THEN greatest(s.last_turn_at, $7) \
                                        ELSE s.last_turn_at END \
              WHERE s.user_id = $1 AND s.agent_id = $2 AND s.session_id = $3 \
             RETURNING s.active_entries"
        ),
        &mut params![key;
            turns, added.tokens, added.entries, created_at, id, added.unsummarized,
        ],
    )
}

/// Stores a summary. One whose file does not say what it was made of, as agent-cli's, covers the turns
/// of its time that are there.
pub fn insert_summary(
    spi: &Spi,
    key: &SessionKey,
    json: &str,
    content: &str,
    is_active: bool,
    is_complete: bool,
    created_at: TimestampWithTimeZone,
) -> PgResult<()> {
    spi.run(
        &format!(
            "INSERT INTO memory_agent.session_summaries \
                (id, user_id, agent_id, session_id, level, ordinal, content, source_ids, previous_id, \
                 method, topics, entities, decisions, questions, first_entry_id, last_entry_id, \
                 first_entry_at, last_entry_at, message_count, input_tokens, output_tokens, \
                 compression_ratio, model, created_at, updated_at, is_active) \
             SELECT f.id, $1, $2, $3, f.summary_kind, coalesce(f.ordinal, 0), $4, \
                    coalesce(f.source_ids, CASE WHEN NOT $8 THEN ARRAY( \
                        SELECT e.id FROM memory_agent.entries e \
                         WHERE e.user_id = $1 AND e.agent_id = $2 AND e.session_id = $3 \
                           AND e.kind = 'turn' AND e.created_at <= $6 ORDER BY e.created_at, e.id) END, \
                        '{{}}'), f.previous_id, \
                    coalesce(f.method, CASE f.summary_kind WHEN 'L3' THEN 'standard' ELSE 'hierarchical' END), \
                    coalesce(f.topics, '{{}}'), coalesce(f.entities, '{{}}'), \
                    coalesce(f.decisions, '{{}}'), coalesce(f.questions, '{{}}'), f.first_entry_id, \
                    f.last_entry_id, f.first_entry_at, f.last_entry_at, f.message_count, \
                    f.input_tokens, f.output_tokens, f.compression_ratio, f.model, $6, \
                    coalesce(f.updated_at, now()), $5 \
               FROM jsonb_to_record($7) AS {SUMMARY_FIELDS}"
        ),
        &mut params![key; content, is_active, created_at, JsonbText(json.to_owned()), is_complete],
    )
}

/// The columns of a document or conversation in the archive that are read as they are.
const ARCHIVE_FIELDS: &str = "f(id uuid, title text, doc_type text, metadata jsonb, summary_id uuid, \
    created_at timestamptz, updated_at timestamptz, ended_at timestamptz)";

/// Reads the id and the event time of an archive, like [`read_entry`].
pub fn read_archive(spi: &Spi, json: &str) -> PgResult<(Uuid, TimestampWithTimeZone)> {
    let columns = "f.id, coalesce(f.ended_at, f.created_at, now())";
    read(spi, json, columns, ARCHIVE_FIELDS, &["created_at", "updated_at", "ended_at"])
}

/// Stores an archive without its chunks; false when its scope has a document with this text.
pub fn insert_archive(
    spi: &Spi,
    scope: &FactScope<'_>,
    namespace: &str,
    json: &str,
    content: &str,
) -> PgResult<bool> {
    spi.changes(
        &format!(
            "INSERT INTO memory_agent.archives \
                (id, user_id, agent_id, session_id, summary_id, namespace, doc_type, title, content, \
                 content_hash, metadata, created_at, updated_at) \
             SELECT f.id, $1, $2, $3, f.summary_id, $4, f.doc_type, f.title, $5, $6, \
                    coalesce(f.metadata, '{{}}'), coalesce(f.created_at, now()), \
                    coalesce(f.updated_at, f.created_at, now()) \
               FROM jsonb_to_record($7) AS {ARCHIVE_FIELDS} \
              WHERE NOT EXISTS (SELECT FROM memory_agent.archives a \
                                 WHERE a.user_id = $1 AND a.agent_id = $2 \
                                   AND coalesce(a.session_id, '') = coalesce($3, '') AND a.content_hash = ANY ($8) \
                                   AND a.doc_type <> 'conversation' AND f.doc_type <> 'conversation') \
             ON CONFLICT (user_id, agent_id, coalesce(session_id, ''), content_hash) \
                WHERE doc_type <> 'conversation' DO NOTHING"
        ),
        &mut params![
            scope; namespace, content, content_hash(content), JsonbText(json.to_owned()), content_hashes(content)
        ],
    )
}

const EPISODE_FIELDS: &str = "f(id uuid, status text, close_reason text, carried_into uuid)";

/// Reads the id of an episode, like [`read_entry`].
pub fn read_episode(spi: &Spi, json: &str) -> PgResult<Option<Uuid>> {
    read(spi, json, "f.id", EPISODE_FIELDS, &[])
}

/// Says of an episode that came with its turns what is not known from them. One that was open is over, and one whose
/// turns wait for their reflection waits.
pub fn complete_episode(spi: &Spi, key: &SessionKey, json: &str) -> PgResult<bool> {
    spi.changes(
        &format!(
            "UPDATE memory_agent.episodes p \
                SET close_reason = coalesce(f.close_reason, p.close_reason), carried_into = f.carried_into, \
                    status = CASE WHEN f.status = 'reflected' AND NOT p.wants_reflection \
                                  THEN 'reflected' ELSE p.status END \
               FROM jsonb_to_record($4) AS {EPISODE_FIELDS} \
              WHERE p.user_id = $1 AND p.agent_id = $2 AND p.session_id = $3 AND p.id = f.id \
                AND p.close_reason = 'imported'"
        ),
        &mut params![key; JsonbText(json.to_owned())],
    )
}

const EVENT_FIELDS: &str = "f(id uuid, entry_id uuid, op text, at timestamptz, actor text, reason text, \
    job_id uuid, body jsonb)";
const TRACE_FIELDS: &str = "f(id uuid, episode_id uuid, job_id uuid, at timestamptz, body jsonb)";

/// Reads the id and the time of an event, like [`read_entry`].
pub fn read_event(
    spi: &Spi,
    json: &str,
) -> PgResult<(Option<Uuid>, Option<TimestampWithTimeZone>)> {
    read(spi, json, "f.id, f.at", EVENT_FIELDS, &["at"])
}

/// The same of a trace.
pub fn read_trace(
    spi: &Spi,
    json: &str,
) -> PgResult<(Option<Uuid>, Option<TimestampWithTimeZone>)> {
    read(spi, json, "f.id, f.at", TRACE_FIELDS, &["at"])
}

/// Appends a row that stands for an event of another database, unless history has the event. The row's own time
/// and actor are those of the import.
pub fn insert_event(spi: &Spi, user_id: &str, json: &str) -> PgResult<bool> {
    wake_at_commit::history_written();
    spi.changes(
        &format!(
            "INSERT INTO memory_agent.history (id, user_id, entry_id, op, body, salt, commitment, job_id) \
             SELECT f.id, $1, f.entry_id, '{IMPORTED}', b.body, $3, {}, f.job_id \
               FROM jsonb_to_record($2) AS {EVENT_FIELDS}, \
                    LATERAL (SELECT coalesce(f.body, '{{}}') || jsonb_build_object('{IMPORTED}', \
                                jsonb_strip_nulls(jsonb_build_object('op', f.op, 'at', {}, \
                                    'actor', f.actor, 'reason', f.reason))) AS body OFFSET 0) b \
             ON CONFLICT (user_id, id) DO NOTHING",
            history::commitment("$3", "b.body", "NULL"),
            time("f.at")
        ),
        &mut params![user_id, JsonbText(json.to_owned()), history::salt()],
    )
}

/// Stores a trace, unless it is there, with who imported it.
pub fn insert_trace(spi: &Spi, key: &SessionKey, json: &str) -> PgResult<bool> {
    spi.changes(
        &format!(
            "INSERT INTO memory_agent.traces \
                (id, user_id, agent_id, session_id, episode_id, job_id, at, body) \
             SELECT f.id, $1, $2, $3, f.episode_id, f.job_id, least(f.at, now()), \
                    f.body || jsonb_build_object('{IMPORTED}', jsonb_build_object('by', session_user)) \
               FROM jsonb_to_record($4) AS {TRACE_FIELDS} ON CONFLICT (user_id, id) DO NOTHING"
        ),
        &mut params![key; JsonbText(json.to_owned())],
    )
}
