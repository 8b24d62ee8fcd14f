//! What is there right after CREATE EXTENSION: privileges for its owner alone, whatever the default
//! privileges of the database say.

use crate::create_roles;
use memory_agent_e2e::{Client, expect_error, shared};

/// Every grantee but the owner in the privileges of the extension's objects. The NULL that means
/// PostgreSQL's built-in defaults is expanded, for those give PUBLIC the right to call functions.
const GRANTEES: &str = "\
    WITH members AS (SELECT d.classid, d.objid FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid \
                      WHERE e.extname = 'memory_agent' AND d.deptype = 'e'), \
    privileges AS ( \
        SELECT c.oid::regclass::text AS object, c.relowner AS owner, \
               coalesce(c.relacl, acldefault('r', c.relowner)) AS acl \
          FROM pg_class c JOIN members m ON m.classid = 'pg_class'::regclass AND m.objid = c.oid \
        UNION ALL \
        SELECT p.oid::regprocedure::text, p.proowner, coalesce(p.proacl, acldefault('f', p.proowner)) \
          FROM pg_proc p JOIN members m ON m.classid = 'pg_proc'::regclass AND m.objid = p.oid \
        UNION ALL \
        SELECT n.nspname, n.nspowner, coalesce(n.nspacl, acldefault('n', n.nspowner)) \
          FROM pg_namespace n JOIN members m ON m.classid = 'pg_namespace'::regclass AND m.objid = n.oid) \
    SELECT x.object, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END, a.privilege_type \
      FROM privileges x, aclexplode(x.acl) a WHERE a.grantee <> x.owner ORDER BY 1, 2, 3";

fn grantees(client: &mut Client) -> Vec<(String, String, String)> {
    let rows = client.query(GRANTEES, &[]).unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

#[test]
fn only_the_owner_has_privileges() {
    let mut client = shared().database("privileges_fresh").connect();
    assert_eq!(grantees(&mut client), []);
}

/// `ALTER DEFAULT PRIVILEGES .. TO app` is how many installations give their application its rights.
/// Here it would hand out the table of levels, and triggers that run as the extension's owner.
#[test]
fn default_privileges_give_nothing_away() {
    let mut client = shared().plain_database("privileges_default");
    create_roles(&mut client, &["default_app"]);
    client.batch_execute("CREATE EXTENSION vector").unwrap();
    for grantee in ["PUBLIC", "default_app"] {
        for objects in ["TABLES", "FUNCTIONS", "SEQUENCES", "TYPES", "SCHEMAS"] {
            client
                .batch_execute(&format!(
                    "ALTER DEFAULT PRIVILEGES GRANT ALL ON {objects} TO {grantee}"
                ))
                .unwrap();
        }
    }
    client.batch_execute("CREATE EXTENSION memory_agent").unwrap();
    assert_eq!(grantees(&mut client), []);
    let mut app = shared().connect_as("privileges_default", "default_app");
    let become_admin =
        "INSERT INTO memory_agent.grants (role_name, level) VALUES ('default_app', 'admin')";
    expect_error(app.execute(become_admin, &[]), "42501");
}

#[test]
fn create_extension_is_for_superusers() {
    let mut client = shared().plain_database("privileges_create");
    create_roles(&mut client, &["database_owner"]);
    client
        .batch_execute(
            "CREATE EXTENSION vector; ALTER DATABASE privileges_create OWNER TO database_owner; \
             GRANT ALL ON SCHEMA public TO database_owner",
        )
        .unwrap();
    let mut owner = shared().connect_as("privileges_create", "database_owner");
    expect_error(owner.batch_execute("CREATE EXTENSION memory_agent"), "42501");
}

/// Who may not write may not change the objects either.
#[test]
fn objects_cannot_be_changed() {
    let database = shared().database("privileges_ddl");
    let mut superuser = database.connect();
    create_roles(&mut superuser, &["ddl_admin"]);
    crate::grant(&mut superuser, "ddl_admin", "admin");
    superuser
        .batch_execute(
            "GRANT CREATE ON DATABASE privileges_ddl TO ddl_admin; \
             GRANT CREATE ON SCHEMA public TO ddl_admin",
        )
        .unwrap();
    let mut client = shared().connect_as(database.name(), "ddl_admin");
    client
        .batch_execute(
            "CREATE FUNCTION public.f() RETURNS trigger \
             LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
        )
        .unwrap();
    client
        .batch_execute(
            "CREATE FUNCTION public.g(text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT $1'",
        )
        .unwrap();
    for statement in [
        "ALTER TABLE memory_agent.entries DISABLE ROW LEVEL SECURITY",
        "DROP POLICY visible ON memory_agent.entries",
        "CREATE POLICY mine ON memory_agent.entries USING (true)",
        "CREATE TRIGGER t BEFORE INSERT ON memory_agent.entries FOR EACH ROW EXECUTE FUNCTION public.f()",
        "CREATE RULE r AS ON INSERT TO memory_agent.entries DO ALSO SELECT 1",
        "CREATE INDEX ON memory_agent.entries (public.g(content))",
        "CREATE STATISTICS memory_agent.s ON kind, role FROM memory_agent.entries",
        "CREATE TABLE child () INHERITS (memory_agent.entries)",
        "CREATE TABLE referring (u text, i uuid, FOREIGN KEY (u, i) REFERENCES memory_agent.entries)",
        "CREATE FUNCTION memory_agent.f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "ALTER FUNCTION memory_agent.visible_users() RENAME TO v",
        "CREATE OR REPLACE FUNCTION public.memory_count_tokens(text text) RETURNS int \
         LANGUAGE sql AS 'SELECT 1'",
        "CREATE OR REPLACE VIEW public.memory_traces AS SELECT 1",
        "ALTER EXTENSION memory_agent ADD FUNCTION public.g(text)",
        "ALTER EXTENSION memory_agent DROP TABLE memory_agent.grants",
        "DROP EXTENSION memory_agent",
        "ALTER SCHEMA memory_agent RENAME TO mine",
        "ALTER VIEW public.memory_entries SET (security_barrier = false)",
        "COMMENT ON TABLE memory_agent.entries IS 'mine'",
        "GRANT SELECT ON memory_agent.entries TO PUBLIC",
    ] {
        expect_error(client.batch_execute(statement).map(|()| statement), "42501");
    }
    // This is only a WARNING for who has the privilege without the grant option.
    client.batch_execute("GRANT SELECT ON memory_entries TO PUBLIC").unwrap();
    assert!(grantees(&mut superuser).iter().all(|(_, grantee, _)| grantee == "ddl_admin"));
}
