//! Whether the library was in shared_preload_libraries when the server started.

use std::sync::atomic::{AtomicBool, Ordering};

static PRELOADED: AtomicBool = AtomicBool::new(false);

/// To be called in the postmaster, which loads the library before there is any other process.
pub fn note() {
    PRELOADED.store(true, Ordering::Relaxed);
}

/// Whether the processes of this library are the postmaster's, or have to be started on demand.
pub fn is_preloaded() -> bool {
    PRELOADED.load(Ordering::Relaxed)
}
