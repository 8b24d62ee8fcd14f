-- Attached tables: rows of the application's own tables that are memory (src/api/attach.rs and
-- attached.rs). Only administrators may make triggers of the function.

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

CREATE FUNCTION memory_detach(relation text, forget boolean DEFAULT false)
    RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_detach_wrapper';

-- The trigger function of attached tables. Its arguments are the id of the attachment, and whether the
-- trigger is on the whole table or on a partition.
CREATE FUNCTION memory_agent.attached_rows() RETURNS trigger
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'attached_rows_wrapper';
