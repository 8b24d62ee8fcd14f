//! What PostgreSQL asks before a setting takes a value, beside its own checks of types and ranges.
#![allow(unsafe_code)] // check hooks are C callbacks

use memory_agent_core::limits;
use pgrx::pg_sys;
use std::ffi::CStr;

/// PostgreSQL's range check lets NaN through; a NaN weight would poison every score.
#[pgrx::pg_guard]
pub unsafe extern "C-unwind" fn refuse_nan(
    new_value: *mut f64,
    _extra: *mut *mut std::ffi::c_void,
    _source: pg_sys::GucSource::Type,
) -> bool {
    // SAFETY: PostgreSQL passes a valid pointer to the value that was parsed.
    !unsafe { *new_value }.is_nan()
}

/// Lists of phrases are looked through with every message, and stored values come back with each call.
#[pgrx::pg_guard]
pub unsafe extern "C-unwind" fn refuse_long(
    new_value: *mut *mut std::ffi::c_char,
    _extra: *mut *mut std::ffi::c_void,
    _source: pg_sys::GucSource::Type,
) -> bool {
    // SAFETY: PostgreSQL passes a valid pointer to the value, a C string or NULL; it copies the texts,
    // which live forever.
    unsafe {
        let is_short = (*new_value).is_null()
            || CStr::from_ptr(*new_value).to_bytes().len() <= limits::SETTING_BYTES;
        if !is_short {
            pg_sys::GUC_check_errdetail_string =
                c"It has more than 10000 bytes.".as_ptr().cast_mut();
        }
        is_short
    }
}

/// An address without a scheme is invalid, and would only be noticed at the first call.
#[pgrx::pg_guard]
pub unsafe extern "C-unwind" fn refuse_no_url(
    new_value: *mut *mut std::ffi::c_char,
    extra: *mut *mut std::ffi::c_void,
    source: pg_sys::GucSource::Type,
) -> bool {
    // SAFETY: as in `refuse_long`, which is called with what PostgreSQL passed.
    unsafe {
        if !(*new_value).is_null() {
            let address = CStr::from_ptr(*new_value).to_bytes().trim_ascii().to_ascii_lowercase();
            let has_scheme = address.starts_with(b"http://") || address.starts_with(b"https://");
            if !address.is_empty() && !has_scheme {
                pg_sys::GUC_check_errdetail_string =
                    c"It must begin with http:// or https://.".as_ptr().cast_mut();
                return false;
            }
        }
        refuse_long(new_value, extra, source)
    }
}
