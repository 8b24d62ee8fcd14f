//! A client that blocks, for tests, benchmarks, command-line tools and the supervisor's question whether its
//! server answers. Other processes of PostgreSQL do not use it: they must stay responsive to signals while they
//! wait.

use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::engine::session::{Session, SessionError};
use crate::protocol::{Request, Response};

/// How long to wait for the next byte of an answer, unless set otherwise.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// One connection to a model server.
#[derive(Debug)]
pub struct BlockingClient {
    stream: UnixStream,
    session: Session,
}

impl BlockingClient {
    /// Connects to the socket at `path`.
    ///
    /// # Errors
    /// The operating system's.
    pub fn connect(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::over(UnixStream::connect(path)?, DEFAULT_TIMEOUT)
    }

    /// Speaks over an open connection.
    ///
    /// * `timeout`: how long the next byte may take, in either direction.
    ///
    /// # Errors
    /// If `timeout` is zero.
    pub fn over(stream: UnixStream, timeout: Duration) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        Ok(Self { stream, session: Session::default() })
    }

    /// Sends a request and waits for its answer; answers to earlier ones are passed over.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn call(&mut self, request: &Request) -> Result<Response, SessionError> {
        let asked = self.send(request)?;
        loop {
            let (answered, response) = self.receive()?;
            if answered == asked {
                return Ok(response);
            }
        }
    }

    /// Sends a request without waiting and returns its id.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn send(&mut self, request: &Request) -> Result<u64, SessionError> {
        let id = self.session.ask(request)?;
        self.session.send(&mut self.stream)?;
        if self.session.is_sending() { Err(timed_out()) } else { Ok(id) }
    }

    /// Waits for the next answer and returns it with its request's id.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn receive(&mut self) -> Result<(u64, Response), SessionError> {
        loop {
            if let Some(answer) = self.session.answer()? {
                return Ok(answer);
            }
            if !self.session.receive(&mut self.stream)? {
                return Err(timed_out());
            }
        }
    }
}

fn timed_out() -> SessionError {
    SessionError::Io(ErrorKind::TimedOut.into())
}
