//! `memory_agent.models`: the models known in this database.

pub mod model_change;

use crate::store::prelude::*;

pub use memory_agent_core::wire::protocol::ModelKind as Kind;

/// The name and location of the active model of a kind; `None` when none was activated.
pub fn activated(spi: &Spi, kind: Kind) -> PgResult<Option<(String, Option<String>)>> {
    spi.row(
        "SELECT m.name, m.location FROM memory_agent.models m WHERE m.kind = $1 AND m.active",
        &mut params![kind.as_str()],
    )
}

/// Whether rows of this database are embedded by a model.
pub fn embeds(spi: &Spi, name: &str) -> PgResult<bool> {
    spi.exists(
        "SELECT FROM memory_agent.entries e WHERE e.embedding_model = $1 LIMIT 1",
        &mut params![name],
    )
}

/// Another model that embedded rows, if there is one.
pub fn other_that_embeds(spi: &Spi, name: &str) -> PgResult<Option<String>> {
    spi.row(
        "SELECT e.embedding_model FROM memory_agent.entries e \
          WHERE e.embedding_model IS NOT NULL AND e.embedding_model <> $1 LIMIT 1",
        &mut params![name],
    )
}

/// The kind of a registered model, and whether it is active.
pub fn known(spi: &Spi, name: &str) -> PgResult<Option<(Kind, bool)>> {
    let found = spi.first(
        "SELECT m.kind, m.active FROM memory_agent.models m WHERE m.name = $1",
        &mut params![name],
        |row| Ok((Kind::of(&row.required::<String>(1)?), row.required(2)?)),
    )?;
    Ok(found.and_then(|(kind, active)| kind.map(|kind| (kind, active))))
}

/// A model that was registered.
pub struct Registered {
    pub dimension: Option<i32>,
    pub location: Option<String>,
}

record!(Registered: dimension location);

/// What is known of a model; `None` when it was never registered.
pub fn registered(spi: &Spi, name: &str) -> PgResult<Option<Registered>> {
    spi.row(
        "SELECT m.dimension, m.location FROM memory_agent.models m WHERE m.name = $1",
        &mut params![name],
    )
}

/// Makes a registered model the active one of its kind.
pub fn activate(spi: &Spi, kind: Kind, name: &str) -> PgResult<()> {
    for statement in [
        "UPDATE memory_agent.models m SET active = false \
          WHERE m.kind = $1 AND m.active AND m.name <> $2",
        "UPDATE memory_agent.models m SET active = true \
          WHERE m.kind = $1 AND NOT m.active AND m.name = $2",
    ] {
        spi.execute(statement, &mut params![kind.as_str(), name])?;
    }
    Ok(())
}

/// Adds a model, or changes its location; with `activate` it becomes the active one of its kind.
pub fn register(
    spi: &Spi,
    name: &str,
    kind: Kind,
    dimension: Option<i32>,
    location: Option<&str>,
    activate: bool,
) -> PgResult<()> {
    if activate {
        spi.execute(
            "UPDATE memory_agent.models m SET active = false WHERE m.kind = $1 AND m.active",
            &mut params![kind.as_str()],
        )?;
    }
    spi.run(
        "INSERT INTO memory_agent.models AS m (name, kind, dimension, location, active) \
         VALUES ($1, $2, $3, $4, $5) \
         ON CONFLICT (name) DO UPDATE \
            SET kind = excluded.kind, dimension = excluded.dimension, location = excluded.location, \
                active = m.active OR excluded.active, registered_at = now()",
        &mut params![name, kind.as_str(), dimension, location, activate],
    )
}
