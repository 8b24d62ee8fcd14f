//! What is exported: entries, summaries, archives, history and traces with everything that cannot be worked out
//! again. Times are texts in UTC, so that two servers write the same file.

use crate::pg::prelude::*;
use crate::store::rows::history::{self, IMPORTED};
use crate::store::rows::scope::ARCHIVE_RELATION;
use crate::store::rows::scope::is_global;
use crate::store::schema;
use memory_agent_core::files::markdown::{Entry, Memory, Summary, VERSION, conversation_of};
use memory_agent_core::files::record::{Archive, Configured, Episode, Event, Trace};
use serde::de::DeserializeOwned;

/// Whose memories: of one session, or with none of the user's global memory, the conversation of that name
/// included; of all agents without one.
pub struct ExportScope<'a> {
    pub user_id: &'a str,
    pub agent_id: Option<&'a str>,
    pub session_id: Option<&'a str>,
}

impl ExportScope<'_> {
    fn params(&self) -> Params {
        params![self.user_id, self.session_id, self.agent_id]
    }

    /// The condition that `e` belongs to the scope, for the parameters of [`Self::params`].
    fn condition(&self) -> String {
        let session = match self.session_id {
            Some(_) => "e.session_id = $2".to_owned(),
            None => format!("{} AND $2::text IS NULL", is_global("e")),
        };
        format!("e.user_id = $1 AND {session} AND ($3::text IS NULL OR e.agent_id = $3)")
    }
}

/// A time as ISO 8601 in UTC, whatever the session's settings are.
pub fn time(column: &str) -> String {
    format!(
        "CASE WHEN isfinite({column}) \
              THEN replace((to_jsonb({column} AT TIME ZONE 'UTC') #>> '{{}}') || 'Z', ' BCZ', 'Z BC') \
              ELSE {column}::text END"
    )
}

/// `'name', value` for json_build_object, of columns that are listed with blanks between them.
fn pairs(columns: &str, times: &str) -> String {
    let columns = columns.split_whitespace().map(|column| format!("'{column}', e.{column}"));
    let time = |column| format!("'{column}', {}", time(&format!("e.{column}")));
    columns.chain(times.split_whitespace().map(time)).collect::<Vec<_>>().join(", ")
}

fn decode<T: DeserializeOwned>(json: &str) -> PgResult<T> {
    serde_json::from_str(json)
        .map_err(|error| Error::internal(format!("a row cannot be exported: {error}")))
}

/// The entries of a scope with their contents, and then its summaries.
pub fn memories(spi: &Spi, scope: &ExportScope<'_>) -> PgResult<Vec<(Memory, String)>> {
    Ok(entries(spi, scope)?.into_iter().chain(summaries(spi, scope)?).collect())
}

/// The entries of a scope with their contents, by age; not the chunks of archived conversations, whose
/// turns are there themselves.
fn entries(spi: &Spi, scope: &ExportScope<'_>) -> PgResult<Vec<(Memory, String)>> {
    let doubted = if schema::has_0_3() { "doubted_by " } else { "" };
    let fields = pairs(
        &format!(
            "{doubted}id role replaced_by kind agent_id state_reason markers fact_key source_relation source_key episode_id"
        ),
        "created_at state_at valid_to expires_at extracted_at recorded_at updated_at",
    );
    let condition = scope.condition();
    spi.all(
        &format!(
            "SELECT json_build_object({fields}, 'state', nullif(e.state, 'active'), \
                        'metadata', nullif(e.metadata, '{{}}'), \
                        'source_ids', nullif(e.source_ids, '{{}}'))::text, \
                    e.confidence, e.content, e.session_id \
               FROM memory_agent.entries e \
              WHERE {condition} AND e.source_relation IS DISTINCT FROM '{ARCHIVE_RELATION}' \
              ORDER BY e.created_at, e.id"
        ),
        &mut scope.params(),
        |row| {
            let session_id = row.optional::<String>(4);
            let (conversation_id, session_id) = conversation_of(session_id.as_deref());
            let entry = Entry {
                conversation_id,
                session_id,
                // Not by way of a text, which extra_float_digits could shorten.
                confidence: row.optional(2),
                memory_agent: VERSION,
                ..decode(&row.required::<String>(1)?)?
            };
            Ok((Memory::Entry(entry), row.required(3)?))
        },
    )
}

/// The summaries of a session with their contents, in force or not, by age.
fn summaries(spi: &Spi, scope: &ExportScope<'_>) -> PgResult<Vec<(Memory, String)>> {
    let fields = pairs(
        "id agent_id ordinal is_active method topics entities decisions questions source_ids previous_id \
         first_entry_id last_entry_id message_count input_tokens output_tokens model",
        "created_at first_entry_at last_entry_at updated_at",
    );
    let condition = scope.condition();
    spi.all(
        &format!(
            "SELECT json_build_object({fields}, 'role', 'summary', 'summary_kind', e.level)::text, \
                    e.compression_ratio, e.content, e.session_id \
               FROM memory_agent.session_summaries e WHERE {condition} ORDER BY e.created_at, e.id"
        ),
        &mut scope.params(),
        |row| {
            let session_id = row.required::<String>(4)?;
            let (conversation_id, session_id) = conversation_of(Some(&session_id));
            let summary = Summary {
                conversation_id,
                session_id,
                compression_ratio: row.optional(2),
                memory_agent: VERSION,
                ..decode(&row.required::<String>(1)?)?
            };
            Ok((Memory::Summary(summary), row.required(3)?))
        },
    )
}

/// The scopes in which a user has memories or summaries; those of one agent, if one is named.
pub fn scopes(
    spi: &Spi,
    user_id: &str,
    agent_id: Option<&str>,
) -> PgResult<Vec<(String, Option<String>)>> {
    let global = is_global("e");
    spi.rows(
        &format!(
            "SELECT DISTINCT e.agent_id, CASE WHEN NOT {global} THEN e.session_id END \
               FROM (SELECT agent_id, session_id FROM memory_agent.entries WHERE user_id = $1 \
                     UNION SELECT agent_id, session_id FROM memory_agent.session_summaries \
                            WHERE user_id = $1) e \
              WHERE $2::text IS NULL OR e.agent_id = $2 ORDER BY 1, 2"
        ),
        &mut params![user_id, agent_id],
    )
}

/// The documents and archived conversations of a user, whole, by age.
pub fn archives(
    spi: &Spi,
    user_id: &str,
    agent_id: Option<&str>,
) -> PgResult<Vec<(Archive, String)>> {
    let fields = pairs("id agent_id session_id doc_type title summary_id", "created_at updated_at");
    let ended_at = time("c.ended_at");
    spi.all(
        &format!(
            "SELECT json_build_object({fields}, 'metadata', nullif(e.metadata, '{{}}'), \
                        'ended_at', {ended_at}, 'is_forgotten', nullif(c.is_forgotten, false))::text, \
                    e.content \
               FROM memory_agent.archives e, \
                    LATERAL (SELECT max(k.created_at) AS ended_at, \
                                    count(*) > 0 AND bool_and(k.state = 'inactive') AS is_forgotten \
                               FROM memory_agent.entries k \
                              WHERE k.user_id = e.user_id AND k.kind = 'document' \
                                AND k.metadata ->> 'parent_id' = e.id::text) c \
              WHERE e.user_id = $1 AND ($2::text IS NULL OR e.agent_id = $2) \
              ORDER BY e.created_at, e.id"
        ),
        &mut params![user_id, agent_id],
        |row| {
            let archive: Archive = decode(&row.required::<String>(1)?)?;
            Ok((archive.of_this_version(), row.required(2)?))
        },
    )
}

/// The episodes of a user, by age.
pub fn episodes(spi: &Spi, user_id: &str, agent_id: Option<&str>) -> PgResult<Vec<Episode>> {
    let fields = pairs("id agent_id session_id status close_reason carried_into", "");
    spi.all(
        &format!(
            "SELECT json_build_object({fields})::text FROM memory_agent.episodes e \
              WHERE e.user_id = $1 AND ($2::text IS NULL OR e.agent_id = $2) ORDER BY e.started_at, e.id"
        ),
        &mut params![user_id, agent_id],
        |row| Ok(decode::<Episode>(&row.required::<String>(1)?)?.of_this_version()),
    )
}

/// The next events of a user's memory after the one with the id `after`, in the order of their ids, at most `most`;
/// of one agent's, if one is named. The body of a row that stands for an event of another database is the memory
/// after that event.
pub fn events(
    spi: &Spi,
    user_id: &str,
    agent_id: Option<&str>,
    after: Uuid,
    most: i64,
) -> PgResult<Vec<(Uuid, Event)>> {
    let (op, at) = (history::op("e"), time(&history::at("e")));
    let (actor, reason) = (history::told("e", "actor"), history::told("e", "reason"));
    spi.all(
        &format!(
            "SELECT e.id, json_build_object('id', e.id, 'entry_id', e.entry_id, 'op', {op}, 'at', {at}, \
                        'actor', {actor}, 'reason', {reason}, 'job_id', e.job_id, \
                        'body', {})::text \
               FROM memory_agent.history e \
              WHERE e.user_id = $1 AND e.id > $3 \
                AND ($2::text IS NULL \
                     OR $2 = coalesce(e.body ->> 'agent_id', \
                                      (SELECT t.agent_id FROM memory_agent.entries t \
                                        WHERE t.user_id = $1 AND t.id = e.entry_id))) \
              ORDER BY e.id LIMIT $4",
            history::body("e")
        ),
        &mut params![user_id, agent_id, after, most],
        |row| {
            let event: Event = decode(&row.required::<String>(2)?)?;
            Ok((row.required(1)?, event.of_this_version()))
        },
    )
}

/// The next traces of a user's reflections, as [`events`].
pub fn traces(
    spi: &Spi,
    user_id: &str,
    agent_id: Option<&str>,
    after: Uuid,
    most: i64,
) -> PgResult<Vec<(Uuid, Trace)>> {
    let fields = pairs("id agent_id session_id episode_id job_id", "at");
    spi.all(
        &format!(
            "SELECT e.id, json_build_object({fields}, 'body', e.body - '{IMPORTED}')::text \
               FROM memory_agent.traces e \
              WHERE e.user_id = $1 AND e.id > $3 AND ($2::text IS NULL OR e.agent_id = $2) \
              ORDER BY e.id LIMIT $4"
        ),
        &mut params![user_id, agent_id, after, most],
        |row| {
            let trace: Trace = decode(&row.required::<String>(2)?)?;
            Ok((row.required(1)?, trace.of_this_version()))
        },
    )
}

/// What a user configured, for agents and then for sessions.
pub fn configured(spi: &Spi, user_id: &str, agent_id: Option<&str>) -> PgResult<Vec<Configured>> {
    spi.all(
        "SELECT json_build_object('agent_id', e.agent_id, 'session_id', e.session_id, \
                    'content_type', e.content_type, 'settings', nullif(e.settings, '{}'))::text \
           FROM (SELECT agent_id, NULL AS session_id, content_type, settings \
                   FROM memory_agent.agents WHERE user_id = $1 \
                 UNION ALL SELECT agent_id, session_id, content_type, settings \
                   FROM memory_agent.sessions WHERE user_id = $1) e \
          WHERE ($2::text IS NULL OR e.agent_id = $2) \
            AND (e.settings <> '{}' OR e.content_type IS NOT NULL) \
          ORDER BY e.session_id NULLS FIRST, e.agent_id",
        &mut params![user_id, agent_id],
        |row| Ok(decode::<Configured>(&row.required::<String>(1)?)?.of_this_version()),
    )
}
