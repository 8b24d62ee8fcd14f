//! What a visitor does with memories: correct, forget, restore, add. Each form says which view it is on, and that
//! view then says what was done, and how to undo it.

use super::parts::{is_view, memory_path};
use super::request::{Answer, Asked, Trouble};
use crate::db::memory::Param;
use tokio_postgres::types::Type;
use uuid::Uuid;

/// Most memories that are forgotten or restored at once: those of a page.
const MANY: usize = 90;

/// `POST /ui/memory/{id}/correct`.
///
/// # Errors
/// What memory says.
pub async fn correct(asked: Asked) -> Result<Answer, Trouble> {
    let id = asked.id()?;
    let content = text(&asked);
    let params: [Param<'_>; 2] = [(&id, Type::UUID), (&content, Type::TEXT)];
    let rows = asked.rows("SELECT memory_update($1, $2)", &params).await?;
    let new = rows.first().and_then(|row| row.try_get(0).ok());
    let new: Uuid = new.ok_or_else(|| Trouble::gone("memory"))?;
    Ok(done(&asked, if new == id { "same" } else { "corrected" }, &[new]))
}

/// What was typed; browsers send every line break of a form as two characters.
fn text(asked: &Asked) -> String {
    asked.form.get("content").unwrap_or_default().replace("\r\n", "\n").trim().to_owned()
}

/// `POST /ui/memory/{id}/forget`, and `POST /ui/forget` for several.
///
/// # Errors
/// What memory says.
pub async fn forget(asked: Asked) -> Result<Answer, Trouble> {
    let ids = ids(&asked)?;
    let reason = asked.form.get("reason");
    let params: [Param<'_>; 2] = [(&ids, Type::UUID_ARRAY), (&reason, Type::TEXT)];
    let sql = "SELECT i.id FROM unnest($1) i (id) WHERE memory_forget(i.id, $2)";
    did(&asked, sql, &params, &ids, "forgotten").await
}

/// `POST /ui/memory/{id}/restore`, and `POST /ui/restore` for several.
///
/// # Errors
/// What memory says.
pub async fn restore(asked: Asked) -> Result<Answer, Trouble> {
    let ids = ids(&asked)?;
    let params: [Param<'_>; 1] = [(&ids, Type::UUID_ARRAY)];
    let sql = "SELECT i.id FROM unnest($1) i (id) WHERE memory_restore(i.id)";
    did(&asked, sql, &params, &ids, "restored").await
}

/// `POST /ui/add`.
///
/// # Errors
/// What memory says.
pub async fn add(asked: Asked) -> Result<Answer, Trouble> {
    let content = text(&asked);
    if content.is_empty() {
        return Err(Trouble::invalid("Write what is to be remembered."));
    }
    let params: [Param<'_>; 1] = [(&content, Type::TEXT)];
    let rows = asked.rows("SELECT memory_add($1, infer => false)", &params).await?;
    let new: Option<Uuid> = rows.first().and_then(|row| row.try_get(0).ok());
    Ok(done(&asked, "added", new.as_slice()))
}

/// The one that the path names, or those of the form.
fn ids(asked: &Asked) -> Result<Vec<Uuid>, Trouble> {
    if asked.path.starts_with("/ui/memory/") {
        return Ok(vec![asked.id()?]);
    }
    let ids = asked.form.all("id").filter_map(|id| Uuid::parse_str(id).ok());
    let ids: Vec<Uuid> = ids.take(MANY).collect();
    if ids.is_empty() {
        return Err(Trouble::invalid("Choose at least one memory."));
    }
    Ok(ids)
}

async fn did(
    asked: &Asked,
    sql: &str,
    params: &[Param<'_>],
    wanted: &[Uuid],
    word: &str,
) -> Result<Answer, Trouble> {
    let rows = asked.rows(sql, params).await?;
    let ids: Vec<Uuid> = rows.iter().filter_map(|row| row.try_get(0).ok()).collect();
    Ok(match ids.as_slice() {
        [] => done(asked, "nothing", wanted),
        ids => done(asked, word, ids),
    })
}

/// Leads back to where the form was, which says what was done; without, to the memory itself.
fn done(asked: &Asked, word: &str, ids: &[Uuid]) -> Answer {
    let own = ids.first().map(|id| memory_path(&id.to_string()));
    let Some(back) = asked.form.get("back").filter(|back| is_view(back)) else {
        return Answer::See(format!("{}?done={word}", own.as_deref().unwrap_or("/ui")));
    };
    let ids: Vec<String> = ids.iter().map(Uuid::to_string).collect();
    let joint = if back.contains('?') { '&' } else { '?' };
    Answer::See(format!("{back}{joint}done={word}&ids={}", ids.join(",")))
}
