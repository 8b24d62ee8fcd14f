//! A condition over one row of a table, as a user writes it: PostgreSQL's own parser reads it, and what is kept is
//! what PostgreSQL prints of its tree. So no text of the user's is ever part of a statement.
#![allow(unsafe_code)]

use crate::pg::error::{Error, ErrorReport, PgResult};
use crate::pg::pinned_settings::canonical;
use crate::pg::settings_level::our_search_path;
use pgrx::pg_sys;
use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;
use std::ffi::{CStr, CString};
use std::panic::AssertUnwindSafe;

const HINT: &str = "It is an expression over the columns of one row, such as 'deleted_at IS NULL': without \
                    sub-select, aggregate or set-returning function, and with immutable functions only.";

/// A condition that was read.
pub struct Condition {
    /// As PostgreSQL prints it for a search_path of pg_catalog, with names of columns unqualified.
    pub text: String,
    /// The numbers of the columns in it.
    pub columns: Vec<i16>,
}

/// Reads a condition over the columns of a table, as names and operators are found by the caller's search_path.
pub fn read(relation: pg_sys::Oid, text: &str) -> PgResult<Condition> {
    let text = CString::new(text).map_err(|_| refused("it has a character 0"))?;
    // The statement ends with an error here, so there is no subtransaction to undo.
    PgTryBuilder::new(AssertUnwindSafe(|| {
        // SAFETY: the text lives through the call.
        unsafe { parse(relation, &text) }
    }))
    .catch_others(|caught| {
        let (CaughtError::PostgresError(error)
        | CaughtError::ErrorReport(error)
        | CaughtError::RustPanic { ereport: error, .. }) = &caught;
        match error.sql_error_code() {
            PgSqlErrorCode::ERRCODE_QUERY_CANCELED | PgSqlErrorCode::ERRCODE_ADMIN_SHUTDOWN => {
                caught.rethrow()
            }
            _ => Err(refused(error.message())),
        }
    })
    .execute()
}

fn refused(why: &str) -> ErrorReport {
    Error::invalid(format!("condition: {why}"), HINT)
}

/// # Safety
/// In a transaction; `text` is what is parsed.
unsafe fn parse(relation: pg_sys::Oid, text: &CStr) -> PgResult<Condition> {
    // SAFETY: trees are made and read as PostgreSQL's own callers do, in the current memory context. The table is
    // open, and locked, while its columns are looked at.
    unsafe {
        let parsed =
            pg_sys::raw_parser(text.as_ptr(), pg_sys::RawParseMode::RAW_PARSE_PLPGSQL_EXPR);
        let expression = sole_expression(parsed).ok_or_else(|| refused("it is no expression"))?;
        let state = pg_sys::make_parsestate(std::ptr::null_mut());
        (*state).p_sourcetext = text.as_ptr();
        let lock = pg_sys::AccessShareLock as i32;
        let table = pg_sys::relation_open(relation, lock);
        let item = pg_sys::addRangeTableEntryForRelation(
            state,
            table,
            lock,
            std::ptr::null_mut(),
            false,
            true,
        );
        pg_sys::addNSItemToQuery(state, item, false, true, true);
        let kind = pg_sys::ParseExprKind::EXPR_KIND_CHECK_CONSTRAINT;
        let tree = pg_sys::transformExpr(state, expression, kind);
        let tree = pg_sys::coerce_to_boolean(state, tree, c"the condition".as_ptr());
        pg_sys::assign_expr_collations(state, tree);
        let mut members: *mut pg_sys::Bitmapset = std::ptr::null_mut();
        pg_sys::pull_varattnos(tree, 1, &raw mut members);
        let mut columns = Vec::new();
        let mut member = pg_sys::bms_next_member(members, -1);
        while member >= 0 {
            let number = member + pg_sys::FirstLowInvalidHeapAttributeNumber;
            match i16::try_from(number) {
                Ok(number) if number > 0 => columns.push(number),
                _ => return Err(refused("it names the row as a whole, or a system column")),
            }
            member = pg_sys::bms_next_member(members, member);
        }
        if pg_sys::contain_mutable_functions(tree) {
            return Err(refused(
                "it depends on more than the row: a function in it is not immutable",
            ));
        }
        let names = pg_sys::deparse_context_for((*(*table).rd_rel).relname.data.as_ptr(), relation);
        let path = our_search_path();
        let text = canonical(|| {
            let printed = pg_sys::deparse_expression(tree, names, false, false);
            let printed = CStr::from_ptr(printed).to_str();
            printed.map(str::to_owned).map_err(|_| refused("it is not UTF-8"))
        })?;
        drop(path);
        pg_sys::relation_close(table, pg_sys::NoLock as i32);
        Ok(Condition { text, columns })
    }
}

/// The expression that a parsed text is, if it is one and nothing more.
///
/// # Safety
/// `parsed` is what the parser made in its mode for expressions: one statement, a SELECT without the word.
unsafe fn sole_expression(parsed: *mut pg_sys::List) -> Option<*mut pg_sys::Node> {
    // SAFETY: as the caller says; a node is read as what its tag says it is.
    unsafe {
        let statement = sole::<pg_sys::RawStmt>(parsed)?.stmt;
        if (*statement).type_ != pg_sys::NodeTag::T_SelectStmt {
            return None;
        }
        let select = statement.cast::<pg_sys::SelectStmt>().as_ref()?;
        let lists = [
            select.distinctClause,
            select.fromClause,
            select.groupClause,
            select.windowClause,
            select.valuesLists,
            select.sortClause,
            select.lockingClause,
        ];
        let nodes =
            [select.whereClause, select.havingClause, select.limitOffset, select.limitCount];
        let is_more = lists.iter().any(|list| !list.is_null())
            || nodes.iter().any(|node| !node.is_null())
            || !select.intoClause.is_null()
            || !select.withClause.is_null()
            || select.op != pg_sys::SetOperation::SETOP_NONE;
        if is_more {
            return None;
        }
        let target = sole::<pg_sys::ResTarget>(select.targetList)?;
        let is_expression = target.name.is_null() && target.indirection.is_null();
        (is_expression && !target.val.is_null()).then_some(target.val)
    }
}

/// The only element of a list.
///
/// # Safety
/// The list, if there is one, has pointers to nodes of this type.
unsafe fn sole<'a, T>(list: *mut pg_sys::List) -> Option<&'a T> {
    // SAFETY: as the caller says.
    unsafe {
        let list = list.as_ref().filter(|list| list.length == 1)?;
        (*list.elements).ptr_value.cast::<T>().as_ref()
    }
}
