//! Text search configurations: by which of them the words of a user's memory are indexed.

use crate::pg::prelude::*;

/// The name that PostgreSQL shows of a configuration; one that does not exist is its ERROR (42704).
pub fn name(spi: &Spi, given: &str) -> PgResult<String> {
    spi.one("SELECT $1::regconfig::text", &mut params![given])
}

/// The configurations that agents and sessions of these users have of their own, as far as they exist.
pub fn of_users(spi: &Spi, users: &[String]) -> PgResult<Vec<String>> {
    const OF: &str = "settings ->> 'text_search_config'";
    const WHERE: &str = "user_id = ANY ($1) AND settings ? 'text_search_config'";
    spi.rows(
        &format!(
            "SELECT own.name \
               FROM (SELECT {OF} AS name FROM memory_agent.agents WHERE {WHERE} \
                     UNION SELECT {OF} FROM memory_agent.sessions WHERE {WHERE}) own \
              WHERE EXISTS (SELECT FROM pg_ts_config c WHERE c.oid::regconfig::text = own.name)"
        ),
        &mut params![users.to_vec()],
    )
}
