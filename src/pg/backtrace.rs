//! Stack traces stay out of errors. pgrx captures one with every error where the server's environment has
//! RUST_BACKTRACE, and puts it into the DETAIL that the client reads; it names files of the machine that
//! built the library.
#![allow(unsafe_code)]

use std::backtrace::Backtrace;
use std::env;

/// Decides over RUST_BACKTRACE, for errors, and in the standard library.
const SWITCH: &str = "RUST_LIB_BACKTRACE";

/// Switches stack traces off for the life of the process and of those it forks. To be called before the
/// first error.
pub fn switch_off() {
    let given = env::var_os(SWITCH);
    // SAFETY: PostgreSQL loads libraries in processes of one thread.
    unsafe { env::set_var(SWITCH, "0") };
    // The standard library asks the environment at the first capture, and keeps the answer. Each library has
    // a copy of its own: others, and processes that are started from here, find the environment as it was.
    let _ = Backtrace::capture();
    // SAFETY: as above.
    unsafe {
        match given {
            Some(value) => env::set_var(SWITCH, value),
            None => env::remove_var(SWITCH),
        }
    }
}
