-- The public functions that are written in Rust (src/api). Names, defaults and order of arguments
-- are the contract: new arguments are only added at the end, with a default. Numbers are bigint and double
-- precision, which drivers send, and to which narrower ones are cast.

CREATE FUNCTION memory_ingest(
    session_id text, role text, content text, user_id text DEFAULT NULL, agent_id text DEFAULT NULL,
    metadata jsonb DEFAULT '{}', markers text[] DEFAULT NULL, created_at timestamptz DEFAULT NULL,
    ttl interval DEFAULT NULL)
    RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_ingest_wrapper';

CREATE FUNCTION memory_ingest_batch(
    turns jsonb, session_id text DEFAULT NULL, user_id text DEFAULT NULL, agent_id text DEFAULT NULL)
    RETURNS SETOF uuid LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_ingest_batch_wrapper';

CREATE FUNCTION memory_add(
    content text, session_id text DEFAULT NULL, user_id text DEFAULT NULL, agent_id text DEFAULT NULL,
    metadata jsonb DEFAULT '{}', markers text[] DEFAULT NULL, created_at timestamptz DEFAULT NULL,
    ttl interval DEFAULT NULL, infer boolean DEFAULT NULL, fact_key text DEFAULT NULL)
    RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_add_wrapper';

CREATE FUNCTION memory_close_episode(
    session_id text, reason text DEFAULT 'manual', user_id text DEFAULT NULL,
    agent_id text DEFAULT NULL)
    RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_close_episode_wrapper';

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

-- With the rows that the cross-encoder reads. They have no default, and the agent comes last, so that no call fits
-- both: but for these rows, arguments at the same place have the same type.
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
    query text, session_id text DEFAULT NULL, user_id text DEFAULT NULL, agent_id text DEFAULT NULL,
    top_k bigint DEFAULT NULL, token_budget bigint DEFAULT NULL, kinds text[] DEFAULT NULL,
    filter jsonb DEFAULT NULL, as_of timestamptz DEFAULT NULL,
    score_threshold double precision DEFAULT NULL, recency_weight double precision DEFAULT NULL,
    mmr_lambda double precision DEFAULT NULL, rerank boolean DEFAULT NULL,
    query_embedding vector DEFAULT NULL, rewrites text[] DEFAULT NULL)
    RETURNS jsonb LANGUAGE c STABLE PARALLEL UNSAFE COST 100000
    AS 'MODULE_PATHNAME', 'memory_explain_wrapper';

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

-- With a budget. It has no default, and the agent comes last: a call without it means the function above.
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
    messages jsonb, session_id text DEFAULT 'default', user_id text DEFAULT NULL,
    agent_id text DEFAULT NULL, top_k bigint DEFAULT NULL, recency_weight double precision DEFAULT NULL,
    score_threshold double precision DEFAULT NULL, model text DEFAULT NULL,
    post_process text DEFAULT 'background', temperature double precision DEFAULT NULL,
    max_tokens bigint DEFAULT NULL, store boolean DEFAULT true)
    RETURNS jsonb LANGUAGE c VOLATILE PARALLEL UNSAFE COST 1000000
    AS 'MODULE_PATHNAME', 'memory_chat_storing_wrapper';

CREATE FUNCTION memory_chat(
    messages jsonb, token_budget bigint, session_id text DEFAULT 'default', user_id text DEFAULT NULL,
    top_k bigint DEFAULT NULL, recency_weight double precision DEFAULT NULL,
    score_threshold double precision DEFAULT NULL, model text DEFAULT NULL,
    post_process text DEFAULT 'background', temperature double precision DEFAULT NULL,
    max_tokens bigint DEFAULT NULL, store boolean DEFAULT true, agent_id text DEFAULT NULL)
    RETURNS jsonb LANGUAGE c VOLATILE PARALLEL UNSAFE COST 1000000
    AS 'MODULE_PATHNAME', 'memory_chat_within_wrapper';

CREATE FUNCTION memory_add_document(
    content text, title text DEFAULT NULL, doc_type text DEFAULT 'document',
    session_id text DEFAULT NULL, user_id text DEFAULT NULL, agent_id text DEFAULT NULL,
    metadata jsonb DEFAULT '{}')
    RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_add_document_wrapper';

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

-- The name that top_k had in 0.2.0. No call fits both: they differ in its type, and PostgreSQL prefers this one where a
-- literal or a parameter has none.
CREATE FUNCTION memory_search_archive(
    query text, "limit" double precision, user_id text DEFAULT NULL,
    exclude_session text DEFAULT NULL, agent_id text DEFAULT NULL,
    doc_type text DEFAULT 'conversation')
    RETURNS TABLE (id uuid, content text, score real, similarity real, metadata jsonb,
                   session_id text, created_at timestamptz)
    LANGUAGE c STABLE PARALLEL UNSAFE ROWS 5 COST 100000
    AS 'MODULE_PATHNAME', 'memory_search_archive_wrapper';

CREATE FUNCTION memory_embed(text text, purpose text DEFAULT 'query')
    RETURNS vector LANGUAGE c STABLE STRICT PARALLEL UNSAFE COST 10000
    AS 'MODULE_PATHNAME', 'memory_embed_wrapper';

CREATE FUNCTION memory_embed(texts text[], purpose text DEFAULT 'query')
    RETURNS vector[] LANGUAGE c STABLE STRICT PARALLEL UNSAFE COST 10000
    AS 'MODULE_PATHNAME', 'memory_embed_many_wrapper';

CREATE FUNCTION memory_rerank(query text, documents text[])
    RETURNS real[] LANGUAGE c STABLE STRICT PARALLEL UNSAFE COST 100000
    AS 'MODULE_PATHNAME', 'memory_rerank_wrapper';

CREATE FUNCTION memory_count_tokens(text text)
    RETURNS integer LANGUAGE c IMMUTABLE STRICT PARALLEL UNSAFE COST 1000
    AS 'MODULE_PATHNAME', 'memory_count_tokens_wrapper';

CREATE FUNCTION memory_count_tokens(text text, encoding text)
    RETURNS integer LANGUAGE c IMMUTABLE STRICT PARALLEL UNSAFE COST 1000
    AS 'MODULE_PATHNAME', 'memory_count_tokens_as_wrapper';

CREATE FUNCTION memory_register_model(
    name text, kind text, location text DEFAULT NULL, activate boolean DEFAULT false)
    RETURNS jsonb LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_register_model_wrapper';

CREATE FUNCTION memory_create_vector_index(method text DEFAULT 'hnsw')
    RETURNS text LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_create_vector_index_wrapper';

CREATE FUNCTION memory_status()
    RETURNS TABLE (component text, state text, detail text, hint text)
    LANGUAGE c STABLE PARALLEL UNSAFE ROWS 20
    AS 'MODULE_PATHNAME', 'memory_status_wrapper';

CREATE FUNCTION memory_wait(
    timeout interval DEFAULT '30 s', session_id text DEFAULT NULL, user_id text DEFAULT NULL)
    RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_wait_wrapper';

-- Numbers, and texts without a type. The first argument has no default: a call without it means the function above.
CREATE FUNCTION memory_wait(
    timeout double precision, session_id text DEFAULT NULL, user_id text DEFAULT NULL)
    RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_wait_for_wrapper';
CREATE FUNCTION memory_wait(
    timeout text, session_id text DEFAULT NULL, user_id text DEFAULT NULL)
    RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_wait_written_wrapper';

CREATE FUNCTION memory_retry(job_id uuid, user_id text DEFAULT NULL)
    RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_retry_wrapper';

CREATE FUNCTION memory_compress(
    session_id text, user_id text DEFAULT NULL, agent_id text DEFAULT NULL)
    RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_compress_wrapper';

CREATE FUNCTION memory_originals(summary_id uuid, user_id text DEFAULT NULL)
    RETURNS TABLE (id uuid, role text, content text, created_at timestamptz, state text)
    LANGUAGE c STABLE PARALLEL UNSAFE ROWS 100
    AS 'MODULE_PATHNAME', 'memory_originals_wrapper';

CREATE FUNCTION memory_stats(
    session_id text DEFAULT NULL, user_id text DEFAULT NULL, agent_id text DEFAULT NULL)
    RETURNS jsonb LANGUAGE c STABLE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_stats_wrapper';

CREATE FUNCTION memory_export_markdown(
    session_id text, user_id text DEFAULT NULL, agent_id text DEFAULT NULL)
    RETURNS TABLE (path text, content text)
    LANGUAGE c STABLE PARALLEL UNSAFE ROWS 100
    AS 'MODULE_PATHNAME', 'memory_export_markdown_wrapper';

CREATE FUNCTION memory_import_markdown(path text, content text, user_id text DEFAULT NULL)
    RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_import_markdown_wrapper';

CREATE FUNCTION memory_export_json(user_id text DEFAULT NULL, agent_id text DEFAULT NULL)
    RETURNS SETOF jsonb LANGUAGE c STABLE PARALLEL UNSAFE ROWS 1000
    AS 'MODULE_PATHNAME', 'memory_export_json_wrapper';

CREATE FUNCTION memory_import_json(record jsonb, user_id text DEFAULT NULL)
    RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_import_json_wrapper';

CREATE FUNCTION memory_load(session_id text, user_id text DEFAULT NULL, agent_id text DEFAULT NULL)
    RETURNS TABLE (role text, content text, created_at timestamptz, id uuid, token_count integer)
    LANGUAGE c STABLE PARALLEL UNSAFE ROWS 20
    AS 'MODULE_PATHNAME', 'memory_load_wrapper';

CREATE FUNCTION memory_load(
    session_id text, token_budget bigint, user_id text DEFAULT NULL, agent_id text DEFAULT NULL)
    RETURNS TABLE (role text, content text, created_at timestamptz, id uuid, token_count integer)
    LANGUAGE c STABLE PARALLEL UNSAFE ROWS 20
    AS 'MODULE_PATHNAME', 'memory_load_within_wrapper';

CREATE FUNCTION memory_clear(session_id text, user_id text DEFAULT NULL, agent_id text DEFAULT NULL)
    RETURNS integer LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_clear_wrapper';

-- For `global`, the user's global memory. As with a budget, the second argument has no default.
CREATE FUNCTION memory_clear(
    session_id text, confirm_global boolean, user_id text DEFAULT NULL, agent_id text DEFAULT NULL)
    RETURNS integer LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_clear_confirmed_wrapper';

CREATE FUNCTION memory_configure(
    agent_id text DEFAULT NULL, session_id text DEFAULT NULL, settings jsonb DEFAULT NULL,
    content_type text DEFAULT NULL, user_id text DEFAULT NULL)
    RETURNS jsonb LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_configure_wrapper';

CREATE FUNCTION memory_backfill(
    since timestamptz DEFAULT NULL, user_id text DEFAULT NULL, all_users boolean DEFAULT false)
    RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_backfill_wrapper';

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
