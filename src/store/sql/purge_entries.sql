WITH due AS (
   SELECT x.user_id, x.id, x.kind = 'fact' AND x.replaced_by IS NOT NULL AS is_link,
          CASE WHEN x.kind = 'document' THEN x.metadata ->> 'parent_id' END AS parent
     FROM memory_agent.entries x
    WHERE x.state = 'inactive' AND x.content <> ''
      AND x.state_at < now() - make_interval(secs => $1)
      AND (x.state_reason IS NOT NULL OR x.extracted_at IS NOT NULL OR x.expires_at <= now())
    ORDER BY x.state_at LIMIT $2 FOR UPDATE SKIP LOCKED),
windows AS (
   DELETE FROM memory_agent.entry_windows w USING due
    WHERE w.user_id = due.user_id AND w.entry_id = due.id),
emptied AS (
   UPDATE memory_agent.entries e
      SET content = '', content_hash = NULL, metadata = '{}', markers = '{}', embedding = NULL,
          embedding_model = NULL, lexemes = '', doc_len = 0, token_count = 0,
          token_count_exact = true, fact_key = NULL, updated_at = now()
     FROM due WHERE due.is_link AND e.user_id = due.user_id AND e.id = due.id),
deleted AS (
   DELETE FROM memory_agent.entries e USING due
    WHERE NOT due.is_link AND e.user_id = due.user_id AND e.id = due.id)
SELECT d.user_id, d.parent FROM due d
