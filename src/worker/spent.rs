//! What calls of the LLM cost in transactions that were rolled back: their rows in `llm_calls` are gone,
//! the tokens are not. The end of the transaction, or of a savepoint, leaves a file; the database's worker
//! makes rows of it. Until then `memory_agent.llm_daily_tokens` counts the files.
#![allow(unsafe_code)] // callbacks

use super::slots::DIRECTORY;
use super::{launcher, notes, signals, slots, tx};
use crate::store::llm_calls::{self, Origin, Purpose};
use crate::store::spi::Session as Spi;
use memory_agent_model_server::protocol::CallRecord;
use pgrx::pg_sys;
use pgrx::prelude::*;
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};

/// What the files begin with; the database and a UUID follow.
const PREFIX: &str = "memory_agent.spent.";
/// The same while a file is written.
const UNFINISHED: &str = "memory_agent.spending.";

/// The calls that one question made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spent {
    pub user_id: String,
    pub purpose: String,
    pub model: String,
    pub calls: Vec<CallRecord>,
}

impl Spent {
    fn tokens(&self) -> i64 {
        let of = |call: &CallRecord| {
            i64::from(call.prompt_tokens.unwrap_or(0))
                + i64::from(call.completion_tokens.unwrap_or(0))
        };
        self.calls.iter().map(of).sum()
    }
}

thread_local! {
    /// Whether PostgreSQL calls us at the end of transactions.
    static HOOKED: Cell<bool> = const { Cell::new(false) };
    /// The calls of this transaction, each with the subtransaction that recorded it.
    static CALLS: RefCell<Vec<(pg_sys::SubTransactionId, Spent)>> = const { RefCell::new(Vec::new()) };
}

/// To be called when calls were recorded in the transaction that runs now.
pub fn recorded(mut spent: Spent) {
    // An endpoint's error may quote what it was sent, and nobody could erase that from a file.
    for call in &mut spent.calls {
        call.error = None;
    }
    // SAFETY: the callbacks are functions of this library, which is never unloaded; the last call reads
    // the state of the transaction.
    let subtransaction = unsafe {
        if !HOOKED.replace(true) {
            pg_sys::RegisterXactCallback(Some(at_transaction_end), std::ptr::null_mut());
            pg_sys::RegisterSubXactCallback(Some(at_subtransaction_end), std::ptr::null_mut());
        }
        pg_sys::GetCurrentSubTransactionId()
    };
    CALLS.with_borrow_mut(|calls| calls.push((subtransaction, spent)));
}

#[pg_guard]
unsafe extern "C-unwind" fn at_transaction_end(
    event: pg_sys::XactEvent::Type,
    _argument: *mut std::ffi::c_void,
) {
    use pg_sys::XactEvent::{XACT_EVENT_ABORT, XACT_EVENT_COMMIT, XACT_EVENT_PREPARE};
    if ![XACT_EVENT_ABORT, XACT_EVENT_COMMIT, XACT_EVENT_PREPARE].contains(&event) {
        return;
    }
    let calls = CALLS.take();
    if event == XACT_EVENT_ABORT {
        leave(calls.into_iter().map(|(_, spent)| spent).collect());
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn at_subtransaction_end(
    event: pg_sys::SubXactEvent::Type,
    own: pg_sys::SubTransactionId,
    parent: pg_sys::SubTransactionId,
    _argument: *mut std::ffi::c_void,
) {
    use pg_sys::SubXactEvent::{SUBXACT_EVENT_ABORT_SUB, SUBXACT_EVENT_COMMIT_SUB};
    let calls = CALLS.take();
    let (ended, others): (Vec<_>, Vec<_>) = calls.into_iter().partition(|(of, _)| *of == own);
    let mut kept = others;
    match event {
        SUBXACT_EVENT_COMMIT_SUB => {
            kept.extend(ended.into_iter().map(|(_, spent)| (parent, spent)));
        }
        SUBXACT_EVENT_ABORT_SUB => leave(ended.into_iter().map(|(_, spent)| spent).collect()),
        _ => kept.extend(ended),
    }
    CALLS.set(kept);
}

/// Leaves a file for the worker. Nothing here may fail the end of a transaction: without the file the
/// calls go uncounted.
fn leave(spent: Vec<Spent>) {
    if spent.is_empty() {
        return;
    }
    let Ok(text) = serde_json::to_string(&spent) else { return };
    // SAFETY: set for the life of the session; calls are only recorded in a database.
    let database = unsafe { pg_sys::MyDatabaseId };
    let name = format!("{}.{}", database.to_u32(), uuid::Uuid::now_v7());
    let directory = Path::new(DIRECTORY);
    let unfinished = directory.join(format!("{UNFINISHED}{name}"));
    let left = std::fs::write(&unfinished, text)
        .and_then(|()| std::fs::rename(&unfinished, directory.join(format!("{PREFIX}{name}"))));
    if left.is_err() {
        return;
    }
    let at_work = slots::at_work_in(database);
    for (_, state) in &at_work {
        signals::wake(state.pid);
    }
    if at_work.is_empty() && launcher::is_running() {
        notes::want(database);
        launcher::wake();
    }
}

fn files(database: pg_sys::Oid) -> Vec<PathBuf> {
    let prefix = format!("{PREFIX}{}.", database.to_u32());
    let Ok(directory) = std::fs::read_dir(DIRECTORY) else { return Vec::new() };
    let is_ours = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix))
    };
    directory.filter_map(|entry| Some(entry.ok()?.path())).filter(is_ours).collect()
}

fn read(path: &Path) -> Vec<Spent> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Tokens of this session's database of which no row tells yet.
pub fn waiting_tokens() -> i64 {
    // SAFETY: set for the life of the session.
    let database = unsafe { pg_sys::MyDatabaseId };
    files(database).iter().flat_map(|file| read(file)).map(|spent| spent.tokens()).sum()
}

/// Makes rows of what was left; the worker's part. One that is killed between the commit and the removal
/// of a file counts it twice: that errs on the side of the limit.
pub fn settle(database: pg_sys::Oid) {
    for file in files(database) {
        let left = read(&file);
        let recorded = tx::try_transaction(|| {
            let spi = Spi::read_write()?;
            for spent in &left {
                let origin = Origin { user_id: &spent.user_id, job_id: None };
                let purpose =
                    Purpose { purpose: &spent.purpose, model: &spent.model, bodies: None };
                llm_calls::record(&spi, &origin, &purpose, &spent.calls)?;
            }
            Ok(())
        });
        match recorded {
            Ok(()) => drop(std::fs::remove_file(&file)),
            Err(error) => {
                log!("memory_agent: calls of the LLM are not recorded: {}", error.message);
                return;
            }
        }
    }
}
