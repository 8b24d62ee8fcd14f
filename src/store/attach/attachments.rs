//! `memory_agent.attachments`: which tables are attached, and how their rows are read. Triggers name
//! their attachment by its id, so that a table may be renamed; the columns are known by number while the
//! table is the one that was attached, and by name after a dump and restore.

use crate::pg::spi::{Record, Row};
use crate::store::prelude::*;
use memory_agent_core::row_json::{Path, RoleMap};
use pgrx::spi::quote_identifier;

words! {
    /// When the rows of an attached table are embedded.
    pub enum Embed {
        /// In the statement that writes them.
        Sync = "sync",
        /// By the worker.
        Async = "async",
        /// They are not embedded.
        Off = "off",
    }
}

impl Embed {
    /// Reads what memory_attach is given, and what it stored.
    pub fn read(word: &str) -> PgResult<Self> {
        Self::of(word).ok_or_else(|| {
            Error::invalid(
                format!("unknown value \"{word}\" of embed"),
                "Use 'async' (the worker embeds), 'sync' (the writing statement does) or 'off'.",
            )
        })
    }
}

impl Record for Embed {
    fn read(row: &Row<'_>, column: &mut usize) -> PgResult<Self> {
        Self::read(&String::read(row, column)?)
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
    /// Whether facts are extracted from what users say in the rows.
    pub extract_facts: bool,
    pub reading: Reading,
}

record!(Definition:
    content_column user_id_column session_id_column created_at_column role_column metadata_columns user_id
    agent_id role embed extract_facts reading);

/// Which rows are remembered, and how their contents and roles are read, beyond what the columns say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The condition under which a row is remembered, as [`crate::pg::condition`] printed it.
    pub condition: Option<String>,
    /// The names that columns have in the condition, and the names that they have now.
    pub condition_names: Vec<String>,
    pub condition_columns: Vec<String>,
    pub more_content_columns: Vec<String>,
    /// Where the text stands in a content that is JSON.
    pub content_path: JsonPlace,
    /// Where the role stands, in the column of the role or else in the content.
    pub role_path: JsonPlace,
    pub role_map: RoleMap,
}

record!(Reading:
    condition condition_names condition_columns more_content_columns content_path role_path role_map);

impl Reading {
    /// Whether the condition holds for a row of this name, as SQL. It knows the columns by the names that they had
    /// when it was written, and nothing else of the row.
    pub fn holds(&self, row: &str) -> Option<String> {
        let condition = self.condition.as_ref()?;
        let columns = self.condition_columns.iter().zip(&self.condition_names);
        let columns: Vec<String> = columns
            .map(|(column, name)| {
                format!("{row}.{} AS {}", quote_identifier(column), quote_identifier(name))
            })
            .collect();
        Some(format!("(SELECT {condition} FROM (SELECT {}) memory_agent_row)", columns.join(", ")))
    }
}

/// A place in JSON, if one is named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JsonPlace(pub Option<Path>);

impl JsonPlace {
    fn text(&self) -> Option<String> {
        self.0.as_ref().map(Path::to_string)
    }
}

impl Record for JsonPlace {
    fn read(row: &Row<'_>, column: &mut usize) -> PgResult<Self> {
        let path: Option<String> = Record::read(row, column)?;
        let path = path.as_deref().map(Path::read).transpose();
        path.map(Self).map_err(|error| Error::internal(error.to_string()))
    }
}

impl Record for RoleMap {
    fn read(row: &Row<'_>, column: &mut usize) -> PgResult<Self> {
        let map: Option<JsonbText> = Record::read(row, column)?;
        let map = map.map_or_else(|| Ok(Self::default()), |map| Self::read(&map.0));
        map.map_err(|error| Error::internal(error.to_string()))
    }
}

impl Definition {
    /// Whether a row belongs to who writes it, an application perhaps, for want of anything better.
    pub fn is_without_users(&self) -> bool {
        self.user_id.is_none() && self.user_id_column.is_none()
    }

    /// The columns in the order of `attachments.column_numbers`.
    fn columns(&self) -> Vec<Option<String>> {
        let single = [
            Some(self.content_column.clone()),
            self.user_id_column.clone(),
            self.session_id_column.clone(),
            self.created_at_column.clone(),
            self.role_column.clone(),
        ];
        let Reading { more_content_columns, condition_columns, .. } = &self.reading;
        let lists = [&self.metadata_columns, more_content_columns, condition_columns];
        single.into_iter().chain(lists.into_iter().flatten().cloned().map(Some)).collect()
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

record!(Source:
    id label definition metadata_keys table table_name table_owner key has_deferrable_key is_cascaded
    application_name missing is_own is_outdated);

impl Source {
    /// What is done when rows are read, for the server's log.
    pub fn being_read(&self) -> String {
        format!("reading rows of {}", self.table_name)
    }

    /// The same without a condition, which may fail.
    pub fn without_condition(&self) -> Self {
        let mut source = self.clone();
        source.definition.reading.condition = None;
        source
    }

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
    spi.row(include_str!("../sql/attachment_source.sql"), &mut params![id, table])
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
        include_str!("../sql/save_attachment.sql"),
        &mut params![
            id,
            label,
            &definition.content_column,
            definition.user_id_column.as_deref(),
            definition.session_id_column.as_deref(),
            definition.created_at_column.as_deref(),
            definition.role_column.as_deref(),
            definition.metadata_columns.clone(),
            definition.user_id.as_deref(),
            &definition.agent_id,
            &definition.role,
            definition.embed.as_str(),
            table,
            definition.columns(),
        ],
    )?;
    if !schema::has_0_3() {
        return Ok(());
    }
    let reading = &definition.reading;
    spi.run(
        "UPDATE memory_agent.attachments a \
            SET extract_facts = $2, condition = $3, condition_names = $4, condition_columns = $5, \
                more_content_columns = $6, content_path = $7, role_path = $8, role_map = $9 \
          WHERE a.id = $1",
        &mut params![
            id,
            definition.extract_facts,
            reading.condition.as_deref(),
            reading.condition_names.clone(),
            reading.condition_columns.clone(),
            reading.more_content_columns.clone(),
            reading.content_path.text(),
            reading.role_path.text(),
            JsonbText(reading.role_map.to_json()),
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

/// Forgets that a table is attached. Its triggers are dropped by [`crate::store::attach::attached_tables`].
pub fn delete(spi: &Spi, id: Uuid) -> PgResult<()> {
    spi.execute(
        "DELETE FROM memory_agent.jobs j \
          WHERE j.kind = 'attach' AND j.status IN ('pending', 'dead') AND j.payload ->> 'attachment' = $1::text",
        &mut params![id.to_string()],
    )?;
    spi.run("DELETE FROM memory_agent.attachments a WHERE a.id = $1", &mut params![id])
}
