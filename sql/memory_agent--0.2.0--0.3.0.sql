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

COMMENT ON TABLE memory_agent.endpoints IS 'LLM endpoints that memory_set_endpoint wrote. Keys are not here: key_name is a file of memory_agent.llm_key_dir.';
COMMENT ON COLUMN memory_agent.endpoints.enabled_in IS 'The cluster, the database and the installation of the extension in which the owner wrote or enabled the endpoint. In a copy of the database and after a restore it is off.';
COMMENT ON TABLE memory_agent.endpoint_uses IS 'The LLM endpoint of each agent; an empty agent_id stands for all agents without one of their own.';
COMMENT ON TABLE memory_agent.llm_probes IS 'The number of right answers that each LLM gave in a probe: of 16 choices (probe choices), on which it depends how many facts one call compares and whether replacements are doubted, or of 8 messages (probe statements), on which memory_agent.statement_check = auto depends. A row counts until valid_until; after that, the worker asks the LLM again. pg_dump does not include the rows.';
COMMENT ON COLUMN memory_agent.llm_calls.endpoint IS 'The row of memory_agent.endpoints that was called; NULL for the endpoint of the settings.';
COMMENT ON FUNCTION memory_set_endpoint(text,text,text,text,text,text,bigint,bigint) IS
    'Writes an LLM endpoint, or changes the one of this name, and enables it in this database. Only for the owner of the extension. name, key_name: letters, digits, ".", "_" and "-", at most 63. base_url: http or https, the host in lower case, without user, query and fragment, for example https://api.openai.com/v1. model: at most 200 bytes. provider: openai (and compatible), azure or anthropic. key_name: a file in the folder of memory_agent.llm_key_dir that is named like the host of base_url (with its port where it names one); the file''s first line is the key; NULL sends none. api_version: empty for the provider''s usual one. calls_per_minute: of all databases together; 0 is no limit. daily_tokens: tokens of this database per day in UTC, after which the endpoint is not called; 0 is no limit. Errors: 22023, 42501.';
COMMENT ON FUNCTION memory_enable_endpoint(text) IS
    'Enables an endpoint that came with a restored dump or a copied database; false if there is none of this name. Only for the owner of the extension. Errors: 22023, 42501.';
COMMENT ON FUNCTION memory_drop_endpoint(text) IS
    'Deletes an endpoint; false if there is none of this name. Only for the owner of the extension. Errors: 55000 while agents use it, 22023, 42501.';
COMMENT ON FUNCTION memory_use_endpoint(text,text) IS
    'Chooses the LLM endpoint of an agent, for statements and background work. name: one of memory_list_endpoints(); NULL removes the choice: the agent then uses the endpoint chosen for all agents, else that of the settings. agent_id: 1 to 512 bytes; NULL for all agents without an endpoint of their own. Errors: 42704 for a name that does not exist, 22023, 42501.';
COMMENT ON FUNCTION memory_list_endpoints() IS
    'The LLM endpoints of this database, by name. is_enabled: false for one that came with a copy, until the owner calls memory_enable_endpoint. agents: those that use it; an empty name stands for all agents without one of their own. calls_per_minute, daily_tokens: limits, 0 for none. tokens_today: used since midnight UTC. Errors: 42501.';

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
COMMENT ON TABLE memory_agent.quota_counts IS 'What users with a quota of entries or bytes had when it was counted. A sweep deletes counts that newer ones replace. pg_dump does not include the rows.';
COMMENT ON COLUMN memory_agent.quota_counts.id IS 'Entries with greater ids were stored after the count.';
COMMENT ON FUNCTION memory_set_quota(text,bigint,bigint,bigint) IS
    'Sets the quota of a user, in place of the one before; user_id ''*'': of all users without one of their own. entries: entries of memory that hold (turns, facts, chunks of documents, rows of attached tables). bytes: of their contents. daily_tokens: tokens of LLMs per day in UTC, for statements and background work of the user. NULL: as for all users; 0: no limit; all three NULL delete the quota. A user who has more keeps it and cannot add to it (53400). Errors: 22023, 42501.';
COMMENT ON FUNCTION memory_list_quotas() IS
    'The quotas as memory_set_quota wrote them, by user; user_id ''*'' stands for all users without one of their own. NULL: as for all users; 0: no limit. Errors: 42501.';
COMMENT ON FUNCTION memory_usage(text) IS
    'What a user has, beside the quota: a row for entries, for bytes of their contents, and for daily_tokens, the tokens of LLMs since midnight UTC. user_id: default the caller. quota: NULL is no limit. Errors: 22023, 42501.';

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
    'Makes a token with which a client of the gateway acts for a user, and returns it; it is shown this once. for_users: with it the client, a service, may name any user in a request; where it names none, it acts for user_id. Errors: 42710 if the user has a token of this name, 22023, 42501 except for administrators.';
COMMENT ON FUNCTION memory_revoke_token(text, text) IS
    'Revokes a token of a user; false if there is none of this name. Only for administrators.';
COMMENT ON FUNCTION memory_list_tokens() IS
    'The tokens of all users, without their secrets. spent_today: what was spent with each since midnight UTC (memory_spend). for_users: whether it may name any user. Only for administrators.';
COMMENT ON FUNCTION memory_token_user(bytea) IS
    'The user of the token with this SHA-256, and whether it may name any other user; no row if there is none or it has expired. Needs the level gateway. Errors: 42501.';
COMMENT ON FUNCTION memory_spent_today() IS
    'Tokens of language models that all callers of the gateway have spent since midnight UTC (memory_spend), including callers without a token. Only for administrators.';
COMMENT ON FUNCTION memory_spend(bytea, bigint, bigint, bigint) IS
    'Adds tokens of a language model to what the caller with this SHA-256 has spent today (UTC), and returns the sum. at_most: tokens is a guess before a call and is reserved; add nothing and return NULL once this much is spent. reserved: tokens is what the call took, in the place of so many reserved tokens; never more is taken back than is reserved. The spending of callers that did not come for a week is forgotten. Needs the level gateway. Errors: 22023 for negative numbers, 25006 in a read-only transaction, 42501.';
COMMENT ON FUNCTION memory_ingest_once(text, text, text, text, text, text, jsonb, jsonb, uuid[]) IS
    'Stores a turn unless it is stored already, and returns its id and whether it is new. It is stored already if the session has a turn of the last day with the same role and request_key (for role user also with the same content), or, for role user, if the session''s latest turn of that role has the same content. An empty request_key counts as none, an expired turn as not stored. history, for role user: the messages before it as the client sent them, a JSON array as in memory_augment. Where they are the beginning of what is stored of the session, and the stored conversation goes on with another message and its answers and nothing after those, the client took these back: the new turn supersedes that message, its answers end, and replaced returns the ids of both. Where it goes on with the same message, answers returns the ids of its answers. In all other cases nothing is taken back. replaces, for role assistant: those ids, which the new turn supersedes. Errors: 22023.';

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
COMMENT ON COLUMN memory_agent.entries.extracted_at IS 'When facts were extracted from it. NULL while a turn waits for extraction; infinity while it waits for the reflection on its episode, or, said by an assistant, for the extraction of what was decided; -infinity for a turn without extraction.';
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
    'Stores one message of a conversation and returns its id. session_id: the conversation; one called global is part of the user''s global memory, which all sessions recall. role: user, assistant, system, tool or memory. content: the text, up to memory_agent.max_content_bytes. user_id: the user of the memory (default: the session''s identity). agent_id: the agent (default: memory_agent.agent_id, else ''default''). metadata: an object; its key name is the speaker. markers: decision, constraint, failure, goal or custom:NAME; markers that you pass replace the detected ones. created_at: when it was said (default: now). ttl: time until it expires (default: memory_agent.default_ttl). Secrets in content and metadata are taken out, and counted under the key redacted, as memory_agent.secrets says. Errors: 22023 for a value that cannot be stored, 23514 for a secret if memory_agent.secrets is refuse, 42501 for another user''s memory. While no model is available, the row is stored and found by its words.';
COMMENT ON FUNCTION memory_ingest_batch(jsonb,text,text,text) IS
    'Stores many messages in one statement, embeds them in batches, and returns their ids in the order given. turns: an array of objects with role, content and optionally session_id, metadata, markers, created_at, ttl, as in memory_ingest. session_id: for turns that name none. Either all are stored, or none.';
COMMENT ON FUNCTION memory_add(text,text,text,text,jsonb,text[],timestamptz,interval,boolean,text) IS
    'Stores a statement as a fact and returns its id, or the id of an existing fact that says the same. session_id: NULL or global is the user''s global memory, which all sessions recall. infer: true keeps the text as something the user said, from which the worker extracts facts by an LLM, and returns the id of that source (kind turn, not a fact: facts refer to it in source_ids); false stores the text itself as one fact; NULL (default) is true if an LLM is configured for the agent, memory_agent.extraction is not off and there is no fact_key, else false. fact_key: supersedes the fact with the same key in the same scope; not with infer => true. Errors: 55000 if infer is true and no LLM is configured; 22023 for fact_key with infer => true.';
COMMENT ON FUNCTION memory_close_episode(text,text,text,text) IS
    'Closes the open episode of a session and returns its id, or NULL if none is open. reason: free text, default manual.';
COMMENT ON FUNCTION memory_recall(text,text,text,text,bigint,bigint,text[],jsonb,timestamptz,double precision,double precision,double precision,boolean,vector,text[]) IS
    'Returns the memories that answer a query, in order. Never writes: works in read-only transactions and on standbys. session_id: this session, the user''s global memory and shared memory; global: these two alone; NULL: all sessions of the user. agent_id: only sessions of this agent (default: memory_agent.agent_id; without both: of all agents); the user''s global memory is of all agents, a filter narrows it. top_k: number of rows (default memory_agent.default_top_k; 0: none). token_budget: the tokens of the rows never exceed it; without top_k only the budget limits the rows. kinds: any of turn, fact, document. filter: a jsonb predicate with the keys metadata, role, kind, markers_any, markers_all, created_after, created_before, session_id, agent_id, episode_id, trust. as_of: what was true at this time; ages count from it. score_threshold: least probability that a row answers the query; with memory_agent.ranking = weighted, least sigmoid of the reranker''s logit (without a reranker: least relevance). recency_weight, mmr_lambda: 0 to 1. rerank: whether to use the cross-encoder. query_embedding: used instead of embedding the query. rewrites: further wordings, whose candidates join the pool. Columns: score = (1 - w) * relevance + w * recency, raised by markers; relevance 0 to 1: the probability that the row answers the query, or with ranking = weighted a blend of reranker and fused score; similarity is the cosine, NULL without an embedding; lexical is BM25, NULL without a common word; recency 0 to 1. Errors: 22023, 42501.';
COMMENT ON FUNCTION memory_explain(text,text,text,text,bigint,bigint,text[],jsonb,timestamptz,double precision,double precision,double precision,boolean,vector,text[]) IS
    'The same recall as memory_recall, as one jsonb document: mode, milliseconds of each step, sizes of the pools, and for every candidate all parts of its score, the step that dropped it and, of an unverified fact, why it is one.';
COMMENT ON FUNCTION memory_stats(text,text,text) IS
    'Counts of a session, or of all sessions of a user, as jsonb: turns, facts, unverified facts, documents, tokens, episodes, markers, summaries.';
COMMENT ON FUNCTION memory_context(text,text,bigint,text,text) IS
    'Returns the contents of the next prompt: {messages, summary, memories, cross_session, left_out, token_count}, never over token_budget (default 2000), nor over what memory_agent.context_limit leaves beside the answer. messages: in OpenAI''s format: the session''s summary (at most a quarter of the budget), memories (facts, then what was said, each with its date) and, if the message asks for an earlier conversation, archived conversations (at most a quarter together), each as a system message; the newest turns from old to new; query as the current message. Nothing appears twice. Of a memory of more than memory_agent.memory_tokens a passage is told, with its id. memories: what is told, with the keys of memory_hits of memory_augment. left_out: what recall found and the prompt does not tell, as {id, layer, why}; layer is where it was found (session, global, shared), why is echo (it stands in the message), repeated (another memory or a turn says the same), budget (it has no room) or gate (its probability is below .0005). A memory of which nothing holds any more is left out; what else no longer holds is marked, in turns and summary too (memory_agent.prompt_stale_sources). Errors: 22023 if the current message alone exceeds the budget.';
COMMENT ON FUNCTION memory_augment(jsonb,text,text,text,bigint,double precision,double precision) IS
    'Returns messages for an LLM with memories put before the user''s last message: {messages, memory_hits, left_out}. messages: a jsonb array in OpenAI''s format, or the body of a request with one: its other fields are returned as they are. session_id: the conversation (default: default), whose memories and summary are used, along with the user''s global memory. top_k: number of memories (default memory_agent.default_top_k; 0: messages unchanged). Without a text of the user, a NOTICE says that no memories are added. recency_weight, score_threshold: as in memory_recall. memory_hits: the memories as {id, kind, role, speaker, session_id, content, shortened, metadata, created_at, score, no_longer_true}; content is a passage (shortened) of more than memory_agent.memory_tokens: facts, then what was said, best first, then archived conversations (role conversation) if the message asks for an earlier one. left_out: as in memory_context; what stands in a message of the request is no memory, and its place goes to another. All messages together never exceed what memory_agent.context_limit leaves beside the answer. Stores nothing; works in read-only transactions and on standbys. Calls the LLM only with memory_agent.query_rewrite or memory_agent.read_contradiction_check on, and continues with a WARNING if that fails. Errors: 22023 for invalid messages, and for messages that exceed the limit without memories (tools and response_format of a request count), 42501.';
COMMENT ON FUNCTION memory_augment(jsonb,bigint,text,text,bigint,double precision,double precision,text) IS
    'memory_augment within a budget. token_budget: most tokens of all messages, memories included (NULL, or more than that: what memory_agent.context_limit leaves beside the answer). Memories that do not fit are left out, the worst first. Errors: 22023 if it is negative, or if the messages exceed it without memories.';
COMMENT ON FUNCTION memory_augment_block(jsonb,text,text,text,bigint,double precision,double precision) IS
    'What memory_augment puts into the messages, alone: {block, has_summary, memory_hits, left_out}. Arguments as in memory_augment; of a request only the messages and what limits them is read. block: the text to put before the user''s text, or with memory_agent.memory_message = system the text of a message before it; empty if nothing is remembered, null if no memories are wanted (top_k 0, or no text of the user). A message that was augmented before has its memories replaced: put block before what the user typed. has_summary: whether it tells the summary of the session. memory_hits, left_out, errors: as in memory_augment.';
COMMENT ON FUNCTION memory_chat(jsonb,text,text,text,bigint,double precision,double precision,text,text,double precision,bigint,boolean) IS
    'Asks the LLM with memories put before the user''s last message, stores that message and the answer as turns of the session, and returns an OpenAI chat completion with memory_hits. Waits for the LLM, at most memory_agent.llm_timeout for each call; cancel and statement_timeout end it, and then nothing is stored. If the LLM fails, the user''s message is stored and the result is {error: {code, message}, memory_hits}; code is unavailable, failed, refused or bad_answer. messages: as in memory_augment; of a request every field is sent, and calls of its tools are in the result. session_id, top_k, recency_weight, score_threshold: as in memory_augment. model, temperature and max_tokens override the fields of a request. model: used instead of memory_agent.llm_model. post_process: background (facts and summaries are made after COMMIT). temperature: 0 to 2. max_tokens: limit of the answer; the prompt has at most memory_agent.context_limit less that. store: false stores neither the message nor the answer, and keeps no text of the call for memory_agent.trace. Errors: 23514 for a message with a secret if memory_agent.secrets is refuse, 55000 without an LLM or with memory_agent.inference = backend, 25006 in a read-only transaction, 22023 for messages without a text of the user (unless store is false), and for messages that exceed the limit without memories (the LLM is not asked), 0A000 for post_process => wait (call memory_wait() after COMMIT), for "stream": true and for a field, or what a message says, that the provider of the endpoint does not take, 42501; 40001 if memory of the user was erased meanwhile: then nothing is stored; retry the call.';
COMMENT ON FUNCTION memory_chat(jsonb,bigint,text,text,bigint,double precision,double precision,text,text,double precision,bigint,boolean,text) IS
    'memory_chat within a budget. token_budget: as in memory_augment.';
COMMENT ON FUNCTION memory_add_document(text,text,text,text,text,text,jsonb) IS
    'Stores a document and returns its id, or the id of the document with the same text in the same scope. It is cut into chunks of memory_agent.chunk_tokens along its Markdown, which memory_recall returns as entries of kind document with parent_id, granularity (document, section or chunk), headings, title, doc_type and ordinal in their metadata. content: the text, up to memory_agent.max_content_bytes. title: up to 1000 bytes. doc_type: any value except conversation. session_id: NULL or global is the user''s global memory. metadata: an object, which every chunk also gets. Documents do not expire. Errors: 22023, 42501.';
COMMENT ON FUNCTION memory_recall_times() IS
    'How long the parts of this transaction''s last recall took, in milliseconds: embed the question, search, rerank, rank; no row without one. For monitoring: the gateway calls it after memory_augment. Errors: 42501.';
COMMENT ON FUNCTION memory_state(jsonb,text,text,text) IS
    'Whether what a prompt tells still holds: a text that stays the same until one of its memories is forgotten, corrected, replaced or expired, until a fact that one of its turns states is replaced, or until anything of the user is erased. New memories change nothing. For programs that keep a prompt while tools answer: compare it before each request. memories: memory_hits of memory_augment or memories of memory_context; NULL for none. session_id: the session whose summary the prompt tells; the text changes when that session has none any more. Never writes. Errors: 22023, 42501.';
COMMENT ON FUNCTION memory_list(text,text,bigint,timestamptz,uuid,boolean,uuid,uuid,boolean,text,text) IS
    'Entries of the user and shared ones, newest first, a page at a time, with the columns of the view memory_entries; a page of all sessions, of one session and agent, or of one source reads about as many rows as it shows, however many there are. session_id: only these; global is the user''s global memory. kind: turn, fact or document. limit: rows of a page (at most 1000). from_at, from_id: created_at and id of an entry: the page begins after it, with oldest_first at it. id: one entry, even an expired one, which no page lists. source_id: only facts extracted from this entry. own_only: without shared ones. agent_id: only of this agent. Never writes. Errors: 22023, 42501.';
COMMENT ON FUNCTION memory_list_documents(text,bigint,text) IS
    'Lists documents and archived conversations of the user and shared ones, the most recently changed first. doc_type: only this type; conversations is accepted for conversation. limit: number of rows (default 10, at most 1000). chunks: number of chunks that can be searched. The texts are in the view memory_archives.';
COMMENT ON FUNCTION memory_archive(text,text,text) IS
    'Archives the conversation of a session and returns the id of the archive: memory_search_archive finds it, and so do memory_context, memory_augment and memory_chat in other sessions if a message asks for an earlier conversation. The archive contains the session''s summary and the turns that the summary does not cover: all of them if they have at most 1600 tokens together, else the most informative ones. No LLM is called. A second call replaces the archive under the same id. NULL if the session has no turns. Errors: 22023, also for global; 42501.';
COMMENT ON FUNCTION memory_search_archive(text,bigint,text,text,text,text) IS
    'Searches the archived conversations of the user, best first, with the steps of memory_recall, which does not return them. Never writes. top_k: number of rows (default 5, at most 1000; 0: none). exclude_session: a session of the agent to leave out. agent_id: only conversations with this agent. doc_type: conversation (default; conversations is accepted), another type for documents of that type, NULL for the whole knowledge base. Columns: score as in memory_recall; similarity is the cosine, NULL without an embedding; metadata: session_id, agent_id, conversation_topics, entities_mentioned, decisions_made, open_questions, message_count, date_range of the conversation, parent_id of its row in memory_agent.archives; created_at: the conversation''s last turn. Errors: 22023, 42501.';
COMMENT ON FUNCTION memory_search_archive(text,double precision,text,text,text,text) IS
    'memory_search_archive with the name that top_k had in 0.2.0: "limit".';
COMMENT ON FUNCTION memory_embed(text,text) IS
    'The embedding of a text by the active embedding model. purpose: query (default) or document; some models embed questions differently. Errors: 58000 while no model is available.';
COMMENT ON FUNCTION memory_rerank(text,text[]) IS
    'The cross-encoder''s logits of documents for a query, in the order of the documents: unbounded, higher is better. Errors: 58000 while no model is available.';
COMMENT ON FUNCTION memory_count_tokens(text,text) IS
    'Number of tokens of a text in an encoding, cl100k_base or o200k_base. Errors: 22023 for another encoding, 58000 while the tokeniser is unavailable.';
COMMENT ON FUNCTION memory_count_tokens(text) IS
    'Number of cl100k_base tokens of a text. Errors: 58000 while the tokeniser is unavailable.';
COMMENT ON FUNCTION memory_register_model(text,text,text,boolean) IS
    'Registers a model after loading and checking it. kind: embedder or reranker. location: its folder (superusers only; default: its folder in memory_agent.model_dir) with model.onnx, tokenizer.json and config.json. activate: use it from now on; for an embedder only while no rows are embedded by another one. Returns the properties of the model. Errors: 58000 for a missing file or a bad graph, 42809 for a model of the other kind, 42710 if the name is registered as that kind, 55000 if another embedder has embedded rows, 22023, 42501.';
COMMENT ON FUNCTION memory_create_vector_index(text) IS
    'Builds an approximate index over the embeddings of the active model: hnsw (default) or ivfflat. Useful if single scopes have more than memory_agent.exact_scan_rows entries. Returns the name of the index. Blocks writers while it builds. pg_dump leaves the index out: build it again after a restore. Errors: 42710 if the index exists, 22023, 42501.';
COMMENT ON FUNCTION memory_use_embedding_model(text) IS
    'Changes the embedding model of this database while it is in use, and returns the job that does it. name: a registered embedder, or a folder in memory_agent.model_dir. Recall uses the old model until every entry has a vector of the new one, then changes to it at once; memory_jobs shows the progress. Naming the model in use cancels the change. Errors: 42809 for a model that is not an embedder, 58000 for a model that cannot be loaded, 42501.';
COMMENT ON FUNCTION memory_status() IS
    'Shows what runs and what does not: one row per component, with a hint if it needs attention. Counts only, never content.';
COMMENT ON FUNCTION memory_wait(interval,text,text) IS
    'Waits until no job is waiting or running, and returns whether that happened within timeout (default 30 seconds; 0 checks once). Counts the jobs of the caller''s user, or of one session; for an administrator who names neither, all jobs. A job that waits for its next attempt counts, a dead job does not. Errors: 25001 in a transaction that queued jobs itself or is not READ COMMITTED; 55000 on a standby; 22023 for a negative timeout.';
COMMENT ON FUNCTION memory_wait(double precision,text,text) IS
    'memory_wait with a timeout in seconds.';
COMMENT ON FUNCTION memory_wait(text,text,text) IS
    'memory_wait with a timeout that is written as an interval, such as 2 minutes.';
COMMENT ON FUNCTION memory_retry(uuid,text) IS
    'Runs a dead job again, from its first attempt; returns false when there is no such dead job. job_id: from the view memory_jobs. Administrators may retry the jobs of all users. Errors: 22004 for NULL, 42501.';
COMMENT ON FUNCTION memory_compress(text,text,text) IS
    'Queues the compression of a session''s window, whatever its size, and returns the job''s id: all turns except the newest memory_agent.recent_messages_to_keep are summarised and leave the window; they stay in recall. NULL if the window has no more turns than that, or there is no such session. The worker does the work: see memory_wait and memory_jobs. If the LLM fails, nothing changes. Errors: 55000 if memory_agent.llm_base_url is empty, 22023, 42501.';
COMMENT ON FUNCTION memory_originals(uuid,text) IS
    'Returns the turns behind a summary, oldest first, including those behind the summaries that were merged into it, whatever their state now. summary_id: from the view memory_session_summaries; an unknown id returns no rows. Errors: 22004 for NULL, 42501.';
COMMENT ON FUNCTION memory_export_markdown(text,text,text) IS
    'The memories of a session as Markdown files with YAML front matter, in agent-cli''s layout: entries/<session>/facts, turns, summaries, documents, and deleted for what is inactive. session_id: NULL or global is the user''s global memory, of all agents unless agent_id names one. agent_id: of a session, default memory_agent.agent_id, else ''default''. memory_import_markdown makes the same memories from them. The files do not contain: vectors and words of the index, which an import computes again, history, jobs, settings of sessions, archived conversations. Never writes. Errors: 22023, 42501.';
COMMENT ON FUNCTION memory_import_markdown(text,text,text) IS
    'Stores the memory in a Markdown file and returns its id. content: front matter between two lines ---, then the text; as memory_export_markdown, agent-cli or a person writes it. path: gives what the front matter leaves out (session, role, whether it was deleted); NULL if it leaves out nothing. Id, times, state, markers, metadata and sources are kept; embedding, words and token count are computed again, as by memory_ingest. If the id is stored with the same content, nothing changes, so files can be imported again. With another content it is updated, as by memory_update; the active L3 summary of a session is replaced by a new one that covers the same turns; a chunk changes its document, whose id is returned. So a file can be changed by hand. Errors: 22023 for a file that cannot be read or stored; 23505 for a fact_key that another fact holds, and for a row of an attached table that has a memory; 55000 for an update of what was replaced or forgotten meanwhile, of a chunk whose old text does not occur exactly once in its document, or whose document has forgotten chunks, and for another content of a summary that is not the active L3 of its session, 42809 of a row of an attached table or of a chunk whose document is not there; 42501, also for the memory of an attached table''s row, which only administrators import.';
COMMENT ON FUNCTION memory_export_json(text,text) IS
    'Everything of a user as JSON objects, one in each row: documents and archived conversations as wholes (role archive), memories and summaries with the keys of their Markdown files and the text as content, episodes (role episode), what happened to memories (role history), traces of reflections (role trace), settings that memory_configure stored (role settings). History and traces only for the levels user and admin. agent_id: one agent''s, default all agents''. memory_import_json stores them again, in this order. Left out: vectors and words of the index, chunks of archived conversations, seals of history, jobs, calls, tokens. Never writes. Errors: 42501.';
COMMENT ON FUNCTION memory_import_json(jsonb,text) IS
    'Stores one object of memory_export_json and returns its id, NULL for settings. A memory is checked and stored as by memory_import_markdown; one that is stored with another content is updated, as by memory_update. A document''s chunks are memories; an archived conversation gets new chunks. An event of history is appended with op imported, and memory_history names the role that imported it, as a trace does in its body; an event or a trace whose id is there stays as it is. Settings are added to those that exist. Errors: 22023 for an object that cannot be read or stored; 23505 for an archive that is stored with another content, for a document whose text is stored with another id, for a fact_key that another fact holds; 55000 for an update of a memory that was replaced or forgotten meanwhile, and for another content of a summary that is not the active L3 of its session; 42809 as memory_import_markdown; 42501.';
COMMENT ON FUNCTION memory_grant(regrole,text) IS
    'Grants a role the level reader (recall), user (also store), gateway (also look up tokens and count spending) or admin (also name any user, register models). Only for the extension''s owner (42501).';
COMMENT ON FUNCTION memory_revoke(regrole) IS
    'Revokes a role''s level; returns whether it had one. Only for the extension''s owner (42501).';
COMMENT ON FUNCTION memory_agent.visible_users() IS
    'The identity of this session and the shared user ''*'': the users whose rows row-level security shows.';
COMMENT ON FUNCTION memory_agent.revoke_all(regrole) IS
    'Revokes every privilege on the extension''s objects from a role.';
COMMENT ON COLUMN memory_agent.session_summaries.previous_id IS 'The L3 whose content was merged into this one.';
COMMENT ON COLUMN memory_agent.episodes.status IS 'open while turns are added to it, closed when it has ended, reflected when facts were extracted from it or its turns wait for that.';
COMMENT ON COLUMN memory_agent.episodes.carried_into IS 'For a short episode: the later episode with which the worker reflected on it.';
COMMENT ON COLUMN memory_agent.traces.episode_id IS 'The episode; the last one if short episodes were carried into it.';
COMMENT ON COLUMN memory_agent.traces.body IS 'mode, episodes, input_turn_count, input_turns, prior_fact_count, prior_facts (the newest), scoped_facts (those that the LLM was shown), raw_output, actions, dropped, saved_facts, superseded_facts, rounds, elapsed_ms.';
COMMENT ON COLUMN memory_agent.episodes.wants_reflection IS 'Whether facts are to be extracted from the episode when it ends.';
COMMENT ON FUNCTION memory_load(text,text,text) IS
    'Returns the window of a session as it goes into a prompt: the summary of the earlier conversation as a row of role system, if there is one, then the turns that have not left the window, oldest first. token_count: cl100k_base tokens of the content. An unknown session returns no rows. Never writes. Errors: 22023, 42501.';
COMMENT ON FUNCTION memory_clear(text,text,text) IS
    'Forgets a session: its turns and facts become inactive, its summaries too, its episode ends and its jobs are cancelled. Returns the number of turns. The rows stay for audit and as_of; history has a row for each. Global facts that were extracted from the session, documents and archived conversations stay. Errors: 22023, also for global without confirm_global, 42501.';
COMMENT ON FUNCTION memory_configure(text,text,jsonb,text,text) IS
    'Stores settings for a session, or without session_id for all sessions of an agent, and returns the settings in effect: {agent_id, session_id, content_type, settings, stored}. settings: an object of names with context user, with or without memory_agent., which is added to the stored settings; null removes one; admins also store default_ttl, max_content_bytes (at most the server''s), max_entries, for agents purge_after, secrets, secret_phrases, and text_search_config, the language of what is stored. content_type: conversation, journal or document, for summaries. Precedence: the session, its agent, the same agent of user * (set by administrators), SET and postgresql.conf. Without settings and content_type nothing is stored. Errors: 22023 for an unknown name or a value that SET refuses, 42704 for a text search configuration that does not exist, 42501.';
COMMENT ON FUNCTION memory_backfill(timestamptz,text,boolean) IS
    'Queues the backlog: extraction of facts from turns that were stored while there was no LLM or extraction was off, and summaries of their sessions. Returns the number of turns. since: only turns that were said from then on. all_users: for administrators. Errors: 55000 without an LLM, 42501, 22023 for all_users with user_id.';
COMMENT ON FUNCTION memory_summarize(text,bigint,text) IS
    'Has the LLM condense a text, waits for it, and returns {summary, token_count, model, created_at, text_sha256, key_id, signature}. max_tokens: largest number of cl100k_base tokens of the summary, 16 to 100000; a text that has no more is returned as it is. content_type: conversation, journal or document. signature: HMAC-SHA-256 with the key of memory_agent.audit_key_file over the digest of the text, the time and the summary; null without a key. History has a row of op summarize. Errors: 55000 without an LLM, 58000 if it gives no answer, F0000 if the key cannot be read, 25006 in a read-only transaction, 22023, 42501.';
COMMENT ON FUNCTION memory_reserve_tokens(text,bigint,boolean,text,text) IS
    'Takes the oldest turns out of the window of a session until it has at most budget tokens (default: 95 % of memory_agent.context_limit), including the summary and four tokens per message. Turns that the summary covers leave first. They stay in recall. summarize: ask the LLM for a summary of the other turns that have to leave, and wait for it; if it fails, a WARNING says so and they leave without a summary. summarized, dropped: number of turns that left and that a summary covers, or does not cover. tokens_after exceeds budget only if the summary alone does. Errors: 22023, 25006 in a read-only transaction, 42501, 55000 with summarize and no LLM.';
COMMENT ON FUNCTION memory_verify_history(text,bigint,bytea) IS
    'Verifies the hash chain of a user''s history. Never writes. user_id: default the caller; if an administrator leaves it out, the chains of all users. seq, hash: a head that was kept elsewhere, which must be in the chain of that user. Returns for each user one row of state intact or broken with seq and hash of the last sealed row, to be kept elsewhere, and the number of rows that are sealed and not sealed yet; then a row for each problem, at most 1000 for each user: edited, reordered, missing, unlinked, body (does not match its commitment), body gone (without an erasure), unknown key (not in the file of memory_agent.audit_key_file), downgrade (sealed without a key after rows with one), head (the kept head is not in the chain). id: the row of history. Errors: F0000 if the key file cannot be read, 22023, 42501.';
COMMENT ON FUNCTION memory_erase(text,text,uuid,text,text,boolean) IS
    'Erases memory for good, in the tables of memory_agent, and returns how many rows of each table lost their content. Name one of: id, for an entry with its versions (by memory_update, or of the same fact_key), or a document; session_id, with agent_id, for a session, and for global, the user''s global memory, with confirm_global => true; or user_id alone, for everything of that user. Also erased is what was made from nothing else: facts, traces, embeddings, jobs; and summaries and archived conversations that contain some of it, which are made again from the rest while an LLM is configured. History keeps its rows without body and reason, and adds one of op erase with counts, ids, the digest of a session''s name, and reason (at most 1000 bytes). Recorded LLM calls of the user lose their texts. The caches of the model server are emptied. Unknown ids return counts of 0. Rows of attached tables stay. Errors: 22023, also for session_id global without confirm_global, 42809 for a chunk of a document, 25001 above READ COMMITTED, 25006 in a read-only transaction, 42501.';
COMMENT ON FUNCTION memory_recall(text,bigint,text,text,bigint,bigint,text[],jsonb,timestamptz,double precision,double precision,double precision,boolean,vector,text[],text) IS
    'memory_recall with rerank_rows: how many of the most promising rows the cross-encoder reads, instead of memory_agent.rerank_rows; 0 means none. Errors: 22023 below 0 or over 100, 42501.';
COMMENT ON FUNCTION memory_explain(text,bigint,text,text,bigint,bigint,text[],jsonb,timestamptz,double precision,double precision,double precision,boolean,vector,text[],text) IS
    'memory_explain with rerank_rows, as memory_recall has it.';
COMMENT ON FUNCTION memory_load(text,bigint,text,text) IS
    'memory_load within a budget. token_budget: most tokens of all rows, with four more for each (NULL, or more than that: 95 % of memory_agent.context_limit). The summary has at most a quarter of it, and is cut at a sentence; then come the newest turns without gaps.';
COMMENT ON FUNCTION memory_clear(text,boolean,text,text) IS
    'memory_clear, also for global, the user''s global memory: with confirm_global, its turns, facts and summaries of the agent become inactive.';
COMMENT ON COLUMN memory_agent.entries.session_id IS 'NULL is the user''s global memory, which the conversation called global is part of.';
COMMENT ON FUNCTION memory_agent.history_is_open() IS
    'Whether this session now runs a statement of the extension that may change history: one that seals rows or erases bodies.';
COMMENT ON COLUMN memory_agent.history.erased_by IS 'The row of op erase that removed body, salt and reason.';
COMMENT ON FUNCTION memory_attach(regclass,text,text,text,text,text[],text,text,boolean,text,text,text,boolean,text,text,text,jsonb,text[]) IS
    'Makes the rows of a table memory, by triggers: a row is an entry of kind turn, an UPDATE of its content supersedes the entry, DELETE and TRUNCATE end it. Returns the job that takes in the existing rows, NULL with backfill => false. content_column: the text. user_id_column: the user that a row belongs to; without it, the writer of the row. user_id: the user of all rows, also ''*''. session_id_column: the session; NULL is global memory. role, role_column: as in memory_ingest. metadata_columns: columns that become metadata. created_at_column: the time from which a row is true. embed: async (by the worker), sync (in the statement), off. agent_id: default memory_agent.agent_id, else ''default''. extract_facts: with true, an LLM extracts facts from rows of role user, as from messages, by the next sweep of the worker (memory_agent.sweep_interval), whatever memory_agent.extraction says; rows that are entries already keep what was decided. The facts are memories of their own: they stay when a row is deleted, until they are forgotten or erased. condition: an expression over the columns of a row, with immutable functions and no sub-select; while it is not true, the row has no entry. content_path: keys with points between them, the place of the text in a content that is JSON; lists of parts are one text. role_path: likewise the place of the role, in role_column or else in content_column. role_map: a JSON object from the roles of the table to those of memory_ingest, null for rows that are not remembered. more_content_columns: at most 8 columns whose texts follow that of content_column, each on a line of its own. A row without content or user has no entry; a row that cannot be stored or read is refused with a WARNING and a dead job. Attaching a table again applies the new arguments, makes missing triggers and reads all rows. Errors: 42501 unless the caller has the level admin and owns the table; 0A000 for views, foreign and temporary tables, inheritance; 55000 without a primary key; 42703 for an unknown column, 42804 for one of the wrong type; 42710 if another attached table has the rows or the name; 22004 without a content_column; 22023, also for an invalid condition, and with extract_facts if nothing says whose the rows are.';
COMMENT ON FUNCTION memory_detach(text,boolean) IS
    'Ends the attachment of a table: drops the triggers and cancels its jobs. relation: the table, or the name of a dropped table. forget: also end the entries of its rows, which otherwise stay as they are. Returns the number of entries that ended. Errors: 42704 if it is not attached, 42501 unless the caller has the level admin and owns the table.';
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
    'Gives a turn, a fact or a document a new text and returns the id of the new version, or id if it already has the text and for a document, which keeps its id and gets new chunks. The old row becomes inactive (superseded) at now(); recall with as_of before that still finds it. The new version keeps session, role, metadata, key, expiry, sources and, if it is a turn, its place in the conversation; it is embedded as by memory_ingest, and markers that were detected in the old text are detected again in the new text. If a fact of the scope already says the same, it becomes the replacement, and its id is returned. content: 1 byte to memory_agent.max_content_bytes. Errors: 42704 if the user has no such entry or document, 55000 for an inactive entry, a forgotten document or one that another transaction has just changed, 23505 if another document has the text, 42809 for a chunk of a document, an archived conversation, a row of an attached table or only the source of facts, 22004 for an id that is NULL, 22023, 25006 in a read-only transaction, 42501.';
COMMENT ON FUNCTION memory_forget(uuid,text,text) IS
    'Forgets a turn, a fact, a document (by the id of memory_add_document) or a chunk of one: it becomes inactive, and recall no longer returns it. False if there is nothing to forget. The row stays for history, for as_of before now, and for memory_restore. Facts and summaries that were made from a turn stay; no new ones are made from it. reason: kept in history, at most 1000 bytes. Errors: 22004 for an id that is NULL, 22023, 25006 in a read-only transaction, 42501.';
COMMENT ON FUNCTION memory_restore(uuid,text) IS
    'Restores an entry that was forgotten, cleared, replaced or expired, or that left the window, and makes a memory of an unverified fact. False if there is nothing to restore. valid_to becomes NULL, as if the entry had been true all the time; an entry that had expired has no expiry any more. Errors: 55000 if its content was purged, its document has another text now, or another entry has its place (a later version of it, a fact of its key or with its text, an entry of its table row), which the hint names; 22004 for an id that is NULL; 25006 in a read-only transaction, 42501.';
COMMENT ON FUNCTION memory_history(uuid,text) IS
    'Returns what happened to a memory, oldest first: to the entry, its earlier versions and its replacements; also to a document or a summary. at: when. op: ingest, add (a fact, or the next version), import, update (the next version replaced it), supersede (a newer entry replaced it), delete, expire, restore, erase, imported (an imported event whose text was erased). actor: the SQL role; NULL for ingest, which is read from the row itself; for an imported event, the original role and the role that imported it. content, entry: the text and the row after the event, NULL once erased. job_id: the job that made the change. seq: the number in the user''s chain, NULL until it is sealed. No rows for an unknown id. Errors: 22004 for NULL, 42501.';

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
