\echo Use "ALTER EXTENSION memory_agent UPDATE TO '0.2.0'" to load this file. \quit

-- From 0.1.0 to 0.2.0. What a feature adds to sql/schema/ it adds to its section here as well. New columns
-- come last in their tables. The suite `upgrade` compares the outcome with a fresh 0.2.0.

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

-- The members of 0.1.0: what is not among them at the end is new.
SELECT pg_catalog.set_config('memory_agent_update.members', (
           SELECT pg_catalog.string_agg(pg_catalog.concat(d.classid, ' ', d.objid), ',')
             FROM pg_catalog.pg_depend d
             JOIN pg_catalog.pg_extension e
               ON e.oid OPERATOR(pg_catalog.=) d.refobjid
              AND e.extname OPERATOR(pg_catalog.=) 'memory_agent'
            WHERE d.deptype OPERATOR(pg_catalog.=) 'e'), true);

-- === Lifecycle ===

CREATE INDEX entries_replaced_by_idx ON memory_agent.entries (user_id, replaced_by)
    WHERE replaced_by IS NOT NULL;

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

COMMENT ON FUNCTION memory_update(uuid,text,text) IS
    'Gives a turn or fact another text and returns the id of the new version, or id when it has the text already. The old row becomes inactive (superseded) at now(); recall with as_of before that still finds it. The new one keeps session, role, metadata, key, expiry, sources and, if it is a turn, its place in the conversation; it is embedded as by memory_ingest, and markers that the old text showed are looked for in the new one. A fact of the scope that says so already takes the place, and its id is returned. content: 1 byte to memory_agent.max_content_bytes. Errors: 42704 when the user has no such entry, 22023 for one that is inactive, a chunk of a document, a row of an attached table or only the source of facts, 25006 in a read-only transaction, 42501.';
COMMENT ON FUNCTION memory_forget(uuid,text,text) IS
    'Forgets a turn, a fact, a document (by the id of memory_add_document) or a chunk of one: it becomes inactive, and recall no longer returns it. False when there is nothing to forget. It stays for history, for as_of before now, and for memory_restore. Facts and summaries that were made of a turn stay; from now on none are made of it. reason: kept in history, at most 1000 bytes. Errors: 22023, 25006 in a read-only transaction, 42501.';
COMMENT ON FUNCTION memory_restore(uuid,text) IS
    'Brings back what is not in the window any more: what was forgotten, cleared, replaced or expired, and what left the window. False when there is nothing to bring back. valid_to becomes NULL, as if it had held all the time; what had expired has no expiry any more. Errors: 22023 when its content was purged, or something else holds its place (a later version of it, a fact of its key or with its text, an entry of its table row), which the hint names; 25006 in a read-only transaction, 42501.';
COMMENT ON FUNCTION memory_history(uuid,text) IS
    'What happened to a memory, oldest first: to the entry, the versions before it and those that took its place; also to a document or a summary. at: when. op: ingest, add (a fact, or the next version), import, update (the next version took its place), supersede (something newer did), delete, expire, restore, erase. actor: the SQL role; NULL for ingest, which is read from the row itself. content, entry: the text and the row after the event, NULL once erased. job_id: the job that did it. seq: the number in the user''s chain, NULL until it is sealed. No rows for an unknown id. Errors: 22023 for NULL, 42501.';

-- === History and erasure ===

ALTER TABLE memory_agent.history ADD COLUMN key_id text, ADD COLUMN erased_by uuid;

-- What is to be sealed, user by user.
CREATE INDEX history_unsealed_idx ON memory_agent.history (user_id, at, id) WHERE seq IS NULL;
-- Erasures, for whoever was at work on a user's memory meanwhile.
CREATE INDEX history_erasures_idx ON memory_agent.history (user_id) WHERE op = 'erase';

CREATE FUNCTION memory_verify_history(
    user_id text DEFAULT NULL, seq bigint DEFAULT NULL, hash bytea DEFAULT NULL)
    RETURNS TABLE (user_id text, state text, seq bigint, hash bytea, id uuid, sealed bigint,
                   unsealed bigint, detail text)
    LANGUAGE c STABLE PARALLEL UNSAFE ROWS 10 COST 100000
    AS 'MODULE_PATHNAME', 'memory_verify_history_wrapper';

CREATE FUNCTION memory_erase(
    user_id text DEFAULT NULL, session_id text DEFAULT NULL, id uuid DEFAULT NULL,
    reason text DEFAULT NULL, agent_id text DEFAULT NULL)
    RETURNS jsonb LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_erase_wrapper';

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

COMMENT ON TABLE memory_agent.history IS 'Append-only record of what happened to memory: a hash chain per user over salted commitments.';
COMMENT ON FUNCTION memory_verify_history(text,bigint,bytea) IS
    'Reads the hash chain of a user''s history and says whether it is whole. Never writes. user_id: default the caller; an administrator who leaves it out reads everybody''s. seq, hash: a head that was kept elsewhere, which has to be in the chain of that user. Per user one row of state intact or broken with seq and hash of the last sealed row, to be kept elsewhere, and how many rows are sealed and not sealed yet; then a row for each problem, at most 1000 a user: edited, reordered, missing, unlinked, body (not what was committed to), body gone (without an erasure), unknown key (not in the file of memory_agent.audit_key_file), downgrade (sealed without a key after rows with one), head (the kept one is not there). id: the row of history. Errors: 58000 when the key file cannot be read, 22023, 42501.';
COMMENT ON FUNCTION memory_erase(text,text,uuid,text,text) IS
    'Takes memory away for good, in the tables of memory_agent, and returns how many rows of each lost their content. Name one: id, an entry with its versions (by memory_update, or of the same fact_key), or a document; session_id, with agent_id, a session; or user_id alone, everything of that user. What was made of nothing else goes too: facts, traces, embeddings, jobs; summaries and archived conversations that contain some of it, which are made anew from what is left while there is an LLM. History keeps its rows without body and reason, and one of op erase with counts, ids, the digest of a session''s name, and reason (at most 1000 bytes). Recorded calls of models of the user lose their texts. The caches of the model server are emptied. What is unknown comes to counts of 0. Rows of attached tables stay. Errors: 22023, 25001 above READ COMMITTED, 25006 in a read-only transaction, 42501.';
COMMENT ON FUNCTION memory_agent.history_is_open() IS
    'Whether a statement of the extension that may change history runs in this session now: it seals rows, or erases bodies.';
COMMENT ON FUNCTION memory_agent.refuse_history_change() IS
    'Trigger function: raises 42501.';
COMMENT ON COLUMN memory_agent.history.op IS 'What happened: add, import, update, supersede, delete, restore, expire, erase, summarize, ...';
COMMENT ON COLUMN memory_agent.history.actor IS 'The role that was logged in (session_user); the worker is a superuser.';
COMMENT ON COLUMN memory_agent.history.body IS 'The entry or summary as it was after the event; NULL when it was erased.';
COMMENT ON COLUMN memory_agent.history.commitment IS 'SHA-256 of salt, body and, if there is one, a zero byte and the reason.';
COMMENT ON COLUMN memory_agent.history.seq IS 'Number of the row in its user''s chain, from 1; NULL until it is sealed.';
COMMENT ON COLUMN memory_agent.history.key_id IS 'The key that sealed the row; NULL when there was none.';
COMMENT ON COLUMN memory_agent.history.erased_by IS 'The row of op erase that took body, salt and reason away.';

-- === Attached tables ===

ALTER TABLE memory_agent.attachments
    ADD COLUMN user_id        text,
    ADD COLUMN agent_id       text NOT NULL DEFAULT 'default',
    ADD COLUMN role_column    text,
    ADD COLUMN relation_oid   oid,
    ADD COLUMN column_numbers smallint[] NOT NULL DEFAULT '{}';

-- The entry of a row of an attached table, whosever memory it is in.
CREATE INDEX entries_source_row_idx ON memory_agent.entries (source_relation, source_key)
    WHERE source_key IS NOT NULL AND state <> 'inactive';

CREATE FUNCTION memory_attach(
    relation regclass, content_column text, user_id_column text DEFAULT NULL,
    session_id_column text DEFAULT NULL, role text DEFAULT 'user',
    metadata_columns text[] DEFAULT '{}', created_at_column text DEFAULT NULL,
    embed text DEFAULT 'async', backfill boolean DEFAULT true, role_column text DEFAULT NULL,
    user_id text DEFAULT NULL, agent_id text DEFAULT NULL)
    RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_attach_wrapper';

CREATE FUNCTION memory_detach(relation text, forget boolean DEFAULT false)
    RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_detach_wrapper';

-- The trigger function of attached tables. Its arguments are the id of the attachment, and whether the
-- trigger is on the whole table or on a partition.
CREATE FUNCTION memory_agent.attached_rows() RETURNS trigger
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'attached_rows_wrapper';

COMMENT ON FUNCTION memory_attach(regclass,text,text,text,text,text[],text,text,boolean,text,text,text) IS
    'Makes the rows of a table memory, by statement triggers: a row is an entry of kind turn, an UPDATE of its content supersedes that, DELETE and TRUNCATE end it. Returns the job that takes in the rows that are there, NULL with backfill => false. content_column: the text. user_id_column: whose memory a row belongs to; without it, whoever writes the row. user_id: the user of all rows, also ''*''. session_id_column: the session; NULL is global memory. role, role_column: as in memory_ingest. metadata_columns: columns that become metadata. created_at_column: since when a row holds. embed: async (by the worker), sync (in the statement), off. agent_id: default memory_agent.agent_id, else ''default''. A row without content or user is no memory; one that cannot be stored is refused with a WARNING and a dead job. Attached again, it takes what is said now, makes missing triggers and reads all rows. Errors: 42501 unless the caller has the level admin and owns the table; 0A000 for views, foreign and temporary tables, inheritance; 22023 without a primary key or for a wrong column.';
COMMENT ON FUNCTION memory_detach(text,boolean) IS
    'Ends the attachment of a table: drops the triggers and cancels its jobs. relation: the table, or the name of a table that is gone. forget: also end the entries of its rows, which otherwise stay as they are. Returns how many ended. Errors: 42704 when it is not attached, 42501 unless the caller has the level admin and owns the table.';
COMMENT ON FUNCTION memory_agent.attached_rows() IS
    'The trigger function of attached tables. Made into triggers by memory_attach only.';
COMMENT ON COLUMN memory_agent.attachments.relation IS 'The name that the table had when it was attached: source_relation of its rows'' entries.';
COMMENT ON COLUMN memory_agent.attachments.user_id IS 'The user of every row; NULL where a column says it, or who writes the row.';
COMMENT ON COLUMN memory_agent.attachments.relation_oid IS 'The table; out of date after a dump and restore, when the names count.';
COMMENT ON COLUMN memory_agent.attachments.column_numbers IS 'The numbers of the columns for content, user, session, time, role and metadata, 0 for none: they hold when a column is renamed.';
COMMENT ON COLUMN memory_agent.entries.source_key IS 'The primary key of the attached table''s row, a JSON array.';

-- The payload of a job is for the worker.
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
    EXECUTE format('GRANT SELECT ON memory_agent.sessions, memory_agent.agents, memory_agent.entries, '
                   'memory_agent.entry_windows, memory_agent.session_summaries, '
                   'memory_agent.episodes, memory_agent.archives, '
                   '%1$I.memory_entries, %1$I.memory_session_summaries, %1$I.memory_jobs TO %2$s',
                   memory_agent.public_schema(), memory_grant.role);
    -- The payload of a job is for the worker: it may know keys of rows that are other people's.
    EXECUTE format('GRANT SELECT (id, kind, user_id, agent_id, session_id, entry_id, status, priority, '
                   'attempts, max_attempts, interrupted, run_after, leased_until, leased_by, progress, '
                   'progress_of, last_error, created_at, finished_at) '
                   'ON memory_agent.jobs TO %s', memory_grant.role);
    EXECUTE format('GRANT SELECT (name, kind, dimension, active, registered_at) '
                   'ON memory_agent.models TO %s', memory_grant.role);
    IF memory_grant.level = 'admin' THEN
        EXECUTE format('GRANT SELECT ON memory_agent.history, memory_agent.llm_calls, '
                       'memory_agent.traces, memory_agent.attachments, '
                       'memory_agent.grants, %1$I.memory_llm_calls, %1$I.memory_traces TO %2$s',
                       memory_agent.public_schema(), memory_grant.role);
    END IF;
    INSERT INTO memory_agent.grants (role_name, level)
    SELECT rolname, memory_grant.level FROM pg_roles WHERE oid = memory_grant.role
        ON CONFLICT (role_name) DO UPDATE SET level = excluded.level, granted_at = now();
END
$$;


-- === Change of the embedding model ===

ALTER TABLE memory_agent.jobs
    DROP CONSTRAINT jobs_kind_check,
    ADD CONSTRAINT jobs_kind_check CHECK (kind IN ('embed', 'extract', 'reflect', 'summarize',
                                                   'compress', 'evict', 'reembed', 'attach'));

-- Which models the vectors are of.
CREATE INDEX entries_model_idx ON memory_agent.entries (embedding_model)
    WHERE embedding_model IS NOT NULL;
-- Whether a user has windows of a model at all; the first ones are there while models are changed.
CREATE INDEX entry_windows_model_idx
    ON memory_agent.entry_windows (embedding_model, user_id, ordinal);

CREATE FUNCTION memory_use_embedding_model(name text)
    RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_use_embedding_model_wrapper';

COMMENT ON TABLE memory_agent.entry_windows IS 'The further windows of entries that are longer than their embedding model reads at once; while the model is changed also what the next one makes of all entries.';
COMMENT ON FUNCTION memory_use_embedding_model(text) IS
    'Changes the embedding model of this database while it is in use, and returns the job that does it. name: a registered embedder, or a folder in memory_agent.model_dir. Recall goes on with the old model until every entry has a vector of the new one, then changes to it at once; memory_jobs shows the progress. Naming the model in use gives the change up. Errors: 22023 for a model that is no embedder, 58000 for one that cannot be loaded, 42501.';

-- === Corrections ===

-- What is deleted after memory_agent.purge_after.
CREATE INDEX traces_at_idx ON memory_agent.traces (at);
COMMENT ON COLUMN memory_agent.entries.source_ids IS 'The turns a fact came from; with an empty content, turns that are out of date with the fact in replaced_by.';

-- === Levels ===

CREATE OR REPLACE FUNCTION memory_agent.function_levels() RETURNS TABLE (function_name name, level text)
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
    AS $$
    VALUES ('memory_recall'::name, 'reader'), ('memory_explain', 'reader'),
           ('memory_context', 'reader'), ('memory_augment', 'reader'),
           ('memory_embed', 'reader'), ('memory_rerank', 'reader'), ('memory_count_tokens', 'reader'),
           ('memory_list_documents', 'reader'), ('memory_search_archive', 'reader'),
           ('memory_load', 'reader'), ('memory_originals', 'reader'),
           ('memory_export_markdown', 'reader'),
           ('memory_history', 'reader'), ('memory_verify_history', 'reader'),
           ('memory_status', 'reader'), ('memory_stats', 'reader'), ('visible_users', 'reader'),

           ('memory_ingest', 'user'), ('memory_ingest_batch', 'user'), ('memory_add', 'user'),
           ('memory_add_document', 'user'), ('memory_import_markdown', 'user'),
           ('memory_chat', 'user'), ('memory_summarize', 'user'),
           ('memory_close_episode', 'user'), ('memory_compress', 'user'),
           ('memory_reserve_tokens', 'user'), ('memory_configure', 'user'),
           ('memory_wait', 'user'), ('memory_retry', 'user'), ('memory_backfill', 'user'),
           ('memory_update', 'user'), ('memory_forget', 'user'), ('memory_restore', 'user'),
           ('memory_clear', 'user'), ('memory_erase', 'user'),

           ('memory_register_model', 'admin'), ('memory_use_embedding_model', 'admin'),
           ('memory_create_vector_index', 'admin'),
           ('memory_attach', 'admin'), ('memory_detach', 'admin'), ('attached_rows', 'admin')
$$;

CREATE FUNCTION memory_agent.renew_levels() RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'renew_levels_wrapper';

COMMENT ON FUNCTION memory_agent.renew_levels() IS
    'Gives every role the privileges of its level again, after an update or a restore without privileges of single objects. Only for the owner of the extension.';

-- === Import ===

COMMENT ON FUNCTION memory_import_markdown(text,text,text) IS
    'Stores the memory in a Markdown file and returns its id. content: a front matter between two lines ---, then the text; as memory_export_markdown, agent-cli or a person writes it. path: tells what the front matter leaves out (session, role, whether it was deleted); NULL when it leaves out nothing. Id, times, state, markers, metadata and sources are kept; embedding, words and token count are made anew, as by memory_ingest. An id that is stored with the same content is left as it is, so files can be imported again. Errors: 22023 for a file that cannot be read or stored, for an id that is stored with another content, and for a fact_key that another fact holds; 42501, also for the memory of an attached table''s row, which only administrators import.';

-- === Calls of language models ===

COMMENT ON FUNCTION memory_chat(jsonb,text,text,text,integer,real,real,text,text,real,integer) IS
    'Asks the LLM with memories put before the user''s last message, stores that message and the answer as turns of the session, and returns an OpenAI chat completion with memory_hits. Waits for the LLM: longest memory_agent.llm_timeout a call; cancel and statement_timeout end it, and nothing is stored then. When the LLM fails, the user''s message is stored and the result is {error: {code, message}, memory_hits}; code is unavailable, failed, refused or bad_answer. messages, session_id, top_k, recency_weight, score_threshold: as in memory_augment. model: instead of memory_agent.llm_model. post_process: background (facts and summaries are made after COMMIT). temperature: 0 to 2. max_tokens: of the answer. Errors: 55000 without an LLM or with memory_agent.inference = backend, 25006 in a read-only transaction, 22023 for messages without a text of the user, 0A000 for post_process => wait (call memory_wait() after COMMIT), 42501; 40001 when memory of the user was erased meanwhile: nothing is stored then, call it again.';

COMMENT ON COLUMN memory_agent.llm_calls.status IS 'ok, or what went wrong: http 429, timeout, connection, bad answer, ...; abandoned: nobody read the answer, and prompt_tokens is an estimate.';

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
