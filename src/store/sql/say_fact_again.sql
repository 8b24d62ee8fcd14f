WITH old AS (
   SELECT o.user_id, o.id, o.state = 'archived' AS was_out FROM memory_agent.entries o
    WHERE o.user_id = $1 AND o.id = $2 AND o.state <> 'inactive'
      AND (o.state = 'archived' OR NOT coalesce(o.source_ids, '{}') @> $3
           OR (o.expires_at IS NOT NULL AND ($4::timestamptz IS NULL OR $4 > o.expires_at)))
      FOR UPDATE),
said AS (
   UPDATE memory_agent.entries e
      SET source_ids = nullif(ARRAY(SELECT DISTINCT unnest(coalesce(e.source_ids, CASE WHEN cardinality($3) > 0 THEN ARRAY[e.id] END) || $3)), '{}'),
          expires_at = CASE WHEN e.expires_at IS NOT NULL AND $4::timestamptz IS NOT NULL
                            THEN greatest(e.expires_at, $4) END,
          state = 'active', state_reason = NULL, state_at = NULL, updated_at = now()
     FROM old WHERE e.user_id = old.user_id AND e.id = old.id
   RETURNING e.agent_id, e.session_id, old.was_out),
grown AS (
   UPDATE memory_agent.sessions s SET active_entries = s.active_entries + 1
     FROM said
    WHERE s.user_id = $1 AND s.agent_id = said.agent_id AND s.session_id = said.session_id
      AND said.was_out)
SELECT FROM said
