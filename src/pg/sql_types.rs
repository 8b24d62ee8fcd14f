//! SQL types that pgrx has no lossless mapping for: pgvector's `vector`, and `jsonb` kept as text
//! (a number such as 1e400 or 1.10 survives, which it does not in a `serde_json::Value`); numbers of more than one
//! width.
#![allow(unsafe_code)]

use crate::pg::error::{Error, PgResult};
use pgrx::callconv::{Arg, ArgAbi, BoxRet, FcInfo};
use pgrx::datum::Datum;
use pgrx::pg_sys;
use pgrx::prelude::*;
use serde_json::{Map, Value};
use std::ffi::CStr;

/// A pgvector `vector`: its components, at least one, all finite.
#[derive(Clone, Debug, PartialEq)]
pub struct Vector(pub Vec<f32>);

/// pgvector's on-disk header: varlena length, `int16 dim`, `int16 unused`.
const VECTOR_HEADER_BYTES: usize = 8;

impl IntoDatum for Vector {
    /// A datum of type `vector`, in the current memory context.
    fn into_datum(self) -> Option<pg_sys::Datum> {
        let size = VECTOR_HEADER_BYTES + self.0.len() * size_of::<f32>();
        // SAFETY: palloc0 returns `size` zeroed, maximally aligned bytes or raises an ERROR; the
        // header and the components written below fit in them.
        unsafe {
            let start = pg_sys::palloc0(size).cast::<u8>();
            pgrx::set_varsize_4b(start.cast(), size as i32);
            start.add(4).cast::<i16>().write(self.0.len() as i16);
            std::ptr::copy_nonoverlapping(
                self.0.as_ptr(),
                start.add(VECTOR_HEADER_BYTES).cast::<f32>(),
                self.0.len(),
            );
            Some(pg_sys::Datum::from(start))
        }
    }

    /// pgvector's type has no fixed OID; without the extension there is none.
    fn type_oid() -> pg_sys::Oid {
        crate::pg::catalog::vector_type().map_or(pg_sys::InvalidOid, |vector| vector.oid)
    }
}

impl FromDatum for Vector {
    unsafe fn from_polymorphic_datum(
        datum: pg_sys::Datum,
        is_null: bool,
        _type_oid: pg_sys::Oid,
    ) -> Option<Self> {
        if is_null {
            return None;
        }
        // SAFETY: the datum is a non-null vector, a varlena; detoasting gives it a 4-byte header.
        unsafe {
            let original = datum.cast_mut_ptr::<pg_sys::varlena>();
            let detoasted = pg_sys::pg_detoast_datum(original);
            let start = detoasted.cast::<u8>();
            let dimension = start.add(4).cast::<i16>().read().max(0) as usize;
            let room = (pgrx::varsize_4b(detoasted) as usize).saturating_sub(VECTOR_HEADER_BYTES)
                / size_of::<f32>();
            let values = std::slice::from_raw_parts(
                start.add(VECTOR_HEADER_BYTES).cast::<f32>(),
                dimension.min(room),
            )
            .to_vec();
            if detoasted != original {
                pg_sys::pfree(detoasted.cast());
            }
            Some(Self(values))
        }
    }
}

/// Lets a type be an argument and a result of SQL functions.
macro_rules! argument_and_result {
    ($type:ident, $name:literal, $null:expr) => {
        pgrx::impl_sql_translatable!($type, $name);

        // SAFETY: the argument slot of a parameter of this type holds such a datum.
        unsafe impl<'fcx> ArgAbi<'fcx> for $type {
            unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
                // SAFETY: as above; a NULL is handled by Option.
                unsafe { arg.unbox_arg_using_from_datum().unwrap_or($null) }
            }
        }

        // SAFETY: into_datum gives a datum of this type in the caller's context.
        unsafe impl BoxRet for $type {
            unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> Datum<'fcx> {
                match self.into_datum() {
                    // SAFETY: the datum lives in the context of the call.
                    Some(datum) => unsafe { fcinfo.return_raw_datum(datum) },
                    None => fcinfo.return_null(),
                }
            }
        }
    };
}

/// A whole number that drivers send as `bigint`. Functions of 0.2.0, which the library serves too, take an `integer`.
/// What an integer has no room for becomes the largest or smallest one, which no argument may be.
pub struct Whole(pub i32);

impl FromDatum for Whole {
    const GET_TYPOID: bool = true;

    unsafe fn from_polymorphic_datum(
        datum: pg_sys::Datum,
        is_null: bool,
        type_oid: pg_sys::Oid,
    ) -> Option<Self> {
        let narrow = |value: i64| {
            i32::try_from(value).unwrap_or(if value < 0 { i32::MIN } else { i32::MAX })
        };
        // SAFETY: the datum is of this type; all are passed by value.
        unsafe {
            match type_oid {
                pg_sys::INT4OID => i32::from_datum(datum, is_null).map(Self),
                // Under its old name, an argument is told apart by this type (sql/schema).
                pg_sys::FLOAT8OID => {
                    f64::from_datum(datum, is_null).map(|value| Self(narrow(value as i64)))
                }
                _ => i64::from_datum(datum, is_null).map(narrow).map(Self),
            }
        }
    }
}

/// A share or a weight that drivers send as `double precision`; functions of 0.2.0 take a `real`.
pub struct Fraction(pub f32);

impl FromDatum for Fraction {
    const GET_TYPOID: bool = true;

    unsafe fn from_polymorphic_datum(
        datum: pg_sys::Datum,
        is_null: bool,
        type_oid: pg_sys::Oid,
    ) -> Option<Self> {
        // SAFETY: the datum is of this type, both of which are passed by value.
        unsafe {
            match type_oid {
                pg_sys::FLOAT4OID => f32::from_datum(datum, is_null).map(Self),
                _ => f64::from_datum(datum, is_null).map(|value| Self(value as f32)),
            }
        }
    }
}

/// Lets a type be an argument.
macro_rules! argument {
    ($type:ident, $name:literal, $null:expr) => {
        pgrx::impl_sql_translatable!($type, arg_only = $name);

        // SAFETY: the argument slot of a parameter of this type holds such a datum.
        unsafe impl<'fcx> ArgAbi<'fcx> for $type {
            unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
                // SAFETY: as above; a NULL is handled by Option.
                unsafe { arg.unbox_arg_using_from_datum().unwrap_or($null) }
            }
        }
    };
}

argument!(Whole, "bigint", Self(0));
argument!(Fraction, "double precision", Self(0.0));
argument_and_result!(Vector, "vector", Self(Vec::new()));
argument_and_result!(JsonbText, "jsonb", Self(String::from("null")));

/// A `jsonb` value as PostgreSQL prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonbText(pub String);

impl JsonbText {
    /// An object with further keys, which win. It stays text, so that numbers keep their digits: of equal keys in a
    /// text, jsonb takes the last.
    pub fn with_keys(&self, keys: Map<String, Value>) -> Self {
        let own = self.0.trim().strip_suffix('}').unwrap_or("{");
        let comma = if own.trim_end().ends_with('{') { "" } else { ", " };
        let keys = Value::Object(keys).to_string();
        Self(format!("{own}{comma}{}", keys.strip_prefix('{').unwrap_or("}")))
    }
}

impl FromDatum for JsonbText {
    unsafe fn from_polymorphic_datum(
        datum: pg_sys::Datum,
        is_null: bool,
        _type_oid: pg_sys::Oid,
    ) -> Option<Self> {
        if is_null {
            return None;
        }
        // SAFETY: the datum is a non-null jsonb; jsonb_out returns a palloc'ed C string in the
        // server encoding, which is UTF-8 (checked at CREATE EXTENSION).
        unsafe {
            let detoasted = pg_sys::pg_detoast_datum_packed(datum.cast_mut_ptr());
            let text = pgrx::direct_function_call::<&CStr>(
                pg_sys::jsonb_out,
                &[Some(pg_sys::Datum::from(detoasted))],
            )?;
            Some(Self(text.to_string_lossy().into_owned()))
        }
    }
}

impl IntoDatum for JsonbText {
    fn into_datum(self) -> Option<pg_sys::Datum> {
        let text = std::ffi::CString::new(self.0).ok()?;
        // SAFETY: jsonb_in reads a C string and raises an ERROR if it is not valid jsonb.
        unsafe {
            pgrx::direct_function_call_as_datum(
                pg_sys::jsonb_in,
                &[Some(pg_sys::Datum::from(text.as_ptr()))],
            )
        }
    }

    fn type_oid() -> pg_sys::Oid {
        pg_sys::JSONBOID
    }
}

/// Refuses NULL elements of a text array.
pub fn without_nulls(values: Vec<Option<String>>) -> PgResult<Vec<String>> {
    values
        .into_iter()
        .map(|value| value.ok_or_else(|| Error::null("an array element is NULL", "Leave it out.")))
        .collect()
}
