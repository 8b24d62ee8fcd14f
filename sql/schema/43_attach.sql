-- Attached tables: rows of the application's own tables that are memory (src/api/attach.rs and
-- attached.rs). Only administrators may make triggers of the function.

CREATE FUNCTION memory_attach(
    relation regclass, content_column text, user_id_column text DEFAULT NULL,
    session_id_column text DEFAULT NULL, role text DEFAULT 'user',
    metadata_columns text[] DEFAULT '{}', created_at_column text DEFAULT NULL,
    embed text DEFAULT 'async', backfill boolean DEFAULT true, role_column text DEFAULT NULL,
    user_id text DEFAULT NULL, agent_id text DEFAULT NULL)
    RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_attach_wrapper';

-- It says whether facts are extracted, and has the users' column last: so no call fits both.
CREATE FUNCTION memory_attach(
    relation regclass, content_column text, extract_facts boolean,
    session_id_column text DEFAULT NULL, role text DEFAULT 'user',
    metadata_columns text[] DEFAULT '{}', created_at_column text DEFAULT NULL,
    embed text DEFAULT 'async', backfill boolean DEFAULT true, role_column text DEFAULT NULL,
    user_id text DEFAULT NULL, agent_id text DEFAULT NULL, user_id_column text DEFAULT NULL)
    RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_attach_extracting_wrapper';

CREATE FUNCTION memory_detach(relation text, forget boolean DEFAULT false)
    RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_detach_wrapper';

-- The trigger function of attached tables. Its arguments are the id of the attachment, and whether the
-- trigger is on the whole table or on a partition.
CREATE FUNCTION memory_agent.attached_rows() RETURNS trigger
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'attached_rows_wrapper';
