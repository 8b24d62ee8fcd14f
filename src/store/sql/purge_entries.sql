WITH due AS (
   SELECT x.user_id, x.id, x.kind = 'fact' AND x.replaced_by IS NOT NULL AS is_link,
          CASE WHEN x.kind = 'document' THEN x.metadata ->> 'parent_id' END AS parent
     FROM memory_agent.entries x
     LEFT JOIN memory_agent.agents own ON own.user_id = x.user_id AND own.agent_id = x.agent_id
     LEFT JOIN memory_agent.agents shared ON shared.user_id = '*' AND shared.agent_id = x.agent_id
     LEFT JOIN unnest($3, $4) AS kept(stored, secs)
       ON kept.stored = coalesce(own.settings ->> 'purge_after', shared.settings ->> 'purge_after')
     CROSS JOIN LATERAL (SELECT nullif(coalesce(kept.secs, $1), 0) AS secs) age
    WHERE x.state = 'inactive' AND x.content <> ''
      AND x.state_at < now() - make_interval(secs => age.secs)
      -- What no agent has purged yet is not read.
      AND x.state_at < now() - make_interval(secs => $5)
      AND (x.state_reason IS NOT NULL OR x.extracted_at IS NOT NULL OR x.expires_at <= now())
    ORDER BY x.state_at LIMIT $2 FOR UPDATE OF x SKIP LOCKED),
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
