//! The window of a session: the turns that are not archived, and the summary that stands for what is.

use crate::error::PgResult;
use crate::store::sessions::SessionKey;
use crate::store::spi::Session as Spi;
use pgrx::datum::Uuid;
use pgrx::prelude::*;

/// A message of a loaded window.
pub type Message = (String, String, TimestampWithTimeZone, Uuid, i32);

/// The active summary as a system message, and the turns of the window, oldest first: role, content,
/// time, id, tokens.
pub fn load(spi: &Spi, key: &SessionKey) -> PgResult<Vec<Message>> {
    spi.all(
        "SELECT w.role, w.content, w.created_at, w.id, w.token_count \
           FROM (SELECT 0 AS part, 'system' AS role, s.content, s.created_at, s.id, \
                        coalesce(s.output_tokens, 0) AS token_count \
                   FROM memory_agent.session_summaries s \
                  WHERE s.user_id = $1 AND s.agent_id = $2 AND s.session_id = $3 \
                    AND s.level = 'L3' AND s.is_active \
                 UNION ALL \
                 SELECT 1, e.role, e.content, e.created_at, e.id, e.token_count \
                   FROM memory_agent.entries e \
                  WHERE e.user_id = $1 AND e.agent_id = $2 AND e.session_id = $3 AND e.kind = 'turn' \
                    AND e.state = 'active' AND (e.expires_at IS NULL OR e.expires_at > now())) w \
          ORDER BY w.part, w.created_at, w.id",
        &mut key.params(),
        |row| {
            Ok((
                row.required(1)?,
                row.required(2)?,
                row.required(3)?,
                row.required(4)?,
                row.required(5)?,
            ))
        },
    )
}
