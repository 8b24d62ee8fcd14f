SELECT jsonb_build_object(
    'sessions', (SELECT count(*) FROM memory_agent.sessions s
                  WHERE s.user_id = $1 AND ($2::text IS NULL OR s.agent_id = $2)
                    AND ($3::text IS NULL OR s.session_id = $3)),
    'turns', count(*) FILTER (WHERE e.kind = 'turn' AND e.state <> 'inactive'),
    'facts', count(*) FILTER (WHERE e.kind = 'fact' AND e.state <> 'inactive'),
    'documents', count(*) FILTER (WHERE e.kind = 'document' AND e.state <> 'inactive'),
    'archived', count(*) FILTER (WHERE e.state = 'archived'),
    'inactive', count(*) FILTER (WHERE e.state = 'inactive'),
    'unverified', count(*) FILTER (WHERE e.state_reason = 'unverified'),
    'tokens', coalesce(sum(e.token_count) FILTER (WHERE e.state <> 'inactive'), 0),
    'window_tokens', coalesce(sum(e.token_count) FILTER (WHERE e.kind = 'turn' AND e.state = 'active'), 0),
    'without_embedding', count(*) FILTER (WHERE e.embedding IS NULL AND e.state <> 'inactive'),
    'first_at', min(e.created_at), 'last_at', max(e.created_at),
    'markers', (SELECT coalesce(jsonb_object_agg(m.marker, m.entries), '{{}}')
                  FROM (SELECT x.marker, count(*) AS entries
                          FROM memory_agent.entries me, unnest(me.markers) x(marker)
                         WHERE me.user_id = $1 AND ($2::text IS NULL OR me.agent_id = $2)
                           AND ($3::text IS NULL OR {me}) AND me.state <> 'inactive'
                         GROUP BY x.marker) m),
    'episodes', (SELECT jsonb_build_object('open', count(*) FILTER (WHERE p.status = 'open'),
                        'closed', count(*) FILTER (WHERE p.status = 'closed'),
                        'reflected', count(*) FILTER (WHERE p.status = 'reflected'),
                        'carried', count(p.carried_into))
                   FROM memory_agent.episodes p
                  WHERE p.user_id = $1 AND ($2::text IS NULL OR p.agent_id = $2)
                    AND ($3::text IS NULL OR p.session_id = $3)),
    'reflections', (SELECT count(*) FROM memory_agent.traces r
                     WHERE r.user_id = $1 AND ($2::text IS NULL OR r.agent_id = $2)
                       AND ($3::text IS NULL OR r.session_id = $3)),
    'summaries', (SELECT jsonb_build_object('L1', count(*) FILTER (WHERE u.level = 'L1'),
                         'L2', count(*) FILTER (WHERE u.level = 'L2'),
                         'L3', count(*) FILTER (WHERE u.level = 'L3'))
                    FROM memory_agent.session_summaries u
                   WHERE u.user_id = $1 AND ($2::text IS NULL OR u.agent_id = $2)
                     AND ($3::text IS NULL OR u.session_id = $3) AND u.is_active))
  FROM memory_agent.entries e
 WHERE e.user_id = $1 AND ($2::text IS NULL OR e.agent_id = $2)
   AND ($3::text IS NULL OR {e})
