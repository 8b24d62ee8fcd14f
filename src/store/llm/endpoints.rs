//! `memory_agent.endpoints`: LLM endpoints that the extension's owner wrote, and `endpoint_uses`: which agents
//! ask which of them. Neither is there before 0.3.0.

use crate::settings::providers::NamedEndpoint;
use crate::store::prelude::*;

/// The agent of a use that counts for all agents without one of their own.
const EVERY_AGENT: &str = "";
/// Tokens that an endpoint `e` has used in the present day in UTC.
const TOKENS_TODAY: &str = "(SELECT coalesce(sum(coalesce(c.prompt_tokens, 0)::int8 + coalesce(c.completion_tokens, 0)), 0)::int8 \
        FROM memory_agent.llm_calls c \
       WHERE c.endpoint = e.name \
         AND c.at >= date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' \
         AND c.at < (date_trunc('day', now() AT TIME ZONE 'UTC') + interval '1 day') AT TIME ZONE 'UTC')";

/// A row of `memory_list_endpoints()`.
pub type Listed = (String, String, String, bool, Vec<String>, i32, i64, i64);

/// Columns of an endpoint `e`, with this installation as the first parameter.
const COLUMNS: &str = "e.name, e.provider, e.base_url, e.model, e.api_version, e.key_name, e.calls_per_minute, \
                       e.daily_tokens, e.enabled_in = $1";

record!(NamedEndpoint:
    name provider base_url model api_version key_name calls_per_minute daily_tokens is_enabled);

/// The endpoint that an agent asks; `None` means the one of the settings. One that was deleted by hand is an
/// error: nothing is sent elsewhere instead.
pub fn of_agent(spi: &Spi, agent_id: &str) -> PgResult<Option<NamedEndpoint>> {
    if !schema::has_0_3() {
        return Ok(None);
    }
    spi.row(
        &format!(
            "SELECT {COLUMNS} \
               FROM memory_agent.endpoint_uses u \
               LEFT JOIN memory_agent.endpoints e ON e.name = u.endpoint \
              WHERE u.agent_id IN ($2, $3) ORDER BY u.agent_id = $3 LIMIT 1"
        ),
        &mut params![catalog::this_installation()?, agent_id, EVERY_AGENT],
    )
}

/// The endpoints that agents ask, by name.
pub fn asked(spi: &Spi) -> PgResult<Vec<NamedEndpoint>> {
    if !schema::has_0_3() {
        return Ok(Vec::new());
    }
    spi.rows(
        &format!(
            "SELECT {COLUMNS} FROM memory_agent.endpoints e \
              WHERE EXISTS (SELECT FROM memory_agent.endpoint_uses u WHERE u.endpoint = e.name) ORDER BY 1"
        ),
        &mut params![catalog::this_installation()?],
    )
}

/// Whether any agent asks an endpoint that is a row.
pub fn are_used(spi: &Spi) -> PgResult<bool> {
    if !schema::has_0_3() {
        return Ok(false);
    }
    spi.exists("SELECT true FROM memory_agent.endpoint_uses LIMIT 1", &mut params![])
}

/// Writes an endpoint, which is enabled in this database alone.
pub fn set(spi: &Spi, endpoint: NamedEndpoint) -> PgResult<()> {
    spi.run(
        "INSERT INTO memory_agent.endpoints AS e \
             (name, provider, base_url, model, api_version, key_name, calls_per_minute, daily_tokens, enabled_in) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) \
         ON CONFLICT (name) DO UPDATE SET (provider, base_url, model, api_version, key_name, calls_per_minute, \
                                           daily_tokens, enabled_in) = \
             ROW (excluded.provider, excluded.base_url, excluded.model, excluded.api_version, \
                  excluded.key_name, excluded.calls_per_minute, excluded.daily_tokens, excluded.enabled_in)",
        &mut params![
            endpoint.name, endpoint.provider, endpoint.base_url, endpoint.model,
            endpoint.api_version, endpoint.key_name, endpoint.calls_per_minute,
            endpoint.daily_tokens, catalog::this_installation()?,
        ],
    )
}

/// Whether there was an endpoint of this name, which is enabled now.
pub fn enable(spi: &Spi, name: &str) -> PgResult<bool> {
    spi.changes(
        "UPDATE memory_agent.endpoints e SET enabled_in = $2 WHERE e.name = $1",
        &mut params![name, catalog::this_installation()?],
    )
}

/// Deletes an endpoint that no agent asks; whether there was one.
pub fn delete(spi: &Spi, name: &str) -> PgResult<bool> {
    spi.changes("DELETE FROM memory_agent.endpoints e WHERE e.name = $1", &mut params![name])
}

/// Whether there is an endpoint of this name, and whether an agent asks it. It stays so until the
/// transaction ends.
pub fn find(spi: &Spi, name: &str) -> PgResult<Option<bool>> {
    spi.row(
        "SELECT EXISTS (SELECT FROM memory_agent.endpoint_uses u WHERE u.endpoint = e.name) \
           FROM memory_agent.endpoints e WHERE e.name = $1 FOR UPDATE OF e",
        &mut params![name],
    )
}

/// Lets an agent, or every agent without one of its own, ask an endpoint; without a name that of the settings.
pub fn choose(spi: &Spi, agent_id: Option<String>, name: Option<String>) -> PgResult<()> {
    let agent_id = agent_id.unwrap_or_else(|| EVERY_AGENT.to_owned());
    let statement = match name {
        Some(_) => {
            "INSERT INTO memory_agent.endpoint_uses (agent_id, endpoint) VALUES ($1, $2) \
             ON CONFLICT (agent_id) DO UPDATE SET endpoint = excluded.endpoint"
        }
        None => "DELETE FROM memory_agent.endpoint_uses u WHERE u.agent_id = $1 AND $2 IS NULL",
    };
    spi.run(statement, &mut params![agent_id, name])
}

/// All endpoints, by name. An empty agent stands for every one without an endpoint of its own.
pub fn all(spi: &Spi) -> PgResult<Vec<Listed>> {
    spi.rows(
        &format!(
            "SELECT e.name, e.provider, e.model, e.enabled_in = $1, \
                    ARRAY(SELECT u.agent_id FROM memory_agent.endpoint_uses u \
                           WHERE u.endpoint = e.name ORDER BY 1), \
                    e.calls_per_minute, e.daily_tokens, {TOKENS_TODAY} \
               FROM memory_agent.endpoints e ORDER BY 1"
        ),
        &mut params![catalog::this_installation()?],
    )
}
