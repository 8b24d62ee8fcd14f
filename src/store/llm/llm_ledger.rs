//! What calls of the LLM cost that a session makes and that no row may tell of: their answers may never
//! be read, and their rows are gone when the transaction is rolled back. A session keeps a ledger of the
//! calls of its transaction in a locked file. A commit removes it; what a rollback, a savepoint or a dead
//! process leaves behind, the database's worker makes rows of. Until then
//! `memory_agent.llm_daily_tokens` counts the files.
#![allow(unsafe_code)] // callbacks

use crate::pg::locked_file::{self, DIRECTORY, LockedFile, unix_time};
use crate::pg::prelude::*;
use crate::pg::{background_transaction, wake_at_commit};
use crate::store::llm::llm_calls::{self, Origin, Purpose};
use memory_agent_model_server::protocol::CallRecord;
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};

/// What the files begin with; the database and a UUID follow.
const PREFIX: &str = "memory_agent.spent.";
const SECONDS_PER_DAY: u64 = 86_400;

/// The calls that one question made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spent {
    user_id: String,
    /// The endpoint's row, if it has one.
    #[serde(default)]
    endpoint: Option<String>,
    purpose: String,
    model: String,
    calls: Vec<CallRecord>,
    /// In seconds since 1970.
    at: u64,
}

impl Spent {
    pub fn new(
        user_id: &str,
        endpoint: Option<&str>,
        purpose: &str,
        model: &str,
        mut calls: Vec<CallRecord>,
    ) -> Self {
        // An endpoint's error may quote what it was sent, and that could not be erased from a file.
        for call in &mut calls {
            call.error = None;
        }
        Self {
            user_id: user_id.to_owned(),
            endpoint: endpoint.map(str::to_owned),
            purpose: purpose.to_owned(),
            model: model.to_owned(),
            calls,
            at: unix_time(),
        }
    }

    fn tokens(&self) -> i64 {
        let of = |call: &CallRecord| {
            i64::from(call.prompt_tokens.unwrap_or(0))
                + i64::from(call.completion_tokens.unwrap_or(0))
        };
        self.calls.iter().map(of).sum()
    }

    /// Whether it belongs to the present day in UTC.
    fn is_of_today(&self) -> bool {
        self.at / SECONDS_PER_DAY == unix_time() / SECONDS_PER_DAY
    }
}

/// A question in the ledger.
#[derive(Debug)]
pub struct Entry(u64);

/// The questions of the transaction that runs.
#[derive(Default)]
struct Ledger {
    questions: Vec<Question>,
    last: u64,
    /// Where others see them; `None` without any, and where no file can be made.
    file: Option<(PathBuf, LockedFile)>,
}

struct Question {
    number: u64,
    subtransaction: pg_sys::SubTransactionId,
    spent: Spent,
}

thread_local! {
    /// Whether PostgreSQL calls us at the end of transactions.
    static HOOKED: Cell<bool> = const { Cell::new(false) };
    static LEDGER: RefCell<Ledger> = RefCell::default();
}

/// Enters calls that are being made, or were, and of which no committed row tells.
pub fn begin(spent: Spent) -> Entry {
    // SAFETY: the callbacks are functions of this library, which is never unloaded; the last call reads
    // the state of the transaction.
    let subtransaction = unsafe {
        if !HOOKED.replace(true) {
            pg_sys::RegisterXactCallback(Some(at_transaction_end), std::ptr::null_mut());
            pg_sys::RegisterSubXactCallback(Some(at_subtransaction_end), std::ptr::null_mut());
        }
        pg_sys::GetCurrentSubTransactionId()
    };
    LEDGER.with_borrow_mut(|ledger| {
        ledger.last += 1;
        ledger.questions.push(Question { number: ledger.last, subtransaction, spent });
        ledger.publish();
        Entry(ledger.last)
    })
}

impl Entry {
    /// Now more is known of the calls, and their rows were written.
    pub fn replace(self, spent: Spent) {
        LEDGER.with_borrow_mut(|ledger| {
            let mut questions = ledger.questions.iter_mut();
            if let Some(question) = questions.find(|question| question.number == self.0) {
                question.spent = spent;
            }
            ledger.publish();
        });
    }

    /// No call was made.
    pub fn withdraw(self) {
        LEDGER.with_borrow_mut(|ledger| {
            ledger.questions.retain(|question| question.number != self.0);
            ledger.publish();
        });
    }
}

impl Ledger {
    /// Makes the file say what the ledger holds.
    fn publish(&mut self) {
        if self.questions.is_empty() {
            return self.remove();
        }
        let spent: Vec<&Spent> = self.questions.iter().map(|question| &question.spent).collect();
        if self.file.is_none() {
            self.file = new_file();
        }
        if let (Some((_, file)), Ok(text)) = (&mut self.file, serde_json::to_string(&spent)) {
            file.write(&text);
        }
    }

    /// The rows are there.
    fn remove(&mut self) {
        self.questions.clear();
        if let Some((path, _lock)) = self.file.take() {
            drop(std::fs::remove_file(path));
        }
    }

    /// The rows are not there: the worker is to write them.
    fn leave(&mut self) {
        let is_empty = self.questions.is_empty();
        self.questions.clear();
        self.file = None;
        if !is_empty {
            // SAFETY: set for the life of the session; calls are only recorded in a database.
            wake_at_commit::record_left(unsafe { pg_sys::MyDatabaseId });
        }
    }
}

/// A file of this session's database that no other process has locked. Nothing here may fail a
/// statement or the end of a transaction: without a file the calls go uncounted when it is rolled back.
fn new_file() -> Option<(PathBuf, LockedFile)> {
    /// The worker may look at a new file before its owner has locked it.
    const ATTEMPTS: usize = 3;
    // SAFETY: set for the life of the session; calls are only recorded in a database.
    let database = unsafe { pg_sys::MyDatabaseId };
    (0..ATTEMPTS).find_map(|_| {
        let name = format!("{PREFIX}{}.{}", database.to_u32(), uuid::Uuid::now_v7());
        let path = Path::new(DIRECTORY).join(name);
        let file = LockedFile::take(&path).ok()??;
        Some((path, file))
    })
}

#[pg_guard]
unsafe extern "C-unwind" fn at_transaction_end(
    event: pg_sys::XactEvent::Type,
    _argument: *mut std::ffi::c_void,
) {
    use pg_sys::XactEvent::{XACT_EVENT_ABORT, XACT_EVENT_COMMIT, XACT_EVENT_PREPARE};
    LEDGER.with_borrow_mut(|ledger| match event {
        XACT_EVENT_ABORT => ledger.leave(),
        XACT_EVENT_COMMIT | XACT_EVENT_PREPARE => ledger.remove(),
        _ => {}
    });
}

#[pg_guard]
unsafe extern "C-unwind" fn at_subtransaction_end(
    event: pg_sys::SubXactEvent::Type,
    own: pg_sys::SubTransactionId,
    parent: pg_sys::SubTransactionId,
    _argument: *mut std::ffi::c_void,
) {
    use pg_sys::SubXactEvent::{SUBXACT_EVENT_ABORT_SUB, SUBXACT_EVENT_COMMIT_SUB};
    LEDGER.with_borrow_mut(|ledger| match event {
        SUBXACT_EVENT_COMMIT_SUB => {
            let ended =
                ledger.questions.iter_mut().filter(|question| question.subtransaction == own);
            ended.for_each(|question| question.subtransaction = parent);
        }
        SUBXACT_EVENT_ABORT_SUB => {
            let questions = std::mem::take(&mut ledger.questions);
            let (ended, kept) =
                questions.into_iter().partition(|question| question.subtransaction == own);
            let mut left = Ledger { questions: ended, ..Ledger::default() };
            if !left.questions.is_empty() {
                left.publish();
                left.leave();
            }
            ledger.questions = kept;
            ledger.publish();
        }
        _ => {}
    });
}

fn files(database: pg_sys::Oid) -> Vec<PathBuf> {
    let prefix = format!("{PREFIX}{}.", database.to_u32());
    let path = |name: String| Path::new(DIRECTORY).join(format!("{prefix}{name}"));
    locked_file::names(&prefix).into_iter().map(path).collect()
}

fn read(path: &Path) -> Vec<Spent> {
    let text = locked_file::read(path).map(|content| content.text).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Tokens of this session's database that were used today at an endpoint and of which no row tells that this
/// transaction can see: those of other transactions that run, and those the worker has not recorded yet.
pub fn waiting_tokens(endpoint: Option<&str>) -> i64 {
    waiting(|spent| spent.endpoint.as_deref() == endpoint)
}

/// The same for a user, at any endpoint.
pub fn waiting_tokens_of_user(user_id: &str) -> i64 {
    waiting(|spent| spent.user_id == user_id)
}

fn waiting(is_counted: impl Fn(&Spent) -> bool) -> i64 {
    // SAFETY: set for the life of the session.
    let database = unsafe { pg_sys::MyDatabaseId };
    let own = LEDGER.with_borrow(|ledger| ledger.file.as_ref().map(|(path, _)| path.clone()));
    let others = files(database).into_iter().filter(|file| own.as_ref() != Some(file));
    let spent = others.flat_map(|file| read(&file)).filter(Spent::is_of_today);
    spent.filter(is_counted).map(|spent| spent.tokens()).sum()
}

/// Makes rows of what was left; the worker's part. One that is killed between the commit and the removal
/// of a file counts it twice: that errs on the side of the limit.
pub fn settle(database: pg_sys::Oid) {
    for file in files(database) {
        // The process that has it locked is not done yet.
        let Ok(Some(_lock)) = LockedFile::take(&file) else { continue };
        let left = read(&file);
        let recorded = background_transaction::try_transaction(|| {
            let spi = Spi::read_write()?;
            for spent in &left {
                let endpoint = spent.endpoint.as_deref();
                let origin = Origin { user_id: &spent.user_id, endpoint, job_id: None };
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
