//! LLM endpoints as rows. The extension's owner writes them with `memory_set_endpoint`, and with
//! `memory_enable_endpoint` after a restore; admins choose among them with `memory_use_endpoint`. No SQL names
//! a key or a path: a key is a file of `memory_agent.llm_key_dir`, in the folder of the one host it is for.

use crate::api::prelude::*;
use crate::identity::grants;
use crate::settings::providers::{NamedEndpoint, PROVIDERS};
use crate::store::llm::endpoints::{self, Listed};
use memory_agent_core::limits::{MODEL_BYTES, WORD_BYTES};
use memory_agent_core::llm::endpoint::{host, is_name};

const NAMES: &str = "A name has letters, digits, \".\", \"_\" and \"-\", at most 63, and begins with a letter or a digit.";

#[pg_extern(sql = false)]
fn memory_set_endpoint(
    _limits: WithinLimits,
    name: Option<String>,
    base_url: Option<String>,
    model: Option<String>,
    provider: Option<String>,
    key_name: Option<String>,
    api_version: Option<String>,
    calls_per_minute: Option<Whole>,
    daily_tokens: Option<i64>,
) -> PgResult<()> {
    grants::require_owner()?;
    let endpoint = NamedEndpoint {
        name: named(name)?,
        provider: provider.unwrap_or_else(|| PROVIDERS[0].to_owned()),
        base_url: base_url.unwrap_or_default(),
        model: model.unwrap_or_default(),
        api_version: api_version.unwrap_or_default(),
        key_name,
        calls_per_minute: calls_per_minute.map_or(0, |calls| calls.0),
        daily_tokens: daily_tokens.unwrap_or(0),
        is_enabled: true,
    };
    check(&endpoint)?;
    debug1!("memory_agent: set endpoint name={}", endpoint.name);
    roles::write_as_owner(|spi| endpoints::set(spi, endpoint))
}

#[pg_extern(sql = false)]
fn memory_enable_endpoint(_limits: WithinLimits, name: Option<String>) -> PgResult<bool> {
    grants::require_owner()?;
    let name = named(name)?;
    debug1!("memory_agent: enable endpoint name={name}");
    roles::write_as_owner(|spi| endpoints::enable(spi, &name))
}

#[pg_extern(sql = false)]
fn memory_drop_endpoint(_limits: WithinLimits, name: Option<String>) -> PgResult<bool> {
    grants::require_owner()?;
    let name = named(name)?;
    roles::write_as_owner(|spi| {
        if endpoints::find(spi, &name)? == Some(true) {
            return Err(Error::not_ready(
                format!("agents use the endpoint \"{name}\""),
                "Give them another one with memory_use_endpoint first; memory_list_endpoints() lists them.",
            ));
        }
        debug1!("memory_agent: drop endpoint name={name}");
        endpoints::delete(spi, &name)
    })
}

#[pg_extern(sql = false)]
fn memory_use_endpoint(
    _limits: WithinLimits,
    name: Option<String>,
    agent_id: Option<String>,
) -> PgResult<()> {
    identity::require(Level::Admin)?;
    agent_id.as_deref().map_or(Ok(()), |agent| identity::check_id("agent_id", agent))?;
    roles::write_as_owner(|spi| {
        if let Some(name) = &name
            && endpoints::find(spi, name)?.is_none()
        {
            return Err(Error::undefined(
                "there is no endpoint of this name",
                "memory_list_endpoints() lists them; the extension's owner adds one with memory_set_endpoint.",
            ));
        }
        debug1!("memory_agent: use endpoint name={name:?} agent={agent_id:?}");
        endpoints::choose(spi, agent_id, name)
    })
}

#[pg_extern(sql = false)]
fn memory_list_endpoints(_limits: WithinLimits) -> PgResult<Rows<Listed>> {
    identity::require(Level::Admin)?;
    roles::read_as_owner(endpoints::all).map(Rows::new)
}

fn named(name: Option<String>) -> PgResult<String> {
    name.filter(|name| is_name(name))
        .ok_or_else(|| Error::invalid("this cannot be the name of an endpoint", NAMES))
}

fn check(endpoint: &NamedEndpoint) -> PgResult<()> {
    let refused = |problem: &str, hint: &str| Err(Error::invalid(problem, hint));
    if !PROVIDERS.contains(&endpoint.provider.as_str()) {
        return refused("unknown provider", &format!("Providers are {}.", PROVIDERS.join(", ")));
    }
    // Without the address: it may contain a password that was put there by mistake.
    if host(&endpoint.base_url).is_none() {
        return refused(
            "base_url is not the address of an endpoint",
            "Example: https://api.openai.com/v1. Write the host in lower case, without user, query and fragment.",
        );
    }
    let is_model = |model: &str| {
        !model.trim().is_empty()
            && model.len() <= MODEL_BYTES
            && !model.chars().any(char::is_control)
    };
    if !is_model(&endpoint.model) {
        return refused(
            "model is not the name of a model",
            &format!("It has 1 to {MODEL_BYTES} bytes."),
        );
    }
    if endpoint.api_version.len() > WORD_BYTES
        || !endpoint.api_version.bytes().all(|byte| byte.is_ascii_graphic())
    {
        return refused(
            "api_version is not a version",
            "Leave it out for the provider's usual one.",
        );
    }
    if endpoint.key_name.as_ref().is_some_and(|key| !is_name(key)) {
        return refused("this cannot be the name of a key", NAMES);
    }
    if endpoint.calls_per_minute < 0 || endpoint.daily_tokens < 0 {
        return refused("a limit is negative", "0 means no limit.");
    }
    Ok(())
}
