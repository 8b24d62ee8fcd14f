//! Tables of the application that are attached: what the catalogs know about them, and their triggers.
//! Triggers are made as the caller, who has to own the table; names are qualified there.

use crate::store::prelude::*;

/// A table that is to be attached.
pub struct Table {
    pub oid: pg_sys::Oid,
    /// Qualified and quoted.
    pub name: String,
    kind: String,
    persistence: String,
    is_owned: bool,
    /// Of the system, of this extension, or of another one.
    is_reserved: bool,
    /// Has children that are no partitions, or is one.
    inherits: bool,
    /// Names, types and type categories of the primary key's columns.
    key: Vec<KeyPart>,
}

/// Name, type and type category of a column.
type KeyPart = (String, String, String);

record!(Table: oid name kind persistence is_owned is_reserved inherits; key);

/// Describes a table, as it is for a role.
pub fn describe(spi: &Spi, table: pg_sys::Oid, role: pg_sys::Oid) -> PgResult<Option<Table>> {
    let described: Option<Table> = spi.row(
        "SELECT c.oid, format('%I.%I', n.nspname, c.relname), c.relkind::text, c.relpersistence::text, \
                pg_has_role($2::oid, c.relowner, 'USAGE'), \
                n.nspname IN ('pg_catalog', 'information_schema', 'pg_toast', 'memory_agent') \
                OR EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass \
                              AND d.objid = c.oid AND d.deptype = 'e'), \
                NOT c.relispartition AND EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = c.oid) \
                OR c.relkind = 'r' AND EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = c.oid) \
           FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $1",
        &mut params![table, role],
    )?;
    let Some(mut described) = described else { return Ok(None) };
    described.key = spi.rows(
        "SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), t.typcategory::text \
           FROM pg_index i, unnest(i.indkey::int2[]) WITH ORDINALITY k(number, position) \
           JOIN pg_attribute a ON a.attrelid = $1 AND a.attnum = k.number \
           JOIN pg_type t ON t.oid = a.atttypid \
          WHERE i.indrelid = $1 AND i.indisprimary AND k.position <= i.indnkeyatts \
          ORDER BY k.position",
        &mut params![table],
    )?;
    Ok(Some(described))
}

impl Table {
    /// Errors (42501) unless the caller owns the table.
    pub fn check_owner(&self) -> PgResult<()> {
        if self.is_owned {
            return Ok(());
        }
        Err(Error::not_permitted(
            format!("only the owner of {} may attach or detach it", self.name),
            "A trigger runs on every write to the table.",
        ))
    }

    /// Errors (0A000, 42710, 55000) when the table cannot be attached.
    pub fn check(&self) -> PgResult<()> {
        let unsupported = |problem: String, hint: &str| Err(Error::unsupported(problem, hint));
        let name = &self.name;
        if self.is_reserved {
            return unsupported(
                format!("{name} belongs to the system or to an extension"),
                "Attach a table of your own.",
            );
        }
        match self.kind.as_str() {
            "r" | "p" => {}
            "v" | "m" => {
                return unsupported(
                    format!("{name} is a view, and its rows change without a trigger"),
                    "Attach the tables that it reads.",
                );
            }
            "f" => {
                return unsupported(
                    format!("{name} is a foreign table, which others write without a trigger"),
                    "Store its rows by memory_ingest or memory_add.",
                );
            }
            _ => return unsupported(format!("{name} is not a table"), "Attach a table."),
        }
        if self.persistence == "t" {
            return unsupported(
                format!("{name} is a temporary table, and memory is not"),
                "Attach a permanent table.",
            );
        }
        if self.inherits {
            return unsupported(
                format!(
                    "{name} is part of an inheritance hierarchy: a key may be in several of its tables"
                ),
                "Use partitions, or attach a table without children.",
            );
        }
        if self.key.is_empty() {
            return Err(Error::not_ready(
                format!("{name} has no primary key"),
                "Memory finds the row of an entry by it: ALTER TABLE .. ADD PRIMARY KEY.",
            ));
        }
        // The categories whose values JSON holds as one number, string or boolean.
        let exotic =
            self.key.iter().find(|(_, _, category)| !"NSDBUETIV".contains(category.as_str()));
        if let Some((column, type_name, _)) = exotic {
            return unsupported(
                format!("{name} has a primary key with the column {column} of type {type_name}"),
                "Keys of numbers, texts, times, UUIDs, enums, booleans, addresses and bit strings can be \
                 attached.",
            );
        }
        Ok(())
    }
}

/// Errors (42703) unless the table has this column, and (0A000) when it is a virtual
/// generated one, whose value triggers are not told; returns the name of its type.
pub fn column_type(spi: &Spi, table: &Table, argument: &str, column: &str) -> PgResult<String> {
    let found = spi.row::<(String, bool)>(
        "SELECT t.typname::text, a.attgenerated = 'v' \
           FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid \
          WHERE a.attrelid = $1 AND a.attname = $2 AND a.attnum > 0 AND NOT a.attisdropped",
        &mut params![table.oid, column],
    )?;
    match found {
        Some((type_name, false)) => Ok(type_name),
        Some((_, true)) => Err(Error::unsupported(
            format!(
                "{argument}: \"{column}\" is a virtual generated column, which has no value in a trigger"
            ),
            "Make it STORED, or name the columns that it is computed from.",
        )),
        None => Err(Error::undefined_column(
            format!("{argument}: {} has no column \"{column}\"", table.name),
            "Name a column of the table, as it is spelled in the catalog.",
        )),
    }
}

/// The names of columns with these numbers, in their order.
pub fn column_names(spi: &Spi, table: pg_sys::Oid, numbers: &[i16]) -> PgResult<Vec<String>> {
    let numbers: Vec<i32> = numbers.iter().copied().map(i32::from).collect();
    spi.rows(
        "SELECT a.attname::text FROM pg_attribute a \
          WHERE a.attrelid = $1 AND a.attnum = ANY ($2::int4[]) ORDER BY a.attnum",
        &mut params![table, numbers],
    )
}

/// A table and all its partitions, of every level; and whether each is partitioned itself.
pub fn tree(spi: &Spi, table: pg_sys::Oid) -> PgResult<Vec<(pg_sys::Oid, String, bool)>> {
    spi.rows(
        "SELECT c.oid, pg_catalog.format('%I.%I', n.nspname, c.relname), c.relkind OPERATOR(pg_catalog.=) 'p' \
           FROM (SELECT p.relid::pg_catalog.oid AS oid, p.level FROM pg_catalog.pg_partition_tree($1::pg_catalog.regclass) p \
                 UNION SELECT $1, 0) t \
           JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) t.oid \
           JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace \
          ORDER BY t.level, 2",
        &mut params![table],
    )
}

/// The names of our triggers on statements, and what each fires on.
const TRIGGERS: [(&str, &str); 4] = [
    ("memory_agent_insert", "AFTER INSERT ON {} REFERENCING NEW TABLE AS memory_agent_new"),
    (
        "memory_agent_update",
        "AFTER UPDATE ON {} REFERENCING OLD TABLE AS memory_agent_old NEW TABLE AS memory_agent_new",
    ),
    ("memory_agent_delete", "AFTER DELETE ON {} REFERENCING OLD TABLE AS memory_agent_old"),
    ("memory_agent_truncate", "BEFORE TRUNCATE ON {}"),
];

/// Those for sessions in which the others do not fire (`session_replication_role = replica`): of subscriptions above
/// all, which tell row triggers what they write, and no others but those on TRUNCATE. A table with partitions has no
/// rows of its own.
const OF_ROWS: (&str, &str) =
    ("memory_agent_replica", "AFTER INSERT OR UPDATE OR DELETE ON {} FOR EACH ROW");
const OF_TRUNCATE: (&str, &str) =
    ("memory_agent_replica_truncate", "BEFORE TRUNCATE ON {} FOR EACH STATEMENT");

words! {
    /// Which of an attachment's tables a trigger is on.
    pub enum Place {
        /// The one that was attached.
        Whole = "whole",
        /// A partition of it.
        Part = "part",
    }
}

/// Makes the triggers on one table, or makes them anew. Statement triggers are not inherited by
/// partitions, and a statement on a partition does not fire those of the whole.
pub fn create_triggers(
    spi: &Spi,
    table: &str,
    id: Uuid,
    place: Place,
    is_partitioned: bool,
) -> PgResult<()> {
    let create = |name: &str, event: String| {
        let sql = format!(
            "CREATE OR REPLACE TRIGGER {name} {event} \
             EXECUTE FUNCTION memory_agent.attached_rows('{id}', '{}')",
            place.as_str()
        );
        spi.execute(&sql, &mut params![])
    };
    for (name, event) in TRIGGERS {
        create(name, format!("{} FOR EACH STATEMENT", event.replace("{}", table)))?;
    }
    let of_rows = (!is_partitioned).then_some(OF_ROWS);
    for (name, event) in of_rows.into_iter().chain([OF_TRUNCATE]) {
        create(name, event.replace("{}", table))?;
        let enable = format!("ALTER TABLE ONLY {table} ENABLE REPLICA TRIGGER {name}");
        spi.execute(&enable, &mut params![])?;
    }
    Ok(())
}

/// The tables that have triggers of an attachment, with the names of the triggers.
pub fn with_triggers(spi: &Spi, id: Uuid) -> PgResult<Vec<(String, String)>> {
    spi.rows(
        "SELECT pg_catalog.format('%I.%I', n.nspname, c.relname), pg_catalog.quote_ident(t.tgname) \
           FROM pg_catalog.pg_trigger t \
           JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) t.tgrelid \
           JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace \
          WHERE t.tgfoid OPERATOR(pg_catalog.=) 'memory_agent.attached_rows()'::pg_catalog.regprocedure \
            AND pg_catalog.starts_with(pg_catalog.encode(t.tgargs, 'escape'), $1::pg_catalog.text) \
          ORDER BY 1, 2",
        &mut params![id.to_string()],
    )
}

/// Drops the triggers of an attachment, on whatever tables they are by now.
pub fn drop_triggers(spi: &Spi, id: Uuid) -> PgResult<()> {
    for (table, trigger) in with_triggers(spi, id)? {
        spi.execute(&format!("DROP TRIGGER {trigger} ON {table}"), &mut params![])?;
    }
    Ok(())
}

/// The attachment that a table's triggers name.
pub fn attachment_of(spi: &Spi, table: pg_sys::Oid) -> PgResult<Option<Uuid>> {
    let found = spi.row::<String>(
        "SELECT pg_catalog.split_part(pg_catalog.encode(t.tgargs, 'escape'), pg_catalog.chr(92), 1) \
           FROM pg_catalog.pg_trigger t \
          WHERE t.tgrelid OPERATOR(pg_catalog.=) $1 \
            AND t.tgfoid OPERATOR(pg_catalog.=) 'memory_agent.attached_rows()'::pg_catalog.regprocedure \
          LIMIT 1",
        &mut params![table],
    )?;
    Ok(found.as_deref().and_then(crate::store::queue::uuid))
}

/// The tables of an attachment, the attached one and its partitions, that lack a trigger on statements or have
/// one that is disabled.
pub fn without_triggers(spi: &Spi, table: pg_sys::Oid, id: Uuid) -> PgResult<Vec<String>> {
    spi.rows(
        "SELECT format('%I.%I', n.nspname, c.relname) \
           FROM (SELECT p.relid::oid AS oid FROM pg_partition_tree($1::regclass) p UNION SELECT $1) w \
           JOIN pg_class c ON c.oid = w.oid JOIN pg_namespace n ON n.oid = c.relnamespace \
          WHERE (SELECT count(*) FROM pg_trigger t \
                  WHERE t.tgrelid = c.oid AND t.tgfoid = 'memory_agent.attached_rows()'::regprocedure \
                    AND t.tgenabled IN ('O', 'A') AND t.tgname = ANY ($3) AND starts_with(encode(t.tgargs, 'escape'), $2)) < cardinality($3) \
          ORDER BY 1",
        &mut params![table, id.to_string(), TRIGGERS.map(|(name, _)| name.to_owned()).to_vec()],
    )
}

/// The columns of a table's primary key, with the type of each and the operators of its index.
pub struct KeyColumn {
    pub name: String,
    pub type_name: String,
    /// As in `OPERATOR(schema.>)`.
    pub greater: String,
    pub equal: String,
}

record!(KeyColumn: name type_name greater equal);

/// The key of a table, in its index's order.
pub fn key(spi: &Spi, table: pg_sys::Oid) -> PgResult<Vec<KeyColumn>> {
    spi.rows(include_str!("../sql/key_columns.sql"), &mut params![table])
}

/// About how many rows a table and its partitions have, for the progress of a job.
pub fn estimated_rows(spi: &Spi, table: pg_sys::Oid) -> PgResult<Option<i64>> {
    let rows = spi.row(
        "SELECT CASE WHEN bool_and(c.reltuples >= 0) THEN sum(c.reltuples)::int8 END \
           FROM (SELECT p.relid::oid AS oid FROM pg_partition_tree($1::regclass) p WHERE p.isleaf \
                 UNION SELECT $1) t \
           JOIN pg_class c ON c.oid = t.oid AND c.relkind = 'r'",
        &mut params![table],
    )?;
    Ok(rows.flatten())
}
