//! Which rows a recall may see: the user's session, their global memory, shared memory; narrowed by
//! time, state, kind and filter. Text of statements is fixed here; values are always parameters.

use crate::identity::{Caller, SHARED_USER};
use crate::pg::error::PgResult;
use crate::pg::spi::Params;
use crate::pg::sql_types::JsonbText;
use crate::settings::guc::{self, RecallScope};
use crate::store::archives::ARCHIVE_RELATION;
use memory_agent_core::filter::Filter;
use pgrx::prelude::*;

/// Whether archived conversations are meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Archives {
    /// Everything else, as in recall.
    #[default]
    Without,
    /// Nothing else, and the user's own only.
    Only,
    /// They and all documents: the whole knowledge base.
    AndDocuments,
}

/// What to look at.
pub struct Scope {
    pub caller: Caller,
    pub session_id: Option<String>,
    pub kinds: Option<Vec<String>>,
    pub filter: Filter,
    /// The filter's metadata object as it was given, so that numbers keep their digits.
    pub filter_metadata: Option<JsonbText>,
    /// The moment whose truth is asked for; `None` is now.
    pub as_of: Option<TimestampWithTimeZone>,
    pub archives: Archives,
    /// A session of the caller's agent that is left out.
    pub except_session: Option<String>,
}

/// A scope as SQL: one `FROM .. WHERE ..` per part, and the parameters they share.
pub struct ScopeSql {
    parts: Vec<String>,
    /// What the parts have in common; `@.` stands for the row.
    conditions: String,
    pub params: Params,
}

impl Scope {
    /// Builds the clauses. Each part reads one prefix of `entries_scope_idx`.
    pub fn to_sql(&self) -> PgResult<ScopeSql> {
        let mut params = Params::new();
        let common = self.common_conditions(&mut params)?;
        let user = bind(&mut params, self.caller.user_id.clone());
        let agent = self.caller.agent_id.clone().map(|agent| bind(&mut params, agent));
        let mut places = Vec::new();
        if self.caller.user_id == SHARED_USER {
            places.push(format!("e.user_id = {user}"));
        } else if let Some(session) = &self.session_id {
            let agent_of_session = match &agent {
                Some(agent) => agent.clone(),
                None => bind(&mut params, self.caller.agent().to_owned()),
            };
            let session = bind(&mut params, session.clone());
            places.push(format!(
                "e.user_id = {user} AND e.session_id = {session} AND e.agent_id = {agent_of_session}"
            ));
            let narrowed = match &agent {
                Some(agent) if self.caller.agent_is_explicit => {
                    format!(" AND e.agent_id = {agent}")
                }
                _ => String::new(),
            };
            places.push(format!("e.user_id = {user} AND e.session_id IS NULL{narrowed}"));
        } else {
            let narrowed = match &agent {
                Some(agent) if self.caller.agent_is_explicit => {
                    format!(" AND e.agent_id = {agent}")
                }
                Some(agent) => format!(" AND (e.agent_id = {agent} OR e.session_id IS NULL)"),
                None => String::new(),
            };
            places.push(format!("e.user_id = {user}{narrowed}"));
        }
        if self.caller.user_id != SHARED_USER && self.archives != Archives::Only {
            places.push(format!("e.user_id = '{SHARED_USER}'"));
        }
        let parts = places
            .into_iter()
            .map(|place| {
                format!("FROM memory_agent.entries e WHERE {place}{}", common.replace("@.", "e."))
            })
            .collect();
        Ok(ScopeSql { parts, conditions: common, params })
    }

    /// The conditions of every part, with `@.` for the row.
    fn common_conditions(&self, params: &mut Params) -> PgResult<String> {
        let mut sql = String::new();
        match self.as_of {
            None => {
                sql.push_str(match guc::recall_scope() {
                    RecallScope::All => " AND @.state IN ('active', 'archived')",
                    RecallScope::Active => " AND @.state = 'active'",
                });
                sql.push_str(" AND (@.expires_at IS NULL OR @.expires_at > now())");
            }
            Some(as_of) => {
                let at = bind(params, as_of);
                sql.push_str(&format!(
                    " AND @.created_at <= {at} AND (@.valid_to IS NULL OR @.valid_to > {at}) \
                     AND (@.expires_at IS NULL OR @.expires_at > {at}) \
                     AND (@.state <> 'inactive' OR @.content <> '')"
                ));
                // The new version of a turn has its event time: it held from the end of the old one on.
                let users = bind(params, self.caller.visible());
                sql.push_str(&format!(
                    " AND (@.user_id, @.id) NOT IN (SELECT o.user_id, o.replaced_by FROM memory_agent.entries o \
                                        WHERE o.user_id = ANY ({users}) AND o.replaced_by IS NOT NULL \
                                          AND o.kind = 'turn' AND o.valid_to > {at})"
                ));
            }
        }
        sql.push_str(&match self.archives {
            Archives::Without => {
                format!(" AND @.source_relation IS DISTINCT FROM '{ARCHIVE_RELATION}'")
            }
            Archives::Only => format!(" AND @.source_relation = '{ARCHIVE_RELATION}'"),
            Archives::AndDocuments => " AND @.kind = 'document'".to_owned(),
        });
        if let Some(session) = &self.except_session {
            let agent = bind(params, self.caller.agent().to_owned());
            let session = bind(params, session.clone());
            sql.push_str(&format!(
                " AND (@.session_id IS DISTINCT FROM {session} OR @.agent_id <> {agent})"
            ));
        }
        let filter = &self.filter;
        for (column, values) in [
            ("kind", &self.kinds),
            ("kind", &filter.kinds),
            ("role", &filter.roles),
            ("session_id", &filter.session_ids),
            ("agent_id", &filter.agent_ids),
        ] {
            if let Some(values) = values {
                let values = bind(params, values.clone());
                sql.push_str(&format!(" AND @.{column} = ANY ({values})"));
            }
        }
        if let Some(markers) = &filter.markers_any {
            let markers = bind(params, markers.clone());
            sql.push_str(&format!(" AND @.markers && {markers}"));
        }
        if let Some(markers) = &filter.markers_all {
            let markers = bind(params, markers.clone());
            sql.push_str(&format!(" AND @.markers @> {markers}"));
        }
        if let Some(metadata) = &self.filter_metadata {
            let metadata = bind(params, metadata.clone());
            sql.push_str(&format!(" AND @.metadata @> {metadata}"));
        }
        // The filter's own grammar has checked these: the casts cannot fail.
        for (operator, at) in [(">=", &filter.created_after), ("<", &filter.created_before)] {
            if let Some(at) = at {
                let at = bind(params, at.clone());
                sql.push_str(&format!(" AND @.created_at {operator} {at}::timestamptz"));
            }
        }
        if let Some(episode) = &filter.episode_id {
            let episode = bind(params, episode.clone());
            sql.push_str(&format!(" AND @.episode_id = {episode}::uuid"));
        }
        Ok(sql)
    }
}

impl ScopeSql {
    /// `SELECT columns` over all parts, with an optional further condition. `{part}` in the columns
    /// stands for the number of the part.
    pub fn select(&self, columns: &str, condition: &str) -> String {
        self.parts
            .iter()
            .enumerate()
            .map(|(number, part)| {
                format!(
                    "SELECT {} {part}{condition}",
                    columns.replace("{part}", &number.to_string())
                )
            })
            .collect::<Vec<_>>()
            .join(" UNION ALL ")
    }

    /// The conditions that all parts have in common, for a row of another name; they begin with AND.
    pub fn conditions(&self, row: &str) -> String {
        self.conditions.replace("@.", &format!("{row}."))
    }

    /// The best rows of one part.
    pub fn select_best(
        &self,
        part: usize,
        columns: &str,
        condition: &str,
        order: &str,
        limit: &str,
    ) -> String {
        format!("SELECT {columns} {}{condition} ORDER BY {order} LIMIT {limit}", self.parts[part])
    }
}

/// Adds a parameter and returns its placeholder.
pub fn bind<T: IntoDatum>(params: &mut Params, value: T) -> String {
    *params = std::mem::take(params).with(value);
    format!("${}", params.len())
}
