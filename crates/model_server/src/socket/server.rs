//! The server's life: takes the socket, accepts connections, ends with its supervisor.

use std::convert::Infallible;
use std::io;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::runtime;

use crate::log;
use crate::process;
use crate::socket::budget::ByteBudget;
use crate::socket::connection;
use crate::socket::listener::{ListenError, Listener};
use crate::work::service::{Service, ServiceOptions};

/// Threads that tokenise large requests and load models.
const PLANNING_THREADS: usize = 4;

/// Pause after a failed accept: the usual reason, no free descriptor, does not go at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Settings of a server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    pub socket: PathBuf,
    pub service: ServiceOptions,
    /// Most bytes of requests held at once.
    pub queue_bytes: usize,
    /// Directories of models to load at once.
    pub preload: Vec<PathBuf>,
    /// A pipe whose end means the end of the server.
    pub lifetime_fd: RawFd,
    /// Process id of the supervisor, if known.
    pub parent: Option<u32>,
}

/// Why a server could not start.
#[derive(Debug, Error)]
pub enum ServerError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("cannot watch descriptor {descriptor} for the supervisor's end: {source}")]
    Lifetime { descriptor: RawFd, source: io::Error },
    #[error("cannot start: {0}")]
    Io(#[from] io::Error),
}

/// Serves until the process ends: by a signal, with its supervisor, or when the lifetime pipe
/// closes. Must be called once, from the main thread, before other threads start.
///
/// # Errors
/// [`ServerError`] if the server cannot start.
pub fn run(options: ServerOptions) -> Result<Infallible, ServerError> {
    log::hide_panic_messages();
    process::die_with_parent(options.parent)?;
    process::forbid_dumps()?;
    process::restrict_new_files();
    process::raise_open_file_limit();
    process::map_large_allocations();
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(PLANNING_THREADS)
        .build()?;
    runtime.block_on(serve(options))
}

async fn serve(options: ServerOptions) -> Result<Infallible, ServerError> {
    let listener = Listener::bind(&options.socket)?;
    let socket = options.socket.clone();
    process::end_with_pipe(options.lifetime_fd, move || {
        log::line(format_args!("the supervisor is gone, ending"));
        // Clients then see at once that there is no server. The next server copes without.
        let _ = std::fs::remove_file(&socket);
    })
    .map_err(|source| ServerError::Lifetime { descriptor: options.lifetime_fd, source })?;
    let service = Service::start(options.service)?;
    log::line(format_args!(
        "version {} listens on \"{}\"",
        env!("CARGO_PKG_VERSION"),
        options.socket.display()
    ));
    let preloading = Arc::clone(&service);
    tokio::task::spawn_blocking(move || preloading.preload(&options.preload));

    let budget = ByteBudget::new(options.queue_bytes);
    loop {
        match listener.accept().await {
            Ok(stream) => {
                let (service, budget) = (Arc::clone(&service), Arc::clone(&budget));
                tokio::spawn(connection::serve(stream, service, budget));
            }
            Err(error) => {
                log::line(format_args!("cannot accept a connection: {error}"));
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
