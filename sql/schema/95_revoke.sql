-- Last: only the owner keeps privileges. Whatever PostgreSQL gives to PUBLIC, or the database's
-- default privileges give to any role, is taken back: a role that could write memory_agent.grants, or
-- put a trigger on a table that is written as the owner, would be the owner.
DO $revoke$
DECLARE
    granted record;
BEGIN
    FOR granted IN
        WITH member AS (
            SELECT d.classid, d.objid
              FROM pg_catalog.pg_depend d
              JOIN pg_catalog.pg_extension e
                ON e.oid OPERATOR(pg_catalog.=) d.refobjid
               AND e.extname OPERATOR(pg_catalog.=) 'memory_agent'
             WHERE d.deptype OPERATOR(pg_catalog.=) 'e'),
        object AS (
            SELECT pg_catalog.concat('FUNCTION ', p.oid::pg_catalog.regprocedure) AS name, p.proowner AS owner,
                   coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner)) AS acl
              FROM member m
              JOIN pg_catalog.pg_proc p
                ON p.oid OPERATOR(pg_catalog.=) m.objid
               AND m.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
            UNION ALL
            SELECT pg_catalog.concat('TABLE ', c.oid::pg_catalog.regclass), c.relowner, c.relacl
              FROM member m
              JOIN pg_catalog.pg_class c
                ON c.oid OPERATOR(pg_catalog.=) m.objid
               AND m.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
             WHERE c.relkind OPERATOR(pg_catalog.=) ANY (ARRAY['r', 'p', 'v']::pg_catalog."char"[])
            UNION ALL
            SELECT 'SCHEMA memory_agent', n.nspowner, n.nspacl
              FROM pg_catalog.pg_namespace n
             WHERE n.nspname OPERATOR(pg_catalog.=) 'memory_agent')
        SELECT DISTINCT o.name AS object,
               CASE WHEN a.grantee OPERATOR(pg_catalog.=) 0::pg_catalog.oid THEN 'PUBLIC'
                    ELSE a.grantee::pg_catalog.regrole::pg_catalog.text END AS grantee
          FROM object o, pg_catalog.aclexplode(o.acl) a
         WHERE a.grantee OPERATOR(pg_catalog.<>) o.owner
    LOOP
        EXECUTE pg_catalog.concat('REVOKE ALL ON ', granted.object, ' FROM ', granted.grantee, ' CASCADE');
    END LOOP;
END
$revoke$;

-- The same of row types, which pg_dump must not take for part of the extension: it cannot dump them.
SELECT memory_agent.renew_levels();
