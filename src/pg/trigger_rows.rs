//! The rows that a trigger is told of, as tables that statements read: what its statement wrote, or the one row of a
//! row trigger.
#![allow(unsafe_code)]

use pgrx::pg_sys;
use pgrx::prelude::*;
use std::ffi::CStr;

const NEW: &CStr = c"memory_agent_new";
const OLD: &CStr = c"memory_agent_old";

/// Whether this session applies what another server wrote, so that triggers fire for replicas alone.
pub fn is_replica() -> bool {
    // SAFETY: reads a setting.
    unsafe { pg_sys::SessionReplicationRole == pg_sys::SESSION_REPLICATION_ROLE_REPLICA as i32 }
}

/// The rows of a trigger; to be dropped after the connections that read them.
pub enum TriggerRows<'a> {
    /// The transition tables of a statement.
    OfStatement(&'a PgTrigger<'a>),
    /// The versions of one row.
    OfRow(OneRow),
}

/// A row as transition tables that hold nothing else.
pub struct OneRow {
    data: pg_sys::TriggerData,
    /// What the data point to.
    _trigger: Box<pg_sys::Trigger>,
}

impl<'a> TriggerRows<'a> {
    pub fn of(trigger: &'a PgTrigger<'a>) -> Self {
        let data = trigger.trigger_data();
        if data.tg_event & pg_sys::TRIGGER_EVENT_ROW == 0 {
            return Self::OfStatement(trigger);
        }
        let (old, new) = match data.tg_event & pg_sys::TRIGGER_EVENT_OPMASK {
            pg_sys::TRIGGER_EVENT_INSERT => (None, Some(data.tg_trigtuple)),
            pg_sys::TRIGGER_EVENT_UPDATE => (Some(data.tg_trigtuple), Some(data.tg_newtuple)),
            _ => (Some(data.tg_trigtuple), None),
        };
        let name = |tuple: Option<_>, name: &CStr| {
            tuple.map_or(std::ptr::null_mut(), |_| name.as_ptr().cast_mut())
        };
        // SAFETY: the trigger's data and its tuples outlive its call. PostgreSQL reads the names, which are static.
        unsafe {
            let mut trigger = Box::new(*data.tg_trigger);
            trigger.tgnewtable = name(new, NEW);
            trigger.tgoldtable = name(old, OLD);
            let mut data = *data;
            data.tg_newtable = table_of(new);
            data.tg_oldtable = table_of(old);
            data.tg_trigger = &raw mut *trigger;
            Self::OfRow(OneRow { data, _trigger: trigger })
        }
    }

    /// What SPI is told so that statements see the rows.
    pub fn data(&self) -> *mut pg_sys::TriggerData {
        let data = match self {
            Self::OfStatement(trigger) => trigger.trigger_data(),
            Self::OfRow(row) => &row.data,
        };
        std::ptr::from_ref(data).cast_mut()
    }
}

/// A table with one row; none without.
///
/// # Safety
/// The tuple is one.
unsafe fn table_of(tuple: Option<pg_sys::HeapTuple>) -> *mut pg_sys::Tuplestorestate {
    let Some(tuple) = tuple else { return std::ptr::null_mut() };
    // SAFETY: the table is in the current memory context, that of the trigger's call, and copies the tuple.
    unsafe {
        let table = pg_sys::tuplestore_begin_heap(false, false, pg_sys::work_mem);
        pg_sys::tuplestore_puttuple(table, tuple);
        table
    }
}

impl Drop for OneRow {
    fn drop(&mut self) {
        // While an ERROR unwinds, PostgreSQL frees them with the memory of the trigger's call.
        if std::thread::panicking() {
            return;
        }
        for table in [self.data.tg_newtable, self.data.tg_oldtable] {
            if !table.is_null() {
                // SAFETY: made in `of`, and read by nothing any more.
                unsafe { pg_sys::tuplestore_end(table) };
            }
        }
    }
}
