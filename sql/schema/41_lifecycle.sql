-- What a user can do about one memory (src/api/update.rs, src/api/lifecycle.rs).
CREATE FUNCTION memory_update(id uuid, content text, user_id text DEFAULT NULL)
    RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE COST 10000
    AS 'MODULE_PATHNAME', 'memory_update_wrapper';

CREATE FUNCTION memory_forget(id uuid, reason text DEFAULT NULL, user_id text DEFAULT NULL)
    RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_forget_wrapper';

CREATE FUNCTION memory_restore(id uuid, user_id text DEFAULT NULL)
    RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_restore_wrapper';

CREATE FUNCTION memory_history(id uuid, user_id text DEFAULT NULL)
    RETURNS TABLE (at timestamptz, op text, actor text, reason text, content text, entry jsonb,
                   job_id uuid, seq bigint)
    LANGUAGE c STABLE PARALLEL UNSAFE ROWS 10
    AS 'MODULE_PATHNAME', 'memory_history_wrapper';
