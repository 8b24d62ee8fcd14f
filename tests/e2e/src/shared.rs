//! The one cluster that the tests of a binary share.
#![allow(unsafe_code)] // atexit

use crate::{Cluster, files};
use std::sync::OnceLock;

static SHARED: OnceLock<Cluster> = OnceLock::new();

/// The cluster of this test binary, with the library preloaded: for tests that do not change their
/// server. It is started by the first test that asks and stopped when the process ends.
pub fn shared() -> &'static Cluster {
    SHARED.get_or_init(|| {
        // Statics are not dropped; the test runner leaves through exit(), which calls this.
        // SAFETY: `remove` is a function without arguments that does not unwind.
        unsafe { libc::atexit(remove) };
        Cluster::builder().preload(true).start()
    })
}

extern "C" fn remove() {
    if let Some(cluster) = SHARED.get() {
        cluster.dispose();
    }
    files::remove_initial_data();
}
