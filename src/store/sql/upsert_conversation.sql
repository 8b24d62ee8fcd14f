WITH RECURSIVE chain AS (
   SELECT s.id, s.previous_id, 0 AS age FROM memory_agent.session_summaries s
    WHERE s.user_id = $2 AND s.agent_id = $3 AND s.session_id = $4 AND s.level = 'L3' AND s.is_active
   UNION ALL
   SELECT p.id, p.previous_id, c.age + 1 FROM chain c
     JOIN memory_agent.session_summaries p ON p.user_id = $2 AND p.id = c.previous_id),
before AS (
   SELECT a.id FROM memory_agent.archives a LEFT JOIN chain c ON c.id = a.summary_id
    WHERE a.user_id = $2 AND a.agent_id = $3 AND a.session_id = $4 AND a.doc_type = 'conversation'
      AND (c.id IS NOT NULL OR a.summary_id IS NULL AND a.updated_at >= (
               SELECT min(e.recorded_at) FROM memory_agent.entries e
                WHERE e.user_id = $2 AND e.agent_id = $3 AND e.session_id = $4 AND e.kind = 'turn'
                  AND e.state <> 'inactive'))
    ORDER BY c.age LIMIT 1)
INSERT INTO memory_agent.archives AS a
   (id, user_id, agent_id, session_id, namespace, doc_type, content, content_hash, metadata, summary_id)
VALUES (coalesce((SELECT b.id FROM before b), $1), $2, $3, $4, $5, 'conversation', $6, $7, $8,
        (SELECT c.id FROM chain c WHERE c.age = 0))
ON CONFLICT (user_id, id)
DO UPDATE SET content = excluded.content, content_hash = excluded.content_hash,
   metadata = excluded.metadata, summary_id = excluded.summary_id, updated_at = now()
RETURNING a.id
