//! `memory-agent export`: what a user's views show of their memory, one JSON object a line, as `import` reads it.

use super::{PATIENCE_WITH_MANY, memory_of, plain, say};
use crate::args::Export;
use crate::db::memory::{Memory, MemoryError, Param, column};
use crate::db::place::{AT, Place};
use crate::screen;
use serde_json::Value;
use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

/// Memories that are fetched at once.
const PAGE: i32 = 1_000;

/// Writes the file; it is there only when it is whole.
///
/// # Errors
/// Why there is none.
pub async fn export(options: Export) -> Result<bool, String> {
    if options.file == Path::new("-") {
        let (memory, user) = memory_of(&options.person).await?;
        let is_terminal = io::stdout().is_terminal();
        let mut to = BufWriter::new(io::stdout().lock());
        let count = all(&memory, &user, &mut to, is_terminal).await?;
        to.flush().map_err(|error| error.to_string())?;
        say(&format!("{count} memories are written."));
        return Ok(true);
    }
    let unwritten = |error: io::Error| format!("{}: {error}", options.file.display());
    if !options.force && fs::symlink_metadata(&options.file).is_ok() {
        return Err(format!(
            "{} is there already: name another file, or say --force to replace it",
            options.file.display()
        ));
    }
    let (memory, user) = memory_of(&options.person).await?;
    let part = Part::new(&options.file);
    // It is for its owner to read, and was not there before: another account may have made one.
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part.0);
    let mut to = BufWriter::new(file.map_err(unwritten)?);
    let count = tokio::select! {
        count = all(&memory, &user, &mut to, false) => count?,
        _ = tokio::signal::ctrl_c() => return Err("stopped: nothing is written".to_owned()),
    };
    let file = to.into_inner().map_err(|error| unwritten(error.into_error()))?;
    file.sync_all().and_then(|()| fs::rename(&part.0, &options.file)).map_err(unwritten)?;
    say(&format!("{count} memories are written to {}.", options.file.display()));
    Ok(true)
}

/// A file that is not whole, of a name that only this process knows. It is gone when this is.
struct Part(PathBuf);

impl Part {
    fn new(file: &Path) -> Self {
        let mut part = file.to_path_buf().into_os_string();
        part.push(format!(".{}.part", Uuid::new_v4().simple()));
        Self(part.into())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // Once it is whole, it has its own name.
        let _ = fs::remove_file(&self.0);
    }
}

/// Writes all of it, oldest first.
async fn all(
    memory: &Memory,
    user: &str,
    to: &mut impl Write,
    is_terminal: bool,
) -> Result<u64, String> {
    let (mut count, mut from) = (0, None);
    loop {
        let page = page(memory, user, from.as_ref()).await.map_err(|error| plain(&error))?;
        // The next page begins at the last memory of a full one.
        let is_last = page.len() < PAGE as usize;
        let shown = if is_last { page.len() } else { page.len() - 1 };
        for (line, _) in &page[..shown] {
            let line = line.to_string();
            let line = if is_terminal { screen::json(&line) } else { line };
            writeln!(to, "{line}").map_err(|error| error.to_string())?;
        }
        count += shown as u64;
        if is_last {
            return Ok(count);
        }
        from = page.into_iter().last().map(|(_, place)| place);
    }
}

async fn page(
    memory: &Memory,
    user: &str,
    from: Option<&Place>,
) -> Result<Vec<(Value, Place)>, MemoryError> {
    let sql = format!(
        "SELECT jsonb_strip_nulls(jsonb_build_object( \
                        'memory_agent', 1, 'id', e.id, 'kind', e.kind, 'role', e.role, \
                        'content', e.content, 'session_id', e.session_id, 'agent_id', e.agent_id, \
                        'created_at', to_jsonb(e.created_at AT TIME ZONE 'UTC') #>> '{{}}' || 'Z', \
                        'expires_at', to_jsonb(e.expires_at AT TIME ZONE 'UTC') #>> '{{}}' || 'Z', \
                        'markers', e.markers, 'fact_key', e.fact_key, 'confidence', e.confidence, \
                        'source_ids', e.source_ids, 'is_active', e.is_active)) \
                    || jsonb_build_object('metadata', e.entry_metadata), \
                {AT}, e.id \
           FROM memory_list(user_id => $1, own_only => true, oldest_first => true, \"limit\" => $4::int4, \
                            from_at => $2::timestamp AT TIME ZONE 'UTC', from_id => $3) e \
          ORDER BY e.created_at, e.id"
    );
    let (at, id) = (from.map(|place| &place.at), from.map(|place| place.id));
    let params: [Param<'_>; 4] =
        [(&user, Type::TEXT), (&at, Type::TEXT), (&id, Type::UUID), (&PAGE, Type::INT4)];
    let rows = memory.call(user, PATIENCE_WITH_MANY, &sql, &params).await?;
    let place = |row: &Row| Ok(Place { at: column(row, 1)?, id: column(row, 2)? });
    rows.iter().map(|row| Ok((column(row, 0)?, place(row)?))).collect()
}
