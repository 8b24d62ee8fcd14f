WITH dropped AS (
   DELETE FROM memory_agent.entry_windows w
    WHERE w.user_id = $1 AND w.entry_id = $2 AND w.embedding_model <> $3)
UPDATE memory_agent.entries e
   SET state = 'active', state_reason = NULL, state_at = NULL, valid_to = NULL,
       metadata = CASE WHEN e.state_reason = 'unverified' THEN e.metadata - 'unverified'
                       ELSE e.metadata END,
       replaced_by = NULL, updated_at = now(),
       expires_at = CASE WHEN e.expires_at > now() THEN e.expires_at END,
       embedding = CASE WHEN $3 IS NULL OR e.embedding_model = $3 THEN e.embedding END,
       embedding_model = CASE WHEN $3 IS NULL OR e.embedding_model = $3 THEN e.embedding_model END,
       extracted_at = CASE WHEN e.kind <> 'turn' OR e.role <> 'user'
                             OR e.extracted_at IS DISTINCT FROM 'infinity'
                             OR EXISTS (SELECT FROM memory_agent.episodes p
                                         WHERE p.user_id = $1 AND p.id = e.episode_id
                                           AND p.status = 'open') THEN e.extracted_at
                           WHEN $4 THEN NULL ELSE '-infinity' END
 WHERE e.user_id = $1 AND e.id = $2
