//! `memory_agent.entries`: turns, facts and document chunks.

use crate::store::prelude::*;
use crate::store::rows::entry_windows::{self, SECOND};
use crate::store::rows::fact_scope::FactScope;
use crate::store::rows::forms::content_hash;
use crate::store::rows::lexemes::Lexemes;
use std::borrow::Cow;

/// A new UUIDv7: ids sort by the time they were made.
pub fn new_id() -> Uuid {
    Uuid::from_bytes(*uuid::Uuid::now_v7().as_bytes())
}

/// A row to be stored.
pub struct NewEntry<'a> {
    pub id: Uuid,
    pub user_id: &'a str,
    pub agent_id: &'a str,
    pub session_id: Option<&'a str>,
    pub kind: &'static str,
    pub role: &'a str,
    pub content: &'a str,
    pub token_count: i32,
    pub token_count_exact: bool,
    pub markers: Vec<String>,
    pub metadata: JsonbText,
    /// All windows; `None` leaves the row to lexical recall until it is embedded.
    pub embedding: Option<&'a [Vec<f32>]>,
    pub embedding_model: Option<&'a str>,
    pub lexemes: Lexemes,
    pub lexeme_config: &'a str,
    pub episode_id: Option<Uuid>,
    pub fact_key: Option<&'a str>,
    pub created_at: TimestampWithTimeZone,
    pub expires_at: Option<TimestampWithTimeZone>,
    /// The turns a fact was made from; empty for everything else.
    pub source_ids: Vec<Uuid>,
    /// How sure the extraction was, 0 to 1.
    pub confidence: Option<f32>,
    pub standing: Standing<'a>,
    pub facts_from: FactsFrom,
    /// The table that the row is made from; `None` for what was given to us directly.
    pub source_relation: Option<&'static str>,
}

impl<'a> NewEntry<'a> {
    /// An active row of which nothing more is known than what it says, who says it, where and when.
    /// `words` are its lexemes and the configuration that they were made by.
    pub fn new(
        id: Uuid,
        scope: &FactScope<'a>,
        kind: &'static str,
        role: &'a str,
        content: &'a str,
        words: (Lexemes, &'a str),
        created_at: TimestampWithTimeZone,
    ) -> Self {
        Self {
            id,
            user_id: scope.user_id,
            agent_id: scope.agent_id,
            session_id: scope.session_id,
            kind,
            role,
            content,
            token_count: 0,
            token_count_exact: false,
            markers: Vec::new(),
            metadata: JsonbText("{}".into()),
            embedding: None,
            embedding_model: None,
            lexemes: words.0,
            lexeme_config: words.1,
            episode_id: None,
            fact_key: None,
            created_at,
            expires_at: None,
            source_ids: Vec::new(),
            confidence: None,
            standing: Standing::Active,
            facts_from: FactsFrom::Turn,
            source_relation: None,
        }
    }
}

impl NewEntry<'_> {
    /// The vector of the row itself.
    pub fn first_window(&self) -> Option<Vector> {
        self.embedding?.first().cloned().map(Vector)
    }

    /// Stores the windows after the first.
    pub fn insert_windows(&self, spi: &Spi) -> PgResult<()> {
        match (self.embedding, self.embedding_model) {
            (Some([_, further @ ..]), Some(model)) => {
                entry_windows::insert(spi, self.user_id, self.id, model, SECOND, further)
            }
            _ => Ok(()),
        }
    }
}

/// What a turn's facts are made from; of no importance for other entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactsFrom {
    /// The turn by itself: it waits for an `extract` job.
    Turn,
    /// The episode it belongs to, once that is over: a `reflect` job.
    Episode,
    /// The assistant's decision in it: the turn waits for an `extract` job as a turn of the user's does.
    Decision,
    /// None are made.
    Nothing,
}

impl FactsFrom {
    /// The value of `entries.extracted_at` until facts were made.
    fn extracted_at(self) -> Option<&'static str> {
        match self {
            Self::Turn => None,
            Self::Episode | Self::Decision => Some("infinity"),
            Self::Nothing => Some("-infinity"),
        }
    }
}

/// Whether a new row holds.
#[derive(Clone, Copy)]
pub enum Standing<'a> {
    /// In the window and in recall.
    Active,
    /// In recall, and out of the window for this reason.
    Archived(Option<&'a str>),
    /// Never was a memory of its own: kept as the source of facts.
    SourceOnly,
    /// It was replaced before it was learned of: a newer entry says otherwise since then.
    Superseded { by: Uuid, since: TimestampWithTimeZone },
    /// A fact that what was said does not bear out: no memory unless it is restored.
    Unverified,
}

/// Stores a row and its windows.
pub fn insert(spi: &Spi, entry: NewEntry<'_>) -> PgResult<()> {
    let first = entry.first_window();
    let (state, replaced_by, ended_at, reason) = match entry.standing {
        Standing::Active => ("active", None, None, None),
        Standing::Archived(reason) => ("archived", None, None, reason),
        // Before a call could ask for it.
        Standing::SourceOnly => ("inactive", None, Some(entry.created_at), None),
        Standing::Unverified => ("inactive", None, Some(entry.created_at), Some("unverified")),
        Standing::Superseded { by, since } => {
            ("inactive", Some(by), Some(since), Some("superseded"))
        }
    };
    spi.execute(
        "INSERT INTO memory_agent.entries \
            (id, user_id, agent_id, session_id, kind, role, content, content_hash, token_count, \
             token_count_exact, markers, metadata, embedding, embedding_model, lexemes, \
             lexeme_config, doc_len, episode_id, fact_key, created_at, expires_at, source_ids, \
             confidence, state, state_reason, state_at, valid_to, replaced_by, extracted_at, \
             source_relation) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, \
                 $19, $20, $21, $22, $23, $24, $29, CASE WHEN $24 <> 'active' THEN now() END, $26, $25, \
                 $27::timestamptz, $28)",
        &mut params![
            entry.id,
            entry.user_id,
            entry.agent_id,
            entry.session_id,
            entry.kind,
            entry.role,
            entry.content,
            content_hash(entry.content),
            entry.token_count,
            entry.token_count_exact,
            entry.markers.clone(),
            entry.metadata.clone(),
            first.clone(),
            entry.embedding_model.filter(|_| first.is_some()),
            entry.lexemes,
            entry.lexeme_config,
            entry.lexemes.document_length(),
            entry.episode_id,
            entry.fact_key,
            entry.created_at,
            entry.expires_at,
            (!entry.source_ids.is_empty()).then(|| entry.source_ids.clone()),
            entry.confidence,
            state,
            replaced_by,
            ended_at,
            entry.facts_from.extracted_at(),
            entry.source_relation,
            reason,
        ],
    )?;
    entry.insert_windows(spi)
}

/// What the ranked rows of a recall are returned with.
pub struct Content {
    pub content: String,
    pub metadata: JsonbText,
}

record!(Content: content metadata);

/// The texts of entries, by id.
pub fn contents(spi: &Spi, users: &[String], ids: &[Uuid]) -> PgResult<Vec<(Uuid, Content)>> {
    spi.rows(
        "SELECT e.id, e.content, e.metadata FROM memory_agent.entries e \
          WHERE e.user_id = ANY ($1) AND e.id = ANY ($2)",
        &mut params![users.to_vec(), ids],
    )
}

/// What tells memories with the same text apart.
pub struct Text {
    pub id: Uuid,
    pub kind: String,
    pub content: String,
    pub created_at: TimestampWithTimeZone,
}

record!(Text: id kind content created_at);

/// The texts of entries, in no particular order.
pub fn texts(spi: &Spi, users: &[String], ids: &[Uuid]) -> PgResult<Vec<Text>> {
    spi.rows(
        "SELECT e.id, e.kind, e.content, e.created_at FROM memory_agent.entries e \
          WHERE e.user_id = ANY ($1) AND e.id = ANY ($2)",
        &mut params![users.to_vec(), ids],
    )
}

/// Of these entries those that hold, by id, each with a hash of what it says.
pub fn standing(spi: &Spi, users: &[String], ids: &[Uuid]) -> PgResult<Vec<(Uuid, Vec<u8>)>> {
    spi.rows(
        "SELECT e.id, sha256(convert_to(e.content, 'UTF8')) FROM memory_agent.entries e \
          WHERE e.user_id = ANY ($1) AND e.id = ANY ($2) AND e.state <> 'inactive' \
            AND (e.expires_at IS NULL OR e.expires_at > now()) ORDER BY e.id",
        &mut params![users.to_vec(), ids],
    )
}

/// A turn in a session's window.
pub struct WindowTurn {
    pub id: Uuid,
    pub role: String,
    pub content: String,
    pub token_count: i32,
    /// False while `token_count` is an estimate.
    pub token_count_exact: bool,
    /// Whether it is the message that is being answered: the newest, of the user, with its text.
    pub is_current: bool,
}

record!(WindowTurn: id role content token_count token_count_exact; is_current);

/// The newest turns of a session's window, newest first; stops once `tokens` are reached, to which
/// the current message does not count: the newest turn, if it has one of these texts.
pub fn newest_turns(
    spi: &Spi,
    key: &SessionKey,
    current: &[Cow<'_, str>],
    tokens: i64,
) -> PgResult<Vec<WindowTurn>> {
    let mut found: Vec<WindowTurn> = Vec::new();
    let mut sum = 0;
    spi.scan(
        "SELECT e.id, e.role, e.content, e.token_count, e.token_count_exact \
           FROM memory_agent.entries e \
          WHERE e.user_id = $1 AND e.agent_id = $2 AND e.session_id = $3 AND e.kind = 'turn' \
            AND e.state = 'active' AND (e.expires_at IS NULL OR e.expires_at > now()) \
          ORDER BY e.created_at DESC, e.id DESC",
        &mut key.params(),
        50,
        |row| {
            let mut turn: WindowTurn = row.record()?;
            turn.is_current = found.is_empty()
                && turn.role == "user"
                && current.iter().any(|form| *form == turn.content);
            sum += if turn.is_current { 0 } else { i64::from(turn.token_count) };
            found.push(turn);
            Ok(if sum < tokens { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        },
    )?;
    Ok(found)
}

/// The newest turns of an episode as (id, tokens), newest first, as far as `tokens` reach. One that is
/// too long by itself is passed over.
pub fn episode_turns(
    spi: &Spi,
    user_id: &str,
    episode: Uuid,
    tokens: u32,
) -> PgResult<Vec<(Uuid, u32)>> {
    let mut left = tokens;
    let mut found = Vec::new();
    spi.for_each(
        "SELECT e.id, e.token_count FROM memory_agent.entries e \
          WHERE e.user_id = $1 AND e.episode_id = $2 AND e.kind = 'turn' AND e.state = 'active' \
            AND (e.expires_at IS NULL OR e.expires_at > now()) \
          ORDER BY e.created_at DESC, e.id DESC LIMIT 200",
        &mut params![user_id, episode],
        |row| {
            let cost = row.required::<i32>(2)?.max(0) as u32;
            if cost <= left {
                left -= cost;
                found.push((row.required(1)?, cost));
            }
            Ok(())
        },
    )?;
    Ok(found)
}

/// The dimension of what a model embedded; `None` when that is nothing.
pub fn embedding_dimension(spi: &Spi, model: &str) -> PgResult<Option<i32>> {
    let schema = catalog::vector_type()?.schema;
    let of = |table: &str| {
        spi.row(
            &format!(
                "SELECT {schema}.vector_dims(e.embedding) FROM memory_agent.{table} e \
                  WHERE e.embedding_model = $1 LIMIT 1"
            ),
            &mut params![model],
        )
    };
    // While models are changed, the vectors of one of them are windows.
    Ok(of("entries")?.or(of("entry_windows")?))
}

/// Seconds that a clock may be ahead by, as for `memory-agent import`.
const AHEAD: f64 = 86_400.0;

/// When something was said: at a time that has come.
pub fn said_at(
    at: TimestampWithTimeZone,
    now: TimestampWithTimeZone,
) -> PgResult<TimestampWithTimeZone> {
    let at = finite("created_at", at)?;
    if at > now + Interval::from_seconds(AHEAD) {
        return Err(Error::invalid(
            "created_at has not come yet: it is more than a day ahead",
            "It is when something was said. Leave it out for now().",
        ));
    }
    Ok(at)
}

/// Refuses a timestamp that is not finite: it would break every age.
pub fn finite(what: &str, at: TimestampWithTimeZone) -> PgResult<TimestampWithTimeZone> {
    if at.is_infinity() || at.is_neg_infinity() {
        return Err(Error::invalid(format!("{what} must be finite"), "Leave it out for now()."));
    }
    Ok(at)
}
