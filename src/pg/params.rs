//! The parameters of a statement: values with their types, as SPI takes them.
#![allow(unsafe_code)]

use crate::pg::error::{Error, PgResult};
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::ffi::c_char;

/// Parameters `$1, $2, ..` of a statement.
#[derive(Default)]
pub struct Params {
    pub(super) types: Vec<pg_sys::Oid>,
    pub(super) values: Vec<pg_sys::Datum>,
    pub(super) nulls: Vec<c_char>,
    has_nul: bool,
}

/// The parameters of a statement, `$1` first; `None` is NULL. `params![scope; value, ...]` begins with those of
/// a scope or session.
macro_rules! params {
    ($scope:expr; $($value:expr),* $(,)?) => { $scope.params()$(.with($value))* };
    ($($value:expr),* $(,)?) => { $crate::pg::params::Params::new()$(.with($value))* };
}
pub(crate) use params;

impl Params {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value; `None` is NULL.
    pub fn with<T: IntoDatum>(mut self, value: T) -> Self {
        let (type_oid, datum) = (T::type_oid(), value.into_datum());
        let is_text = type_oid == pg_sys::TEXTOID;
        // SAFETY: a datum of that type, which was just made.
        self.has_nul |= is_text && datum.is_some_and(|text| unsafe { has_nul(text) });
        self.raw(type_oid, datum)
    }

    /// Adds a datum of a type that has no Rust mapping of its own.
    pub fn raw(mut self, type_oid: pg_sys::Oid, datum: Option<pg_sys::Datum>) -> Self {
        self.types.push(type_oid);
        self.nulls.push(if datum.is_some() { b' ' } else { b'n' } as c_char);
        self.values.push(datum.unwrap_or(pg_sys::Datum::from(0)));
        self
    }

    /// How many parameters there are: the number of the one added last.
    pub fn len(&self) -> usize {
        self.types.len()
    }

    /// No text of PostgreSQL has a NUL, and much relies on that: an index finds a text with one equal to another
    /// that `=` does not, so that INSERT ... ON CONFLICT inserts it, meets the other, and begins again for ever.
    pub(super) fn check(&self) -> PgResult<()> {
        if self.has_nul {
            let hint = "Leave the character out.";
            return Err(Error::invalid("a text has U+0000, which PostgreSQL cannot store", hint));
        }
        Ok(())
    }
}

/// # Safety
/// `text` is a datum of the type text, not NULL.
unsafe fn has_nul(text: pg_sys::Datum) -> bool {
    // SAFETY: detoasting gives a whole varlena, which is read at once.
    unsafe {
        let text = pg_sys::pg_detoast_datum_packed(text.cast_mut_ptr());
        pgrx::varlena::varlena_to_byte_slice(text).contains(&0)
    }
}
