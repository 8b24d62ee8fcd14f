//! Memory contexts of PostgreSQL: which one a call leaves current, and one that a loop frees row by row.
#![allow(unsafe_code)]

use pgrx::pg_sys;

/// Runs one SPI call and returns to the memory context it was called in: SPI leaves its own current,
/// and what callers allocate there stays until SPI_finish.
pub fn in_callers_context<T>(call: impl FnOnce() -> T) -> T {
    // SAFETY: the context that is current now outlives the call; an ERROR resets it itself.
    unsafe {
        let context = pg_sys::CurrentMemoryContext;
        let result = call();
        pg_sys::MemoryContextSwitchTo(context);
        result
    }
}

/// Runs `body` in a memory context of its own that is freed afterwards, so that a loop over many
/// rows does not keep what each of them allocated. What `body` returns must be Rust's.
pub fn scratch<T>(body: impl FnOnce() -> T) -> T {
    // SAFETY: the context is a child of the current one: an ERROR frees it with its parent.
    unsafe {
        let context = pg_sys::AllocSetContextCreateInternal(
            pg_sys::CurrentMemoryContext,
            c"memory_agent row".as_ptr(),
            pg_sys::ALLOCSET_DEFAULT_MINSIZE as usize,
            pg_sys::ALLOCSET_DEFAULT_INITSIZE as usize,
            pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
        );
        let outer = pg_sys::MemoryContextSwitchTo(context);
        let result = body();
        pg_sys::MemoryContextSwitchTo(outer);
        pg_sys::MemoryContextDelete(context);
        result
    }
}
