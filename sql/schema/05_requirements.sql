-- What has to be true before anything is created: a UTF-8 database, and a pgvector that this
-- version can use. The type "vector" is named unqualified in the scripts that follow, so it is
-- checked here that the name really resolves to pgvector's type (PostgreSQL 15 has no
-- @extschema:vector@).
DO $requirements$
DECLARE
    installed text;
BEGIN
    IF pg_catalog.current_setting('server_encoding') OPERATOR(pg_catalog.<>) 'UTF8' THEN
        RAISE EXCEPTION 'memory_agent needs a database with encoding UTF8, this one has %',
                        pg_catalog.current_setting('server_encoding')
            USING ERRCODE = 'feature_not_supported',
                  HINT = 'Create a database with ENCODING ''UTF8'' TEMPLATE template0.';
    END IF;
    SELECT e.extversion INTO STRICT installed
      FROM pg_catalog.pg_extension e
     WHERE e.extname OPERATOR(pg_catalog.=) 'vector';
    IF pg_catalog.string_to_array(pg_catalog.substring(installed, '^[0-9.]+'), '.')::pg_catalog.int4[]
       OPERATOR(pg_catalog.<) ARRAY[0, 8, 0] THEN
        RAISE EXCEPTION 'memory_agent needs pgvector 0.8.0 or newer, found %', installed
            USING ERRCODE = 'feature_not_supported',
                  HINT = 'Install a newer pgvector, then run ALTER EXTENSION vector UPDATE.';
    END IF;
    PERFORM 1
       FROM pg_catalog.pg_depend d
       JOIN pg_catalog.pg_extension e
         ON e.oid OPERATOR(pg_catalog.=) d.refobjid
        AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
      WHERE d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_type'::pg_catalog.regclass
        AND d.objid OPERATOR(pg_catalog.=) 'vector'::pg_catalog.regtype
        AND d.deptype OPERATOR(pg_catalog.=) 'e'
        AND e.extname OPERATOR(pg_catalog.=) 'vector';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the type "vector" that is found first is not the one of pgvector'
            USING ERRCODE = 'invalid_object_definition',
                  HINT = 'Rename the other type, or put pgvector''s schema before its schema.';
    END IF;
END
$requirements$;
