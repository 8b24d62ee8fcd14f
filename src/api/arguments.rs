//! The sizes of a call's arguments, looked at before PostgreSQL's values become Rust's: an array of a
//! hundred million elements must not be copied to find out that it is too long. The limits are a table in
//! the core crate, which docs/limits.md repeats.
#![allow(unsafe_code)]

use crate::pg::catalog::text_of;
use crate::pg::error::{Error, ErrorReport, PgResult};
use crate::settings::Content;
use memory_agent_core::limits::{self, Limit};
use pgrx::callconv::{Arg, ArgAbi};
use pgrx::pg_catalog::pg_proc::PgProc;
use pgrx::prelude::*;
use std::ffi::CStr;

/// JSON text without its numbers has at most so many bytes for each byte of jsonb: an escaped control
/// character has.
const TEXT_PER_JSONB: usize = 6;
/// jsonb has at most so many bytes for each byte of its text: a number of one digit has, with its header.
const JSONB_PER_TEXT: usize = 8;

/// No argument is larger than it may be. It stands first among the parameters of each function of the SQL
/// surface, so the others are read only if that holds; else the call ends with an ERROR (22023).
pub struct WithinLimits;

// SAFETY: it takes no datum: a virtual argument, like FunctionCallInfo, whose value it is made from.
unsafe impl<'fcx> ArgAbi<'fcx> for WithinLimits {
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
        // SAFETY: the call's own information, valid while its arguments are read.
        let checked = unsafe { check(pg_sys::FunctionCallInfo::unbox_arg_unchecked(arg)) };
        if let Err(report) = checked {
            report.report(PgLogLevel::ERROR);
        }
        Self
    }

    fn is_virtual_arg() -> bool {
        true
    }
}

// The functions are declared by hand in sql/schema; this type is in none of them.
pgrx::impl_sql_translatable!(WithinLimits, arg_only = "internal");

/// Compares every argument that is given with its row of the table.
///
/// # Safety
/// `call` is that of a function of ours, with the arguments that it is declared with.
unsafe fn check(call: pg_sys::FunctionCallInfo) -> PgResult<()> {
    // SAFETY: PostgreSQL fills both in for every call; `nargs` values follow.
    let (oid, arguments) =
        unsafe { ((*(*call).flinfo).fn_oid, (*call).args.as_slice((*call).nargs.max(0) as usize)) };
    let Some(function) = PgProc::new(oid) else { return Ok(()) };
    // SAFETY: the name of a function that exists, copied at once.
    let function_name = unsafe { text_of(pg_sys::get_func_name(oid)) };
    let Some(function_name) = function_name else { return Ok(()) };
    let (names, types) = (function.proargnames(), function.proargtypes());
    for ((name, kind), argument) in names.iter().zip(types).zip(arguments) {
        let Some(name) = name.as_deref().filter(|_| !argument.isnull) else { continue };
        let Some(row) = limits::of_argument(&function_name, name) else { continue };
        // The relation of memory_attach is an oid, that of memory_detach a text.
        // SAFETY: a look-up of a type that a function has.
        if unsafe { pg_sys::get_typlen(kind) } != -1 {
            continue;
        }
        // SAFETY: a datum of that type.
        unsafe { check_one(name, kind, argument.value, row.limit)? };
    }
    Ok(())
}

/// # Safety
/// `datum` is a value of the type `kind`, a varlena, not NULL.
unsafe fn check_one(
    name: &str,
    kind: pg_sys::Oid,
    datum: pg_sys::Datum,
    limit: Limit,
) -> PgResult<()> {
    let (Some(most), elements) = limit.most(Content::current().max_content_bytes) else {
        return Ok(());
    };
    // SAFETY: the caller looked that the type is a varlena; nothing is detoasted here.
    let stored = unsafe { pg_sys::toast_raw_datum_size(datum) }.saturating_sub(pg_sys::VARHDRSZ);
    match kind {
        pg_sys::JSONBOID => {
            if stored > most.saturating_mul(JSONB_PER_TEXT).saturating_add(64) {
                return within(name, stored, most, limit);
            }
            // SAFETY: a jsonb of bounded size.
            let numbers = unsafe { bytes_of_numbers(datum, most) };
            within(name, numbers, most, limit)?;
            if stored.saturating_mul(TEXT_PER_JSONB).saturating_add(numbers) <= most {
                return Ok(());
            }
            // SAFETY: a jsonb of bounded size, as its text.
            within(name, unsafe { printed_bytes(datum) }, most, limit)
        }
        pg_sys::TEXTARRAYOID | pg_sys::UUIDARRAYOID => {
            // Each element has a header of its own and is aligned.
            let around = elements.unwrap_or(0).saturating_mul(8) + 64;
            within(name, stored.saturating_sub(around), most, limit)?;
            // SAFETY: an array of bounded size; NULLs take no bytes, so they are counted.
            let count = unsafe { count_elements(datum) };
            match elements {
                Some(elements) if count > elements => Err(Error::invalid(
                    format!("{name} has {count} elements, expected at most {elements}"),
                    HINT,
                )),
                _ => Ok(()),
            }
        }
        _ => within(name, stored, most, limit),
    }
}

const HINT: &str = "docs/limits.md lists how large each argument may be.";

fn within(name: &str, bytes: usize, most: usize, limit: Limit) -> Result<(), ErrorReport> {
    if bytes <= most {
        return Ok(());
    }
    let hint = match limit {
        Limit::Content => {
            "Split the text, or raise memory_agent.max_content_bytes (in postgresql.conf, or what memory_configure stored)."
        }
        _ => HINT,
    };
    let problem = format!("{name} is too long: {bytes} bytes, expected at most {most}");
    Err(Error::invalid(problem, hint))
}

/// The bytes that the numbers of a jsonb are printed in, or more than `most` as soon as they are: 1e131071 is
/// stored in 16 bytes.
///
/// # Safety
/// `datum` is a jsonb, not NULL.
unsafe fn bytes_of_numbers(datum: pg_sys::Datum, most: usize) -> usize {
    use pg_sys::JsonbIteratorToken::{WJB_DONE, WJB_ELEM, WJB_VALUE};
    // SAFETY: the iterator walks a whole jsonb, and fills the value that it returns WJB_VALUE or WJB_ELEM for.
    unsafe {
        let jsonb = pg_sys::pg_detoast_datum(datum.cast_mut_ptr()).cast::<pg_sys::Jsonb>();
        let mut iterator = pg_sys::JsonbIteratorInit(&raw mut (*jsonb).root);
        let mut value: pg_sys::JsonbValue = std::mem::zeroed();
        let mut bytes = 0usize;
        loop {
            let token = pg_sys::JsonbIteratorNext(&raw mut iterator, &raw mut value, false);
            if token == WJB_DONE || bytes > most {
                return bytes;
            }
            if matches!(token, WJB_VALUE | WJB_ELEM) && value.type_ == pg_sys::jbvType::jbvNumeric {
                pgrx::check_for_interrupts!();
                let number = Some(pg_sys::Datum::from(value.val.numeric));
                let printed = pgrx::direct_function_call::<&CStr>(pg_sys::numeric_out, &[number]);
                if let Some(text) = printed {
                    bytes = bytes.saturating_add(text.to_bytes().len());
                    pg_sys::pfree(text.as_ptr().cast_mut().cast());
                }
            }
        }
    }
}

/// # Safety
/// `datum` is a jsonb, not NULL.
unsafe fn printed_bytes(datum: pg_sys::Datum) -> usize {
    // SAFETY: jsonb_out returns a palloc'ed C string, which is given back.
    unsafe {
        let jsonb = pg_sys::Datum::from(pg_sys::pg_detoast_datum(datum.cast_mut_ptr()));
        let printed = pgrx::direct_function_call::<&CStr>(pg_sys::jsonb_out, &[Some(jsonb)]);
        printed.map_or(0, |text| {
            let bytes = text.to_bytes().len();
            pg_sys::pfree(text.as_ptr().cast_mut().cast());
            bytes
        })
    }
}

/// # Safety
/// `datum` is an array, not NULL.
unsafe fn count_elements(datum: pg_sys::Datum) -> usize {
    // SAFETY: detoasting gives a whole array, whose dimensions follow its header.
    unsafe {
        let array = pg_sys::pg_detoast_datum(datum.cast_mut_ptr()).cast::<pg_sys::ArrayType>();
        let dimensions = array.add(1).cast::<i32>();
        pg_sys::ArrayGetNItems((*array).ndim, dimensions).max(0) as usize
    }
}
