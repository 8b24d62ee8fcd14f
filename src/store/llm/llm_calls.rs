//! `memory_agent.llm_calls`: one row per call of an LLM's endpoint, with what it cost. Bodies are kept
//! only while `memory_agent.trace` asks for them.

use crate::store::prelude::*;
use crate::store::rows::entries::new_id;
use memory_agent_model_server::protocol::CallRecord;

/// Who made calls.
pub struct Origin<'a> {
    /// Whose memory they are about.
    pub user_id: &'a str,
    /// The row of the endpoint; `None` for that of the settings.
    pub endpoint: Option<&'a str>,
    /// The job that made them; `None` for a user's statement.
    pub job_id: Option<Uuid>,
}

/// What calls were for.
pub struct Purpose<'a> {
    pub purpose: &'a str,
    pub model: &'a str,
    /// The texts of the request and the answer, while traced.
    pub bodies: Option<(JsonbText, Option<JsonbText>)>,
}

/// Records the calls that one request made; the last one carries the bodies.
pub fn record(
    spi: &Spi,
    origin: &Origin<'_>,
    purpose: &Purpose<'_>,
    calls: &[CallRecord],
) -> PgResult<()> {
    for (index, call) in calls.iter().enumerate() {
        let bodies = purpose.bodies.as_ref().filter(|_| index + 1 == calls.len());
        let mut params = params![
            new_id(),
            origin.user_id,
            origin.job_id,
            purpose.purpose,
            purpose.model,
            call.prompt_tokens.map(saturated),
            call.completion_tokens.map(saturated),
            f64::from(call.latency_ms) / 1000.0,
            &call.status,
            call.error.as_deref(),
            bodies.map(|(request, _)| request.clone()),
            bodies.and_then(|(_, response)| response.clone())
        ];
        // Before 0.3.0 there is no such column, and no endpoint but that of the settings.
        let (mut column, mut value) = ("", "");
        if let Some(endpoint) = origin.endpoint {
            (column, value) = (", endpoint", ", $13");
            params = params.with(endpoint.to_owned());
        }
        spi.execute(
            &format!(
                "INSERT INTO memory_agent.llm_calls \
                    (id, user_id, job_id, purpose, model, prompt_tokens, completion_tokens, latency, \
                     status, error, at, request, response{column}) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, make_interval(secs => $8), $9, $10, \
                         clock_timestamp(), $11, $12{value})"
            ),
            &mut params,
        )?;
    }
    Ok(())
}

fn saturated(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Tokens of calls `c`.
const TOKENS: &str =
    "coalesce(sum(coalesce(c.prompt_tokens, 0)::int8 + coalesce(c.completion_tokens, 0)), 0)::int8";
/// Calls `c` of the present day in UTC. It has an end as well: calls that were recorded while the clock was ahead
/// would count on every day until then.
const TODAY: &str = "c.at >= date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' \
     AND c.at < (date_trunc('day', now() AT TIME ZONE 'UTC') + interval '1 day') AT TIME ZONE 'UTC'";

/// Tokens that were used today at an endpoint that is a row, or at that of the settings.
pub fn tokens_today(spi: &Spi, endpoint: Option<&str>) -> PgResult<i64> {
    let of_endpoint =
        if schema::has_0_3() { "c.endpoint IS NOT DISTINCT FROM $1" } else { "$1 IS NULL" };
    spi.one(
        &format!("SELECT {TOKENS} FROM memory_agent.llm_calls c WHERE {TODAY} AND {of_endpoint}"),
        &mut params![endpoint],
    )
}

/// Tokens that were used today for a user.
pub fn tokens_of_user_today(spi: &Spi, user_id: &str) -> PgResult<i64> {
    spi.one(
        &format!("SELECT {TOKENS} FROM memory_agent.llm_calls c WHERE c.user_id = $1 AND {TODAY}"),
        &mut params![user_id],
    )
}

/// How many users have used up their quota of tokens for today, and whether all calls of today were read: at most
/// `most` are.
pub fn users_without_tokens(spi: &Spi, most: i64) -> PgResult<(i64, bool)> {
    let (users, read): (i64, i64) = spi.one(
        &format!(
            "SELECT count(*) FILTER (WHERE u.tokens >= \
                        nullif(coalesce(o.daily_tokens, a.daily_tokens), 0)), coalesce(sum(u.calls), 0)::int8 \
               FROM (SELECT c.user_id, {TOKENS} AS tokens, count(*) AS calls \
                       FROM (SELECT c.user_id, c.prompt_tokens, c.completion_tokens \
                               FROM memory_agent.llm_calls c WHERE {TODAY} LIMIT $1 + 1) c GROUP BY c.user_id) u \
               LEFT JOIN memory_agent.quotas o ON o.user_id = u.user_id \
               LEFT JOIN memory_agent.quotas a ON a.user_id = '*' AND u.user_id <> '*'"
        ),
        &mut params![most],
    )?;
    Ok((users, read <= most))
}

/// Deletes calls that are older than `age`, at most `most`, and returns how many. Those of the day stay,
/// for they are counted by [`tokens_today`].
pub fn delete_old(spi: &Spi, age: Duration, most: i64) -> PgResult<u64> {
    spi.execute(
        "DELETE FROM memory_agent.llm_calls c WHERE c.id IN ( \
            SELECT o.id FROM memory_agent.llm_calls o \
             WHERE o.at < least(now() - make_interval(secs => $1), \
                                date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC') \
             ORDER BY o.at LIMIT $2 FOR UPDATE SKIP LOCKED)",
        &mut params![age.as_secs_f64(), most],
    )
}
