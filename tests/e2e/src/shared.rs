//! The clusters that the tests of a binary share.
#![allow(unsafe_code)] // atexit

use crate::{Builder, Cluster, files};
use std::sync::{Mutex, Once, OnceLock, PoisonError};

static SHARED: OnceLock<Cluster> = OnceLock::new();
static WITHOUT_WORKER: OnceLock<Cluster> = OnceLock::new();
static KEPT: Mutex<Vec<&Cluster>> = Mutex::new(Vec::new());

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
        remove_at_exit();
        change(Cluster::builder().preload(true)).start()
    })
}

/// Keeps a cluster that a suite made for all its tests, until the process ends.
pub fn keep(cluster: Cluster) -> &'static Cluster {
    remove_at_exit();
    let cluster: &'static Cluster = Box::leak(Box::new(cluster));
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).push(cluster);
    cluster
}

/// Statics are not dropped; the test runner leaves through exit(), which calls `remove`.
fn remove_at_exit() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: `remove` is a function without arguments that does not unwind.
        unsafe { libc::atexit(remove) };
    });
}

extern "C" fn remove() {
    let kept = std::mem::take(&mut *KEPT.lock().unwrap_or_else(PoisonError::into_inner));
    for cluster in [&SHARED, &WITHOUT_WORKER].into_iter().filter_map(OnceLock::get).chain(kept) {
        cluster.dispose();
    }
    files::remove_initial_data();
}
