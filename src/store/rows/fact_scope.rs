//! The scope of facts: whose they are, and whether they belong to one session.

use crate::identity::{Caller, SHARED_USER};
use crate::store::prelude::*;
use crate::store::rows::scope;

/// `e` is a fact that recall returns.
const HOLDS: &str = "e.kind = 'fact' AND e.state <> 'inactive' \
    AND (e.expires_at IS NULL OR e.expires_at > now())";

/// Facts that one of a scope is compared with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Among {
    /// Those of the scope.
    Own,
    /// Of global memory, those that other agents learned.
    OtherAgents,
    /// What else stands in prompts beside them: of a session the agent's other sessions with the user and the
    /// user's global memory, of global memory the agent's sessions.
    Others,
}

/// Where facts belong: to one session, or to the user's global memory.
#[derive(Clone, Copy)]
pub struct FactScope<'a> {
    pub user_id: &'a str,
    pub agent_id: &'a str,
    pub session_id: Option<&'a str>,
}

impl<'a> FactScope<'a> {
    /// The memory of a caller's agent: of a session, or of none.
    pub fn of(caller: &'a Caller, session_id: Option<&'a str>) -> Self {
        Self { user_id: &caller.user_id, agent_id: caller.agent(), session_id }
    }

    /// The memory of a session.
    pub fn of_session(key: &'a SessionKey) -> Self {
        let SessionKey { user_id, agent_id, session_id } = key;
        Self { user_id, agent_id, session_id: Some(session_id) }
    }

    /// The session, if it is of one.
    pub fn session(&self) -> Option<SessionKey> {
        self.session_id.map(|session| SessionKey::new(self.user_id, self.agent_id, session))
    }

    /// What its session may be called; the empty string stands for none.
    pub fn names(&self) -> Vec<String> {
        match self.session_id {
            Some(session_id) => vec![session_id.to_owned()],
            None => std::iter::once("").chain(schema::global_name()).map(str::to_owned).collect(),
        }
    }

    /// User, agent and session as the first three parameters.
    pub fn params(&self) -> Params {
        params![self.user_id, self.agent_id, self.session_id]
    }

    /// The condition that `e` belongs to the scope, for the parameters of [`Self::params`]. IS NOT
    /// DISTINCT FROM would say it in one, but no index knows that operator.
    pub fn condition(&self) -> &'static str {
        if self.session_id.is_some() {
            "e.user_id = $1 AND e.agent_id = $2 AND e.session_id = $3"
        } else {
            "e.user_id = $1 AND e.agent_id = $2 AND e.session_id IS NULL AND $3::text IS NULL"
        }
    }

    /// Whether there can be others that prompts show beside it.
    pub fn recalls_others(&self) -> bool {
        self.user_id != SHARED_USER && schema::has_0_3()
    }

    /// The condition that the fact `e` belongs to the scope. To global memory do also facts that 0.2.0 learned
    /// from a session called `global`.
    pub fn contains(&self) -> String {
        if self.session_id.is_some() {
            self.condition().to_owned()
        } else {
            let is_global = scope::is_global("e");
            format!("e.user_id = $1 AND e.agent_id = $2 AND {is_global} AND $3::text IS NULL")
        }
    }

    /// The condition that `e` is a fact of the scope that recall returns, in the window or not.
    pub fn holds(&self) -> String {
        format!("{} AND {HOLDS}", self.contains())
    }

    /// The same, of the facts that one of the scope is compared with.
    pub fn compared(&self, among: Among) -> String {
        let is_global = scope::is_global("e");
        let place = match (among, self.session_id.is_some()) {
            (Among::Own, _) => self.contains(),
            (Among::OtherAgents, _) => {
                format!("e.user_id = $1 AND e.agent_id <> $2 AND {is_global}")
            }
            (Among::Others, true) => format!(
                "e.user_id = $1 AND ({is_global} OR {})",
                scope::of_other_sessions("$1", "$2", "$3::text")
            ),
            (Among::Others, false) => {
                format!("e.user_id = $1 AND {}", scope::of_other_sessions("$1", "$2", "''"))
            }
        };
        format!("{place} AND {HOLDS}")
    }
}
