//! Commands that need a database to be unused: before they run, our workers are asked to leave it.
//! PostgreSQL itself would wait five seconds for them and fail then, although they do nothing.
#![allow(unsafe_code)]

use crate::jobs::run::{notes, signals, slots, vacated_database, waker};
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::ffi::{CStr, c_char};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long workers stay away when the command does not say that it is over: PostgreSQL waits five
/// seconds for other sessions, after our own wait.
const STAY_AWAY: Duration = Duration::from_secs(7);
/// How long workers may end by themselves, and how long they are waited for in all.
const ASK_PATIENCE: Duration = Duration::from_millis(1000);
const PATIENCE: Duration = Duration::from_secs(2);

/// The hook that was there before ours.
static PREVIOUS: OnceLock<pg_sys::ProcessUtility_hook_type> = OnceLock::new();

/// Puts the hook in; called once when the library is loaded.
pub fn register() {
    // SAFETY: the library is loaded once per process, by its only thread.
    unsafe {
        PREVIOUS.get_or_init(|| pg_sys::ProcessUtility_hook);
        pg_sys::ProcessUtility_hook = Some(process_utility);
    }
}

unsafe extern "C-unwind" {
    /// pgrx's binding turns an ERROR into a Rust panic and back, which costs time and loses fields (the
    /// context, names of tables and constraints) of the errors of every utility command in the cluster.
    fn standard_ProcessUtility(
        statement: *mut pg_sys::PlannedStmt,
        query: *const c_char,
        read_only_tree: bool,
        context: pg_sys::ProcessUtilityContext::Type,
        parameters: pg_sys::ParamListInfo,
        environment: *mut pg_sys::QueryEnvironment,
        destination: *mut pg_sys::DestReceiver,
        completion: *mut pg_sys::QueryCompletion,
    );
}

/// The hook. It is not guarded, and nothing here has a destructor: an ERROR of the command jumps
/// over this frame as it does over PostgreSQL's own.
unsafe extern "C-unwind" fn process_utility(
    statement: *mut pg_sys::PlannedStmt,
    query: *const c_char,
    read_only_tree: bool,
    context: pg_sys::ProcessUtilityContext::Type,
    parameters: pg_sys::ParamListInfo,
    environment: *mut pg_sys::QueryEnvironment,
    destination: *mut pg_sys::DestReceiver,
    completion: *mut pg_sys::QueryCompletion,
) {
    // SAFETY: PostgreSQL passes a complete statement; it is only looked at. The arguments go on as
    // they came.
    unsafe {
        let command = (*statement).utilityStmt;
        let is_ours = concerns_us(command);
        let is_vacated = is_ours && before(command, context);
        let kind = (*command).type_;
        let next = match PREVIOUS.get() {
            Some(Some(previous)) => *previous,
            _ => standard_ProcessUtility,
        };
        next(
            statement,
            query,
            read_only_tree,
            context,
            parameters,
            environment,
            destination,
            completion,
        );
        if is_ours {
            after(is_vacated, kind);
        }
    }
}

/// Whether a command is of a kind that is looked at here.
///
/// # Safety
/// `command` must be a parsed utility statement.
unsafe fn concerns_us(command: *mut pg_sys::Node) -> bool {
    // SAFETY: the tag says what the node is; extname is never NULL.
    unsafe {
        match (*command).type_ {
            pg_sys::NodeTag::T_DropdbStmt
            | pg_sys::NodeTag::T_RenameStmt
            | pg_sys::NodeTag::T_AlterDatabaseStmt
            | pg_sys::NodeTag::T_CreatedbStmt => true,
            pg_sys::NodeTag::T_CreateExtensionStmt => {
                CStr::from_ptr((*command.cast::<pg_sys::CreateExtensionStmt>()).extname)
                    == c"memory_agent"
            }
            _ => false,
        }
    }
}

/// Vacates the database that the command needs; false when it needs none.
#[pg_guard]
unsafe extern "C-unwind" fn before(
    command: *mut pg_sys::Node,
    context: pg_sys::ProcessUtilityContext::Type,
) -> bool {
    if context != pg_sys::ProcessUtilityContext::PROCESS_UTILITY_TOPLEVEL {
        return false;
    }
    // SAFETY: the caller's.
    let Some(database) = (unsafe { database_to_vacate(command) }) else { return false };
    // SAFETY: the caller's.
    vacated_database::begin(database, unsafe { (*command).type_ } == pg_sys::NodeTag::T_DropdbStmt);
    let is_vacated = vacate(database);
    if !is_vacated {
        vacated_database::forget();
    }
    is_vacated
}

/// After the command has succeeded.
#[pg_guard]
unsafe extern "C-unwind" fn after(is_vacated: bool, kind: pg_sys::NodeTag) {
    if kind == pg_sys::NodeTag::T_CreateExtensionStmt {
        waker::extension_created();
    }
    if is_vacated {
        vacated_database::done();
    }
}

/// The database that a command needs to be unused, if the caller may give the command.
///
/// # Safety
/// `command` must be a parsed utility statement.
unsafe fn database_to_vacate(command: *mut pg_sys::Node) -> Option<pg_sys::Oid> {
    // SAFETY: the tag says what the node is; names are C strings or NULL.
    let name = unsafe {
        match (*command).type_ {
            pg_sys::NodeTag::T_DropdbStmt => (*command.cast::<pg_sys::DropdbStmt>()).dbname,
            pg_sys::NodeTag::T_RenameStmt => {
                let rename = command.cast::<pg_sys::RenameStmt>();
                if (*rename).renameType != pg_sys::ObjectType::OBJECT_DATABASE {
                    return None;
                }
                (*rename).subname
            }
            pg_sys::NodeTag::T_AlterDatabaseStmt => {
                let alter = command.cast::<pg_sys::AlterDatabaseStmt>();
                option((*alter).options, c"tablespace")?;
                (*alter).dbname
            }
            pg_sys::NodeTag::T_CreatedbStmt => {
                let create = command.cast::<pg_sys::CreatedbStmt>();
                let template = option((*create).options, c"template")?;
                if (*template).arg.is_null() {
                    return None;
                }
                pg_sys::defGetString(template)
            }
            _ => return None,
        }
    };
    // SAFETY: catalog look-ups by name and OID; a statement runs in a transaction.
    unsafe {
        if name.is_null() || pg_sys::IsTransactionBlock() || pg_sys::RecoveryInProgress() {
            return None;
        }
        let database = pg_sys::get_database_oid(name, true);
        (database != pg_sys::InvalidOid && is_owned_by_caller(database)).then_some(database)
    }
}

/// The option of that name.
///
/// # Safety
/// `options` must be a list of DefElem, or NIL.
unsafe fn option(options: *mut pg_sys::List, name: &CStr) -> Option<*mut pg_sys::DefElem> {
    // SAFETY: the caller vouches for the list's elements.
    unsafe {
        let length = if options.is_null() { 0 } else { (*options).length as usize };
        (0..length)
            .map(|index| (*(*options).elements.add(index)).ptr_value.cast::<pg_sys::DefElem>())
            .find(|&element| CStr::from_ptr((*element).defname) == name)
    }
}

fn is_owned_by_caller(database: pg_sys::Oid) -> bool {
    // SAFETY: a catalog look-up by OIDs; true for superusers.
    unsafe {
        let caller = pg_sys::GetUserId();
        #[cfg(feature = "pg15")]
        return pg_sys::pg_database_ownercheck(database, caller);
        #[cfg(not(feature = "pg15"))]
        pg_sys::object_ownercheck(pg_sys::DatabaseRelationId, database, caller)
    }
}

/// Asks the workers of a database to leave and waits until they are gone: first by a note, then by
/// SIGTERM. Whether the note was left.
fn vacate(database: pg_sys::Oid) -> bool {
    // Without workers the note is left as well: none may start before the command has its lock.
    if notes::ask_all_to_leave(database, STAY_AWAY).is_err() {
        return false;
    }
    let asked = Instant::now();
    let mut is_terminated = false;
    for (_, state) in slots::live_of(database) {
        signals::wake(state.pid);
    }
    while asked.elapsed() < PATIENCE {
        let live = slots::live_of(database);
        if live.is_empty() {
            break;
        }
        if !is_terminated && asked.elapsed() >= ASK_PATIENCE {
            is_terminated = true;
            for (_, state) in live.iter().filter(|(_, state)| state.pid != 0) {
                // SAFETY: a signal to a process of this cluster: it has the slot's lock.
                unsafe { libc::kill(state.pid, libc::SIGTERM) };
            }
        }
        signals::wait(Duration::from_millis(5), None);
        pgrx::check_for_interrupts!();
    }
    true
}
