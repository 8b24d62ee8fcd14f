WITH due AS (
   SELECT x.user_id, x.agent_id, x.session_id, x.id,
          x.state = 'active' AND x.kind IN ('turn', 'fact') AS in_window
     FROM memory_agent.entries x
    WHERE x.expires_at <= now() AND x.state <> 'inactive' ORDER BY x.expires_at LIMIT $1),
held AS (
   SELECT s.user_id, s.agent_id, s.session_id FROM memory_agent.sessions s
    WHERE (s.user_id, s.agent_id, s.session_id) IN (SELECT d.user_id, d.agent_id, d.session_id FROM due d)
      FOR UPDATE SKIP LOCKED),
expired AS (
   UPDATE memory_agent.entries e
      SET state = 'inactive', state_reason = 'expired', state_at = now(), updated_at = now(),
          valid_to = coalesce(e.valid_to, e.expires_at)
     FROM due
    WHERE e.user_id = due.user_id AND e.id = due.id AND e.state <> 'inactive'
      AND (due.session_id IS NULL
           OR EXISTS (SELECT FROM held h WHERE h.user_id = due.user_id
                         AND h.agent_id = due.agent_id AND h.session_id = due.session_id))
   RETURNING e.user_id, e.agent_id, e.session_id, e.id, e.kind, e.token_count, due.in_window),
shrunk AS (
   UPDATE memory_agent.sessions s
      SET active_entries = s.active_entries - gone.entries,
          active_tokens = s.active_tokens - gone.tokens
     FROM (SELECT x.user_id, x.agent_id, x.session_id, count(*) AS entries,
                  coalesce(sum(x.token_count) FILTER (WHERE x.kind = 'turn'), 0) AS tokens
             FROM expired x WHERE x.in_window GROUP BY 1, 2, 3) gone
    WHERE s.user_id = gone.user_id AND s.agent_id = gone.agent_id AND s.session_id = gone.session_id)
SELECT x.user_id, x.id, x.kind = 'fact' FROM expired x
