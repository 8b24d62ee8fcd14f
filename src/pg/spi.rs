//! The one place that talks to SPI: typed rows, cursors that free what they fetched. Parameters are those of
//! `params`, plans those of `plans`.
//!
//! pgrx's own client is not used because it decides by itself when a statement may write, and stops
//! passing `read_only` once the transaction has an id. Recall must see one snapshot in one call,
//! so here the caller says what it wants.
#![allow(unsafe_code)]

use crate::pg::error::{Error, PgResult};
use crate::pg::memory_context::in_callers_context;
use crate::pg::params::Params;
use crate::pg::plans;
use crate::pg::settings_level::{self, SettingsLevel};
use crate::pg::sql_types::{JsonbText, Vector};
use crate::pg::trigger_rows::TriggerRows;
use pgrx::datum::Uuid;
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::ffi::{c_int, c_long};
use std::ops::ControlFlow;

/// One row of a result, taken apart once. Columns are numbered from 1.
pub struct Row<'a> {
    values: &'a [pg_sys::Datum],
    nulls: &'a [bool],
    types: &'a [pg_sys::Oid],
}

/// What a row is read into: a column, or a tuple or struct of such, one after the other. An `Option`
/// takes a NULL, and a count, which is unsigned, takes NULL and what is negative for 0.
pub trait Record: Sized {
    /// Reads the columns behind `column`, and moves that to the last one read.
    fn read(row: &Row<'_>, column: &mut usize) -> PgResult<Self>;
}

impl<T: FromDatum> Record for Option<T> {
    fn read(row: &Row<'_>, column: &mut usize) -> PgResult<Self> {
        *column += 1;
        Ok(row.optional(*column))
    }
}

macro_rules! columns {
    ($($type:ty)*) => { $(impl Record for $type {
        fn read(row: &Row<'_>, column: &mut usize) -> PgResult<Self> {
            *column += 1;
            row.required(*column)
        }
    })* };
}
columns!(bool i16 i32 i64 f32 f64 String Uuid TimestampWithTimeZone JsonbText pg_sys::Oid);
columns!(Vec<u8> Vec<Option<String>> Vec<String> Vec<Uuid> Vector);

macro_rules! counts {
    ($($type:ident of $column:ident)*) => { $(impl Record for $type {
        fn read(row: &Row<'_>, column: &mut usize) -> PgResult<Self> {
            let count: Option<$column> = Record::read(row, column)?;
            Ok(count.unwrap_or(0).max(0).unsigned_abs())
        }
    })* };
}
counts!(u32 of i32 u64 of i64);

impl Record for serde_json::Value {
    fn read(row: &Row<'_>, column: &mut usize) -> PgResult<Self> {
        let JsonbText(text) = Record::read(row, column)?;
        serde_json::from_str(&text)
            .map_err(|error| Error::internal(format!("stored JSON cannot be read: {error}")))
    }
}

macro_rules! tuples {
    ($(($($part:ident)*))*) => { $(impl<$($part: Record),*> Record for ($($part,)*) {
        fn read(row: &Row<'_>, column: &mut usize) -> PgResult<Self> {
            Ok(($($part::read(row, column)?,)*))
        }
    })* };
}
tuples!((A B) (A B C) (A B C D) (A B C D E) (A B C D E F) (A B C D E F G) (A B C D E F G H));
tuples!((A B C D E F G H I) (A B C D E F G H I J K L M N O P Q R));

/// Reads rows into a struct, its fields in the order of the columns. Those after a semicolon are in none.
macro_rules! record {
    ($type:ident: $($field:ident)* $(; $($default:ident)*)?) => {
        impl $crate::pg::spi::Record for $type {
            fn read(
                row: &$crate::pg::spi::Row<'_>,
                column: &mut usize,
            ) -> $crate::pg::error::PgResult<Self> {
                Ok(Self {
                    $($field: $crate::pg::spi::Record::read(row, column)?,)*
                    $($($default: Default::default(),)*)?
                })
            }
        }
    };
}
pub(crate) use record;

impl Row<'_> {
    /// The value of a column; NULL is `None`.
    pub fn optional<T: FromDatum>(&self, column: usize) -> Option<T> {
        let datum = self.datum(column)?;
        let type_oid = self.types.get(column - 1).copied()?;
        // SAFETY: the datum belongs to a tuple of the still allocated SPI tuple table.
        unsafe { T::from_polymorphic_datum(datum, false, type_oid) }
    }

    /// The value of a column that is never NULL.
    pub fn required<T: FromDatum>(&self, column: usize) -> PgResult<T> {
        self.optional(column)
            .ok_or_else(|| Error::internal(format!("column {column} is NULL unexpectedly")))
    }

    /// The columns from the first one on.
    pub fn record<T: Record>(&self) -> PgResult<T> {
        T::read(self, &mut 0)
    }

    /// The datum of a column as it is, for types without a Rust mapping. It lives as long as the row.
    pub fn datum(&self, column: usize) -> Option<pg_sys::Datum> {
        match (self.values.get(column - 1), self.nulls.get(column - 1)) {
            (Some(&datum), Some(false)) => Some(datum),
            _ => None,
        }
    }
}

/// Whether every statement of this transaction sees what its first one saw (REPEATABLE READ and
/// SERIALIZABLE): what others committed since then is hidden from our statements too.
pub fn sees_one_snapshot() -> bool {
    // SAFETY: reads backend state.
    unsafe { pg_sys::XactIsoLevel >= pg_sys::XACT_REPEATABLE_READ as i32 }
}

/// What the statements of a connection see, and whether they may write; one that may not and does is an
/// ERROR.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Visibility {
    /// The snapshot of the calling query.
    Callers,
    /// Whatever is committed when the statement begins, at every isolation level.
    Latest,
    /// What the isolation level says, and what this transaction wrote.
    Writing,
}

/// An SPI connection. Whichever role opens it, names in its statements are looked up in pg_catalog.
pub struct Session {
    visibility: Visibility,
    /// Left after SPI.
    _search_path: Option<SettingsLevel>,
}

impl Session {
    /// Every statement sees the snapshot of the calling query.
    pub fn read_only() -> PgResult<Self> {
        Self::connect(Visibility::Callers)
    }

    /// Every statement sees what others committed until it begins, also in transactions that otherwise see
    /// one snapshot: for what must not be missed. For statements that return few rows.
    pub fn read_latest() -> PgResult<Self> {
        Self::connect(Visibility::Latest)
    }

    pub fn read_write() -> PgResult<Self> {
        Self::connect(Visibility::Writing)
    }

    fn connect(visibility: Visibility) -> PgResult<Self> {
        // SAFETY: balanced by SPI_finish in Drop, or by transaction abort after an ERROR.
        let code = unsafe { pg_sys::SPI_connect() };
        if code < 0 {
            return Err(Error::internal(format!("SPI_connect failed with {code}")));
        }
        Ok(Self { visibility, _search_path: settings_level::our_search_path() })
    }

    /// Lets the statements of this connection read the rows of the trigger that is fired.
    pub fn see_rows(&self, rows: &TriggerRows<'_>) -> PgResult<()> {
        // SAFETY: the rows outlive this connection; SPI only reads them.
        let code = unsafe { pg_sys::SPI_register_trigger_data(rows.data()) };
        if code < 0 {
            return Err(Error::internal(format!("SPI_register_trigger_data failed with {code}")));
        }
        Ok(())
    }

    /// Runs a statement and calls `each` for every row.
    pub fn for_each(
        &self,
        sql: &str,
        params: &mut Params,
        mut each: impl FnMut(&Row<'_>) -> PgResult<()>,
    ) -> PgResult<u64> {
        params.check()?;
        let plan = in_callers_context(|| plans::plan(sql, &mut params.types))?;
        // SAFETY: the plan was made for these parameter types and is held; arrays have its arity.
        unsafe {
            let code = in_callers_context(|| {
                let (values, nulls) = (params.values.as_mut_ptr(), params.nulls.as_ptr());
                let snapshot = match self.visibility {
                    Visibility::Latest => pg_sys::GetLatestSnapshot(),
                    // SPI takes the one that fits.
                    Visibility::Callers | Visibility::Writing => std::ptr::null_mut(),
                };
                pg_sys::SPI_execute_snapshot(
                    plan.as_ptr(),
                    values,
                    nulls,
                    snapshot,
                    std::ptr::null_mut(),
                    self.visibility != Visibility::Writing,
                    true,
                    0,
                )
            });
            if code < 0 {
                return Err(Error::internal(format!("a statement failed with SPI code {code}")));
            }
            let processed = pg_sys::SPI_processed;
            let table = pg_sys::SPI_tuptable;
            if table.is_null() {
                return Ok(processed);
            }
            let outcome = rows(table, processed as usize, |row| {
                each(row)?;
                Ok(ControlFlow::Continue(()))
            });
            pg_sys::SPI_freetuptable(table);
            outcome.map(|_| processed)
        }
    }

    /// Runs a statement for its effect and returns how many rows it touched.
    pub fn execute(&self, sql: &str, params: &mut Params) -> PgResult<u64> {
        self.for_each(sql, params, |_| Ok(()))
    }

    /// Runs a statement for its effect and returns whether it touched a row.
    pub fn changes(&self, sql: &str, params: &mut Params) -> PgResult<bool> {
        Ok(self.execute(sql, params)? > 0)
    }

    /// Runs a statement for its effect alone.
    pub fn run(&self, sql: &str, params: &mut Params) -> PgResult<()> {
        self.execute(sql, params).map(drop)
    }

    /// The first row, decoded.
    pub fn first<T>(
        &self,
        sql: &str,
        params: &mut Params,
        decode: impl FnOnce(&Row<'_>) -> PgResult<T>,
    ) -> PgResult<Option<T>> {
        let mut found = None;
        let mut decode = Some(decode);
        self.for_each(sql, params, |row| {
            if let Some(decode) = decode.take() {
                found = Some(decode(row)?);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// The first row, as a record.
    pub fn row<T: Record>(&self, sql: &str, params: &mut Params) -> PgResult<Option<T>> {
        self.first(sql, params, |row| row.record())
    }

    /// All rows, as records.
    pub fn rows<T: Record>(&self, sql: &str, params: &mut Params) -> PgResult<Vec<T>> {
        self.all(sql, params, |row| row.record())
    }

    /// The row of a statement that always returns one.
    pub fn one<T: Record>(&self, sql: &str, params: &mut Params) -> PgResult<T> {
        self.row(sql, params)?.ok_or_else(|| Error::internal("a statement returned no row"))
    }

    /// Whether there is a row.
    pub fn exists(&self, sql: &str, params: &mut Params) -> PgResult<bool> {
        Ok(self.first(sql, params, |_| Ok(()))?.is_some())
    }

    /// All rows, decoded.
    pub fn all<T>(
        &self,
        sql: &str,
        params: &mut Params,
        mut decode: impl FnMut(&Row<'_>) -> PgResult<T>,
    ) -> PgResult<Vec<T>> {
        let mut found = Vec::new();
        self.for_each(sql, params, |row| {
            found.push(decode(row)?);
            Ok(())
        })?;
        Ok(found)
    }

    /// Reads a large result through a cursor, `batch` rows at a time, freeing each batch: memory
    /// does not grow with the result. Stops when `each` breaks. Interrupts are checked per batch.
    pub fn scan(
        &self,
        sql: &str,
        params: &mut Params,
        batch: usize,
        mut each: impl FnMut(&Row<'_>) -> PgResult<ControlFlow<()>>,
    ) -> PgResult<()> {
        params.check()?;
        let plan = in_callers_context(|| plans::plan(sql, &mut params.types))?;
        // SAFETY: as in `for_each`; the portal is closed below, or by transaction abort.
        unsafe {
            let portal = in_callers_context(|| {
                pg_sys::SPI_cursor_open(
                    std::ptr::null(),
                    plan.as_ptr(),
                    params.values.as_mut_ptr(),
                    params.nulls.as_ptr(),
                    self.visibility != Visibility::Writing,
                )
            });
            // Its name can be guessed: what runs between two fetches cannot close a pinned one.
            pg_sys::PinPortal(portal);
            let mut outcome = Ok(ControlFlow::Continue(()));
            while matches!(outcome, Ok(ControlFlow::Continue(()))) {
                in_callers_context(|| pg_sys::SPI_cursor_fetch(portal, true, batch as c_long));
                let fetched = pg_sys::SPI_processed as usize;
                let table = pg_sys::SPI_tuptable;
                if fetched > 0 {
                    outcome = rows(table, fetched, &mut each);
                }
                pg_sys::SPI_freetuptable(table);
                if fetched < batch {
                    break;
                }
                pgrx::check_for_interrupts!();
            }
            pg_sys::UnpinPortal(portal);
            in_callers_context(|| pg_sys::SPI_cursor_close(portal));
            outcome.map(|_| ())
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // While an ERROR unwinds, PostgreSQL's transaction abort cleans SPI up.
        if !std::thread::panicking() {
            // SAFETY: matches the SPI_connect of this session.
            unsafe { pg_sys::SPI_finish() };
        }
    }
}

/// Calls `each` for the rows of a tuple table until it breaks.
///
/// # Safety
/// `table` must be a live SPI tuple table with at least `count` rows.
unsafe fn rows(
    table: *mut pg_sys::SPITupleTable,
    count: usize,
    mut each: impl FnMut(&Row<'_>) -> PgResult<ControlFlow<()>>,
) -> PgResult<ControlFlow<()>> {
    // SAFETY: the caller vouches for table and count.
    let (tuples, descriptor) =
        unsafe { (std::slice::from_raw_parts((*table).vals, count), (*table).tupdesc) };
    // SAFETY: a descriptor has as many attributes as it says.
    let columns = unsafe { (*descriptor).natts as usize };
    // SAFETY: as above; columns are numbered from 1.
    let types: Vec<pg_sys::Oid> = (1..=columns)
        .map(|column| unsafe { pg_sys::SPI_gettypeid(descriptor, column as c_int) })
        .collect();
    let mut values = vec![pg_sys::Datum::from(0); columns];
    let mut nulls = vec![true; columns];
    for &tuple in tuples {
        // One call takes the whole tuple apart: every call into PostgreSQL is guarded, and a scan
        // has many rows.
        // SAFETY: both arrays have an element for each attribute of the descriptor.
        unsafe {
            pg_sys::heap_deform_tuple(tuple, descriptor, values.as_mut_ptr(), nulls.as_mut_ptr());
        }
        let row = Row { values: &values, nulls: &nulls, types: &types };
        if each(&row)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}
