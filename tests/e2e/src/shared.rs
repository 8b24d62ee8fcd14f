//! The clusters that the tests of a binary share.
#![allow(unsafe_code)] // atexit

use crate::{Builder, Cluster, files};
use std::sync::OnceLock;

static SHARED: OnceLock<Cluster> = OnceLock::new();
static WITHOUT_WORKER: OnceLock<Cluster> = OnceLock::new();

/// The cluster of this test binary, with the library preloaded: for tests that do not change their
/// server. It is started by the first test that asks and stopped when the process ends.
pub fn shared() -> &'static Cluster {
    start(&SHARED, |builder| builder)
}

/// Another one, in which jobs stay queued: for tests of what is queued, and of rows that nobody else
/// may change.
pub fn shared_without_worker() -> &'static Cluster {
    start(&WITHOUT_WORKER, |builder| builder.setting("memory_agent.worker", "off"))
}

fn start(
    cluster: &'static OnceLock<Cluster>,
    change: impl FnOnce(Builder) -> Builder,
) -> &'static Cluster {
    cluster.get_or_init(|| {
        // Statics are not dropped; the test runner leaves through exit(), which calls this.
        // SAFETY: `remove` is a function without arguments that does not unwind.
        unsafe { libc::atexit(remove) };
        change(Cluster::builder().preload(true)).start()
    })
}

extern "C" fn remove() {
    for cluster in [&SHARED, &WITHOUT_WORKER].into_iter().filter_map(OnceLock::get) {
        cluster.dispose();
    }
    files::remove_initial_data();
}
