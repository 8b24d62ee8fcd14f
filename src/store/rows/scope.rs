//! Which rows a recall may see: the user's session or all of them, their global memory, shared memory;
//! narrowed by time, state, kind and filter. Text of statements is fixed here; values are always parameters.

use crate::identity::{Caller, SHARED_USER};
use crate::settings::Search;
use crate::store::prelude::*;
use memory_agent_core::rank::filter::Filter;

/// What chunks of archived conversations say they are made from; no other entry says so.
pub const ARCHIVE_RELATION: &str = "memory_agent.archives";

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

words! {
    /// What of it a row belongs to. Each has candidates of its own.
    #[derive(Hash)]
    pub enum Layer {
        /// The session, or all of the user's without one.
        Session = "session",
        /// The user's other sessions of the agent.
        OtherSessions = "other_sessions",
        /// The user's global memory.
        Global = "global",
        /// Shared memory.
        Shared = "shared",
    }
}

impl Layer {
    /// How many there are; `layer as usize` is below it.
    pub const COUNT: usize = 4;
}

/// Attached tables that do not say whose a row is: it is of who wrote it, an application that writes for many. Its
/// sessions are different people.
const ATTACHED_WITHOUT_USERS: &str = "ARRAY(SELECT t.relation FROM memory_agent.attachments t \
      WHERE t.user_id IS NULL AND t.user_id_column IS NULL)";

/// What to look at.
pub struct Scope {
    pub caller: Caller,
    /// One session, or `global` for the user's global memory alone.
    pub session_id: Option<String>,
    /// Beside a session, also the agent's other sessions with the user.
    pub other_sessions: bool,
    pub kinds: Option<Vec<String>>,
    pub filter: Filter,
    /// The filter's metadata object as it was given, so that numbers keep their digits.
    pub filter_metadata: Option<JsonbText>,
    /// The moment whose truth is asked for; `None` is now.
    pub as_of: Option<TimestampWithTimeZone>,
    pub archives: Archives,
    /// The agent and the id of a session that is left out.
    pub except_session: Option<(String, String)>,
    pub search: Search,
}

/// A scope as SQL: one `FROM .. WHERE ..` per part, and the parameters they share.
pub struct ScopeSql {
    parts: Vec<(Layer, String)>,
    /// What the parts have in common; `@.` stands for the row.
    conditions: String,
    pub params: Params,
}

impl Scope {
    /// Builds the clauses. Each part reads one prefix of `entries_scope_idx`.
    pub fn to_sql(&self) -> PgResult<ScopeSql> {
        let mut params = params![];
        let common = self.common_conditions(&mut params)?;
        let user = bind(&mut params, self.caller.user_id.clone());
        let mut places = Vec::new();
        if self.caller.user_id == SHARED_USER {
            places.push((Layer::Shared, format!("e.user_id = {user}")));
        } else {
            self.add_own(&mut places, &user, &mut params);
            if self.archives != Archives::Only {
                places.push((Layer::Shared, format!("e.user_id = '{SHARED_USER}'")));
            }
        }
        let parts = places
            .into_iter()
            .map(|(layer, place)| {
                let conditions = common.replace("@.", "e.");
                (layer, format!("FROM memory_agent.entries e WHERE {place}{conditions}"))
            })
            .collect();
        Ok(ScopeSql { parts, conditions: common, params })
    }

    /// The places of the user's own memory.
    fn add_own(&self, places: &mut Vec<(Layer, String)>, user: &str, params: &mut Params) {
        let agent = self.caller.agent_id.clone().map(|agent| bind(params, agent));
        let of = |agent: &Option<String>| match agent {
            Some(agent) => format!(" AND e.agent_id = {agent}"),
            None => String::new(),
        };
        match &self.session_id {
            Some(session) if Some(session.as_str()) == schema::global_name() => {}
            Some(session) => {
                let agent = match &agent {
                    Some(agent) => agent.clone(),
                    None => bind(params, self.caller.agent().to_owned()),
                };
                let session = bind(params, session.clone());
                places.push((
                    Layer::Session,
                    format!(
                        "e.user_id = {user} AND e.session_id = {session} AND e.agent_id = {agent}"
                    ),
                ));
            }
            None => places.push((
                Layer::Session,
                format!("e.user_id = {user} AND NOT {}{}", is_global("e"), of(&agent)),
            )),
        }
        if self.other_sessions && self.session_id.is_some() {
            places.push((Layer::OtherSessions, self.other_sessions(user, &agent, params)));
        }
        // Until 0.2.0, an agent that was named by argument read its own alone.
        let agent = agent.filter(|_| self.caller.agent_is_explicit && !schema::has_0_3());
        places.push((
            Layer::Global,
            format!("e.user_id = {user} AND {}{}", is_global("e"), of(&agent)),
        ));
    }

    /// The place of what was said in the agent's other sessions with the user, as far as those are not by themselves.
    fn other_sessions(&self, user: &str, agent: &Option<String>, params: &mut Params) -> String {
        let agent = match agent {
            Some(agent) => agent.clone(),
            None => bind(params, self.caller.agent().to_owned()),
        };
        let session = bind(params, self.session_id.clone());
        format!("e.user_id = {user} AND {}", of_other_sessions(user, &agent, &session))
    }

    /// The condition that a row holds, or is an unverified fact, as the filter asks; it begins with AND.
    fn standing(&self, params: &mut Params) -> String {
        let Some(trust) = &self.filter.trust else { return self.holds(params) };
        let wants = |which: &str| trust.iter().any(|wanted| wanted == which);
        let holds = if wants("verified") { self.holds(params) } else { " AND false".to_owned() };
        if !wants("unverified") {
            return holds;
        }
        let time = match self.as_of {
            None => "(@.expires_at IS NULL OR @.expires_at > now())".to_owned(),
            Some(as_of) => format!("@.created_at <= {}", bind(params, as_of)),
        };
        format!(
            " AND (@.state_reason = 'unverified' AND @.state = 'inactive' AND {time} OR true{holds})"
        )
    }

    /// The condition that a row holds, now or at the moment that is asked for.
    fn holds(&self, params: &mut Params) -> String {
        let mut sql = String::new();
        match self.as_of {
            None => {
                sql.push_str(
                    " AND @.state IN ('active', 'archived') \
                     AND (@.expires_at IS NULL OR @.expires_at > now())",
                );
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
        sql
    }

    /// The conditions of every part, with `@.` for the row.
    fn common_conditions(&self, params: &mut Params) -> PgResult<String> {
        let mut sql = self.standing(params);
        sql.push_str(&match self.archives {
            Archives::Without => {
                format!(" AND @.source_relation IS DISTINCT FROM '{ARCHIVE_RELATION}'")
            }
            Archives::Only => format!(" AND @.source_relation = '{ARCHIVE_RELATION}'"),
            Archives::AndDocuments => " AND @.kind = 'document'".to_owned(),
        });
        if let Some((agent, session)) = &self.except_session {
            let agent = bind(params, agent.clone());
            let session = bind(params, session.clone());
            sql.push_str(&format!(
                " AND (@.session_id IS DISTINCT FROM {session} OR @.agent_id <> {agent})"
            ));
        }
        let filter = &self.filter;
        let mut conditions = Conditions { sql, params };
        for (condition, values) in [
            ("@.kind = ANY (?)", &self.kinds),
            ("@.kind = ANY (?)", &filter.kinds),
            ("@.role = ANY (?)", &filter.roles),
            ("@.agent_id = ANY (?)", &filter.agent_ids),
            ("@.markers && ?", &filter.markers_any),
            ("@.markers @> ?", &filter.markers_all),
        ] {
            if let Some(values) = values {
                conditions.and(condition, values.clone());
            }
        }
        if let Some(sessions) = &filter.session_ids {
            let session = match schema::global_name() {
                Some(name) if sessions.iter().any(|session| session == name) => {
                    format!("coalesce(@.session_id, '{name}')")
                }
                _ => "@.session_id".to_owned(),
            };
            conditions.and(&format!("{session} = ANY (?)"), sessions.clone());
        }
        if let Some(metadata) = &self.filter_metadata {
            conditions.and("@.metadata @> ?", metadata.clone());
        }
        // The filter's own grammar has checked these: the casts cannot fail.
        for (condition, value) in [
            ("@.created_at >= ?::timestamptz", &filter.created_after),
            ("@.created_at < ?::timestamptz", &filter.created_before),
            ("@.episode_id = ?::uuid", &filter.episode_id),
        ] {
            if let Some(value) = value {
                conditions.and(condition, value.clone());
            }
        }
        Ok(conditions.sql)
    }
}

impl ScopeSql {
    /// `SELECT columns` over all parts, with an optional further condition. `{part}` in the columns
    /// stands for the number of the part.
    pub fn select(&self, columns: &str, condition: &str) -> String {
        self.parts
            .iter()
            .enumerate()
            .map(|(number, (_, part))| {
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
        let (_, part) = &self.parts[part];
        format!("SELECT {columns} {part}{condition} ORDER BY {order} LIMIT {limit}")
    }

    /// What the rows of each part belong to.
    pub fn layers(&self) -> Vec<Layer> {
        self.parts.iter().map(|(layer, _)| *layer).collect()
    }
}

/// The condition that `e` belongs to a session of the agent other than this one, and that both are not by
/// themselves: the agent's sessions with the user recall each other unless an agent or a session says otherwise.
pub fn of_other_sessions(user: &str, agent: &str, session: &str) -> String {
    let configured = |as_what: &str| {
        format!(
            "ARRAY(SELECT s.session_id FROM memory_agent.sessions s \
                    WHERE s.user_id = {user} AND s.agent_id = {agent} \
                      AND s.settings ? 'session_recall' AND s.settings ->> 'session_recall' = '{as_what}')"
        )
    };
    let of_agent = |user: &str| {
        format!(
            "(SELECT a.settings ->> 'session_recall' FROM memory_agent.agents a \
               WHERE a.user_id = {user} AND a.agent_id = {agent})"
        )
    };
    let (own, shared) = (of_agent(user), of_agent(&format!("'{SHARED_USER}'")));
    format!(
        "NOT {} AND e.agent_id = {agent} AND e.session_id <> {session} \
         AND (e.session_id = ANY ({}) \
              OR coalesce({own}, {shared}, 'user') <> 'session' AND e.session_id <> ALL ({})) \
         AND coalesce(e.source_relation, '') <> ALL ({ATTACHED_WITHOUT_USERS})",
        is_global("e"),
        configured("user"),
        configured("session"),
    )
}

/// The condition that a row is in its user's global memory: it belongs to no session, or to the
/// conversation of that name. Two ranges of `entries_scope_idx`.
pub fn is_global(row: &str) -> String {
    match schema::global_name() {
        Some(name) => format!("({row}.session_id IS NULL OR {row}.session_id = '{name}')"),
        None => format!("{row}.session_id IS NULL"),
    }
}

/// The condition that a row of the user belongs to a session, for the parameters of its key. To the one that
/// is called `global` belongs the user's global memory, as far as it is of the same agent.
pub fn in_session(row: &str, key: &SessionKey) -> String {
    let session = if key.is_global() {
        format!("{} AND $3::text IS NOT NULL", is_global(row))
    } else {
        format!("{row}.session_id = $3")
    };
    format!("{row}.agent_id = $2 AND {session}")
}

/// Conditions that are joined by AND, with what they compare with as parameters.
pub struct Conditions<'a> {
    pub sql: String,
    pub params: &'a mut Params,
}

impl Conditions<'_> {
    /// One more; `?` in it stands for a value.
    pub fn and<T: IntoDatum>(&mut self, condition: &str, value: T) {
        let value = bind(self.params, value);
        self.sql.push_str(" AND ");
        self.sql.push_str(&condition.replace('?', &value));
    }
}

/// Adds a parameter and returns its placeholder.
pub fn bind<T: IntoDatum>(params: &mut Params, value: T) -> String {
    *params = std::mem::take(params).with(value);
    format!("${}", params.len())
}
