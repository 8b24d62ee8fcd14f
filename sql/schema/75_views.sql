-- Views beside the public functions, in the schema chosen at CREATE EXTENSION: all that levels read of
-- memory. No level may SELECT from the tables. Row-level security hides rows, but who may read a column
-- also reads what the planner knows of it: EXPLAIN estimates a condition from the most common values and
-- histograms of all users, and counts the rows that an index finds before the policy removes them.
--
-- A view runs as its owner, and shows the rows of memory_agent.visible_users(), which it asks as the
-- caller. The planner does not look through a security barrier for statistics, and moves no condition
-- below OFFSET, leakproof or not: so estimates and counts inside are those of the view's own condition.
--
-- The second half is for roles that row-level security is not for: superusers, the owner, BYPASSRLS. They
-- see all rows, and need no identity. For all other roles its bounds are NULL, and nothing is read. It is a
-- range of row addresses because the planner takes one with unknown bounds for a small part of the table;
-- a plain scan would make every plan look expensive.
DO $views$
DECLARE
    shown record;
    half text;
BEGIN
    FOR shown IN
        SELECT v.name, v.source, v.columns, v.condition FROM (VALUES
            ('memory_agents', 'agents',
             't.user_id, t.agent_id, t.content_type, t.settings, t.updated_at', ''),
            ('memory_archives', 'archives',
             't.id, t.user_id, t.session_id, t.agent_id, t.namespace, t.doc_type, t.title, t.content, '
             't.metadata, t.summary_id, t.created_at, t.updated_at', ''),
            ('memory_changes', 'history',
             't.id, t.user_id, t.entry_id, t.op, t.at, t.actor, t.reason, t.body, t.salt, t.commitment, '
             't.job_id, t.seq, t.prev_hash, t.hash, t.key_id, t.erased_by', ''),
            ('memory_entries', 'entries',
             't.id, t.user_id, t.session_id, t.agent_id, t.kind, t.role, t.content, '
             't.metadata AS entry_metadata, t.markers, t.created_at, t.updated_at, t.expires_at, '
             '(t.state OPERATOR(pg_catalog.=) ''active'') AS is_active, t.token_count, t.episode_id, '
             't.fact_key, t.confidence, t.source_ids, t.doubted_by',
             ' AND t.state OPERATOR(pg_catalog.<>) ''inactive'''),
            ('memory_episodes', 'episodes',
             't.id, t.user_id, t.session_id, t.agent_id, t.status, t.started_at, t.ended_at, t.turn_count, '
             't.close_reason, t.wants_reflection, t.carried_into', ''),
            ('memory_jobs', 'jobs',
             't.id, t.kind, t.user_id, t.agent_id, t.session_id, t.entry_id, t.status, t.priority, '
             't.attempts, t.max_attempts, t.interrupted, t.run_after, t.leased_until, t.progress AS done, '
             't.progress_of AS total, t.last_error, t.created_at, t.finished_at', ''),
            ('memory_llm_calls', 'llm_calls',
             't.id, t.user_id, t.job_id, t.purpose, t.model, t.prompt_tokens, t.completion_tokens, '
             't.latency, t.status, t.error, t.at, t.endpoint', ''),
            ('memory_session_summaries', 'session_summaries',
             't.id, t.user_id, t.session_id, t.agent_id, t.content AS summary, t.level, t.created_at, '
             't.updated_at, t.method, t.topics, t.entities, t.decisions, t.questions, t.source_ids, '
             't.message_count', ' AND t.is_active'),
            ('memory_sessions', 'sessions',
             't.user_id, t.agent_id, t.session_id, t.created_at, t.last_turn_at, t.turn_count, '
             't.active_tokens, t.active_entries, t.unsummarized_tokens, t.open_episode_id, '
             't.content_type, t.settings', ''),
            ('memory_traces', 'traces',
             't.id, t.user_id, t.agent_id, t.session_id, t.episode_id, t.job_id, t.at, t.body', '')
        ) AS v(name, source, columns, condition)
    LOOP
        half := pg_catalog.concat('SELECT ', shown.columns, ' FROM memory_agent.', shown.source, ' t WHERE ');
        EXECUTE pg_catalog.concat(
            'CREATE VIEW @extschema@.', shown.name, ' WITH (security_barrier = true) AS ',
            half, 't.user_id OPERATOR(pg_catalog.=) ANY ((SELECT CASE WHEN '
                'pg_catalog.row_security_active(''memory_agent.', shown.source, '''::pg_catalog.regclass) '
                'THEN memory_agent.visible_users() END)::pg_catalog.text[])', shown.condition,
            ' UNION ALL ',
            half, 't.ctid OPERATOR(pg_catalog.>=) (SELECT CASE WHEN NOT '
                'pg_catalog.row_security_active(''memory_agent.', shown.source, '''::pg_catalog.regclass) '
                'THEN ''(0,0)''::pg_catalog.tid END) '
                'AND t.ctid OPERATOR(pg_catalog.<=) (SELECT CASE WHEN NOT '
                'pg_catalog.row_security_active(''memory_agent.', shown.source, '''::pg_catalog.regclass) '
                'THEN ''(4294967295,65535)''::pg_catalog.tid END)', shown.condition,
            ' OFFSET 0');
    END LOOP;
END
$views$;
