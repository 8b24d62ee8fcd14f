-- LLM endpoints as rows: the owner of the extension writes them, admins choose among them.

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
