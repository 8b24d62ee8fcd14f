\echo Use "ALTER EXTENSION memory_agent UPDATE TO '0.3.0'" to load this file. \quit

-- From 0.2.0 to 0.3.0. What a feature adds to sql/schema/ it adds to its section here as well. New columns
-- come last in their tables. The suite `upgrade` compares the outcome with a fresh 0.3.0.

-- The members of 0.2.0: what is not among them at the end is new.
SELECT pg_catalog.set_config('memory_agent_update.members', (
           SELECT pg_catalog.string_agg(pg_catalog.concat(d.classid, ' ', d.objid), ',')
             FROM pg_catalog.pg_depend d
             JOIN pg_catalog.pg_extension e
               ON e.oid OPERATOR(pg_catalog.=) d.refobjid
              AND e.extname OPERATOR(pg_catalog.=) 'memory_agent'
            WHERE d.deptype OPERATOR(pg_catalog.=) 'e'), true);

-- === Tables that only functions change ===

-- A privilege on all tables of the database, as members of pg_write_all_data have it, must not make an
-- administrator of its role.
ALTER TABLE memory_agent.grants ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_agent.models ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_agent.attachments ENABLE ROW LEVEL SECURITY;
CREATE POLICY readable ON memory_agent.grants FOR SELECT USING (true);
CREATE POLICY readable ON memory_agent.models FOR SELECT USING (true);
CREATE POLICY readable ON memory_agent.attachments FOR SELECT USING (true);

-- === The next job that is due ===

CREATE INDEX jobs_due_idx ON memory_agent.jobs (run_after)
    WHERE status OPERATOR(pg_catalog.=) 'pending';

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
