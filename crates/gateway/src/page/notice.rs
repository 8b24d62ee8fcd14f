//! What was just done in a view, in the words of its address, and the button that undoes it. The script takes the
//! button away after a while; without it, it stays.

use super::fact_rows::earlier;
use super::facts::by_memory;
use super::frame::form_token;
use super::parts::{count, memory_path};
use super::request::{Asked, Trouble};
use maud::{Markup, html};
use uuid::Uuid;

/// Most memories that are named in an address.
const MANY: usize = 90;

/// A form that undoes something.
struct Undo {
    action: String,
    /// The text that a memory had.
    content: Option<String>,
    ids: Vec<Uuid>,
}

/// The place of a notice, and the notice if there is one. `own` is the memory that the view is about.
///
/// # Errors
/// What memory says.
pub async fn notice(asked: &Asked, own: Option<Uuid>) -> Result<Markup, Trouble> {
    let told = match asked.query.get("done") {
        Some(word) => told(asked, word, own).await?,
        None => None,
    };
    Ok(html! {
        div #notice role="status" {
            @if let Some((text, undo)) = told {
                div.toast data-for=[undo.is_some().then_some("10")] {
                    p { (text) }
                    @if let Some(undo) = undo {
                        form method="post" action=(undo.action) data-swap {
                            (form_token(&asked.visit))
                            // Of a memory's own page, the way leads to the version that holds then.
                            @if own.is_none() { input type="hidden" name="back" value=(asked.here()); }
                            @for id in &undo.ids { input type="hidden" name="id" value=(id); }
                            @if let Some(content) = &undo.content {
                                input type="hidden" name="content" value=(content);
                            }
                            button.undo type="submit" { "Undo" }
                        }
                    }
                    a.close href=(asked.here()) aria-label="Close" { "×" }
                }
            }
        }
    })
}

async fn told(
    asked: &Asked,
    word: &str,
    own: Option<Uuid>,
) -> Result<Option<(String, Option<Undo>)>, Trouble> {
    let ids: Vec<Uuid> = match asked.query.get("ids") {
        Some(ids) => ids.split(',').filter_map(|id| Uuid::parse_str(id).ok()).take(MANY).collect(),
        None => own.into_iter().collect(),
    };
    let many = count(ids.len(), "memory is", "memories are");
    let undone_by = |action: &str| {
        let (action, ids) = (action.to_owned(), ids.clone());
        (!ids.is_empty()).then_some(Undo { action, content: None, ids })
    };
    Ok(Some(match (word, ids.as_slice()) {
        ("corrected", [id, ..]) => {
            let undo = before(asked, *id).await?.map(|content| Undo {
                action: format!("{}/correct", memory_path(&id.to_string())),
                content: Some(content),
                ids: Vec::new(),
            });
            ("Corrected. This is what is remembered from now on.".to_owned(), undo)
        }
        ("same", _) => ("It already says this.".to_owned(), None),
        ("forgotten", [_, _, ..]) => (format!("{many} forgotten."), undone_by("/ui/restore")),
        ("forgotten", _) => {
            ("Forgotten. It is not used any more.".to_owned(), undone_by("/ui/restore"))
        }
        ("restored", [_, _, ..]) => (format!("{many} remembered again."), None),
        ("restored", _) => ("Restored. It is remembered again.".to_owned(), None),
        ("added", _) => {
            ("Added. It is remembered from now on.".to_owned(), undone_by("/ui/forget"))
        }
        ("nothing", _) => ("There was nothing to do.".to_owned(), None),
        _ => return Ok(None),
    }))
}

/// What a memory said before it was corrected.
async fn before(asked: &Asked, id: Uuid) -> Result<Option<String>, Trouble> {
    let events = by_memory(asked.events(&[id]).await?);
    let id = id.to_string();
    let events = events.get(&id).map_or(&[][..], Vec::as_slice);
    let own = events.iter().find(|event| event.id.as_deref() == Some(id.as_str()));
    let Some(since) = own.and_then(|event| event.created_at.as_deref()) else { return Ok(None) };
    Ok(earlier(&id, since, events).first().and_then(|event| event.content.clone()))
}
