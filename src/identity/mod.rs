//! Who is calling, and whose memory they may touch. This is the whole trust boundary: no role may write
//! our tables, so every function resolves the identity here first and binds it into its statements
//! itself.
#![allow(unsafe_code)]

pub mod grants;

use crate::identity::grants::Level;
use crate::pg::preload::is_preloaded;
use crate::pg::prelude::*;
use crate::pg::roles::{as_owner, current_role_name, read_as_owner};
use crate::settings::{Identity, IdentityMode, given_before_load};

use memory_agent_core::claims::{self, ClaimsError};
use memory_agent_core::text::ids::{self, IdError};
use std::cell::Cell;

/// The user id of memory that every user of the installation reads.
pub const SHARED_USER: &str = "*";

const CLAIMS_HINT: &str =
    "Send a token with the user in its claim sub, or, as an administrator, pass user_id.";

/// The agent when neither argument nor setting names one.
pub const DEFAULT_AGENT: &str = "default";

/// A caller whose identity and level were checked.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Whose memory the call is about.
    pub user_id: String,
    /// The agent named by argument or setting; `None` when neither does.
    pub agent_id: Option<String>,
    /// Whether the agent was named by the argument: only then does it narrow global memory.
    pub agent_is_explicit: bool,
    /// What the role may do.
    pub level: Level,
}

impl Caller {
    /// The agent whose session is meant.
    pub fn agent(&self) -> &str {
        self.agent_id.as_deref().unwrap_or(DEFAULT_AGENT)
    }

    /// The users whose rows a read may see.
    pub fn visible(&self) -> Vec<String> {
        if self.user_id == SHARED_USER {
            vec![self.user_id.clone()]
        } else {
            vec![self.user_id.clone(), SHARED_USER.to_owned()]
        }
    }
}

/// Resolves the user a call is about.
///
/// `user_argument` names the user while the identity setting is empty; when it contradicts the identity
/// that the session has, only administrators may (42501). In the modes `role` and `claims` a session has one
/// always; of an administrator in mode `claims` without claims, the argument is asked.
pub fn resolve(
    user_argument: Option<&str>,
    agent_argument: Option<&str>,
    needed: Level,
) -> PgResult<Caller> {
    resolve_at(require(needed)?, user_argument, agent_argument)
}

/// The same for a role whose level was asked already, see [`require`].
pub fn resolve_at(
    level: Level,
    user_argument: Option<&str>,
    agent_argument: Option<&str>,
) -> PgResult<Caller> {
    resolve_by(check_id, level, user_argument, agent_argument)
}

/// The same for a call that only exports or erases: its arguments may name what older versions stored under ids
/// that are refused now.
pub fn resolve_kept(
    user_argument: Option<&str>,
    agent_argument: Option<&str>,
    needed: Level,
) -> PgResult<Caller> {
    resolve_by(check_kept_id, require(needed)?, user_argument, agent_argument)
}

fn resolve_by(
    check: fn(&str, &str) -> PgResult<()>,
    level: Level,
    user_argument: Option<&str>,
    agent_argument: Option<&str>,
) -> PgResult<Caller> {
    let settings = Identity::current();
    let identity = own_identity(&settings)?;
    let user_id = match (user_argument, identity) {
        (None, Some(identity)) => identity,
        (None, None) => identity_without_setting(settings.mode)?,
        (Some(_), None) if settings.mode == IdentityMode::Claims && level < Level::Admin => {
            identity_without_setting(settings.mode)?
        }
        (Some(argument), identity) => {
            check("user_id", argument)?;
            let contradicts = identity.as_deref().is_some_and(|own| own != argument);
            if (contradicts || argument == SHARED_USER) && level < Level::Admin {
                return Err(not_theirs(settings.mode, argument, identity.as_deref()));
            }
            argument.to_owned()
        }
    };
    let agent_id = agent_argument.map(str::to_owned).or(settings.agent_id);
    match (agent_argument, &agent_id) {
        (Some(agent), _) => check("agent_id", agent)?,
        (None, Some(agent)) => check_id("memory_agent.agent_id", agent)?,
        (None, None) => {}
    }
    Ok(Caller { user_id, agent_id, agent_is_explicit: agent_argument.is_some(), level })
}

/// An argument user_id that names memory which is not the caller's.
fn not_theirs(mode: IdentityMode, argument: &str, identity: Option<&str>) -> ErrorReport {
    let Some(identity) = identity.filter(|_| argument != SHARED_USER) else {
        return Error::not_permitted(
            "only administrators may name the shared memory '*'",
            hint_of_admin("Leave user_id out"),
        );
    };
    let (what, instead) = match mode {
        IdentityMode::Role => ("the user of this role", "connect as the other user's role"),
        IdentityMode::Claims => ("sub in request.jwt.claims", "send the other user's token"),
        IdentityMode::Setting | IdentityMode::Required => (
            "memory_agent.user_id",
            "SET LOCAL memory_agent.user_id to the other user in a transaction of its own",
        ),
    };
    Error::not_permitted(
        format!(
            "user_id contradicts the identity of this session: {what} is \"{identity}\", the argument is \
             \"{argument}\""
        ),
        format!("Leave user_id out, or {instead}. Only administrators may name other users."),
    )
}

/// What to do where only administrators may do something.
pub fn hint_of_admin(instead: &str) -> String {
    format!(
        "{instead}, or ask the extension's owner for SELECT memory_grant('{}', 'admin').",
        current_role_name()
    )
}

/// The identity that this session has by itself: the setting, the role in mode `role`, or the subject in mode
/// `claims`. `None` when there is no setting, or there are no claims.
fn own_identity(settings: &Identity) -> PgResult<Option<String>> {
    refuse_hidden_settings()?;
    let (what, identity) = match settings.mode {
        IdentityMode::Role => return Ok(Some(role_identity()?)),
        IdentityMode::Claims => ("sub in request.jwt.claims", subject()?),
        IdentityMode::Setting | IdentityMode::Required => {
            ("memory_agent.user_id", settings.user_id.clone())
        }
    };
    match identity.as_deref() {
        Some(SHARED_USER) => return Err(not_an_identity()),
        Some(identity) => check_id(what, identity)?,
        None => {}
    }
    Ok(identity)
}

/// The user that PostgREST says a request is from; `None` outside of a request, where it has set nothing.
///
/// # Errors
/// 42501 for a request without a user, such as one of a role `anon`.
fn subject() -> PgResult<Option<String>> {
    // SAFETY: a missing setting is NULL; the text is the setting's and copied.
    let claims = unsafe {
        let claims = pg_sys::GetConfigOption(c"request.jwt.claims".as_ptr(), true, false);
        catalog::text_of(claims)
    };
    // Once set, it is empty outside of the transaction that set it.
    let Some(claims) = claims.filter(|claims| !claims.is_empty()) else { return Ok(None) };
    let refused = |error: ClaimsError| Error::not_permitted(error.to_string(), CLAIMS_HINT);
    claims::subject(&claims).map(Some).map_err(refused)
}

/// The identity of a session that has none by itself.
fn identity_without_setting(mode: IdentityMode) -> PgResult<String> {
    match mode {
        IdentityMode::Required => Err(Error::not_permitted(
            "memory_agent.user_id is not set, and memory_agent.identity is 'required'",
            "Run SET memory_agent.user_id = '...' (SET LOCAL behind a pooler) first.",
        )),
        IdentityMode::Claims => Err(Error::not_permitted(
            "request.jwt.claims is not set, and memory_agent.identity is 'claims'",
            CLAIMS_HINT,
        )),
        IdentityMode::Setting | IdentityMode::Role => role_identity(),
    }
}

/// How this session says whose memory it is about.
pub fn mode() -> IdentityMode {
    Identity::current().mode
}

/// The identity under which rows are visible to direct SELECTs.
pub fn visible_identity() -> PgResult<String> {
    let settings = Identity::current();
    match own_identity(&settings)? {
        Some(identity) => Ok(identity),
        None => identity_without_setting(settings.mode),
    }
}

/// Whose memory the rows belong to that this role writes into an attached table without a column that
/// says so. Only roles that may store memory are trusted to name a user by the setting; the others write
/// into the memory of their own name.
pub fn writer_identity() -> PgResult<String> {
    let settings = Identity::current();
    match own_identity(&settings)? {
        Some(identity)
            if settings.mode == IdentityMode::Role || current_level()? >= Level::User =>
        {
            Ok(identity)
        }
        None => identity_without_setting(settings.mode),
        Some(_) => role_identity(),
    }
}

/// The calling role as an identity; a role may be called anything, also `*`.
fn role_identity() -> PgResult<String> {
    let name = current_role_name();
    if name == SHARED_USER {
        return Err(not_an_identity());
    }
    check_id("the name of the role", &name)?;
    Ok(name)
}

fn not_an_identity() -> ErrorReport {
    Error::not_permitted("'*' is not an identity", "Set memory_agent.user_id to the user's own id.")
}

/// Fails closed when a client has hidden a value of postgresql.conf by connection options, which it
/// can while the library is not preloaded (see [`given_before_load`]). Looked up once a session.
fn refuse_hidden_settings() -> PgResult<()> {
    thread_local! {
        static CHECKED: Cell<bool> = const { Cell::new(false) };
    }
    if CHECKED.get() || is_preloaded() || given_before_load().is_empty() {
        return Ok(());
    }
    let names: Vec<String> = given_before_load().iter().map(|name| (*name).to_owned()).collect();
    let hidden = read_as_owner(|spi| {
        spi.row::<String>(
            "SELECT s.name FROM pg_settings s WHERE s.name = ANY ($1) AND s.source = 'default' LIMIT 1",
            &mut params![names],
        )
    })?;
    match hidden {
        Some(name) => Err(Error::not_permitted(
            format!("{name} was given in the connection's options"),
            "It can only be set in postgresql.conf. Connect without it.",
        )),
        None => {
            CHECKED.set(true);
            Ok(())
        }
    }
}

/// Refuses callers below a level and returns the level they have.
pub fn require(needed: Level) -> PgResult<Level> {
    refuse_hidden_settings()?;
    let level = current_level()?;
    check_level(level, needed)?;
    Ok(level)
}

/// Refuses a level of the calling role that is below another one.
pub fn check_level(level: Level, needed: Level) -> PgResult<()> {
    if level >= needed {
        return Ok(());
    }
    Err(Error::not_permitted(
        format!(
            "role \"{}\" needs the level \"{}\" of memory_agent",
            current_role_name(),
            needed.as_str()
        ),
        format!(
            "Ask the extension's owner for SELECT memory_grant('{}', '{}').",
            current_role_name(),
            needed.as_str()
        ),
    ))
}

fn current_level() -> PgResult<Level> {
    // SAFETY: reads backend state.
    let role = unsafe { pg_sys::GetUserId() };
    let owner = catalog::owner()?;
    // SAFETY: catalog look-ups by OID.
    if unsafe { pg_sys::superuser_arg(role) || pg_sys::has_privs_of_role(role, owner) } {
        return Ok(Level::Admin);
    }
    as_owner(|| grants::of(role))
}

/// Refuses what cannot be the id of a user or an agent.
pub fn check_id(what: &str, id: &str) -> PgResult<()> {
    ids::check(id).map_err(refused(what))
}

/// Refuses what no version took as the id of a user, an agent or a session.
pub fn check_kept_id(what: &str, id: &str) -> PgResult<()> {
    ids::check_kept(id).map_err(refused(what))
}

fn refused(what: &str) -> impl Fn(IdError) -> ErrorReport {
    move |error| Error::invalid(format!("{what} {error}"), ids::HINT)
}
