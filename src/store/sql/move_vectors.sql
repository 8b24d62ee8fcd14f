WITH due AS (
   SELECT e.user_id, e.id FROM memory_agent.entries e
    WHERE (e.user_id, e.id) > ($3, $4) AND e.embedding_model <> $1
      AND EXISTS (SELECT FROM memory_agent.entry_windows w
                   WHERE w.user_id = e.user_id AND w.entry_id = e.id
                     AND w.embedding_model = $1 AND w.ordinal = $2)
    ORDER BY e.user_id, e.id LIMIT $5 FOR NO KEY UPDATE SKIP LOCKED),
taken AS (
   DELETE FROM memory_agent.entry_windows w USING due
    WHERE w.user_id = due.user_id AND w.entry_id = due.id
      AND (w.ordinal = $2 OR w.embedding_model <> $1)
   RETURNING w.user_id, w.entry_id, w.embedding_model, w.ordinal, w.embedding),
moved AS (
   UPDATE memory_agent.entries e
      SET embedding = t.embedding, embedding_model = t.embedding_model
     FROM taken t
    WHERE e.user_id = t.user_id AND e.id = t.entry_id
      AND t.embedding_model = $1 AND t.ordinal = $2)
SELECT due.user_id, due.id FROM due ORDER BY 1, 2
