//! The catalog of an updated database is that of a fresh one, down to comments and privileges.

use crate::{RELEASED, newest_version, older_database, schema_version, update};
use memory_agent_e2e::memory::values;
use memory_agent_e2e::{Client, shared};
use std::collections::BTreeSet;

/// One query for each kind of thing: its rows are sentences about ours. {MEMBERS} gives `d.classid` and
/// `d.objid` of the members; {RELATIONS} the tables and views among them, with their indexes, as `c`.
const SENTENCES: &[&str] = &[
    "SELECT 'member ' || pg_describe_object(d.classid, d.objid, 0) FROM {MEMBERS}",
    "SELECT format('extension %s schema %s relocatable %s', x.extversion, x.extnamespace::regnamespace, \
                   x.extrelocatable) \
       FROM pg_extension x WHERE x.extname = 'memory_agent'",
    "SELECT format('dumped %s where <%s>', t.oid::regclass, t.condition) \
       FROM pg_extension x, unnest(x.extconfig, x.extcondition) t(oid, condition) \
      WHERE x.extname = 'memory_agent'",
    "SELECT format('relation %s kind %s persistence %s options %s security %s %s replica %s owner %s acl %s', \
                   c.oid::regclass, c.relkind, c.relpersistence, c.reloptions, c.relrowsecurity, \
                   c.relforcerowsecurity, c.relreplident, c.relowner::regrole, \
                   ARRAY(SELECT a::text FROM unnest(coalesce(c.relacl, acldefault('r', c.relowner))) a ORDER BY 1)) \
       FROM {RELATIONS}",
    "SELECT format('column %s of %s: %s type %s not null %s default %s collation %s storage %s compression <%s> \
                   identity <%s> generated <%s> statistics %s options %s acl %s', \
                   rank() OVER (PARTITION BY c.oid ORDER BY a.attnum), c.oid::regclass, a.attname, \
                   format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_get_expr(e.adbin, e.adrelid), \
                   a.attcollation::regcollation, a.attstorage, a.attcompression, a.attidentity, \
                   a.attgenerated, a.attstattarget, \
                   ARRAY(SELECT o FROM unnest(a.attoptions) o WHERE o NOT LIKE 'pg_attver=%'), \
                   ARRAY(SELECT g::text FROM unnest(a.attacl) g ORDER BY 1)) \
       FROM {RELATIONS} \
       JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped \
       LEFT JOIN pg_attrdef e ON e.adrelid = c.oid AND e.adnum = a.attnum",
    "SELECT format('constraint %s of %s: %s', o.conname, c.oid::regclass, pg_get_constraintdef(o.oid)) \
       FROM {RELATIONS} JOIN pg_constraint o ON o.conrelid = c.oid",
    "SELECT format('index %s valid %s', pg_get_indexdef(i.indexrelid), i.indisvalid) \
       FROM {RELATIONS} JOIN pg_index i ON i.indexrelid = c.oid",
    "SELECT format('view %s: %s', c.oid::regclass, pg_get_viewdef(c.oid)) \
       FROM {RELATIONS} WHERE c.relkind = 'v'",
    "SELECT format('policy %s of %s for %s permissive %s roles %s using %s check %s', p.polname, \
                   c.oid::regclass, p.polcmd, p.polpermissive, p.polroles, \
                   pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid)) \
       FROM {RELATIONS} JOIN pg_policy p ON p.polrelid = c.oid",
    "SELECT format('trigger %s enabled %s', pg_get_triggerdef(t.oid), t.tgenabled) \
       FROM {RELATIONS} JOIN pg_trigger t ON t.tgrelid = c.oid",
    "SELECT format('rule %s', pg_get_ruledef(r.oid)) FROM {RELATIONS} JOIN pg_rewrite r ON r.ev_class = c.oid",
    "SELECT format('statistics %s', pg_get_statisticsobjdef(s.oid)) \
       FROM {RELATIONS} JOIN pg_statistic_ext s ON s.stxrelid = c.oid",
    "SELECT format('function %s owner %s acl %s: %s', p.oid::regprocedure, p.proowner::regrole, \
                   ARRAY(SELECT a::text FROM unnest(coalesce(p.proacl, acldefault('f', p.proowner))) a ORDER BY 1), pg_get_functiondef(p.oid)) \
       FROM {MEMBERS} JOIN pg_proc p ON p.oid = d.objid WHERE d.classid = 'pg_proc'::regclass",
    "SELECT format('schema owner %s acl %s', n.nspowner::regrole, \
                   ARRAY(SELECT a::text FROM unnest(coalesce(n.nspacl, acldefault('n', n.nspowner))) a ORDER BY 1)) \
       FROM pg_namespace n WHERE n.nspname = 'memory_agent'",
    "SELECT format('comment on %s: %s', pg_describe_object(s.classoid, s.objoid, s.objsubid), s.description) \
       FROM {MEMBERS} JOIN pg_description s ON s.classoid = d.classid AND s.objoid = d.objid",
    "SELECT format('row type %s owner %s acl %s', t.oid::regtype, t.typowner::regrole, \
                   ARRAY(SELECT a::text FROM unnest(coalesce(t.typacl, acldefault('T', t.typowner))) a ORDER BY 1)) \
       FROM {RELATIONS} JOIN pg_type t ON t.oid = c.reltype",
    // What pg_dump takes for part of the extension, and leaves out.
    "SELECT format('initial privileges of %s: %s', pg_describe_object(i.classoid, i.objoid, i.objsubid), \
                   ARRAY(SELECT a::text FROM unnest(i.initprivs) a ORDER BY 1)) \
       FROM {MEMBERS} JOIN pg_init_privs i ON i.classoid = d.classid AND i.objoid = d.objid",
];

const MEMBERS: &str = "pg_depend d JOIN pg_extension e_ ON e_.oid = d.refobjid \
     AND e_.extname = 'memory_agent' AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'";
const RELATIONS: &str = "(SELECT r.* FROM pg_class r WHERE r.oid IN ( \
        SELECT d.objid FROM {MEMBERS} WHERE d.classid = 'pg_class'::regclass \
        UNION ALL \
        SELECT i.indexrelid FROM {MEMBERS} JOIN pg_index i ON i.indrelid = d.objid \
         WHERE d.classid = 'pg_class'::regclass)) c";

/// Everything that the catalog says about the extension.
pub fn describe(client: &mut Client) -> BTreeSet<String> {
    let relations = RELATIONS.replace("{MEMBERS}", MEMBERS);
    let mut sentences = BTreeSet::new();
    for query in SENTENCES {
        let query = query.replace("{RELATIONS}", &relations).replace("{MEMBERS}", MEMBERS);
        sentences.extend(values::<String>(client, &query, &[]));
    }
    sentences
}

/// Prints the difference alone, for each side is long.
#[track_caller]
pub fn assert_same(updated: &BTreeSet<String>, fresh: &BTreeSet<String>) {
    let only = |a: &BTreeSet<String>, b: &BTreeSet<String>| {
        a.difference(b).map(|line| format!("  {line}\n")).collect::<String>()
    };
    assert!(
        updated == fresh,
        "only after the update:\n{}only in a fresh database:\n{}",
        only(updated, fresh),
        only(fresh, updated)
    );
}

#[test]
fn an_updated_schema_is_a_fresh_one() {
    let fresh = describe(&mut shared().database("catalog_fresh").connect());
    // The queries find what they are about.
    for kind in [
        "member table",
        "member function",
        "dumped",
        "column",
        "constraint",
        "index",
        "view",
        "policy",
        "function",
        "comment on",
        "row type",
        "initial privileges",
    ] {
        assert!(fresh.iter().any(|line| line.starts_with(kind)), "nothing is said about a {kind}");
    }
    for version in RELEASED {
        let mut client = older_database(shared(), &format!("catalog_{version}"), version);
        assert_ne!(describe(&mut client), fresh, "{version} differs from what comes after it");
        update(&mut client);
        assert_eq!(schema_version(&mut client), newest_version(&mut client));
        assert_same(&describe(&mut client), &fresh);
        // Once more is a NOTICE, not an error.
        update(&mut client);
    }
}

/// The public functions where CREATE EXTENSION put them, pgvector elsewhere.
#[test]
fn other_schemas_stay() {
    let create = |name: &str, version: &str| {
        let mut client = shared().plain_database(name);
        client
            .batch_execute(&format!(
                "CREATE SCHEMA \"Agent Memory\"; CREATE SCHEMA vectors; \
                 CREATE EXTENSION vector SCHEMA vectors; \
                 SET search_path = vectors; \
                 CREATE EXTENSION memory_agent SCHEMA \"Agent Memory\" {version}; \
                 SET search_path = public"
            ))
            .unwrap();
        client
    };
    let fresh = describe(&mut create("catalog_placed_fresh", ""));
    for version in RELEASED {
        let name = format!("catalog_placed_{version}");
        let mut client = create(&name, &format!("VERSION '{version}'"));
        update(&mut client);
        assert_same(&describe(&mut client), &fresh);
    }
}
