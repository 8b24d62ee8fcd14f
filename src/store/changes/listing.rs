//! Entries in the order of time, from a place on: one page, read by an index.

use crate::store::prelude::*;
use crate::store::rows::scope::{Conditions, bind, is_global};

words! {
    /// A kind of entry.
    pub enum Kind {
        Turn = "turn",
        Fact = "fact",
        Document = "document",
    }
}

/// Which page.
#[derive(Debug)]
pub struct Wanted {
    /// One entry, expired or not; what has expired is in no other page.
    pub id: Option<Uuid>,
    /// Facts that were made of this entry.
    pub source_id: Option<Uuid>,
    pub kind: Option<Kind>,
    pub session_id: Option<String>,
    pub agent_id: Option<String>,
    /// Time and id of an entry: oldest first the page begins there, newest first it begins after it.
    pub from: Option<(TimestampWithTimeZone, Option<Uuid>)>,
    pub oldest_first: bool,
    pub limit: i32,
}

/// An entry, in the columns of the view `memory_entries`.
pub type Listed = (
    Uuid,
    String,
    Option<String>,
    String,
    String,
    String,
    String,
    JsonbText,
    Vec<String>,
    TimestampWithTimeZone,
    TimestampWithTimeZone,
    Option<TimestampWithTimeZone>,
    bool,
    i32,
    Option<Uuid>,
    Option<String>,
    Option<f32>,
    Option<Vec<Uuid>>,
);

/// Reads it: of each user, and where all sessions are asked for of each kind, as many as fit, for so the index
/// of time has them; and of these as many as fit.
pub fn page(spi: &Spi, users: &[String], wanted: &Wanted) -> PgResult<Vec<Listed>> {
    let mut params = Params::new().with(users.to_vec()).with(i64::from(wanted.limit));
    let is_narrow =
        wanted.id.is_some() || wanted.source_id.is_some() || wanted.session_id.is_some();
    let (kinds, of_kind) = match wanted.kind {
        None if is_narrow => (String::new(), ""),
        kind => {
            let kinds = kind.map_or(Kind::ALL.to_vec(), |kind| vec![kind]);
            let kinds: Vec<String> =
                kinds.into_iter().map(|kind| kind.as_str().to_owned()).collect();
            let kinds = bind(&mut params, kinds);
            (format!(", unnest({kinds}) AS k (kind)"), " AND e.kind = k.kind")
        }
    };
    let conditions = conditions(wanted, &mut params);
    let order = if wanted.oldest_first { "ASC" } else { "DESC" };
    let statement = format!(
        "SELECT f.* FROM unnest($1) AS u (user_id){kinds}, LATERAL ( \
             SELECT e.id, e.user_id, e.session_id, e.agent_id, e.kind, e.role, e.content, e.metadata, \
                    e.markers, e.created_at, e.updated_at, e.expires_at, e.state = 'active', \
                    e.token_count, e.episode_id, e.fact_key, e.confidence, e.source_ids \
               FROM memory_agent.entries e \
              WHERE e.user_id = u.user_id AND e.state <> 'inactive'{of_kind}{conditions} \
              ORDER BY e.created_at {order}, e.id {order} LIMIT $2) f \
          ORDER BY f.created_at {order}, f.id {order} LIMIT $2"
    );
    spi.rows(&statement, &mut params)
}

fn conditions(wanted: &Wanted, params: &mut Params) -> String {
    let mut conditions = Conditions { sql: String::new(), params };
    match wanted.id {
        Some(id) => conditions.and("e.id = ?", id),
        None => conditions.sql.push_str(" AND (e.expires_at IS NULL OR e.expires_at > now())"),
    }
    if let Some(source) = wanted.source_id {
        conditions.and("e.source_ids @> ARRAY[?]", source);
    }
    match &wanted.session_id {
        Some(session_id) if Some(session_id.as_str()) == schema::global_name() => {
            conditions.sql.push_str(&format!(" AND {}", is_global("e")));
        }
        Some(session_id) => conditions.and("e.session_id = ?", session_id.clone()),
        None => {}
    }
    if let Some(agent_id) = &wanted.agent_id {
        conditions.and("e.agent_id = ?", agent_id.clone());
    }
    if let Some((at, id)) = wanted.from {
        let compares = if wanted.oldest_first { ">=" } else { "<" };
        match id {
            Some(id) => {
                let at = bind(conditions.params, at);
                conditions.and(&format!("(e.created_at, e.id) {compares} ({at}, ?)"), id);
            }
            None => conditions.and(&format!("e.created_at {compares} ?"), at),
        }
    }
    conditions.sql
}
