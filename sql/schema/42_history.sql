-- What keeps history append-only and tells when it was not, and what erases.

CREATE FUNCTION memory_verify_history(
    user_id text DEFAULT NULL, seq bigint DEFAULT NULL, hash bytea DEFAULT NULL)
    RETURNS TABLE (user_id text, state text, seq bigint, hash bytea, id uuid, sealed bigint,
                   unsealed bigint, detail text)
    LANGUAGE c STABLE PARALLEL UNSAFE ROWS 10 COST 100000
    AS 'MODULE_PATHNAME', 'memory_verify_history_wrapper';

-- confirm_global is for `global`, the user's global memory.
CREATE FUNCTION memory_erase(
    user_id text DEFAULT NULL, session_id text DEFAULT NULL, id uuid DEFAULT NULL,
    reason text DEFAULT NULL, agent_id text DEFAULT NULL, confirm_global boolean DEFAULT false)
    RETURNS jsonb LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_erase_confirmed_wrapper';

-- Whether a statement of ours that may change history runs in this session now.
CREATE FUNCTION memory_agent.history_is_open() RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'history_is_open_wrapper';

CREATE FUNCTION memory_agent.refuse_history_change() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    RAISE EXCEPTION 'memory_agent.history is append-only'
        USING ERRCODE = 'insufficient_privilege',
              HINT = 'memory_erase() takes the content out of it and leaves the chain whole.';
END
$$;

-- They do not fire for the apply worker of logical replication, and have nothing to do in a restore.
CREATE TRIGGER history_is_append_only BEFORE UPDATE OR DELETE ON memory_agent.history
    FOR EACH ROW WHEN (NOT memory_agent.history_is_open())
    EXECUTE FUNCTION memory_agent.refuse_history_change();
CREATE TRIGGER history_is_not_truncated BEFORE TRUNCATE ON memory_agent.history
    FOR EACH STATEMENT EXECUTE FUNCTION memory_agent.refuse_history_change();
