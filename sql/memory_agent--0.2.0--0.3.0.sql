\echo Use "ALTER EXTENSION memory_agent UPDATE TO '0.3.0'" to load this file. \quit

-- From 0.2.0 to 0.3.0. What a feature adds to sql/schema/ it adds to its section here as well. New columns
-- come last in their tables. The suite `upgrade` compares the outcome with a fresh 0.3.0.

-- === All tables at once ===

-- Sessions and workers lock tables in orders of their own, and those that lock them as this script comes to
-- them would each wait for the other. So it takes all of them first, and holds none while it waits longer
-- than an attempt: at most half a second, and never longer than lock_timeout.
DO $lock$
DECLARE
    relations text;
    own integer;
    gives_up timestamptz;
    patience integer := 50;
BEGIN
    SELECT pg_catalog.string_agg(pg_catalog.format('%I.%I', n.nspname, c.relname), ', ' ORDER BY c.oid)
      INTO relations
      FROM pg_catalog.pg_depend d
      JOIN pg_catalog.pg_extension e ON e.oid OPERATOR(pg_catalog.=) d.refobjid
      JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) d.objid
      JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
     WHERE e.extname OPERATOR(pg_catalog.=) 'memory_agent'
       AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
       AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
       AND d.deptype OPERATOR(pg_catalog.=) 'e'
       AND c.relkind OPERATOR(pg_catalog.=) ANY ('{r,p,v}');
    SELECT s.setting INTO own FROM pg_catalog.pg_settings s
     WHERE s.name OPERATOR(pg_catalog.=) 'lock_timeout';
    IF own OPERATOR(pg_catalog.>) 0 THEN patience := LEAST(patience, own); END IF;
    gives_up := pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+)
        pg_catalog.make_interval(secs =>
            CASE WHEN own OPERATOR(pg_catalog.=) 0 THEN 60
                 ELSE own OPERATOR(pg_catalog./) 1000.0 END);
    WHILE pg_catalog.clock_timestamp() OPERATOR(pg_catalog.<) gives_up LOOP
        BEGIN
            PERFORM pg_catalog.set_config('lock_timeout', patience::pg_catalog.text, true);
            EXECUTE pg_catalog.concat('LOCK TABLE ', relations, ' IN ACCESS EXCLUSIVE MODE');
            PERFORM pg_catalog.set_config('lock_timeout', own::pg_catalog.text, true);
            RETURN;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            patience := LEAST(patience OPERATOR(pg_catalog.*) 2, 500,
                              CASE WHEN own OPERATOR(pg_catalog.>) 0 THEN own END);
        END;
    END LOOP;
    EXECUTE pg_catalog.concat('LOCK TABLE ', relations, ' IN ACCESS EXCLUSIVE MODE');
END
$lock$;

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
    'Grants every role the privileges of its level again, and revokes those on the row types of the extension''s tables and views from all other roles; for use after an update, pg_upgrade, or a restore without privileges of single objects. Only for the owner of the extension.';

-- === Numbers as drivers send them ===

-- Functions whose arguments were integer and real, and memory_erase and memory_attach, which have more arguments.
DO $replaced$
DECLARE
    narrow pg_catalog.regprocedure;
BEGIN
    FOR narrow IN
        SELECT p.oid
          FROM pg_catalog.pg_proc p
          JOIN pg_catalog.pg_depend d
            ON d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
           AND d.objid OPERATOR(pg_catalog.=) p.oid AND d.deptype OPERATOR(pg_catalog.=) 'e'
          JOIN pg_catalog.pg_extension e
            ON e.oid OPERATOR(pg_catalog.=) d.refobjid
           AND e.extname OPERATOR(pg_catalog.=) 'memory_agent'
         WHERE p.proname OPERATOR(pg_catalog.=) ANY (ARRAY[
                   'memory_recall', 'memory_explain', 'memory_context', 'memory_augment', 'memory_chat',
                   'memory_list_documents', 'memory_search_archive', 'memory_summarize',
                   'memory_reserve_tokens', 'memory_erase', 'memory_attach']::pg_catalog.name[])
    LOOP
        EXECUTE pg_catalog.concat('DROP FUNCTION ', narrow);
    END LOOP;
END
$replaced$;

CREATE FUNCTION memory_recall(
    query text, session_id text DEFAULT NULL, user_id text DEFAULT NULL, agent_id text DEFAULT NULL,
    top_k bigint DEFAULT NULL, token_budget bigint DEFAULT NULL, kinds text[] DEFAULT NULL,
    filter jsonb DEFAULT NULL, as_of timestamptz DEFAULT NULL,
    score_threshold double precision DEFAULT NULL, recency_weight double precision DEFAULT NULL,
    mmr_lambda double precision DEFAULT NULL, rerank boolean DEFAULT NULL,
    query_embedding vector DEFAULT NULL, rewrites text[] DEFAULT NULL)
    RETURNS TABLE (id uuid, kind text, role text, content text, score real, relevance real,
                   similarity real, lexical real, recency real, markers text[], token_count integer,
                   session_id text, episode_id uuid, metadata jsonb, created_at timestamptz)
    LANGUAGE c STABLE PARALLEL UNSAFE ROWS 5 COST 100000
    AS 'MODULE_PATHNAME', 'memory_recall_wrapper';

CREATE FUNCTION memory_explain(
    query text, session_id text DEFAULT NULL, user_id text DEFAULT NULL, agent_id text DEFAULT NULL,
    top_k bigint DEFAULT NULL, token_budget bigint DEFAULT NULL, kinds text[] DEFAULT NULL,
    filter jsonb DEFAULT NULL, as_of timestamptz DEFAULT NULL,
    score_threshold double precision DEFAULT NULL, recency_weight double precision DEFAULT NULL,
    mmr_lambda double precision DEFAULT NULL, rerank boolean DEFAULT NULL,
    query_embedding vector DEFAULT NULL, rewrites text[] DEFAULT NULL)
    RETURNS jsonb LANGUAGE c STABLE PARALLEL UNSAFE COST 100000
    AS 'MODULE_PATHNAME', 'memory_explain_wrapper';

CREATE FUNCTION memory_context(
    session_id text, query text, token_budget bigint DEFAULT NULL, user_id text DEFAULT NULL,
    agent_id text DEFAULT NULL)
    RETURNS jsonb LANGUAGE c STABLE PARALLEL UNSAFE COST 100000
    AS 'MODULE_PATHNAME', 'memory_context_wrapper';

CREATE FUNCTION memory_augment(
    messages jsonb, session_id text DEFAULT 'default', user_id text DEFAULT NULL,
    agent_id text DEFAULT NULL, top_k bigint DEFAULT NULL, recency_weight double precision DEFAULT NULL,
    score_threshold double precision DEFAULT NULL)
    RETURNS jsonb LANGUAGE c VOLATILE PARALLEL UNSAFE COST 100000
    AS 'MODULE_PATHNAME', 'memory_augment_wrapper';

CREATE FUNCTION memory_chat(
    messages jsonb, session_id text DEFAULT 'default', user_id text DEFAULT NULL,
    agent_id text DEFAULT NULL, top_k bigint DEFAULT NULL, recency_weight double precision DEFAULT NULL,
    score_threshold double precision DEFAULT NULL, model text DEFAULT NULL,
    post_process text DEFAULT 'background', temperature double precision DEFAULT NULL,
    max_tokens bigint DEFAULT NULL, store boolean DEFAULT true)
    RETURNS jsonb LANGUAGE c VOLATILE PARALLEL UNSAFE COST 1000000
    AS 'MODULE_PATHNAME', 'memory_chat_storing_wrapper';

CREATE FUNCTION memory_list_documents(
    doc_type text DEFAULT NULL, "limit" bigint DEFAULT 10, user_id text DEFAULT NULL)
    RETURNS TABLE (id uuid, doc_type text, title text, session_id text, agent_id text,
                   chunks bigint, metadata jsonb, created_at timestamptz, updated_at timestamptz)
    LANGUAGE c STABLE PARALLEL UNSAFE ROWS 10
    AS 'MODULE_PATHNAME', 'memory_list_documents_wrapper';

CREATE FUNCTION memory_search_archive(
    query text, top_k bigint DEFAULT 5, user_id text DEFAULT NULL,
    exclude_session text DEFAULT NULL, agent_id text DEFAULT NULL,
    doc_type text DEFAULT 'conversation')
    RETURNS TABLE (id uuid, content text, score real, similarity real, metadata jsonb,
                   session_id text, created_at timestamptz)
    LANGUAGE c STABLE PARALLEL UNSAFE ROWS 5 COST 100000
    AS 'MODULE_PATHNAME', 'memory_search_archive_wrapper';

CREATE FUNCTION memory_summarize(
    text text, max_tokens bigint DEFAULT 128, content_type text DEFAULT 'conversation')
    RETURNS jsonb LANGUAGE c VOLATILE PARALLEL UNSAFE COST 1000000
    AS 'MODULE_PATHNAME', 'memory_summarize_wrapper';

CREATE FUNCTION memory_reserve_tokens(
    session_id text, budget bigint DEFAULT NULL, summarize boolean DEFAULT false,
    user_id text DEFAULT NULL, agent_id text DEFAULT NULL)
    RETURNS TABLE (tokens_before bigint, tokens_after bigint, summarized integer, dropped integer)
    LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1
    AS 'MODULE_PATHNAME', 'memory_reserve_tokens_wrapper';

CREATE FUNCTION memory_erase(
    user_id text DEFAULT NULL, session_id text DEFAULT NULL, id uuid DEFAULT NULL,
    reason text DEFAULT NULL, agent_id text DEFAULT NULL, confirm_global boolean DEFAULT false)
    RETURNS jsonb LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_erase_confirmed_wrapper';

-- The name that top_k had, and timeouts as numbers and texts.
CREATE FUNCTION memory_search_archive(
    query text, "limit" double precision, user_id text DEFAULT NULL,
    exclude_session text DEFAULT NULL, agent_id text DEFAULT NULL,
    doc_type text DEFAULT 'conversation')
    RETURNS TABLE (id uuid, content text, score real, similarity real, metadata jsonb,
                   session_id text, created_at timestamptz)
    LANGUAGE c STABLE PARALLEL UNSAFE ROWS 5 COST 100000
    AS 'MODULE_PATHNAME', 'memory_search_archive_wrapper';

CREATE FUNCTION memory_wait(
    timeout double precision, session_id text DEFAULT NULL, user_id text DEFAULT NULL)
    RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_wait_for_wrapper';

CREATE FUNCTION memory_wait(
    timeout text, session_id text DEFAULT NULL, user_id text DEFAULT NULL)
    RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_wait_written_wrapper';

-- === Prompts within a budget ===

CREATE FUNCTION memory_augment(
    messages jsonb, token_budget bigint, session_id text DEFAULT 'default', user_id text DEFAULT NULL,
    top_k bigint DEFAULT NULL, recency_weight double precision DEFAULT NULL,
    score_threshold double precision DEFAULT NULL, agent_id text DEFAULT NULL)
    RETURNS jsonb LANGUAGE c VOLATILE PARALLEL UNSAFE COST 100000
    AS 'MODULE_PATHNAME', 'memory_augment_within_wrapper';

-- What memory_augment puts into the messages, alone.
CREATE FUNCTION memory_augment_block(
    messages jsonb, session_id text DEFAULT 'default', user_id text DEFAULT NULL,
    agent_id text DEFAULT NULL, top_k bigint DEFAULT NULL, recency_weight double precision DEFAULT NULL,
    score_threshold double precision DEFAULT NULL)
    RETURNS jsonb LANGUAGE c VOLATILE PARALLEL UNSAFE COST 100000
    AS 'MODULE_PATHNAME', 'memory_augment_block_wrapper';

CREATE FUNCTION memory_chat(
    messages jsonb, token_budget bigint, session_id text DEFAULT 'default', user_id text DEFAULT NULL,
    top_k bigint DEFAULT NULL, recency_weight double precision DEFAULT NULL,
    score_threshold double precision DEFAULT NULL, model text DEFAULT NULL,
    post_process text DEFAULT 'background', temperature double precision DEFAULT NULL,
    max_tokens bigint DEFAULT NULL, store boolean DEFAULT true, agent_id text DEFAULT NULL)
    RETURNS jsonb LANGUAGE c VOLATILE PARALLEL UNSAFE COST 1000000
    AS 'MODULE_PATHNAME', 'memory_chat_within_wrapper';

CREATE FUNCTION memory_recall(
    query text, rerank_rows bigint, session_id text DEFAULT NULL, user_id text DEFAULT NULL,
    top_k bigint DEFAULT NULL, token_budget bigint DEFAULT NULL,
    kinds text[] DEFAULT NULL, filter jsonb DEFAULT NULL, as_of timestamptz DEFAULT NULL,
    score_threshold double precision DEFAULT NULL, recency_weight double precision DEFAULT NULL,
    mmr_lambda double precision DEFAULT NULL, rerank boolean DEFAULT NULL,
    query_embedding vector DEFAULT NULL, rewrites text[] DEFAULT NULL,
    agent_id text DEFAULT NULL)
    RETURNS TABLE (id uuid, kind text, role text, content text, score real, relevance real,
                   similarity real, lexical real, recency real, markers text[], token_count integer,
                   session_id text, episode_id uuid, metadata jsonb, created_at timestamptz)
    LANGUAGE c STABLE PARALLEL UNSAFE ROWS 5 COST 100000
    AS 'MODULE_PATHNAME', 'memory_recall_reading_wrapper';

CREATE FUNCTION memory_explain(
    query text, rerank_rows bigint, session_id text DEFAULT NULL, user_id text DEFAULT NULL,
    top_k bigint DEFAULT NULL, token_budget bigint DEFAULT NULL,
    kinds text[] DEFAULT NULL, filter jsonb DEFAULT NULL, as_of timestamptz DEFAULT NULL,
    score_threshold double precision DEFAULT NULL, recency_weight double precision DEFAULT NULL,
    mmr_lambda double precision DEFAULT NULL, rerank boolean DEFAULT NULL,
    query_embedding vector DEFAULT NULL, rewrites text[] DEFAULT NULL,
    agent_id text DEFAULT NULL)
    RETURNS jsonb LANGUAGE c STABLE PARALLEL UNSAFE COST 100000
    AS 'MODULE_PATHNAME', 'memory_explain_reading_wrapper';

CREATE FUNCTION memory_load(
    session_id text, token_budget bigint, user_id text DEFAULT NULL, agent_id text DEFAULT NULL)
    RETURNS TABLE (role text, content text, created_at timestamptz, id uuid, token_count integer)
    LANGUAGE c STABLE PARALLEL UNSAFE ROWS 20
    AS 'MODULE_PATHNAME', 'memory_load_within_wrapper';

CREATE FUNCTION memory_count_tokens(text text, encoding text)
    RETURNS integer LANGUAGE c IMMUTABLE STRICT PARALLEL UNSAFE COST 1000
    AS 'MODULE_PATHNAME', 'memory_count_tokens_as_wrapper';

CREATE FUNCTION memory_attach(
    relation regclass, content_column text, user_id_column text DEFAULT NULL,
    session_id_column text DEFAULT NULL, role text DEFAULT 'user',
    metadata_columns text[] DEFAULT '{}', created_at_column text DEFAULT NULL,
    embed text DEFAULT 'async', backfill boolean DEFAULT true, role_column text DEFAULT NULL,
    user_id text DEFAULT NULL, agent_id text DEFAULT NULL, extract_facts boolean DEFAULT false,
    condition text DEFAULT NULL, content_path text DEFAULT NULL, role_path text DEFAULT NULL,
    role_map jsonb DEFAULT '{}', more_content_columns text[] DEFAULT '{}')
    RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_attach_table_wrapper';

ALTER TABLE memory_agent.attachments ADD COLUMN extract_facts boolean NOT NULL DEFAULT false;
ALTER TABLE memory_agent.attachments ADD COLUMN condition text;
ALTER TABLE memory_agent.attachments ADD COLUMN condition_names text[] NOT NULL DEFAULT '{}';
ALTER TABLE memory_agent.attachments ADD COLUMN condition_columns text[] NOT NULL DEFAULT '{}';
ALTER TABLE memory_agent.attachments ADD COLUMN more_content_columns text[] NOT NULL DEFAULT '{}';
ALTER TABLE memory_agent.attachments ADD COLUMN content_path text;
ALTER TABLE memory_agent.attachments ADD COLUMN role_path text;
ALTER TABLE memory_agent.attachments ADD COLUMN role_map jsonb NOT NULL DEFAULT '{}';

-- === Global memory has a name ===

CREATE FUNCTION memory_archive(
    session_id text, user_id text DEFAULT NULL, agent_id text DEFAULT NULL)
    RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_archive_wrapper';

CREATE FUNCTION memory_recall_times()
    RETURNS TABLE (embed double precision, search double precision, rerank double precision, rank double precision)
    LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1
    AS 'MODULE_PATHNAME', 'memory_recall_times_wrapper';

CREATE FUNCTION memory_state(
    memories jsonb, session_id text DEFAULT NULL, user_id text DEFAULT NULL, agent_id text DEFAULT NULL)
    RETURNS text LANGUAGE c STABLE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_state_wrapper';

CREATE FUNCTION memory_list(
    session_id text DEFAULT NULL, kind text DEFAULT NULL, "limit" bigint DEFAULT 50,
    from_at timestamptz DEFAULT NULL, from_id uuid DEFAULT NULL, oldest_first boolean DEFAULT false,
    id uuid DEFAULT NULL, source_id uuid DEFAULT NULL, own_only boolean DEFAULT false,
    user_id text DEFAULT NULL, agent_id text DEFAULT NULL)
    RETURNS TABLE (id uuid, user_id text, session_id text, agent_id text, kind text, role text, content text,
                   entry_metadata jsonb, markers text[], created_at timestamptz, updated_at timestamptz,
                   expires_at timestamptz, is_active boolean, token_count integer, episode_id uuid,
                   fact_key text, confidence real, source_ids uuid[])
    LANGUAGE c STABLE PARALLEL UNSAFE ROWS 50
    AS 'MODULE_PATHNAME', 'memory_list_wrapper';

-- A user's entries of a kind in the order of time, page by page.
CREATE INDEX entries_time_idx ON memory_agent.entries (user_id, kind, created_at, id)
    WHERE state <> 'inactive';

CREATE FUNCTION memory_clear(
    session_id text, confirm_global boolean, user_id text DEFAULT NULL, agent_id text DEFAULT NULL)
    RETURNS integer LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_clear_confirmed_wrapper';

-- === Everything of a user as JSON ===

CREATE FUNCTION memory_export_json(user_id text DEFAULT NULL, agent_id text DEFAULT NULL)
    RETURNS SETOF jsonb LANGUAGE c STABLE PARALLEL UNSAFE ROWS 1000
    AS 'MODULE_PATHNAME', 'memory_export_json_wrapper';

CREATE FUNCTION memory_import_json(record jsonb, user_id text DEFAULT NULL)
    RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_import_json_wrapper';

-- === Facts that were not said ===

ALTER TABLE memory_agent.entries DROP CONSTRAINT entries_state_reason_check;
ALTER TABLE memory_agent.entries ADD CONSTRAINT entries_state_reason_check
    CHECK (state_reason IN ('compressed', 'evicted', 'superseded', 'deleted', 'expired', 'contradicted',
                            'unverified'));

-- === LLM endpoints as rows ===

CREATE OR REPLACE FUNCTION memory_agent.require_owner() RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_extension
                    WHERE extname = 'memory_agent' AND pg_has_role(current_user, extowner, 'USAGE')) THEN
        RAISE EXCEPTION 'only the owner of the extension memory_agent may do this'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
END
$$;

ALTER TABLE memory_agent.llm_calls ADD COLUMN endpoint text;

CREATE TABLE memory_agent.endpoints (
    name             text PRIMARY KEY,
    provider         text NOT NULL CHECK (provider IN ('openai', 'azure', 'anthropic')),
    base_url         text NOT NULL,
    model            text NOT NULL,
    api_version      text NOT NULL,
    key_name         text,
    calls_per_minute integer NOT NULL CHECK (calls_per_minute >= 0),
    daily_tokens     bigint NOT NULL CHECK (daily_tokens >= 0),
    enabled_in       text NOT NULL
);

CREATE TABLE memory_agent.endpoint_uses (
    agent_id text PRIMARY KEY,
    endpoint text NOT NULL
);

-- How many answers of a probe an LLM gave rightly: of what replaces what (choices), and of what users state (statements).
CREATE TABLE memory_agent.llm_probes (
    base_url      text NOT NULL,
    model         text NOT NULL,
    probe         text NOT NULL CHECK (probe IN ('choices', 'statements')),
    right_answers integer NOT NULL,
    asked_at      timestamptz NOT NULL DEFAULT now(),
    valid_until   timestamptz NOT NULL,
    PRIMARY KEY (base_url, model, probe)
);

CREATE FUNCTION memory_set_endpoint(
    name text, base_url text, model text, provider text DEFAULT 'openai', key_name text DEFAULT NULL,
    api_version text DEFAULT '', calls_per_minute bigint DEFAULT 0, daily_tokens bigint DEFAULT 0)
    RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_set_endpoint_wrapper';

CREATE FUNCTION memory_enable_endpoint(name text)
    RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_enable_endpoint_wrapper';

CREATE FUNCTION memory_drop_endpoint(name text)
    RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_drop_endpoint_wrapper';

CREATE FUNCTION memory_use_endpoint(name text, agent_id text DEFAULT NULL)
    RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_use_endpoint_wrapper';

CREATE FUNCTION memory_list_endpoints()
    RETURNS TABLE (name text, provider text, model text, is_enabled boolean, agents text[],
                   calls_per_minute integer, daily_tokens bigint, tokens_today bigint)
    LANGUAGE c STABLE PARALLEL UNSAFE ROWS 10
    AS 'MODULE_PATHNAME', 'memory_list_endpoints_wrapper';

ALTER TABLE memory_agent.endpoints ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_agent.endpoint_uses ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_agent.llm_probes ENABLE ROW LEVEL SECURITY;
SELECT pg_catalog.pg_extension_config_dump('memory_agent.endpoints', '');
SELECT pg_catalog.pg_extension_config_dump('memory_agent.endpoint_uses', '');

COMMENT ON TABLE memory_agent.traces IS 'One document for each job that extracts facts from turns of episodes: its inputs, output and effects.';
COMMENT ON TABLE memory_agent.endpoints IS 'LLM endpoints that memory_set_endpoint wrote. Keys are not here: key_name is a file of memory_agent.llm_key_dir.';
COMMENT ON COLUMN memory_agent.endpoints.enabled_in IS 'The cluster, the database and the installation of the extension in which the owner wrote or enabled the endpoint. In a copy of the database and after a restore it is off.';
COMMENT ON TABLE memory_agent.endpoint_uses IS 'The LLM endpoint of each agent; an empty agent_id stands for all agents without one of their own.';
COMMENT ON TABLE memory_agent.llm_probes IS 'The number of right answers that each LLM gave in a probe, of 16 choices (probe choices) or of 8 messages (probe statements). A row counts until valid_until, and pg_dump does not include it. See docs/worker.md.';
COMMENT ON COLUMN memory_agent.llm_calls.endpoint IS 'The row of memory_agent.endpoints that was called; NULL for the endpoint of the settings.';
COMMENT ON FUNCTION memory_set_endpoint(text,text,text,text,text,text,bigint,bigint) IS
    'Writes an LLM endpoint, or changes the one of this name, and enables it in this database; only for the owner of the extension. provider is openai, azure or anthropic, and key_name a file in the host''s folder of memory_agent.llm_key_dir; calls_per_minute counts all databases together, daily_tokens this one per day (UTC), and 0 is no limit. Errors: 22023, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_enable_endpoint(text) IS
    'Enables an endpoint that came with a restored dump or a copied database, and returns whether there is one of this name. Only the owner of the extension may call it. Errors: 22023, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_drop_endpoint(text) IS
    'Deletes an endpoint that no agent uses, and returns whether there was one of this name. Only the owner of the extension may call it. Errors: 22023, 42501, 55000. See docs/reference.md.';
COMMENT ON FUNCTION memory_use_endpoint(text,text) IS
    'Chooses the LLM endpoint of an agent, for statements and background work. name is one of memory_list_endpoints(), or NULL to remove the choice; agent_id NULL means all agents without an endpoint of their own. Errors: 22023, 42501, 42704. See docs/reference.md.';
COMMENT ON FUNCTION memory_list_endpoints() IS
    'Lists the LLM endpoints of this database by name, with the agents that use them, their limits (0: none), and the tokens used since midnight UTC. is_enabled is false for an endpoint that came with a copy, until the owner calls memory_enable_endpoint. Errors: 42501. See docs/reference.md.';

-- === Quotas ===

-- What users may have, as administrators set it; user_id '*' is for all users without one of their own. 0 is
-- without limit.
CREATE TABLE memory_agent.quotas (
    user_id      text PRIMARY KEY,
    entries      bigint CHECK (entries >= 0),
    bytes        bigint CHECK (bytes >= 0),
    daily_tokens bigint CHECK (daily_tokens >= 0),
    set_at       timestamptz NOT NULL DEFAULT now()
);

-- What users with a quota had when it was counted. Rows are only added, so that sessions of a user do not wait for
-- each other; a sweep deletes the older ones.
CREATE TABLE memory_agent.quota_counts (
    user_id    text NOT NULL,
    id         uuid NOT NULL,
    entries    bigint NOT NULL,
    bytes      bigint NOT NULL,
    counted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (user_id, id)
);

CREATE INDEX llm_calls_user_idx ON memory_agent.llm_calls (user_id, at);

CREATE FUNCTION memory_set_quota(
    user_id text, entries bigint DEFAULT NULL, bytes bigint DEFAULT NULL, daily_tokens bigint DEFAULT NULL)
    RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_set_quota_wrapper';

CREATE FUNCTION memory_list_quotas()
    RETURNS TABLE (user_id text, entries bigint, bytes bigint, daily_tokens bigint)
    LANGUAGE c STABLE PARALLEL UNSAFE ROWS 10
    AS 'MODULE_PATHNAME', 'memory_list_quotas_wrapper';

CREATE FUNCTION memory_usage(user_id text DEFAULT NULL)
    RETURNS TABLE (resource text, used bigint, quota bigint)
    LANGUAGE c STABLE PARALLEL UNSAFE ROWS 3
    AS 'MODULE_PATHNAME', 'memory_usage_wrapper';

ALTER TABLE memory_agent.quotas ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_agent.quota_counts ENABLE ROW LEVEL SECURITY;
CREATE POLICY visible ON memory_agent.quotas FOR SELECT
    USING (user_id OPERATOR(pg_catalog.=) ANY ((SELECT memory_agent.visible_users())::pg_catalog.text[]));
CREATE POLICY visible ON memory_agent.quota_counts FOR SELECT
    USING (user_id OPERATOR(pg_catalog.=) ANY ((SELECT memory_agent.visible_users())::pg_catalog.text[]));
SELECT pg_catalog.pg_extension_config_dump('memory_agent.quotas', '');

COMMENT ON TABLE memory_agent.quotas IS 'What users may have, as memory_set_quota wrote it; user_id ''*'' stands for all users without one of their own. NULL: as for all users; 0: no limit.';
COMMENT ON COLUMN memory_agent.quotas.bytes IS 'Bytes of the contents of entries.';
COMMENT ON COLUMN memory_agent.quotas.daily_tokens IS 'Tokens of LLMs per day in UTC.';
COMMENT ON TABLE memory_agent.quota_counts IS 'What users with a quota of entries or bytes had when it was counted. A sweep deletes counts that newer ones replace, and pg_dump does not include the rows. See docs/operations.md.';
COMMENT ON COLUMN memory_agent.quota_counts.id IS 'Entries with greater ids were stored after the count.';
COMMENT ON FUNCTION memory_set_quota(text,bigint,bigint,bigint) IS
    'Sets the quota of a user, or with user_id ''*'' of all users without one of their own, in place of the one before. entries and bytes limit what a user has, daily_tokens the tokens of LLMs per day (UTC); NULL means as for all users, 0 no limit, and over a quota nothing can be added (53400). Errors: 22023, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_list_quotas() IS
    'Lists the quotas by user, as memory_set_quota wrote them; user_id ''*'' means all users without one of their own. A limit of NULL is the one for all users, and 0 is no limit. Errors: 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_usage(text) IS
    'Returns what a user has, beside the quota: a row for entries, for bytes of their contents, and for daily_tokens, the tokens of LLMs since midnight UTC. user_id defaults to the caller; quota NULL means no limit. Errors: 22023, 42501. See docs/reference.md.';

-- === Languages ===

CREATE INDEX sessions_text_search_config_idx ON memory_agent.sessions (user_id)
    WHERE settings OPERATOR(pg_catalog.?) 'text_search_config';

-- === memory_add without an LLM ===

CREATE OR REPLACE FUNCTION memory_add(
    content text, session_id text DEFAULT NULL, user_id text DEFAULT NULL, agent_id text DEFAULT NULL,
    metadata jsonb DEFAULT '{}', markers text[] DEFAULT NULL, created_at timestamptz DEFAULT NULL,
    ttl interval DEFAULT NULL, infer boolean DEFAULT NULL, fact_key text DEFAULT NULL)
    RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_add_wrapper';

-- === Sessions recall each other ===

CREATE INDEX sessions_session_recall_idx ON memory_agent.sessions (user_id, agent_id)
    WHERE settings ? 'session_recall';

-- What agents know stays where it was: those with sessions go on without the user's other ones, until the
-- administrator says otherwise. memory_status() tells how.
INSERT INTO memory_agent.agents AS a (user_id, agent_id, settings)
SELECT DISTINCT '*', s.agent_id, jsonb_build_object('session_recall', 'session')
  FROM memory_agent.sessions s
    ON CONFLICT (user_id, agent_id) DO UPDATE SET settings = a.settings || excluded.settings;

-- === Users take turns in the queue ===

-- Agents that say themselves how long inactive entries are kept, and the texts that calls kept of a user.
CREATE INDEX agents_purge_after_idx ON memory_agent.agents (user_id)
    WHERE settings ? 'purge_after';
CREATE INDEX llm_calls_texts_idx ON memory_agent.llm_calls (user_id)
    WHERE request IS NOT NULL OR response IS NOT NULL OR error IS NOT NULL;

DROP INDEX memory_agent.jobs_claim_idx;
CREATE INDEX jobs_turn_idx ON memory_agent.jobs (kind, user_id, priority DESC, run_after, id)
    WHERE status OPERATOR(pg_catalog.=) 'pending';
-- When the next job is due that waits for its time.
CREATE INDEX jobs_due_idx ON memory_agent.jobs (run_after)
    WHERE status OPERATOR(pg_catalog.=) 'pending';

-- === Texts in one form ===

ALTER TABLE memory_agent.jobs DROP CONSTRAINT jobs_kind_check;
ALTER TABLE memory_agent.jobs ADD CONSTRAINT jobs_kind_check
    CHECK (kind IN ('embed', 'extract', 'reflect', 'summarize', 'compress', 'evict', 'reembed', 'attach', 'reindex'));

-- A worker hashes and indexes anew what was stored before.
INSERT INTO memory_agent.jobs (id, kind, user_id, agent_id)
SELECT pg_catalog.gen_random_uuid(), 'reindex', '*', '*'
 WHERE EXISTS (SELECT FROM memory_agent.entries) OR EXISTS (SELECT FROM memory_agent.archives);

-- === What an assistant decided waits for extraction ===

CREATE INDEX entries_decisions_idx
    ON memory_agent.entries (user_id, agent_id, session_id, created_at)
    WHERE kind OPERATOR(pg_catalog.=) 'turn' AND role OPERATOR(pg_catalog.=) 'assistant'
      AND extracted_at OPERATOR(pg_catalog.=) 'infinity';

-- === Facts that perhaps no longer hold ===

ALTER TABLE memory_agent.entries ADD COLUMN doubted_by uuid;
COMMENT ON COLUMN memory_agent.entries.doubted_by IS 'What was said later than this fact and perhaps replaces or ends it: a fact, or a turn.';
CREATE INDEX entries_doubted_by_idx ON memory_agent.entries (user_id, doubted_by)
    WHERE doubted_by IS NOT NULL;

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

COMMENT ON VIEW memory_traces IS 'Traces of extractions from episodes.';
COMMENT ON VIEW memory_agents IS 'Settings that memory_configure stored for all sessions of an agent: those of the session''s identity and those for all users.';
COMMENT ON VIEW memory_archives IS 'Documents and archived conversations as wholes, of the session''s identity and shared ones, including forgotten ones.';
COMMENT ON VIEW memory_changes IS 'History of the session''s identity and of shared memory, row by row; memory_history() returns that of one memory.';
COMMENT ON VIEW memory_episodes IS 'Runs of related turns in the sessions of the session''s identity.';
COMMENT ON VIEW memory_sessions IS 'Conversations of the session''s identity.';

ALTER TABLE memory_agent.grants DROP CONSTRAINT grants_level_check;
ALTER TABLE memory_agent.grants ADD CONSTRAINT grants_level_check
    CHECK (level IN ('reader', 'user', 'gateway', 'admin'));

-- renew_levels() below fills them for roles that are there under their name.
ALTER TABLE memory_agent.grants ADD COLUMN role_oid oid, ADD COLUMN cluster_id bigint;
COMMENT ON COLUMN memory_agent.grants.role_oid IS 'The role, which keeps its level when it is renamed. NULL in rows of older versions, which go by the name.';
COMMENT ON COLUMN memory_agent.grants.cluster_id IS 'The system identifier of the cluster in which role_oid is the role. In another one, as after a restore, the name counts.';

-- Roles keep their level when they are renamed; a dump names them as this leaves them.
CREATE FUNCTION memory_agent.follow_roles() RETURNS void
    LANGUAGE sql VOLATILE
    SET search_path = pg_catalog, pg_temp
    AS $$
    WITH followed AS (
        DELETE FROM memory_agent.grants g
         USING pg_roles r
         WHERE g.role_oid = r.oid AND g.role_name <> r.rolname
           AND g.cluster_id = (SELECT system_identifier FROM pg_control_system())
     RETURNING r.rolname, g.level, g.granted_at, g.role_oid, g.cluster_id)
    INSERT INTO memory_agent.grants (role_name, level, granted_at, role_oid, cluster_id)
    -- Sorted, so that all have gone before the first comes back: two roles may have swapped their names.
    SELECT * FROM followed ORDER BY rolname
        ON CONFLICT (role_name) DO UPDATE
       SET level = excluded.level, granted_at = excluded.granted_at,
           role_oid = excluded.role_oid, cluster_id = excluded.cluster_id
$$;

COMMENT ON FUNCTION memory_agent.follow_roles() IS
    'Writes the names that renamed roles have now into memory_agent.grants.';

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
        WHEN 'reader'  THEN ARRAY['reader']
        WHEN 'user'    THEN ARRAY['reader', 'user']
        WHEN 'gateway' THEN ARRAY['reader', 'user', 'gateway']
        WHEN 'admin'   THEN ARRAY['reader', 'user', 'gateway', 'admin']
    END;
    IF allowed IS NULL THEN
        RAISE EXCEPTION 'unknown level "%"', coalesce(memory_grant.level, 'NULL')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Levels are reader, user, gateway and admin.';
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
    IF 'user' = ANY (allowed) THEN
        EXECUTE format('GRANT SELECT ON %I.memory_traces TO %s',
                       memory_agent.public_schema(), memory_grant.role);
    END IF;
    IF memory_grant.level = 'admin' THEN
        EXECUTE format('GRANT SELECT ON memory_agent.attachments, memory_agent.grants, '
                       '%1$I.memory_changes, %1$I.memory_llm_calls TO %2$s',
                       memory_agent.public_schema(), memory_grant.role);
    END IF;
    PERFORM memory_agent.follow_roles();
    INSERT INTO memory_agent.grants (role_name, level, role_oid, cluster_id)
    SELECT r.rolname, memory_grant.level, r.oid, c.system_identifier
      FROM pg_roles r, pg_control_system() c WHERE r.oid = memory_grant.role
        ON CONFLICT (role_name) DO UPDATE
       SET level = excluded.level, granted_at = now(),
           role_oid = excluded.role_oid, cluster_id = excluded.cluster_id;
END
$$;

CREATE OR REPLACE FUNCTION memory_revoke(role regrole) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    had_level boolean;
BEGIN
    PERFORM memory_agent.require_owner();
    PERFORM memory_agent.require_role(memory_revoke.role);
    PERFORM memory_agent.revoke_all(memory_revoke.role);
    PERFORM memory_agent.follow_roles();
    DELETE FROM memory_agent.grants g
     WHERE g.role_name = (SELECT rolname FROM pg_roles WHERE oid = memory_revoke.role);
    had_level := FOUND;
    RETURN had_level;
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

-- === Tokens, and turns that are stored once ===

CREATE TABLE memory_agent.tokens (
    user_id    text NOT NULL,
    name       text NOT NULL,
    hash       bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    for_users  boolean NOT NULL DEFAULT false,
    PRIMARY KEY (user_id, name)
);

CREATE TABLE memory_agent.spending (
    token_hash bytea NOT NULL,
    day        date NOT NULL,
    tokens     bigint NOT NULL,
    reserved   bigint NOT NULL,
    PRIMARY KEY (token_hash)
);

CREATE INDEX tokens_hash_idx ON memory_agent.tokens (hash);
CREATE INDEX spending_day_idx ON memory_agent.spending (day);

ALTER TABLE memory_agent.tokens ENABLE ROW LEVEL SECURITY;
CREATE POLICY visible ON memory_agent.tokens FOR SELECT
    USING (user_id OPERATOR(pg_catalog.=) ANY ((SELECT memory_agent.visible_users())::pg_catalog.text[]));
SELECT pg_catalog.pg_extension_config_dump('memory_agent.tokens', '');
ALTER TABLE memory_agent.spending ENABLE ROW LEVEL SECURITY;
SELECT pg_catalog.pg_extension_config_dump('memory_agent.spending', '');

CREATE FUNCTION memory_create_token(user_id text, name text, expires timestamptz DEFAULT NULL,
                                    for_users boolean DEFAULT false)
    RETURNS text LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_create_token_wrapper';

CREATE FUNCTION memory_revoke_token(user_id text, name text)
    RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_revoke_token_wrapper';

CREATE FUNCTION memory_list_tokens()
    RETURNS TABLE (user_id text, name text, created_at timestamptz, expires_at timestamptz,
                   spent_today bigint, for_users boolean)
    LANGUAGE c STABLE PARALLEL UNSAFE ROWS 10
    AS 'MODULE_PATHNAME', 'memory_list_tokens_wrapper';

CREATE FUNCTION memory_token_user(token_hash bytea)
    RETURNS TABLE (user_id text, for_users boolean)
    LANGUAGE c STABLE PARALLEL UNSAFE ROWS 1
    AS 'MODULE_PATHNAME', 'memory_token_user_wrapper';

CREATE FUNCTION memory_spend(token_hash bytea, tokens bigint, at_most bigint DEFAULT NULL,
                             reserved bigint DEFAULT NULL)
    RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_spend_wrapper';

CREATE FUNCTION memory_spent_today()
    RETURNS bigint LANGUAGE c STABLE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_spent_today_wrapper';

CREATE FUNCTION memory_ingest_once(
    session_id text, role text, content text, request_key text DEFAULT NULL, user_id text DEFAULT NULL,
    agent_id text DEFAULT NULL, metadata jsonb DEFAULT '{}', history jsonb DEFAULT NULL,
    replaces uuid[] DEFAULT NULL)
    RETURNS TABLE (id uuid, is_new boolean, replaced uuid[], answers uuid[])
    LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1
    AS 'MODULE_PATHNAME', 'memory_ingest_once_wrapper';

CREATE OR REPLACE FUNCTION memory_agent.function_levels() RETURNS TABLE (function_name name, level text)
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
    AS $$
    VALUES ('memory_recall'::name, 'reader'), ('memory_explain', 'reader'),
           ('memory_context', 'reader'), ('memory_augment', 'reader'), ('memory_augment_block', 'reader'),
           ('memory_embed', 'reader'), ('memory_rerank', 'reader'), ('memory_count_tokens', 'reader'),
           ('memory_archive', 'user'), ('memory_list', 'reader'), ('memory_recall_times', 'reader'), ('memory_state', 'reader'), ('memory_list_documents', 'reader'), ('memory_search_archive', 'reader'),
           ('memory_load', 'reader'), ('memory_originals', 'reader'),
           ('memory_export_markdown', 'reader'), ('memory_export_json', 'reader'),
           ('memory_history', 'reader'), ('memory_verify_history', 'reader'),
           ('memory_status', 'reader'), ('memory_stats', 'reader'), ('memory_usage', 'reader'), ('visible_users', 'reader'),

           ('memory_ingest', 'user'), ('memory_ingest_batch', 'user'), ('memory_add', 'user'),
           ('memory_add_document', 'user'), ('memory_import_markdown', 'user'), ('memory_import_json', 'user'),
           ('memory_chat', 'user'), ('memory_summarize', 'user'),
           ('memory_close_episode', 'user'), ('memory_compress', 'user'),
           ('memory_reserve_tokens', 'user'), ('memory_configure', 'user'),
           ('memory_wait', 'user'), ('memory_retry', 'user'), ('memory_backfill', 'user'),
           ('memory_update', 'user'), ('memory_forget', 'user'), ('memory_restore', 'user'),
           ('memory_clear', 'user'), ('memory_erase', 'user'),
           ('memory_ingest_once', 'user'),

           ('memory_token_user', 'gateway'), ('memory_spend', 'gateway'),

           ('memory_register_model', 'admin'), ('memory_use_embedding_model', 'admin'),
           ('memory_create_vector_index', 'admin'),
           ('memory_attach', 'admin'), ('memory_detach', 'admin'), ('attached_rows', 'admin'),
           ('memory_create_token', 'admin'), ('memory_revoke_token', 'admin'), ('memory_list_tokens', 'admin'),
           ('memory_spent_today', 'admin'),
           ('memory_use_endpoint', 'admin'), ('memory_list_endpoints', 'admin'),
           ('memory_set_quota', 'admin'), ('memory_list_quotas', 'admin')
$$;

COMMENT ON TABLE memory_agent.spending IS 'Tokens of language models that each caller of the gateway has spent on its latest day, written by memory_spend.';
COMMENT ON TABLE memory_agent.tokens IS 'Tokens of users for the gateway: only their SHA-256, written by memory_create_token.';
COMMENT ON FUNCTION memory_create_token(text, text, timestamptz, boolean) IS
    'Makes a token with which a client of the gateway acts for a user, and returns it, this once; only for administrators. With for_users the client, a service, may name any user in a request. Errors: 22023, 42501, 42710. See docs/reference.md.';
COMMENT ON FUNCTION memory_revoke_token(text, text) IS
    'Revokes a token of a user and returns whether there was one of this name. Only administrators may call it. See docs/reference.md.';
COMMENT ON FUNCTION memory_list_tokens() IS
    'Lists the tokens of all users, without their secrets; only for administrators. spent_today is what was spent with each since midnight UTC, and for_users whether it may name any user. See docs/reference.md.';
COMMENT ON FUNCTION memory_token_user(bytea) IS
    'Returns the user of the token with this SHA-256, and whether it may name any other user; no row if the token is unknown or has expired. The caller needs the level gateway. Errors: 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_spent_today() IS
    'Returns the tokens of language models that all callers of the gateway have spent since midnight UTC, also without a token. Only administrators may call it. See docs/reference.md.';
COMMENT ON FUNCTION memory_spend(bytea, bigint, bigint, bigint) IS
    'Adds tokens of a language model to what the caller with this SHA-256 has spent today (UTC) and returns the sum; needs the level gateway. at_most reserves tokens before a call, and returns NULL once this much is spent; reserved counts tokens after it, in the place of so many reserved ones. Errors: 22023, 25006, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_ingest_once(text, text, text, text, text, text, jsonb, jsonb, uuid[]) IS
    'Stores a turn that a client may send again, unless it is stored already, and returns id, is_new, replaced and answers. request_key and content tell whether it is stored; history is a jsonb array of the messages before it, and replaces lists the answers that a new answer supersedes. Errors: 22023. See docs/reference.md.';

-- === Comments ===

COMMENT ON TABLE memory_agent.agents IS 'Settings that memory_configure stored for all sessions of an agent; user * stands for all users.';
COMMENT ON TABLE memory_agent.entry_windows IS 'Further windows of entries that are longer than their embedding model reads at once; during a change of the model also the new model''s embeddings of all entries.';
COMMENT ON TABLE memory_agent.models IS 'Models registered in this database. If none of a kind is active, the settings name the model.';
COMMENT ON COLUMN memory_agent.sessions.unsummarized_tokens IS 'Tokens of turns that were stored since the session was last summarised.';
COMMENT ON COLUMN memory_agent.sessions.content_type IS 'Kind of summaries: conversation, journal or document; NULL is that of the agent, else conversation.';
COMMENT ON COLUMN memory_agent.entries.embedding IS 'Embedding of the text with its speaker''s name; the first window of a long text.';
COMMENT ON COLUMN memory_agent.entries.lexemes IS 'Words of the text with its speaker''s name.';
COMMENT ON COLUMN memory_agent.entries.doc_len IS 'Number of words in lexemes, including repetitions: the document length of BM25.';
COMMENT ON COLUMN memory_agent.entries.valid_to IS 'Event time at which it stopped being true; NULL while it is true.';
COMMENT ON COLUMN memory_agent.entries.extracted_at IS 'When facts were extracted from it. NULL while a turn waits for extraction; infinity while it waits for the end of its episode, or, said by an assistant, for the extraction of what was decided; -infinity for a turn without extraction.';
COMMENT ON COLUMN memory_agent.archives.summary_id IS 'The L3 with which a conversation was last archived: an L3 made from it replaces it in the archive.';
COMMENT ON COLUMN memory_agent.archives.doc_type IS 'conversation for archived conversations, any other value for documents.';
COMMENT ON COLUMN memory_agent.jobs.payload IS 'Input and progress of the job. Emptied when it is done.';
COMMENT ON COLUMN memory_agent.jobs.attempts IS 'Failures of the job itself. An outage of the LLM or the models does not count.';
COMMENT ON COLUMN memory_agent.jobs.interrupted IS 'How often its worker died or was stopped while the job ran.';
COMMENT ON COLUMN memory_agent.jobs.leased_by IS 'The worker that claimed it last; NULL for a job that no worker has claimed.';
COMMENT ON COLUMN memory_agent.jobs.leased_until IS 'Until then the job belongs to its worker; after that, any worker may claim it.';
COMMENT ON COLUMN memory_agent.jobs.last_error IS 'The last failure, even if it did not count.';
COMMENT ON COLUMN memory_agent.llm_calls.status IS 'ok, or what went wrong: http 429, timeout, connection, bad answer, ...; abandoned: the answer was not read, and prompt_tokens is an estimate.';
COMMENT ON COLUMN memory_agent.history.salt IS 'Random, so that an erased body cannot be guessed from the commitment.';
COMMENT ON COLUMN memory_agent.history.hash IS 'Hash of the chain up to this row; NULL until the row is sealed.';
COMMENT ON FUNCTION memory_ingest(text,text,text,text,text,jsonb,text[],timestamptz,interval) IS
    'Stores one message of a conversation and returns its id. role is user, assistant, system, tool or memory; metadata is an object whose key name is the speaker, created_at is when it was said (default: now), and ttl is the time until it expires. Errors: 22023, 23514, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_ingest_batch(jsonb,text,text,text) IS
    'Stores many messages in one statement, all of them or none, and returns their ids in the order given. turns is a jsonb array of objects with role, content and, as in memory_ingest, session_id, metadata, markers, created_at and ttl; session_id is for turns that name none. See docs/reference.md.';
COMMENT ON FUNCTION memory_add(text,text,text,text,jsonb,text[],timestamptz,interval,boolean,text) IS
    'Stores a statement as a fact and returns its id, or the id of an existing fact that says the same. infer => true keeps the text as a source from which an LLM extracts facts, and returns the id of the source, while false stores the text itself; fact_key supersedes the fact with the same key in the same scope. Errors: 22023, 55000. See docs/reference.md.';
COMMENT ON FUNCTION memory_close_episode(text,text,text,text) IS
    'Closes the open episode of a session and returns its id, or NULL if none is open. reason is free text (default: manual). See docs/reference.md.';
COMMENT ON FUNCTION memory_recall(text,text,text,text,bigint,bigint,text[],jsonb,timestamptz,double precision,double precision,double precision,boolean,vector,text[]) IS
    'Returns the memories that answer a query, best first, with their scores, and never writes. session_id NULL means all sessions of the user; top_k is the number of rows, token_budget the tokens that they never exceed together, as_of the time at which the rows were true, and filter a jsonb object. Errors: 22023, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_explain(text,text,text,text,bigint,bigint,text[],jsonb,timestamptz,double precision,double precision,double precision,boolean,vector,text[]) IS
    'Runs the same recall as memory_recall and returns it as one jsonb document: mode, milliseconds of each step, sizes of the pools, and for every candidate all parts of its score and the step that dropped it. The arguments are those of memory_recall. See docs/reference.md.';
COMMENT ON FUNCTION memory_stats(text,text,text) IS
    'Returns counts of a session, or of all sessions of a user, as jsonb: turns, facts, unverified facts, documents, tokens, episodes, markers, summaries. See docs/reference.md.';
COMMENT ON FUNCTION memory_context(text,text,bigint,text,text) IS
    'Returns the contents of the next prompt as jsonb {messages, summary, memories, cross_session, left_out, token_count}: a summary, memories, the newest turns, and query as the current message. messages never exceeds token_budget (tokens, default 2000), nor what memory_agent.context_limit leaves beside the answer. Errors: 22023. See docs/reference.md.';
COMMENT ON FUNCTION memory_augment(jsonb,text,text,text,bigint,double precision,double precision) IS
    'Returns messages for an LLM with memories put before the user''s last message: {messages, memory_hits, left_out}. messages is a jsonb array in OpenAI''s format, or the body of a request with one; session_id is the conversation (default: default), and top_k the number of memories (0: messages unchanged). Errors: 22023, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_augment(jsonb,bigint,text,text,bigint,double precision,double precision,text) IS
    'Does what memory_augment does, within a budget. token_budget is the most tokens of all messages, memories included (NULL: what memory_agent.context_limit leaves beside the answer). Errors: 22023. See docs/reference.md.';
COMMENT ON FUNCTION memory_augment_block(jsonb,text,text,text,bigint,double precision,double precision) IS
    'Returns what memory_augment puts into the messages, alone: {block, has_summary, memory_hits, left_out}. The arguments are those of memory_augment; block is the text to put before what the user typed. Errors: 22023, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_chat(jsonb,text,text,text,bigint,double precision,double precision,text,text,double precision,bigint,boolean) IS
    'Sends the messages with memories to the LLM, waits for it, stores the user''s last message and the answer as turns, and returns an OpenAI chat completion with memory_hits, or {error, memory_hits} if the LLM fails. The arguments are those of memory_augment; max_tokens limits the answer, and store => false stores nothing. Errors: 0A000, 22023, 23514, 25006, 40001, 42501, 55000. See docs/reference.md.';
COMMENT ON FUNCTION memory_chat(jsonb,bigint,text,text,bigint,double precision,double precision,text,text,double precision,bigint,boolean,text) IS
    'Does what memory_chat does, within a budget. token_budget is the most tokens of all messages, as in memory_augment. See docs/reference.md.';
COMMENT ON FUNCTION memory_add_document(text,text,text,text,text,text,jsonb) IS
    'Stores a document, cut into chunks that memory_recall returns, and returns its id, or the id of the document with the same text in the same scope. title has at most 1000 bytes, doc_type is any value except conversation, and metadata is an object that every chunk also gets. Errors: 22023, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_recall_times() IS
    'Returns how long the parts of this transaction''s last recall took, in milliseconds: embed the question, search, rerank, rank. Without a recall it returns no row. Errors: 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_state(jsonb,text,text,text) IS
    'Returns a text that changes when what a prompt tells no longer holds, for programs that send a prompt again. memories is memory_hits of memory_augment or memories of memory_context (NULL: no memories), session_id the session whose summary the prompt tells. Errors: 22023, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_list(text,text,bigint,timestamptz,uuid,boolean,uuid,uuid,boolean,text,text) IS
    'Returns a page of the user''s and shared entries, newest first, with the columns of the view memory_entries. limit is the number of rows (at most 1000), from_at and from_id are created_at and id of the entry after which the page begins, and id, source_id, kind, session_id and agent_id select entries. Errors: 22023, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_list_documents(text,bigint,text) IS
    'Lists documents and archived conversations, the user''s and shared ones, the most recently changed first. doc_type selects a type, and limit is the number of rows (default 10, at most 1000). See docs/reference.md.';
COMMENT ON FUNCTION memory_archive(text,text,text) IS
    'Archives the conversation of a session, without an LLM, and returns the id of the archive, or NULL if the session has no turns. memory_search_archive finds it, and so do prompts of other sessions that ask for an earlier conversation. Errors: 22023, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_search_archive(text,bigint,text,text,text,text) IS
    'Returns the archived conversations of the user that answer a query, best first, and never writes. top_k is the number of rows (default 5, at most 1000), exclude_session a session to leave out, and doc_type conversation, a type of documents, or NULL for the whole knowledge base. Errors: 22023, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_search_archive(text,double precision,text,text,text,text) IS
    'Does what memory_search_archive does, with the name that top_k had in 0.2.0: "limit". See docs/reference.md.';
COMMENT ON FUNCTION memory_embed(text,text) IS
    'Returns the embedding of a text by the active embedding model. purpose is query (default) or document; some models embed questions differently. Errors: 58000. See docs/reference.md.';
COMMENT ON FUNCTION memory_embed(text[],text) IS
    'Returns the embeddings of several texts, in their order. See docs/reference.md.';
COMMENT ON FUNCTION memory_rerank(text,text[]) IS
    'Returns the cross-encoder''s logits of documents for a query, in the order of the documents. A logit is unbounded, and higher is better. Errors: 58000. See docs/reference.md.';
COMMENT ON FUNCTION memory_count_tokens(text,text) IS
    'Returns the number of tokens of a text in an encoding, cl100k_base or o200k_base. Errors: 22023, 58000. See docs/reference.md.';
COMMENT ON FUNCTION memory_count_tokens(text) IS
    'Returns the number of cl100k_base tokens of a text. Errors: 58000. See docs/reference.md.';
COMMENT ON FUNCTION memory_register_model(text,text,text,boolean) IS
    'Loads, checks and registers a model, and returns its properties. kind is embedder or reranker, location its folder (superusers only; default: its folder in memory_agent.model_dir), and activate whether to use it from now on. Errors: 22023, 42501, 42710, 42809, 55000, 58000. See docs/reference.md.';
COMMENT ON FUNCTION memory_create_vector_index(text) IS
    'Builds an approximate index over the embeddings of the active model and returns its name; writers wait until it is built. method is hnsw (default) or ivfflat. Errors: 22023, 42501, 42710. See docs/reference.md.';
COMMENT ON FUNCTION memory_use_embedding_model(text) IS
    'Changes the embedding model of this database while memory is in use, and returns the job that does it. name is a registered embedder or a folder in memory_agent.model_dir; the name of the model in use cancels the change. Errors: 42501, 42809, 58000. See docs/reference.md.';
COMMENT ON FUNCTION memory_status() IS
    'Shows what runs and what does not: one row per component, with a hint if it needs attention. It shows counts only, never content. See docs/reference.md.';
COMMENT ON FUNCTION memory_wait(interval,text,text) IS
    'Waits until no job of the user, or of one session, is waiting or running, and returns whether that happened within timeout. timeout defaults to 30 seconds, and 0 checks once; for an administrator who names neither user nor session, all jobs count. Errors: 22023, 25001, 55000. See docs/reference.md.';
COMMENT ON FUNCTION memory_wait(double precision,text,text) IS
    'Does what memory_wait does, with a timeout in seconds. See docs/reference.md.';
COMMENT ON FUNCTION memory_wait(text,text,text) IS
    'Does what memory_wait does, with a timeout that is written as an interval, such as 2 minutes. See docs/reference.md.';
COMMENT ON FUNCTION memory_retry(uuid,text) IS
    'Runs a dead job again, from its first attempt, and returns whether there was one. job_id comes from the view memory_jobs. Errors: 22004, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_compress(text,text,text) IS
    'Queues the compression of a session''s window and returns the job''s id, or NULL if there is nothing to compress. All turns except the newest memory_agent.recent_messages_to_keep are summarised and leave the window; they stay in recall. Errors: 22023, 42501, 55000. See docs/reference.md.';
COMMENT ON FUNCTION memory_originals(uuid,text) IS
    'Returns the turns behind a summary, oldest first, including those behind the summaries that were merged into it. summary_id comes from the view memory_session_summaries; an unknown id returns no rows. Errors: 22004, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_export_markdown(text,text,text) IS
    'Returns the memories of a session as Markdown files with YAML front matter, in rows of path and content, and never writes. session_id NULL or global means the user''s global memory, of all agents unless agent_id names one. Errors: 22023, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_import_markdown(text,text,text) IS
    'Stores the memory in a Markdown file and returns its id; a memory that is stored with another content is updated, as by memory_update. content is front matter between two lines ---, then the text, and path gives what the front matter leaves out. Errors: 22023, 23505, 42501, 42809, 55000. See docs/reference.md.';
COMMENT ON FUNCTION memory_export_json(text,text) IS
    'Returns everything of a user as JSON objects, one in each row, in the order in which memory_import_json stores them; it never writes. agent_id selects one agent (default: all). Errors: 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_import_json(jsonb,text) IS
    'Stores one object of memory_export_json and returns its id, or NULL for settings. A memory is stored, or updated, as by memory_import_markdown; other objects are added to what exists. Errors: 22023, 23505, 42501, 42809, 55000. See docs/reference.md.';
COMMENT ON FUNCTION memory_grant(regrole,text) IS
    'Grants a role a level; only for the extension''s owner. level is reader (recall), user (also store), gateway (also look up tokens and count spending) or admin (also name any user, register models). Errors: 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_revoke(regrole) IS
    'Revokes a role''s level and returns whether it had one. Only the extension''s owner may call it. Errors: 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_agent.visible_users() IS
    'The identity of this session and the shared user ''*'': the users whose rows row-level security shows.';
COMMENT ON FUNCTION memory_agent.revoke_all(regrole) IS
    'Revokes every privilege on the extension''s objects from a role.';
COMMENT ON COLUMN memory_agent.session_summaries.previous_id IS 'The L3 whose content was merged into this one.';
COMMENT ON COLUMN memory_agent.episodes.status IS 'open while turns are added to it, closed when it has ended, reflected when facts were extracted from it or its turns wait for that.';
COMMENT ON COLUMN memory_agent.episodes.carried_into IS 'For a short episode: the later episode with whose turns its own were extracted from.';
COMMENT ON COLUMN memory_agent.traces.episode_id IS 'The episode; the last one if short episodes were carried into it.';
COMMENT ON COLUMN memory_agent.traces.body IS 'mode, episodes, input_turn_count, input_turns, prior_fact_count, prior_facts (the newest), scoped_facts (those that the LLM was shown), raw_output, actions, dropped, saved_facts, superseded_facts, rounds, elapsed_ms.';
COMMENT ON COLUMN memory_agent.traces.body IS 'mode, episodes, input_turn_count, input_turns, prior_fact_count, prior_facts (the newest), scoped_facts (those that new ones were compared with), raw_output, saved_facts, superseded_facts, rounds, elapsed_ms.';
COMMENT ON COLUMN memory_agent.episodes.wants_reflection IS 'Whether facts are to be extracted from the episode when it ends.';
COMMENT ON FUNCTION memory_load(text,text,text) IS
    'Returns the window of a session as it goes into a prompt: the summary as a row of role system, if there is one, then the turns that have not left the window, oldest first. token_count is the number of cl100k_base tokens of the content. Errors: 22023, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_clear(text,text,text) IS
    'Forgets a session and returns the number of its turns: turns, facts and summaries become inactive, its episode ends, and its jobs are cancelled. The rows stay for audit and as_of. Errors: 22023, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_configure(text,text,jsonb,text,text) IS
    'Stores settings of a session, or without session_id of all sessions of an agent, and returns those in effect: {agent_id, session_id, content_type, settings, stored}. settings is an object of names, added to what is stored (null removes one); content_type is conversation, journal or document, for summaries. Errors: 22023, 42501, 42704. See docs/reference.md.';
COMMENT ON FUNCTION memory_backfill(timestamptz,text,boolean) IS
    'Queues facts and summaries of turns that were stored while there was no LLM or extraction was off, and returns the number of turns. since selects turns that were said from then on, and all_users is for administrators. Errors: 22023, 42501, 55000. See docs/reference.md.';
COMMENT ON FUNCTION memory_summarize(text,bigint,text) IS
    'Has the LLM condense a text, waits for it, and returns {summary, token_count, model, created_at, text_sha256, key_id, signature}. max_tokens is the most cl100k_base tokens of the summary (16 to 100000), and content_type conversation, journal or document. Errors: 22023, 25006, 42501, 55000, 58000, F0000. See docs/reference.md.';
COMMENT ON FUNCTION memory_reserve_tokens(text,bigint,boolean,text,text) IS
    'Takes the oldest turns out of the window of a session until it has at most budget tokens, and returns the tokens before and after, and how many turns left with (summarized) and without a summary (dropped). budget defaults to 95 % of memory_agent.context_limit; summarize asks the LLM for the missing summary and waits for it. Errors: 22023, 25006, 42501, 55000. See docs/reference.md.';
COMMENT ON FUNCTION memory_verify_history(text,bigint,bytea) IS
    'Verifies the hash chain of a user''s history, and returns one row with its state and head, then a row for each problem; it never writes. user_id defaults to the caller, for administrators to all users; seq and hash are a head that was kept elsewhere, which must be in the chain. Errors: 22023, 42501, F0000. See docs/reference.md.';
COMMENT ON FUNCTION memory_erase(text,text,uuid,text,text,boolean) IS
    'Erases memory for good and returns how many rows of each table lost their content. Name id (an entry with its versions, or a document), or session_id (global only with confirm_global), or user_id alone for everything of that user; reason has at most 1000 bytes. Errors: 22023, 25001, 25006, 42501, 42809. See docs/reference.md.';
COMMENT ON FUNCTION memory_recall(text,bigint,text,text,bigint,bigint,text[],jsonb,timestamptz,double precision,double precision,double precision,boolean,vector,text[],text) IS
    'Does what memory_recall does, but the cross-encoder reads rerank_rows of the most promising rows instead of memory_agent.rerank_rows. rerank_rows is 0 to 100, and 0 means none. Errors: 22023, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_explain(text,bigint,text,text,bigint,bigint,text[],jsonb,timestamptz,double precision,double precision,double precision,boolean,vector,text[],text) IS
    'Does what memory_explain does, with rerank_rows as in memory_recall. See docs/reference.md.';
COMMENT ON FUNCTION memory_load(text,bigint,text,text) IS
    'Does what memory_load does, within a budget: the summary has at most a quarter of it, and then come the newest turns without gaps. token_budget is the most tokens of all rows, with four more for each (NULL: 95 % of memory_agent.context_limit). See docs/reference.md.';
COMMENT ON FUNCTION memory_clear(text,boolean,text,text) IS
    'Does what memory_clear does, also for global, the user''s global memory. With confirm_global, its turns, facts and summaries of the agent become inactive. See docs/reference.md.';
COMMENT ON COLUMN memory_agent.entries.session_id IS 'NULL is the user''s global memory, which the conversation called global is part of.';
COMMENT ON FUNCTION memory_agent.history_is_open() IS
    'Whether this session now runs a statement of the extension that may change history: one that seals rows or erases bodies.';
COMMENT ON COLUMN memory_agent.history.erased_by IS 'The row of op erase that removed body, salt and reason.';
COMMENT ON FUNCTION memory_attach(regclass,text,text,text,text,text[],text,text,boolean,text,text,text,boolean,text,text,text,jsonb,text[]) IS
    'Makes the rows of a table memory, by triggers, and returns the job that takes in the existing rows, or NULL with backfill => false. content_column is the text; other arguments name the columns or fixed values of user, session, role, time and metadata, and condition selects rows. Errors: 0A000, 22004, 22023, 42501, 42703, 42710, 42804, 55000. See docs/reference.md.';
COMMENT ON FUNCTION memory_detach(text,boolean) IS
    'Ends the attachment of a table and returns the number of entries that ended. relation is the table, or the name of a dropped one; forget also ends the entries of its rows, which otherwise stay. Errors: 42501, 42704. See docs/reference.md.';
COMMENT ON FUNCTION memory_agent.attached_rows() IS
    'The trigger function of attached tables. Only memory_attach creates its triggers.';
COMMENT ON COLUMN memory_agent.attachments.user_id IS 'The user of every row; NULL if a column or the writer of the row decides.';
COMMENT ON COLUMN memory_agent.attachments.relation_oid IS 'The table; out of date after a dump and restore, when the names apply.';
COMMENT ON COLUMN memory_agent.attachments.column_numbers IS 'The numbers of the columns for content, user, session, time, role, metadata, more content and the condition, 0 for none: they stay valid when a column is renamed.';
COMMENT ON COLUMN memory_agent.attachments.extract_facts IS 'Whether an LLM extracts facts from rows of role user.';
COMMENT ON COLUMN memory_agent.attachments.condition IS 'The condition under which rows are remembered, as PostgreSQL prints it; NULL for all rows.';
COMMENT ON COLUMN memory_agent.attachments.condition_names IS 'The names that columns have in the condition.';
COMMENT ON COLUMN memory_agent.attachments.condition_columns IS 'The names that these columns have now.';
COMMENT ON COLUMN memory_agent.attachments.more_content_columns IS 'Columns whose texts follow that of content_column.';
COMMENT ON COLUMN memory_agent.attachments.content_path IS 'Where the text stands in a content that is JSON.';
COMMENT ON COLUMN memory_agent.attachments.role_path IS 'Where the role stands in the JSON of role_column, or else of content_column.';
COMMENT ON COLUMN memory_agent.attachments.role_map IS 'The roles that those of the table stand for; null for rows that are not remembered.';
COMMENT ON FUNCTION memory_update(uuid,text,text) IS
    'Gives a turn, a fact or a document a new text and returns the id of the new version; a document keeps its id. Recall with an earlier as_of still finds the old text; content has 1 byte to memory_agent.max_content_bytes. Errors: 22004, 22023, 23505, 25006, 42501, 42704, 42809, 55000. See docs/reference.md.';
COMMENT ON FUNCTION memory_forget(uuid,text,text) IS
    'Forgets a turn, a fact, a document or a chunk of one, so that recall no longer returns it, and returns whether there was something to forget. reason, at most 1000 bytes, is kept in history. Errors: 22004, 22023, 25006, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_restore(uuid,text) IS
    'Restores an entry that was forgotten, cleared, replaced or expired, or that left the window, and returns whether there was something to restore. It also makes a memory of an unverified fact. Errors: 22004, 25006, 42501, 55000. See docs/reference.md.';
COMMENT ON FUNCTION memory_history(uuid,text) IS
    'Returns what happened to an entry and all its versions, to a document or to a summary, oldest first. op is what happened, actor the SQL role, content and entry are the text and the row after it (NULL once erased), and seq is the number in the user''s chain. Errors: 22004, 42501. See docs/reference.md.';

-- === Last: owner and privileges of what is new ===

-- New objects belong to the owner of the old ones, whichever role ran the update, and only that owner keeps
-- privileges: what PostgreSQL gives to PUBLIC, or the database's default privileges give to any role, is
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
