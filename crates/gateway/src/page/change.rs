//! What a visitor does with one memory: correct, forget, restore it.

use super::parts::memory_path;
use super::request::{Answer, Asked, Trouble};
use crate::memory::Param;
use tokio_postgres::types::Type;
use uuid::Uuid;

/// `POST /ui/memory/{id}/correct`.
///
/// # Errors
/// What memory says.
pub async fn correct(asked: Asked) -> Result<Answer, Trouble> {
    let id = asked.id()?;
    let content = asked.form.get("content").unwrap_or_default();
    // Browsers send every line break of a form as two characters.
    let content = content.replace("\r\n", "\n");
    let params: [Param<'_>; 2] = [(&id, Type::UUID), (&content, Type::TEXT)];
    let rows = asked.rows("SELECT memory_update($1, $2)", &params).await?;
    let new: Uuid =
        rows.first().and_then(|row| row.try_get(0).ok()).ok_or_else(Trouble::nothing_here)?;
    Ok(see(new, if new == id { "same" } else { "corrected" }))
}

/// `POST /ui/memory/{id}/forget`.
///
/// # Errors
/// What memory says.
pub async fn forget(asked: Asked) -> Result<Answer, Trouble> {
    let id = asked.id()?;
    let reason = asked.form.get("reason");
    let params: [Param<'_>; 2] = [(&id, Type::UUID), (&reason, Type::TEXT)];
    did(&asked, "SELECT memory_forget($1, $2)", &params, id, "forgotten").await
}

/// `POST /ui/memory/{id}/restore`.
///
/// # Errors
/// What memory says.
pub async fn restore(asked: Asked) -> Result<Answer, Trouble> {
    let id = asked.id()?;
    let params: [Param<'_>; 1] = [(&id, Type::UUID)];
    did(&asked, "SELECT memory_restore($1)", &params, id, "restored").await
}

async fn did(
    asked: &Asked,
    sql: &str,
    params: &[Param<'_>],
    id: Uuid,
    word: &str,
) -> Result<Answer, Trouble> {
    let rows = asked.rows(sql, params).await?;
    let has_done = rows.first().and_then(|row| row.try_get(0).ok()).unwrap_or(false);
    Ok(see(id, if has_done { word } else { "nothing" }))
}

fn see(id: Uuid, word: &str) -> Answer {
    Answer::See(format!("{}?done={word}", memory_path(&id.to_string())))
}
