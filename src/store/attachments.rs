//! `memory_agent.attachments`: which tables are attached, and how their rows are read. Triggers name
//! their attachment by its id, so that a table may be renamed; the columns are known by number while the
//! table is the one that was attached, and by name after a dump and restore.

use crate::pg::prelude::*;
use crate::pg::spi::Row;
use std::str::FromStr;

/// When the rows of an attached table are embedded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Embed {
    /// In the statement that writes them.
    Sync,
    /// By the worker.
    Async,
    /// They are not embedded.
    Off,
}

impl Embed {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Async => "async",
            Self::Off => "off",
        }
    }
}

impl FromStr for Embed {
    type Err = ErrorReport;

    fn from_str(text: &str) -> Result<Self, ErrorReport> {
        match text {
            "sync" => Ok(Self::Sync),
            "async" => Ok(Self::Async),
            "off" => Ok(Self::Off),
            other => Err(Error::invalid(
                format!("unknown value \"{other}\" of embed"),
                "Use 'async' (the worker embeds), 'sync' (the writing statement does) or 'off'.",
            )),
        }
    }
}

/// What an attachment says about its table, by the names that the columns have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    pub content_column: String,
    pub user_id_column: Option<String>,
    pub session_id_column: Option<String>,
    pub created_at_column: Option<String>,
    pub role_column: Option<String>,
    pub metadata_columns: Vec<String>,
    /// The user of every row; else the column's, else who writes the row.
    pub user_id: Option<String>,
    pub agent_id: String,
    pub role: String,
    pub embed: Embed,
}

impl Definition {
    /// The columns in the order of `attachments.column_numbers`.
    fn columns(&self) -> Vec<Option<String>> {
        let single = [
            Some(self.content_column.clone()),
            self.user_id_column.clone(),
            self.session_id_column.clone(),
            self.created_at_column.clone(),
            self.role_column.clone(),
        ];
        single.into_iter().chain(self.metadata_columns.iter().cloned().map(Some)).collect()
    }
}

/// An attachment as it is read from one of its tables.
#[derive(Clone, Debug)]
pub struct Source {
    pub id: Uuid,
    /// The table's name when it was attached: `entries.source_relation`.
    pub label: String,
    /// The names that the columns have now.
    pub definition: Definition,
    /// The keys under which the metadata columns are kept.
    pub metadata_keys: Vec<String>,
    pub table: pg_sys::Oid,
    /// The table's name now, qualified and quoted.
    pub table_name: String,
    pub table_owner: pg_sys::Oid,
    /// The columns of its primary key.
    pub key: Vec<String>,
    /// Whether two rows may have one key until the end of a statement or transaction.
    pub has_deferrable_key: bool,
    /// Whether a foreign key may change its rows, several times in one statement.
    pub is_cascaded: bool,
    /// What the session calls itself that reads this.
    pub application_name: String,
    /// Columns that it does not have any more.
    missing: Vec<String>,
    /// Whether it is the table that was attached, or a partition of that.
    is_own: bool,
    /// Whether the attachment knows the table by an old number, or a column by an old name.
    is_outdated: bool,
}

impl Source {
    /// Why rows cannot be read; `None` when they can.
    pub fn problem(&self) -> Option<String> {
        if !self.is_own {
            return Some(format!("it is not part of {} any more", self.label));
        }
        if let Some(column) = self.missing.first() {
            return Some(format!("its column \"{column}\" is gone"));
        }
        self.key.is_empty().then(|| "it has no primary key any more".to_owned())
    }
}

/// An attachment as it is read from a table of its: the one that was attached or a partition. `None`
/// when there is no such attachment or no such table.
pub fn source(spi: &Spi, id: Uuid, table: pg_sys::Oid) -> PgResult<Option<Source>> {
    spi.first(
        "WITH ancestors AS ( \
            SELECT p.oid, format('%I.%I', n.nspname, p.relname) AS name \
              FROM pg_partition_ancestors($2::oid::regclass) t \
              JOIN pg_class p ON p.oid = t.relid JOIN pg_namespace n ON n.oid = p.relnamespace) \
         SELECT a.relation, a.role, a.embed, a.agent_id, a.user_id, a.metadata_columns, c.names, \
                ARRAY(SELECT m.name FROM unnest(c.names) m(name) \
                       WHERE m.name IS NOT NULL \
                         AND NOT EXISTS (SELECT FROM pg_attribute t \
                                          WHERE t.attrelid = r.oid AND t.attname = m.name \
                                            AND t.attnum > 0 AND NOT t.attisdropped)), \
                ARRAY(SELECT t.attname::text \
                        FROM pg_index i, unnest(i.indkey::int2[]) WITH ORDINALITY k(number, position) \
                        JOIN pg_attribute t ON t.attrelid = $2 AND t.attnum = k.number \
                       WHERE i.indrelid = r.oid AND i.indisprimary AND k.position <= i.indnkeyatts \
                       ORDER BY k.position), \
                format('%I.%I', n.nspname, r.relname), r.relowner, \
                a.relation_oid = $2 OR a.relation_oid IN (SELECT t.oid FROM ancestors t) \
                OR a.relation = format('%I.%I', n.nspname, r.relname) \
                OR a.relation IN (SELECT t.name FROM ancestors t), \
                a.relation_oid IS DISTINCT FROM $2 OR c.names IS DISTINCT FROM c.known, \
                EXISTS (SELECT FROM pg_index i \
                         WHERE i.indrelid = r.oid AND i.indisprimary AND NOT i.indimmediate), \
                EXISTS (SELECT FROM pg_constraint f \
                         WHERE f.conrelid = r.oid AND f.contype = 'f' \
                           AND (f.confupdtype IN ('c', 'n', 'd') OR f.confdeltype IN ('c', 'n', 'd'))), \
                current_setting('application_name') \
           FROM memory_agent.attachments a \
           JOIN pg_class r ON r.oid = $2 \
           JOIN pg_namespace n ON n.oid = r.relnamespace, \
                LATERAL (SELECT array_agg(coalesce(t.attname::text, w.name) ORDER BY w.position) AS names, \
                                array_agg(w.name ORDER BY w.position) AS known \
                           FROM unnest(ARRAY[a.content_column, a.user_id_column, a.session_id_column, \
                                             a.created_at_column, a.role_column] || a.metadata_columns, \
                                       a.column_numbers) WITH ORDINALITY w(name, number, position) \
                           LEFT JOIN pg_attribute t \
                             ON t.attrelid = a.relation_oid AND t.attnum = w.number AND t.attnum > 0 \
                            AND NOT t.attisdropped \
                            AND (a.relation_oid = $2 \
                                 OR a.relation_oid IN (SELECT o.oid FROM ancestors o))) c \
          WHERE a.id = $1",
        &mut params![id, table],
        |row| read_source(id, table, row),
    )
}

fn read_source(id: Uuid, table: pg_sys::Oid, row: &Row<'_>) -> PgResult<Source> {
    let mut names = row.required::<Vec<Option<String>>>(7)?.into_iter();
    let mut next = || names.next().flatten();
    Ok(Source {
        id,
        label: row.required(1)?,
        definition: Definition {
            content_column: next().unwrap_or_default(),
            user_id_column: next(),
            session_id_column: next(),
            created_at_column: next(),
            role_column: next(),
            metadata_columns: names.flatten().collect(),
            user_id: row.optional(5),
            agent_id: row.required(4)?,
            role: row.required(2)?,
            embed: row.required::<String>(3)?.parse()?,
        },
        metadata_keys: row.required(6)?,
        table,
        table_name: row.required(10)?,
        table_owner: row.required(11)?,
        key: row.required(9)?,
        missing: row.required(8)?,
        is_own: row.optional(12).unwrap_or(false),
        is_outdated: row.required(13)?,
        has_deferrable_key: row.required(14)?,
        is_cascaded: row.required(15)?,
        application_name: row.required(16)?,
    })
}

/// Stores an attachment, or what is changed about it.
pub fn save(
    spi: &Spi,
    id: Uuid,
    label: &str,
    table: pg_sys::Oid,
    definition: &Definition,
) -> PgResult<()> {
    spi.run(
        "INSERT INTO memory_agent.attachments AS a \
            (id, relation, content_column, user_id_column, session_id_column, created_at_column, \
             role_column, metadata_columns, user_id, agent_id, role, embed, relation_oid, column_numbers) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, \
                 ARRAY(SELECT coalesce(t.attnum, 0::int2) \
                         FROM unnest($14::text[]) WITH ORDINALITY w(name, position) \
                         LEFT JOIN pg_attribute t ON t.attrelid = $13 AND t.attname = w.name \
                                                 AND t.attnum > 0 AND NOT t.attisdropped \
                        ORDER BY w.position)) \
         ON CONFLICT (id) DO UPDATE \
            SET content_column = excluded.content_column, user_id_column = excluded.user_id_column, \
                session_id_column = excluded.session_id_column, \
                created_at_column = excluded.created_at_column, role_column = excluded.role_column, \
                metadata_columns = excluded.metadata_columns, user_id = excluded.user_id, \
                agent_id = excluded.agent_id, role = excluded.role, embed = excluded.embed, \
                relation_oid = excluded.relation_oid, column_numbers = excluded.column_numbers",
        &mut params![
            id, label, &definition.content_column, definition.user_id_column.as_deref(),
            definition.session_id_column.as_deref(), definition.created_at_column.as_deref(),
            definition.role_column.as_deref(), definition.metadata_columns.clone(),
            definition.user_id.as_deref(), &definition.agent_id, &definition.role,
            definition.embed.as_str(), table, definition.columns(),
        ],
    )
}

/// Stores the names and numbers that attached tables and their columns have now, so that a dump has
/// the names, and that after a restore the numbers are right again.
pub fn renew(spi: &Spi) -> PgResult<()> {
    for listed in all(spi)? {
        let source = listed.table.map_or(Ok(None), |table| source(spi, listed.id, table))?;
        if let Some(source) =
            source.filter(|source| source.is_outdated && source.problem().is_none())
        {
            save(spi, source.id, &source.label, source.table, &source.definition)?;
        }
    }
    Ok(())
}

/// `t` is a trigger of the attachment `a` on the table that was attached. A trigger's arguments are
/// kept as text, each followed by a zero byte.
const ROOT_TRIGGERS: &str = "pg_trigger t \
    WHERE t.tgfoid = 'memory_agent.attached_rows()'::regprocedure \
      AND t.tgargs = convert_to(a.id::text, 'UTF8') || decode('0077686f6c6500', 'hex')";

/// An attachment and the table it is on.
pub struct Listed {
    pub id: Uuid,
    pub label: String,
    /// `None` when no table has its triggers: it was dropped.
    pub table: Option<pg_sys::Oid>,
}

record!(Listed: id label table);

/// All attachments, by name.
pub fn all(spi: &Spi) -> PgResult<Vec<Listed>> {
    spi.rows(
        &format!(
            "SELECT a.id, a.relation, (SELECT t.tgrelid FROM {ROOT_TRIGGERS} LIMIT 1) \
               FROM memory_agent.attachments a ORDER BY a.relation"
        ),
        &mut params![],
    )
}

/// Forgets that a table is attached. Its triggers are dropped by [`super::attached_tables`].
pub fn delete(spi: &Spi, id: Uuid) -> PgResult<()> {
    spi.execute(
        "DELETE FROM memory_agent.jobs j \
          WHERE j.kind = 'attach' AND j.status IN ('pending', 'dead') AND j.payload ->> 'attachment' = $1::text",
        &mut params![id.to_string()],
    )?;
    spi.run("DELETE FROM memory_agent.attachments a WHERE a.id = $1", &mut params![id])
}
