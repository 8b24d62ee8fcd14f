-- Who may do what. Nothing is granted to PUBLIC. A role gets a level with memory_grant; the level is
-- EXECUTE on the functions of that level and SELECT on views (75_views.sql). No role gets INSERT, UPDATE
-- or DELETE: the functions write as the extension's owner after they have checked the caller.

CREATE FUNCTION memory_agent.visible_users() RETURNS text[]
    LANGUAGE c STABLE PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'visible_users_wrapper';

-- No level grants SELECT on these tables. Their policies stand behind that, for a role that is granted it by hand.
-- A policy that names a C function is closed while the library is missing or broken; one that reads
-- current_setting() would be open to any SET before the library is loaded.
DO $policies$
DECLARE
    guarded text;
BEGIN
    FOREACH guarded IN ARRAY ARRAY['sessions', 'agents', 'entries', 'entry_windows', 'session_summaries',
                                   'episodes', 'jobs', 'history', 'llm_calls', 'traces', 'archives',
                                   'tokens', 'quotas', 'quota_counts']
    LOOP
        EXECUTE pg_catalog.format('ALTER TABLE memory_agent.%I ENABLE ROW LEVEL SECURITY', guarded);
        EXECUTE pg_catalog.format(
            'CREATE POLICY visible ON memory_agent.%I FOR SELECT '
            'USING (user_id OPERATOR(pg_catalog.=) ANY ((SELECT memory_agent.visible_users())::pg_catalog.text[]))',
            guarded);
    END LOOP;
END
$policies$;

-- What decides who may do what, and which files run as models, is changed by functions alone. A privilege
-- on all tables of the database, as members of pg_write_all_data have it, must not make an administrator of
-- its role: with row-level security and no policy for it, it changes nothing. Who may read is decided by
-- privileges, as before.
ALTER TABLE memory_agent.grants ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_agent.models ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_agent.attachments ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_agent.spending ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_agent.endpoints ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_agent.endpoint_uses ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_agent.llm_probes ENABLE ROW LEVEL SECURITY;
CREATE POLICY readable ON memory_agent.grants FOR SELECT USING (true);
CREATE POLICY readable ON memory_agent.models FOR SELECT USING (true);
CREATE POLICY readable ON memory_agent.attachments FOR SELECT USING (true);

-- The lowest level that may call each function. A function that is missing here cannot be granted,
-- and a test fails.
CREATE FUNCTION memory_agent.function_levels() RETURNS TABLE (function_name name, level text)
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

CREATE FUNCTION memory_grant(role regrole, level text DEFAULT 'user') RETURNS void
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

-- Gives every role the privileges of its level again. Update scripts end with it, so that levels reach
-- what is new.
CREATE FUNCTION memory_agent.renew_levels() RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'renew_levels_wrapper';

CREATE FUNCTION memory_revoke(role regrole) RETURNS boolean
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

CREATE FUNCTION memory_agent.require_owner() RETURNS void
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

CREATE FUNCTION memory_agent.require_role(role regrole) RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE oid = require_role.role) THEN
        RAISE EXCEPTION 'there is no role %', coalesce(require_role.role::text, 'NULL')
            USING ERRCODE = 'undefined_object', HINT = 'Name an existing role, for example ''app''.';
    END IF;
    IF EXISTS (SELECT FROM pg_extension WHERE extname = 'memory_agent' AND extowner = require_role.role) THEN
        RAISE EXCEPTION 'role % owns the extension and has every right already', require_role.role
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Levels are for other roles.';
    END IF;
END
$$;

CREATE FUNCTION memory_agent.public_schema() RETURNS name
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
     WHERE e.extname = 'memory_agent'
$$;

CREATE FUNCTION memory_agent.revoke_all(role regrole) RETURNS void
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    member record;
BEGIN
    FOR member IN
        SELECT CASE d.classid
                   WHEN 'pg_proc'::regclass THEN 'FUNCTION ' || d.objid::regprocedure
                   ELSE 'TABLE ' || d.objid::regclass
               END AS object
          FROM pg_depend d
          JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'memory_agent'
         WHERE d.deptype = 'e'
           AND (d.classid = 'pg_proc'::regclass
                OR (d.classid = 'pg_class'::regclass
                    AND EXISTS (SELECT FROM pg_class c
                                 WHERE c.oid = d.objid AND c.relkind IN ('r', 'p', 'v'))))
    LOOP
        EXECUTE format('REVOKE ALL ON %s FROM %s', member.object, revoke_all.role);
    END LOOP;
    EXECUTE format('REVOKE ALL ON SCHEMA memory_agent FROM %s', revoke_all.role);
END
$$;
