//! The server's socket: one server per path, for the own user only.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use thiserror::Error;
use tokio::net::{UnixListener, UnixStream};

/// Longest path of a Unix socket in bytes: `sun_path` holds 108 with the ending zero.
pub const MAX_SOCKET_PATH_BYTES: usize = 107;

/// Why there is no socket.
#[derive(Debug, Error)]
pub enum ListenError {
    #[error(
        "socket path \"{}\" has {} bytes, more than the {MAX_SOCKET_PATH_BYTES} a socket can have",
        path.display(),
        path.as_os_str().len()
    )]
    PathTooLong { path: PathBuf },
    #[error("another model server holds \"{}\"", lock.display())]
    AlreadyRunning { lock: PathBuf },
    #[error("cannot use \"{}\": {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// A socket that is listened to, and the lock that makes it ours.
#[derive(Debug)]
pub struct Listener {
    socket: UnixListener,
    /// User that owns the socket: the one this process runs as.
    owner: u32,
    /// The kernel releases the lock when the file is closed, at the latest when the process
    /// ends in whatever way.
    _lock: File,
}

impl Listener {
    /// Listens on `path`, after removing a socket that an ended server left there. A relative
    /// path is taken from the working directory, as the kernel does. Needs a tokio runtime.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn bind(path: &Path) -> Result<Self, ListenError> {
        if path.as_os_str().as_bytes().len() > MAX_SOCKET_PATH_BYTES {
            return Err(ListenError::PathTooLong { path: path.to_owned() });
        }
        let lock = lock(path)?;
        let failed = |source| ListenError::Io { path: path.to_owned(), source };
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let socket = UnixListener::bind(path).map_err(failed)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(failed)?;
        let owner = fs::metadata(path).map_err(failed)?.uid();
        Ok(Self { socket, owner, _lock: lock })
    }

    /// Waits for the next connection of the own user or of root; drops those of others.
    ///
    /// # Errors
    /// The operating system's; the listener stays usable.
    pub async fn accept(&self) -> io::Result<UnixStream> {
        loop {
            let (stream, _) = self.socket.accept().await?;
            let peer = stream.peer_cred()?.uid();
            if peer == self.owner || peer == 0 {
                return Ok(stream);
            }
            crate::log::line(format_args!("refused a connection of user id {peer}"));
        }
    }
}

/// Takes the lock beside the socket. The lock file stays when the server ends: removing it would
/// let two servers hold locks on two files of the same name.
fn lock(socket: &Path) -> Result<File, ListenError> {
    let mut path = socket.as_os_str().to_owned();
    path.push(".lock");
    let path = PathBuf::from(path);
    let file = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(|source| ListenError::Io { path: path.clone(), source })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(ListenError::AlreadyRunning { lock: path }),
        Err(TryLockError::Error(source)) => Err(ListenError::Io { path, source }),
    }
}
