WITH RECURSIVE users(user_id) AS ({users})
UPDATE memory_agent.jobs j
   SET status = 'running', leased_by = $2, leased_until = now() + make_interval(secs => $3)
 WHERE j.id = (
   SELECT due.id FROM users u, LATERAL (
       SELECT j.id
         FROM (SELECT c.user_id, c.agent_id, c.session_id FROM memory_agent.jobs c
                WHERE c.status = 'pending' AND c.run_after <= now() AND c.kind = $1
                  AND c.user_id = u.user_id
                ORDER BY c.priority DESC, c.run_after, c.id LIMIT {LOOKED_AT}) c,
              LATERAL (
               SELECT o.id FROM unnest($4) k(kind), LATERAL (
                   SELECT o.id FROM memory_agent.jobs o
                    WHERE o.user_id = c.user_id
                      AND coalesce(o.session_id, '') = coalesce(c.session_id, '')
                      AND o.kind = k.kind AND o.agent_id = c.agent_id
                      AND o.status IN ('pending', 'running')
                    ORDER BY o.id LIMIT 1) o
                ORDER BY o.id LIMIT 1) first
         JOIN memory_agent.jobs j ON j.id = first.id
        WHERE j.kind = $1 AND j.status = 'pending' AND j.run_after <= now()
        ORDER BY j.priority DESC, j.run_after, j.id LIMIT 1 FOR UPDATE OF j SKIP LOCKED) due
    LIMIT 1)
RETURNING j.id, j.user_id, j.agent_id, j.session_id, j.payload, j.attempts, j.max_attempts, j.interrupted
