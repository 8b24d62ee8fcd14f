//! `memory_attach` and `memory_detach`: an application's table whose rows are memory. An attachment lets
//! the writers of the table write memory, so only administrators make one, and only on tables of theirs.

use crate::api::prelude::*;
use crate::memory::scope::endpoints;
use crate::pg::{condition, sql_types};
use crate::settings::{Identity, IdentityMode, LlmLimits};
use crate::store::attach::attached_entries as entries;
use crate::store::attach::attached_jobs::{self as jobs, Extent};
use crate::store::attach::attached_tables::{self as tables, Place, Table};
use crate::store::attach::attachments::{self, Definition, Embed, JsonPlace, Listed, Reading};
use crate::store::rows::entries::new_id;
use memory_agent_core::row_json::{Path, RoleMap};

/// As 0.1.0 and 0.2.0 knew it.
#[pg_extern(sql = false)]
fn memory_attach(
    limits: WithinLimits,
    relation: Option<pg_sys::Oid>,
    content_column: Option<String>,
    user_id_column: Option<String>,
    session_id_column: Option<String>,
    role: Option<String>,
    metadata_columns: Option<Vec<Option<String>>>,
    created_at_column: Option<String>,
    embed: Option<String>,
    backfill: Option<bool>,
    role_column: Option<String>,
    user_id: Option<String>,
    agent_id: Option<String>,
) -> PgResult<Option<Uuid>> {
    memory_attach_table(
        limits,
        relation,
        content_column,
        user_id_column,
        session_id_column,
        role,
        metadata_columns,
        created_at_column,
        embed,
        backfill,
        role_column,
        user_id,
        agent_id,
        None,
        None,
        None,
        None,
        None,
        None,
    )
}

#[pg_extern(sql = false)]
fn memory_attach_table(
    _limits: WithinLimits,
    relation: Option<pg_sys::Oid>,
    content_column: Option<String>,
    user_id_column: Option<String>,
    session_id_column: Option<String>,
    role: Option<String>,
    metadata_columns: Option<Vec<Option<String>>>,
    created_at_column: Option<String>,
    embed: Option<String>,
    backfill: Option<bool>,
    role_column: Option<String>,
    user_id: Option<String>,
    agent_id: Option<String>,
    extract_facts: Option<bool>,
    condition: Option<String>,
    content_path: Option<String>,
    role_path: Option<String>,
    role_map: Option<JsonbText>,
    more_content_columns: Option<Vec<Option<String>>>,
) -> PgResult<Option<Uuid>> {
    identity::require(Level::Admin)?;
    let mut definition = Definition {
        content_column: content_column.ok_or_else(|| {
            Error::null("content_column is NULL", "Name the column whose text is remembered.")
        })?,
        user_id_column,
        session_id_column,
        created_at_column,
        role_column,
        metadata_columns: sql_types::without_nulls(metadata_columns.unwrap_or_default())?,
        user_id,
        agent_id: agent_id.unwrap_or_else(default_agent),
        role: role.unwrap_or_else(|| "user".to_owned()),
        embed: Embed::read(embed.as_deref().unwrap_or("async"))?,
        extract_facts: extract_facts.unwrap_or(false),
        reading: Reading {
            more_content_columns: sql_types::without_nulls(
                more_content_columns.unwrap_or_default(),
            )?,
            content_path: place("content_path", content_path)?,
            role_path: place("role_path", role_path)?,
            role_map: role_map.map_or_else(|| Ok(RoleMap::default()), read_role_map)?,
            ..Reading::default()
        },
    };
    if definition.extract_facts && definition.is_without_users() {
        return Err(Error::invalid(
            "facts need a user, and nothing says whose the rows are",
            "Name user_id_column, or user_id if all rows are of one user.",
        ));
    }
    check(&definition)?;
    let table = table(relation)?;
    table.check_owner()?;
    table.check()?;
    if let Some(condition) = condition {
        add_condition(&table, &condition, &mut definition.reading)?;
    }
    roles::read_as_owner(|spi| check_columns(spi, &table, &definition))?;
    if definition.is_without_users() && definition.session_id_column.is_some() {
        notice!(
            "nothing says whose rows of {} are: prompts of one of its sessions do not read the others",
            table.name
        );
    }
    if definition.extract_facts {
        let missing = roles::read_as_owner(|spi| endpoints::missing(spi, &definition.agent_id))?;
        if let Some(missing) = missing {
            notice!("rows of {} wait for an LLM that extracts facts: {missing}", table.name);
        }
    }
    let user_id = intake_user(&definition)?;
    let id = save(&table, &definition)?;
    let caller = Spi::read_write()?;
    for (oid, name, is_partitioned) in tables::tree(&caller, table.oid)? {
        if tables::attachment_of(&caller, oid)?.is_some_and(|other| other != id) {
            return Err(Error::duplicate(
                format!("{name} is a partition of {} and attached by itself", table.name),
                "Run memory_detach with the partition first; its entries are kept.",
            ));
        }
        let place = if oid == table.oid { Place::Whole } else { Place::Part };
        tables::create_triggers(&caller, &name, id, place, is_partitioned)?;
    }
    drop(caller);
    debug1!("memory_agent: attach relation={} id={id}", table.name);
    if !backfill.unwrap_or(true) {
        return Ok(None);
    }
    roles::write_as_owner(|spi| {
        let attempts = LlmLimits::current().max_attempts;
        let agent = &definition.agent_id;
        jobs::queue_intake(spi, id, &user_id, agent, Extent::All, attempts).map(Some)
    })
}

#[pg_extern(sql = false)]
fn memory_detach(
    _limits: WithinLimits,
    relation: Option<String>,
    forget: Option<bool>,
) -> PgResult<i64> {
    identity::require(Level::Admin)?;
    let relation = relation.unwrap_or_default();
    let found = find(&relation)?;
    let Some(Listed { id, label, table }) = found else {
        return Err(Error::undefined(
            format!("\"{relation}\" is not attached"),
            "SELECT relation FROM memory_agent.attachments lists the attached tables.",
        ));
    };
    if let Some(oid) = table {
        describe(oid)?.map_or(Ok(()), |table| table.check_owner())?;
    }
    let caller = Spi::read_write()?;
    tables::drop_triggers(&caller, id)?;
    drop(caller);
    let forgotten = roles::write_as_owner(|spi| {
        attachments::delete(spi, id)?;
        if forget.unwrap_or(false) {
            entries::end_all(spi, &label, "its table was detached")
        } else {
            Ok(0)
        }
    })?;
    debug1!("memory_agent: detach relation={label} forgotten={forgotten}");
    Ok(i64::try_from(forgotten).unwrap_or(i64::MAX))
}

fn default_agent() -> String {
    Identity::current().agent_id.unwrap_or_else(|| identity::DEFAULT_AGENT.to_owned())
}

fn place(argument: &str, path: Option<String>) -> PgResult<JsonPlace> {
    let path = path.as_deref().map(Path::read).transpose();
    path.map(JsonPlace).map_err(|error| {
        Error::invalid(format!("{argument}: {error}"), "Example: 'content.parts'.")
    })
}

fn read_role_map(map: JsonbText) -> PgResult<RoleMap> {
    RoleMap::read(&map.0).map_err(|error| {
        Error::invalid(
            error.to_string(),
            "Example: '{\"human\": \"user\", \"ai\": \"assistant\", \"system\": null}'; null is for rows that \
             are not remembered.",
        )
    })
}

/// Reads the condition, as the caller, and by the caller's search_path.
fn add_condition(table: &Table, condition: &str, reading: &mut Reading) -> PgResult<()> {
    let condition = condition::read(table.oid, condition)?;
    let names =
        roles::read_as_owner(|spi| tables::column_names(spi, table.oid, &condition.columns))?;
    reading.condition = Some(condition.text);
    reading.condition_names = names.clone();
    reading.condition_columns = names;
    Ok(())
}

/// Checks what can be checked without the table.
fn check(definition: &Definition) -> PgResult<()> {
    entry::validate_role(&definition.role).map_err(Error::refused)?;
    identity::check_id("agent_id", &definition.agent_id)?;
    let Reading { role_path, role_map, .. } = &definition.reading;
    if *role_map != RoleMap::default() && definition.role_column.is_none() && role_path.0.is_none()
    {
        return Err(Error::invalid(
            "role_map is given, and nothing says where a row's role is",
            "Name role_column, or role_path if the role is in the JSON of content_column.",
        ));
    }
    if let Some(user_id) = &definition.user_id {
        identity::check_id("user_id", user_id)?;
        if definition.user_id_column.is_some() {
            return Err(Error::invalid(
                "user_id and user_id_column exclude each other",
                "user_id names the user of all rows, user_id_column the column with the user of each row.",
            ));
        }
    }
    Ok(())
}

/// Checks that the table has the columns, with types that will do.
fn check_columns(spi: &Spi, table: &Table, definition: &Definition) -> PgResult<()> {
    let columns = [
        ("content_column", Some(&definition.content_column)),
        ("user_id_column", definition.user_id_column.as_ref()),
        ("session_id_column", definition.session_id_column.as_ref()),
        ("role_column", definition.role_column.as_ref()),
    ];
    let named = columns.into_iter().filter_map(|(argument, column)| Some((argument, column?)));
    let Reading { more_content_columns, condition_columns, .. } = &definition.reading;
    let lists = [
        ("metadata_columns", &definition.metadata_columns),
        ("more_content_columns", more_content_columns),
        ("condition", condition_columns),
    ];
    let listed = lists
        .into_iter()
        .flat_map(|(argument, columns)| columns.iter().map(move |column| (argument, column)));
    for (argument, column) in named.chain(listed) {
        tables::column_type(spi, table, argument, column)?;
    }
    if let Some(column) = &definition.created_at_column {
        let found = tables::column_type(spi, table, "created_at_column", column)?;
        if !["timestamptz", "timestamp", "date"].contains(&found.as_str()) {
            return Err(Error::wrong_type(
                format!("created_at_column: \"{column}\" has the type {found}"),
                "It must be timestamptz, or timestamp or date, which are read as UTC.",
            ));
        }
    }
    Ok(())
}

fn describe(table: pg_sys::Oid) -> PgResult<Option<Table>> {
    let role = roles::current_role();
    roles::read_as_owner(|spi| tables::describe(spi, table, role))
}

fn table(relation: Option<pg_sys::Oid>) -> PgResult<Table> {
    let described = relation.map_or(Ok(None), describe)?;
    described.ok_or_else(|| {
        Error::undefined("there is no such table", "Example: memory_attach('notes', 'body').")
    })
}

/// Whose memory rows get that are there already and do not say it; also who sees the job. It is the
/// attacher's identity even where rows belong to many users: the job knows keys of rows that belong to none.
fn intake_user(definition: &Definition) -> PgResult<String> {
    let is_said = definition.user_id.is_some() || definition.user_id_column.is_some();
    let mode = Identity::current().mode;
    match identity::visible_identity() {
        Ok(user_id) => Ok(user_id),
        Err(_) if is_said && matches!(mode, IdentityMode::Required | IdentityMode::Claims) => {
            Ok(roles::current_role_name())
        }
        Err(error) => Err(error),
    }
}

/// Stores the attachment of a table, the one it has or a new one, and returns its id.
fn save(table: &Table, definition: &Definition) -> PgResult<Uuid> {
    let attached = tables::attachment_of(&Spi::read_only()?, table.oid)?;
    roles::write_as_owner(|spi| {
        let all = attachments::all(spi)?;
        let own = all.iter().find(|listed| listed.table == Some(table.oid));
        if own.is_none() && attached.is_some_and(|id| all.iter().any(|listed| listed.id == id)) {
            return Err(Error::duplicate(
                format!("{} is a partition of an attached table", table.name),
                "Its rows are in memory already.",
            ));
        }
        if own.is_none()
            && let Some(other) = all.iter().find(|listed| listed.label == table.name)
        {
            return Err(Error::duplicate(
                format!("\"{}\" is the name under which another table was attached", table.name),
                if other.table.is_some() {
                    "That table was renamed since. Detach it first, and attach it by its new name."
                } else {
                    "That table is gone. Run memory_detach with the name first."
                },
            ));
        }
        let (id, label) = match own {
            Some(own) => (own.id, own.label.clone()),
            None => (new_id(), table.name.clone()),
        };
        attachments::save(spi, id, &label, table.oid, definition)?;
        Ok(id)
    })
}

/// The attachment of a name: of the table that has it now, or that had it when it was attached.
fn find(relation: &str) -> PgResult<Option<Listed>> {
    let table = catalog::relation_named(relation);
    let described = table.map_or(Ok(None), describe)?;
    roles::read_as_owner(|spi| {
        let mut all = attachments::all(spi)?;
        let position =
            all.iter().position(|listed| table.is_some() && listed.table == table).or_else(|| {
                let names = |listed: &Listed| {
                    listed.label == relation
                        || described.as_ref().is_some_and(|table| table.name == listed.label)
                };
                all.iter().position(|listed| listed.table.is_none() && names(listed))
            });
        Ok(position.map(|position| all.swap_remove(position)))
    })
}
