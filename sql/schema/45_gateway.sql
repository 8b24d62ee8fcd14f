-- What the gateway asks (crates/gateway): whose token it was shown, what that may spend, and that a
-- turn is stored once.

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
