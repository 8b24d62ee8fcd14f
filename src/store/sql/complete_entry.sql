WITH old AS (
   SELECT e.user_id, e.id, e.token_count,
          e.kind = 'turn' AND e.state = 'active' AND e.source_relation IS NULL AS in_window
     FROM memory_agent.entries e
    WHERE e.user_id = $1 AND e.id = $2 AND e.content_hash IS NOT DISTINCT FROM $3
      AND e.state <> 'inactive' AND (e.embedding IS NULL OR $5::text IS NULL) FOR UPDATE),
filled AS (
   UPDATE memory_agent.entries e
      SET embedding = coalesce(e.embedding, $4), embedding_model = coalesce(e.embedding_model, $5),
          token_count = $6, token_count_exact = true
     FROM old WHERE e.user_id = old.user_id AND e.id = old.id
   RETURNING e.agent_id, e.session_id, e.token_count - old.token_count AS growth, old.in_window),
grown AS (
   UPDATE memory_agent.sessions s
      SET active_tokens = s.active_tokens + filled.growth,
          unsummarized_tokens = greatest(0, s.unsummarized_tokens + filled.growth)
     FROM filled
    WHERE s.user_id = $1 AND s.agent_id = filled.agent_id AND s.session_id = filled.session_id
      AND filled.in_window AND filled.growth <> 0)
SELECT FROM filled
