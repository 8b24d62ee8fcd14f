//! Whether the rows that a trigger is shown are still what the table holds. A transition table keeps rows
//! as its statement wrote them, and is read when the statement ends. By then a trigger of the application
//! may have changed the same rows by statements of its own, which were followed already; and where one
//! statement inserts, changes and deletes (MERGE, ON CONFLICT, WITH), its parts are told one after the
//! other, not always in the order in which they happened.
#![allow(unsafe_code)]

use crate::pg::prelude::*;
use std::cell::RefCell;
use std::collections::HashMap;

/// What was followed in one transaction.
#[derive(Default)]
struct Followed {
    transaction: u64,
    /// By attachment, the command that was under way when the last rows of it had been followed, and whether rows
    /// had left their keys.
    attachments: HashMap<Uuid, (pg_sys::CommandId, bool)>,
}

thread_local! {
    static FOLLOWED: RefCell<Followed> = RefCell::default();
}

/// The transaction, which has an id: its statement wrote rows.
fn transaction() -> u64 {
    // SAFETY: reads backend state.
    unsafe { pg_sys::GetTopFullTransactionIdIfAny() }.value
}

/// Whether rows of an attachment were followed since the statement began whose trigger runs now.
pub fn is_overtaken(attachment: Uuid) -> bool {
    overtaken(attachment).is_some()
}

/// Whether the last of these rows were those of an update that took some from their keys.
pub fn has_moved_rows(attachment: Uuid) -> bool {
    overtaken(attachment) == Some(true)
}

fn overtaken(attachment: Uuid) -> Option<bool> {
    // SAFETY: while triggers of a statement run, its snapshot is the active one.
    let began = unsafe { pg_sys::GetActiveSnapshot().as_ref() }.map_or(0, |active| active.curcid);
    FOLLOWED.with_borrow(|followed| {
        let (until, has_moved) = *followed.attachments.get(&attachment)?;
        (followed.transaction == transaction() && until > began).then_some(has_moved)
    })
}

/// Notes that the rows of a statement were followed. What is undone by a savepoint stays noted: it costs
/// a look at the table, no more.
pub fn note_followed(attachment: Uuid, has_moved: bool) {
    let transaction = transaction();
    // SAFETY: reads backend state.
    let command = unsafe { pg_sys::GetCurrentCommandId(false) };
    FOLLOWED.with_borrow_mut(|followed| {
        if followed.transaction != transaction {
            *followed = Followed { transaction, ..Followed::default() };
        }
        followed.attachments.insert(attachment, (command, has_moved));
    });
}
