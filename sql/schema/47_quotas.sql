-- What users may have: administrators say so, and every user sees their own.

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
