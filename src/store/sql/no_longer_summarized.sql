SELECT nullif(l.content, ''),
      (WITH RECURSIVE c AS (
          SELECT n.content, n.state, n.session_id, n.replaced_by, 1 AS step FROM memory_agent.entries n
           WHERE n.user_id = $1 AND n.id = l.by
          UNION ALL
          SELECT n.content, n.state, n.session_id, n.replaced_by, c.step + 1
            FROM c JOIN memory_agent.entries n ON n.user_id = $1 AND n.id = c.replaced_by
           WHERE c.state = 'inactive' AND c.step < {MAX_STEPS})
       SELECT c.content FROM c
        WHERE c.state <> 'inactive' AND c.content <> '' AND (c.session_id = $3 OR c.session_id IS NULL) LIMIT 1)
 FROM (SELECT f.content, g.id AS by, g.created_at, f.id
         FROM (SELECT coalesce($4, (SELECT max(coalesce(s.last_entry_at, s.created_at))
                                      FROM memory_agent.session_summaries s
                                     WHERE s.user_id = $1 AND s.agent_id = $2 AND s.session_id = $3
                                       AND s.level = 'L3' AND s.is_active)) AS until) told
         JOIN memory_agent.entries f
           ON f.user_id = $1 AND f.agent_id = $2
          AND f.kind = 'fact' AND (f.content <> '' OR f.state_reason IS NOT NULL) AND f.state = 'inactive'
          AND f.replaced_by IS NOT NULL
         JOIN memory_agent.entries g
           ON g.user_id = $1 AND g.id = f.replaced_by AND g.kind IN ('fact', 'turn')
          AND ($4 IS NOT NULL OR g.created_at > told.until
            OR g.session_id IS DISTINCT FROM $3
               AND NOT EXISTS (SELECT FROM unnest(g.source_ids) x(id) CROSS JOIN LATERAL
                                    -- OFFSET 0: by id, not by all that was said in the session.
                                    (SELECT e.agent_id, e.session_id, e.created_at FROM memory_agent.entries e
                                      WHERE e.user_id = $1 AND e.id = x.id OFFSET 0) t
                                WHERE t.agent_id = $2 AND t.session_id = $3 AND t.created_at <= told.until))
        CROSS JOIN LATERAL
              (SELECT bool_or(position(btrim(t.content) IN $5) > 0) AS is_quoted
                 FROM unnest(f.source_ids) x(id) CROSS JOIN LATERAL
                      (SELECT e.content, e.session_id, e.created_at FROM memory_agent.entries e
                        WHERE e.user_id = $1 AND e.id = x.id OFFSET 0) t
                WHERE t.session_id = $3 AND t.created_at <= told.until
               HAVING count(*) > 0) source
        ORDER BY source.is_quoted DESC NULLS LAST, g.created_at DESC, f.id LIMIT 10) l
ORDER BY l.created_at, l.id
