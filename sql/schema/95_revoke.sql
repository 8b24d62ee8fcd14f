-- Last: whatever PostgreSQL or the database's default privileges gave to PUBLIC is taken back.
DO $revoke$
DECLARE
    member record;
BEGIN
    FOR member IN
        SELECT CASE d.classid
                   WHEN 'pg_catalog.pg_proc'::pg_catalog.regclass
                   THEN pg_catalog.concat('FUNCTION ', d.objid::pg_catalog.regprocedure)
                   ELSE pg_catalog.concat('TABLE ', d.objid::pg_catalog.regclass)
               END AS object
          FROM pg_catalog.pg_depend d
          JOIN pg_catalog.pg_extension e
            ON e.oid OPERATOR(pg_catalog.=) d.refobjid
           AND e.extname OPERATOR(pg_catalog.=) 'memory_agent'
         WHERE d.deptype OPERATOR(pg_catalog.=) 'e'
           AND (d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
                OR EXISTS (SELECT FROM pg_catalog.pg_class c
                            WHERE d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
                              AND c.oid OPERATOR(pg_catalog.=) d.objid
                              AND c.relkind OPERATOR(pg_catalog.=) ANY (ARRAY['r', 'p', 'v']::"char"[])))
    LOOP
        EXECUTE pg_catalog.concat('REVOKE ALL ON ', member.object, ' FROM PUBLIC');
    END LOOP;
    REVOKE ALL ON SCHEMA memory_agent FROM PUBLIC;
END
$revoke$;
