\echo Use "ALTER EXTENSION memory_agent UPDATE TO '0.3.0'" to load this file. \quit

-- From 0.2.0 to 0.3.0. What a feature adds to sql/schema/ it adds to its section here as well. New columns
-- come last in their tables. The suite `upgrade` compares the outcome with a fresh 0.3.0.

-- The members of 0.2.0: what is not among them at the end is new.
SELECT pg_catalog.set_config('memory_agent_update.members', (
           SELECT pg_catalog.string_agg(pg_catalog.concat(d.classid, ' ', d.objid), ',')
             FROM pg_catalog.pg_depend d
             JOIN pg_catalog.pg_extension e
               ON e.oid OPERATOR(pg_catalog.=) d.refobjid
              AND e.extname OPERATOR(pg_catalog.=) 'memory_agent'
            WHERE d.deptype OPERATOR(pg_catalog.=) 'e'), true);

-- === Row types ===

COMMENT ON FUNCTION memory_agent.renew_levels() IS
    'Gives every role the privileges of its level again, and takes the row types of the extension''s tables and views from everyone, after an update, pg_upgrade, or a restore without privileges of single objects. Only for the owner of the extension.';

-- === Prompts within a budget ===

CREATE FUNCTION memory_augment(
    messages jsonb, token_budget integer, session_id text DEFAULT 'default', user_id text DEFAULT NULL,
    agent_id text DEFAULT NULL, top_k integer DEFAULT NULL, recency_weight real DEFAULT NULL,
    score_threshold real DEFAULT NULL)
    RETURNS jsonb LANGUAGE c VOLATILE PARALLEL UNSAFE COST 100000
    AS 'MODULE_PATHNAME', 'memory_augment_within_wrapper';

CREATE FUNCTION memory_chat(
    messages jsonb, token_budget integer, session_id text DEFAULT 'default', user_id text DEFAULT NULL,
    agent_id text DEFAULT NULL, top_k integer DEFAULT NULL, recency_weight real DEFAULT NULL,
    score_threshold real DEFAULT NULL, model text DEFAULT NULL,
    post_process text DEFAULT 'background', temperature real DEFAULT NULL,
    max_tokens integer DEFAULT NULL)
    RETURNS jsonb LANGUAGE c VOLATILE PARALLEL UNSAFE COST 1000000
    AS 'MODULE_PATHNAME', 'memory_chat_within_wrapper';

COMMENT ON FUNCTION memory_context(text,text,integer,text,text) IS
    'What to put into a prompt now: {messages, summary, memories, cross_session, token_count}, never over token_budget (default memory_agent.default_token_budget) and never over what memory_agent.context_limit leaves beside the answer. messages: OpenAI style: the session''s summary (at most a quarter of the budget), memories, facts first, each with its date, and, when the message asks for an earlier conversation, archived ones (at most a quarter together), each as a system message; the newest turns from old to new; query as the current message. Nothing is there twice. Turns of which nothing holds any more are left out of the memories; what else no longer holds is marked, in the turns too (memory_agent.prompt_stale_sources). Errors: 22023 when the current message alone exceeds the budget.';
COMMENT ON FUNCTION memory_augment(jsonb,text,text,text,integer,real,real) IS
    'Messages for an LLM with what is remembered put before the user''s last message: {messages, memory_hits}. messages: a jsonb array in OpenAI''s format. session_id: the conversation (default: default), whose memories, summary, and with them the user''s global memory are used. top_k: memories (default memory_agent.default_top_k; 0 or less: messages unchanged). recency_weight, score_threshold: as in memory_recall. memory_hits: the memories as {role, content, created_at, score, no_longer_true}: facts, then what was said, best first. What the messages and the memories take together is never over what memory_agent.context_limit leaves beside the answer. Stores nothing; works in read-only transactions and on standbys. Asks the LLM only with memory_agent.query_rewrite or memory_agent.read_contradiction_check on, and goes on with a WARNING when it fails. Errors: 22023 for messages that are none or that exceed the limit by themselves, 42501.';
COMMENT ON FUNCTION memory_augment(jsonb,integer,text,text,text,integer,real,real) IS
    'memory_augment with a budget. token_budget: most tokens of all messages, with what is put into them (NULL: what memory_agent.context_limit leaves beside the answer, which is never exceeded). Memories that do not fit are left out, the worst first. Errors: 22023 when it is negative, or when the messages exceed it by themselves.';
COMMENT ON FUNCTION memory_chat(jsonb,text,text,text,integer,real,real,text,text,real,integer) IS
    'Asks the LLM with memories put before the user''s last message, stores that message and the answer as turns of the session, and returns an OpenAI chat completion with memory_hits. Waits for the LLM: longest memory_agent.llm_timeout a call; cancel and statement_timeout end it, and nothing is stored then. When the LLM fails, the user''s message is stored and the result is {error: {code, message}, memory_hits}; code is unavailable, failed, refused or bad_answer. messages, session_id, top_k, recency_weight, score_threshold: as in memory_augment. model: instead of memory_agent.llm_model. post_process: background (facts and summaries are made after COMMIT). temperature: 0 to 2. max_tokens: of the answer; memory_agent.context_limit less that bounds what is sent. Errors: 55000 without an LLM or with memory_agent.inference = backend, 25006 in a read-only transaction, 22023 for messages without a text of the user, or that exceed the limit by themselves (the LLM is not asked then), 0A000 for post_process => wait (call memory_wait() after COMMIT), 42501; 40001 when memory of the user was erased meanwhile: nothing is stored then, call it again.';
COMMENT ON FUNCTION memory_chat(jsonb,integer,text,text,text,integer,real,real,text,text,real,integer) IS
    'memory_chat with a budget. token_budget: as in memory_augment.';

-- === Users take turns in the queue ===

DROP INDEX memory_agent.jobs_claim_idx;
CREATE INDEX jobs_turn_idx ON memory_agent.jobs (kind, user_id, priority DESC, run_after, id)
    WHERE status OPERATOR(pg_catalog.=) 'pending';
-- When the next job is due that waits for its time.
CREATE INDEX jobs_due_idx ON memory_agent.jobs (run_after)
    WHERE status OPERATOR(pg_catalog.=) 'pending';

-- === Levels read views, not tables ===

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
             't.fact_key, t.confidence, t.source_ids',
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
             't.latency, t.status, t.error, t.at', ''),
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
            'CREATE OR REPLACE VIEW @extschema@.', shown.name, ' WITH (security_barrier = true) AS ',
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

COMMENT ON VIEW memory_agents IS 'What memory_configure stored for all sessions of an agent, by the session''s identity and for all users.';
COMMENT ON VIEW memory_archives IS 'Documents and archived conversations as wholes, of the session''s identity and shared ones, forgotten ones included.';
COMMENT ON VIEW memory_changes IS 'History of the session''s identity and of shared memory, row by row; memory_history() tells that of one memory.';
COMMENT ON VIEW memory_episodes IS 'Runs of related turns in the sessions of the session''s identity.';
COMMENT ON VIEW memory_sessions IS 'Conversations of the session''s identity.';

-- What levels were granted on tables goes with renew_levels() below. What was granted by hand stays.
CREATE OR REPLACE FUNCTION memory_grant(role regrole, level text DEFAULT 'user') RETURNS void
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    allowed text[];
    member regprocedure;
BEGIN
    allowed := CASE memory_grant.level
        WHEN 'reader' THEN ARRAY['reader']
        WHEN 'user'   THEN ARRAY['reader', 'user']
        WHEN 'admin'  THEN ARRAY['reader', 'user', 'admin']
    END;
    IF allowed IS NULL THEN
        RAISE EXCEPTION 'unknown level "%"', coalesce(memory_grant.level, 'NULL')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Levels are reader, user and admin.';
    END IF;
    PERFORM memory_agent.require_owner();
    PERFORM memory_agent.require_role(memory_grant.role);
    PERFORM memory_agent.revoke_all(memory_grant.role);
    FOR member IN
        SELECT p.oid::regprocedure
          FROM pg_proc p
          JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
          JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'memory_agent'
          JOIN memory_agent.function_levels() f ON f.function_name = p.proname
         WHERE f.level = ANY (allowed)
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', member, memory_grant.role);
    END LOOP;
    EXECUTE format('GRANT USAGE ON SCHEMA memory_agent TO %s', memory_grant.role);
    IF NOT has_schema_privilege(memory_grant.role, memory_agent.public_schema(), 'USAGE') THEN
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO %s', memory_agent.public_schema(),
                       memory_grant.role);
    END IF;
    EXECUTE format('GRANT SELECT ON %1$I.memory_agents, %1$I.memory_archives, %1$I.memory_entries, '
                   '%1$I.memory_episodes, %1$I.memory_jobs, %1$I.memory_session_summaries, '
                   '%1$I.memory_sessions TO %2$s',
                   memory_agent.public_schema(), memory_grant.role);
    EXECUTE format('GRANT SELECT (name, kind, dimension, active, registered_at) '
                   'ON memory_agent.models TO %s', memory_grant.role);
    IF memory_grant.level = 'admin' THEN
        EXECUTE format('GRANT SELECT ON memory_agent.attachments, memory_agent.grants, '
                       '%1$I.memory_changes, %1$I.memory_llm_calls, %1$I.memory_traces TO %2$s',
                       memory_agent.public_schema(), memory_grant.role);
    END IF;
    INSERT INTO memory_agent.grants (role_name, level)
    SELECT rolname, memory_grant.level FROM pg_roles WHERE oid = memory_grant.role
        ON CONFLICT (role_name) DO UPDATE SET level = excluded.level, granted_at = now();
END
$$;

-- === Tables that only functions change ===

-- A privilege on all tables of the database, as members of pg_write_all_data have it, must not make an
-- administrator of its role.
ALTER TABLE memory_agent.grants ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_agent.models ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_agent.attachments ENABLE ROW LEVEL SECURITY;
CREATE POLICY readable ON memory_agent.grants FOR SELECT USING (true);
CREATE POLICY readable ON memory_agent.models FOR SELECT USING (true);
CREATE POLICY readable ON memory_agent.attachments FOR SELECT USING (true);

-- === Last: owner and privileges of what is new ===

-- New objects belong to whoever owns the old ones, whoever ran the update, and only that role keeps
-- privileges: what PostgreSQL gives to PUBLIC, or the database's default privileges give to anybody, is
-- taken back. Privileges on old objects stay as they are.
DO $owner$
DECLARE
    known CONSTANT text[] := pg_catalog.string_to_array(
        pg_catalog.current_setting('memory_agent_update.members'), ',');
    owner CONSTANT text := (
        SELECT c.relowner::pg_catalog.regrole::pg_catalog.text FROM pg_catalog.pg_class c
         WHERE c.oid OPERATOR(pg_catalog.=) 'memory_agent.entries'::pg_catalog.regclass);
    added record;
    granted record;
BEGIN
    FOR added IN
        SELECT CASE WHEN d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
                    THEN pg_catalog.concat('FUNCTION ', d.objid::pg_catalog.regprocedure)
                    ELSE pg_catalog.concat('TABLE ', d.objid::pg_catalog.regclass) END AS object,
               d.classid, d.objid
          FROM pg_catalog.pg_depend d
          JOIN pg_catalog.pg_extension e
            ON e.oid OPERATOR(pg_catalog.=) d.refobjid
           AND e.extname OPERATOR(pg_catalog.=) 'memory_agent'
         WHERE d.deptype OPERATOR(pg_catalog.=) 'e'
           AND d.classid OPERATOR(pg_catalog.=) ANY (ARRAY['pg_catalog.pg_proc', 'pg_catalog.pg_class']
                                                     ::pg_catalog.regclass[]::pg_catalog.oid[])
           AND NOT pg_catalog.concat(d.classid, ' ', d.objid) OPERATOR(pg_catalog.=) ANY (known)
    LOOP
        EXECUTE pg_catalog.concat('ALTER ', added.object, ' OWNER TO ', owner);
        FOR granted IN
            SELECT DISTINCT CASE WHEN a.grantee OPERATOR(pg_catalog.=) 0::pg_catalog.oid THEN 'PUBLIC'
                                 ELSE a.grantee::pg_catalog.regrole::pg_catalog.text END AS grantee
              FROM (SELECT coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner)) AS acl, p.proowner AS owner
                      FROM pg_catalog.pg_proc p
                     WHERE p.oid OPERATOR(pg_catalog.=) added.objid
                       AND added.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
                    UNION ALL
                    SELECT c.relacl, c.relowner
                      FROM pg_catalog.pg_class c
                     WHERE c.oid OPERATOR(pg_catalog.=) added.objid
                       AND added.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass) o,
                   pg_catalog.aclexplode(o.acl) a
             WHERE a.grantee OPERATOR(pg_catalog.<>) o.owner
        LOOP
            EXECUTE pg_catalog.concat('REVOKE ALL ON ', added.object, ' FROM ', granted.grantee, ' CASCADE');
        END LOOP;
    END LOOP;
END
$owner$;

SELECT memory_agent.renew_levels();
