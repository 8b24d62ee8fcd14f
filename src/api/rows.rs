//! What a function returns that returns rows: pgrx's `TableIterator`, whose type it need not spell out. pgrx would
//! derive SQL from that type, column by column; ours is written by hand in sql/schema, which names the columns.
#![allow(unsafe_code)]

use pgrx::callconv::{CallCx, RetAbi};
use pgrx::iter::TableIterator;
use pgrx::pg_sys;
use pgrx::pgrx_sql_entity_graph::metadata::{
    ArgumentError, ReturnsError, ReturnsRef, SqlMappingRef, SqlTranslatable, TypeOrigin,
};

/// Rows of the columns `T`, a tuple.
pub struct Rows<T>(TableIterator<'static, T>);

impl<T: 'static> Rows<T> {
    pub fn new(rows: impl IntoIterator<Item = T> + 'static) -> Self {
        Self(TableIterator::new(rows))
    }

    pub fn once(row: T) -> Self {
        Self(TableIterator::once(row))
    }
}

// SAFETY: everything is left to the iterator within, with what PostgreSQL gave.
unsafe impl<T> RetAbi for Rows<T>
where
    TableIterator<'static, T>: RetAbi,
{
    type Item = <TableIterator<'static, T> as RetAbi>::Item;
    type Ret = <TableIterator<'static, T> as RetAbi>::Ret;

    unsafe fn check_fcinfo_and_prepare(call: pg_sys::FunctionCallInfo) -> CallCx {
        // SAFETY: as above, and so for the others.
        unsafe { TableIterator::<'static, T>::check_fcinfo_and_prepare(call) }
    }

    fn to_ret(self) -> Self::Ret {
        self.0.to_ret()
    }

    unsafe fn box_ret_in_fcinfo(call: pg_sys::FunctionCallInfo, ret: Self::Ret) -> pg_sys::Datum {
        // SAFETY: as above.
        unsafe { TableIterator::<'static, T>::box_ret_in_fcinfo(call, ret) }
    }

    unsafe fn fill_fcinfo_fcx(&self, call: pg_sys::FunctionCallInfo) {
        // SAFETY: as above.
        unsafe { self.0.fill_fcinfo_fcx(call) }
    }

    unsafe fn move_into_fcinfo_fcx(self, call: pg_sys::FunctionCallInfo) {
        // SAFETY: as above.
        unsafe { self.0.move_into_fcinfo_fcx(call) }
    }

    unsafe fn ret_from_fcinfo_fcx(call: pg_sys::FunctionCallInfo) -> Self::Ret {
        // SAFETY: as above.
        unsafe { TableIterator::<'static, T>::ret_from_fcinfo_fcx(call) }
    }

    unsafe fn finish_call_fcinfo(call: pg_sys::FunctionCallInfo) {
        // SAFETY: as above.
        unsafe { TableIterator::<'static, T>::finish_call_fcinfo(call) }
    }
}

// SAFETY: no SQL is made of it.
unsafe impl<T> SqlTranslatable for Rows<T> {
    const TYPE_IDENT: &'static str = "Rows";
    const TYPE_ORIGIN: TypeOrigin = TypeOrigin::External;
    const ARGUMENT_SQL: Result<SqlMappingRef, ArgumentError> = Err(ArgumentError::Table);
    const RETURN_SQL: Result<ReturnsRef, ReturnsError> =
        Ok(ReturnsRef::One(SqlMappingRef::literal("record")));
}
