//! The row types of the extension's tables and views. PostgreSQL lets every role use a new table's row type, and
//! a role that makes a column of one keeps the table from getting a new column: `ALTER EXTENSION .. UPDATE` fails
//! until they drop it.

use crate::{create_roles, grant};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, expect_error, shared};

/// What 16.14 does not check, and later minor versions do; docs/security.md says so.
const UNCHECKED: [&str; 2] = [
    "CREATE INDEX ON own.notes ((NULL::{type}))",
    "CREATE TYPE own.held AS RANGE (subtype = {type})",
];

/// Every way to make something that has such a type.
const USES: &[&str] = &[
    "CREATE TABLE own.held (c {type})",
    "CREATE TABLE own.held (c {type}[])",
    "ALTER TABLE own.notes ADD COLUMN c {type}",
    "ALTER TABLE own.notes ALTER COLUMN body TYPE {type} USING NULL",
    "CREATE TABLE own.held AS SELECT NULL::{type} AS c",
    "CREATE MATERIALIZED VIEW own.held AS SELECT NULL::{type} AS c",
    "CREATE VIEW own.held AS SELECT NULL::{type} AS c",
    "CREATE DOMAIN own.held AS {type}",
    "CREATE TYPE own.held AS (c {type})",
    "CREATE FUNCTION own.held({type}) RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE FUNCTION own.held() RETURNS SETOF {type} LANGUAGE sql AS 'SELECT NULL'",
    "CREATE FUNCTION own.held() RETURNS TABLE (c {type}[]) LANGUAGE sql AS 'SELECT NULL'",
];

/// The members that have rows.
fn relations(superuser: &mut Client, kinds: &str) -> Vec<String> {
    let query = format!(
        "SELECT c.oid::regclass::text FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid \
           JOIN pg_class c ON c.oid = d.objid AND d.classid = 'pg_class'::regclass \
          WHERE e.extname = 'memory_agent' AND d.deptype = 'e' AND c.relkind = ANY ('{kinds}') ORDER BY 1"
    );
    values(superuser, &query, &[])
}

#[test]
fn nobody_makes_columns_of_them() {
    let mut superuser = shared().database("row_types").connect();
    create_roles(&mut superuser, &["row_types_nothing", "row_types_reader", "row_types_admin"]);
    grant(&mut superuser, "row_types_reader", "reader");
    grant(&mut superuser, "row_types_admin", "admin");
    let version: i32 =
        value(&mut superuser, "SELECT current_setting('server_version_num')::int", &[]);
    let unchecked = if (160_000..=160_014).contains(&version) { &[][..] } else { &UNCHECKED };
    let all = relations(&mut superuser, "{r,p,v}");
    assert!(all.len() > 15, "{all:?}");
    for role in ["row_types_nothing", "row_types_reader", "row_types_admin"] {
        run(
            &mut superuser,
            &format!("DROP SCHEMA IF EXISTS own CASCADE; CREATE SCHEMA own AUTHORIZATION {role}"),
        );
        let mut client = shared().connect_as("row_types", role);
        run(&mut client, "CREATE TABLE own.notes (id int, body text)");
        for relation in &all {
            for usage in USES.iter().chain(unchecked) {
                let statement = usage.replace("{type}", relation);
                let error = client.batch_execute(&statement).expect_err(&statement);
                let message = expect_error::<()>(Err(error), "42501");
                let is_about_it = message.contains("permission denied for")
                    && (message.contains("type") || message.contains("schema"));
                assert!(is_about_it, "{role}, {statement}: {message}");
            }
        }
    }
    // What update scripts do.
    for table in relations(&mut superuser, "{r,p}") {
        run(
            &mut superuser,
            &format!("ALTER TABLE {table} ADD COLUMN added text NOT NULL DEFAULT ''"),
        );
    }
}

/// Levels do not need the types: whole rows are still read.
#[test]
fn whole_rows_are_read() {
    let mut superuser = shared().database("row_types_read").connect();
    create_roles(&mut superuser, &["row_types_whole"]);
    grant(&mut superuser, "row_types_whole", "user");
    crate::remember(&mut superuser, "row_types_whole", "I like tea.");
    let mut client = shared().connect_as("row_types_read", "row_types_whole");
    let rows: Vec<String> = values(&mut client, "SELECT e::text FROM memory_entries e", &[]);
    assert!(rows.len() == 1 && rows[0].contains("I like tea."), "{rows:?}");
}
